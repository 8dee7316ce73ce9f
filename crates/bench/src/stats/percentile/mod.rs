//! Percentiles with their confidence intervals, withheld if there are too few samples to bound them.

mod level;
mod ranks;

pub use level::{LEVELS_MAX, Level, LevelError, Share};
pub use ranks::{Ranks, Reach, effective_ranks, full_from, printed_from, ranks, reach};

use super::clustering::{Blocks, Clustering};
use super::confidence::Confidence;
use hdrhistogram::Histogram;

/// A percentile as it is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PercentileEstimate {
    /// Level.
    pub level: Level,
    /// Number of samples.
    pub samples: u64,
    /// Value and bounds.
    pub value: Reported,
    /// Number of independent samples that would give the same bounds, where stalls were found to cluster; the bounds then follow from it
    /// instead of from `samples`.
    pub effective_samples: Option<f64>,
}

/// Value and bounds of a percentile, in the unit of the histogram (ns). A value is the upper edge of its bucket, as in HdrHistogram and
/// fio; a lower bound is the lower edge of its bucket, an upper bound the upper edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// Too few samples; no value is given.
    Withheld {
        /// Samples still needed for a value.
        needed_more: u64,
    },
    /// The smallest or largest sample: an observation, not an estimate.
    Observed {
        /// The sample.
        value: u64,
    },
    /// Enough samples for a value, not yet for an upper bound.
    Open {
        /// Value.
        value: u64,
        /// Lower bound.
        low: u64,
    },
    /// Enough samples for a value, not yet for a lower bound (levels below the median).
    OpenBelow {
        /// Value.
        value: u64,
        /// Upper bound.
        high: u64,
    },
    /// Enough samples for a value, but so clustered that they give no bound.
    Unbounded {
        /// Value.
        value: u64,
    },
    /// Bounded on both sides.
    Full {
        /// Value.
        value: u64,
        /// Lower bound.
        low: u64,
        /// Upper bound.
        high: u64,
    },
}

impl Reported {
    /// The value; `None` if it is withheld.
    #[must_use]
    pub fn value(&self) -> Option<u64> {
        match *self {
            Self::Withheld { .. } => None,
            Self::Observed { value }
            | Self::Open { value, .. }
            | Self::OpenBelow { value, .. }
            | Self::Unbounded { value }
            | Self::Full { value, .. } => Some(value),
        }
    }

    /// Lower and upper bound; `None` where there is no such bound.
    #[must_use]
    pub fn bounds(&self) -> (Option<u64>, Option<u64>) {
        match *self {
            Self::Withheld { .. } | Self::Observed { .. } | Self::Unbounded { .. } => (None, None),
            Self::Open { low, .. } => (Some(low), None),
            Self::OpenBelow { high, .. } => (None, Some(high)),
            Self::Full { low, high, .. } => (Some(low), Some(high)),
        }
    }
}

/// A bucket with samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value that falls into it.
    pub low: u64,
    /// Largest value that falls into it.
    pub high: u64,
    /// Number of samples in this bucket and all below.
    pub up_to: u64,
}

/// Samples by rank: the cumulative counts of a histogram's occupied buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByRank {
    buckets: Vec<Bucket>,
}

impl ByRank {
    /// Reads a histogram once.
    #[must_use]
    pub fn new(histogram: &Histogram<u64>) -> Self {
        let mut up_to = 0_u64;
        let buckets = histogram
            .iter_recorded()
            .map(|step| {
                up_to = up_to.saturating_add(step.count_at_value());
                let value = step.value_iterated_to();
                Bucket { low: histogram.lowest_equivalent(value), high: histogram.highest_equivalent(value), up_to }
            })
            .collect();
        Self { buckets }
    }

    /// The same, where the smallest and the largest sample are known exactly: nothing lies outside of them, whatever the edges of their buckets are.
    #[must_use]
    pub fn within(mut self, smallest: u64, largest: u64) -> Self {
        for bucket in &mut self.buckets {
            (bucket.low, bucket.high) = (bucket.low.max(smallest), bucket.high.min(largest));
        }
        self
    }

    /// The occupied buckets, ascending.
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.buckets.last().map_or(0, |bucket| bucket.up_to)
    }

    /// The bucket of the sample with this rank (from 1; beyond the last, the last); `None` without samples.
    #[must_use]
    pub fn at(&self, rank: u64) -> Option<Bucket> {
        let index = self.buckets.partition_point(|bucket| bucket.up_to < rank);
        self.buckets.get(index).or(self.buckets.last()).copied()
    }

    /// The estimate of a percentile, assuming independent samples.
    #[must_use]
    pub fn estimate(&self, level: Level, confidence: Confidence) -> PercentileEstimate {
        self.bounded(level, None, |share| ranks(share, self.samples(), confidence), confidence)
    }

    /// The estimate of a percentile, with wider bounds if its exceedances cluster in `blocks`, which hold the same samples by time. Whether
    /// a value is given depends on the number of samples all the same. `seed` is for the test of sparse exceedances.
    #[must_use]
    pub fn estimate_clustered(
        &self,
        level: Level,
        confidence: Confidence,
        blocks: &Blocks,
        seed: u64,
    ) -> PercentileEstimate {
        let samples = self.samples();
        let Level::Share(share) = level else { return self.estimate(level, confidence) };
        let bucket = match reach(share, samples, confidence) {
            Reach::Withheld { .. } => return self.estimate(level, confidence),
            Reach::Open | Reach::Full => self.at(share.rank(samples)),
        };
        let Some(bucket) = bucket else { return self.estimate(level, confidence) };
        let clustering = Clustering::at(blocks, bucket.high, seed);
        let Some(effective) = clustering.effective_samples(samples, confidence) else {
            return self.estimate(level, confidence);
        };
        self.bounded(level, Some(effective), |share| effective_ranks(share, samples, effective, confidence), confidence)
    }

    fn bounded(
        &self,
        level: Level,
        effective_samples: Option<f64>,
        bounds: impl Fn(Share) -> Ranks,
        confidence: Confidence,
    ) -> PercentileEstimate {
        let samples = self.samples();
        let value = match level {
            Level::Min => self
                .at(1)
                .map_or(Reported::Withheld { needed_more: 1 }, |first| Reported::Observed { value: first.low }),
            Level::Max => self
                .at(samples)
                .map_or(Reported::Withheld { needed_more: 1 }, |last| Reported::Observed { value: last.high }),
            Level::Share(share) => match (reach(share, samples, confidence), self.at(share.rank(samples))) {
                (Reach::Withheld { needed_more }, _) => Reported::Withheld { needed_more },
                (_, None) => Reported::Withheld { needed_more: printed_from(share, confidence) },
                (_, Some(bucket)) => {
                    let value = bucket.high;
                    let ranks = bounds(share);
                    let low = ranks.low.and_then(|rank| self.at(rank)).map(|bucket| bucket.low);
                    let high = ranks.high.and_then(|rank| self.at(rank)).map(|bucket| bucket.high);
                    match (low, high) {
                        (Some(low), Some(high)) => Reported::Full { value, low, high },
                        (Some(low), None) => Reported::Open { value, low },
                        (None, Some(high)) => Reported::OpenBelow { value, high },
                        (None, None) => Reported::Unbounded { value },
                    }
                }
            },
        };
        PercentileEstimate { level, samples, value, effective_samples }
    }
}

/// Estimates of all `levels` from a histogram. With `blocks` of the same samples by time, clustering is taken into account (see
/// [`ByRank::estimate_clustered`]).
#[must_use]
pub fn estimates(
    histogram: &Histogram<u64>,
    levels: &[Level],
    confidence: Confidence,
    blocks: Option<(&Blocks, u64)>,
) -> Vec<PercentileEstimate> {
    let by_rank = ByRank::new(histogram);
    let one = |level: &Level| match blocks {
        Some((blocks, seed)) => by_rank.estimate_clustered(*level, confidence, blocks, seed),
        None => by_rank.estimate(*level, confidence),
    };
    levels.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(samples: u64) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        (1..=samples).for_each(|value| histogram.record(value).unwrap());
        histogram
    }

    fn level(text: &str) -> Level {
        text.parse().unwrap()
    }

    #[test]
    fn reads_values_and_bounds_by_rank() {
        // Values up to 2047 have buckets of their own.
        let estimate = ByRank::new(&up_to(1000)).estimate(level("50"), Confidence::P95);
        // The interval of the median of 1,000: ranks 469 and 532.
        assert_eq!(estimate.value, Reported::Full { value: 500, low: 469, high: 532 });
        assert_eq!((estimate.samples, estimate.effective_samples), (1000, None));
        let rows = estimates(&up_to(1000), &Level::ladder(), Confidence::P95, None);
        assert_eq!(rows[0].value, Reported::Observed { value: 1 });
        assert_eq!(rows[15].value, Reported::Observed { value: 1000 });
        assert_eq!(rows[10].value, Reported::Withheld { needed_more: 1_995 });
        assert_eq!(rows[14].value, Reported::Withheld { needed_more: 29_956_322 });
    }

    #[test]
    fn withholds_opens_and_closes_at_the_counts() {
        let at = |samples, text| ByRank::new(&up_to(samples)).estimate(level(text), Confidence::P95).value;
        assert_eq!(at(298, "99"), Reported::Withheld { needed_more: 1 });
        assert!(matches!(at(299, "99"), Reported::Open { value: 297, .. }));
        assert!(matches!(at(368, "99"), Reported::Open { .. }));
        assert!(matches!(at(369, "99"), Reported::Full { high: 369, .. }));
        assert_eq!(at(298, "1"), Reported::Withheld { needed_more: 1 });
        assert!(matches!(at(299, "1"), Reported::OpenBelow { value: 3, .. }));
        assert!(matches!(at(369, "1"), Reported::Full { low: 1, .. }));
        assert_eq!(at(0, "50"), Reported::Withheld { needed_more: 5 });
        assert_eq!(at(0, "max"), Reported::Withheld { needed_more: 1 });
    }

    #[test]
    fn p9999_changes_exactly_at_29956_and_36888() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        let mut at = |samples: u64| {
            histogram.clear();
            histogram.record_n(10, samples).unwrap();
            ByRank::new(&histogram).estimate(level("99.99"), Confidence::P95).value
        };
        assert_eq!(at(29_955), Reported::Withheld { needed_more: 1 });
        assert_eq!(at(29_956), Reported::Open { value: 10, low: 10 });
        assert_eq!(at(36_887), Reported::Open { value: 10, low: 10 });
        assert_eq!(at(36_888), Reported::Full { value: 10, low: 10, high: 10 });
    }

    #[test]
    fn bounds_take_the_whole_bucket_in() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        histogram.record_n(1_000_000, 100).unwrap();
        let Reported::Full { value, low, high } = ByRank::new(&histogram).estimate(level("50"), Confidence::P95).value
        else {
            panic!("not full");
        };
        assert!(low <= 1_000_000 && 1_000_000 <= high && value == high);
        assert!(high - low <= 1_000, "a bucket of three digits");
    }
}
