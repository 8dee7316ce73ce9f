//! The engine's time: as the caller says, and never backwards.

/// Most that the waiting time of requests grows between two ticks, whatever the clock says: a process that was stopped, or a clock that was set, must not look
/// like devices that have done nothing for so long.
const WAITING_STEP_NS: u64 = 1_000_000_000;

/// Time in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    now_ns: u64,
    /// What the caller's clock showed at the last tick.
    shown_ns: u64,
    waiting_ns: u64,
    /// When a device was last seen not to answer while a request waited, by `waiting_ns`.
    unanswered_ns: u64,
    unix_s: u64,
}

impl Clock {
    /// It is `now_ns`, by a clock of any origin. Where that clock steps back no time passes, and time goes on from
    /// there: nothing waits for it to catch up.
    pub fn tick(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.shown_ns);
        self.shown_ns = now_ns;
        self.now_ns = self.now_ns.saturating_add(passed_ns);
        self.waiting_ns = self.waiting_ns.saturating_add(passed_ns.min(WAITING_STEP_NS));
    }

    /// Sets the time of day, for times that are kept to be shown.
    pub fn set_unix(&mut self, unix_s: u64) {
        self.unix_s = unix_s;
    }

    /// Seconds since 1970; 0 where they were not set.
    pub fn unix_s(&self) -> u64 {
        self.unix_s
    }

    /// The time of the last tick.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// A device does not answer a request that somebody waits for.
    pub fn note_unanswered(&mut self) {
        self.unanswered_ns = self.waiting_ns;
    }

    /// How long a request that came at `since_ns` has waited while devices answered.
    pub fn waited_ns(&self, since_ns: u64) -> u64 {
        self.waiting_ns.saturating_sub(since_ns.max(self.unanswered_ns))
    }

    /// The clock by which requests time out: it advances by a second a tick at most.
    pub fn waiting_ns(&self) -> u64 {
        self.waiting_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_time_in_which_a_device_does_not_answer_is_none_in_which_nothing_was_freed() {
        let mut clock = Clock::default();
        (1..=5).for_each(|s| clock.tick(s * WAITING_STEP_NS));
        assert_eq!(clock.waited_ns(2 * WAITING_STEP_NS), 3 * WAITING_STEP_NS);
        clock.note_unanswered();
        (6..=9).for_each(|s| clock.tick(s * WAITING_STEP_NS));
        assert_eq!(clock.waited_ns(2 * WAITING_STEP_NS), 4 * WAITING_STEP_NS, "since it answers");
        assert_eq!(clock.waited_ns(8 * WAITING_STEP_NS), WAITING_STEP_NS, "who came later");
    }
}
