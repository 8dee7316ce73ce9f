//! A report for people, in the form of the published tables: promised beside measured, then the whole latency row of
//! each run with what others measured below it. Tables are also valid Markdown.

use super::report::{CheckReport, LatencyCell, PromiseReport, PublishedReport, RunReport};
use super::verdict::Verdict;
use super::words;

/// The report as text, without a line end at its end.
#[must_use]
pub fn table(report: &CheckReport) -> String {
    let mut parts = vec![format!(
        "{}: {}{}",
        report.sheet,
        report.drive,
        report.kind.as_ref().map_or_else(String::new, |kind| format!(" ({kind})"))
    )];
    if !report.warnings.is_empty() {
        let lines: Vec<String> = report.warnings.iter().map(|warning| format!("WARNING: {warning}")).collect();
        parts.push(lines.join("\n"));
    }
    if !report.promises.is_empty() {
        parts.push(promises(report));
        parts.push(reasons(report));
    }
    if !report.runs.is_empty() {
        parts.push(format!(
            "Latencies in us. Rows of other lines are published, not measured here.\n{}",
            runs(&report.runs)
        ));
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
        parts.push(ends.join("\n"));
    }
    parts.push(format!("{}: {}", report.sheet, report.outcome.words()));
    parts.join("\n\n")
}

fn promises(report: &CheckReport) -> String {
    let interval = format!("interval ({} %)", report.confidence_percent);
    let mut rows =
        vec![["promise", "promised", "measured", interval.as_str(), "samples", "verdict"].map(str::to_owned).to_vec()];
    for promise in &report.promises {
        let figure = &promise.measured;
        let end = |end: Option<f64>| end.map_or_else(|| "?".to_owned(), |end| words::value(promise.unit, end));
        let interval = match (figure.low, figure.high) {
            (None, None) => "-".to_owned(),
            (low, high) => format!("{} to {}", end(low), end(high)),
        };
        let memory = if promise.from_memory { " (from memory)" } else { "" };
        rows.push(vec![
            promise.name.clone(),
            format!("{}{memory}", words::promised(promise.unit, promise.promised)),
            figure.value.map_or_else(|| "-".to_owned(), |value| words::value(promise.unit, value)),
            interval,
            figure.samples.to_string(),
            promise.verdict.words().to_owned(),
        ]);
    }
    aligned(&rows)
}

/// Why a verdict is no pass, and where the promises come from.
fn reasons(report: &CheckReport) -> String {
    let mut lines: Vec<String> = report
        .promises
        .iter()
        .filter(|promise| promise.verdict != Verdict::Pass)
        .map(|promise| format!("{}: {}: {}", promise.name, promise.verdict.words(), promise.why))
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

fn runs(runs: &[RunReport]) -> String {
    let titles = ["test", "drive", "MB/s", "IOPS", "mean", "median", "p99", "p99.999"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for run in runs {
        rows.push(vec![
            run.test.clone(),
            "this target".to_owned(),
            words::megabytes(run.bytes_per_second),
            words::iops(run.iops),
            run.mean_ns.map_or_else(|| "-".to_owned(), words::us),
            cell(&run.median_ns),
            cell(&run.p99_ns),
            cell(&run.p99_999_ns),
        ]);
        rows.extend(run.published.iter().map(published));
    }
    aligned(&rows)
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

/// Rows of the same length, the first being the titles, with columns of equal width.
fn aligned(rows: &[Vec<String>]) -> String {
    let clean = |cell: &String| cell.replace('|', "/").replace(char::is_control, " ");
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(clean).collect()).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule = format!("|{}|", widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("|"));
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.insert(lines.len().min(1), rule);
    lines.join("\n")
}
