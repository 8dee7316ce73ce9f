//! Our own job files. [`mod@format`] is the reference of their keys.
//!
//! ```toml
//! [defaults]
//! runtime = "60s"
//!
//! [[job]]
//! name = "mixed"
//! rw = "randrw"
//! read_percent = 70
//! size = ["4KiB:80", "64KiB:20"]
//! threads = 4
//! depth = 4
//!
//! [[job]]
//! name = "check"
//! after = "mixed"
//! rw = "read"
//! size = "128KiB"
//! ```

mod convert;
pub mod format;
mod groups;
mod merge;
#[cfg(test)]
mod tests;
pub mod value;

use super::error::JobError;
use super::length::check_length;
use super::model::Plan;
use super::validate::{MAX_JOBS, validate};
use forebay_block::mistakes::{Mistake, nearest, place, position, unknown_of};
use format::{FileText, JobText};
use groups::Placed;
use std::collections::HashSet;

/// Reads a job file; errors name it `name`.
///
/// # Errors
/// [`JobError`]: an error in the text or a value with line and column, an unknown key with the nearest known one, or a job that
/// [`validate`] refuses.
pub fn parse(text: &str, name: &str) -> Result<Plan, JobError> {
    check_length(name, text.len())?;
    let file: FileText = toml::from_str(text).map_err(|e| syntax_error(&e, text, name))?;
    if file.job.is_empty() {
        return Err(JobError::form(name, "there is no job in it: write at least one [[job]]"));
    }
    if file.job.len() > MAX_JOBS {
        return Err(JobError::form(name, format!("{} jobs; at most {MAX_JOBS}", file.job.len())));
    }
    let defaults = match file.defaults {
        Some(defaults) => {
            let place = format!("{name}:{}", position(text, defaults.span().start).0);
            checked_defaults(defaults.into_inner(), &place)?
        }
        None => JobText::default(),
    };
    let mut names = HashSet::new();
    let mut jobs = Vec::with_capacity(file.job.len());
    for (index, spanned) in file.job.into_iter().enumerate() {
        let place = format!("{name}:{}", position(text, spanned.span().start).0);
        let job = read_job(spanned.into_inner(), &defaults, index, &place)?;
        if !names.insert(job.job.name.clone()) {
            let reason = format!("another job is called {:?}: names tell results apart", job.job.name);
            return Err(JobError::value(&place, "name", reason));
        }
        jobs.push(job);
    }
    let plan = Plan { groups: groups::in_order(jobs)?, notes: Vec::new() };
    validate(&plan)?;
    Ok(plan)
}

fn read_job(text: JobText, defaults: &JobText, index: usize, place: &str) -> Result<Placed, JobError> {
    if text.generator.is_some() {
        let name = text.name.clone().unwrap_or_else(|| format!("job{}", index + 1));
        convert::check_generated(&text, &name, place)?;
    }
    let idle = [("read_percent", text.read_percent.is_some()), ("fua", text.fua == Some(true))];
    let mut text = merge::with_defaults(text, defaults);
    // A key of the job itself must have an effect; defaults are used where they can be.
    for (key, _) in idle.into_iter().filter(|(_, given)| *given) {
        if let Some(reason) = convert::idle(&text, key) {
            return Err(JobError::value(place, key, reason));
        }
    }
    let (after, group) = (text.after.take(), text.group.take());
    let name = text.name.take().unwrap_or_else(|| format!("job{}", index + 1));
    let job = convert::job(text, name, index as u64 + 1, place)?;
    Ok(Placed { job, place: place.to_owned(), after, group })
}

fn checked_defaults(defaults: JobText, place: &str) -> Result<JobText, JobError> {
    let own = [
        ("name", defaults.name.is_some()),
        ("after", defaults.after.is_some()),
        ("group", defaults.group.is_some()),
        ("generator", defaults.generator.is_some()),
    ];
    match own.into_iter().find(|&(_, given)| given) {
        Some((key, _)) => Err(JobError::value(place, key, "each job has its own: write it in the [[job]]")),
        None => Ok(defaults),
    }
}

fn syntax_error(error: &toml::de::Error, text: &str, name: &str) -> JobError {
    let place = place(name, text, error.span());
    match Mistake::of(error.message()) {
        // There are few of these, and each is a choice.
        Mistake::Unknown { what: what @ "value", word, known } => {
            JobError::form(&place, unknown_of(what, &word, &known))
        }
        Mistake::Unknown { what, word, known } => {
            let other = OTHERS_KEYS.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours);
            let nearest = other.or_else(|| nearest(&word, known)).map(str::to_owned);
            JobError::Unknown { place, what, nearest, word }
        }
        Mistake::Other(reason) => JobError::form(&place, reason),
    }
}

/// Keys of fio and other customary names with ours, since none of them is similar enough in spelling.
const OTHERS_KEYS: [(&str, &str); 19] = [
    ("bs", "size"),
    ("blocksize", "size"),
    ("block_size", "size"),
    ("bssplit", "size"),
    ("iodepth", "depth"),
    ("qd", "depth"),
    ("queue_depth", "depth"),
    ("numjobs", "threads"),
    ("direct", "buffered"),
    ("ioengine", "calls"),
    ("readwrite", "rw"),
    ("rwmixread", "read_percent"),
    ("rate_iops", "rate"),
    ("ramp_time", "warmup"),
    ("number_ios", "ios"),
    ("ss", "steadystate"),
    ("ss_dur", "steadystate_duration"),
    ("ss_ramp", "steadystate_ramp_time"),
    ("ss_interval", "steadystate_check_interval"),
];
