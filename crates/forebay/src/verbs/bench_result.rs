//! Common end of verbs that run jobs: the frame of their result, output files, counters of the drive, and the verdict.

use crate::measure::{BenchOptions, Wear};
use crate::output;
use anyhow::{Context, Result};
use forebay_bench::output::{fio, fio_log};
use forebay_bench::run::{JobResult, Partial};
use forebay_daemon::finding::finding;
use forebay_device::counters::Difference;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the results of all verbs that run jobs have around the jobs.
pub(super) struct Frame<'a> {
    /// Name of the target, or of all.
    pub target: String,
    /// Notes of the plan.
    pub notes: &'a [String],
    /// Names of the jobs that were never started.
    pub not_started: Vec<&'a str>,
    /// What the drive counted, of a single target.
    pub counters: Option<&'a Difference>,
    /// What the models counted, of a single target.
    pub wear: Option<&'a Wear>,
}

/// What a result has in its frame.
#[derive(Default)]
pub(super) struct Contents {
    /// Results of the jobs, on each target.
    pub jobs: Vec<Value>,
    /// Results of the jobs on all targets together, where there are several.
    pub together: Option<Vec<Value>>,
    /// The targets, where there may be several.
    pub targets: Option<Vec<Value>>,
    /// The hosts, where they are not this one.
    pub hosts: Option<Vec<Value>>,
    /// The trace, of a replay.
    pub replay: Option<Value>,
}

impl Frame<'_> {
    pub(super) fn json(&self, contents: Contents) -> Value {
        let mut value = json!({
            "target": self.target,
            "targets": contents.targets,
            "hosts": contents.hosts,
            "notes": self.notes,
            "jobs": contents.jobs,
            "together": contents.together,
            "not_started": self.not_started,
        });
        if let Some(replay) = contents.replay {
            value["replay"] = replay;
        }
        value["drive_counters"] = json!(self.counters.map(counters_json));
        value["models"] = json!(self.wear.map(Wear::json));
        value
    }

    /// Shows the tables of the jobs, and which were never started.
    pub(super) fn show_jobs(&self, tables: &[String]) -> Result<()> {
        output::text(&tables.join("\n\n"))?;
        if self.not_started.is_empty() {
            return Ok(());
        }
        output::text(&format!("\nnote: never started, since the run was ended: {}", self.not_started.join(", ")))
    }

    /// Shows what the drive and the models counted.
    pub(super) fn show_counted(&self) -> Result<()> {
        let counters = self.counters.and_then(|counters| counters_table(counters_rows(counters)));
        let tables = [counters, self.wear.and_then(Wear::table)];
        tables.into_iter().flatten().try_for_each(|table| output::text(&format!("\n{table}")))
    }
}

/// The drive's own counters over the whole run, which include I/O of other processes.
pub(super) fn counters_json(counters: &Difference) -> Value {
    let values = counters.values().into_iter();
    let change = |(name, before, after): (&'static str, Option<u64>, Option<u64>)| {
        (name.to_owned(), json!({ "before": before, "after": after, "change": counters.change(name) }))
    };
    json!({ "values": values.map(change).collect::<serde_json::Map<_, _>>(), "left_out": counters.left_out() })
}

/// Rows of the counters that have changed.
pub(super) fn counters_rows(counters: &Difference) -> Vec<Vec<String>> {
    let moved = counters.rows().into_iter().filter(|(_, before, after, _)| before != after);
    moved.map(|(name, before, after, change)| vec![name, before, after, change]).collect()
}

/// Rows of counters as a table; none without rows.
pub(super) fn counters_table(rows: Vec<Vec<String>>) -> Option<String> {
    let head = ["drive counter (all users of the drive)", "before", "after", "change"];
    (!rows.is_empty()).then(|| output::table(&head, 1, &rows))
}

pub(super) fn write_files(results: &[JobResult], options: &BenchOptions) -> Result<()> {
    if let Some(path) = &options.fio_json {
        let document = serde_json::to_string_pretty(&fio::document(results, unix_ms()))?;
        write(path, &document)?;
    }
    if let Some(prefix) = &options.fio_logs {
        for (number, result) in results.iter().enumerate() {
            for (end, content) in fio_log::files(result) {
                let job = if results.len() > 1 { format!("-{number}") } else { String::new() };
                write(Path::new(&format!("{}{job}{end}", prefix.display())), &content)?;
            }
        }
    }
    options.telemetry.write_parquet()
}

/// A finding where I/Os failed or nothing was measured.
pub(super) fn verdict(results: &[JobResult]) -> Result<()> {
    let failed: u64 = results.iter().map(|result| result.failures.count).sum();
    let hung: u32 = results.iter().map(|result| result.hung).sum();
    if failed + u64::from(hung) > 0 {
        return Err(finding(format!(
            "{} failed and {hung} never came back; the result says where",
            output::count(failed, "I/O")
        )));
    }
    // An interrupted job need not have met its requirements.
    let whole = || results.iter().filter(|result| result.partial != Some(Partial::Interrupted));
    let named =
        |result: &JobResult, what: &str| Err(finding(format!("job {:?}: {what}; its notes say why", result.job.name)));
    if let Some(result) = whole().find(|result| !result.has_measured()) {
        return named(result, "no I/O was measured");
    }
    whole().find(|result| result.has_verified_nothing()).map_or(Ok(()), |result| named(result, "nothing was verified"))
}

fn write(path: &Path, content: &str) -> Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
