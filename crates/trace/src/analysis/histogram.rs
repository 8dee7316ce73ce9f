//! A histogram of integers with a relative error below 0.8 %: 128 buckets per octave, in the layout of HdrHistogram.

use forebay_block::log_linear;

/// Buckets of an octave, as a power of two.
const SUB_BITS: u32 = 7;
/// Sums of whole numbers are exact below.
const EXACT_END: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// What was counted in a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    weight: f64,
    /// The least and the greatest value. A log that is written round and round has one value, and is a step in the curve of sizes.
    least: u64,
    greatest: u64,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { weight: 0.0, least: u64::MAX, greatest: 0 }
    }
}

impl Bucket {
    #[inline]
    fn add(&mut self, value: u64, weight: f64) {
        self.weight += weight;
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
    }

    /// Weight of the values below `limit`; between the least and the greatest they are assumed to be spread evenly.
    fn below(&self, limit: u64) -> f64 {
        if limit <= self.least {
            0.0
        } else if limit > self.greatest {
            self.weight
        } else {
            self.weight * (limit - self.least) as f64 / (self.greatest - self.least + 1) as f64
        }
    }
}

/// Counts by value, or weights if values stand for more than themselves.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    buckets: Vec<Bucket>,
    total: f64,
    max: u64,
    sum: f64,
}

#[inline]
fn bucket(value: u64) -> usize {
    log_linear::bucket::<SUB_BITS>(value)
}

/// The lowest value of a bucket, and the first value behind it.
fn bounds(bucket: usize) -> (u64, u64) {
    let (smallest, largest) = log_linear::bounds::<SUB_BITS>(bucket);
    (smallest, largest.saturating_add(1))
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
        self.bucket(value).add(value, weight);
        self.total += weight;
        self.sum += value as f64 * weight;
        self.max = self.max.max(value);
    }

    /// Counts a value with `weight`, `times` times. Gives exactly the same digits as that many calls of [`Self::add_weighted`].
    #[inline]
    pub fn add_repeatedly(&mut self, value: u64, weight: f64, times: u64) {
        // Weights and their sums are integers, so these sums are exact.
        let more = weight * times as f64;
        self.bucket(value).add(value, more);
        self.total += more;
        self.max = self.max.max(value);
        // The sum of the values is exact too as long as it is below 2^53; beyond that, each addition is rounded.
        let all = value as f64 * more;
        if self.sum + all < EXACT_END {
            self.sum += all;
        } else {
            (0..times).for_each(|_| self.sum += value as f64 * weight);
        }
    }

    #[inline]
    fn bucket(&mut self, value: u64) -> &mut Bucket {
        let at = bucket(value);
        if at >= self.buckets.len() {
            self.grow(at);
        }
        &mut self.buckets[at]
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.buckets.resize(at + 1, Bucket::default());
    }

    /// Sum of the weights.
    #[must_use]
    pub fn count(&self) -> f64 {
        self.total
    }

    /// Mean; `None` if nothing was counted.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.total > 0.0).then(|| self.sum / self.total)
    }

    /// The largest value.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that a share of the counts does not exceed; `None` if nothing was counted.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = share * self.total;
        let mut below = 0.0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            below += bucket.weight;
            if bucket.weight > 0.0 && below >= wanted {
                return Some((bounds(at).1 - 1).min(self.max));
            }
        }
        (self.total > 0.0).then_some(self.max)
    }

    /// Weight of the values below `limit`. Only of the bucket that has the limit among its values it is an estimate.
    #[must_use]
    pub fn below(&self, limit: u64) -> f64 {
        let at = bucket(limit).min(self.buckets.len());
        let sum = self.buckets[..at].iter().fold(0.0, |sum, bucket| sum + bucket.weight);
        sum + self.buckets.get(at).map_or(0.0, |bucket| bucket.below(limit))
    }

    /// Converts to a form that answers `below` quickly for many limits.
    #[must_use]
    pub fn sums(self) -> Sums {
        let mut sums = vec![0.0];
        sums.extend(self.buckets.iter().scan(0.0, |sum, bucket| {
            *sum += bucket.weight;
            Some(*sum)
        }));
        Sums { buckets: self.buckets, sums }
    }
}

/// A complete histogram, with cumulative sums over its buckets.
#[derive(Clone, Debug)]
pub struct Sums {
    buckets: Vec<Bucket>,
    /// Sum of the buckets before each, and of all.
    sums: Vec<f64>,
}

impl Sums {
    /// Like [`Histogram::below`].
    #[must_use]
    pub fn below(&self, limit: u64) -> f64 {
        let at = bucket(limit).min(self.buckets.len());
        self.sums[at] + self.buckets.get(at).map_or(0.0, |bucket| bucket.below(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn repeated_values_are_those_added_one_by_one() {
        let (mut once, mut each) = (Histogram::default(), Histogram::default());
        // Up to where sums are no longer exact and each addition is rounded.
        for at in 0..4000_u64 {
            let (value, times) = (at * at * at * 12_345_679 + 1, at % 9 + 1);
            once.add_repeatedly(value, 1.0, times);
            (0..times).for_each(|_| each.add_weighted(value, 1.0));
        }
        assert!(once.sum > EXACT_END);
        assert_eq!((once.sum, once.total, once.max), (each.sum, each.total, each.max));
        assert_eq!(once.buckets, each.buckets);
    }

    proptest! {
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

    proptest! {
        #[test]
        fn sums_tell_what_is_below(values in proptest::collection::vec((0_u64..1 << 12, 0_u32..50), 0..100), limit: u64, shift in 0_u32..64) {
            let (mut histogram, limit) = (Histogram::default(), limit >> shift);
            let values: Vec<u64> = values.into_iter().map(|(value, shift)| value << shift).collect();
            values.iter().for_each(|value| histogram.add_weighted(*value, 0.1));
            let all = 0.1 * values.len() as f64;
            let exact = 0.1 * values.iter().filter(|value| **value < limit).count() as f64;
            // Only values of the limit's own bucket, between the least and the greatest of them, may be on the wrong side.
            let own = 0.1 * values.iter().filter(|value| bucket(**value) == bucket(limit)).count() as f64;
            let found = histogram.below(limit);
            prop_assert!((found - exact).abs() <= own + 1e-9 && found <= all + 1e-9, "{found} for {exact}");
            if values.iter().all(|value| bucket(*value) != bucket(limit) || value == &values[0]) {
                prop_assert!((found - exact).abs() < 1e-9, "{found} for {exact}");
            }
            prop_assert_eq!(histogram.sums().below(limit), found);
        }
    }
}
