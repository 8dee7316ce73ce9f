//! A histogram of whole numbers with a relative error below 0.8 %: 128 buckets an octave, as HdrHistogram lays them out.

/// Buckets of an octave, as a power of two.
const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;

/// Counts by value; weights where values stand for more than themselves.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    weights: Vec<f64>,
    total: f64,
    max: u64,
    sum: f64,
}

fn bucket(value: u64) -> usize {
    let octave = (u64::BITS - (value | (SUB - 1)).leading_zeros()).saturating_sub(SUB_BITS);
    ((u64::from(octave) << SUB_BITS) + (value >> octave.saturating_sub(1)) - if octave > 0 { SUB } else { 0 }) as usize
}

/// The lowest value of a bucket, and the first beyond it.
fn bounds(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    if bucket < SUB {
        return (bucket, bucket + 1);
    }
    let (shift, at) = ((bucket >> SUB_BITS) - 1, (bucket & (SUB - 1)) + SUB);
    (at << shift, (at + 1).checked_shl(shift as u32).filter(|end| end >> shift == at + 1).unwrap_or(u64::MAX))
}

impl Histogram {
    /// Counts a value once.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_weighted(value, 1.0);
    }

    /// Counts a value `weight` times.
    #[inline]
    pub fn add_weighted(&mut self, value: u64, weight: f64) {
        let at = bucket(value);
        match self.weights.get_mut(at) {
            Some(known) => *known += weight,
            None => self.grow(at, weight),
        }
        self.total += weight;
        self.sum += value as f64 * weight;
        self.max = self.max.max(value);
    }

    #[cold]
    fn grow(&mut self, at: usize, weight: f64) {
        self.weights.resize(at + 1, 0.0);
        self.weights[at] = weight;
    }

    /// How much was counted.
    #[must_use]
    pub fn count(&self) -> f64 {
        self.total
    }

    /// Mean; `None` where nothing was counted.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.total > 0.0).then(|| self.sum / self.total)
    }

    /// The largest value.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value below or at which a share of the counts lies; `None` where nothing was counted.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = share * self.total;
        let mut below = 0.0;
        for (at, weight) in self.weights.iter().enumerate() {
            below += weight;
            if *weight > 0.0 && below >= wanted {
                return Some((bounds(at).1 - 1).min(self.max));
            }
        }
        (self.total > 0.0).then_some(self.max)
    }

    /// How much was counted of values below `limit`; within a bucket as if they lay evenly.
    #[must_use]
    pub fn below(&self, limit: u64) -> f64 {
        let mut sum = 0.0;
        for (at, weight) in self.weights.iter().enumerate() {
            let (low, end) = bounds(at);
            if end <= limit {
                sum += weight;
            } else if low < limit {
                sum += weight * (limit - low) as f64 / (end - low) as f64;
            } else {
                break;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(shift in 0_u32..64, value: u64) {
            let value = value >> shift;
            let (low, end) = bounds(bucket(value));
            prop_assert!(low <= value && (value < end || end == u64::MAX));
            prop_assert!((end - low) as f64 <= 1.0 + low as f64 / 128.0);
        }

        #[test]
        fn quantiles_are_right_within_a_bucket(mut values in proptest::collection::vec(0_u64..1 << 40, 1..200), share in 0.0_f64..1.0) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            values.sort_unstable();
            let rank = (share * values.len() as f64).ceil() as usize;
            let exact = values[rank.saturating_sub(1)];
            let reported = histogram.quantile(share).unwrap();
            prop_assert!(reported >= exact && reported as f64 <= exact as f64 * 1.008 + 1.0, "{reported} for {exact}");
        }
    }

    #[test]
    fn buckets_follow_one_another() {
        for at in 0..5000 {
            assert_eq!(bounds(at).1, bounds(at + 1).0);
        }
    }
}
