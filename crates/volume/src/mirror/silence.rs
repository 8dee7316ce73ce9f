//! Members that do not answer writes while others do: a drive that hangs fails nothing, and whoever waits for it waits for ever.
//!
//! A silent member is left behind only when enough others have just shown that they answer. Otherwise a second member that is dead, and whose failures wait
//! for the silent one's answers to be judged, would be counted on: the label that leaves the silent member behind could not be made durable, and the silent
//! member, which may come back any moment, would be out of date for good.

use super::member::numbers_in;

/// A member is left behind when it has not answered a write or a flush for this long. Longer than what ends by itself takes: the kernel waits 30 s for an NVMe
/// drive before it resets it (`nvme_core.io_timeout`), iSCSI 120 s for a lost connection (`replacement_timeout`), and 180 s is the usual setting for SATA drives
/// without a limit of their own for error recovery.
const SILENT_NS: u64 = 180_000_000_000;
/// How often members are looked at.
const LOOK_NS: u64 = 1_000_000_000;
/// The most that one look adds to a wait: time in which the whole machine stood still is nobody's silence.
const STEP_MAX_NS: u64 = 2 * LOOK_NS;

/// Why a silent member was left behind.
pub(crate) const WHY: &str = "it has not answered a write or a flush for 180 s";

/// What is known while a member is silent: one bit for each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silent {
    /// Members that get writes and have not answered one for too long.
    pub silent: u32,
    /// Members that hold everything, and have answered a read since the last look.
    pub alive: u32,
}

/// The oldest write that a member has not answered, and for how long it has been seen.
#[derive(Clone, Copy, Default)]
struct Wait {
    request: Option<u32>,
    waited_ns: u64,
}

/// How long each member has been silent, and which of the others answer when they are asked.
#[derive(Default)]
pub(crate) struct Silence {
    looked_ns: u64,
    waits: Vec<Wait>,
    /// Members whose answer to a read is awaited; one read of each at a time.
    asked: u32,
    /// Members that have answered since the last look.
    alive: u32,
}

impl Silence {
    /// Whether it is time to look again.
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.looked_ns.saturating_add(LOOK_NS)
    }

    /// Looks at the oldest write of each member: where it is the one from before, the member has not answered it since. `None` where no member is silent.
    pub fn look(&mut self, now_ns: u64, oldest: &[Option<u32>]) -> Option<Silent> {
        let step_ns = now_ns.saturating_sub(self.looked_ns).min(STEP_MAX_NS);
        self.looked_ns = now_ns;
        self.waits.resize(oldest.len(), Wait::default());
        let mut silent = 0;
        for (number, (wait, &request)) in self.waits.iter_mut().zip(oldest).enumerate() {
            let is_same = request.is_some() && wait.request == request;
            *wait = Wait { request, waited_ns: if is_same { wait.waited_ns + step_ns } else { 0 } };
            silent |= u32::from(wait.waited_ns >= SILENT_NS) << number;
        }
        let alive = std::mem::take(&mut self.alive) & !silent;
        if silent == 0 {
            self.asked = 0;
            return None;
        }
        Some(Silent { silent, alive })
    }

    /// Which of these members are asked for a read now.
    pub fn ask(&mut self, members: u32) -> u32 {
        let asks = members & !self.asked;
        self.asked |= asks;
        asks
    }

    /// A member has answered the read that it was asked for.
    pub fn answered(&mut self, member: usize, is_good: bool) {
        self.asked &= !(1 << member);
        self.alive |= u32::from(is_good) << member;
    }
}

/// The oldest request of each of `members`, of requests with their age and the members that have not answered them, one bit each.
pub(crate) fn oldest_of(members: usize, requests: impl Iterator<Item = (u32, u32, u32)>) -> Vec<Option<u32>> {
    let mut oldest: Vec<Option<(u32, u32)>> = vec![None; members];
    for (number, age, left) in requests {
        for member in numbers_in(left) {
            let of_member = &mut oldest[member];
            *of_member = (*of_member).max(Some((age, number)));
        }
    }
    oldest.into_iter().map(|oldest| oldest.map(|(_, number)| number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT_S: u64 = SILENT_NS / LOOK_NS;

    fn look(silence: &mut Silence, seconds: u64, oldest: &[Option<u32>]) -> Option<Silent> {
        silence.look(seconds * LOOK_NS, oldest)
    }

    #[test]
    fn only_a_member_that_never_answers_one_write_is_silent() {
        let mut silence = Silence::default();
        for second in 0..SILENT_S {
            // The third one answers, but never all that it is asked for.
            assert_eq!(look(&mut silence, second, &[None, Some(7), Some(second as u32)]), None, "second {second}");
        }
        let silent = Silent { silent: 2, alive: 0 };
        assert_eq!(look(&mut silence, SILENT_S, &[None, Some(7), None]), Some(silent));
        // The others count when they have answered since the last look, and are asked again only then.
        assert_eq!((silence.ask(0b101), silence.ask(0b101)), (0b101, 0));
        silence.answered(0, true);
        silence.answered(2, false);
        assert_eq!(look(&mut silence, SILENT_S + 1, &[None, Some(7), None]), Some(Silent { alive: 1, ..silent }));
        assert_eq!(look(&mut silence, SILENT_S + 2, &[None, Some(7), None]), Some(silent));
        assert_eq!(silence.ask(0b101), 0b101);
        assert_eq!(look(&mut silence, SILENT_S + 3, &[None, Some(8), None]), None);
    }

    #[test]
    fn time_in_which_the_machine_stood_still_is_nobodys_silence() {
        let mut silence = Silence::default();
        look(&mut silence, 0, &[Some(1)]);
        assert_eq!(look(&mut silence, 100_000, &[Some(1)]), None);
        assert!(!silence.is_due(100_000 * LOOK_NS) && silence.is_due(100_001 * LOOK_NS));
    }

    #[test]
    fn the_oldest_request_counts_also_where_numbers_begin_again() {
        let newest = 1u32;
        let requests = [(u32::MAX, 0b11), (1, 0b10), (0, 0b100)];
        let aged = requests.iter().map(|&(number, left)| (number, newest.wrapping_sub(number), left));
        assert_eq!(oldest_of(4, aged), [Some(u32::MAX), Some(u32::MAX), Some(0), None]);
    }
}
