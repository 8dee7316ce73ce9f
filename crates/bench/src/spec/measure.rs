//! What a promise is about: a figure, the operations that it counts, and its bound.

use crate::job::size::{self, Rate};
use crate::stats::percentile::{Level, Share};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// I/Os a second.
    Iops,
    /// Bytes a second.
    BytesPerSecond,
    /// Mean of the total latency.
    Mean,
    /// Percentile of the total latency; the median is p50.
    Percentile(Share),
}

/// The operations that a figure counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Reads and writes together.
    #[default]
    All,
    /// Reads.
    Read,
    /// Writes, including FUA writes.
    Write,
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// I/Os a second.
    Iops,
    /// Bytes a second.
    BytesPerSecond,
    /// Nanoseconds.
    Ns,
}

/// A promise's bound, in the unit of its measure. The bound itself is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Not more than.
    AtMost(f64),
    /// Not less than.
    AtLeast(f64),
}

impl Measure {
    /// Unit of the measure.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::Iops => Unit::Iops,
            Self::BytesPerSecond => Unit::BytesPerSecond,
            Self::Mean | Self::Percentile(_) => Unit::Ns,
        }
    }
}

impl Unit {
    /// Parses a value of this unit as in sheets: `550000`, `"2.4GB/s"`, `"10us"`.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the text.
    pub fn value(self, text: &str) -> Result<f64, String> {
        let value = match (self, size::rate(text)) {
            (Self::Ns, _) => forebay_block::size::parse_time_ns(text)? as f64,
            (Self::Iops, Ok(Rate::Iops(value))) | (Self::BytesPerSecond, Ok(Rate::BytesPerSecond(value))) => value,
            (Self::Iops, _) => return Err(format!("{text:.60?} is no number of I/Os a second such as 550000")),
            (Self::BytesPerSecond, _) => {
                return Err(format!("{text:.60?} is no throughput such as \"2.4GB/s\" or \"413MB/s\""));
            }
        };
        if value > 0.0 { Ok(value) } else { Err(format!("{text:.60?} is nothing: a promise is above 0")) }
    }
}

impl Bound {
    /// The bound's value.
    #[must_use]
    pub fn limit(self) -> f64 {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) => limit,
        }
    }

    /// Whether a value keeps the bound.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "iops" => return Ok(Self::Iops),
            "bytes_per_second" => return Ok(Self::BytesPerSecond),
            "mean" => return Ok(Self::Mean),
            "min" | "max" => {
                return Err("no number of samples shows a least or greatest latency: promise a percentile such as \
                            p99.99999"
                    .to_owned());
            }
            _ => {}
        }
        let level = if text.trim() == "median" { "50" } else { text };
        match level.parse() {
            Ok(Level::Share(share)) => Ok(Self::Percentile(share)),
            _ => Err(format!(
                "{text:.60?} is no measure: write \"iops\", \"bytes_per_second\", \"mean\", \"median\" or a \
                 percentile such as \"p99.999\""
            )),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iops => f.write_str("iops"),
            Self::BytesPerSecond => f.write_str("bytes_per_second"),
            Self::Mean => f.write_str("mean"),
            Self::Percentile(share) if share.to_string() == "p50" => f.write_str("median"),
            Self::Percentile(share) => share.fmt(f),
        }
    }
}

impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
