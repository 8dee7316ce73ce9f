//! Published statements that are not a line of a table: curves, surfaces, orders, ratios.
//!
//! An [`Experiment`] runs on the models and returns named figures with their data. `claims.toml` lists what was published about which
//! figure; [`claims`] compares both in [`Row`]s like those of the tables.

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

/// The experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// Throughput against latency with a point for each depth, XPoint and flash.
    QueueDepth,
    /// Fill x percent read x depth, XPoint against flash.
    Surface,
    /// Bursts of sequential reads, alone and beside a light write load.
    Mixed,
    /// Endurance relative to capacity, and how much of it random writes cost.
    Endurance,
    /// Two drives on one host.
    Pair,
}

impl Experiment {
    /// All experiments, in display order.
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

    /// One line of description.
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

    /// Runs the experiment.
    ///
    /// # Errors
    /// [`ConformanceError`] where a preset or profile of the program is faulty.
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
