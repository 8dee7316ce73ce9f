//! Converts times of a trace to times since its zero.

use super::fields::Bad;

/// Longest trace: 20 years.
const LONGEST_NS: u64 = 20 * 366 * 24 * 3600 * 1_000_000_000;
/// A wall clock shows a time before the year 2100 and after [`LONGEST_NS`], which is in January of 1990.
const WALL_CLOCK_END_NS: u64 = 4_102_444_800 * 1_000_000_000;
/// How far before the first entry of a trace another one may lie, if entries are slightly out of order; it then counts as simultaneous with
/// the first.
const BEFORE_FIRST_MAX_NS: u64 = 3600 * 1_000_000_000;

/// How times before the zero are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Times within an hour before it become the zero.
    Simultaneous,
    /// They are negative, in two's complement.
    Negative,
}

/// Computes times since the trace's zero.
pub(super) struct Clock {
    zero_ns: Option<u64>,
    before: Before,
    /// If the first time is longer than a trace may last and is plausible for a wall clock, it becomes the zero.
    may_be_wall_clock: bool,
}

impl Clock {
    /// The first time is the zero.
    pub fn from_first() -> Self {
        Self { zero_ns: None, before: Before::Simultaneous, may_be_wall_clock: false }
    }

    /// Like [`Clock::from_first`], but earlier times are negative, in two's complement: for [`super::zero::FromEarliest`].
    pub fn around_first() -> Self {
        Self { before: Before::Negative, ..Self::from_first() }
    }

    /// Times count from the trace's zero, or are those of a wall clock, as some tools write; then like [`Clock::around_first`].
    pub fn from_zero_or_wall_clock() -> Self {
        Self { may_be_wall_clock: true, ..Self::from_zero() }
    }

    /// Times count from the trace's zero.
    pub fn from_zero() -> Self {
        Self { zero_ns: Some(0), ..Self::from_first() }
    }

    /// Nanoseconds since the zero, for a time in nanoseconds.
    #[inline]
    pub fn since_zero_ns(&mut self, time_ns: u64) -> Result<u64, Bad> {
        // A first time that no clock shows is only a fault, and says nothing about the later ones.
        if self.may_be_wall_clock && time_ns < WALL_CLOCK_END_NS {
            self.may_be_wall_clock = false;
            if time_ns > LONGEST_NS {
                *self = Self::around_first();
            }
        }
        let zero_ns = *self.zero_ns.get_or_insert(time_ns);
        match time_ns.checked_sub(zero_ns) {
            Some(since_ns) if since_ns <= LONGEST_NS => Ok(since_ns),
            Some(_) => Err("a time is absurd: more than 20 years after the first"),
            None if self.before == Before::Negative && zero_ns - time_ns <= LONGEST_NS => {
                Ok(time_ns.wrapping_sub(zero_ns))
            }
            None if self.before == Before::Negative => Err("a time is absurd: more than 20 years before the first"),
            None if zero_ns - time_ns <= BEFORE_FIRST_MAX_NS => Ok(0),
            None => Err("a time is absurd: more than an hour before the first"),
        }
    }

    /// Nanoseconds since the zero, for a time in microseconds.
    #[inline]
    pub fn us_since_zero_ns(&mut self, time_us: u64) -> Result<u64, Bad> {
        self.since_zero_ns(time_us.checked_mul(1000).ok_or("a time is absurd")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_the_first() {
        let mut clock = Clock::from_first();
        assert_eq!(clock.since_zero_ns(5_000_000_000_000), Ok(0));
        assert_eq!(clock.since_zero_ns(5_000_000_000_007), Ok(7));
        assert_eq!(clock.since_zero_ns(4_999_999_999_999), Ok(0));
        assert!(clock.since_zero_ns(1).is_err());
        assert!(clock.since_zero_ns(u64::MAX).is_err());
        assert!(clock.us_since_zero_ns(u64::MAX).is_err());
    }

    #[test]
    fn around_the_first_what_lies_before_it_is_negative() {
        let mut clock = Clock::around_first();
        assert_eq!(clock.since_zero_ns(5_000_000_000_000), Ok(0));
        assert_eq!(clock.since_zero_ns(1_000_000_000_000).map(|since_ns| since_ns as i64), Ok(-4_000_000_000_000));
        assert!(Clock { zero_ns: Some(2 * LONGEST_NS), ..Clock::around_first() }.since_zero_ns(1).is_err());
    }

    /// Traces with wall-clock times were refused as "more than 20 years after the first".
    #[test]
    fn regression_times_of_the_wall_clock_count_from_the_first() {
        let mut clock = Clock::from_zero_or_wall_clock();
        assert_eq!(clock.since_zero_ns(1_700_000_000_500_000_000), Ok(0));
        assert_eq!(clock.since_zero_ns(1_700_000_000_700_000_000), Ok(200_000_000));
        let mut clock = Clock::from_zero_or_wall_clock();
        assert_eq!(clock.since_zero_ns(7), Ok(7));
        assert!(clock.since_zero_ns(1_700_000_000_700_000_000).is_err(), "in the middle it is a fault");
    }

    /// Any first time above 20 years was taken as the zero, so that all good times after a garbage one became faults.
    #[test]
    fn regression_a_garbage_first_time_is_no_wall_clock() {
        for garbage_ns in [u64::MAX, 1 << 63, WALL_CLOCK_END_NS] {
            let mut clock = Clock::from_zero_or_wall_clock();
            assert!(clock.since_zero_ns(garbage_ns).is_err());
            assert_eq!((clock.since_zero_ns(7), clock.since_zero_ns(9)), (Ok(7), Ok(9)));
            let mut clock = Clock::from_zero_or_wall_clock();
            assert!(clock.since_zero_ns(garbage_ns).is_err());
            assert_eq!(clock.since_zero_ns(1_700_000_000_500_000_000), Ok(0));
            assert_eq!(clock.since_zero_ns(1_700_000_000_700_000_000), Ok(200_000_000));
        }
    }

    #[test]
    fn zero_is_zero() {
        assert_eq!(Clock::from_zero().since_zero_ns(7), Ok(7));
    }
}
