//! Published statements that are not one line of a table: curves, surfaces, orders, ratios.
//!
//! An [`Experiment`] runs on the models and gives named figures, and the data behind them. `claims.toml` says what was
//! published about which figure; [`claims`] puts both beside each other as [`Row`]s like those of the tables.

mod array;
mod bursts;
mod claim;
mod curve;
mod endurance;
mod found;
mod setting;
mod surface;
#[cfg(test)]
mod tests;

pub use array::Array;
pub use bursts::{Bursts, rank};
pub use claim::{Claim, claims};
pub use curve::{Curve, Point, curve};
pub use found::{Data, Found, Value};
pub use setting::Effort;
pub use surface::{Cell, client_mix};

use super::table::{ConformanceError, Row};

/// What can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// Throughput against latency with the depth on each point, XPoint and flash.
    QueueDepth,
    /// Fill x percent read x depth, XPoint against flash.
    Surface,
    /// Bursts of sequential reads, alone and beside a light write load.
    Mixed,
    /// Endurance by capacity, and what random writes cost of it.
    Endurance,
    /// Two drives at one host.
    Pair,
}

impl Experiment {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::QueueDepth, Self::Surface, Self::Mixed, Self::Endurance, Self::Pair];

    /// Name on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueDepth => "queue-depth",
            Self::Surface => "surface",
            Self::Mixed => "mixed",
            Self::Endurance => "endurance",
            Self::Pair => "pair",
        }
    }

    /// What it shows, in a line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::QueueDepth => "throughput against read latency, queue depth on each point, 4 KiB 70/30",
            Self::Surface => "800P over 960 EVO in IOPS: fill x percent read x queue depth, 4 KiB random",
            Self::Mixed => "400 MB bursts of sequential reads, alone and beside 20 MB/s of writes",
            Self::Endurance => "writes a byte of capacity over the life; drive writes a day, sequential and random",
            Self::Pair => "two P4800X at one host",
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`ConformanceError`]: faults of the presets or profiles that the program brings along.
    pub fn run(self, effort: Effort) -> Result<Found, ConformanceError> {
        match self {
            Self::QueueDepth => curve::run(effort),
            Self::Surface => surface::run(effort),
            Self::Mixed => bursts::run(effort),
            Self::Endurance => endurance::run(effort),
            Self::Pair => array::run(effort),
        }
    }
}
