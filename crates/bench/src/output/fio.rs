//! fio's json+ (fio HOWTO, "JSON+ output"; fields as in stat.c of fio 3.33), so that fio-plot and other programs for fio can read our
//! results. Figures without a field in fio are only in our own JSON.

use super::steady;
use super::summary::DEPTH_LEVELS;
use crate::job::model::{Calls, Job, Pattern};
use crate::run::{Direction, IntervalRow, JobResult, KindResult, Latencies, per_second};
use forebay_block::OpKind;
use serde_json::{Map, Value, json};

/// fio's default percentiles.
const LEVELS: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];
/// Upper limits of fio's latency distribution, for each of its three units; milliseconds continue to 2000 and beyond.
const STEPS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// The results of one or more jobs as a json+ document.
#[must_use]
pub fn document(results: &[JobResult], unix_ms: u64) -> Value {
    let version = format!("fio-3.33 (written by forebay {})", env!("CARGO_PKG_VERSION"));
    let global = results.first().map(|result| options(&result.job)).unwrap_or_default();
    json!({
        "fio version": version,
        "timestamp": unix_ms / 1000,
        "timestamp_ms": unix_ms,
        "time": "",
        "global options": global,
        "jobs": results.iter().map(job).collect::<Vec<_>>(),
    })
}

/// fio's `rw` value for a job.
fn rw(job: &Job) -> &'static str {
    let has = |kind: OpKind| job.mix.kinds().any(|found| found == kind);
    let (read, write) = (has(OpKind::Read), has(OpKind::Write) || has(OpKind::WriteFua));
    let sequential = job.mix.kinds().all(|kind| {
        kind == OpKind::Flush
            || kind == OpKind::Fsync
            || matches!(job.pattern.of(kind), Pattern::Sequential { .. } | Pattern::Strided { .. })
    });
    match (read, write, has(OpKind::Trim), sequential) {
        (true, true, _, true) => "rw",
        (true, true, _, false) => "randrw",
        (true, false, _, true) => "read",
        (true, false, _, false) => "randread",
        (false, true, false, true) => "write",
        (false, true, false, false) => "randwrite",
        (false, true, true, true) => "trimwrite",
        (false, true, true, false) => "randtrimwrite",
        (false, false, _, true) => "trim",
        (false, false, _, false) => "randtrim",
    }
}

fn options(job: &Job) -> Map<String, Value> {
    let weight = |wanted: fn(OpKind) -> bool| -> u32 {
        job.mix.weights.iter().filter(|(kind, _)| wanted(*kind)).map(|&(_, weight)| weight).sum()
    };
    let (reads, all) = (weight(|kind| kind == OpKind::Read), weight(OpKind::has_data).max(1));
    let engine = match job.access.calls {
        Calls::Ring | Calls::RingPolled => "io_uring",
        Calls::Sync { high_priority: true } => "pvsync2",
        Calls::Sync { high_priority: false } => "psync",
    };
    // fio writes all option values as text, and its readers expect text.
    let mut map = Map::new();
    let mut put = |key: &str, value: String| map.insert(key.to_owned(), Value::String(value));
    put("name", job.name.clone());
    put("rw", rw(job).to_owned());
    put("bs", fio_size(job.max_io_bytes()));
    put("iodepth", job.depth.to_string());
    put("numjobs", job.threads.to_string());
    put("ioengine", engine.to_owned());
    put("direct", u8::from(!job.access.buffered).to_string());
    put("rwmixread", (reads * 100 / all).to_string());
    if let Some(after_ns) = job.end.after_ns {
        put("runtime", (after_ns / 1_000_000_000).to_string());
    }
    map
}

/// A size as in fio's job files: `4k`.
fn fio_size(bytes: u32) -> String {
    match bytes {
        0 => "0".to_owned(),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

fn job(result: &JobResult) -> Value {
    let writes: Vec<&KindResult> =
        [OpKind::Write, OpKind::WriteFua].into_iter().filter_map(|kind| result.kind(kind)).collect();
    let flushes: Vec<&KindResult> =
        [OpKind::Flush, OpKind::Fsync].into_iter().filter_map(|kind| result.kind(kind)).collect();
    let reads: Vec<&KindResult> = result.kind(OpKind::Read).into_iter().collect();
    let trims: Vec<&KindResult> = result.kind(OpKind::Trim).into_iter().collect();
    let total = result.total();
    let wall = result.duration_ns.max(1) as f64 * f64::from(result.job.threads.max(1));
    let mut value = json!({
        "jobname": result.job.name,
        "groupid": 0,
        "error": i32::from(result.failures.count > 0) * 5,
        "total_err": result.failures.count,
        "eta": 0,
        "elapsed": result.duration_ns.div_ceil(1_000_000_000),
        "job options": options(&result.job),
        "read": direction(result, &reads, |row| row.read),
        "write": direction(result, &writes, |row| row.write),
        "trim": direction(result, &trims, |_| Direction::default()),
        "sync": {
            "total_ios": flushes.iter().map(|kind| kind.ios).sum::<u64>(),
            "lat_ns": latency(&merged(&flushes, |kind| &kind.total)),
        },
        "job_runtime": result.duration_ns / 1_000_000,
        "usr_cpu": result.used.cpu_ns.0 as f64 * 100.0 / wall,
        "sys_cpu": result.used.cpu_ns.1 as f64 * 100.0 / wall,
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "iodepth_level": depth_levels(&result.depth_levels),
        "latency_ns": distribution(&total, 1, 0),
        "latency_us": distribution(&total, 1000, 1000),
        "latency_ms": milliseconds(&total),
        "latency_depth": result.job.depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    if let Some(state) = steady::fio(result) {
        value["steadystate"] = state;
    }
    value
}

fn merged(kinds: &[&KindResult], of: impl Fn(&KindResult) -> &Latencies) -> Latencies {
    let mut all = Latencies::new();
    kinds.iter().for_each(|kind| all.merge(of(kind)));
    all
}

fn direction(result: &JobResult, kinds: &[&KindResult], of: impl Fn(&IntervalRow) -> Direction) -> Value {
    let ios: u64 = kinds.iter().map(|kind| kind.rated_ios()).sum();
    let bytes: u64 = kinds.iter().map(|kind| kind.rated_bytes()).sum();
    // Rates refer to the time in which I/Os were intended, as in our own results. `runtime` is that time, since readers of fio's results
    // divide by it.
    let rate = per_second(bytes, result.rated_ns);
    let rows: Vec<(f64, f64)> = if ios == 0 {
        Vec::new()
    } else {
        let of_row = |row: &IntervalRow| {
            let Direction { ios, bytes, .. } = of(row);
            (per_second(ios, row.length_ns), per_second(bytes, row.length_ns) / 1024.0)
        };
        // Intervals in which no more I/Os began do not count either.
        let half_ns = result.interval_ns / 2;
        let is_wanted = |row: &&IntervalRow| row.begin_ns.saturating_add(half_ns) <= result.rated_ns;
        result.rated_intervals().filter(is_wanted).map(of_row).collect()
    };
    let [iops, kib] = [0, 1].map(|column| {
        let values: Vec<f64> = rows.iter().map(|row| if column == 0 { row.0 } else { row.1 }).collect();
        spread(&values)
    });
    json!({
        "io_bytes": bytes,
        "io_kbytes": bytes >> 10,
        "bw_bytes": rate as u64,
        "bw": (rate / 1024.0) as u64,
        "iops": per_second(ios, result.rated_ns),
        "runtime": if ios == 0 { 0 } else { result.rated_ns / 1_000_000 },
        "total_ios": ios,
        "short_ios": 0,
        "drop_ios": kinds.iter().map(|kind| kind.errors).sum::<u64>(),
        "slat_ns": latency(&merged(kinds, |kind| &kind.submission)),
        "clat_ns": latency(&merged(kinds, |kind| &kind.device)),
        "lat_ns": latency(&merged(kinds, |kind| &kind.total)),
        "bw_min": kib[0] as u64,
        "bw_max": kib[1] as u64,
        "bw_agg": 100.0,
        "bw_mean": kib[2],
        "bw_dev": kib[3],
        "bw_samples": rows.len(),
        "iops_min": iops[0] as u64,
        "iops_max": iops[1] as u64,
        "iops_mean": iops[2],
        "iops_stddev": iops[3],
        "iops_samples": rows.len(),
    })
}

/// Minimum, maximum, mean and standard deviation.
fn spread(values: &[f64]) -> [f64; 4] {
    if values.is_empty() {
        return [0.0; 4];
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(0.0, f64::max);
    [least, greatest, mean, variance.sqrt()]
}

fn latency(latencies: &Latencies) -> Value {
    let mut map = Map::new();
    map.insert("min".into(), latencies.min_ns().into());
    map.insert("max".into(), latencies.max_ns().into());
    map.insert("mean".into(), latencies.mean_ns().into());
    map.insert("stddev".into(), latencies.deviation_ns().into());
    map.insert("N".into(), latencies.count().into());
    if latencies.count() > 0 {
        let percentile = |level: &f64| (format!("{level:.6}"), Value::from(latencies.quantile_ns(level / 100.0)));
        map.insert("percentile".into(), Value::Object(LEVELS.iter().map(percentile).collect()));
        let bins = latencies.histogram.iter_recorded();
        let bins = bins.map(|bin| (bin.value_iterated_to().to_string(), Value::from(bin.count_at_value())));
        map.insert("bins".into(), Value::Object(bins.collect()));
    }
    Value::Object(map)
}

/// Percentages of the latencies up to each step and above the previous one, in units of `unit_ns`.
fn distribution(latencies: &Latencies, unit_ns: u64, above_ns: u64) -> Value {
    let mut below = share_up_to(latencies, above_ns);
    let steps = STEPS.iter().map(|&step| {
        let up_to = share_up_to(latencies, step * unit_ns);
        let share = (up_to - below).max(0.0);
        below = up_to;
        (step.to_string(), Value::from(share))
    });
    Value::Object(steps.collect())
}

fn milliseconds(latencies: &Latencies) -> Value {
    let mut value = distribution(latencies, 1_000_000, 1_000_000);
    if let Value::Object(map) = &mut value {
        let (second, two) = (share_up_to(latencies, 1_000_000_000), share_up_to(latencies, 2_000_000_000));
        map.insert("2000".into(), (two - second).max(0.0).into());
        map.insert(">=2000".into(), if latencies.count() == 0 { 0.0 } else { 100.0 - two }.into());
    }
    value
}

fn share_up_to(latencies: &Latencies, ns: u64) -> f64 {
    if latencies.count() == 0 || ns == 0 {
        return 0.0;
    }
    latencies.histogram.count_between(0, ns) as f64 * 100.0 / latencies.count() as f64
}

/// Percentages of the I/Os by the depth at their issue, in fio's classes (io_u.c, `io_u_mark_depth`).
fn depth_levels(counts: &[u64; 7]) -> Value {
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let level = |(name, &count): (&&str, &u64)| ((*name).to_owned(), Value::from(count as f64 * 100.0 / all));
    Value::Object(DEPTH_LEVELS.iter().zip(counts).map(level).collect())
}
