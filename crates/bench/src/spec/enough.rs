//! How many I/Os a run needs in virtual time, where its length only costs computing.
//!
//! The number is fixed before the run, from the promises and not from the results: a run that ended as soon as its
//! interval fits would pass more often than it should.

use super::measure::Measure;
use super::sheet::Promise;
use crate::job::model::Job;
use crate::stats::Confidence;
use crate::stats::percentile::full_from;

/// Fewest I/Os of a run: means and rates need many intervals, and a drive takes a while to reach its normal operation.
const IOS_MIN: u64 = 1_000_000;
/// Factor on the number of samples that would bound a percentile if they were independent, since stalls come in
/// clusters.
const TIMES: u64 = 4;

/// I/Os after which the percentiles of `promises` are bounded on both sides.
pub(super) fn enough_ios<'a>(job: &Job, promises: impl Iterator<Item = &'a Promise>, confidence: Confidence) -> u64 {
    let weights = || job.mix.weights.iter();
    let all: u64 = weights().map(|&(_, weight)| u64::from(weight)).sum();
    let needed = promises.map(|promise| {
        let Measure::Percentile(share) = promise.measure else { return IOS_MIN };
        let taken: u64 =
            weights().filter(|&&(kind, _)| promise.op.takes(kind)).map(|&(_, weight)| u64::from(weight)).sum();
        let samples = full_from(share, confidence).saturating_mul(TIMES);
        samples.saturating_mul(all.max(1)).div_ceil(taken.max(1))
    });
    needed.max().unwrap_or(IOS_MIN).max(IOS_MIN)
}
