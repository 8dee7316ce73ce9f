//! How long the intervals of a run are where no length is asked for.

/// Intervals of a run: clustering of stalls is seen between intervals, not within.
const INTERVALS: u64 = 40;
/// Their length in nanoseconds, at least and at most.
const LENGTH_NS: (u64, u64) = (10_000_000, 1_000_000_000);

/// Length of an interval for a run of so long; a second where that is not known. In whole milliseconds, for the rates of
/// short times.
#[must_use]
pub fn interval_of(runtime_ns: Option<u64>) -> u64 {
    let wanted_ns = runtime_ns.map_or(LENGTH_NS.1, |runtime_ns| runtime_ns / INTERVALS);
    wanted_ns.clamp(LENGTH_NS.0, LENGTH_NS.1) / 1_000_000 * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_a_short_run_has_forty_intervals_too() {
        for (run_ms, interval_ms) in
            [(100, 10), (2_000, 50), (3_333, 83), (4_000, 100), (40_000, 1_000), (600_000, 1_000)]
        {
            assert_eq!(interval_of(Some(run_ms * 1_000_000)), interval_ms * 1_000_000, "{run_ms} ms");
        }
        assert_eq!(interval_of(None), 1_000_000_000);
    }
}
