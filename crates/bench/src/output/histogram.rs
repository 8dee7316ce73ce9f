//! Histograms of latencies in results: small, and exact at every percentile that is reported beside them.
//!
//! The counters of a run have a resolution of one part in 1024. A wide distribution occupies ten thousand of them, too many for a result.
//! So if more than a limit are occupied, neighbours are merged; each power of two is divided into as many parts as the limit allows. A
//! bucket that contains a printed percentile or an end of its interval is not merged, so that each can be computed again from the
//! histogram.

use crate::stats::percentile::{Bucket, ByRank, PercentileEstimate};
use serde_json::{Value, json};

/// Most buckets of a distribution in a job's result, without those kept separate for percentiles.
pub const BUCKETS_MAX: usize = 512;
/// Most buckets if a result has many distributions.
pub const BUCKETS_FEW: usize = 128;
/// Binary logarithm of the parts of a power of two in the counters, which are tried first.
const PARTS_MOST: u32 = 10;
/// Binary logarithm of the parts in the coarsest division: one part in 16.
const PARTS_LEAST: u32 = 4;

/// Buckets with samples, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// For each bucket, its smallest and largest value in nanoseconds, and its number of samples.
    pub buckets: Vec<(u64, u64, u64)>,
}

impl Counted {
    /// Merges to at most `most` buckets and those of `percentiles`, which must be from the same samples.
    #[must_use]
    pub fn new(by_rank: &ByRank, percentiles: &[PercentileEstimate], most: usize) -> Self {
        let edges: Vec<u64> = percentiles
            .iter()
            .flat_map(|estimate| {
                let (low, high) = estimate.value.bounds();
                [estimate.value.value(), low, high]
            })
            .flatten()
            .collect();
        let is_kept = |bucket: &Bucket| edges.contains(&bucket.low) || edges.contains(&bucket.high);
        let grouped = |parts: u32| -> usize {
            let groups =
                by_rank.buckets().iter().filter(|bucket| !is_kept(bucket)).map(|bucket| group(bucket.low, parts));
            groups.fold((0, None), |(count, last), group| (count + usize::from(last != Some(group)), Some(group))).0
        };
        let parts = (PARTS_LEAST..=PARTS_MOST).rev().find(|&parts| grouped(parts) <= most).unwrap_or(PARTS_LEAST);
        let mut counted = Self::default();
        let (mut before, mut last) = (0, None);
        for bucket in by_rank.buckets() {
            let count = bucket.up_to - before;
            before = bucket.up_to;
            let of = (!is_kept(bucket)).then(|| group(bucket.low, parts));
            match counted.buckets.last_mut() {
                Some(open) if of.is_some() && of == last => (open.1, open.2) = (bucket.high, open.2 + count),
                _ => counted.buckets.push((bucket.low, bucket.high, count)),
            }
            last = of;
        }
        counted
    }

    /// The buckets as columns, for results.
    #[must_use]
    pub fn json(&self) -> Value {
        let column = |of: fn(&(u64, u64, u64)) -> u64| self.buckets.iter().map(of).collect::<Vec<u64>>();
        json!({
            "low_ns": column(|bucket| bucket.0),
            "high_ns": column(|bucket| bucket.1),
            "counts": column(|bucket| bucket.2),
        })
    }
}

/// The part that a value belongs to, with 2^`parts` parts for each power of two; smaller values are not merged.
fn group(value: u64, parts: u32) -> (u32, u64) {
    let power = (value | 1).ilog2();
    let shift = power.saturating_sub(parts);
    (shift, value >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Latencies, Tally};
    use crate::stats::Confidence;
    use crate::stats::percentile::{Level, estimates};
    use proptest::prelude::*;

    /// What a reader computes from a result: the value of a percentile.
    fn quantile(counted: &Counted, percent: f64, samples: u64) -> u64 {
        let rank = (percent / 100.0 * samples as f64 - 1e-6).ceil().max(1.0) as u64;
        let mut up_to = 0;
        let found = counted.buckets.iter().find(|bucket| {
            up_to += bucket.2;
            up_to >= rank
        });
        found.unwrap().1
    }

    proptest! {
        #[test]
        fn percentiles_can_be_computed_again(
            values in prop::collection::vec((0_u32..40, 0_u64..1 << 40), 1..4000), most in 1_usize..600,
        ) {
            let mut tally = Tally::new();
            values.iter().for_each(|&(shift, value)| tally.record(value >> shift));
            let mut all = Latencies::new();
            all.add(&tally);
            let levels = Level::parse_list("1,50,75,90,99,99.9").unwrap();
            let found = estimates(&all.histogram, &levels, Confidence::P95, None);
            let counted = Counted::new(&ByRank::new(&all.histogram), &found, most);
            prop_assert_eq!(counted.buckets.iter().map(|bucket| bucket.2).sum::<u64>(), values.len() as u64);
            prop_assert!(counted.buckets.windows(2).all(|pair| pair[0].1 < pair[1].0));
            for &(low, high, count) in &counted.buckets {
                prop_assert!(low <= high && count > 0 && high - low <= low / 16 + 1, "{low} - {high}");
            }
            for estimate in found {
                let (Some(value), Level::Share(share)) = (estimate.value.value(), estimate.level) else { continue };
                prop_assert_eq!(quantile(&counted, share.percent(), values.len() as u64), value);
                let (low, high) = estimate.value.bounds();
                prop_assert!(low.is_none_or(|low| counted.buckets.iter().any(|bucket| bucket.0 == low)));
                prop_assert!(high.is_none_or(|high| counted.buckets.iter().any(|bucket| bucket.1 == high)));
            }
        }
    }

    #[test]
    fn few_buckets_are_as_they_were_counted_and_many_become_few() {
        let mut tally = Tally::new();
        (0..300_u64).for_each(|value| tally.record(value * 7));
        let mut all = Latencies::new();
        all.add(&tally);
        let by_rank = ByRank::new(&all.histogram);
        assert_eq!(Counted::new(&by_rank, &[], BUCKETS_MAX).buckets.len(), 300);
        (0..100_000_u64).for_each(|value| tally.record(2000 + value * 701));
        all = Latencies::new();
        all.add(&tally);
        let by_rank = ByRank::new(&all.histogram);
        assert!(by_rank.buckets().len() > 5_000);
        let counted = Counted::new(&by_rank, &[], BUCKETS_MAX);
        assert!((256..=BUCKETS_MAX).contains(&counted.buckets.len()), "{}", counted.buckets.len());
        assert!(serde_json::to_string(&counted.json()).unwrap().len() < 12_000);
        assert_eq!(Counted::new(&ByRank::default(), &[], BUCKETS_MAX).json()["counts"], json!([]));
    }
}
