//! A report for people, in the form of the published tables: promised values beside measured ones, then the latency row
//! of each run with published measurements below it.

use super::report::{CheckReport, LatencyCell, PromiseReport, PublishedReport, RunReport};
use super::verdict::Verdict;
use super::words;
use crate::output::table::Table;

/// A part of a report; it does not end with a newline.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Lines of text.
    Text(String),
    /// A table.
    Table(Table),
}

/// The report in parts.
#[must_use]
pub fn parts(report: &CheckReport) -> Vec<Part> {
    let mut parts = vec![Part::Text(format!(
        "{}: {}{}",
        report.sheet,
        report.drive,
        report.kind.as_ref().map_or_else(String::new, |kind| format!(" ({kind})"))
    ))];
    if !report.warnings.is_empty() {
        let lines: Vec<String> = report.warnings.iter().map(|warning| format!("WARNING: {warning}")).collect();
        parts.push(Part::Text(lines.join("\n")));
    }
    if !report.promises.is_empty() {
        parts.push(Part::Table(promises(report)));
        parts.push(Part::Text(reasons(report)));
    }
    if !report.runs.is_empty() {
        parts.push(Part::Table(runs(&report.runs)));
    }
    let mut ends: Vec<String> = report
        .conditions
        .iter()
        .map(|condition| {
            let what = match (condition.duration_s, &condition.why) {
                (Some(seconds), None) => format!("{seconds:.0} s, {} GB", words::gigabytes(condition.bytes)),
                (Some(seconds), Some(why)) => {
                    format!("{seconds:.0} s, {} GB; {why}", words::gigabytes(condition.bytes))
                }
                (None, why) => format!("left out: {}", why.as_deref().unwrap_or("unknown")),
            };
            format!("conditioning: {}: {what}", condition.name)
        })
        .collect();
    ends.extend(report.notes.iter().map(|note| format!("note: {note}")));
    if !ends.is_empty() {
        parts.push(Part::Text(ends.join("\n")));
    }
    let left_out = match report.left_out {
        0 => String::new(),
        count => format!("; of {} promises {count} were not asked for", report.promises.len() + count),
    };
    parts.push(Part::Text(format!("{}: {}{}{left_out}", report.sheet, report.outcome.words(), of_parts(report))));
    parts
}

/// A sentence on how many promises passed on less than what they are about.
fn of_parts(report: &CheckReport) -> String {
    let passed = || report.promises.iter().filter(|promise| promise.verdict == Verdict::Pass);
    let unwritten = passed().filter(|promise| promise.of_part.is_some()).count();
    let early = passed().filter(|promise| promise.of_part.is_none() && promise.decided_after_s.is_some()).count();
    let say = |count: usize, what: &str| if count > 0 { format!("; {count} {what}") } else { String::new() };
    let early = say(early, "passed by the first part of the run (--whole goes on)");
    format!("{}{early}", say(unwritten, "passed before the target was written once, see above"))
}

fn promises(report: &CheckReport) -> Table {
    let interval = format!("interval ({} %)", report.confidence_percent);
    let head = ["promise", "promised", "verdict", "measured", interval.as_str(), "samples"];
    let mut table = Table::new(String::new(), 3, &head);
    for promise in &report.promises {
        let figure = &promise.measured;
        let end = |end: Option<f64>| end.map_or_else(|| "?".to_owned(), |end| words::value(promise.unit, end));
        let interval = match (figure.low, figure.high) {
            (None, None) => "-".to_owned(),
            (low, high) => format!("{} to {}", end(low), end(high)),
        };
        let memory = if promise.from_memory { " (from memory)" } else { "" };
        table.rows.push(vec![
            promise.name.clone(),
            format!("{}{memory}", words::promised(promise.unit, promise.promised)),
            promise.verdict.words().to_owned(),
            figure.value.map_or_else(|| "-".to_owned(), |value| words::value(promise.unit, value)),
            interval,
            figure.samples.to_string(),
        ]);
    }
    table
}

/// Why verdicts are no pass, and where the promises come from.
fn reasons(report: &CheckReport) -> String {
    let mut lines: Vec<String> = report
        .promises
        .iter()
        .filter_map(|promise| {
            let why = Some(promise.why.clone()).filter(|_| promise.verdict != Verdict::Pass);
            let parts: Vec<String> = why.into_iter().chain(promise.of_part.clone()).collect();
            let why = Some(parts.join("; ")).filter(|_| !parts.is_empty())?;
            Some(format!("{}: {}: {why}", promise.name, promise.verdict.words()))
        })
        .collect();
    lines.extend(
        report.promises.iter().filter_map(|promise| Some(format!("{}: {}", promise.name, promise.note.as_ref()?))),
    );
    let mut sources: Vec<String> = Vec::new();
    for promise in &report.promises {
        let source = source(promise);
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    lines.extend(sources);
    lines.join("\n")
}

fn source(promise: &PromiseReport) -> String {
    let memory = if promise.from_memory { " (from memory: look it up before you rely on it)" } else { "" };
    format!("source: {}{memory}", promise.source)
}

fn runs(runs: &[RunReport]) -> Table {
    let title = "Latencies in us. Rows of other drives are published, not measured here.";
    let head = ["test", "drive", "MB/s", "IOPS", "mean", "median", "p99", "p99.999"];
    let mut table = Table::new(title, 2, &head);
    for run in runs {
        table.rows.push(vec![
            run.test.clone(),
            "this target".to_owned(),
            words::megabytes(run.bytes_per_second),
            words::iops(run.iops),
            run.mean_ns.map_or_else(|| "-".to_owned(), words::us),
            cell(&run.median_ns),
            cell(&run.p99_ns),
            cell(&run.p99_999_ns),
        ]);
        table.rows.extend(run.published.iter().map(published));
    }
    table
}

fn published(row: &PublishedReport) -> Vec<String> {
    let figures = &row.figures;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let ns = |ns: Option<u64>| or_none(ns.map(|ns| words::us(ns as f64)));
    let note = row.note.as_ref().map_or_else(String::new, |note| format!(", {note}"));
    let memory = if row.from_memory { " (from memory)" } else { "" };
    vec![
        String::new(),
        format!("{}{note}{memory}", row.drive),
        or_none(figures.bytes_per_second.map(words::megabytes)),
        or_none(figures.iops.map(words::iops)),
        ns(figures.mean_ns),
        ns(figures.median_ns),
        ns(figures.p99_ns),
        ns(figures.p99_999_ns),
    ]
}

fn cell(cell: &LatencyCell) -> String {
    match (cell.value, cell.needed_more) {
        (Some(value), _) => words::us(value as f64),
        (None, Some(more)) => format!("({more} more)"),
        (None, None) => "-".to_owned(),
    }
}
