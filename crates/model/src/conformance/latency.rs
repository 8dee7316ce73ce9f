//! Latency histogram with buckets of a 512th of their value.

use forebay_block::log_linear;

/// Buckets for each doubling, as a power of two.
const STEP_BITS: u32 = 9;
/// Doublings above the exact range; 2^40 ns is 18 minutes.
const DOUBLINGS: usize = 31;

/// A histogram of latencies in nanoseconds. Exact below 512 ns, within 0.2 % above; all latencies above 18 minutes share a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; (DOUBLINGS + 1) << STEP_BITS], count: 0, sum_ns: 0, max_ns: 0 }
    }
}

impl Latencies {
    /// Counts one latency.
    pub fn record(&mut self, latency_ns: u64) {
        let index = log_linear::bucket::<STEP_BITS>(latency_ns).min(self.counts.len() - 1);
        self.counts[index] += 1;
        self.count += 1;
        self.sum_ns += u128::from(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of latencies counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest latency in nanoseconds; 0 where none was counted.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Mean in nanoseconds; `None` where none was counted.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// The latency that all but 1 in `one_in` samples stay at or below, in nanoseconds: 2 gives the median, 100 the 99th percentile. `None`
    /// where fewer than ten samples lie above it, too few for this percentile.
    #[must_use]
    pub fn all_but_one_in(&self, one_in: u64) -> Option<u64> {
        let above = self.count / one_in.max(1);
        if above < 10 {
            return None;
        }
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate().rev() {
            seen += count;
            if seen > above {
                return Some(log_linear::middle::<STEP_BITS>(index));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_is_near() {
        for latency_ns in (0..4000).chain((1..40).map(|bit| (1 << bit) + 12_345)) {
            let middle = log_linear::middle::<STEP_BITS>(log_linear::bucket::<STEP_BITS>(latency_ns));
            assert!(middle.abs_diff(latency_ns) <= latency_ns / 512, "{latency_ns} {middle}");
        }
    }

    #[test]
    fn says_no_percentile_without_samples_for_it() {
        let mut latencies = Latencies::default();
        for ns in 1..=999 {
            latencies.record(ns);
        }
        assert_eq!(latencies.all_but_one_in(100), None);
        latencies.record(1000);
        let p99 = latencies.all_but_one_in(100).unwrap();
        assert!((989..=991).contains(&p99), "{p99}");
        assert_eq!(latencies.mean_ns(), Some(500.5));
        assert_eq!(latencies.all_but_one_in(1000), None);
    }
}
