//! Checks before anything runs: output files that cannot be written, options without an effect.

use super::named::Named;
use super::options::BenchOptions;
use anyhow::{Context, Result, bail};
use forebay_bench::experiment::{DepthHistogram, Experiment};
use forebay_bench::output::fio_log;
use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};

/// Keys of a job that every experiment sets itself.
const DECIDED: [&str; 24] = [
    "rw",
    "mix",
    "read_percent",
    "fua",
    "flush_every",
    "flush_kind",
    "arrival",
    "rate",
    "trace",
    "think",
    "think_compute",
    "burst",
    "runtime",
    "bytes",
    "ios",
    "passes",
    "steadystate",
    "steadystate_duration",
    "steadystate_ramp_time",
    "steadystate_check_interval",
    "cooldown",
    "start_delay",
    "verify",
    "name",
];

/// Checks that the output files of a command can be written.
///
/// # Errors
/// The first file that cannot be written, and why.
pub fn check_outputs(options: &BenchOptions) -> Result<()> {
    if let Some(path) = &options.fio_json {
        writable(path)?;
        // A pipe or /dev/stdout may be named on purpose.
        check_new_files(path.is_file().then_some(path.as_path()).into_iter())?;
    }
    if let Some(prefix) = &options.fio_logs {
        // With several jobs, each has files of its own whose names begin with the prefix.
        for job in ["", "-0"] {
            let named = |end: &str| prefix.with_file_name(format!("{}{job}{end}", name_of(prefix)));
            let files = fio_log::ENDS.map(named);
            check_new_files(files.iter().map(PathBuf::as_path))?;
        }
    }
    options.telemetry.check_new_files(options.fio_json.as_deref())
}

/// Checks that files which must not exist yet can be created.
///
/// # Errors
/// The first file that cannot be created, and why.
pub fn check_new_files<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<()> {
    for path in paths {
        writable(path)?;
        // Devices and dangling links count as existing too, because the file would be created anew.
        if path.symlink_metadata().is_ok() {
            bail!("{} exists, and is never overwritten: name another file, or remove it", path.display());
        }
    }
    Ok(())
}

/// Checks that outputs are not written over each other. A pipe or a device may take several.
///
/// # Errors
/// Two outputs are the same file.
pub fn check_apart<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<()> {
    let mut known: Vec<PathBuf> = Vec::new();
    for path in paths.filter(|path| path.is_file() || path.symlink_metadata().is_err()) {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(name_of(path));
        if known.contains(&file) {
            bail!("{} is named for two outputs, of which one would replace the other: name two files", path.display());
        }
        known.push(file);
    }
    Ok(())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Checks that a file can be written or created, without touching it.
fn writable(path: &Path) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if path.is_dir() {
        bail!("{}: it is a directory", cannot());
    }
    if path.exists() {
        return access(path, Access::WRITE_OK).with_context(cannot);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let reached = access(directory, Access::WRITE_OK).and_then(|()| match directory.is_dir() {
        true => Ok(()),
        false => Err(rustix::io::Errno::NOTDIR),
    });
    reached.with_context(|| format!("{}: its directory {} cannot be written to", cannot(), directory.display()))
}

/// Reads and checks the depth histogram of an application.
///
/// # Errors
/// What is wrong with the file.
pub fn application(options: &BenchOptions) -> Result<Option<DepthHistogram>> {
    let Some(path) = options.application.as_deref() else { return Ok(None) };
    let read = forebay_trace::reading::open_file(path).and_then(std::io::read_to_string);
    let text = read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(DepthHistogram::parse(&text).with_context(|| path.display().to_string())?))
}

/// Options that have no effect: an error where the user must have meant a different run, otherwise a note.
///
/// # Errors
/// The first option that has no meaning here.
pub fn idle_options(options: &BenchOptions, named: Option<Named>) -> Result<Vec<String>> {
    let compares = options.against.is_some() || !options.against_set.is_empty();
    match named {
        None => plain(options, compares)?,
        Some(Named::Experiment(experiment)) => return of_experiment(options, experiment, compares),
        Some(Named::PhotoIngest | Named::IndexRebuild) => {
            let used = ["--files", "--file-size", "--quick"];
            let idle = tuning(options).into_iter().chain(reporting(options, compares));
            let settings = !options.set.is_empty() || !options.diskspd.is_empty();
            let settings = [("--set", settings), ("--condition", options.condition.is_some())];
            if let Some((option, _)) = idle.chain(settings).find(|(option, given)| *given && !used.contains(option)) {
                bail!("{option} has no effect on a load shaped like an application: leave it out");
            }
        }
    }
    Ok(Vec::new())
}

/// Options that tune experiments.
fn tuning(options: &BenchOptions) -> [(&'static str, bool); 10] {
    [
        ("--quick", options.quick),
        ("--read-percent", options.read_percent.is_some()),
        ("--depth-max", options.depth_max.is_some()),
        ("--application", options.application.is_some()),
        ("--capacities", options.capacities.is_some()),
        ("--rate", options.rate.is_some()),
        ("--rounds", options.rounds.is_some()),
        ("--difference", options.difference.is_some()),
        ("--files", options.files.is_some()),
        ("--file-size", options.file_size.is_some()),
    ]
}

/// Options for the result of a job, and for comparisons.
fn reporting(options: &BenchOptions, compares: bool) -> [(&'static str, bool); 8] {
    [
        ("--against", compares),
        ("--series", options.telemetry.series.is_some()),
        ("--fio-json", options.fio_json.is_some()),
        ("--fio-logs", options.fio_logs.is_some()),
        ("--block-layer", options.block_layer),
        ("--records", options.telemetry.records.is_some()),
        ("--parquet", options.telemetry.parquet.is_some()),
        ("--percentiles", options.telemetry.percentiles.is_some()),
    ]
}

fn plain(options: &BenchOptions, compares: bool) -> Result<()> {
    let has_use = |option: &str| match option {
        "--quick" => options.condition.is_some(),
        "--rounds" | "--difference" => compares,
        _ => false,
    };
    if let Some((option, _)) = tuning(options).into_iter().find(|(option, given)| *given && !has_use(option)) {
        if option == "--difference" {
            bail!("{option} is for comparisons, which --against or --against-set makes, and has no effect on a job");
        }
        let instead = match option {
            "--read-percent" => "; a job says it with --set rw=randrw --set read_percent=N",
            "--rate" => "; a job says it with --set rate=N",
            "--rounds" => "; comparisons have rounds: --against or --against-set",
            _ => "",
        };
        bail!("{option} is for experiments, which `forebay bench --list` names, and has no effect on a job{instead}");
    }
    let is_of_jobs = |(option, given): &(&str, bool)| *given && *option != "--percentiles";
    if compares && let Some((option, _)) = reporting(options, false).into_iter().find(is_of_jobs) {
        bail!("{option} has no effect on a comparison: leave it out");
    }
    Ok(())
}

fn of_experiment(options: &BenchOptions, experiment: Experiment, compares: bool) -> Result<Vec<String>> {
    if let Some((option, _)) = reporting(options, compares).into_iter().find(|(_, given)| *given) {
        bail!("{option} has no effect on an experiment: it is for jobs");
    }
    let used: &[&str] = match experiment {
        Experiment::QdSweep => &["--read-percent", "--depth-max", "--application"],
        Experiment::Qos => &["--read-percent", "--depth-max", "--rate"],
        Experiment::ShortBurst => &["--read-percent"],
        Experiment::WaitMethods => &["--read-percent", "--rounds"],
        Experiment::Mixed => &["--rounds"],
        Experiment::WriteSaturation => &["--capacities"],
        Experiment::Surface | Experiment::SniaIops | Experiment::SniaLatency => &[],
    };
    let idle =
        tuning(options).into_iter().filter(|(option, given)| *given && *option != "--quick" && !used.contains(option));
    let mut notes: Vec<String> = idle.map(|(option, _)| format!("{option} has no effect on {experiment}")).collect();
    let more: &[&str] = match experiment {
        Experiment::QdSweep | Experiment::Surface | Experiment::Qos => &["depth"],
        Experiment::SniaIops | Experiment::WriteSaturation => &["size", "pattern"],
        Experiment::SniaLatency | Experiment::Mixed => &["depth", "size", "pattern"],
        Experiment::ShortBurst => &["depth"],
        Experiment::WaitMethods => &["depth", "threads", "wait", "calls"],
    };
    let keys = options.set.iter().filter_map(|setting| setting.split_once('=')).map(|(key, _)| key.trim());
    let decided: Vec<&str> = keys.filter(|key| DECIDED.contains(key) || more.contains(key)).collect();
    if !decided.is_empty() {
        notes.push(format!("{experiment} decides itself, whatever --set says: {}", decided.join(", ")));
    }
    Ok(notes)
}
