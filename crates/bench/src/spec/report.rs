//! What a check found.

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
    /// File or name of the sheet.
    pub sheet: String,
    /// What the sheet is of.
    pub drive: String,
    /// Kind of medium.
    pub kind: Option<String>,
    /// Size of the target in bytes.
    pub target_bytes: u64,
    /// Confidence of the verdicts, all looks at a run together, in percent.
    pub confidence_percent: u32,
    /// All that was asked for in one.
    pub outcome: Outcome,
    /// Promises of the sheet that were not asked for.
    pub left_out: usize,
    /// What makes the verdicts worth less, to be shown before them: another drive than the sheet's, runs that were not
    /// steady, runs cut short.
    pub warnings: Vec<String>,
    /// What to know: the sheet's notes, and what was noticed.
    pub notes: Vec<String>,
    /// What was done to the drive first.
    pub conditions: Vec<ConditionReport>,
    /// The promises, in the sheet's order.
    pub promises: Vec<PromiseReport>,
    /// The runs, in the order in which they were made.
    pub runs: Vec<RunReport>,
}

/// A check in one word. A binary ends with 1 on [`Outcome::Fail`] and with 0 otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All promises that were asked for passed, and there was at least one.
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
    /// Seconds it took; none where it was left out.
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
    /// The number was not looked up.
    pub from_memory: bool,
    /// What the source leaves open.
    pub note: Option<String>,
    /// The run, an index into [`CheckReport::runs`]; none where it was not made.
    pub run: Option<usize>,
    /// Figure.
    pub measure: Measure,
    /// Of which operations.
    pub op: Op,
    /// Unit of bound and figure.
    pub unit: Unit,
    /// The promise.
    pub promised: Bound,
    /// What was measured.
    pub measured: Figure,
    /// Confidence of its interval, in percent: a look at a part of the run has more, and leaves less to the end.
    pub confidence_percent: f64,
    /// Seconds of the run after which a planned look decided it, of which verdict and figure are; none where it was judged by all of it.
    pub decided_after_s: Option<f64>,
    /// Share of the run's region that this check had written by its end; none where the run does not write.
    pub written_share: Option<f64>,
    /// What the verdict is of, where the run writes and its region had not been written once: a cache or spare space may be
    /// yet to end.
    pub of_part: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Samples still needed, where more would tell.
    pub needed_more: Option<u64>,
    /// The promise lies within the interval; `needed_more` is an estimate.
    pub undecided: bool,
    /// The verdict in words.
    pub why: String,
}

/// A run's report.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// What was run, in a few words.
    pub test: String,
    /// The job.
    pub job: Value,
    /// How the target was reached.
    pub access: String,
    /// Seconds measured.
    pub duration_s: f64,
    /// Reads and writes that succeeded.
    pub ios: u64,
    /// A second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Mean total latency in nanoseconds; none without I/Os.
    pub mean_ns: Option<f64>,
    /// Median.
    pub median_ns: LatencyCell,
    /// 99th percentile.
    pub p99_ns: LatencyCell,
    /// 99.999th percentile.
    #[serde(rename = "p99.999_ns")]
    pub p99_999_ns: LatencyCell,
    /// I/Os in flight: asked, and in the mean.
    pub depth: (u64, f64),
    /// Whether Little's law holds; none where it was not judged.
    pub littles_law_holds: Option<bool>,
    /// Whether IOPS over five parts of the run are steady by SNIA's rule; none with too few intervals.
    pub steady: Option<bool>,
    /// I/Os that failed or never came back.
    pub failed: u64,
    /// Why the result is of a part of the run only.
    pub partial: Option<&'static str>,
    /// What others measured.
    pub published: Vec<PublishedReport>,
    /// All of it.
    #[serde(skip)]
    pub result: JobResult,
}

/// A percentile in a row of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencyCell {
    /// Value; none where it is withheld.
    pub value: Option<u64>,
    /// Lower end of its interval.
    pub low: Option<u64>,
    /// Upper end.
    pub high: Option<u64>,
    /// Samples still needed for a value.
    pub needed_more: Option<u64>,
}

/// A published measurement beside a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublishedReport {
    /// Drive.
    pub drive: String,
    /// Source.
    pub source: String,
    /// The numbers were not looked up.
    pub from_memory: bool,
    /// Driver, settings, and the like.
    pub note: Option<String>,
    /// Figures.
    #[serde(flatten)]
    pub figures: PublishedFigures,
}

impl Outcome {
    /// Of these verdicts.
    pub(super) fn of(verdicts: impl Iterator<Item = Verdict> + Clone) -> Self {
        if verdicts.clone().any(|verdict| verdict == Verdict::Fail) {
            return Self::Fail;
        }
        let mut all = verdicts.peekable();
        if all.peek().is_some() && all.all(|verdict| verdict == Verdict::Pass) { Self::Pass } else { Self::NotShown }
    }

    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Pass => "pass: every promise is kept",
            Self::Fail => "FAIL: at least one promise is broken",
            Self::NotShown => "not shown: no promise is broken, and not all are shown to be kept",
        }
    }
}
