//! Common end of verbs that run jobs: output files, counters of the drive, and the verdict.

use crate::measure::BenchOptions;
use crate::output;
use anyhow::{Context, Result};
use forebay_bench::output::{fio, fio_log};
use forebay_bench::run::{JobResult, Partial};
use forebay_daemon::finding::finding;
use forebay_device::counters::Difference;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The drive's own counters over the whole run, which include I/O of other processes.
pub(super) fn counters_json(counters: &Difference) -> Value {
    let values = counters.values().into_iter();
    let change = |(name, before, after): (&'static str, Option<u64>, Option<u64>)| {
        (name.to_owned(), json!({ "before": before, "after": after, "change": counters.change(name) }))
    };
    json!({ "values": values.map(change).collect::<serde_json::Map<_, _>>(), "left_out": counters.left_out() })
}

pub(super) fn counters_table(counters: &Difference) -> Option<String> {
    let moved = counters.rows().into_iter().filter(|(_, before, after, _)| before != after);
    let rows: Vec<Vec<String>> = moved.map(|(name, before, after, change)| vec![name, before, after, change]).collect();
    let table = output::table(&["drive counter (all users of the drive)", "before", "after", "change"], 1, &rows);
    (!rows.is_empty()).then(|| format!("\n{table}"))
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
