//! One experiment in progress: its runs, what failed in them, and when it ends.

use super::driver::{Driver, DriverError};
use super::error::ExperimentError;
use super::figures::{failures, in_flight};
use super::options::Options;
use super::region::resolve;
use super::report::Report;
use super::text;
use crate::job::model::{Access, Calls, Extent, Job, Plan, Region};
use crate::job::validate::validate;
use crate::output::summary;
use crate::output::table::Table;
use crate::run::{JobResult, Partial};
use crate::stats::little;
use serde_json::Value;

/// Most notes that are kept: an experiment of a thousand runs must not repeat a note a thousand times.
const NOTES_MAX: usize = 40;

/// Why no further run is made.
#[derive(Debug)]
pub(super) enum Halt {
    /// The user ended the experiment, or the target is gone: results so far are reported.
    Ended,
    /// There is nothing to report.
    Failed(ExperimentError),
}

impl From<ExperimentError> for Halt {
    fn from(error: ExperimentError) -> Self {
        Self::Failed(error)
    }
}

/// An experiment in progress.
pub(super) struct Session<'a> {
    driver: &'a mut dyn Driver,
    /// Its settings.
    pub options: &'a Options,
    /// Offset and length in bytes of the part of the target that is used.
    pub region: (u64, u64),
    target_bytes: u64,
    conditions: Vec<String>,
    notes: Vec<String>,
    left_out: usize,
    seen: Vec<String>,
    partial: bool,
    failures: u64,
    measured: bool,
    runs: u32,
    /// Runs whose figures violate Little's law, and the worst violation.
    lawless: u32,
    worst_law: Option<(f64, String)>,
    /// Whether the target can trim, once that was tried.
    pub can_trim: Option<bool>,
}

impl<'a> Session<'a> {
    /// Begins an experiment.
    ///
    /// # Errors
    /// The options make no sense, the target cannot be opened, or the region is not on it.
    pub(super) fn new(driver: &'a mut dyn Driver, options: &'a Options) -> Result<Self, ExperimentError> {
        options.check()?;
        let at = || "looking at the target".to_owned();
        let target_bytes = driver.size_bytes().map_err(|source| ExperimentError::Driver { step: at(), source })?;
        let region = resolve(&options.base.region, target_bytes)
            .map_err(|source| ExperimentError::Job { step: at(), source })?;
        Ok(Self {
            driver,
            options,
            region,
            target_bytes,
            conditions: Vec::new(),
            notes: Vec::new(),
            left_out: 0,
            seen: Vec::new(),
            partial: false,
            failures: 0,
            measured: false,
            runs: 0,
            lawless: 0,
            worst_law: None,
            can_trim: None,
        })
    }

    /// Adds a condition of the measurement to the report.
    pub(super) fn condition(&mut self, text: impl Into<String>) {
        self.conditions.push(text.into());
    }

    /// Adds a note to the report.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.notes.contains(&text) {
            return;
        }
        if self.notes.len() < NOTES_MAX { self.notes.push(text) } else { self.left_out += 1 }
    }

    /// The first `len` bytes of the region, at most all of it.
    pub(super) fn part(&self, len: u64) -> Region {
        Region { offset: Extent::Bytes(self.region.0), size: Extent::Bytes(len.min(self.region.1)) }
    }

    /// A job with the settings of the base job, over the whole region.
    pub(super) fn job(&self, name: impl Into<String>) -> Job {
        Job { region: self.part(self.region.1), ..self.options.job(name) }
    }

    /// Runs jobs at the same time. Their results may be partial; then no further run is made.
    pub(super) fn run(&mut self, step: &str, jobs: &[Job]) -> Result<Vec<JobResult>, Halt> {
        let results = match self.attempt(step, jobs)? {
            Ok(results) => results,
            Err(source) if self.measured => {
                self.note(format!("{step}: {source}; the experiment ended there"));
                self.partial = true;
                return Err(Halt::Ended);
            }
            Err(source) => return Err(ExperimentError::Driver { step: step.to_owned(), source }.into()),
        };
        results.iter().for_each(|result| self.take(step, result));
        Ok(results)
    }

    /// Like [`Session::run`], but a partial result ends the experiment instead of being returned.
    pub(super) fn whole(&mut self, step: &str, jobs: &[Job]) -> Result<Vec<JobResult>, Halt> {
        let results = self.run(step, jobs)?;
        if self.partial {
            self.note(format!("{step}: ended within this run, which is left out"));
            return Err(Halt::Ended);
        }
        self.measured = true;
        Ok(results)
    }

    /// Runs one job, which must be complete.
    pub(super) fn one(&mut self, step: &str, job: Job) -> Result<JobResult, Halt> {
        let jobs = [job];
        self.whole(step, &jobs)?.pop().ok_or_else(|| missing(step, 0, 1))
    }

    /// Runs one job; its result may be partial.
    pub(super) fn any(&mut self, step: &str, job: Job) -> Result<JobResult, Halt> {
        let jobs = [job];
        let result = self.run(step, &jobs)?.pop().ok_or_else(|| missing(step, 0, 1))?;
        self.measured = true;
        Ok(result)
    }

    /// Tries something that the target may not support: neither failures nor a refusal end the experiment or count in
    /// its report.
    pub(super) fn probe(&mut self, step: &str, job: Job) -> Result<Result<(), String>, Halt> {
        match self.attempt(step, &[job])? {
            Err(source) => Ok(Err(source.to_string())),
            Ok(results) => {
                let Some(result) = results.first() else { return Err(missing(step, 0, 1)) };
                if matches!(result.partial, Some(Partial::Interrupted | Partial::Hung)) {
                    self.take(step, result);
                    return Err(Halt::Ended);
                }
                let first = result.failures.first.first().map(|failure| failure.what.clone());
                match first {
                    Some(what) => Ok(Err(what)),
                    None if result.ios() == 0 => Ok(Err("the I/O did not come back".to_owned())),
                    None => Ok(Ok(())),
                }
            }
        }
    }

    /// Like [`Session::one`], but returns the target's refusal instead of ending the experiment.
    pub(super) fn permitted(&mut self, step: &str, job: Job) -> Result<Result<JobResult, DriverError>, Halt> {
        let jobs = [job];
        let mut results = match self.attempt(step, &jobs)? {
            Err(source) => return Ok(Err(source)),
            Ok(results) => results,
        };
        results.iter().for_each(|result| self.take(step, result));
        if self.partial {
            self.note(format!("{step}: ended within this run, which is left out"));
            return Err(Halt::Ended);
        }
        self.measured = true;
        results.pop().map(Ok).ok_or_else(|| missing(step, 0, 1))
    }

    fn attempt(&mut self, step: &str, jobs: &[Job]) -> Result<Result<Vec<JobResult>, DriverError>, Halt> {
        if self.partial || self.driver.is_stopped() {
            self.partial = true;
            return Err(Halt::Ended);
        }
        let plan = Plan { groups: vec![jobs.to_vec()], notes: Vec::new() };
        validate(&plan).map_err(|source| ExperimentError::Job { step: step.to_owned(), source })?;
        match self.driver.run(step, jobs) {
            Ok(results) if results.len() == jobs.len() => Ok(Ok(results)),
            // The user ended the run before it began.
            Ok(_) if self.driver.is_stopped() => {
                self.partial = true;
                Err(Halt::Ended)
            }
            Ok(results) => Err(missing(step, results.len(), jobs.len())),
            Err(source) => Ok(Err(source)),
        }
    }

    /// Notes failures, warnings and violations of Little's law of a result.
    fn take(&mut self, step: &str, result: &JobResult) {
        let failed = failures(result);
        self.failures += failed;
        if failed > 0 {
            let first = result.failures.first.first().map_or_else(String::new, |failure| {
                let kind = failure.kind.name();
                format!(
                    "; the first: {kind} of {} at byte {}: {}",
                    text::size(failure.len_bytes.into()),
                    failure.offset_bytes,
                    failure.what
                )
            });
            self.note(format!(
                "{step}: {} failed or never came back{first}",
                forebay_block::figures::count(failed, "I/O")
            ));
        }
        if let Some(partial) = result.partial {
            self.partial = true;
            self.note(format!("{step}: {}; the experiment ended there", partial.name()));
        }
        self.runs += 1;
        let law = summary::little(result);
        if matches!(law.verdict, little::Verdict::TooMuch | little::Verdict::TooLittle) {
            self.lawless += 1;
            if self.worst_law.as_ref().is_none_or(|(worst, _)| worst.abs() < law.deviation.abs()) {
                self.worst_law = Some((law.deviation, format!("{step}: {}", summary::verdict(law.verdict))));
            }
        }
        for note in &result.notes {
            self.note(format!("target: {note}"));
        }
        let reached = format!("{}, waiting by {}", result.description, result.job.wait);
        if !self.seen.contains(&reached) && self.seen.len() < 8 {
            self.seen.push(reached);
        }
    }

    /// Notes that a run has no figures.
    pub(super) fn without_figures(&mut self, step: &str) {
        self.note(format!("{step}: no I/O ended within the time; take a longer runtime"));
    }

    /// Makes the report.
    pub(super) fn finish(mut self, name: &str, what: &str, tables: Vec<Table>, json: Value) -> Report {
        let (from, len) = self.region;
        let place = match (from, len == self.target_bytes) {
            (0, true) => format!("target: all of its {}", text::size(len)),
            _ => format!("target: {} from byte {from} on, of {}", text::size(len), text::size(self.target_bytes)),
        };
        let mut conditions = vec![place];
        conditions.extend(self.seen.iter().map(|seen| format!("reached by {seen}")));
        conditions.append(&mut self.conditions);
        if self.options.quick {
            conditions.push("QUICK: short points and cut-off conditioning, a look and no measurement".to_owned());
        }
        if let Some((deviation, worst)) = &self.worst_law {
            self.notes.push(format!(
                "Little's law does not hold in {} of {} runs, worst in {worst} ({:+.1} %): rate, latency and depth of these do \
                 not fit together",
                self.lawless,
                self.runs,
                deviation * 100.0
            ));
        }
        if self.left_out > 0 {
            self.notes.push(format!("{} further notes are left out", self.left_out));
        }
        if self.partial {
            self.notes.insert(0, "PARTIAL: ended before its time; the results are of what was done".to_owned());
        }
        let json = serde_json::json!({
            "experiment": name,
            "partial": self.partial,
            "failures": self.failures,
            "region": { "offset_bytes": from, "size_bytes": len },
            "target_bytes": self.target_bytes,
            "quick": self.options.quick,
            "conditions": conditions,
            "notes": self.notes,
            "results": json,
        });
        Report {
            name: name.to_owned(),
            what: what.to_owned(),
            conditions,
            tables,
            json,
            notes: self.notes,
            partial: self.partial,
            failures: self.failures,
        }
    }
}

fn missing(step: &str, got: usize, want: usize) -> Halt {
    ExperimentError::Results { step: step.to_owned(), got, want }.into()
}

/// Turns the end of a `measure` function into a result: what is known is reported unless the experiment failed.
pub(super) fn known(end: Result<(), Halt>) -> Result<(), ExperimentError> {
    match end {
        Ok(()) | Err(Halt::Ended) => Ok(()),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// Threads, depth and calls of a load, as text for a condition.
pub(super) fn load_text(job: &Job) -> String {
    let calls = match job.access {
        Access { calls: Calls::Sync { .. }, .. } => ", synchronous calls",
        _ => "",
    };
    format!("{} x {} = {} in flight{calls}", job.threads, job.depth, in_flight(job))
}
