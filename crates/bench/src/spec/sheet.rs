//! A spec sheet after it was read and checked.

use super::measure::{Bound, Measure, Op};
use crate::job::model::Job;

/// A spec sheet.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// File or built-in name of the sheet.
    pub name: String,
    /// The drive that it describes.
    pub drive: Drive,
    /// What is done to the drive before it is measured, in order.
    pub conditions: Vec<Condition>,
    /// The promises; may be empty, for a sheet with one's own numbers.
    pub promises: Vec<Promise>,
    /// Published measurements.
    pub rows: Vec<PublishedRow>,
}

/// A drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    /// Name.
    pub name: String,
    /// Capacity in bytes.
    pub capacity_bytes: Option<u64>,
    /// Kind of medium, for people.
    pub kind: Option<String>,
    /// What to know before measuring it.
    pub notes: Vec<String>,
}

/// A promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// Name, different from those of all others.
    pub name: String,
    /// Who promises it, and where.
    pub source: String,
    /// The number was written down from memory and not looked up: it is worth less.
    pub from_memory: bool,
    /// What the source leaves open or words differently.
    pub note: Option<String>,
    /// The job that is run.
    pub job: Job,
    /// Whether the sheet says when the job ends; otherwise the options do.
    pub own_end: bool,
    /// The figure that is promised.
    pub measure: Measure,
    /// The operations that the figure counts.
    pub op: Op,
    /// The promised bound.
    pub bound: Bound,
}

/// A step that brings the drive into a known state before the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Name.
    pub name: String,
    /// The job that is run.
    pub job: Job,
    /// When it is made.
    pub before: Before,
}

/// When a condition is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Before the first run.
    All,
    /// Before the first run that writes.
    Writes,
}

/// A published measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedRow {
    /// The drive that was measured.
    pub drive: String,
    /// Who measured, and where it is published.
    pub source: String,
    /// The numbers were written from memory and not looked up.
    pub from_memory: bool,
    /// Driver, settings and the like.
    pub note: Option<String>,
    /// The job that was run.
    pub job: Job,
    /// The figures.
    pub figures: PublishedFigures,
}

/// Figures of a published measurement; `None` where not published. Latencies are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct PublishedFigures {
    /// Bytes a second.
    pub bytes_per_second: Option<f64>,
    /// I/Os a second.
    pub iops: Option<f64>,
    /// Mean latency.
    pub mean_ns: Option<u64>,
    /// Median.
    pub median_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.999th percentile.
    #[serde(rename = "p99.999_ns")]
    pub p99_999_ns: Option<u64>,
    /// 99.99999th percentile.
    #[serde(rename = "p99.99999_ns")]
    pub p99_99999_ns: Option<u64>,
    /// Greatest latency seen.
    pub max_ns: Option<u64>,
}
