//! Figures and verdicts in words.

use super::figure::Figure;
use super::measure::{Bound, Op, Unit};
use super::select::counts;
use super::sheet::Promise;
use super::verdict::{Judgement, Verdict};
use crate::run::JobResult;
use crate::stats::mean::INTERVALS_MIN;

/// Gigabytes of 10^9 bytes, as makers count.
pub(super) fn gigabytes(bytes: u64) -> String {
    let gigabytes = bytes as f64 / 1e9;
    if gigabytes < 10.0 { format!("{gigabytes:.2}") } else { format!("{gigabytes:.0}") }
}

/// Seconds; with more decimals where there are few.
pub(super) fn seconds(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    if seconds < 10.0 { format!("{seconds:.2}") } else { format!("{seconds:.1}") }
}

/// Microseconds, in the form of the published tables.
pub(super) fn us(ns: f64) -> String {
    let us = ns / 1e3;
    if us < 1000.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}

/// I/Os a second, in thousands where there are many.
pub(super) fn iops(iops: f64) -> String {
    match iops {
        10_000.0.. => format!("{:.1}k", iops / 1e3),
        10.0.. => format!("{iops:.0}"),
        // A promise below 1 must not be printed as 0.
        _ => format!("{}", (iops * 100.0).round() / 100.0),
    }
}

/// Megabytes a second.
pub(super) fn megabytes(bytes_per_second: f64) -> String {
    format!("{:.1}", bytes_per_second / 1e6)
}

/// A value with its unit.
pub(super) fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Iops => format!("{} IOPS", iops(value)),
        Unit::BytesPerSecond => format!("{} MB/s", megabytes(value)),
        // Finer than the tables of runs: an end of the interval must not look equal to the bound that it breaks.
        Unit::Ns if value < 100_000.0 => format!("{:.2} us", value / 1e3),
        Unit::Ns => format!("{} us", us(value)),
    }
}

/// A promise with its unit.
pub(super) fn promised(unit: Unit, bound: Bound) -> String {
    match bound {
        Bound::AtMost(limit) => format!("<= {}", value(unit, limit)),
        Bound::AtLeast(limit) => format!(">= {}", value(unit, limit)),
    }
}

/// The reason for a verdict.
pub(super) fn why(judgement: &Judgement, promise: &Promise, figure: &Figure, result: &JobResult) -> String {
    match judgement.verdict {
        Verdict::Pass => "the whole interval keeps the promise".to_owned(),
        Verdict::Fail => "the whole interval breaks the promise".to_owned(),
        Verdict::NotRun => String::new(),
        Verdict::TooFewSamples => too_few(judgement, promise, figure, result),
    }
}

fn too_few(judgement: &Judgement, promise: &Promise, figure: &Figure, result: &JobResult) -> String {
    let intervals = counts(result, Op::All, false).len();
    if figure.samples == 0 {
        return "no I/O was measured: run longer".to_owned();
    }
    let needed = judgement.needed_more.map_or_else(String::new, |more| {
        let rate = figure.samples as f64 * 1e9 / result.rated_ns.max(1) as f64;
        let seconds = (more as f64 / rate).ceil();
        format!("{more} more samples, {seconds:.0} s more at this rate")
    });
    if judgement.undecided {
        let advice = match judgement.needed_more {
            Some(_) => format!("about {needed} would tell, if the value stays"),
            None => "the value is on the promise itself, no number of samples would tell".to_owned(),
        };
        return format!("undecided: the promise lies within the interval; {advice}");
    }
    if intervals < INTERVALS_MIN {
        return format!(
            "{intervals} whole intervals of {:.3} s: {INTERVALS_MIN} are needed before anything is judged ({needed})",
            result.interval_ns as f64 / 1e9
        );
    }
    let worth = figure.effective_samples.map_or_else(String::new, |effective| {
        format!("; stalls cluster, so that {} samples are worth {effective:.0}", figure.samples)
    });
    format!("{} is not bounded yet: needs {needed}{worth}", promise.measure)
}
