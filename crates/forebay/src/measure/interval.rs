//! Default length of a run's intervals.

/// Default number of intervals of a run: stalls that cluster show between intervals, not within one.
const INTERVALS: u64 = 40;
/// Minimum and maximum default length in nanoseconds.
const LENGTH_NS: (u64, u64) = (10_000_000, 1_000_000_000);

/// Maximum number of intervals of a run, because each is kept and printed; a run that needs more gets longer ones, in whole seconds.
const INTERVALS_MAX: u64 = 20_000;

/// Interval length for a run of this length, in whole milliseconds so that rates of short runs are exact; a second where the length is
/// unknown.
#[must_use]
pub fn interval_of(runtime_ns: Option<u64>) -> u64 {
    let wanted_ns = runtime_ns.map_or(LENGTH_NS.1, |runtime_ns| runtime_ns / INTERVALS);
    let least_ns = runtime_ns.map_or(0, |runtime_ns| runtime_ns.div_ceil(INTERVALS_MAX));
    let most_ns = least_ns.max(1).next_multiple_of(LENGTH_NS.1);
    wanted_ns.clamp(LENGTH_NS.0, most_ns) / 1_000_000 * 1_000_000
}

/// Interval length for a trace that lasts this long: a second, or more where there would be too many intervals.
#[must_use]
pub fn interval_of_trace(lasts_ns: u64) -> u64 {
    interval_of(Some(lasts_ns.max(INTERVALS * LENGTH_NS.1)))
}

/// Interval length for windows that are cut into parts: the longest length up to `longest_ns` that divides each part.
#[must_use]
pub fn interval_within(longest_ns: u64, parts_ns: impl Iterator<Item = u64>) -> u64 {
    /// Maximum number of divisions that are tried.
    const TRIED: usize = 100_000;
    let common_ns = parts_ns.fold(0, greatest_common_divisor);
    if common_ns == 0 {
        return longest_ns;
    }
    let least = common_ns.div_ceil(longest_ns.max(1));
    let whole = |number: &u64| common_ns.is_multiple_of(number * 1_000_000);
    let found = (least..=common_ns / LENGTH_NS.0).take(TRIED).find(whole);
    common_ns / found.unwrap_or(1)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_go_into_the_parts_of_windows() {
        let within = |longest_ms: u64, parts_ms: &[u64]| {
            interval_within(longest_ms * 1_000_000, parts_ms.iter().map(|ms| ms * 1_000_000)) / 1_000_000
        };
        for (longest, parts, expected) in [
            (750, &[][..], 750),
            (1000, &[1000], 1000),
            (750, &[1000], 500),
            (1000, &[10_000], 1000),
            (300, &[1000, 1500], 250),
            // A prime has no divisor of 10 ms or more: the part itself is the interval.
            (1000, &[10_007], 10_007),
            (10, &[10], 10),
        ] {
            assert_eq!(within(longest, parts), expected, "{longest} {parts:?}");
        }
    }

    #[test]
    fn regression_a_short_run_has_forty_intervals_too() {
        for (run_ms, interval_ms) in
            [(100, 10), (2_000, 50), (3_333, 83), (4_000, 100), (40_000, 1_000), (600_000, 1_000)]
        {
            assert_eq!(interval_of(Some(run_ms * 1_000_000)), interval_ms * 1_000_000, "{run_ms} ms");
        }
        assert_eq!(interval_of(None), 1_000_000_000);
    }

    /// Two days of a trace had 172,800 intervals, whose figures took gigabytes as JSON.
    #[test]
    fn regression_a_long_run_has_no_more_intervals_than_can_be_kept() {
        for (run_s, interval_s) in [(1, 1), (20_000, 1), (20_001, 2), (172_801, 9), (7 * 86_400, 31)] {
            assert_eq!(interval_of_trace(run_s * 1_000_000_000), interval_s * 1_000_000_000, "{run_s} s");
        }
        assert_eq!(interval_of(Some(86_400_000_000_000)), 5_000_000_000);
    }
}
