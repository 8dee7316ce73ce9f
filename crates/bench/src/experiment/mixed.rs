//! The mixed throughput test of S-PASS: what a light write load does to bursts of sequential reads.

use super::conditioning::Conditioning;
use super::driver::Driver;
use super::error::ExperimentError;
use super::figures::Figures;
use super::options::Options;
use super::prepare::prepare;
use super::report::Report;
use super::session::{Halt, Session, known, load_text};
use super::text;
use crate::job::model::{Arrival, End, Extent, Job, Mix, Pattern, Region, SizeMix, Sizes};
use crate::output::table::Table;
use crate::run::JobResult;
use crate::stats::mean::{summarise, t_interval};
use serde_json::json;

/// A burst, in bytes.
const BURST_BYTES: u64 = 400_000_000;
/// The background, in bytes a second.
const BACKGROUND_BYTES_PER_SECOND: f64 = 20e6;
/// Reads and writes are of this size.
const IO_BYTES: u32 = 128 << 10;
/// Reads in flight; the writes have a thread of their own.
const READ_DEPTH: u32 = 8;
/// The background runs so long before the first burst.
const LEAD_NS: u64 = 2_000_000_000;
/// Least distance of bursts.
const DISTANCE_NS: u64 = 2_000_000_000;
/// Most bursts that are one run beside the background.
const TOGETHER_MAX: usize = 64;

const WHAT: &str = "Throughput of 400 MB bursts of sequential reads, alone and beside 20 MB/s of writes (S-PASS mixed throughput \
                    test, Shrout Research on the 800P).";

/// What was measured.
#[derive(Default)]
struct Found {
    alone: Vec<f64>,
    beside: Vec<f64>,
    background: Option<Figures>,
}

pub(super) fn run(driver: &mut dyn Driver, options: &Options) -> Result<Report, ExperimentError> {
    let mut session = Session::new(driver, options)?;
    let mut found = Found::default();
    known(measure(&mut session, &mut found))?;
    let mut table = Table::new("read throughput of each burst, MB/s", 0, &["burst", "alone", "beside writes", "ratio"]);
    for at in 0..found.alone.len().max(found.beside.len()) {
        let (alone, beside) = (found.alone.get(at), found.beside.get(at));
        let show = |rate: Option<&f64>| rate.map_or_else(|| "-".to_owned(), |rate| text::megabytes(*rate));
        let ratio = alone.zip(beside).filter(|(alone, _)| **alone > 0.0);
        table.rows.push(vec![
            (at + 1).to_string(),
            show(alone),
            show(beside),
            ratio.map_or_else(|| "-".to_owned(), |(alone, beside)| format!("{:.2}", beside / alone)),
        ]);
    }
    let mean = |rates: &[f64]| summarise(rates).map(|summary| summary.mean);
    let (alone, beside) = (mean(&found.alone), mean(&found.beside));
    let ratio = alone.zip(beside).filter(|(alone, _)| *alone > 0.0).map(|(alone, beside)| beside / alone);
    let interval = format!("{} % interval", options.confidence.percent());
    let mut sums = Table::new("means over the bursts", 1, &["", "MB/s", &interval, "variation"]);
    for (name, rates) in [("alone", &found.alone), ("beside writes", &found.beside)] {
        let Some(summary) = summarise(rates) else { continue };
        let interval = t_interval(rates, options.confidence);
        sums.rows.push(vec![
            name.to_owned(),
            text::megabytes(summary.mean),
            interval.map_or_else(
                || "-".to_owned(),
                |found| format!("{} - {}", text::megabytes(found.low), text::megabytes(found.high)),
            ),
            summary.variation.map_or_else(|| "-".to_owned(), text::percent),
        ]);
    }
    if let Some(ratio) = ratio {
        session.note(format!("beside the writes the reads reach {} of their throughput alone", text::percent(ratio)));
    }
    if let Some(writes) = &found.background {
        let rate = writes.bytes_per_second;
        session.note(format!(
            "background writes: {} MB/s, mean {}, p99 {}",
            text::megabytes(rate),
            writes.all.mean_cell(),
            writes.all.cell(99.0)
        ));
        if rate < 0.95 * BACKGROUND_BYTES_PER_SECOND {
            session.note("the background fell behind its 20 MB/s: the reads were disturbed by less than the test says");
        }
    }
    let json = json!({
        "burst_bytes": burst_bytes(options),
        "background_asked_bytes_per_second": BACKGROUND_BYTES_PER_SECOND,
        "alone_bytes_per_second": found.alone,
        "beside_writes_bytes_per_second": found.beside,
        "ratio": ratio,
        "background": found.background.as_ref().map(Figures::json),
    });
    Ok(session.finish("mixed", WHAT, vec![table, sums], json))
}

fn burst_bytes(options: &Options) -> u64 {
    if options.quick { BURST_BYTES / 10 } else { BURST_BYTES }
}

fn measure(session: &mut Session<'_>, found: &mut Found) -> Result<(), Halt> {
    let options = session.options;
    prepare(session, Some(Conditioning::default()))?;
    let half = session.region.1 / 2 / u64::from(IO_BYTES) * u64::from(IO_BYTES);
    let burst = burst_bytes(options);
    let read = |from: u64, name: String| reads(session, (from, half), burst, name);
    let bursts = (options.rounds as usize).min(TOGETHER_MAX);
    let first = read(session.region.0, "burst".to_owned());
    let load = load_text(&first);
    session.condition(format!(
        "{bursts} bursts of {} MB, 128 KiB sequential reads, {load}, in the first half of the region",
        text::megabytes(burst as f64)
    ));
    session
        .condition("background: 128 KiB sequential writes at 20 MB/s in the second half, 2 s ahead of the first burst");
    if half < burst {
        session.note(format!(
            "half the region has {} only: a burst reads some of it again, perhaps from a cache",
            text::size(half)
        ));
    }
    let mut slowest_ns = 0;
    for number in 0..bursts {
        let step = format!("burst {} of {bursts}, alone", number + 1);
        let job = reads(session, (session.region.0, half), burst, "burst".to_owned());
        let result = session.one(&step, job)?;
        slowest_ns = slowest_ns.max(result.duration_ns);
        found.alone.push(result.bytes_per_second());
    }
    // Bursts beside the background are distinguished by time; three times as long as alone is left for each.
    let distance_ns = DISTANCE_NS.max(slowest_ns.saturating_mul(3));
    let mut jobs = vec![background(session, half, LEAD_NS + distance_ns.saturating_mul(bursts as u64))];
    for number in 0..bursts {
        let mut job = reads(session, (session.region.0, half), burst, format!("burst-{}", number + 1));
        job.start_delay_ns = LEAD_NS + distance_ns.saturating_mul(number as u64);
        jobs.push(job);
    }
    let results = session.whole(&format!("{bursts} bursts beside 20 MB/s of writes"), &jobs)?;
    let Some((writes, reads)) = results.split_first() else { return Ok(()) };
    found.background = Some(Figures::new(writes, options));
    found.beside = reads.iter().map(JobResult::bytes_per_second).collect();
    let overlapping = reads.iter().filter(|read| read.duration_ns > distance_ns).count();
    if overlapping > 0 {
        session.note(format!(
            "{overlapping} bursts took longer than the {} s to the next: they overlap",
            text::digits(distance_ns as f64 / 1e9)
        ));
    }
    Ok(())
}

fn sized(session: &Session<'_>, name: String, region: (u64, u64)) -> Job {
    let size = SizeMix::fixed(IO_BYTES);
    Job {
        sizes: Sizes { read: size.clone(), write: size.clone(), trim: size },
        pattern: Pattern::Sequential { per_thread: false },
        region: Region { offset: Extent::Bytes(region.0), size: Extent::Bytes(region.1) },
        ..session.job(name)
    }
}

fn reads(session: &Session<'_>, region: (u64, u64), bytes: u64, name: String) -> Job {
    let (threads, depth) = match session.options.in_flight(READ_DEPTH) {
        (READ_DEPTH, 1) => (1, 1),
        // One sequence of reads is one thread's.
        (threads, depth) => (1, threads * depth),
    };
    Job {
        threads,
        depth,
        mix: Mix::reads_percent(100),
        end: End { after_bytes: Some(bytes), ..End::default() },
        ..sized(session, name, region)
    }
}

fn background(session: &Session<'_>, half: u64, ns: u64) -> Job {
    Job {
        threads: 1,
        depth: if matches!(session.options.in_flight(2), (2, 1)) { 1 } else { 4 },
        mix: Mix::reads_percent(0),
        arrival: Arrival::Throttled { iops: None, bytes_per_second: Some(BACKGROUND_BYTES_PER_SECOND) },
        end: End { after_ns: Some(ns), ..End::default() },
        ..sized(session, "background".to_owned(), (session.region.0 + half, half))
    }
}
