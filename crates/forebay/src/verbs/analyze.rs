//! `forebay analyze`: the workload through the PRISM.

use super::schema;
use crate::measure::{self, Live};
use crate::output::{self, Format};
use crate::parallel::{on_threads, processors};
use crate::traces::{
    self, FollowingOptions, Named, Order, Read, Reader, ReadingOptions, faults, faults_json, lacks_levels, read_by,
    wanted_columns, warn_of_levels,
};
use anyhow::{Result, bail};
use forebay_daemon::finding::finding;
use forebay_trace::analysis::{Analysis, Report};
use forebay_trace::format::parquet::{Figures, curves_path, write_figures};
use serde_json::json;
use std::path::{Path, PathBuf};

mod over_time;
mod text;

/// Options of `forebay analyze`.
#[derive(Debug, clap::Args)]
pub struct AnalyzeOptions {
    /// The trace: a file (also packed by gzip or Zstandard), a generator such as rocksdb:?scale=0.01, or a directory of
    /// traces, to analyze each
    pub trace: String,
    #[command(flatten)]
    pub reading: ReadingOptions,
    #[command(flatten)]
    pub following: FollowingOptions,
    /// Also write all figures to this Parquet file, and all curves to NAME.curves.parquet beside it
    ///
    /// It has a row for every row of every trace (docs/analyze.md). Neither file may exist.
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,
    /// Traces that are analyzed at a time, where there are several (default: the number of cores)
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Print the JSON schema of results; needs nothing else
    #[arg(long)]
    pub schema: bool,
}

struct Analysed {
    name: String,
    read: Read,
    report: Report,
}

impl Analysed {
    fn figures(&self) -> Figures<'_> {
        Figures {
            trace: &self.name,
            requests: self.read.requests,
            faults: self.read.faults.count,
            is_cut: self.read.cut.is_some(),
            report: &self.report,
        }
    }
}

/// Runs the verb.
///
/// # Errors
/// A trace cannot be read; the other traces of a directory are analysed all the same.
pub fn run(options: &AnalyzeOptions, format: Format) -> Result<()> {
    if options.schema {
        return schema::print("analyze");
    }
    options.following.check()?;
    if let Some(path) = &options.parquet {
        measure::check_new_files([path.as_path(), &curves_path(path)].into_iter())?;
    }
    let trace_format = traces::format_named(options.reading.format.as_deref())?;
    let rules = options.reading.rules()?;
    let by = options.following.by()?;
    let list = options.reading.named(&options.trace)?;
    let volume = options.reading.volume.as_deref();
    let threads = options.threads.unwrap_or(processors()).clamp(1, list.len());
    let how = options.following.analysis(by, rules, threads);
    let wanted = wanted_columns(&how);
    // Concurrent traces use no more threads than processors: with two processors for a trace, the analysis has the second one.
    let reader = match how.processors {
        2 if threads > 1 => Reader::Taker,
        count => Reader::with_processors(count),
    };
    let one = |trace: &Named| -> Result<Analysed> {
        let mut analysis = Analysis::new(&how);
        // Several traces of a directory are analysed at a time, so that only a single one shows progress.
        let (live, mut taken) = ((list.len() == 1).then(Live::new), 0);
        let mut read = read_by(reader, trace, trace_format, wanted, volume, Order::Time, |requests, names, knows| {
            analysis.add(requests, names, knows);
            taken += requests.len();
            if let Some(live) = &live {
                live.step(&format!("{}: {taken} requests", trace.name));
            }
            true
        })?;
        // The names of all traces of a directory would need unbounded memory.
        let mut report = analysis.finish(&std::mem::take(&mut read.names));
        if list.len() > 1 {
            // So would their maps, which only a single trace has.
            report.over_time.volumes = None;
        }
        Ok(Analysed { name: trace.name.clone(), read, report })
    };
    let mut all = on_threads(threads, &list, |trace| (trace.name.clone(), one(trace)));
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (name, analysed) in all {
        match analysed {
            Ok(analysed) => good.push(analysed),
            Err(error) => bad.push((name, error)),
        }
    }
    if good.is_empty()
        && let Some((_, error)) = bad.pop()
    {
        return Err(error);
    }
    // Some traces of a directory may lack the volume.
    if let ([Analysed { name, read, .. }], false) = (good.as_slice(), Path::new(&options.trace).is_dir())
        && read.requests == 0
        && read.cut.is_none()
    {
        faults(&read.faults).iter().for_each(output::complain);
        bail!(
            "{name}: there is no request in it, and nothing to analyse: look whether it is the trace that is meant, whole, and of the format that it is \
             read as (--format)"
        );
    }
    for (_, error) in &bad {
        output::complain(format!("left out: {}", output::chain(error)));
    }
    if good.iter().all(|analysed| lacks_levels(by, &analysed.report)) {
        warn_of_levels();
    }
    // The figures are written even where the printed output has no reader.
    let printed = tell(&good, &bad, Path::new(&options.trace).is_dir(), format);
    if let Some(path) = &options.parquet {
        write_figures(path, &good.iter().map(Analysed::figures).collect::<Vec<_>>())?;
    }
    printed?;
    if let Some(cut) = good.iter().find_map(|analysed| analysed.read.cut.as_ref()) {
        return Err(finding(format!("only what comes before is analysed: {}", output::chain(cut))));
    }
    if !bad.is_empty() {
        bail!("{} of {} traces could not be read", bad.len(), list.len());
    }
    good.iter().try_for_each(|analysed| analysed.read.mostly(&analysed.name))
}

/// Prints the results. `is_fleet`: a directory of traces was requested, however many it contains.
fn tell(list: &[Analysed], bad: &[(String, anyhow::Error)], is_fleet: bool, format: Format) -> Result<()> {
    let value = |analysed: &Analysed| {
        json!({
            "trace": analysed.name,
            "requests": analysed.read.requests,
            "cut": analysed.read.cut.as_ref().map(output::chain),
            "faults": faults_json(&analysed.read.faults),
            "notes": analysed.read.notes,
            "exact": analysed.read.is_exact(&analysed.report),
            "report": analysed.report,
        })
    };
    match (format, list) {
        (Format::Json, [one]) if !is_fleet => output::json(value(one)),
        (Format::Json, list) => {
            let left_out =
                |(name, error): &(String, anyhow::Error)| json!({ "trace": name, "why": output::chain(error) });
            output::json(json!({
                "traces": list.iter().map(value).collect::<Vec<_>>(),
                "left_out": bad.iter().map(left_out).collect::<Vec<_>>(),
            }))
        }
        (Format::Table, [one]) if !is_fleet => output::text(&text::whole(&one.name, &one.read, &one.report)),
        (Format::Table, list) => {
            let rows: Vec<(&str, &Read, &Report)> =
                list.iter().map(|analysed| (analysed.name.as_str(), &analysed.read, &analysed.report)).collect();
            output::text(&text::fleet(&rows))
        }
    }
}
