//! Random writes of several times the capacity: the throughput of the fresh drive, where it falls, and to which level.

use super::conditioning::Conditioning;
use super::driver::Driver;
use super::error::ExperimentError;
use super::figures::lasted_ns;
use super::options::Options;
use super::prepare::prepare;
use super::report::Report;
use super::session::{Halt, Session, known, load_text};
use super::text;
use crate::job::model::{End, Job, Mix, SizeMix, Sizes};
use crate::output::table::Table;
use crate::run::{IntervalRow, JobResult, per_second};
use crate::stats::steady::{WINDOW, track};
use serde_json::json;

/// Longest time of the run in nanoseconds (SNIA PTS 2.0.2, write saturation: 24 hours).
const LONGEST_NS: u64 = 24 * 3_600_000_000_000;
/// Length of a part of the log in nanoseconds: a minute.
const MINUTE_NS: u64 = 60_000_000_000;
/// Fewest parts of a run, even if it is shorter than so many minutes.
const PARTS_MIN: u64 = 20;
/// Most rows of the table; the JSON has all.
const ROWS_MAX: usize = 60;
/// Threads and depth that the PTS recommends.
const LOAD: (u32, u32) = (4, 32);
/// Throughput counts as fallen below this share of the initial throughput.
const FALLEN: f64 = 0.9;

const WHAT: &str = "Throughput of random 4 KiB writes while some capacities are written onto the purged device (SNIA SSS PTS 2.0.2, \
                    write saturation test).";

/// A part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Part {
    /// Beginning in nanoseconds since the run began.
    pub begin_ns: u64,
    /// Length in nanoseconds.
    pub len_ns: u64,
    /// I/Os that ended in the part.
    pub ios: u64,
    /// Bytes of these I/Os.
    pub bytes: u64,
    /// Bytes that the run had transferred by the part's end.
    pub bytes_before_end: u64,
    /// Mean latency in nanoseconds.
    pub mean_ns: f64,
    /// Maximum latency in nanoseconds.
    pub max_ns: u64,
}

impl Part {
    fn iops(&self) -> f64 {
        per_second(self.ios, self.len_ns)
    }
}

pub(super) fn run(driver: &mut dyn Driver, options: &Options) -> Result<Report, ExperimentError> {
    let mut session = Session::new(driver, options)?;
    let mut found = None;
    known(measure(&mut session, &mut found))?;
    let region_bytes = session.region.1.max(1) as f64;
    let parts = found.as_ref().map(|result| parts(result, options.capacities * region_bytes)).unwrap_or_default();
    let fall = fall(&parts);
    let mut tables = Vec::new();
    if !parts.is_empty() {
        tables.push(table(&parts, region_bytes, fall));
    }
    let ends = ends(&parts);
    if let Some((first, last)) = ends {
        session.note(format!(
            "throughput at first {} IOPS, at last {} IOPS: ratio first/last {:.2} (means of {})",
            text::rate(first),
            text::rate(last),
            first / last,
            match end_parts(&parts) {
                1 => format!("a part of {} s", text::digits(parts[0].len_ns as f64 / 1e9)),
                some => format!("{some} parts of {} s", text::digits(parts[0].len_ns as f64 / 1e9)),
            }
        ));
        let seconds = |ns: u64| text::digits(ns as f64 / 1e9);
        match fall.and_then(|at| Some((at, between(&parts, at)?))) {
            Some((at, (from, to))) => {
                session.note(format!(
                    "it falls between {:.2} and {:.2} capacities ({} and {} s): its parts tell no more",
                    (from.bytes_before_end - from.bytes) as f64 / region_bytes,
                    to.bytes_before_end as f64 / region_bytes,
                    seconds(from.begin_ns),
                    seconds(to.begin_ns + to.len_ns)
                ));
                if at <= end_parts(&parts) {
                    session.note(
                        "a part of the begin may have some of the fall in it: what it did before may be more than the \
                                  throughput at first; a larger region, or a shorter --interval, tells",
                    );
                }
            }
            None => session.note(format!("it did not fall below {} of the begin for good", text::percent(FALLEN))),
        }
    }
    let iops: Vec<f64> = parts.iter().map(Part::iops).collect();
    let steady = iops.last_chunk::<WINDOW>().map(|last| track("IOPS", *last));
    if let Some(steady) = &steady {
        session.note(if steady.steady {
            "the last five parts are steady by SNIA's rule"
        } else {
            "the last five parts are NOT steady by SNIA's rule: write more capacities to see where it ends"
        });
    }
    let json = json!({
        "capacities_asked": options.capacities,
        "capacities_written": found.as_ref().map(|result| result.bytes() as f64 / region_bytes),
        "first_iops": ends.map(|ends| ends.0),
        "last_iops": ends.map(|ends| ends.1),
        "ratio_first_last": ends.map(|(first, last)| first / last),
        "falls_after_bytes": fall.and_then(|at| parts.get(at)).map(|part| part.bytes_before_end - part.bytes),
        "falls_between_bytes": fall
            .and_then(|at| between(&parts, at))
            .map(|(from, to)| [from.bytes_before_end - from.bytes, to.bytes_before_end]),
        "last_five_steady": steady.map(|steady| steady.steady),
        "parts": parts.iter().map(|part| json!({
            "begin_ns": part.begin_ns,
            "length_ns": part.len_ns,
            "ios": part.ios,
            "iops": part.iops(),
            "bytes_per_second": per_second(part.bytes, part.len_ns),
            "bytes_written_up_to_end": part.bytes_before_end,
            "mean_ns": part.mean_ns,
            "max_ns": part.max_ns,
        })).collect::<Vec<_>>(),
    });
    Ok(session.finish("write-saturation", WHAT, tables, json))
}

fn measure(session: &mut Session<'_>, found: &mut Option<JobResult>) -> Result<(), Halt> {
    let options = session.options;
    prepare(session, Some(Conditioning { purge: true, sequential_passes: 0, random_passes: 0, fill_percent: 100 }))?;
    let (threads, depth) = options.parallel(LOAD);
    let size = SizeMix::fixed(4096);
    let longest_ns = match options.runtime_ns {
        Some(ns) => ns,
        None if options.quick => MINUTE_NS,
        None => LONGEST_NS,
    };
    let job = Job {
        threads,
        depth,
        mix: Mix::reads_percent(0),
        sizes: Sizes { read: size.clone(), write: size.clone(), trim: size },
        pattern: crate::job::model::Pattern::Random { align_bytes: 0, skew_bytes: 0 },
        end: End { after_ns: Some(longest_ns), after_passes: Some(options.capacities), ..End::default() },
        ..session.job("write-saturation")
    };
    session.condition(format!(
        "random 4 KiB writes until {} capacities are written or {} s have passed, {}",
        options.capacities,
        text::digits(longest_ns as f64 / 1e9),
        load_text(&job)
    ));
    *found = Some(session.any("random writes", job)?);
    Ok(())
}

/// The run in minutes, or in twentieths if it is short. The last part may be shorter; it is left out if its length is uncertain.
pub(super) fn parts(result: &JobResult, bytes_wanted: f64) -> Vec<Part> {
    let duration_ns = lasted_ns(result, bytes_wanted);
    let unit = result.interval_ns.max(1);
    let wanted = if duration_ns < PARTS_MIN * MINUTE_NS { duration_ns / PARTS_MIN } else { MINUTE_NS };
    let len_ns = wanted.div_ceil(unit).max(1) * unit;
    let count = duration_ns.div_ceil(len_ns) as usize;
    let mut parts: Vec<Part> = (0..count as u64)
        .map(|at| {
            let begin_ns = at * len_ns;
            Part { begin_ns, len_ns: len_ns.min(duration_ns - begin_ns), ..Part::default() }
        })
        .collect();
    for IntervalRow { begin_ns, ios, bytes, latency_ns: [mean, _, _, _, max], .. } in &result.intervals {
        // Completions after the end of the window count for the last part.
        let at = ((begin_ns / len_ns) as usize).min(count.saturating_sub(1));
        let Some(part) = parts.get_mut(at) else { continue };
        let both = part.ios + ios;
        if both > 0 {
            part.mean_ns = (part.mean_ns * part.ios as f64 + *mean as f64 * *ios as f64) / both as f64;
        }
        (part.ios, part.bytes, part.max_ns) = (both, part.bytes + bytes, part.max_ns.max(*max));
    }
    let mut sum = 0;
    for part in &mut parts {
        sum += part.bytes;
        part.bytes_before_end = sum;
    }
    // The last part has no useful rate if it is short, or ended somewhere within its last interval.
    let unknown = duration_ns < result.duration_ns;
    if parts.len() > 1 && (unknown || parts.last().is_some_and(|last| last.len_ns < len_ns / 2)) {
        parts.pop();
    }
    parts
}

/// Number of parts whose mean is the throughput at the beginning, and at the end.
fn end_parts(parts: &[Part]) -> usize {
    (parts.len() / 4).clamp(1, 3)
}

/// Throughput at the beginning and at the end: means of up to three parts.
fn ends(parts: &[Part]) -> Option<(f64, f64)> {
    let some = end_parts(parts);
    let mean = |parts: &[Part]| parts.iter().map(Part::iops).sum::<f64>() / parts.len().max(1) as f64;
    let (first, last) = (parts.get(..some)?, parts.get(parts.len().checked_sub(some)?..)?);
    Some((mean(first), mean(last))).filter(|&(first, last)| first > 0.0 && last > 0.0)
}

/// The part in which throughput falls for good: the first part not above the middle between beginning and end. `None` if the end is not
/// fallen.
pub(super) fn fall(parts: &[Part]) -> Option<usize> {
    let (first, last) = ends(parts)?;
    if last >= FALLEN * first {
        return None;
    }
    parts.iter().position(|part| part.iops() <= (first + last) / 2.0)
}

/// The range in which the fall seen in part `at` happened: that part and the one before it, whose end may include some of the fall.
pub(super) fn between(parts: &[Part], at: usize) -> Option<(&Part, &Part)> {
    Some((parts.get(at.saturating_sub(1))?, parts.get(at)?))
}

fn table(parts: &[Part], region_bytes: f64, fall: Option<usize>) -> Table {
    let together = parts.len().div_ceil(ROWS_MAX);
    let title = if together == 1 {
        "throughput over time".to_owned()
    } else {
        format!("throughput over time, {together} parts a row")
    };
    let mut table = Table::new(title, 0, &["from s", "capacities", "IOPS", "MB/s", "mean", "max", ""]);
    for (number, some) in parts.chunks(together).enumerate() {
        let (ios, bytes) = (some.iter().map(|part| part.ios).sum(), some.iter().map(|part| part.bytes).sum());
        let len_ns: u64 = some.iter().map(|part| part.len_ns).sum();
        let weighted: f64 = some.iter().map(|part| part.mean_ns * part.ios as f64).sum();
        let falls = fall.is_some_and(|at| at / together == number);
        table.rows.push(vec![
            text::digits(some[0].begin_ns as f64 / 1e9),
            format!("{:.2}", some.last().map_or(0, |part| part.bytes_before_end) as f64 / region_bytes),
            text::rate(per_second(ios, len_ns)),
            text::megabytes(per_second(bytes, len_ns)),
            text::time(weighted / ios.max(1) as f64),
            text::time(some.iter().map(|part| part.max_ns).max().unwrap_or(0) as f64),
            if falls { "<- falls" } else { "" }.to_owned(),
        ]);
    }
    table
}
