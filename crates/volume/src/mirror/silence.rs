//! Members that answer nothing while others do: a drive that hangs fails nothing, and whoever waits for it waits for ever.

use super::member::numbers_in;

/// A member is left behind when it has not answered a request for this long. The kernel's driver waits 30 s for an NVMe drive before it resets it
/// (`nvme_core.io_timeout`, Documentation/admin-guide/kernel-parameters.txt), and the request has ended by then in most cases.
const SILENT_NS: u64 = 60_000_000_000;
/// How often members are looked at.
const LOOK_NS: u64 = 1_000_000_000;
/// The most that one look adds to a wait: time in which the whole machine stood still is nobody's silence.
const STEP_MAX_NS: u64 = 2 * LOOK_NS;

/// Why a silent member was left behind.
pub(crate) const WHY: &str = "it has not answered a request for 60 s";

/// What a look found: one bit for each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    /// Members that have not answered a request for too long.
    pub silent: u32,
    /// Members that are not even half way there. Where too few of these are left the fault is not one of the silent members alone, and leaving them behind
    /// would not help.
    pub answering: u32,
}

/// The oldest request that a member has not answered, and for how long it has been seen.
#[derive(Clone, Copy, Default)]
struct Wait {
    request: Option<u32>,
    waited_ns: u64,
}

/// How long each member has been silent.
#[derive(Default)]
pub(crate) struct Silence {
    looked_ns: u64,
    waits: Vec<Wait>,
}

impl Silence {
    /// Whether it is time to look again.
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.looked_ns.saturating_add(LOOK_NS)
    }

    /// Looks at the oldest request of each member, which is one from before where the member has not answered it since.
    pub fn look(&mut self, now_ns: u64, oldest: &[Option<u32>]) -> Looked {
        let step_ns = now_ns.saturating_sub(self.looked_ns).min(STEP_MAX_NS);
        self.looked_ns = now_ns;
        self.waits.resize(oldest.len(), Wait::default());
        let mut looked = Looked { silent: 0, answering: 0 };
        for (number, (wait, &request)) in self.waits.iter_mut().zip(oldest).enumerate() {
            let is_same = request.is_some() && wait.request == request;
            *wait = Wait { request, waited_ns: if is_same { wait.waited_ns + step_ns } else { 0 } };
            looked.silent |= u32::from(wait.waited_ns >= SILENT_NS) << number;
            looked.answering |= u32::from(wait.waited_ns < SILENT_NS / 2) << number;
        }
        looked
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

    fn look(silence: &mut Silence, seconds: u64, oldest: &[Option<u32>]) -> Looked {
        silence.look(seconds * LOOK_NS, oldest)
    }

    #[test]
    fn only_a_member_that_never_answers_one_request_is_silent() {
        let mut silence = Silence::default();
        for second in 0..=60 {
            // The third one answers, but never all that it is asked for.
            let looked = look(&mut silence, second, &[None, Some(7), Some(second as u32)]);
            assert_eq!(looked.silent, u32::from(second == 60) << 1, "second {second}");
            assert_eq!(looked.answering, if second < 30 { 7 } else { 5 }, "second {second}");
        }
        assert_eq!(look(&mut silence, 61, &[None, Some(8), None]), Looked { silent: 0, answering: 7 });
    }

    #[test]
    fn time_in_which_the_machine_stood_still_is_nobodys_silence() {
        let mut silence = Silence::default();
        look(&mut silence, 0, &[Some(1)]);
        assert_eq!(look(&mut silence, 100_000, &[Some(1)]), Looked { silent: 0, answering: 1 });
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
