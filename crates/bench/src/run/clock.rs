//! Time as a value. A run only uses nanoseconds since some beginning, so that the same loop runs in real and in virtual time.

use std::time::Duration;

/// A monotonic clock.
pub trait Clock: Clone + Send + 'static {
    /// Nanoseconds since the clock's beginning.
    fn now_ns(&self) -> u64;

    /// Sleeps for about `ns`. May return early; the caller checks the time again.
    fn sleep_ns(&self, ns: u64);

    /// Whether the clock is advanced explicitly; time then stands still while a thread waits for another.
    fn is_virtual(&self) -> bool {
        false
    }

    /// Does pieces of work until a time is reached.
    fn work_until(&self, until_ns: u64, mut piece: impl FnMut()) {
        while self.now_ns() < until_ns {
            piece();
        }
    }
}

impl Clock for forebay_block::VirtualClock {
    fn now_ns(&self) -> u64 {
        Self::now_ns(self)
    }

    fn sleep_ns(&self, ns: u64) {
        self.advance_to(Self::now_ns(self).saturating_add(ns));
    }

    fn is_virtual(&self) -> bool {
        true
    }

    /// Virtual time does not pass by itself: the work is done once, and the clock is advanced.
    fn work_until(&self, until_ns: u64, mut piece: impl FnMut()) {
        piece();
        self.advance_to(until_ns);
    }
}

/// The processor's time stamp counter, scaled to nanoseconds; the operating system's monotonic clock if there is no steady counter. A
/// reading takes about 10 ns instead of about 25 with clock_gettime(2).
#[derive(Clone, Debug)]
pub struct TscClock {
    clock: quanta::Clock,
    beginning: u64,
    /// Nanoseconds per count in units of 2^-32, so that scaling is one multiplication. Counters run at 1 GHz and more on x86, at 24 MHz to
    /// 1 GHz on aarch64.
    scale: u64,
}

impl TscClock {
    /// A clock that begins now. The first one in a process takes some milliseconds to calibrate.
    #[must_use]
    pub fn new() -> Self {
        let clock = quanta::Clock::new();
        let beginning = clock.raw();
        // 2^52 counts are some weeks: enough digits for the scale, and no overflow in between.
        let ns = clock.delta_as_nanos(0, 1 << 52);
        let scale = u64::try_from((u128::from(ns) << 32) >> 52).unwrap_or(u64::MAX);
        Self { clock, beginning, scale }
    }
}

impl Default for TscClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TscClock {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        let counts = self.clock.raw().wrapping_sub(self.beginning);
        ((u128::from(counts) * u128::from(self.scale)) >> 32) as u64
    }

    fn sleep_ns(&self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn agrees_with_the_systems_clock() {
        let (clock, system) = (TscClock::new(), Instant::now());
        let (begin, system_begin) = (clock.now_ns(), system.elapsed());
        std::thread::sleep(Duration::from_millis(200));
        let (ours, theirs) = (clock.now_ns() - begin, (system.elapsed() - system_begin).as_nanos() as u64);
        // The calibration is accurate to some parts in 10,000; an interruption between the two readings costs more.
        assert!(ours.abs_diff(theirs) < 20_000_000, "{ours} against {theirs}");
    }
}
