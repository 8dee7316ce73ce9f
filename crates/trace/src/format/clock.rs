//! Times of a trace, counted from its own zero.

use super::fields::Bad;

/// No trace is longer: 20 years.
const LONGEST_NS: u64 = 20 * 366 * 24 * 3600 * 1_000_000_000;
/// How far before the first entry of a trace another may lie, where its entries come slightly out of order; it then
/// counts as simultaneous with the first.
const BEFORE_FIRST_MAX_NS: u64 = 3600 * 1_000_000_000;

/// Tells times since the trace's zero.
pub(super) struct Clock {
    zero_ns: Option<u64>,
}

impl Clock {
    /// The zero is the first time that is asked for.
    pub fn from_first() -> Self {
        Self { zero_ns: None }
    }

    /// The times of the trace are since its zero.
    pub fn from_zero() -> Self {
        Self { zero_ns: Some(0) }
    }

    /// Nanoseconds since the zero.
    #[inline]
    pub fn since_zero_ns(&mut self, time_ns: u64) -> Result<u64, Bad> {
        let zero_ns = *self.zero_ns.get_or_insert(time_ns);
        match time_ns.checked_sub(zero_ns) {
            Some(since_ns) if since_ns <= LONGEST_NS => Ok(since_ns),
            Some(_) => Err("a time is absurd: more than 20 years after the first"),
            None if zero_ns - time_ns <= BEFORE_FIRST_MAX_NS => Ok(0),
            None => Err("a time is absurd: more than an hour before the first"),
        }
    }

    /// The same of microseconds.
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
    fn zero_is_zero() {
        assert_eq!(Clock::from_zero().since_zero_ns(7), Ok(7));
    }
}
