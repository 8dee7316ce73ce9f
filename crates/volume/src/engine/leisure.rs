//! When there is time for work that no host asked for: at a bounded rate, and slower while hosts have requests.

/// How long after the last request of a host the full rate is used, in nanoseconds.
const QUIET_NS: u64 = 200_000_000;
/// How much slower the work is until then: slow enough not to be noticed, fast enough to come to an end.
const BUSY_FACTOR: u64 = 8;
/// How far ahead of its rate the work may be, in nanoseconds: clocks tick some twenty times a second.
const AHEAD_NS: u64 = 50_000_000;
/// Lowest rate in bytes a second.
const RATE_MIN: u64 = 4096;

/// The schedule of one kind of such work, which is done step by step.
#[derive(Debug)]
pub(crate) struct Leisure {
    rate_bytes_per_s: u64,
    /// When all that was done would have been done at the full rate.
    spent_ns: u64,
    /// How long the last step takes at the full rate.
    step_ns: u64,
    /// When the last request of a host came.
    asked_ns: Option<u64>,
    /// The engine begins, or comes to a stop: no step begins before time passes.
    is_held: bool,
    /// No step begins any more, whatever time passes.
    has_ended: bool,
}

impl Leisure {
    /// At most so many bytes a second, while hosts have no requests.
    pub fn new(rate_bytes_per_s: u64) -> Self {
        Self {
            rate_bytes_per_s: rate_bytes_per_s.max(RATE_MIN),
            spent_ns: 0,
            step_ns: 0,
            asked_ns: None,
            is_held: true,
            has_ended: false,
        }
    }

    /// Sets the most bytes a second.
    pub fn set_rate(&mut self, bytes_per_s: u64) {
        self.rate_bytes_per_s = bytes_per_s.max(RATE_MIN);
    }

    pub fn rate_bytes_per_s(&self) -> u64 {
        self.rate_bytes_per_s
    }

    /// No step begins any more.
    pub fn end(&mut self) {
        (self.is_held, self.has_ended) = (true, true);
    }

    /// Time passes: steps may begin.
    pub fn go_on(&mut self) {
        self.is_held = self.has_ended;
    }

    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// A request of a host came.
    pub fn asked(&mut self, now_ns: u64) {
        self.asked_ns = Some(now_ns);
    }

    /// Whether there is time for a step.
    pub fn has_come(&self, now_ns: u64) -> bool {
        if self.is_held {
            return false;
        }
        let is_quiet = self.asked_ns.is_none_or(|asked_ns| now_ns.saturating_sub(asked_ns) >= QUIET_NS);
        if is_quiet {
            self.spent_ns <= now_ns.saturating_add(AHEAD_NS)
        } else {
            self.spent_ns.saturating_add(self.step_ns * (BUSY_FACTOR - 1)) <= now_ns
        }
    }

    /// A step of so many bytes begins.
    pub fn take(&mut self, now_ns: u64, bytes: u64) {
        self.step_ns = (u128::from(bytes) * 1_000_000_000 / u128::from(self.rate_bytes_per_s)) as u64;
        // A rate that was not used is not saved up.
        self.spent_ns = self.spent_ns.max(now_ns).saturating_add(self.step_ns);
    }

    /// The step that was begun last did nothing, and does not count.
    pub fn take_back(&mut self) {
        self.spent_ns = self.spent_ns.saturating_sub(std::mem::take(&mut self.step_ns));
    }

    /// No step begins before this time.
    pub fn rest_until(&mut self, ns: u64) {
        (self.spent_ns, self.step_ns) = (self.spent_ns.max(ns.saturating_add(AHEAD_NS)), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_hosts_make_it_slower_and_it_is_never_far_ahead_of_its_rate() {
        // A step is 128 KiB: an eighth of a second.
        let mut leisure = Leisure::new(1 << 20);
        assert!(!leisure.has_come(0), "held until time passes");
        leisure.go_on();
        leisure.take(0, 128 << 10);
        assert!(!leisure.has_come(70_000_000) && leisure.has_come(75_000_000));
        leisure.asked(1_000_000_000);
        assert!(leisure.has_come(1_000_000_000), "eight steps' time have passed");
        leisure.take(1_000_000_000, 128 << 10);
        assert!(!leisure.has_come(1_199_000_000) && leisure.has_come(1_200_000_000), "quiet again");
        leisure.asked(1_200_000_000);
        assert!(!leisure.has_come(1_300_000_000));
        leisure.rest_until(9_000_000_000);
        assert!(!leisure.has_come(8_999_999_999) && leisure.has_come(9_000_000_000));
    }
}
