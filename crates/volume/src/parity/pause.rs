//! A wait after a failure: a device that is away for a moment may be back in a second.

const WAIT_NS: u64 = 1_000_000_000;
/// Whoever opens or stops a pool asks without advancing the clock: after so many questions the wait is over in any case.
const ASKED_MAX: u32 = 100_000;

/// The wait, where there is one.
#[derive(Debug, Default)]
pub(super) struct Pause {
    since_ns: Option<u64>,
    /// How often it was asked for while the clock stood still.
    asked: u32,
    asked_ns: u64,
}

impl Pause {
    /// Begins it.
    pub fn begin(&mut self, now_ns: u64) {
        (self.since_ns, self.asked, self.asked_ns) = (Some(now_ns), 0, now_ns);
    }

    /// Whether a wait has begun that [`Self::goes_on`] has not yet found to be over.
    pub fn is_on(&self) -> bool {
        self.since_ns.is_some()
    }

    /// Whether a wait goes on.
    pub fn goes_on(&mut self, now_ns: u64) -> bool {
        let Some(since_ns) = self.since_ns else { return false };
        self.asked = if now_ns == self.asked_ns { self.asked + 1 } else { 0 };
        self.asked_ns = now_ns;
        if now_ns >= since_ns.saturating_add(WAIT_NS) || self.asked >= ASKED_MAX {
            self.since_ns = None;
        }
        self.since_ns.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_by_the_clock_or_by_being_asked() {
        let mut pause = Pause::default();
        assert!(!pause.goes_on(0));
        pause.begin(5);
        assert!(pause.goes_on(WAIT_NS) && !pause.goes_on(WAIT_NS + 5));
        pause.begin(5);
        assert!((1..ASKED_MAX).all(|_| pause.goes_on(5)));
        assert!(!pause.goes_on(5));
        // While time passes only time counts, however often the wait is asked for.
        pause.begin(5);
        assert!((0..2 * u64::from(ASKED_MAX)).all(|at| pause.goes_on(6 + at / 2)));
    }
}
