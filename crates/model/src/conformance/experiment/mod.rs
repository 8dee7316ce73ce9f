//! Published statements that are not one line of a table: curves, surfaces, orders, ratios.
//!
//! An [`Experiment`] runs on the models and gives named figures, and the data behind them. `claims.toml` says what was
//! published about which figure; [`claims`] puts both beside each other as [`Row`]s like those of the tables.

mod array;
mod bursts;
mod claim;
mod curve;
mod endurance;
mod surface;
#[cfg(test)]
mod tests;

pub use array::Array;
pub use bursts::{Bursts, rank};
pub use claim::{Claim, claims};
pub use curve::{Curve, Point, curve};
pub use surface::{Cell, client_mix};

use super::closed::{Figures, Span, Workload, closed_loop, closed_loop_over};
use super::table::{ConformanceError, Row};
use crate::host::Profile;
use crate::preset::Drive;
use crate::ssd::{Past, Ssd};
use std::collections::BTreeMap;

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

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Seed of drives, hosts and addresses.
    pub seed: u64,
    /// I/Os of a point; some take fewer where they are slow to compute.
    pub ios: u64,
    /// All points of curves and surfaces instead of those that the claims need.
    pub full: bool,
    /// Flash drives are modelled with this many bytes: their parallelism is whole, their blocks are fewer.
    pub flash_bytes: u64,
}

impl Default for Effort {
    /// Flash as large as in the tables of single tests.
    fn default() -> Self {
        Self { seed: 1, ios: 200_000, full: false, flash_bytes: 32 << 30 }
    }
}

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A name.
    Text(String),
    /// A number, with the decimals that tables show of it.
    Number(f64, usize),
}

/// Data behind figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// What it is.
    pub title: String,
    /// Names of the columns, units last.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
}

/// What an experiment found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Figures by the names that `claims.toml` knows.
    pub figures: BTreeMap<String, f64>,
    /// What they were taken from.
    pub data: Vec<Data>,
}

impl Found {
    fn set(&mut self, name: impl Into<String>, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.figures.insert(name.into(), value);
        }
    }
}

/// A drive and the point in its life to which it has come.
struct Live {
    ssd: Box<dyn Ssd>,
    now_ns: u64,
    seed: u64,
}

impl Live {
    /// A drive by name: flash as small as the effort says, XPoint of its own size.
    fn new(name: &str, effort: Effort) -> Result<Self, ConformanceError> {
        let drive = Drive::named(name).and_then(|drive| match drive {
            Drive::Nand(_) => drive.scaled(effort.flash_bytes),
            Drive::XPoint(_) => Ok(drive),
        });
        let ssd = drive
            .and_then(|drive| drive.build(effort.seed))
            .map_err(|source| ConformanceError::Drive { test: name.to_owned(), source })?;
        Ok(Self { ssd, now_ns: 0, seed: effort.seed })
    }

    /// Gives it a past.
    fn age(&mut self, filled: f64, random_passes: f64) {
        self.ssd.age(Past { filled, random_passes });
    }

    /// Runs a workload within the first `region_bytes`.
    fn closed(
        &mut self,
        profile: &Profile,
        workload: &Workload,
        region_bytes: u64,
        warm_up_ios: u64,
        ios: u64,
    ) -> Figures {
        let span = Span { start_ns: self.now_ns, warm_up_ios, ios, region_bytes };
        // Another seed each time: the same addresses again would be a warmer drive than the next ones.
        self.seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        let (figures, end_ns) = closed_loop_over(self.ssd.as_mut(), profile, workload, self.seed, span);
        self.now_ns = end_ns;
        figures
    }

    /// Lets time pass without commands.
    fn rest(&mut self, ns: u64) {
        self.now_ns += ns;
        let mut done = Vec::new();
        self.ssd.advance(self.now_ns, &mut done);
    }
}

fn host(name: &str) -> Result<Profile, ConformanceError> {
    Profile::named(name).map_err(|source| ConformanceError::Host { test: name.to_owned(), source })
}
