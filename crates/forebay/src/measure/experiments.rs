//! Experiments of the command line: built-in experiments, comparisons, conditioning, application-shaped loads.

use super::named::{APPLICATIONS, Named};
use super::options::BenchOptions;
use super::session::Session;
use super::time_ns;
use crate::output::{self, Format, count};
use anyhow::{Result, bail};
use forebay_bench::application::{self, PHOTO_BYTES, PHOTOS};
use forebay_bench::experiment::{
    self, Comparing, Conditioning, Experiment, Options, Rate, Report, compare_settings, compare_targets,
};
use forebay_bench::job::model::{Job, Plan};
use forebay_bench::job::size::size_bytes;
use forebay_bench::stats::Confidence;
use forebay_bench::stats::percentile::Level;
use forebay_daemon::finding::finding;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// All names with a description.
pub fn list() -> Vec<(String, &'static str)> {
    let experiments = Experiment::ALL.iter().map(|(experiment, what)| (experiment.name().to_owned(), *what));
    let applications = APPLICATIONS.iter().map(|&(name, _, what)| (name, what));
    let others = applications.chain(super::generated::PRESETS).map(|(name, what)| (name.to_owned(), what));
    experiments.chain(others).collect()
}

/// Runs an experiment on an opened target.
///
/// # Errors
/// Errors of the experiment.
pub fn experiment(session: &mut Session, named: Experiment, base: Job, options: &BenchOptions) -> Result<Report> {
    session.check_base(&base)?;
    let may_write = session.may_write();
    let how = experiment_options(base, options, may_write.is_ok())?;
    let result = named.run(session, &how);
    // The reason why writing is not allowed is more useful than that writes are needed.
    match (result, may_write) {
        (Err(experiment::ExperimentError::NeedsWrites { what, .. }), Err(why)) => {
            Err(why.context(format!("{what} writes to the target")))
        }
        (result, _) => Ok(result?),
    }
}

/// Conditions the target.
///
/// # Errors
/// Errors of the conditioning.
pub fn condition(session: &mut Session, text: &str, base: Job, options: &BenchOptions) -> Result<Report> {
    let conditioning: Conditioning = text.parse()?;
    session.may_write()?;
    let how = experiment_options(base, options, true)?;
    Ok(experiment::condition(session, &how, conditioning)?)
}

fn experiment_options(base: Job, options: &BenchOptions, allow_writes: bool) -> Result<Options> {
    let defaults = Options::default();
    Ok(Options {
        base,
        allow_writes,
        runtime_ns: options.runtime.as_deref().map(|text| time_ns("--runtime", text)).transpose()?,
        quick: options.quick,
        conditioning: options.condition.as_deref().map(str::parse).transpose()?,
        read_percent: options.read_percent,
        depth_max: options.depth_max.unwrap_or(defaults.depth_max),
        application: super::beforehand::application(options)?,
        rounds: options.rounds.unwrap_or(defaults.rounds),
        capacities: options.capacities.unwrap_or(defaults.capacities),
        rate: options.rate.map_or(defaults.rate, Rate::Iops),
        ..defaults
    })
}

/// Compares two targets, or two settings on one target, with the jobs of `plan`.
///
/// # Errors
/// Errors of the comparison.
pub fn compare(
    session: &mut Session,
    other: Other<'_>,
    plan: &Plan,
    (rounds, difference, levels): (u32, f64, Vec<Level>),
) -> Result<Report> {
    let name = session.name().to_owned();
    let names = match &other {
        Other::Target(other) => (name, other.name().to_owned()),
        Other::Settings(..) => ("as given".to_owned(), "with --against-set".to_owned()),
    };
    let comparing = Comparing { names, rounds, confidence: Confidence::P95, levels, difference, seed: 1 };
    Ok(match other {
        Other::Target(other) => compare_targets(&comparing, session, other, &plan.groups)?,
        Other::Settings(settings) => compare_settings(&comparing, session, &plan.groups, &settings.groups)?,
    })
}

/// The other side of a comparison.
pub enum Other<'a> {
    /// Another target.
    Target(&'a mut Session),
    /// Other jobs.
    Settings(&'a Plan),
}

/// Runs an application-shaped load in a directory.
///
/// # Errors
/// Errors of the file system.
pub fn application(named: Named, directory: &str, options: &BenchOptions) -> Result<Report> {
    if !Path::new(directory).is_dir() {
        bail!("--target {directory}: this load works on a file system; name an existing directory");
    }
    let file_bytes = match &options.file_size {
        Some(text) => size_bytes(text).map_err(|what| anyhow::anyhow!("--file-size {text:?}: {what}"))?,
        None => PHOTO_BYTES,
    };
    let how = application::Options {
        directory: directory.into(),
        files: options.files.unwrap_or(if options.quick { PHOTOS / 30 } else { PHOTOS }),
        file_bytes,
        seed: options.seed.unwrap_or(1),
    };
    let stop = Arc::new(AtomicBool::new(false));
    super::signals::watch(&stop)?;
    let live = super::live::Live::new();
    let mut progress = |done, of, what: &str| live.step(&format!("{what}: {done} of {of}"));
    let mut control = application::Control { stop: &stop, progress: &mut progress };
    Ok(match named {
        Named::PhotoIngest => application::photo_ingest(&how, &mut control)?,
        Named::IndexRebuild => application::index_rebuild(&how, &mut control)?,
        Named::Experiment(experiment) => bail!("{experiment} is no application-shaped load"),
    })
}

/// Formats a report as text.
pub fn report_table(report: &Report) -> String {
    let mut lines = vec![format!("{}: {}", report.name, report.what)];
    if report.partial {
        lines.push("PARTIAL: it was ended early; what follows is what is known".to_owned());
    }
    if report.failures > 0 {
        lines.push(format!("FAILURES: {} failed or never came back", count(report.failures, "I/O")));
    }
    lines.extend(report.conditions.iter().map(|condition| format!("  {condition}")));
    for table in &report.tables {
        lines.push(format!("\n{}", output::titled(table)));
    }
    if !report.notes.is_empty() {
        lines.push(String::new());
        lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    }
    lines.join("\n")
}

/// Shows a report.
///
/// # Errors
/// The output cannot be written; a finding where I/Os failed.
pub fn show_report(report: &Report, target: &str, format: Format) -> Result<()> {
    match format {
        Format::Json => output::json(json!({
            "experiment": report.name,
            "what": report.what,
            "target": target,
            "partial": report.partial,
            "failures": report.failures,
            "conditions": report.conditions,
            "notes": report.notes,
            "result": report.json,
        }))?,
        Format::Table => output::text(&report_table(report))?,
    }
    failed(report)
}

/// A finding where I/Os failed.
///
/// # Errors
/// That finding.
pub fn failed(report: &Report) -> Result<()> {
    if report.failures == 0 {
        return Ok(());
    }
    Err(finding(format!("{} failed or never came back", count(report.failures, "I/O"))))
}
