//! Latency over time: a fixed open-loop rate, and the latency of each interval.

use super::driver::Driver;
use super::error::ExperimentError;
use super::figures::Figures;
use super::options::{Options, Rate};
use super::prepare::prepare;
use super::qd_sweep::read_percent;
use super::report::Report;
use super::session::{Halt, Session, known, load_text};
use super::text;
use crate::job::model::{Arrival, Calls, End, Job, Mix};
use crate::output::summary::window_ns;
use crate::output::table::Table;
use crate::run::{IntervalRow, JobResult};
use crate::stats::open_loop::{Arrivals, Verdict, check};
use crate::stats::percentile::{Level, printed_from};
use serde_json::json;

/// Time of the run in nanoseconds: the evaluation guide's 600 s.
const RUN_NS: u64 = 600_000_000_000;
/// Share of reads where writes are allowed.
const READ_PERCENT: u32 = 70;
/// Queue depth of the closed loop that finds the peak.
const PEAK_DEPTH: u32 = 64;
/// Most intervals that are shown one by one.
const SHOWN_MAX: usize = 30;
/// Number of worst intervals that are shown.
const WORST: usize = 10;

const WHAT: &str = "Latency over time at a fixed rate that does not wait for the target, counted from the intended start: percentiles of \
                    each interval and the worst ones (how steady, not how fast).";

/// What was measured.
#[derive(Default)]
struct Found {
    peak_iops: Option<f64>,
    rate_iops: f64,
    result: Option<JobResult>,
}

pub(super) fn run(driver: &mut dyn Driver, options: &Options) -> Result<Report, ExperimentError> {
    let mut session = Session::new(driver, options)?;
    let percent = read_percent(&mut session, READ_PERCENT);
    let mut found = Found::default();
    known(measure(&mut session, percent, &mut found))?;
    let mut tables = Vec::new();
    let mut figures = None;
    let printed = printable(options);
    if let Some(result) = &found.result {
        judge(&mut session, result, found.rate_iops);
        let all = Figures::new(result, options);
        tables.push(overall(&all));
        let rows = whole_intervals(result);
        if rows.len() <= SHOWN_MAX {
            let title = format!("each interval of {} s", text::digits(result.interval_ns as f64 / 1e9));
            tables.push(intervals(title, rows.iter().copied(), printed));
        }
        tables.push(spread(&rows, printed));
        let mut worst = rows.clone();
        worst.sort_by_key(|row| std::cmp::Reverse((row.latency_ns[2], row.latency_ns[4])));
        tables.push(intervals(
            format!("worst intervals of {}, by p99", rows.len()),
            worst.into_iter().take(WORST),
            printed,
        ));
        figures = Some(all);
    }
    let json = json!({
        "read_percent": percent,
        "peak_iops": found.peak_iops,
        "rate_iops": found.rate_iops,
        "open_loop": found.result.as_ref().and_then(|result| result.open).map(|open| json!({
            "scheduled": open.scheduled,
            "issued": open.issued,
            "backlog": open.backlog,
            "late_by_tool": open.late,
            "no_slot": open.no_slot,
        })),
        "all": figures.as_ref().map(Figures::json_counted),
        "interval_ns": found.result.as_ref().map(|result| result.interval_ns),
        "intervals": found.result.as_ref().map(|result| result.intervals.iter().map(|row| {
            let [mean, p50, p99, p999, max] = figures_ns(row, printed);
            json!({
                "begin_ns": row.begin_ns,
                "ios": row.ios,
                "failures": row.errors,
                "mean_ns": mean,
                "p50_ns": p50,
                "p99_ns": p99,
                "p99.9_ns": p999,
                "max_ns": max,
            })
        }).collect::<Vec<_>>()),
    });
    Ok(session.finish("qos", WHAT, tables, json))
}

fn measure(session: &mut Session<'_>, percent: u32, found: &mut Found) -> Result<(), Halt> {
    prepare(session, None)?;
    let options = session.options;
    let run_ns = options.point_ns(RUN_NS);
    let warmup_ns = options.warmup_ns(run_ns);
    let mix = Mix::reads_percent(percent);
    found.rate_iops = match options.rate {
        Rate::Iops(iops) => iops,
        Rate::PeakShare(share) => {
            let in_flight = PEAK_DEPTH.min(options.depth_max);
            let (threads, depth) = options.in_flight(in_flight);
            let peak_ns = (run_ns / 10).max(1);
            let job = Job {
                threads,
                depth,
                mix: mix.clone(),
                end: End { after_ns: Some(peak_ns), ..End::default() },
                warmup_ns: options.warmup_ns(peak_ns),
                ..session.job("peak")
            };
            let peak = session.one("closed loop, to find the peak", job)?.iops();
            found.peak_iops = Some(peak);
            session.condition(format!("peak: {} IOPS in a closed loop with {in_flight} in flight", text::rate(peak)));
            peak * share
        }
    };
    if found.rate_iops <= 0.0 {
        session.without_figures("closed loop, to find the peak");
        return Ok(());
    }
    let slots = if matches!(options.base.access.calls, Calls::Sync { .. }) {
        (options.base.threads, 1)
    } else {
        // Slots that are not used cost nothing; too few slots would delay the schedule.
        (options.base.threads, options.depth_max.div_ceil(options.base.threads.max(1)))
    };
    let job = Job {
        threads: slots.0,
        depth: slots.1,
        mix,
        arrival: Arrival::Constant { iops: found.rate_iops },
        end: End { after_ns: Some(run_ns), ..End::default() },
        warmup_ns,
        ..session.job("qos")
    };
    session.condition(format!(
        "open loop, {} I/Os a second at even distances for {} s, {percent} % reads; slots: {}",
        text::rate(found.rate_iops),
        text::digits(run_ns as f64 / 1e9),
        load_text(&job)
    ));
    found.result = Some(session.any("fixed rate", job)?);
    Ok(())
}

/// Notes in the report whether the schedule was kept, so that the latencies belong to this rate.
fn judge(session: &mut Session<'_>, result: &JobResult, rate_iops: f64) {
    let Some(open) = result.open else { return };
    let verdict = check(Arrivals {
        scheduled: open.scheduled,
        issued: open.issued,
        backlog: open.backlog,
        wanted_per_second: rate_iops,
        elapsed_ns: open.issued_ns,
    });
    match verdict.verdict {
        Verdict::Kept | Verdict::NotJudged => {}
        Verdict::Missing { count } => session.note(format!(
            "THE TARGET IS TOO SLOW FOR THIS RATE: {count} of {} I/Os were not submitted; latencies are of the others",
            open.scheduled
        )),
        Verdict::Surplus { count } => {
            session.note(format!("{count} I/Os more than scheduled: an error of the tool, do not trust this"))
        }
        Verdict::RateOff => {
            session.note(format!("the rate was {} a second, not the one asked for", text::rate(verdict.per_second)))
        }
    }
    if open.late > 0 {
        session.note(format!(
            "{} I/Os were late by the tool's own fault; their latency counts from the intended start all the same",
            open.late
        ));
    }
    if open.no_slot > 0 {
        session.note(format!("{} times no slot was free: more depth would have sent these on time", open.no_slot));
    }
}

/// The intervals that lie completely within the measurement.
fn whole_intervals(result: &JobResult) -> Vec<&IntervalRow> {
    let window = window_ns(result);
    let whole = |row: &&IntervalRow| row.begin_ns.saturating_add(result.interval_ns) <= window;
    let rows: Vec<_> = result.intervals.iter().filter(whole).collect();
    if rows.is_empty() { result.intervals.iter().collect() } else { rows }
}

/// Fewest I/Os of an interval for its p99 and for its p99.9.
fn printable(options: &Options) -> [u64; 2] {
    ["99", "99.9"].map(|level| match level.parse() {
        Ok(Level::Share(share)) => printed_from(share, options.confidence),
        _ => u64::MAX,
    })
}

fn overall(all: &Figures) -> Table {
    let head = ["", "I/Os", "mean", "p50", "p99", "p99.9", "p99.99", "p99.999", "max"];
    let mut table = Table::new("latency from the intended start, whole run, with intervals", 1, &head);
    for (kind, latency) in all.kinds.iter().filter(|(_, latency)| latency.samples > 0) {
        let mut row = vec![kind.name().to_owned(), latency.samples.to_string(), latency.mean_cell()];
        row.extend([50.0, 99.0, 99.9, 99.99, 99.999].map(|percent| latency.bounded_cell(percent)));
        row.push(latency.max_cell());
        table.rows.push(row);
    }
    table
}

fn intervals<'a>(title: String, rows: impl Iterator<Item = &'a IntervalRow>, printed: [u64; 2]) -> Table {
    let mut table = Table::new(title, 0, &["from s", "I/Os", "mean", "p50", "p99", "p99.9", "max"]);
    for row in rows {
        let mut cells = vec![text::digits(row.begin_ns as f64 / 1e9), row.ios.to_string()];
        let cell = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| text::time(ns as f64));
        cells.extend(figures_ns(row, printed).map(cell));
        table.rows.push(cells);
    }
    table
}

/// Mean, p50, p99, p99.9 and maximum of an interval; `None` for those with too few I/Os.
fn figures_ns(row: &IntervalRow, printed: [u64; 2]) -> [Option<u64>; 5] {
    let least = [1, 5, printed[0], printed[1], 1];
    std::array::from_fn(|at| (row.ios >= least[at]).then_some(row.latency_ns[at]))
}

/// A table of how the figures of the intervals are distributed.
fn spread(rows: &[&IntervalRow], printed: [u64; 2]) -> Table {
    let mut table = Table::new(
        format!("over {} intervals", rows.len()),
        1,
        &["of each interval", "least", "median", "greatest", "greatest/median"],
    );
    for (at, name) in ["mean", "p50", "p99", "p99.9", "max"].into_iter().enumerate() {
        let mut values: Vec<u64> = rows.iter().filter_map(|row| figures_ns(row, printed)[at]).collect();
        values.sort_unstable();
        let (Some(&low), Some(&high)) = (values.first(), values.last()) else { continue };
        let median = values[values.len() / 2];
        table.rows.push(vec![
            name.to_owned(),
            text::time(low as f64),
            text::time(median as f64),
            text::time(high as f64),
            format!("{:.2}", high as f64 / median.max(1) as f64),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The JSON of each interval had p99 and p99.9 of any number of I/Os, although the table withheld them.
    #[test]
    fn percentiles_of_few_ios_are_withheld() {
        let row = IntervalRow { ios: 63, latency_ns: [1, 2, 3, 4, 5], ..IntervalRow::default() };
        assert_eq!(figures_ns(&row, [299, 2995]), [Some(1), Some(2), None, None, Some(5)]);
        let row = IntervalRow { ios: 299, ..row };
        assert_eq!(figures_ns(&row, [299, 2995]), [Some(1), Some(2), Some(3), None, Some(5)]);
    }
}
