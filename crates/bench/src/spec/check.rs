//! Runs the jobs of a spec sheet, and judges its promises.

use super::enough::enough_ios;
use super::judged::{failed, is_steady, unjudged};
use super::looks::Looks;
use super::measure::Op;
use super::report::{CheckReport, ConditionReport, LatencyCell, Outcome, PublishedReport, RunReport};
use super::select::{blocks, counts, latencies, rated_bytes, rated_ios};
use super::sheet::{Before, Condition, Promise, PublishedRow, Spec};
use super::verdict::Verdict;
use super::words;
use super::written::Written;
use crate::experiment::{Driver, DriverError};
use crate::job::model::{End, Job, Mix, Pattern, SizeMix, Sizes};
use crate::output::summary;
use crate::run::{JobResult, Watch};
use crate::stats::Confidence;
use crate::stats::little;
use crate::stats::percentile::{ByRank, Level, Reported, Share};
use forebay_block::OpKind;

/// Length of a run in nanoseconds if neither sheet nor user gives one: the evaluation guide's 600 s.
pub const RUNTIME_NS: u64 = 600_000_000_000;

/// Factor by which quick runs are shorter.
const QUICK: u64 = 10;

/// Largest relative difference between the target's size and the sheet's capacity that is not mentioned.
const SIZE_SLACK: f64 = 0.1;

/// Factor between the two sizes from which the report warns: what holds for a drive of one size says little about the
/// other.
const SIZE_FACTOR: f64 = 2.0;

/// What is done to the drive before the runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Conditioning {
    /// As the sheet says.
    #[default]
    AsSheet,
    /// Nothing: the user has conditioned the drive.
    Skip,
    /// These jobs, before the first run.
    Jobs(Vec<Job>),
}

impl Conditioning {
    /// Workload-independent conditioning of SNIA's Performance Test Specification 2.0.2: twice the user capacity in
    /// sequential writes of 128 KiB.
    #[must_use]
    pub fn snia() -> Self {
        let size = SizeMix::fixed(128 << 10);
        Self::Jobs(vec![Job {
            name: "sequential writes, twice".to_owned(),
            depth: 32,
            mix: Mix::only(OpKind::Write),
            sizes: Sizes { read: size.clone(), write: size.clone(), trim: size },
            pattern: Pattern::Sequential { per_thread: false },
            end: End { after_passes: Some(2.0), ..End::default() },
            warmup_ns: 0,
            ..Job::default()
        }])
    }
}

/// How a sheet is checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckOptions {
    /// Length of each run in nanoseconds. `None`: as the promise's job says, otherwise [`RUNTIME_NS`]. A job that ends
    /// after a number of bytes, I/Os or passes ends after these or this time, whichever comes first.
    pub runtime_ns: Option<u64>,
    /// Conditioning before the runs; `runtime_ns` does not limit it.
    pub conditioning: Conditioning,
    /// Check only promises whose name contains this text, ignoring case.
    pub only: Option<String>,
    /// Also run the tests of published rows that no promise covers: for the table, without a verdict.
    pub rows: bool,
    /// Allow writes and trims. Without it, promises about writes are not run, and nothing is conditioned.
    pub allow_writes: bool,
    /// Confidence of the intervals, over all looks at a run together.
    pub confidence: Confidence,
    /// Runs take their full time, even if their promises are decided earlier.
    pub whole: bool,
    /// Runs whose length neither sheet nor user gives take a tenth of the usual time.
    pub quick: bool,
    /// The target runs in virtual time, where the length of a run is a matter of computing time. Runs whose length
    /// neither sheet nor user gives end after enough I/Os to bound the figures asked for, and after [`RUNTIME_NS`] at
    /// the latest.
    pub virtual_time: bool,
}

/// Why a sheet cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The filter leaves nothing.
    #[error("no promise of {sheet} has {filter:?} in its name; it has: {known}")]
    NothingSelected {
        /// The sheet.
        sheet: String,
        /// The filter.
        filter: String,
        /// Names of the promises.
        known: String,
    },
    /// The sheet has nothing to run.
    #[error("nothing to check: {why}")]
    NothingToCheck {
        /// Why.
        why: String,
    },
    /// The target could not run a job.
    #[error("{step}: {source}")]
    Driver {
        /// The step that was to run.
        step: String,
        /// The cause.
        source: DriverError,
    },
    /// The driver did not return exactly one result for a job.
    #[error("{step}: {count} results for one job")]
    Results {
        /// The step that ran.
        step: String,
        /// Number of results.
        count: usize,
    },
}

/// Checks a sheet: makes one run for all promises with the same job, and judges each promise.
///
/// # Errors
/// [`CheckError`]: no promise is selected, the target's size is unknown, conditioning cannot begin, or no run at all
/// can. If at least one run could be made, those that could not are reported as not run.
pub fn check(driver: &mut dyn Driver, spec: &Spec, options: &CheckOptions) -> Result<CheckReport, CheckError> {
    let selected = select(spec, options)?;
    let step = "looking at the target";
    let target_bytes = driver.size_bytes().map_err(|source| CheckError::Driver { step: step.to_owned(), source })?;
    let mut report = CheckReport {
        sheet: spec.name.clone(),
        drive: spec.drive.name.clone(),
        kind: spec.drive.kind.clone(),
        target_bytes,
        confidence_percent: options.confidence.percent(),
        outcome: Outcome::NotShown,
        left_out: spec.promises.len() - selected.len(),
        warnings: warnings(spec, target_bytes),
        notes: notes(spec, target_bytes, options),
        conditions: Vec::new(),
        promises: selected.iter().map(|promise| unjudged(promise)).collect(),
        runs: Vec::new(),
    };
    let runs = group(spec, &selected, options);
    if !runs.iter().any(|run| options.allow_writes || !run.job.mix.is_destructive()) {
        let why = match runs.len() {
            0 => format!("{} promises nothing; --rows runs the tests of its published rows", spec.name),
            _ => format!("all that is asked for of {} writes, and writes were not allowed", spec.name),
        };
        return Err(CheckError::NothingToCheck { why });
    }
    let mut conditions = Conditions::new(spec, options);
    let mut failed_to_begin = None;
    let mut written = Written::default();
    for (at, run) in runs.iter().enumerate() {
        let writes = run.job.mix.is_destructive();
        let mut skip = |why: &str| run.promises.iter().for_each(|&at| why.clone_into(&mut report.promises[at].why));
        if writes && !options.allow_writes {
            skip("it writes, and writes were not allowed");
            continue;
        }
        if !driver.is_stopped() {
            report.conditions.extend(conditions.make(driver, writes, &mut written)?);
        }
        if driver.is_stopped() {
            skip("the check was ended before");
            continue;
        }
        let step = format!("{} ({} of {})", run.job.name, at + 1, runs.len());
        let asked: Vec<Promise> = run.promises.iter().map(|&at| selected[at].clone()).collect();
        let looks = Looks::new(asked, options.confidence, written.clone());
        let watch = if options.whole { Watch::default() } else { looks.watch() };
        let result = match run_one(driver, &step, &run.job, watch) {
            Ok(result) => result,
            Err(error) => {
                skip(&format!("it could not be run: {error}"));
                failed_to_begin.get_or_insert(error);
                continue;
            }
        };
        let mut found = looks.verdicts(&result);
        written.add(&result);
        let (written_share, of_part) = (written.share(&run.job, target_bytes), written.lacks(&result));
        report.notes.extend(looks.note(&result));
        for (&at, found) in run.promises.iter().zip(&mut found) {
            found.run = Some(report.runs.len());
            found.written_share = written_share;
            if matches!(found.verdict, Verdict::Pass | Verdict::Fail) {
                found.of_part.clone_from(&of_part);
            }
            report.promises[at] = found.clone();
        }
        report.runs.push(run_report(result, &spec.rows, options.confidence));
    }
    report.conditions.extend(conditions.left_out());
    if let (true, Some(error)) = (report.runs.is_empty(), failed_to_begin) {
        return Err(error);
    }
    add_notes(&mut report);
    report.outcome = Outcome::of(report.promises.iter().map(|promise| promise.verdict));
    Ok(report)
}

fn select<'a>(spec: &'a Spec, options: &CheckOptions) -> Result<Vec<&'a Promise>, CheckError> {
    let Some(filter) = &options.only else { return Ok(spec.promises.iter().collect()) };
    let wanted = filter.to_lowercase();
    let selected: Vec<&Promise> =
        spec.promises.iter().filter(|promise| promise.name.to_lowercase().contains(&wanted)).collect();
    if selected.is_empty() {
        let known = spec.promises.iter().map(|promise| promise.name.as_str()).collect::<Vec<_>>().join("; ");
        return Err(CheckError::NothingSelected { sheet: spec.name.clone(), filter: filter.clone(), known });
    }
    Ok(selected)
}

/// Whether a check with these options writes to the target, conditioning included.
#[must_use]
pub fn writes(spec: &Spec, options: &CheckOptions) -> bool {
    let Ok(selected) = select(spec, options) else { return false };
    let conditions = match &options.conditioning {
        Conditioning::AsSheet => spec.conditions.iter().map(|condition| &condition.job).collect(),
        Conditioning::Skip => Vec::new(),
        Conditioning::Jobs(jobs) => jobs.iter().collect::<Vec<_>>(),
    };
    let runs = group(spec, &selected, options);
    conditions.into_iter().chain(runs.iter().map(|run| &run.job)).any(|job| job.mix.is_destructive())
}

fn warnings(spec: &Spec, target_bytes: u64) -> Vec<String> {
    let capacity = spec.drive.capacity_bytes.unwrap_or(target_bytes).max(1) as f64;
    let factor = (target_bytes as f64 / capacity).max(capacity / (target_bytes as f64).max(1.0));
    let far = format!(
        "this target is not the sheet's drive: it has {} GB, that one {} GB; verdicts are about this target alone",
        words::gigabytes(target_bytes),
        words::gigabytes(capacity as u64)
    );
    if factor > SIZE_FACTOR { vec![far] } else { Vec::new() }
}

fn notes(spec: &Spec, target_bytes: u64, options: &CheckOptions) -> Vec<String> {
    let mut notes = spec.drive.notes.clone();
    if let Some(capacity) = spec.drive.capacity_bytes
        && warnings(spec, target_bytes).is_empty()
        && (target_bytes as f64 / capacity as f64 - 1.0).abs() > SIZE_SLACK
    {
        notes.push(format!(
            "the target has {} GB, the sheet is of a drive with {} GB: what holds for one size need not for another",
            words::gigabytes(target_bytes),
            words::gigabytes(capacity)
        ));
    }
    if spec.promises.is_empty() {
        notes.push("this sheet promises nothing: add [[promise]] entries from the drive's data sheet".to_owned());
    }
    if ends_early(options) {
        let why = "virtual time: runs end with the I/Os that bound what is promised, a million at least; --runtime asks \
                   for longer ones";
        notes.push(why.to_owned());
    }
    if options.quick {
        notes.push(
            "quick: runs take a tenth of their usual length at most; what is not decided then is said to have too few samples"
                .to_owned(),
        );
    }
    notes
}

/// A run, and the promises that it answers, as indices into the selected ones.
struct Run {
    job: Job,
    promises: Vec<usize>,
}

/// One run for all promises with the same job, in the order of their first promise; then runs for published rows.
fn group(spec: &Spec, promises: &[&Promise], options: &CheckOptions) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, promise) in promises.iter().enumerate() {
        let job = with_end(&promise.job, promise.own_end, options);
        match runs.iter_mut().find(|run| run.job == job) {
            Some(run) => run.promises.push(at),
            None => runs.push(Run { job, promises: vec![at] }),
        }
    }
    for row in spec.rows.iter().filter(|_| options.rows) {
        if !runs.iter().any(|run| is_same_test(&row.job, &run.job)) {
            runs.push(Run { job: with_end(&row.job, false, options), promises: Vec::new() });
        }
    }
    let not_given = End { after_ns: Some(usual_ns(options)), ..End::default() };
    for run in runs.iter_mut().filter(|run| ends_early(options) && run.job.end == not_given) {
        let asked = run.promises.iter().map(|&at| promises[at]);
        run.job.end.after_ios = Some(enough_ios(&run.job, asked, options.confidence) / part(options));
    }
    runs
}

/// Divisor of the usual length, for runs whose length nobody gave.
fn part(options: &CheckOptions) -> u64 {
    if options.quick { QUICK } else { 1 }
}

/// Length in nanoseconds of a run for which neither sheet nor user gives one.
fn usual_ns(options: &CheckOptions) -> u64 {
    RUNTIME_NS / part(options)
}

/// Whether runs whose length nobody gave end after enough I/Os.
fn ends_early(options: &CheckOptions) -> bool {
    options.virtual_time && options.runtime_ns.is_none()
}

/// The job with its end as sheet and options ask for it together.
fn with_end(job: &Job, own_end: bool, options: &CheckOptions) -> Job {
    let mut job = job.clone();
    match (options.runtime_ns, own_end) {
        (Some(runtime), true) => job.end.after_ns = Some(job.end.after_ns.map_or(runtime, |own| own.min(runtime))),
        (runtime, false) => job.end = End { after_ns: Some(runtime.unwrap_or(usual_ns(options))), ..End::default() },
        (None, true) => {}
    }
    job
}

fn run_one(driver: &mut dyn Driver, step: &str, job: &Job, watch: Watch) -> Result<JobResult, CheckError> {
    let mut results =
        driver.run_watched(step, job, watch).map_err(|source| CheckError::Driver { step: step.to_owned(), source })?;
    match (results.pop(), results.len()) {
        (Some(result), 0) => Ok(result),
        (None, count) => Err(CheckError::Results { step: step.to_owned(), count }),
        (Some(_), others) => Err(CheckError::Results { step: step.to_owned(), count: others + 1 }),
    }
}

/// Conditions not yet made, and those that are not allowed.
struct Conditions {
    waiting: Vec<Condition>,
    refused: Vec<Condition>,
}

impl Conditions {
    fn new(spec: &Spec, options: &CheckOptions) -> Self {
        let all = match &options.conditioning {
            Conditioning::AsSheet => spec.conditions.clone(),
            Conditioning::Skip => Vec::new(),
            Conditioning::Jobs(jobs) => {
                let of = |job: &Job| Condition { name: job.name.clone(), job: job.clone(), before: Before::All };
                jobs.iter().map(of).collect()
            }
        };
        let may = |condition: &Condition| options.allow_writes || !condition.job.mix.is_destructive();
        let (waiting, refused) = all.into_iter().partition(may);
        Self { waiting, refused }
    }

    /// Makes the conditions that are due.
    fn make(
        &mut self,
        driver: &mut dyn Driver,
        writes: bool,
        written: &mut Written,
    ) -> Result<Vec<ConditionReport>, CheckError> {
        let due = |condition: &Condition| writes || condition.before == Before::All;
        let (due, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting).into_iter().partition(due);
        self.waiting = waiting;
        let mut made = Vec::new();
        for condition in due {
            if driver.is_stopped() {
                break;
            }
            let result =
                run_one(driver, &format!("conditioning: {}", condition.name), &condition.job, Watch::default())?;
            written.add(&result);
            let failed = failed(&result);
            let why = match (failed, result.partial) {
                (0, None) => None,
                (0, Some(partial)) => Some(partial.name().to_owned()),
                (failed, _) => Some(format!("{} failed", forebay_block::figures::count(failed, "I/O"))),
            };
            made.push(ConditionReport {
                name: condition.name,
                duration_s: Some(result.duration_ns as f64 / 1e9),
                bytes: result.bytes(),
                why,
            });
        }
        Ok(made)
    }

    /// The conditions that were not made, with the reason.
    fn left_out(self) -> impl Iterator<Item = ConditionReport> {
        let refused = self.refused.into_iter().map(|condition| (condition, "it writes, and writes were not allowed"));
        let others = self.waiting.into_iter().map(|condition| (condition, "no run was made that needs it"));
        refused.chain(others).map(|(condition, why)| ConditionReport {
            name: condition.name,
            duration_s: None,
            bytes: 0,
            why: Some(why.to_owned()),
        })
    }
}

fn run_report(result: JobResult, rows: &[PublishedRow], confidence: Confidence) -> RunReport {
    let total = latencies(&result, Op::All);
    let by_rank = ByRank::new(&total.histogram);
    let blocks = blocks(&result, Op::All);
    let cell = |parts: u64| {
        let Some(level) = Share::from_parts(parts).map(Level::Share) else { return LatencyCell::default() };
        let estimate = match &blocks {
            Some(blocks) => by_rank.estimate_clustered(level, confidence, blocks, 1),
            None => by_rank.estimate(level, confidence),
        };
        let (low, high) = estimate.value.bounds();
        let needed_more = match estimate.value {
            Reported::Withheld { needed_more } => Some(needed_more),
            _ => None,
        };
        LatencyCell { value: estimate.value.value(), low, high, needed_more }
    };
    RunReport {
        test: result.job.name.clone(),
        job: summary::asked(&result.job),
        access: result.description.clone(),
        duration_s: result.duration_ns as f64 / 1e9,
        ios: total.count(),
        iops: crate::run::per_second(rated_ios(&result, Op::All), result.rated_ns),
        bytes_per_second: crate::run::per_second(rated_bytes(&result, Op::All), result.rated_ns),
        mean_ns: (total.count() > 0).then(|| total.mean_ns()),
        median_ns: cell(500_000_000_000),
        p99_ns: cell(990_000_000_000),
        p99_999_ns: cell(999_990_000_000),
        depth: (in_flight(&result.job), result.depth_mean),
        littles_law_holds: match summary::little(&result).verdict {
            little::Verdict::Holds => Some(true),
            little::Verdict::TooMuch | little::Verdict::TooLittle => Some(false),
            little::Verdict::NotJudged => None,
        },
        steady: is_steady(&counts(&result, Op::All, false)),
        failed: failed(&result),
        partial: result.partial.map(|partial| partial.name()),
        published: rows.iter().filter(|row| is_same_test(&row.job, &result.job)).map(published).collect(),
        result,
    }
}

fn published(row: &PublishedRow) -> PublishedReport {
    PublishedReport {
        drive: row.drive.clone(),
        source: row.source.clone(),
        from_memory: row.from_memory,
        note: row.note.clone(),
        figures: row.figures,
    }
}

fn in_flight(job: &Job) -> u64 {
    u64::from(job.threads) * u64::from(job.depth)
}

/// Whether a published test asks the same of a drive. System calls and ways of waiting may differ; the report names
/// them.
fn is_same_test(published: &Job, run: &Job) -> bool {
    let sizes = |job: &Job| {
        let read = job.mix.kinds().any(|kind| kind == OpKind::Read).then(|| job.sizes.read.clone());
        let write = job.mix.kinds().any(|kind| Op::Write.takes(kind)).then(|| job.sizes.write.clone());
        (read, write)
    };
    published.mix == run.mix
        && sizes(published) == sizes(run)
        && published.pattern == run.pattern
        && published.arrival == run.arrival
        && published.think == run.think
        && published.burst == run.burst
        && in_flight(published) == in_flight(run)
}

/// Adds warnings and notes about the runs.
fn add_notes(report: &mut CheckReport) {
    for run in &report.runs {
        let mut warn = |what: &str| report.warnings.push(format!("{}: {what}", run.test));
        if run.steady == Some(false) {
            warn("not steady by SNIA's rule over the run's five parts: condition the drive, or run longer");
        }
        if run.littles_law_holds == Some(false) {
            warn("Little's law does not hold for this row: something was measured wrongly, do not use it");
        }
        if let Some(partial) = run.partial {
            warn(&format!("partial ({partial}): judged by what is known, by the same rules as a whole run"));
        }
        let mut note = |what: &str| report.notes.push(format!("{}: {what}", run.test));
        run.result.notes.iter().for_each(|text| note(text));
    }
}
