//! A figure of a run with its interval, or with the number of samples that it lacks.

use super::measure::{Bound, Measure, Op};
use super::select::{blocks, counts, latencies, rated_bytes, rated_ios};
use crate::run::{JobResult, per_second};
use crate::stats::Confidence;
use crate::stats::clustering::{BLOCKS_MIN, Blocks, Clustering, MEAN_SAMPLES_MIN, mean_interval};
use crate::stats::mean::INTERVALS_MIN;
use crate::stats::percentile::{ByRank, Level, Share, effective_ranks, full_from};
use serde::Serialize;

/// Seed of the test of sparse exceedances, fixed so that a run is always judged in the same way.
const SEED: u64 = 1;

/// A figure in the unit of its measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// The estimate; `None` if there are too few samples for one.
    pub value: Option<f64>,
    /// Lower end of the interval; `None` if it is not bounded there.
    pub low: Option<f64>,
    /// Upper end of the interval; `None` if it is not bounded there.
    pub high: Option<f64>,
    /// Number of samples (I/Os).
    pub samples: u64,
    /// Number of independent samples that these are worth, where stalls were found to cluster.
    pub effective_samples: Option<f64>,
    /// Samples still needed to bound the interval on both sides; `None` if it is bounded.
    pub needed_more: Option<u64>,
}

/// The figure that a promise is about. `bound` is the promise's bound: even if a percentile is withheld, few samples
/// may show that it lies beyond the bound.
pub(super) fn figure(result: &JobResult, measure: Measure, op: Op, bound: Bound, confidence: Confidence) -> Figure {
    match measure {
        Measure::Iops => rate(result, op, false, confidence),
        Measure::BytesPerSecond => rate(result, op, true, confidence),
        Measure::Mean => mean(result, op, confidence),
        Measure::Percentile(share) => percentile(result, share, op, bound, confidence),
    }
}

fn rate(result: &JobResult, op: Op, bytes: bool, confidence: Confidence) -> Figure {
    let counts = counts(result, op, bytes);
    // The same number as in the row of the run: all I/Os served in the time to which rates refer.
    let samples = rated_ios(result, op);
    let all = if bytes { rated_bytes(result, op) } else { samples };
    let value = (samples > 0).then(|| per_second(all, result.rated_ns));
    match value.map(|per_second| result.rate_interval(&counts, per_second, confidence)) {
        Some(Some(interval)) => {
            Figure { value, low: Some(interval.low), high: Some(interval.high), samples, ..Figure::default() }
        }
        _ => Figure {
            value,
            samples,
            needed_more: Some(for_parts(samples, counts.len(), INTERVALS_MIN)),
            ..Figure::default()
        },
    }
}

fn mean(result: &JobResult, op: Op, confidence: Confidence) -> Figure {
    let latencies = latencies(result, op);
    let samples = latencies.count();
    let value = (samples > 0).then(|| latencies.mean_ns());
    let blocks = blocks(result, op).unwrap_or_default();
    match (value, mean_interval(&blocks, confidence)) {
        // Blocks store latencies in buckets and the mean is exact, so the interval is widened to include the mean.
        (Some(mean), Some(interval)) => Figure {
            value,
            low: Some(interval.low.min(mean)),
            high: Some(interval.high.max(mean)),
            samples,
            ..Figure::default()
        },
        _ => Figure {
            value,
            samples,
            needed_more: Some(
                for_parts(samples, blocks.len(), BLOCKS_MIN).max(MEAN_SAMPLES_MIN.saturating_sub(samples)),
            ),
            ..Figure::default()
        },
    }
}

/// Samples that fill the missing parts (intervals or blocks) at the rate so far.
fn for_parts(samples: u64, have: usize, need: usize) -> u64 {
    let missing = need.saturating_sub(have).max(1) as u64;
    (samples / (have.max(1) as u64)).max(1).saturating_mul(missing)
}

fn percentile(result: &JobResult, share: Share, op: Op, bound: Bound, confidence: Confidence) -> Figure {
    // A promise between a bucket's edge and the fastest I/O of all is broken by each of them.
    let latencies = latencies(result, op);
    let by_rank = ByRank::new(&latencies.histogram).within(latencies.min_ns(), latencies.max_ns());
    let samples = by_rank.samples();
    let blocks = blocks(result, op).unwrap_or_default();
    if blocks.len() < BLOCKS_MIN || samples == 0 {
        // It cannot be seen whether the slow I/Os are one stall or many: there is a value, but no interval that could
        // decide.
        let value = by_rank.estimate(Level::Share(share), confidence).value.value().map(|value| value as f64);
        let for_share = full_from(share, confidence).saturating_sub(samples);
        let needed_more = Some(for_share.max(for_parts(samples, blocks.len(), BLOCKS_MIN)));
        return Figure { value, samples, needed_more, ..Figure::default() };
    }
    let estimate = by_rank.estimate_clustered(Level::Share(share), confidence, &blocks, SEED);
    let value = estimate.value.value().map(|value| value as f64);
    let (low, high) = match value {
        Some(_) => {
            let (low, high) = estimate.value.bounds();
            (low.map(|low| low as f64), high.map(|high| high as f64))
        }
        None => withheld(&by_rank, &blocks, share, bound, confidence),
    };
    let worth = estimate.effective_samples.map_or(1.0, |effective| effective / samples as f64);
    let needed = (full_from(share, confidence) as f64 / worth.max(1e-9)).ceil() as u64;
    let bounded = value.is_some() && low.is_some() && high.is_some();
    let needed_more = (!bounded).then(|| needed.saturating_sub(samples).max(1));
    Figure { value, low, high, samples, effective_samples: estimate.effective_samples, needed_more }
}

/// The end of the interval that even few samples give for a withheld percentile. It is enough for a fail and never for
/// a pass: few samples cannot show the whole tail, but the slow I/Os that they do contain are part of it.
fn withheld(
    by_rank: &ByRank,
    blocks: &Blocks,
    share: Share,
    bound: Bound,
    confidence: Confidence,
) -> (Option<f64>, Option<f64>) {
    let samples = by_rank.samples();
    // Exceedances of the promised value, since that is the question.
    let effective = Clustering::at(blocks, bound.limit() as u64, SEED)
        .effective_samples(samples, confidence)
        .unwrap_or(samples as f64);
    let ranks = effective_ranks(share, samples, effective, confidence);
    let low = ranks.low.filter(|_| !share.is_low()).and_then(|rank| by_rank.at(rank)).map(|bucket| bucket.low as f64);
    let high = ranks.high.filter(|_| share.is_low()).and_then(|rank| by_rank.at(rank)).map(|bucket| bucket.high as f64);
    // Keep only the end that can refute the promise.
    match bound {
        Bound::AtMost(_) => (low, None),
        Bound::AtLeast(_) => (None, high),
    }
}
