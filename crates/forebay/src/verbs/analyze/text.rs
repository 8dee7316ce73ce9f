//! An analysis as text.

use super::over_time;
use crate::output::{count, ratio, size, table, time};
use crate::traces::{Read, faults, unknown};
use forebay_block::figures::{self, rate};
use forebay_trace::analysis::{DEPTHS, Direction, Operation, Report, Spread};

/// Depths with a row each; higher ones are summed up. Also the number of processes shown.
const DEPTHS_SHOWN: usize = 16;

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), figures::percent)
}

fn spread(spread: Option<&Spread>, show: fn(u64) -> String) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |s| format!("p50 {}, p90 {}, p99 {}, max {}", show(s.p50), show(s.p90), show(s.p99), show(s.max)),
    )
}

fn direction(name: &str, direction: &Direction) -> Vec<String> {
    let Some(sizes) = &direction.sizes else { return Vec::new() };
    vec![format!(
        "{name:<7} mean {}, {}; {} aligned to 4 KiB, {} to 512 B only; sequential (in runs of 8 and more) {} of requests, {} of bytes",
        size(sizes.mean as u64),
        spread(Some(sizes), size),
        percent(direction.aligned_4k),
        percent(direction.aligned_512),
        percent(direction.sequential),
        percent(direction.sequential_bytes),
    )]
}

/// The text for one trace.
pub fn whole(name: &str, read: &Read, report: &Report) -> String {
    let mut lines = Vec::new();
    let operation = |op: &Operation| match (op.requests_per_s, op.bytes_per_s) {
        (Some(requests), Some(bytes)) => {
            format!("{} {} ({}; {} IOPS, {:.2} MB/s)", op.requests, op.op, size(op.bytes), rate(requests), bytes / 1e6)
        }
        _ => format!("{} {} ({})", op.requests, op.op, size(op.bytes)),
    };
    let operations: Vec<String> = report.operations.iter().map(operation).collect();
    let duration = report.duration_ns.map_or_else(String::new, |ns| format!(" over {}", time(ns)));
    lines.push(format!("{name}: {}{duration}: {}", count(read.requests, "request"), operations.join(", ")));
    lines.extend(faults(&read.faults));
    lines.extend(read.notes.iter().cloned());
    if read.cut.is_some() {
        lines.push("CUT: the trace could not be read to its end; this is what comes before".to_owned());
    }
    if report.absurd > 0 {
        lines.push(format!("left out: {} beyond 64 PiB or over 64 MiB", count(report.absurd, "request")));
    }
    if report.back_in_time > 0 {
        lines.push(format!(
            "{} came before the one before; it counts as if at its time",
            count(report.back_in_time, "request")
        ));
    }
    if report.one_block_in > 1 {
        lines.push(format!(
            "SAMPLED: one block in {} was followed (SHARDS), +- is half of the 95 % interval; ~ marks estimates of which the interval is not known: occupancy, beta, lives, times between accesses, working sets, and reads by who wrote",
            report.one_block_in
        ));
    }
    lines.extend(unknown(report));
    if !read.knows.op {
        lines.push("the trace does not tell reads from writes: neither alpha nor beta follows from it".to_owned());
    }
    lines.push(String::new());
    lines.push("The workload through the PRISM".to_owned());
    lines.push(rows(report));
    if let Some(alpha) = report.alpha_fast {
        lines.push(format!(
            "{} of the writes are of rows for the fast tier (T, M, L, H), which take {}{} together",
            percent(Some(alpha)),
            about(report),
            size(report.fast_bytes)
        ));
    }
    lines.push(String::new());
    lines.push(
        "By size of the fast tier: LRU over all accesses, and what a tier that stages writes alone keeps".to_owned(),
    );
    lines.push(curve(report));
    lines.push(String::new());
    lines.extend(direction("reads", &report.reads));
    lines.extend(direction("writes", &report.writes));
    let about = about(report);
    for (what, about, found, show) in [
        ("flushes take", "", &report.flush_ns, time as fn(u64) -> String),
        ("between requests", "", &report.gaps_ns, time),
        ("from a write of a block to the next, or to its discard", about, &report.overwrite_ns, time),
        ("written meanwhile", about, &report.overwrite_bytes, size),
        ("from an access of a block to its next read", about, &report.reread_ns, time),
    ] {
        if found.is_some() {
            lines.push(format!("{what}: {about}{}", spread(found.as_ref(), show)));
        }
    }
    if !report.bursts.is_empty() {
        lines.push(String::new());
        lines.push(bursts(report));
    }
    lines.extend(over_time::lines(&report.over_time));
    lines.push(String::new());
    lines.push(depths(report));
    if report.agreement.iter().any(|entry| entry.row != entry.behaviour) {
        lines.push(String::new());
        lines.push(agreement(report));
    }
    lines.join("\n")
}

/// Prefix of estimates whose error is unknown.
fn about(report: &Report) -> &'static str {
    if report.one_block_in > 1 { "~" } else { "" }
}

fn rows(report: &Report) -> String {
    let about = about(report);
    let estimate = |shown: String| if shown == "-" { shown } else { format!("{about}{shown}") };
    let latency = |found: &Option<Spread>| {
        found.as_ref().map_or_else(|| "-".to_owned(), |s| format!("{} / {}", time(s.p50), time(s.p99)))
    };
    let mut rows: Vec<Vec<String>> = report
        .rows
        .iter()
        .map(|row| {
            vec![
                row.name.clone(),
                row.letter.map_or_else(|| "-".to_owned(), String::from),
                estimate(size(row.occupancy_bytes)),
                size(row.written_bytes),
                percent(row.alpha),
                estimate(ratio(row.beta)),
                estimate(size(row.read_bytes)),
                row.life_ns.as_ref().map_or_else(|| "-".to_owned(), |s| estimate(time(s.p50))),
                latency(&row.latency.read_ns),
                latency(&row.latency.write_ns),
            ]
        })
        .collect();
    let sum = |of: fn(&forebay_trace::analysis::Row) -> u64| report.rows.iter().map(of).sum::<u64>();
    rows.push(vec![
        "total".to_owned(),
        String::new(),
        estimate(size(report.written_footprint_bytes)),
        size(sum(|row| row.written_bytes)),
        percent(report.alpha_fast),
        estimate(ratio(report.beta)),
        estimate(size(sum(|row| row.read_bytes))),
    ]);
    let head = [
        "data",
        "class",
        "occupancy",
        "writes",
        "alpha",
        "beta",
        "reads",
        "life p50",
        "read p50 / p99",
        "write p50 / p99",
    ];
    table(&head, 2, &rows)
}

fn curve(report: &Report) -> String {
    let rows: Vec<Vec<String>> = report
        .curve
        .iter()
        .map(|point| {
            let four = |value: Option<f64>, error: Option<f64>| {
                let error = error.map_or_else(String::new, |error| format!(" +- {error:.4}"));
                value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}{error}"))
            };
            let alpha_error = point.alpha_error.filter(|_| point.alpha.is_some());
            vec![
                size(point.size_bytes),
                point.percent.map_or_else(String::new, |percent| format!("{percent} %")),
                four(point.miss_ratio, point.miss_ratio_error),
                four(point.read_miss_ratio, point.read_miss_ratio_error),
                format!(
                    "{}{}",
                    percent(point.alpha),
                    alpha_error.map_or_else(String::new, |error| format!(" +- {:.1}", error * 100.0))
                ),
            ]
        })
        .collect();
    let table = table(&["size", "of footprint", "miss ratio", "of reads", "alpha"], 0, &rows);
    let knee =
        |bytes| format!("\nknee of alpha at {}: from there on more space keeps few more of the writes", size(bytes));
    format!("{table}{}", report.knee_bytes.map_or_else(String::new, knee))
}

fn bursts(report: &Report) -> String {
    let rows: Vec<Vec<String>> = report
        .bursts
        .iter()
        .map(|burst| {
            vec![
                time(burst.window_ns),
                percent(Some(burst.busy)),
                format!("{}/s", size(burst.p99_bytes_per_s as u64)),
                format!("{}/s", size(burst.max_bytes_per_s as u64)),
                format!("{:.1}", burst.max_over_mean),
            ]
        })
        .collect();
    table(&["windows of", "busy", "p99 of busy", "busiest", "over mean"], 0, &rows)
}

fn depths(report: &Report) -> String {
    let Some(all) = report.depths.first() else {
        return "Queue depths: the trace tells neither depths nor latencies".to_owned();
    };
    // Each depth has a row at first, then the rows double in width.
    let mut rows: Vec<Vec<String>> = Vec::new();
    let (mut first, mut last) = (1, 1);
    while all.histogram.last().is_some_and(|deepest| first <= deepest.0) {
        let among = || all.histogram.iter().filter(|entry| (first..=last).contains(&entry.0));
        let sum = |of: fn(&(usize, f64, f64)) -> f64| Some(among().map(of).sum::<f64>());
        let name = match last {
            _ if first == last => first.to_string(),
            _ if last + 1 >= DEPTHS => format!(">= {first}"),
            _ => format!("{first} - {last}"),
        };
        if among().next().is_some() {
            rows.push(vec![name, percent(sum(|entry| entry.1)), percent(sum(|entry| entry.2))]);
        }
        first = last + 1;
        last = if first <= DEPTHS_SHOWN { first } else { last * 2 };
    }
    let mut lines = vec![
        format!(
            "Queue depths, which is how many requests are at the device (volume) when one is issued, itself included:\n\
             mean {}, median {}, 99 % at or below {}; while a device is busy {} over time",
            ratio(all.mean),
            all.p50.unwrap_or(0),
            all.p99.unwrap_or(0),
            ratio(all.mean_busy)
        ),
        table(&["depth", "requests", "busy time"], 0, &rows),
    ];
    for process in report.depths.iter().skip(1).take(DEPTHS_SHOWN) {
        lines.push(format!(
            "  {}: {}{}, depth: mean {}, median {}, p99 {}",
            process.process,
            count(process.requests, "request"),
            process.requests_per_s.map_or_else(String::new, |per_s| format!(" ({} IOPS)", rate(per_s))),
            ratio(process.mean),
            process.p50.unwrap_or(0),
            process.p99.unwrap_or(0)
        ));
    }
    lines.join("\n")
}

fn agreement(report: &Report) -> String {
    let rows: Vec<Vec<String>> = report
        .agreement
        .iter()
        .map(|entry| vec![entry.row.clone(), entry.behaviour.clone(), size(entry.bytes)])
        .collect();
    format!(
        "What behaviour alone makes of it, without rules and hints\n{}",
        table(&["data", "by behaviour", "written"], 2, &rows)
    )
}

/// Many traces, one line each.
pub fn fleet(list: &[(&str, &Read, &Report)]) -> String {
    let rows: Vec<Vec<String>> = list
        .iter()
        .map(|(name, trace, report)| {
            let written: u64 = report.rows.iter().map(|row| row.written_bytes).sum();
            let read: u64 = report.rows.iter().map(|row| row.read_bytes).sum();
            let depth = report.depths.first();
            vec![
                (*name).to_owned(),
                size(read),
                size(written),
                size(report.footprint_bytes),
                ratio(report.beta),
                percent(report.alpha_fast),
                size(report.fast_bytes),
                ratio(depth.and_then(|depth| depth.mean)),
                match report.one_block_in {
                    1 if trace.is_exact(report) => "exact".to_owned(),
                    1 => "incomplete".to_owned(),
                    more => format!("1 in {more}"),
                },
            ]
        })
        .collect();
    let head = ["trace", "reads", "writes", "footprint", "beta", "alpha", "fast tier", "depth", "blocks"];
    table(&head, 1, &rows)
}
