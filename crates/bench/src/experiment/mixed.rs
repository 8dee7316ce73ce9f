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
use crate::stats::clustering::Blocks;
use crate::stats::mean::{summarise, t_interval};
use serde_json::json;

/// Length of a burst in bytes.
const BURST_BYTES: u64 = 400_000_000;
/// Rate of the background writes in bytes a second.
const BACKGROUND_BYTES_PER_SECOND: f64 = 20e6;
/// Size of reads and writes in bytes.
const IO_BYTES: u32 = 128 << 10;
/// Reads in flight; the writes have a thread of their own.
const READ_DEPTH: u32 = 8;
/// Time that the background runs before a burst, in nanoseconds. A burst alone waits for as long.
const LEAD_NS: u64 = 2_000_000_000;
/// Shortest time that the background goes on after a burst begins, in nanoseconds.
const BESIDE_NS: u64 = 2_000_000_000;
/// Most bursts of each kind.
const BURSTS_MAX: usize = 64;
/// Number of similar bursts in a row after which the target counts as settled.
const ALIKE: usize = 3;
/// Bursts are similar if the slowest is within this share of the fastest.
const ALIKE_SHARE: f64 = 0.05;
/// Most bursts while waiting for the target to settle.
const SETTLING_MAX: usize = 30;

const WHAT: &str = "Throughput of 400 MB bursts of sequential reads, alone and beside 20 MB/s of writes (S-PASS mixed throughput \
                    test, Shrout Research on the 800P).";

/// What was measured.
#[derive(Default)]
struct Found {
    alone: Vec<f64>,
    beside: Vec<f64>,
    /// The background's result for each burst beside it.
    background: Vec<JobResult>,
}

pub(super) fn run(driver: &mut dyn Driver, options: &Options) -> Result<Report, ExperimentError> {
    let mut session = Session::new(driver, options)?;
    let mut found = Found::default();
    known(measure(&mut session, &mut found))?;
    let background = joined(std::mem::take(&mut found.background)).map(|all| Figures::new(&all, options));
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
    if let Some(writes) = &background {
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
        "background": background.as_ref().map(Figures::json_counted),
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
    let bursts = (options.rounds as usize).min(BURSTS_MAX);
    let read = |session: &Session<'_>, name: String| Job {
        start_delay_ns: LEAD_NS,
        ..reads(session, (session.region.0, half), burst, name)
    };
    let load = load_text(&read(session, String::new()));
    session.condition(format!(
        "{bursts} bursts of {} MB, 128 KiB sequential reads, {load}, in the first half of the region, alone and beside the \
         background by turns",
        text::megabytes(burst as f64)
    ));
    session.condition(
        "background: 128 KiB sequential writes at 20 MB/s in the second half, 2 s ahead of each burst beside it",
    );
    if half < burst {
        session.note(format!(
            "half the region has {} only: a burst reads some of it again, perhaps from a cache",
            text::size(half)
        ));
    }
    let mut slowest_ns = settle(session, &|session| read(session, "settling".to_owned()))?;
    let mut overlong = 0;
    for number in 0..bursts {
        // The order of the two changes each time, so that drift affects both alike.
        let order = [number % 2 == 1, number % 2 == 0];
        for beside in order {
            let place = if beside { "beside 20 MB/s of writes" } else { "alone" };
            let step = format!("burst {} of {bursts}, {place}", number + 1);
            if !beside {
                let job = read(session, "burst".to_owned());
                let result = session.one(&step, job)?;
                slowest_ns = slowest_ns.max(result.duration_ns);
                found.alone.push(result.bytes_per_second());
                continue;
            }
            // A burst beside the background may take three times as long as alone.
            let beside_ns = BESIDE_NS.max(slowest_ns.saturating_mul(3));
            let jobs = [background(session, half, LEAD_NS + beside_ns), read(session, format!("burst-{}", number + 1))];
            let mut results = session.whole(&step, &jobs)?;
            let (Some(burst), Some(writes)) = (results.pop(), results.pop()) else { return Ok(()) };
            overlong += usize::from(burst.duration_ns > beside_ns);
            found.beside.push(burst.bytes_per_second());
            found.background.push(writes);
        }
    }
    if overlong > 0 {
        session.note(format!("{overlong} bursts took longer than the writes beside them: the rest of each was alone"));
    }
    Ok(())
}

/// Reads bursts until several in a row take about the same time, since a drive still works on what conditioning wrote
/// for a while: it folds its cache and collects garbage. Returns the longest of the last bursts, in nanoseconds.
fn settle(session: &mut Session<'_>, read: &dyn Fn(&Session<'_>) -> Job) -> Result<u64, Halt> {
    let (mut rates, mut lengths) = (Vec::new(), Vec::new());
    while rates.len() < SETTLING_MAX {
        let job = read(session);
        let result = session.one(&format!("settling: burst {}", rates.len() + 1), job)?;
        rates.push(result.bytes_per_second());
        lengths.push(result.duration_ns);
        if rates.last_chunk::<ALIKE>().is_some_and(are_alike) {
            break;
        }
    }
    let last = lengths.iter().rev().take(ALIKE).copied().max().unwrap_or(0);
    if rates.last_chunk::<ALIKE>().is_some_and(are_alike) {
        session.condition(format!("the target came to rest: {ALIKE} bursts in a row were alike after {}", rates.len()));
    } else {
        session.note(format!(
            "the target did not come to rest: of {} bursts alone no {ALIKE} in a row were alike to {}; it may be working on \
             what was written before",
            rates.len(),
            text::percent(ALIKE_SHARE)
        ));
    }
    Ok(last)
}

fn are_alike(rates: &[f64; ALIKE]) -> bool {
    let (least, most) =
        (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max));
    least >= (1.0 - ALIKE_SHARE) * most
}

/// Merges several runs of one job into one result. The runs' blocks of time do not belong together, so percentiles are
/// taken as of independent samples.
fn joined(results: Vec<JobResult>) -> Option<JobResult> {
    results.into_iter().reduce(|mut all, next| {
        let weight = |one: f64, of_one: f64, two: f64, of_two: f64| {
            if of_one + of_two > 0.0 { (one * of_one + two * of_two) / (of_one + of_two) } else { 0.0 }
        };
        all.depth_mean = weight(all.depth_mean, all.depth_ns as f64, next.depth_mean, next.depth_ns as f64);
        all.service_mean_ns =
            weight(all.service_mean_ns, all.ended() as f64, next.service_mean_ns, next.ended() as f64);
        all.duration_ns += next.duration_ns;
        all.rated_ns += next.rated_ns;
        all.depth_ns += next.depth_ns;
        all.used = all.used.and(&next.used);
        all.failures.merge(next.failures);
        all.hung += next.hung;
        for kind in next.kinds {
            let Some(sum) = all.kinds.iter_mut().find(|found| found.kind == kind.kind) else {
                all.kinds.push(kind);
                continue;
            };
            sum.ios += kind.ios;
            sum.bytes += kind.bytes;
            sum.errors += kind.errors;
            sum.backlog.add(kind.backlog);
            sum.submission.merge(&kind.submission);
            sum.device.merge(&kind.device);
            sum.total.merge(&kind.total);
            sum.blocks = Blocks::new(0);
        }
        all
    })
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
        // A sequential stream of reads belongs to one thread.
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
