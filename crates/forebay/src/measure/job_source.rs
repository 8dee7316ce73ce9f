//! The source of a run's jobs: the options of the command line with the text of the job file, so that another host can build the same jobs.

use super::generated::preset;
use super::options::BenchOptions;
use super::time_ns;
use anyhow::{Context, Result, bail};
use forebay_bench::job::model::Plan;
use forebay_bench::job::validate::validate;
use forebay_bench::job::{self, JobText, diskspd, toml_file};
use forebay_device::{FileDevice, Target};
use serde::{Deserialize, Serialize};

/// The options of the command line that define jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSource {
    file: Option<JobText>,
    settings: Vec<String>,
    diskspd: Vec<String>,
    runtime: Option<String>,
    warmup: Option<String>,
    seed: Option<u64>,
}

impl JobSource {
    /// From the command line. Where the first word names an experiment (`named`), the jobs are its base.
    ///
    /// # Errors
    /// The job file cannot be read, or two sources are given.
    pub fn read(options: &BenchOptions, named: bool) -> Result<Self> {
        let file = options.job.as_deref().filter(|_| !named);
        let generator = file.filter(|path| !path.exists()).and_then(preset);
        let mut source = Self {
            file: None,
            settings: options.set.clone(),
            diskspd: options.diskspd.clone(),
            runtime: options.runtime.clone(),
            warmup: options.warmup.clone(),
            seed: options.seed,
        };
        match (file, options.diskspd.is_empty(), options.set.is_empty()) {
            (_, true, _) if generator.is_some() => {
                source.settings.splice(0..0, generator.map(|name| format!("generator={name}")));
            }
            (Some(path), true, true) if !path.exists() => {
                bail!(
                    "{} is neither a file nor an experiment nor a generator; `forebay bench --list` names these",
                    path.display()
                )
            }
            (Some(path), true, true) => source.file = Some(job::read(path)?),
            (None, false, true) | (None, true, _) => {}
            _ => bail!("a job file, --set and DiskSpd's options exclude one another: give one of them"),
        }
        Ok(source)
    }

    /// Builds the plan; for an experiment it holds the base of its jobs. DiskSpd's `-c` creates the `targets` that do not exist.
    ///
    /// # Errors
    /// What is wrong with the jobs.
    pub fn plan(&self, named: bool, targets: &[String]) -> Result<Plan> {
        let mut plan = match &self.file {
            Some(text) => text.parse()?,
            None if self.diskspd.is_empty() => from_settings(&self.settings)?,
            None => from_diskspd(&self.diskspd, named, targets)?,
        };
        self.apply(&mut plan)?;
        Ok(plan)
    }

    /// Applies the options that hold for every job.
    ///
    /// # Errors
    /// A time that cannot be parsed, or jobs that are out of range.
    pub fn apply(&self, plan: &mut Plan) -> Result<()> {
        let runtime = self.runtime.as_deref().map(|text| time_ns("--runtime", text)).transpose()?;
        let warmup = self.warmup.as_deref().map(|text| time_ns("--warmup", text)).transpose()?;
        for job in plan.groups.iter_mut().flatten() {
            job.end.after_ns = runtime.or(job.end.after_ns);
            job.warmup_ns = warmup.unwrap_or(job.warmup_ns);
            job.seed = self.seed.unwrap_or(job.seed);
        }
        Ok(validate(plan)?)
    }
}

/// Parses DiskSpd's options; `-c` creates the file where there is none. DiskSpd uses the page cache by default, experiments do not.
fn from_diskspd(options: &[String], named: bool, targets: &[String]) -> Result<Plan> {
    let mut parsed = diskspd::parse(options)?;
    let says_caches = options.iter().any(|option| option.starts_with("-S") || option == "-h");
    if named && !says_caches {
        parsed.plan.groups.iter_mut().flatten().for_each(|job| job.access.buffered = false);
        parsed.plan.notes.retain(|note| !note.contains("page cache"));
        parsed.plan.notes.push("An experiment measures the drive: direct I/O, unless -Sb says otherwise.".to_owned());
    }
    for target in targets {
        if let (Some(bytes), Ok(Target::Path(path))) = (parsed.create_bytes, target.parse())
            && !path.exists()
        {
            FileDevice::create_file(&path, bytes).with_context(|| format!("cannot make {}", path.display()))?;
        }
    }
    Ok(parsed.plan)
}

/// A job from `KEY=VALUE` settings: the keys of a TOML job file, values without quotes.
///
/// # Errors
/// A setting without a value, or what is wrong with the settings.
pub fn from_settings(settings: &[String]) -> Result<Plan> {
    let mut text = String::from("[[job]]\n");
    for setting in settings {
        let Some((key, value)) = setting.split_once('=') else {
            bail!("--set {setting:?} is not of the form KEY=VALUE, e.g. --set depth=16");
        };
        if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) && value.parse::<i64>().is_err() {
            bail!("--set {key}: {value:.40} is too large: a number is at most {}", i64::MAX);
        }
        let is_toml = toml::from_str::<toml::Table>(&format!("x = {value}")).is_ok();
        let value = if is_toml { value.to_owned() } else { toml::Value::String(value.to_owned()).to_string() };
        text.push_str(&format!("{} = {value}\n", key.trim()));
    }
    // The line numbers refer to the generated text, which the user has never seen.
    toml_file::parse(&text, SETTINGS).map_err(|error| match without_line(&error.to_string()) {
        Some(text) => anyhow::anyhow!(text),
        None => error.into(),
    })
}

/// Name of the `--set` settings in errors.
const SETTINGS: &str = "--set";

/// An error about `--set` without its line and column.
fn without_line(text: &str) -> Option<String> {
    let rest = text.strip_prefix(SETTINGS)?.strip_prefix(':')?;
    let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == ':');
    Some(format!("{SETTINGS}:{rest}"))
}
