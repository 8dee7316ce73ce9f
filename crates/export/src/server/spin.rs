//! Adaptive polling: whether it pays to look for requests instead of sleeping.
//!
//! Falling asleep and waking up costs more than a request. Where requests come closer together than `poll_ns`, the
//! server looks for the next one for that long before it sleeps. Once nothing came in that time it sleeps, and does
//! not poll again before a sleep turned out shorter than `poll_ns`: an idle or slow client costs no processor time.
//!
//! With `poll_ns` 0 this comes down to one look before a sleep while sleeps are too short to be any: on a busy socket
//! it saves asking whether there is something before taking it.

/// A wait shorter than this was none: requests were there already.
const NO_SLEEP_NS: u64 = 3_000;

/// What was learnt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin {
    pays: bool,
    last_busy_ns: u64,
}

impl Spin {
    /// Until when to look, monotonic and at least once; `None` where to sleep at once.
    pub fn deadline_ns(&self, poll_ns: u64) -> Option<u64> {
        if self.pays { Some(self.last_busy_ns.saturating_add(poll_ns)) } else { None }
    }

    /// Looking was in vain.
    pub fn in_vain(&mut self) {
        self.pays = false;
    }

    /// Requests came at `now_ns`, after a sleep of that length (0: without one).
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
