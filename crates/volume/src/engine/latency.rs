//! A histogram of latencies.

/// Buckets per power of two: a resolution of 1/16.
const SUB_BUCKETS: usize = 16;

/// Latencies in log-linear buckets (relative error at most 1/16).
#[derive(Clone)]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: vec![0; 64 * SUB_BUCKETS], total: 0 }
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
        let at = Self::bucket(value_ns);
        self.counts[at] += 1;
        self.total += 1;
    }

    fn bucket(value: u64) -> usize {
        if value < SUB_BUCKETS as u64 {
            return value as usize;
        }
        let power = 63 - value.leading_zeros() as usize;
        let sub = (value >> (power - 4)) as usize & (SUB_BUCKETS - 1);
        (power - 3) * SUB_BUCKETS + sub
    }

    fn lower_bound(bucket: usize) -> u64 {
        if bucket < SUB_BUCKETS {
            return bucket as u64;
        }
        let power = bucket / SUB_BUCKETS + 3;
        (1 << power) + ((bucket % SUB_BUCKETS) as u64) * (1 << (power - 4))
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Lower bound of the bucket in which the quantile lies, in nanoseconds; `None` where nothing was counted.
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
                return Some(Self::lower_bound(i));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_precise() {
        let mut last = 0;
        for value in (0..2000).chain([1 << 20, (1 << 40) + 12345, u64::MAX]) {
            let bucket = LatencyHistogram::bucket(value);
            assert!(bucket >= last && bucket < 64 * SUB_BUCKETS);
            last = bucket;
            let low = LatencyHistogram::lower_bound(bucket);
            assert!(low <= value && value - low <= value / 16, "{value} in bucket from {low}");
        }
    }
}
