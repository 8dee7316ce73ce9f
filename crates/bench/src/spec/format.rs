//! The keys of a spec sheet, and their reference.
//!
//! Unknown keys are errors. Sizes and times are written as in job files ([`crate::job::toml_file::format`]).

use crate::job::toml_file::value::{Bytes, Time};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use std::fmt;
use toml::Spanned;

/// A sheet.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SheetText {
    /// The drive that the sheet describes.
    pub drive: DriveText,
    /// What is done to the drive before the runs, in order; at most 32.
    #[serde(default)]
    pub condition: Vec<Spanned<ConditionText>>,
    /// The promises; at most 256.
    #[serde(default)]
    pub promise: Vec<Spanned<PromiseText>>,
    /// Published measurements; at most 256.
    #[serde(default)]
    pub row: Vec<Spanned<RowText>>,
}

/// `[drive]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveText {
    /// Name of the drive, including its capacity if figures depend on it.
    pub name: String,
    /// Capacity: `"375GB"`. A target of another size is mentioned in the report.
    pub capacity: Option<Bytes>,
    /// Kind of medium: `"xpoint"`, `"tlc"`, `"qlc"`, ...
    pub kind: Option<String>,
    /// What to know before measuring it: warm-up after power-on, conditioning. Printed with every report.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// `[[condition]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionText {
    /// Name in reports.
    pub name: String,
    /// A job, as in job files, in braces. It must say when it ends (`passes`, `bytes`, `ios` or `runtime`).
    pub job: Spanned<toml::Table>,
    /// `"all"`: before the first run. `"writes"`: before the first run that writes. Default: `"all"`.
    pub before: Option<BeforeText>,
}

/// When a condition is made.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BeforeText {
    /// Before the first run.
    All,
    /// Before the first run that writes.
    Writes,
}

/// `[[promise]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromiseText {
    /// Name, different from those of all other promises.
    pub name: String,
    /// Who promises it, and where.
    pub source: String,
    /// The number was not looked up; reports say so. Default: false.
    #[serde(default)]
    pub from_memory: bool,
    /// What the source leaves open.
    pub note: Option<String>,
    /// A job, as in job files, in braces, without `name`, `after` and `group`. Promises with the same job share one
    /// run. Without `runtime`, `bytes`, `ios` and `passes` the options say how long it runs.
    pub job: Spanned<toml::Table>,
    /// `"iops"`, `"bytes_per_second"`, `"mean"`, `"median"` or a percentile (`"p99.999"`); latencies are total ones.
    pub measure: String,
    /// `"read"`, `"write"` or `"all"`, both together. Default: `"all"`.
    pub op: Option<OpText>,
    /// Not more than: `"10us"`. Exactly one of `at_most` and `at_least`.
    pub at_most: Option<FigureText>,
    /// Not less than: `550000`, `"2.4GB/s"`.
    pub at_least: Option<FigureText>,
}

/// Operations.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpText {
    /// Reads and writes.
    All,
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// `[[row]]`. Stands beside the run with the same kinds, sizes, pattern, arrival and number of I/Os in flight.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowText {
    /// Which drive. Default: the sheet's.
    pub drive: Option<String>,
    /// Who measured it, and where it is published.
    pub source: String,
    /// The numbers were not looked up. Default: false.
    #[serde(default)]
    pub from_memory: bool,
    /// Driver, settings and the like.
    pub note: Option<String>,
    /// What was run, as in a promise.
    pub job: Spanned<toml::Table>,
    /// `"413MB/s"`.
    pub bytes_per_second: Option<FigureText>,
    /// `108300`.
    pub iops: Option<FigureText>,
    /// Mean latency: `"8.9us"`.
    pub mean: Option<Time>,
    /// Median.
    pub median: Option<Time>,
    /// 99th percentile.
    pub p99: Option<Time>,
    /// `"p99.999"` (the key in quotes).
    #[serde(rename = "p99.999")]
    pub p99_999: Option<Time>,
    /// `"p99.99999"` (the key in quotes).
    #[serde(rename = "p99.99999")]
    pub p99_99999: Option<Time>,
    /// Greatest latency.
    pub max: Option<Time>,
}

/// A number or a text; its unit is that of what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureText(pub String);

impl<'de> Deserialize<'de> for FigureText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(FigureVisitor)
    }
}

struct FigureVisitor;

impl Visitor<'_> for FigureVisitor {
    type Value = FigureText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a text with a unit such as \"10us\" or \"2.4GB/s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<FigureText, E> {
        Ok(FigureText(text.to_owned()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<FigureText, E> {
        Ok(FigureText(number.to_string()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<FigureText, E> {
        Ok(FigureText(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<FigureText, E> {
        Ok(FigureText(number.to_string()))
    }
}
