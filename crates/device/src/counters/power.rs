//! How an NVMe drive saves power: its power states, the one it is in, and when it changes them by itself.
//!
//! Layout: NVM Express Base Specification 2.0, 5.17.2.1, Figure 275 (Identify Controller) and Figure 276 (Power State
//! Descriptor); 5.27.1.2 (Power Management), 5.27.1.9 (Autonomous Power State Transition), 8.15 (what states are).

use super::passthru::{Answer, IDENTIFY_BYTES};

/// Number of the last power state, in Identify Controller.
const LAST_STATE_AT: usize = 263;
/// Attributes of the drive's own changes of state; bit 0: it makes such.
const SLEEP_SUPPORT_AT: usize = 265;
/// The temperature from which the drive warns, and the one beyond which it may come to harm, in kelvin.
const WARNING_KELVIN_AT: usize = 266;
const CRITICAL_KELVIN_AT: usize = 268;
const STATES_AT: usize = 2048;
const STATE_BYTES: usize = 32;
/// The field has 5 bits.
const STATES_MAX: usize = 32;
/// Of a state's flags: power in tenths of a milliwatt rather than in hundredths of a watt; no I/O is done in it.
const FLAG_FINE_SCALE: u8 = 1;
const FLAG_NON_OPERATIONAL: u8 = 2;

/// A power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerState {
    /// Power that it takes at most, in milliwatts; 0: not reported.
    pub max_power_mw: u32,
    /// I/O is done in it; otherwise it is left first.
    pub is_operational: bool,
    /// Time to enter it, at most, in microseconds; 0: not reported.
    pub entry_us: u32,
    /// Time to leave it, at most, in microseconds; 0: not reported.
    pub exit_us: u32,
}

/// A change of state that the drive makes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state that it leaves.
    pub from: u8,
    /// The state that it enters.
    pub to: u8,
    /// After so long without I/O, in milliseconds.
    pub idle_ms: u32,
}

/// What Identify Controller says of power and of heat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerStates {
    /// All, from number 0 on, which takes the most power.
    pub states: Vec<PowerState>,
    /// It can change its state by itself.
    pub can_sleep: bool,
    /// Temperature from which it warns, in whole degrees Celsius; `None`: not reported.
    pub warning_celsius: Option<i32>,
    /// Temperature beyond which it may come to harm, likewise.
    pub critical_celsius: Option<i32>,
}

/// The little-endian number in `N` bytes from `at`, as far as there are any.
fn field<const N: usize>(data: &[u8], at: usize) -> u32 {
    data.iter().skip(at).take(N).rev().fold(0, |sum, &byte| (sum << 8) | u32::from(byte))
}

impl PowerStates {
    /// Reads the data of Identify Controller; `None` where they are too short. Any others have a reading.
    pub(super) fn parse(data: &[u8]) -> Option<Self> {
        if data.len() < IDENTIFY_BYTES {
            return None;
        }
        let states = (usize::from(data[LAST_STATE_AT]) + 1).min(STATES_MAX);
        let state = |number: usize| {
            let at = STATES_AT + number * STATE_BYTES;
            let (power, flags) = (field::<2>(data, at), data[at + 3]);
            PowerState {
                max_power_mw: if flags & FLAG_FINE_SCALE != 0 { power / 10 } else { power * 10 },
                is_operational: flags & FLAG_NON_OPERATIONAL == 0,
                entry_us: field::<4>(data, at + 4),
                exit_us: field::<4>(data, at + 8),
            }
        };
        let celsius = |at| match field::<2>(data, at) {
            0 => None,
            // As other tools do, and as the health page is read.
            kelvin => Some(kelvin as i32 - 273),
        };
        Some(Self {
            states: (0..states).map(state).collect(),
            can_sleep: data[SLEEP_SUPPORT_AT] & 1 != 0,
            warning_celsius: celsius(WARNING_KELVIN_AT),
            critical_celsius: celsius(CRITICAL_KELVIN_AT),
        })
    }
}

/// The state that the drive is in, from the answer to Get Features (Power Management).
pub(super) fn current(answer: &Answer) -> u8 {
    (answer.result & 0x1F) as u8
}

/// When the drive changes its state by itself, from the answer to Get Features (Autonomous Power State Transition): none
/// where that is off. An idle time of 0 stands for never.
pub(super) fn transitions(answer: &Answer) -> Vec<Transition> {
    if answer.result & 1 == 0 {
        return Vec::new();
    }
    let entry = |(from, entry): (usize, &[u8])| {
        let (to, idle_ms) = ((field::<1>(entry, 0) >> 3) as u8, field::<3>(entry, 1));
        (idle_ms != 0).then_some(Transition { from: from as u8, to, idle_ms })
    };
    answer.data.chunks_exact(8).take(STATES_MAX).enumerate().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A drive with three states, of which the last is sleep.
    fn identified() -> Vec<u8> {
        let mut data = vec![0; IDENTIFY_BYTES];
        data[LAST_STATE_AT] = 2;
        data[SLEEP_SUPPORT_AT] = 1;
        data[266..268].copy_from_slice(&343_u16.to_le_bytes());
        for (number, (power, flags, entry, exit)) in
            [(1200_u16, 0, 0_u32, 0_u32), (800, 0, 5, 6), (500, 3, 2000, 8000)].into_iter().enumerate()
        {
            let at = 2048 + 32 * number;
            data[at..at + 2].copy_from_slice(&power.to_le_bytes());
            data[at + 3] = flags;
            data[at + 4..at + 8].copy_from_slice(&entry.to_le_bytes());
            data[at + 8..at + 12].copy_from_slice(&exit.to_le_bytes());
        }
        data
    }

    #[test]
    fn the_fields_come_from_their_places() {
        let state = |max_power_mw, is_operational, entry_us, exit_us| PowerState {
            max_power_mw,
            is_operational,
            entry_us,
            exit_us,
        };
        let expected = PowerStates {
            states: vec![state(12_000, true, 0, 0), state(8000, true, 5, 6), state(50, false, 2000, 8000)],
            can_sleep: true,
            warning_celsius: Some(70),
            critical_celsius: None,
        };
        assert_eq!(PowerStates::parse(&identified()), Some(expected));
        assert_eq!(PowerStates::parse(&identified()[..4095]), None);
    }

    #[test]
    fn its_own_changes_of_state_are_those_with_a_time() {
        let mut data = vec![0; 256];
        data[..8].copy_from_slice(&((3_u64 << 3) | (100_u64 << 8)).to_le_bytes());
        data[24..32].copy_from_slice(&((4_u64 << 3) | (2000_u64 << 8)).to_le_bytes());
        // A state without a time is none.
        data[8..16].copy_from_slice(&(3_u64 << 3).to_le_bytes());
        let expected = [Transition { from: 0, to: 3, idle_ms: 100 }, Transition { from: 3, to: 4, idle_ms: 2000 }];
        assert_eq!(transitions(&Answer { data: data.clone(), result: 1 }), expected);
        assert_eq!(transitions(&Answer { data, result: 0 }), [], "switched off");
        assert_eq!(current(&Answer { data: Vec::new(), result: 0xE4 }), 4, "the hint of the workload is not the state");
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_reading(
            data in proptest::collection::vec(any::<u8>(), 0..IDENTIFY_BYTES + 9), result in any::<u32>(),
        ) {
            let read = PowerStates::parse(&data);
            prop_assert_eq!(read.is_some(), data.len() >= IDENTIFY_BYTES);
            prop_assert!(read.is_none_or(|read| (1..=STATES_MAX).contains(&read.states.len())));
            let own = transitions(&Answer { data, result });
            prop_assert!(own.iter().all(|one| one.idle_ms > 0));
        }
    }
}
