//! The results of a check.

use super::figure::Figure;
use super::measure::{Bound, Measure, Op, Unit};
use super::sheet::PublishedFigures;
use super::verdict::Verdict;
use crate::run::JobResult;
use serde::Serialize;
use serde_json::Value;

/// A check's result.
#[derive(Debug, Serialize)]
pub struct CheckReport {
    /// File or built-in name of the sheet.
    pub sheet: String,
    /// Name of the drive that the sheet describes.
    pub drive: String,
    /// Kind of medium.
    pub kind: Option<String>,
    /// Size of the target in bytes.
    pub target_bytes: u64,
    /// Confidence of the verdicts in percent, over all looks at a run together.
    pub confidence_percent: u32,
    /// The verdict over all promises that were checked.
    pub outcome: Outcome,
    /// Number of promises that were not selected.
    pub left_out: usize,
    /// Facts that weaken the verdicts, shown before them: a drive other than the sheet's, runs that were not steady,
    /// runs cut short.
    pub warnings: Vec<String>,
    /// Notes of the sheet and of the check.
    pub notes: Vec<String>,
    /// What was done to the drive before the runs.
    pub conditions: Vec<ConditionReport>,
    /// The promises, in the sheet's order.
    pub promises: Vec<PromiseReport>,
    /// The runs, in the order in which they were made.
    pub runs: Vec<RunReport>,
}

/// A check's outcome in one word. A program exits with 1 on [`Outcome::Fail`], otherwise with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All selected promises passed, and there was at least one.
    Pass,
    /// At least one failed.
    Fail,
    /// None failed, and not all passed: too few samples, or not run.
    NotShown,
}

/// A condition's report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConditionReport {
    /// Name.
    pub name: String,
    /// Seconds that it took; `None` if it was left out.
    pub duration_s: Option<f64>,
    /// Bytes transferred.
    pub bytes: u64,
    /// Why it was left out, or what went wrong.
    pub why: Option<String>,
}

/// A promise's report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromiseReport {
    /// Name.
    pub name: String,
    /// Who promises it.
    pub source: String,
    /// The promised number was written from memory and not looked up.
    pub from_memory: bool,
    /// What the source leaves open.
    pub note: Option<String>,
    /// Index of the run in [`CheckReport::runs`]; `None` if it was not made.
    pub run: Option<usize>,
    /// The figure that is promised.
    pub measure: Measure,
    /// The operations that the figure counts.
    pub op: Op,
    /// Unit of bound and figure.
    pub unit: Unit,
    /// The promised bound.
    pub promised: Bound,
    /// The measured figure.
    pub measured: Figure,
    /// Confidence of its interval in percent. A look during the run uses a higher confidence, and takes its part of the
    /// allowed error from the end.
    pub confidence_percent: f64,
    /// Seconds after which a planned look decided the promise; verdict and figure are of that time. `None` if the whole
    /// run was judged.
    pub decided_after_s: Option<f64>,
    /// Share of the run's region that the check had written by the end of the run; `None` if the run does not write.
    pub written_share: Option<f64>,
    /// What the verdict covers, if the run writes and its region had not been written once: a cache or spare space may
    /// still be in use.
    pub of_part: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Samples still needed for a decision, if more would help.
    pub needed_more: Option<u64>,
    /// The promised bound lies within the interval; `needed_more` is an estimate.
    pub undecided: bool,
    /// The verdict in words.
    pub why: String,
}

/// A run's report.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// Short label of the job.
    pub test: String,
    /// The job.
    pub job: Value,
    /// How the target was accessed.
    pub access: String,
    /// Seconds measured.
    pub duration_s: f64,
    /// Reads and writes that succeeded.
    pub ios: u64,
    /// I/Os a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Mean total latency in nanoseconds; none without I/Os.
    pub mean_ns: Option<f64>,
    /// Median total latency in nanoseconds.
    pub median_ns: LatencyCell,
    /// 99th percentile in nanoseconds.
    pub p99_ns: LatencyCell,
    /// 99.999th percentile in nanoseconds.
    #[serde(rename = "p99.999_ns")]
    pub p99_999_ns: LatencyCell,
    /// I/Os in flight: as asked for, and the measured mean.
    pub depth: (u64, f64),
    /// Whether Little's law holds; none where it was not judged.
    pub littles_law_holds: Option<bool>,
    /// Whether the IOPS of five parts of the run are steady by the SNIA's rule; `None` with too few intervals.
    pub steady: Option<bool>,
    /// Number of I/Os that failed or never completed.
    pub failed: u64,
    /// Why the result covers only a part of the run.
    pub partial: Option<&'static str>,
    /// Published measurements of the same test.
    pub published: Vec<PublishedReport>,
    /// The complete result.
    #[serde(skip)]
    pub result: JobResult,
}

/// A percentile in a table row of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencyCell {
    /// The value in nanoseconds; `None` if it is withheld.
    pub value: Option<u64>,
    /// Lower end of the interval in nanoseconds.
    pub low: Option<u64>,
    /// Upper end of the interval in nanoseconds.
    pub high: Option<u64>,
    /// Samples still needed for a value.
    pub needed_more: Option<u64>,
}

/// A published measurement beside a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublishedReport {
    /// The drive that was measured.
    pub drive: String,
    /// Who measured, and where it was published.
    pub source: String,
    /// The numbers were written from memory and not looked up.
    pub from_memory: bool,
    /// Driver, settings, and the like.
    pub note: Option<String>,
    /// Figures.
    #[serde(flatten)]
    pub figures: PublishedFigures,
}

impl Outcome {
    /// The outcome over these verdicts.
    pub(super) fn of(verdicts: impl Iterator<Item = Verdict> + Clone) -> Self {
        if verdicts.clone().any(|verdict| verdict == Verdict::Fail) {
            return Self::Fail;
        }
        let mut all = verdicts.peekable();
        if all.peek().is_some() && all.all(|verdict| verdict == Verdict::Pass) { Self::Pass } else { Self::NotShown }
    }

    /// The outcome as a sentence for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Pass => "pass: every promise is kept",
            Self::Fail => "FAIL: at least one promise is broken",
            Self::NotShown => "not shown: no promise is broken, and not all are shown to be kept",
        }
    }
}
