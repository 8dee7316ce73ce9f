//! Adaptive polling: decides whether polling for requests pays compared with sleeping.
//!
//! Falling asleep and waking up costs more than a request. Where requests come closer together than `poll_ns`, the
//! server polls for the next one for that time before it sleeps. When nothing comes in that time it sleeps, and does
//! not poll again until a sleep turns out shorter than `poll_ns`. So an idle or slow client costs no CPU time.
//!
//! With `poll_ns` 0 this amounts to one poll before a sleep, while sleeps are too short to count. On a busy socket
//! that saves asking whether there is something before receiving it.

/// A wait shorter than this did not sleep: requests were there already. In nanoseconds.
const NO_SLEEP_NS: u64 = 3_000;

/// The state of the decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin {
    pays: bool,
    last_busy_ns: u64,
}

impl Spin {
    /// Until when to poll, at least once, on the monotonic clock; `None`: sleep at once.
    pub fn deadline_ns(&self, poll_ns: u64) -> Option<u64> {
        if self.pays { Some(self.last_busy_ns.saturating_add(poll_ns)) } else { None }
    }

    /// Polling has found nothing.
    pub fn in_vain(&mut self) {
        self.pays = false;
    }

    /// Requests came at `now_ns`, after a sleep of `slept_ns` (0: no sleep).
    pub fn busy(&mut self, now_ns: u64, slept_ns: u64, poll_ns: u64) {
        self.last_busy_ns = now_ns;
        self.pays |= slept_ns <= poll_ns.max(NO_SLEEP_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_only_while_requests_come_close_together() {
        let mut spin = Spin::default();
        assert_eq!(spin.deadline_ns(50_000), None);
        spin.busy(1_000_000, 900_000, 50_000);
        assert_eq!(spin.deadline_ns(50_000), None, "the sleep was long");
        spin.busy(1_020_000, 20_000, 50_000);
        assert_eq!(spin.deadline_ns(50_000), Some(1_070_000));
        spin.in_vain();
        assert_eq!(spin.deadline_ns(50_000), None);
    }

    #[test]
    fn looks_once_on_a_busy_socket() {
        let mut spin = Spin::default();
        spin.busy(1_000_000, 20_000, 0);
        assert_eq!(spin.deadline_ns(0), None);
        spin.busy(1_020_000, 1_000, 0);
        assert_eq!(spin.deadline_ns(0), Some(1_020_000), "now: one look");
    }
}
