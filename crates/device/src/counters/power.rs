//! Power management of an NVMe drive: its power states, the current one, and the transitions that it makes by itself.
//!
//! Layout: NVM Express Base Specification 2.0, 5.17.2.1, Figure 275 (Identify Controller) and Figure 276 (Power State
//! Descriptor); 5.27.1.2 (Power Management), 5.27.1.9 (Autonomous Power State Transition), 8.15 (what states are).

use super::passthru::{Answer, IDENTIFY_BYTES};

/// Offset of the number of the last power state in Identify Controller.
const LAST_STATE_AT: usize = 263;
/// Offset of the attributes of autonomous transitions; bit 0: supported.
const SLEEP_SUPPORT_AT: usize = 265;
/// Offsets of the warning temperature and of the critical one, in kelvin.
const WARNING_KELVIN_AT: usize = 266;
const CRITICAL_KELVIN_AT: usize = 268;
const STATES_AT: usize = 2048;
const STATE_BYTES: usize = 32;
/// Count of power states that a field of 5 bits can number.
const STATES_MAX: usize = 32;
/// Flags of a power state: its power is in units of 0.1 mW instead of 10 mW; it does no I/O.
const FLAG_FINE_SCALE: u8 = 1;
const FLAG_NON_OPERATIONAL: u8 = 2;

/// A power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerState {
    /// Highest power, in milliwatts; 0: not reported.
    pub max_power_mw: u32,
    /// Whether I/O is processed in this state; otherwise the drive leaves it first.
    pub is_operational: bool,
    /// Longest time to enter it, in microseconds; 0: not reported.
    pub entry_us: u32,
    /// Longest time to leave it, in microseconds; 0: not reported.
    pub exit_us: u32,
}

/// A transition between power states that the drive makes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Number of the state that it leaves.
    pub from: u8,
    /// Number of the state that it enters.
    pub to: u8,
    /// Time without I/O after which it happens, in milliseconds.
    pub idle_ms: u32,
}

/// Power and temperature data of Identify Controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerStates {
    /// All power states from number 0 on, which takes the most power.
    pub states: Vec<PowerState>,
    /// Whether the drive can make transitions by itself.
    pub can_sleep: bool,
    /// Temperature from which the drive warns, in whole degrees Celsius; `None`: not reported.
    pub warning_celsius: Option<i32>,
    /// Temperature beyond which the drive may be damaged, in whole degrees Celsius; `None`: not reported.
    pub critical_celsius: Option<i32>,
}

/// The little-endian number in `N` bytes from `at`; missing bytes count as zero.
fn field<const N: usize>(data: &[u8], at: usize) -> u32 {
    data.iter().skip(at).take(N).rev().fold(0, |sum, &byte| (sum << 8) | u32::from(byte))
}

impl PowerStates {
    /// Parses the data of Identify Controller; `None` where they are too short.
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
            // Kelvin less 273, as other tools do, and as for the health page.
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

/// The current power state, from the answer to Get Features (Power Management).
pub(super) fn current(answer: &Answer) -> u8 {
    (answer.result & 0x1F) as u8
}

/// The transitions that the drive makes by itself, from the answer to Get Features (Autonomous Power State
/// Transition). Empty where they are off. An idle time of 0 means never.
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

    /// A drive with three power states, of which the last is non-operational.
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
        // An entry without an idle time is no transition.
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
