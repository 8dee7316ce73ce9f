//! Parts that both SNIA PTS tests share: the search for the steady state, and its report.

use super::session::{Halt, Session};
use super::text;
use crate::job::model::{End, Job, Mix};
use crate::job::model::{Pattern, SizeMix, Sizes};
use crate::output::table::Table;
use crate::stats::steady::{EXCURSION_PERCENT, RANGE_PERCENT, Report, Tracked, Verdict};
use serde_json::{Value, json};

/// Time of a cell in a round, in nanoseconds: a minute (PTS 2.0.2, IOPS and latency tests).
pub(super) const CELL_NS: u64 = 60_000_000_000;

/// A cell of a round: percent of reads, and size in bytes.
pub(super) type Cell = (u32, u32);

/// The name of a cell, such as 65/35 4 KiB.
pub(super) fn name((read_percent, bytes): Cell) -> String {
    format!("{read_percent}/{} {}", 100 - read_percent, text::size(bytes.into()))
}

/// The job of a cell: random I/O over the region, for the cell's time.
pub(super) fn job(session: &Session<'_>, cell: Cell, (threads, depth): (u32, u32), ns: u64) -> Job {
    let size = SizeMix::fixed(cell.1);
    Job {
        threads,
        depth,
        mix: Mix::reads_percent(cell.0),
        sizes: Sizes { read: size.clone(), write: size.clone(), trim: size },
        pattern: Pattern::Random { align_bytes: 0, skew_bytes: 0 },
        end: End { after_ns: Some(ns), ..End::default() },
        ..session.job(format!("read-{}-{}", cell.0, cell.1))
    }
}

/// Leaves out sizes below 4 KiB if the target does not support them.
pub(super) fn possible_sizes(session: &mut Session<'_>, sizes: &[u32]) -> Result<Vec<u32>, Halt> {
    let mut possible = sizes.to_vec();
    if let Some(&small) = sizes.iter().find(|&&bytes| bytes < 4096) {
        let mut job = job(session, (100, small), (1, 1), 1);
        job.end = End { after_ios: Some(1), ..End::default() };
        let size = text::size(small.into());
        if let Err(what) = session.probe(&format!("looking whether the target can do {size}"), job)? {
            session.note(format!("{size} is left out, the target cannot do it: {what}"));
            possible.retain(|&bytes| bytes != small);
        }
    }
    Ok(possible)
}

/// Adds the conditions and notes that both tests share.
pub(super) fn tell(session: &mut Session<'_>, cell_ns: u64, tracked: &str) {
    let standard = if cell_ns == CELL_NS { "" } else { " (the standard's: 60 s)" };
    session.condition(format!(
        "{} s a cell{standard}, random data as far as the job does not say otherwise",
        text::digits(cell_ns as f64 / 1e9)
    ));
    session.condition(format!(
        "steady state: over 5 rounds range at most {RANGE_PERCENT} % and line's excursion at most {EXCURSION_PERCENT} % of the average, of \
         {tracked}; at most 25 rounds"
    ));
    session.note("the device's volatile write cache is left as it was found; the PTS wants it off for enterprise devices, on for client ones");
    session.note(
        "XPoint media needs power-on time instead of preconditioning: at least 3 hours after a long power-off, for its \
         faster background refresh (P4800X evaluation guide)",
    );
}

/// The table of the steady-state window. `show` formats a value of the tracking variables.
pub(super) fn table(report: &Report, show: fn(f64) -> String) -> Table {
    let rounds: Vec<String> = match report.window_begin {
        Some(first) => (first..=report.rounds).map(|round| format!("round {round}")).collect(),
        None => Vec::new(),
    };
    let title = match report.verdict {
        Verdict::Steady => format!("steady state reached in round {}", report.rounds),
        Verdict::NotReached => format!("STEADY STATE NOT REACHED in {} rounds; the last window", report.rounds),
        Verdict::NotYet => format!("STEADY STATE NOT REACHED: ended after {} rounds", report.rounds),
    };
    let mut head = vec!["tracking variable"];
    head.extend(rounds.iter().map(String::as_str));
    head.extend(["average", "range", "of it", "line", "excursion", "of it", "steady"]);
    let mut table = Table::new(title, 1, &head);
    for variable in &report.variables {
        let share = |part: f64| text::percent(part / variable.average);
        let mut row = vec![variable.name.clone()];
        row.extend(variable.values.iter().map(|&value| show(value)));
        row.extend([
            show(variable.average),
            show(variable.range),
            share(variable.range),
            line(report, variable, show),
            show(variable.excursion),
            share(variable.excursion),
            if variable.steady { "yes" } else { "NO" }.to_owned(),
        ]);
        table.rows.push(row);
    }
    table
}

/// The least-squares line as a function of the round R.
fn line(report: &Report, variable: &Tracked, show: fn(f64) -> String) -> String {
    let first = report.window_begin.unwrap_or(1) as f64;
    let at_zero = variable.line.0 - variable.slope * first;
    let (sign, slope) = if variable.slope < 0.0 { ("-", -variable.slope) } else { ("+", variable.slope) };
    let minus = if at_zero < 0.0 { "-" } else { "" };
    format!("{minus}{} {sign} {} R", show(at_zero.abs()), show(slope))
}

/// The steady-state window as JSON; `unit` is the suffix of the keys of values.
pub(super) fn window_json(report: &Report, unit: &str) -> Value {
    let variables = report.variables.iter().map(|variable| {
        json!({
            "name": variable.name,
            "unit": unit,
            "values": variable.values,
            "average": variable.average,
            "range": variable.range,
            "slope_per_round": variable.slope,
            "excursion": variable.excursion,
            "line": [variable.line.0, variable.line.1],
            "steady": variable.steady,
        })
    });
    json!({
        "verdict": match report.verdict {
            Verdict::Steady => "steady",
            Verdict::NotReached => "not reached",
            Verdict::NotYet => "ended before",
        },
        "rounds": report.rounds,
        "window_begin_round": report.window_begin,
        "tracking_variables": variables.collect::<Vec<_>>(),
    })
}

/// Notes in the report what it means if no steady state was reached.
pub(super) fn judge(session: &mut Session<'_>, report: &Report) {
    if report.verdict == Verdict::NotReached {
        session.note("no steady state in 25 rounds: the averages are of the last window, and the PTS wants that said");
    }
    if report.window_begin.is_none() && report.rounds > 0 {
        session.note(format!(
            "{} rounds are no window: the averages are of these rounds and no PTS result",
            report.rounds
        ));
    }
}
