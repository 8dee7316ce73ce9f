//! Our own JSON: all results of a run, each percentile with its interval or the samples that it lacks.
//!
//! Names end with their unit. Latencies are those of successful I/Os. `submission` is the time from intended to submitted, `device` from
//! submitted to seen completed, `total` the sum; in an open loop the intended time is the scheduled one.

use super::histogram::{BUCKETS_MAX, Counted};
use super::host;
use crate::job::model::{Arrival, Calls, Job, Mix, Pattern, SizeMix};
use crate::run::{BurstRow, IntervalRow, JobResult, KindResult, Latencies, OpenLoop, per_second};
use crate::stats::Confidence;
use crate::stats::Interval;
use crate::stats::clustering::{BLOCKS_MIN, Blocks};
use crate::stats::little::{self, Check, Measured};
use crate::stats::open_loop::{self, Arrivals};
use crate::stats::percentile::{ByRank, Level, PercentileEstimate, Reported, estimates, printed_from};
use crate::stats::steady::steady_from;
use forebay_block::OpKind;
use serde_json::{Value, json};

/// Seed of the bootstrap for clustered intervals, fixed so that results of a run are always reported in the same way.
const BOOTSTRAP_SEED: u64 = 1;

/// Names of fio's classes of the depth at issue.
pub const DEPTH_LEVELS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];

/// How results are reported.
#[derive(Clone, Debug)]
pub struct Reporting {
    /// The percentiles that are reported.
    pub levels: Vec<Level>,
    /// Confidence of intervals.
    pub confidence: Confidence,
    /// Whether the JSON has a row for each interval.
    pub intervals: bool,
}

impl Default for Reporting {
    fn default() -> Self {
        Self { levels: Level::ladder(), confidence: Confidence::P95, intervals: true }
    }
}

/// Little's law for a job: the measured mean depth against rate times mean latency.
#[must_use]
pub fn little(result: &JobResult) -> Check {
    little::check(Measured {
        mean_depth: result.depth_mean,
        completions: result.ended(),
        elapsed_ns: result.depth_ns,
        mean_latency_ns: result.service_mean_ns,
    })
}

/// Estimates of the percentiles of a kind's latencies.
#[must_use]
pub fn percentiles(latencies: &Latencies, blocks: Option<&Blocks>, reporting: &Reporting) -> Vec<PercentileEstimate> {
    let blocks = blocks.map(|blocks| (blocks, BOOTSTRAP_SEED));
    estimates(&latencies.histogram, &reporting.levels, reporting.confidence, blocks)
}

/// A job's result as JSON.
#[must_use]
pub fn job(result: &JobResult, own_cost_ns: Option<f64>, reporting: &Reporting) -> Value {
    let little = little(result);
    let ios = result.ios();
    let rated_ios = result.rated_ios();
    let per_io = |ns: u64| (rated_ios > 0).then(|| ns as f64 / rated_ios as f64);
    let is_judged = little.verdict != little::Verdict::NotJudged;
    let ended = result.ended();
    let mut value = json!({
        "name": result.job.name,
        "job": asked(&result.job),
        "target": { "name": result.target_name, "size_bytes": result.target_bytes, "access": result.description, "notes": result.notes },
        "partial": result.partial.map(|partial| partial.name()),
        "duration_s": result.duration_ns as f64 / 1e9,
        "rated_s": result.rated_ns as f64 / 1e9,
        "ios": ios,
        "bytes": result.bytes(),
        "iops": result.iops(),
        "iops_interval": bounds(iops_interval(result, reporting)),
        "bytes_per_second": result.bytes_per_second(),
        "all_ran": result.all_ran.map(|all| json!({
            "duration_s": all.duration_ns as f64 / 1e9,
            "ios": all.ios,
            "bytes": all.bytes,
            "iops": all.iops(),
            "bytes_per_second": all.bytes_per_second(),
        })),
        "depth": {
            "asked": u64::from(result.job.threads) * u64::from(result.job.depth),
            "mean": result.depth_mean,
            "wanted_mean": result.depth_wanted(),
            "at_issue": depth_levels(result),
        },
        "total_latency_mean_ns": result.total_mean_ns(),
        "time_in_flight_mean_ns": (ended > 0).then_some(result.service_mean_ns),
        "littles_law": {
            "completions": ended,
            "completions_per_second": per_second(ended, result.depth_ns),
            "time_in_flight_mean_ns": (ended > 0).then_some(result.service_mean_ns),
            "implied_depth": is_judged.then_some(little.implied_depth),
            "measured_depth": result.depth_mean,
            "deviation": is_judged.then_some(little.deviation),
            "tolerance": is_judged.then_some(little.tolerance),
            "verdict": verdict(little.verdict),
        },
        "cpu": {
            "ns_per_io": per_io(result.used.cpu_all_ns()),
            "user_ns_per_io": result.used.split_ns().and_then(|split| per_io(split.0)),
            "system_ns_per_io": result.used.split_ns().and_then(|split| per_io(split.1)),
        },
        "host": host::json(result, &|latencies| latency(latencies, None, reporting)),
        "own_cost_ns_per_io": own_cost_ns,
        "path_cost_ns_per_io": path_cost_ns(result, own_cost_ns),
        "generator_busy": result.generator_busy(),
        "generator_occupied": result.generator_occupied(),
        "limited_by_generator": result.is_limited_by_generator(),
        "kinds": result.kinds.iter().map(|found| kind(result, found, reporting)).collect::<Vec<_>>(),
        "bursts": result.bursts.iter().map(burst).collect::<Vec<_>>(),
        "failures": {
            "count": result.failures.count,
            "mismatches": result.failures.mismatches,
            "hung": result.hung,
            "first": result.failures.first.iter().map(|failure| json!({
                "kind": failure.kind.name(),
                "offset_bytes": failure.offset_bytes,
                "size_bytes": failure.len_bytes,
                "at_s": failure.at_ns as f64 / 1e9,
                "what": failure.what,
            })).collect::<Vec<_>>(),
        },
        "open_loop": result.open.map(|open| {
            let check = open_loop(result, &open);
            json!({
                "scheduled": open.scheduled,
                "issued": open.issued,
                "backlog": open.backlog,
                "late_by_tool": open.late,
                "no_slot": open.no_slot,
                "issued_per_second": check.per_second,
                "deviation": check.deviation,
                "tolerance": check.tolerance,
                "verdict": open_loop_verdict(check.verdict),
            })
        }),
        "verified_units": result.judged.map(|judged| json!({
            "whole": judged.whole,
            "partly": judged.partly,
            "unjudged": judged.unjudged,
            "wrong": judged.wrong,
        })),
        "records_dropped": result.records_dropped,
        "steady_state": super::steady::json(result),
    });
    if reporting.intervals {
        value["intervals"] = result.intervals.iter().map(|row| interval(row, reporting)).collect();
        value["interval_s"] = (result.interval_ns as f64 / 1e9).into();
        value["steady_from_s"] = steady_from_s(result).into();
    }
    value
}

/// Seconds after which the run was steady by the SNIA's rule; `None` if it was not, or has too few intervals.
fn steady_from_s(result: &JobResult) -> Option<f64> {
    // The last interval may be cut short, which would look like a fall.
    let whole = result.intervals.iter().filter(|row| row.length_ns == result.interval_ns);
    let counts: Vec<u64> = whole.clone().map(|row| row.ios).collect();
    whole.clone().nth(steady_from(&counts)?).map(|row| row.begin_ns as f64 / 1e9)
}

/// User time per I/O that is spent on the way to the target: rings, sockets, protocols. It is the threads' user time without the cost of
/// making and measuring the load. `None` if threads wait by polling, or if it is not known: too few clock ticks, or no more than the load's
/// own cost.
#[must_use]
pub fn path_cost_ns(result: &JobResult, own_cost_ns: Option<f64>) -> Option<f64> {
    result.generator_busy()?;
    let user_ns = result.used.split_ns()?.0 as f64 / result.rated_ios().max(1) as f64;
    Some(user_ns - own_cost_ns?).filter(|&ns| ns >= 0.0)
}

/// A verdict on Little's law, for people and programs.
#[must_use]
pub fn verdict(verdict: little::Verdict) -> &'static str {
    match verdict {
        little::Verdict::Holds => "holds",
        little::Verdict::TooMuch => "broken: more than was in flight",
        little::Verdict::TooLittle => "broken: less than was in flight",
        little::Verdict::NotJudged => "not judged: too few I/Os",
    }
}

/// I/Os that succeeded, by the depth at their issue, in fio's classes.
fn depth_levels(result: &JobResult) -> Value {
    DEPTH_LEVELS.iter().zip(result.depth_levels).map(|(&level, ios)| (level.to_owned(), Value::from(ios))).collect()
}

/// Length of an open loop's schedule in nanoseconds.
#[must_use]
pub fn window_ns(result: &JobResult) -> u64 {
    match (result.job.end.after_ns, result.partial) {
        (Some(after_ns), None) if result.duration_ns >= after_ns => after_ns,
        _ => result.duration_ns,
    }
}

/// Whether the I/Os of an open loop came as scheduled.
#[must_use]
pub fn open_loop(result: &JobResult, open: &OpenLoop) -> open_loop::Check {
    let wanted_per_second = match result.job.arrival {
        Arrival::Constant { iops } | Arrival::Poisson { iops } => iops,
        // A trace has no rate; only its number of I/Os can be checked.
        _ => 0.0,
    };
    let OpenLoop { scheduled, issued, backlog, issued_ns, .. } = *open;
    open_loop::check(Arrivals { scheduled, issued, backlog, wanted_per_second, elapsed_ns: issued_ns })
}

/// A verdict on arrivals, for people and programs.
#[must_use]
pub fn open_loop_verdict(verdict: open_loop::Verdict) -> &'static str {
    match verdict {
        open_loop::Verdict::Kept => "kept",
        open_loop::Verdict::Missing { .. } => "broken: not all were submitted",
        open_loop::Verdict::Surplus { .. } => "broken: more than scheduled were submitted",
        open_loop::Verdict::RateOff => "broken: not the rate asked for",
        open_loop::Verdict::NotJudged => "not judged: no rate was asked for",
    }
}

/// Whether the run has enough blocks of time to see whether slow I/Os cluster. If not, intervals of percentiles assume independence.
#[must_use]
pub fn is_clustering_judged(found: &KindResult) -> bool {
    found.blocks.len() >= BLOCKS_MIN
}

/// Confidence interval of a job's I/Os a second.
#[must_use]
pub fn iops_interval(result: &JobResult, reporting: &Reporting) -> Option<Interval> {
    result.rate_interval(&result.counts(|row| row.ios), result.iops(), reporting.confidence)
}

/// Confidence interval of one kind's I/Os a second. Only for reads, and for writes if all are of one kind, since intervals count no other
/// kinds.
#[must_use]
pub fn kind_iops_interval(result: &JobResult, found: &KindResult, reporting: &Reporting) -> Option<Interval> {
    let counts = match found.kind {
        OpKind::Read => result.counts(|row| row.read.ios),
        OpKind::Write if result.kind(OpKind::WriteFua).is_none() => result.counts(|row| row.write.ios),
        OpKind::WriteFua if result.kind(OpKind::Write).is_none() => result.counts(|row| row.write.ios),
        _ => return None,
    };
    result.rate_interval(&counts, per_second(found.rated_ios(), result.rated_ns), reporting.confidence)
}

fn bounds(interval: Option<Interval>) -> Value {
    interval.map_or(Value::Null, |interval| json!({ "low": interval.low, "high": interval.high }))
}

fn kind(result: &JobResult, found: &KindResult, reporting: &Reporting) -> Value {
    json!({
        "kind": found.kind.name(),
        "ios": found.ios,
        "bytes": found.bytes,
        "errors": found.errors,
        "backlog": found.backlog.ios,
        "iops": per_second(found.rated_ios(), result.rated_ns),
        "iops_interval": bounds(kind_iops_interval(result, found, reporting)),
        "bytes_per_second": per_second(found.rated_bytes(), result.rated_ns),
        "mean_interval_ns": bounds(found.mean_interval(reporting.confidence)),
        "blocks": found.blocks.len(),
        "clustering_judged": is_clustering_judged(found),
        "latency_ns": {
            "total": latency(&found.total, Some(&found.blocks), reporting),
            "device": latency(&found.device, None, reporting),
            "submission": latency(&found.submission, None, reporting),
        },
    })
}

/// Latencies as JSON: minimum, mean, maximum, percentiles with their intervals, and the histogram from which these can be computed again.
#[must_use]
pub fn latency(latencies: &Latencies, blocks: Option<&Blocks>, reporting: &Reporting) -> Value {
    let some = latencies.count() > 0;
    let percentiles = percentiles(latencies, blocks, reporting);
    let counted = Counted::new(&ByRank::new(&latencies.histogram), &percentiles, BUCKETS_MAX);
    json!({
        "samples": latencies.count(),
        "min": some.then(|| latencies.min_ns()),
        "mean": some.then(|| latencies.mean_ns()),
        "stddev": some.then(|| latencies.deviation_ns()),
        "max": some.then(|| latencies.max_ns()),
        "confidence_percent": reporting.confidence.percent(),
        "percentiles": percentiles.iter().filter_map(percentile).collect::<Vec<_>>(),
        "histogram": counted.json(),
    })
}

/// One percentile as JSON; `None` for minimum and maximum, which are reported exactly.
fn percentile(estimate: &PercentileEstimate) -> Option<Value> {
    let Level::Share(share) = estimate.level else { return None };
    let (status, needed_more) = match estimate.value {
        Reported::Withheld { needed_more } => ("withheld", Some(needed_more)),
        Reported::Observed { .. } => ("observed", None),
        Reported::Open { .. } | Reported::OpenBelow { .. } => ("open", None),
        Reported::Unbounded { .. } => ("unbounded", None),
        Reported::Full { .. } => ("bounded", None),
    };
    let (low, high) = estimate.value.bounds();
    Some(json!({
        "percentile": share.percent(),
        "status": status,
        "value": estimate.value.value(),
        "low": low,
        "high": high,
        "samples_needed_more": needed_more,
        "effective_samples": estimate.effective_samples,
    }))
}

/// Percentiles of intervals are withheld with too few samples too.
fn interval(row: &IntervalRow, reporting: &Reporting) -> Value {
    let [mean, median, p99, p999, max] = row.latency_ns;
    let from = |least: u64, ns: u64| (row.ios >= least).then_some(ns);
    let percentile = |level: &str, ns: u64| match level.parse() {
        Ok(Level::Share(share)) => from(printed_from(share, reporting.confidence), ns),
        _ => None,
    };
    json!({
        "begin_s": row.begin_ns as f64 / 1e9,
        "length_s": row.length_ns as f64 / 1e9,
        "ios": row.ios,
        "bytes": row.bytes,
        "errors": row.errors,
        "latency_ns": {
            "mean": from(1, mean),
            "p50": percentile("50", median),
            "p99": percentile("99", p99),
            "p99.9": percentile("99.9", p999),
            "max": from(1, max),
        },
    })
}

fn burst(row: &BurstRow) -> Value {
    json!({
        "window_ms": row.window_ns as f64 / 1e6,
        "iops_max": row.iops_max,
        "iops_min": row.iops_min,
        "bytes_per_second_max": row.bytes_per_second_max,
        "bytes_per_second_min": row.bytes_per_second_min,
    })
}

/// The job's settings as JSON, so that a result can be read without the job file.
#[must_use]
pub fn asked(job: &Job) -> Value {
    let sizes = |mix: &SizeMix| -> Value {
        mix.choices.iter().map(|&(bytes, weight)| json!({ "bytes": bytes, "weight": weight })).collect()
    };
    json!({
        "threads": job.threads,
        "depth": job.depth,
        "mix": mix(&job.mix),
        "read_sizes": sizes(&job.sizes.read),
        "write_sizes": sizes(&job.sizes.write),
        "pattern": pattern(&job.pattern),
        "arrival": arrival(&job.arrival),
        "wait": job.wait.to_string(),
        "submission": if job.single_submission { "single" } else { "batch" },
        "calls": match job.access.calls {
            Calls::Ring => "io_uring",
            Calls::RingPolled => "io_uring, polled",
            Calls::Sync { high_priority: false } => "pread/pwrite",
            Calls::Sync { high_priority: true } => "preadv2/pwritev2, high priority",
        },
        "buffered": job.access.buffered,
        "dsync": job.access.dsync,
        "think_ns": job.think.map(|think| think.time_ns),
        "think_computes": job.think.map(|think| think.compute),
        "burst_ios": job.burst.map(|burst| burst.ios),
        "burst_pause_ns": job.burst.map(|burst| burst.pause_ns),
        "compressible_percent": job.data.compressible_percent,
        "duplicate_percent": job.data.duplicate_percent,
        "verify": job.verify,
        "warmup_s": job.warmup_ns as f64 / 1e9,
        "cooldown_s": job.cooldown_ns as f64 / 1e9,
        "runtime_s": job.end.after_ns.map(|ns| ns as f64 / 1e9),
        "steadystate": job.steady.map(|steady| steady.to_string()),
        "steadystate_duration_s": job.steady.map(|steady| steady.window_ns as f64 / 1e9),
        "steadystate_ramp_time_s": job.steady.map(|steady| steady.ramp_ns as f64 / 1e9),
        "steadystate_check_interval_s": job.steady.map(|steady| steady.every_ns as f64 / 1e9),
        "cpus": job.cpus,
        "seed": job.seed,
        "evidence": job.evidence.name(),
    })
}

fn mix(mix: &Mix) -> Value {
    let mut map = serde_json::Map::new();
    mix.weights.iter().for_each(|&(kind, weight)| drop(map.insert(kind.name().to_owned(), weight.into())));
    if let Some((kind, every)) = mix.flush_every {
        map.insert(format!("{} after writes", kind.name()), every.into());
    }
    Value::Object(map)
}

/// A pattern for people.
#[must_use]
pub fn pattern(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Random { align_bytes: 0, skew_bytes: 0 } => "random".to_owned(),
        Pattern::Random { align_bytes, skew_bytes } => {
            format!("random, multiples of {align_bytes} bytes plus {skew_bytes}")
        }
        Pattern::Sequential { per_thread: false } => "sequential".to_owned(),
        Pattern::Sequential { per_thread: true } => "sequential, each thread a share of its own".to_owned(),
        Pattern::Strided { stride_bytes } => format!("strided by {stride_bytes} bytes"),
        Pattern::MixedSequential { random_percent } => format!("sequential, {random_percent} % random"),
        Pattern::Zipf { theta } => format!("zipf {theta}"),
        Pattern::YcsbZipf => "YCSB's scrambled zipfian".to_owned(),
        Pattern::Pareto { h } => format!("pareto {h}"),
        Pattern::Normal { deviation_percent, scattered: false } => format!("normal, deviation {deviation_percent} %"),
        Pattern::Normal { deviation_percent, scattered: true } => {
            format!("normal, deviation {deviation_percent} %, scattered")
        }
        Pattern::Zones { zones, align_bytes } => {
            let zone = |zone: &crate::job::model::Zone| format!("{}/{}", zone.access_percent, zone.size_percent);
            let at = if *align_bytes > 0 { format!(", multiples of {align_bytes} bytes") } else { String::new() };
            format!("zones {}{at}", zones.iter().map(zone).collect::<Vec<_>>().join(":"))
        }
        Pattern::Shuffled => "each block once, in random order, by each thread".to_owned(),
        Pattern::Replayed => "as recorded".to_owned(),
        Pattern::Generated { name } => format!("as {name} has it"),
        Pattern::ByKind(patterns) => match &**patterns {
            [reads, writes, trims] if reads == writes && writes == trims => {
                format!("{}, each kind by itself", self::pattern(reads))
            }
            [reads, writes, trims] if writes == trims => {
                format!("reads {}; writes {}", self::pattern(reads), self::pattern(writes))
            }
            [reads, writes, trims] => {
                let [reads, writes, trims] = [reads, writes, trims].map(self::pattern);
                format!("reads {reads}; writes {writes}; trims {trims}")
            }
        },
    }
}

/// An arrival for people.
#[must_use]
pub fn arrival(arrival: &Arrival) -> String {
    match arrival {
        Arrival::Closed => "closed loop".to_owned(),
        Arrival::Throttled { iops: Some(iops), .. } => format!("closed loop, at most {iops} I/Os a second"),
        Arrival::Throttled { bytes_per_second, .. } => {
            format!("closed loop, at most {} bytes a second", bytes_per_second.unwrap_or(0.0))
        }
        Arrival::Constant { iops } => format!("open loop, {iops} a second, even"),
        Arrival::Poisson { iops } => format!("open loop, {iops} a second, Poisson"),
        Arrival::Times { path, speed } => format!("open loop, times of {} at speed {speed}", path.display()),
        Arrival::Recorded { speed } => format!("open loop, at recorded times at speed {speed}"),
    }
}
