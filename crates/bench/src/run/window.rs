//! The times of a job: when its load begins, which part is measured, and when it ends.

/// Longest time to wait for I/Os in flight after the end, in nanoseconds.
const DRAIN_NS: u64 = 60_000_000_000;
/// Longest time to wait for I/Os in flight after the user has ended the run, in nanoseconds.
const DRAIN_INTERRUPTED_NS: u64 = 5_000_000_000;

/// Times of a job in nanoseconds of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When the load begins.
    pub start_ns: u64,
    /// I/Os intended from here on are measured.
    pub begin_ns: u64,
    /// I/Os intended from here on are not measured; `u64::MAX` where a number of bytes or I/Os ends the job.
    pub end_ns: u64,
    /// When the load ends.
    pub stop_ns: u64,
}

impl Window {
    /// The window of a job whose load begins at `start_ns`.
    #[must_use]
    pub fn new(start_ns: u64, warmup_ns: u64, after_ns: Option<u64>, cooldown_ns: u64) -> Self {
        let begin_ns = start_ns + warmup_ns;
        let end_ns = after_ns.map_or(u64::MAX, |after_ns| begin_ns.saturating_add(after_ns));
        Self { start_ns, begin_ns, end_ns, stop_ns: end_ns.saturating_add(cooldown_ns) }
    }

    /// The same window, `by_ns` later.
    #[must_use]
    pub fn later(&self, by_ns: u64) -> Self {
        Self {
            start_ns: self.start_ns.saturating_add(by_ns),
            begin_ns: self.begin_ns.saturating_add(by_ns),
            end_ns: self.end_ns.saturating_add(by_ns),
            stop_ns: self.stop_ns.saturating_add(by_ns),
        }
    }

    /// Whether an I/O intended at that time is measured.
    #[inline]
    #[must_use]
    pub fn measures(&self, intended_ns: u64) -> bool {
        intended_ns >= self.begin_ns && intended_ns < self.end_ns
    }

    /// Time since the measured part began; negative in the warm-up.
    #[must_use]
    pub fn measured_ns(&self, now_ns: u64) -> i64 {
        now_ns.cast_signed() - self.begin_ns.cast_signed()
    }

    /// How long an open loop that has fallen behind goes on with I/Os scheduled within the window: once more the length
    /// of the window, so that a target with half the speed is still measured completely.
    #[must_use]
    pub fn give_up_ns(&self) -> u64 {
        self.stop_ns.saturating_add(self.end_ns.saturating_sub(self.begin_ns).max(1_000_000_000))
    }

    /// When I/Os that are still in flight are given up, after the load was stopped at `stopped_ns`.
    #[must_use]
    pub fn drain_until_ns(stopped_ns: u64, is_interrupted: bool) -> u64 {
        stopped_ns.saturating_add(if is_interrupted { DRAIN_INTERRUPTED_NS } else { DRAIN_NS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_intended_within_is_measured() {
        let window = Window::new(100, 50, Some(1000), 30);
        assert_eq!((window.begin_ns, window.end_ns, window.stop_ns), (150, 1150, 1180));
        for (time, measured) in [(149, false), (150, true), (1149, true), (1150, false)] {
            assert_eq!(window.measures(time), measured, "{time}");
        }
        let endless = Window::new(100, 50, None, 30);
        assert!(endless.measures(u64::MAX - 1));
        assert_eq!((window.later(5), endless.later(5).end_ns), (Window::new(105, 50, Some(1000), 30), u64::MAX));
    }
}
