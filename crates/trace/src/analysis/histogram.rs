//! A histogram of integers with a relative error below 0.8 %: 128 buckets per octave, in the layout of HdrHistogram.

use forebay_block::log_linear;

/// Buckets of an octave, as a power of two.
const SUB_BITS: u32 = 7;
/// Sums of whole numbers are exact below.
const EXACT_END: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// Counts by value, or weights if values stand for more than themselves.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    weights: Vec<f64>,
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
        let at = bucket(value);
        match self.weights.get_mut(at) {
            Some(known) => *known += weight,
            None => self.grow(at, weight),
        }
        self.total += weight;
        self.sum += value as f64 * weight;
        self.max = self.max.max(value);
    }

    /// Counts a value with `weight`, `times` times. Gives exactly the same digits as that many calls of [`Self::add_weighted`].
    #[inline]
    pub fn add_repeatedly(&mut self, value: u64, weight: f64, times: u64) {
        let at = bucket(value);
        // Weights and their sums are integers, so these sums are exact.
        let more = weight * times as f64;
        match self.weights.get_mut(at) {
            Some(known) => *known += more,
            None => self.grow(at, more),
        }
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

    #[cold]
    fn grow(&mut self, at: usize, weight: f64) {
        self.weights.resize(at + 1, 0.0);
        self.weights[at] = weight;
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
        for (at, weight) in self.weights.iter().enumerate() {
            below += weight;
            if *weight > 0.0 && below >= wanted {
                return Some((bounds(at).1 - 1).min(self.max));
            }
        }
        (self.total > 0.0).then_some(self.max)
    }

    /// Weight of the values below `limit`; within a bucket they are assumed to be spread evenly.
    #[must_use]
    pub fn below(&self, limit: u64) -> f64 {
        let whole = whole_buckets(limit, self.weights.len());
        let sum = self.weights[..whole].iter().fold(0.0, |sum, weight| sum + weight);
        sum + part_of_bucket(limit, whole, &self.weights)
    }

    /// Converts to a form that answers `below` quickly for many limits.
    #[must_use]
    pub fn sums(self) -> Sums {
        let mut sums = vec![0.0];
        sums.extend(self.weights.iter().scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        }));
        Sums { weights: self.weights, sums }
    }
}

/// Number of buckets, of `count`, that only have values below a limit.
fn whole_buckets(limit: u64, count: usize) -> usize {
    // The bucket that contains the limit is the first that may have other values; the last bucket has no end.
    let at = bucket(limit);
    (if bounds(at).1 <= limit { at + 1 } else { at }).min(count)
}

/// The weight below a limit of the bucket that contains it.
fn part_of_bucket(limit: u64, at: usize, weights: &[f64]) -> f64 {
    let (low, end) = bounds(at);
    let weight = weights.get(at).copied().filter(|_| low < limit);
    weight.map_or(0.0, |weight| weight * (limit - low) as f64 / (end - low) as f64)
}

/// A complete histogram, with cumulative sums over its buckets.
#[derive(Clone, Debug)]
pub struct Sums {
    weights: Vec<f64>,
    /// Sum of the buckets before each, and of all.
    sums: Vec<f64>,
}

impl Sums {
    /// Like [`Histogram::below`].
    #[must_use]
    pub fn below(&self, limit: u64) -> f64 {
        let whole = whole_buckets(limit, self.weights.len());
        self.sums[whole] + part_of_bucket(limit, whole, &self.weights)
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
        assert_eq!(once.weights, each.weights);
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
            // Computed bucket by bucket.
            let mut expected = 0.0;
            for (at, weight) in histogram.weights.iter().enumerate() {
                let (low, end) = bounds(at);
                if end <= limit {
                    expected += weight;
                } else if low < limit {
                    expected += weight * (limit - low) as f64 / (end - low) as f64;
                }
            }
            prop_assert_eq!(histogram.below(limit), expected);
            prop_assert_eq!(histogram.sums().below(limit), expected);
        }
    }
}
