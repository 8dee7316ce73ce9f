//! `forebay analyze`: the workload through the PRISM.

use super::schema;
use crate::measure::{self, Live};
use crate::output::{self, Format};
use crate::parallel::processors;
use crate::traces::{self, Levels, Loaded, Named, Order, Read, Reader, read_by};
use anyhow::{Result, anyhow, bail};
use forebay_block::lock;
use forebay_block::size::parse_size_bytes;
use forebay_daemon::finding::finding;
use forebay_prism::Need;
use forebay_trace::Faults;
use forebay_trace::analysis::{Analysis, By, Options, Report};
use forebay_trace::format::parquet::{Figures, Wanted, curves_path, write_figures};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

mod over_time;
mod text;

pub use text::{faults, unknown};

/// Options of `forebay analyze`.
#[derive(Debug, clap::Args)]
pub struct AnalyzeOptions {
    /// The trace: a file (also packed by gzip or Zstandard), a generator such as rocksdb:?scale=0.01, or a directory of
    /// traces, to analyze each
    pub trace: String,
    #[command(flatten)]
    pub reading: ReadingOptions,
    /// What the rows of the table stand for: class, hint, directory, extension, process, io-class, volume, level
    #[arg(long, default_value = "class", value_name = "WHAT")]
    pub by: String,
    /// Memory for what is known of each block; where it does not suffice, blocks are sampled
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = parse_size_bytes)]
    pub memory: u64,
    /// Follow one block in N, a power of two, from the first on: faster, and nearly as exact
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub sample: u64,
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

/// How traces are read, for all verbs that read one.
#[derive(Clone, Debug, clap::Args)]
pub struct ReadingOptions {
    /// Format of the trace (default: found out from its contents)
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Tell classes by rules: rocksdb, mongodb, postgresql, mysql, sqlite, or a file with `[[class]]` sections
    #[arg(long, value_name = "RULES")]
    pub rules: Option<String>,
    /// LOG file of the RocksDB database that wrote the trace, for the levels of its tables (rocksdb.level, --by level);
    /// of several databases, with commas between
    #[arg(long, value_name = "LOG", value_delimiter = ',')]
    pub rocksdb_log: Vec<PathBuf>,
    /// Read only this volume of the trace
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
}

impl ReadingOptions {
    /// The traces that `text` names, with these options.
    ///
    /// # Errors
    /// Nothing exists under this name, or a LOG file cannot be read.
    pub fn named(&self, text: &str) -> Result<Vec<Named>> {
        let mut list = traces::named(text, self.volume.as_deref())?;
        if !self.rocksdb_log.is_empty() {
            let levels = Arc::new(Levels::read(&self.rocksdb_log)?);
            levels.faults().iter().for_each(output::complain);
            list.iter_mut().for_each(|trace| trace.levels = Some(levels.clone()));
        }
        Ok(list)
    }

    /// Loads the rules of the options.
    ///
    /// # Errors
    /// As [`traces::load_rules`].
    pub fn rules(&self) -> Result<Loaded> {
        Ok(self.rules.as_deref().map(traces::load_rules).transpose()?.unwrap_or_default())
    }
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

pub fn by(name: &str) -> Result<By> {
    let found = By::ALL.iter().find(|(_, known)| *known == name).map(|(by, _)| *by);
    found.ok_or_else(|| {
        let known: Vec<&str> = By::ALL.iter().map(|(_, name)| *name).collect();
        anyhow!("--by {name}: one of {}", known.join(", "))
    })
}

/// Runs the verb.
///
/// # Errors
/// A trace cannot be read; the other traces of a directory are analysed all the same.
pub fn run(options: &AnalyzeOptions, format: Format) -> Result<()> {
    if options.schema {
        return schema::print("analyze");
    }
    if !options.sample.is_power_of_two() || options.sample > 1 << 30 {
        bail!("--sample {}: a power of two up to 2^30, such as 64", options.sample);
    }
    if options.memory < 1 << 20 {
        bail!("--memory: at least 1MiB");
    }
    if let Some(path) = &options.parquet {
        measure::check_new_files([path.as_path(), &curves_path(path)].into_iter())?;
    }
    let trace_format = traces::format_named(options.reading.format.as_deref())?;
    let Loaded { rules, bypassed } = options.reading.rules()?;
    let by = by(&options.by)?;
    let list = options.reading.named(&options.trace)?;
    let volume = options.reading.volume.as_deref();
    let threads = options.threads.unwrap_or(processors()).clamp(1, list.len());
    let how = Options {
        memory_bytes: options.memory / threads as u64,
        sample_halvings: options.sample.trailing_zeros(),
        by,
        rules,
        bypassed,
        processors: processors() / threads,
    };
    let wanted = wanted(&how);
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
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(trace) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let analysed = one(trace);
                    lock(&done).push((trace.name.clone(), analysed));
                }
            });
        }
    });
    let mut all: Vec<(String, Result<Analysed>)> = done.into_inner().unwrap_or_else(PoisonError::into_inner);
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

/// Whether levels were requested and none is known.
pub fn lacks_levels(by: By, report: &Report) -> bool {
    let is_level = |name: &str| name.strip_prefix("level ").is_some_and(|level| level.parse::<u8>().is_ok());
    by == By::Level && !report.rows.iter().any(|row| is_level(&row.name))
}

/// Warns that no levels are known.
pub fn warn_of_levels() {
    output::complain("--by level: nothing tells levels, neither the trace nor a LOG of its database (--rocksdb-log)");
}

/// The columns that the rows and rules need.
pub fn wanted(how: &Options) -> Wanted {
    let asked: Vec<Need> = how.rules.iter().flat_map(|(_, rule)| rule.needs()).map(|(need, _)| need).collect();
    let has = |need| asked.contains(&need);
    Wanted {
        latency: true,
        queued: false,
        volume: true,
        lifetime: true,
        flags: true,
        depth: true,
        io_class: how.by == By::IoClass || has(Need::IoClass),
        process: true,
        pid: has(Need::Pid),
        cgroup: has(Need::Cgroup),
        inode: false,
        path: matches!(how.by, By::Directory | By::Extension | By::Level) || has(Need::Path) || has(Need::SstLevel),
    }
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

/// Unreadable parts of a trace, as JSON.
pub fn faults_json(faults: &Faults) -> serde_json::Value {
    let unit = if faults.by_line { "line" } else { "byte" };
    let first: Vec<_> = faults.first.iter().map(|fault| json!({ unit: fault.place, "what": fault.what })).collect();
    json!({ "count": faults.count, "first": first, "missing": faults.missing })
}
