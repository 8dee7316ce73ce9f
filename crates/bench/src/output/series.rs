//! The time series of jobs as CSV (RFC 4180): a row for each interval and direction, for spreadsheets and plots.

use super::summary::Reporting;
use crate::run::{Direction, IntervalRow, JobResult, OfDirection, per_second};
use crate::stats::percentile::{Level, printed_from};
use forebay_block::OpKind;
use std::fmt::Write as _;

/// Column names. A megabyte has a million bytes.
pub const HEAD: &str = "job,target,direction,begin_s,length_s,ios,errors,iops,mb_per_s,latency_mean_ns,latency_p50_ns,\
                        latency_p99_ns,latency_p99.9_ns,latency_max_ns";

/// The figures of a row, for one direction or all.
struct Figures {
    ios: u64,
    bytes: u64,
    /// `None` for one direction: failures are only counted over all.
    errors: Option<u64>,
    mean_ns: u64,
    /// Number of I/Os behind the latencies.
    samples: u64,
    /// p50, p99, p99.9 and maximum, in nanoseconds.
    levels_ns: [u64; 4],
}

impl Figures {
    fn all(row: &IntervalRow) -> Self {
        let [mean_ns, levels_ns @ ..] = row.latency_ns;
        Self { ios: row.ios, bytes: row.bytes, errors: Some(row.errors), mean_ns, samples: row.ios, levels_ns }
    }

    fn of(way: Direction, latency: OfDirection) -> Self {
        let Direction { ios, bytes, .. } = way;
        let OfDirection { samples, levels_ns } = latency;
        Self { ios, bytes, errors: None, mean_ns: way.mean_ns(), samples, levels_ns }
    }
}

/// The rows of a job, each with a line end; `target` names where it ran. Figures with too few I/Os are empty; in results they are `null`.
#[must_use]
pub fn rows(result: &JobResult, target: &str, reporting: &Reporting) -> String {
    let has = |kinds: &[OpKind]| kinds.iter().any(|&kind| result.kind(kind).is_some());
    let (reads, writes) = (has(&[OpKind::Read]), has(&[OpKind::Write, OpKind::WriteFua]));
    let begin = format!("{},{}", quoted(&result.job.name), quoted(target));
    let mut text = String::new();
    for row in &result.intervals {
        let ways = [
            ("all", true, Figures::all(row)),
            ("read", reads, Figures::of(row.read, row.read_latency)),
            ("write", writes, Figures::of(row.write, row.write_latency)),
        ];
        for (direction, _, figures) in ways.iter().filter(|(_, has, _)| *has) {
            let _ = write!(text, "{begin},{direction}");
            one(&mut text, result, row, figures, reporting);
        }
    }
    text
}

fn one(text: &mut String, result: &JobResult, row: &IntervalRow, figures: &Figures, reporting: &Reporting) {
    // The few I/Os that ended after the window, in a very short time, are no rate.
    let is_rated = row.length_ns >= result.interval_ns / 2;
    let rate = |count: u64| is_rated.then(|| per_second(count, row.length_ns));
    let from = |level: &str| match level.parse() {
        Ok(Level::Share(share)) => printed_from(share, reporting.confidence),
        _ => 1,
    };
    let least = ["50", "99", "99.9", "max"].map(from);
    let levels: [_; 4] = std::array::from_fn(|at| (figures.samples >= least[at]).then_some(figures.levels_ns[at]));
    // Writing to a String cannot fail.
    let _ = write!(text, ",{},{},{}", row.begin_ns as f64 / 1e9, row.length_ns as f64 / 1e9, figures.ios);
    cell(text, figures.errors.map(|errors| errors.to_string()));
    cell(text, rate(figures.ios).map(|rate| format!("{rate:.3}")));
    cell(text, rate(figures.bytes).map(|rate| format!("{:.6}", rate / 1e6)));
    cell(text, (figures.ios > 0).then(|| figures.mean_ns.to_string()));
    levels.into_iter().for_each(|level| cell(text, level.map(|ns| ns.to_string())));
    text.push('\n');
}

fn cell(text: &mut String, value: Option<String>) {
    text.push(',');
    text.push_str(&value.unwrap_or_default());
}

/// A text as a CSV cell. A text that a spreadsheet would take for a formula is marked as text.
fn quoted(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    if is_formula || text.contains(['"', ',']) {
        let mark = if is_formula { "'" } else { "" };
        return format!("\"{mark}{}\"", text.replace('"', "\"\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cells() {
        for (name, cell) in [
            ("job1", "job1"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=HYPERLINK(1)", "\"'=HYPERLINK(1)\""),
            ("two\nlines", "two lines"),
        ] {
            assert_eq!(quoted(name), cell);
        }
        assert_eq!(HEAD.split(',').count(), 14);
        assert!(!HEAD.contains(' '));
    }
}
