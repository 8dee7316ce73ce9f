//! Judges a promise by a run.

use super::figure::{Figure, figure};
use super::measure::Op;
use super::report::PromiseReport;
use super::select::counts;
use super::sheet::Promise;
use super::verdict::{Judgement, Verdict, judge};
use super::words;
use crate::run::JobResult;
use crate::stats::Confidence;
use crate::stats::mean::INTERVALS_MIN;
use crate::stats::steady;

/// Number of I/Os that failed or never completed.
pub(super) fn failed(result: &JobResult) -> u64 {
    let errors: u64 = result.kinds.iter().map(|kind| kind.errors).sum();
    errors.max(result.failures.count) + u64::from(result.hung)
}

/// The report of a promise that has not been measured.
pub(super) fn unjudged(promise: &Promise) -> PromiseReport {
    PromiseReport {
        name: promise.name.clone(),
        source: promise.source.clone(),
        from_memory: promise.from_memory,
        note: promise.note.clone(),
        run: None,
        measure: promise.measure,
        op: promise.op,
        unit: promise.measure.unit(),
        promised: promise.bound,
        measured: Figure::default(),
        confidence_percent: 0.0,
        decided_after_s: None,
        written_share: None,
        of_part: None,
        verdict: Verdict::NotRun,
        needed_more: None,
        undecided: false,
        why: String::new(),
    }
}

/// The report of a promise, judged by a run.
pub(super) fn judged(promise: &Promise, result: &JobResult, run: usize, confidence: Confidence) -> PromiseReport {
    let mut report = unjudged(promise);
    let measured = figure(result, promise.measure, promise.op, promise.bound, confidence);
    let failed = failed(result);
    // One rule for all promises of a run, however it ended: fewer intervals do not show whether the slow I/Os are one
    // stall or frequent.
    let too_short = counts(result, Op::All, false).len() < INTERVALS_MIN;
    let judgement = match failed {
        0 if too_short => {
            let needed_more = measured.needed_more;
            Judgement { verdict: Verdict::TooFewSamples, undecided: false, needed_more }
        }
        0 => judge(promise.bound, &measured),
        // Latencies are those of I/Os that succeeded, so a run with failed I/Os keeps no promise.
        _ => Judgement { verdict: Verdict::Fail, undecided: false, needed_more: None },
    };
    report.run = Some(run);
    report.why = if failed > 0 {
        let first = result.failures.first.first().map_or_else(String::new, |failure| {
            format!(": {} at byte {}: {}", failure.kind.name(), failure.offset_bytes, failure.what)
        });
        format!("{} failed or never came back{first}", forebay_block::figures::count(failed, "I/O"))
    } else {
        words::why(&judgement, promise, &measured, result)
    };
    report.verdict = judgement.verdict;
    report.undecided = judgement.undecided;
    report.needed_more = judgement.needed_more;
    report.measured = measured;
    report.confidence_percent = 100.0 - confidence.error() * 100.0;
    report
}

/// Whether five equal parts of the run are steady by the SNIA's rule; `None` with too few intervals.
pub(super) fn is_steady(counts: &[u64]) -> Option<bool> {
    steady::five_parts(counts).map(|found| found.steady)
}
