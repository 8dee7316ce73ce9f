//! Summary of a recording, as a table or as JSON.

use crate::output::{self, Format};
use anyhow::Result;
use forebay_trace::Op;
use forebay_trace::capture::{Latencies, OpTotals, Summary, Totals, VolumeSummary};
use forebay_trace::files::{WatchState, Watching};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitStatus;

const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// Depths up to this are shown one by one, deeper ones by powers of two.
const DEPTHS_SHOWN: usize = 8;

/// Shows the summary; `parquet` is the Parquet file to be made.
///
/// # Errors
/// The output cannot be written.
pub fn show(
    summary: &Summary,
    command: Option<ExitStatus>,
    parquet: Option<&Path>,
    format: Format,
    is_live: bool,
) -> Result<()> {
    match format {
        // In one line, as the seconds before it.
        Format::Json if is_live => output::json_line(as_json(summary, command, parquet)),
        Format::Json => output::json(as_json(summary, command, parquet)),
        Format::Table => table(summary),
    }
}

/// A counter of the kernel beside ours.
struct Beside {
    what: &'static str,
    recorded: u64,
    kernel: u64,
}

/// Requests and sectors beside /proc/diskstats, where an empty flush counts as a write and writes of zeros count as writes.
fn beside(volume: &VolumeSummary) -> Vec<Beside> {
    let (reads, read_bytes) = volume.totals.sum(&[Op::Read]);
    let (writes, write_bytes) = volume.totals.sum(&[Op::Write, Op::WriteZeroes]);
    let (discards, discard_bytes) = volume.totals.sum(&[Op::Discard]);
    let kernel = &volume.kernel;
    let row = |what, recorded, kernel| Beside { what, recorded, kernel };
    vec![
        row("reads", reads, kernel.reads),
        row("sectors read", read_bytes / 512, kernel.read_sectors),
        row("writes and empty flushes", writes + volume.empty_flushes, kernel.writes),
        row("sectors written", write_bytes / 512, kernel.write_sectors),
        row("discards", discards, kernel.discards),
        row("sectors discarded", discard_bytes / 512, kernel.discard_sectors),
    ]
}

fn table(summary: &Summary) -> Result<()> {
    for volume in &summary.volumes {
        let seconds = summary.elapsed.as_secs_f64();
        let requests = volume.totals.requests();
        output::text(&format!(
            "{}: {} in {seconds:.1} s, mean depth {:.2}",
            volume.target.name,
            output::count(requests, "request"),
            volume.totals.mean_depth()
        ))?;
        if requests == 0 {
            continue;
        }
        let head =
            ["operation", "requests", "bytes", "mean", "failed", "queued p50", "p50", "p90", "p99", "p99.9", "longest"];
        output::text(&output::table(
            &head,
            1,
            &volume.totals.ops().map(|(op, sums)| row(op, sums)).collect::<Vec<_>>(),
        ))?;
        output::text(&format!("depth at issue: {}", depths(&volume.totals)))?;
        if summary.is_unfiltered {
            let differ: Vec<String> = beside(volume)
                .iter()
                .filter(|beside| beside.recorded != beside.kernel)
                .map(|beside| format!("{} {} recorded, {} by the kernel", beside.what, beside.recorded, beside.kernel))
                .collect();
            if differ.is_empty() {
                output::text("agrees with /proc/diskstats in requests and sectors")?;
            } else {
                output::text(&format!(
                    "differs from /proc/diskstats (requests in flight at begin and end do): {}",
                    differ.join("; ")
                ))?;
            }
        }
    }
    let counts = &summary.counts;
    output::text(&format!(
        "dropped: {}, {}; missed by busy probes: {}; completions lost: {}; requeues: {}",
        output::count(summary.dropped_requests, "request"),
        output::count(summary.dropped_completions, "completion"),
        summary.cost.missed,
        counts.lost_completions,
        counts.requeues
    ))?;
    if let Some((probe_ns, share)) = cost(summary) {
        output::text(&format!(
            "cost: {probe_ns:.0} ns of probes for each request; {:.1} % of a CPU for this process",
            share * 100.0
        ))?;
    }
    for (mount, state) in &summary.watches {
        if let Some(why) = unnamed(state) {
            output::text(&format!("names of files on {}: {why}", mount.display()))?;
        }
    }
    for file in &summary.files {
        output::text(&format!("written: {}", file.display()))?;
    }
    Ok(())
}

/// Nanoseconds of probes per request, and this process's share of a CPU; none where not measured.
fn cost(summary: &Summary) -> Option<(f64, f64)> {
    let requests = summary.counts.requests;
    (summary.cost.time_ns > 0 && requests > 0).then(|| {
        let share = summary.cpu.as_secs_f64() / summary.elapsed.as_secs_f64().max(1e-9);
        (summary.cost.time_ns as f64 / requests as f64, share)
    })
}

fn row(op: Op, sums: &OpTotals) -> Vec<String> {
    let time = |of: &Latencies, percentile: f64| {
        if of.is_empty() { "-".to_owned() } else { output::time(of.value_at_percentile(percentile)) }
    };
    let mut row = vec![
        op.name().to_owned(),
        sums.requests.to_string(),
        output::size(sums.bytes),
        output::size(sums.bytes / sums.requests.max(1)),
        sums.failed.to_string(),
        time(&sums.queued_ns, 50.0),
    ];
    row.extend(PERCENTILES.map(|percentile| time(&sums.latency_ns, percentile)));
    row.push(if sums.latency_ns.is_empty() { "-".to_owned() } else { output::time(sums.latency_ns.max()) });
    row
}

/// Shares of depths; deeper ones in groups.
fn depths(totals: &Totals) -> String {
    let all = totals.requests().max(1) as f64;
    let mut groups: Vec<(usize, usize, u64)> = Vec::new();
    for (depth, requests) in totals.depths() {
        let (low, high) = if depth <= DEPTHS_SHOWN {
            (depth, depth)
        } else {
            let high = depth.next_power_of_two();
            (high / 2 + 1, high)
        };
        match groups.last_mut() {
            Some(last) if last.0 == low => last.2 += requests,
            _ => groups.push((low, high, requests)),
        }
    }
    let share = |(low, high, requests): &(usize, usize, u64)| {
        let name = if low == high { low.to_string() } else { format!("{low}-{high}") };
        format!("{name}: {:.1} %", *requests as f64 * 100.0 / all)
    };
    groups.iter().map(share).collect::<Vec<_>>().join(", ")
}

/// Why names of files may be missing.
fn unnamed(state: &WatchState) -> Option<String> {
    let mut why = Vec::new();
    if let Watching::ByWalks { why: refused } = &state.watching {
        why.push(format!("found by walking only ({refused}): not of those that lived shortly"));
    }
    if state.walks == 0 {
        why.push("the first walk was not complete".to_owned());
    }
    if state.lost > 0 {
        why.push(format!("the kernel's queue of events ran over {}", output::count(state.lost, "time")));
    }
    if state.left_out_files > 0 {
        why.push(format!("{} too many, or too deep", output::count(state.left_out_files, "file")));
    }
    why.extend(state.last_error.iter().map(|error| format!("last error: {error}")));
    (!why.is_empty()).then(|| why.join("; "))
}

fn watch_json(mount: &Path, state: &WatchState) -> Value {
    json!({
        "mount": mount,
        "by_events": state.watching == Watching::ByEvents,
        "files": state.files,
        "walks": state.walks,
        "events": state.events,
        "events_lost": state.lost,
        "files_left_out": state.left_out_files,
        "cpu_ns": nanoseconds(state.cpu),
        "trouble": unnamed(state),
    })
}

fn as_json(summary: &Summary, command: Option<ExitStatus>, parquet: Option<&Path>) -> Value {
    let counts = &summary.counts;
    let mut object = json!({
        "elapsed_ns": nanoseconds(summary.elapsed),
        "requests": counts.requests,
        "dropped_requests": summary.dropped_requests,
        "dropped_completions": summary.dropped_completions,
        "missed_by_busy_probes": summary.cost.missed,
        "lost_completions": counts.lost_completions,
        "requeues": counts.requeues,
        "cpu_ns": nanoseconds(summary.cpu),
        "files": summary.files,
        "parquet": parquet,
        "watches": summary.watches.iter().map(|(mount, state)| watch_json(mount, state)).collect::<Vec<_>>(),
        "volumes": summary.volumes.iter().map(|volume| volume_json(volume, summary.is_unfiltered)).collect::<Vec<_>>(),
    });
    if let Some((probe_ns, share)) = cost(summary) {
        object["cost"] =
            json!({ "probe_ns_per_request": probe_ns, "probe_runs": summary.cost.runs, "cpu_share": share });
    }
    if let Some(status) = command {
        object["command_exit_code"] = json!(status.code());
    }
    object
}

fn volume_json(volume: &VolumeSummary, is_unfiltered: bool) -> Value {
    let latencies = |of: &Latencies| -> Value {
        if of.is_empty() {
            return Value::Null;
        }
        json!({
            "p50": of.value_at_percentile(50.0), "p90": of.value_at_percentile(90.0), "p99": of.value_at_percentile(99.0),
            "p99_9": of.value_at_percentile(99.9), "max": of.max(), "mean": of.mean(),
        })
    };
    let mut object = json!({
        "name": volume.target.name,
        "size_bytes": volume.target.sectors.saturating_mul(512),
        "requests": volume.totals.requests(),
        "mean_depth": volume.totals.mean_depth(),
        "empty_flushes": volume.empty_flushes,
        "operations": volume.totals.ops().map(|(op, sums)| json!({
            "op": op.name(), "requests": sums.requests, "bytes": sums.bytes, "failed": sums.failed,
            "latency_ns": latencies(&sums.latency_ns), "queued_ns": latencies(&sums.queued_ns),
        })).collect::<Vec<_>>(),
        "depths": volume.totals.depths().map(|(depth, requests)| json!({ "depth": depth, "requests": requests })).collect::<Vec<_>>(),
    });
    if is_unfiltered {
        let rows = beside(volume);
        object["agrees_with_diskstats"] = json!(rows.iter().all(|row| row.recorded == row.kernel));
        object["diskstats"] = rows
            .iter()
            .map(|row| json!({ "what": row.what, "recorded": row.recorded, "kernel": row.kernel }))
            .collect();
    }
    object
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
