//! A histogram of latencies.

use forebay_block::log_linear;

/// Buckets per power of two, as one: a resolution of 1/16.
const SUB_BITS: u32 = 4;

/// Latencies in log-linear buckets (relative error at most 1/16).
#[derive(Clone)]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    total: u64,
    sum_ns: u64,
}

fn bucket(value: u64) -> usize {
    log_linear::bucket::<SUB_BITS>(value)
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: vec![0; bucket(u64::MAX) + 1], total: 0, sum_ns: 0 }
    }
}

impl std::fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} values, median {:?} ns", self.total, self.quantile_ns(0.5))
    }
}

impl LatencyHistogram {
    /// Counts one value in nanoseconds.
    pub fn record(&mut self, value_ns: u64) {
        let at = bucket(value_ns);
        self.counts[at] += 1;
        self.total += 1;
        self.sum_ns = self.sum_ns.saturating_add(value_ns);
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.total += other.total;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Sum of the values in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// For each power of two in `powers`, in nanoseconds: the power, and how many values lie below it and not below the
    /// one before it. The first counts all smaller values, too. Powers of two are bounds of buckets, so this is exact.
    pub fn octaves(&self, powers: std::ops::RangeInclusive<u32>) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut from = 0;
        powers.map(move |power| {
            let bound_ns = 1u64 << power;
            let to = bucket(bound_ns);
            let count = self.counts[std::mem::replace(&mut from, to)..to].iter().sum();
            (bound_ns, count)
        })
    }

    /// The largest value of the bucket in which the quantile lies, in nanoseconds: never below it, and at most a sixteenth above;
    /// `None` where nothing was counted.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = ((quantile * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (i, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(log_linear::bounds::<SUB_BITS>(i).1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octaves_count_exactly_what_lies_below_each_power_of_two() {
        let mut histogram = LatencyHistogram::default();
        let values = [0, 7, 1023, 1024, 1025, 4095, 4096, 1 << 20];
        values.iter().for_each(|&value| histogram.record(value));
        let octaves: Vec<(u64, u64)> = histogram.octaves(10..=12).collect();
        assert_eq!(octaves, [(1024, 3), (2048, 2), (4096, 1)]);
        assert_eq!((histogram.count(), histogram.sum_ns()), (8, values.iter().sum()));
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!((twice.count(), twice.sum_ns(), twice.quantile_ns(0.5)), (16, 2 * histogram.sum_ns(), Some(1087)));
    }

    /// Quantiles were the lower ends of buckets: a p99 of 1024 ns where 1087 had been measured.
    #[test]
    fn regression_quantiles_are_not_below_what_was_measured() {
        let mut histogram = LatencyHistogram::default();
        let values = [3, 17, 1087, 70_000, (1 << 40) + 12345];
        values.iter().for_each(|&value| histogram.record(value));
        for (at, value) in values.into_iter().enumerate() {
            let found = histogram.quantile_ns((at + 1) as f64 / values.len() as f64).unwrap();
            assert!(found >= value && found - value <= value / 16, "{found} for {value}");
        }
    }
}
