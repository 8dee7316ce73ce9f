//! The published figures, and how near the models come.

use super::closed::{Figures, Workload, closed_loop};
use crate::host::Profile;
use crate::preset::{Drive, PresetError};
use crate::ssd::{Past, Ssd};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The figures and their sources.
const PUBLISHED: &str = include_str!("published.toml");

/// What a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Measure {
    /// I/Os a second.
    #[serde(rename = "iops")]
    Iops,
    /// Bytes a second.
    #[serde(rename = "bytes_per_s")]
    BytesPerS,
    /// Mean latency in microseconds.
    #[serde(rename = "mean_us")]
    MeanUs,
    /// Mean latency of the reads of a mix in microseconds.
    #[serde(rename = "read_mean_us")]
    ReadMeanUs,
    /// Median latency in microseconds.
    #[serde(rename = "median_us")]
    MedianUs,
    /// 99th percentile in microseconds.
    #[serde(rename = "p99_us")]
    P99Us,
    /// 99.999th percentile in microseconds.
    #[serde(rename = "p99.999_us")]
    P99_999Us,
    /// 99.99999th percentile in microseconds.
    #[serde(rename = "p99.99999_us")]
    P99_99999Us,
    /// How many times as much; of an experiment.
    #[serde(rename = "times")]
    Times,
    /// I/Os in flight; of an experiment.
    #[serde(rename = "depth")]
    Depth,
    /// Rank correlation of an order with the published one; of an experiment.
    #[serde(rename = "rank")]
    Rank,
}

impl Measure {
    /// Name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::BytesPerS => "bytes/s",
            Self::MeanUs => "mean us",
            Self::ReadMeanUs => "mean us of reads",
            Self::MedianUs => "median us",
            Self::P99Us => "p99 us",
            Self::P99_999Us => "p99.999 us",
            Self::P99_99999Us => "p99.99999 us",
            Self::Times => "times",
            Self::Depth => "QD",
            Self::Rank => "rank correlation",
        }
    }

    /// By how many percent a model may miss; `None` where no limit is set.
    #[must_use]
    pub const fn target_percent(self) -> Option<f64> {
        match self {
            Self::Iops | Self::BytesPerS | Self::MeanUs | Self::ReadMeanUs => Some(5.0),
            Self::Times | Self::Rank | Self::Depth => Some(10.0),
            Self::P99Us => Some(15.0),
            Self::P99_999Us => Some(30.0),
            Self::MedianUs | Self::P99_99999Us => None,
        }
    }

    /// The model's figure; `None` where there are too few samples for it.
    #[must_use]
    pub fn of(self, figures: &Figures) -> Option<f64> {
        let us = |ns: u64| ns as f64 / 1e3;
        match self {
            Self::Iops => Some(figures.iops),
            Self::BytesPerS => Some(figures.bytes_per_s),
            Self::MeanUs => figures.all.mean_ns().map(|ns| ns / 1e3),
            Self::ReadMeanUs => figures.reads.mean_ns().map(|ns| ns / 1e3),
            Self::MedianUs => figures.all.all_but_one_in(2).map(us),
            Self::P99Us => figures.all.all_but_one_in(100).map(us),
            Self::P99_999Us => figures.all.all_but_one_in(100_000).map(us),
            Self::P99_99999Us => figures.all.all_but_one_in(10_000_000).map(us),
            Self::Times | Self::Depth | Self::Rank => None,
        }
    }
}

/// How a test was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// Parameters of the drive and of its host were fitted to it.
    Fit,
    /// Never looked at by the fit.
    HeldOut,
    /// The host's profile was calibrated on this very test, with the drive frozen; it says nothing about the drive.
    Calibrated,
}

/// A published test: one line of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Where it was published.
    pub source: String,
    /// Its line there.
    pub name: String,
    /// Preset of the drive.
    pub drive: String,
    /// Profile of the host.
    pub host: String,
    /// How it was used. One line is used as a whole.
    pub used: Use,
    /// What was run.
    pub workload: Workload,
    /// What the drive had behind it; nothing where left out.
    #[serde(default)]
    pub past: Option<Behind>,
    /// A smaller capacity of the same drive for the model, in bytes, where the whole would take too long to fill.
    #[serde(default)]
    pub scaled_bytes: Option<u64>,
    /// Published figures.
    #[serde(default)]
    pub published: BTreeMap<Measure, f64>,
    /// Published upper bounds.
    #[serde(default)]
    pub at_most: BTreeMap<Measure, f64>,
    /// Published lower bounds.
    #[serde(default)]
    pub at_least: BTreeMap<Measure, f64>,
}

/// [`Past`], as TOML has it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behind {
    /// [`Past::filled`].
    pub filled: f64,
    /// [`Past::random_passes`].
    pub random_passes: f64,
}

/// What the published number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The figure is this.
    Is,
    /// The figure is at most this.
    AtMost,
    /// The figure is at least this.
    AtLeast,
}

/// One published figure beside the model's.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where it was published.
    pub source: String,
    /// The test's line there.
    pub test: String,
    /// Preset of the drive.
    pub drive: String,
    /// Profile of the host.
    pub host: String,
    /// How the test was used.
    pub used: Use,
    /// What the figure is of.
    pub measure: Measure,
    /// What the published number says.
    pub relation: Relation,
    /// The published number.
    pub published: f64,
    /// The model's; `None` where there were too few samples.
    pub modelled: Option<f64>,
    /// By how many percent the model's is above it.
    pub error_percent: Option<f64>,
    /// Whether that is within the target or the bound; `None` where there is no target or no figure.
    pub within: Option<bool>,
}

/// Why a table could not be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// The table of published figures, which is part of the program.
    #[error("table of published figures: {0}")]
    Table(String),
    /// A drive of the table.
    #[error("{test}: {source}")]
    Drive {
        /// Which test.
        test: String,
        /// Why.
        source: PresetError,
    },
    /// A host of the table.
    #[error("{test}: {source}")]
    Host {
        /// Which test.
        test: String,
        /// Why.
        source: crate::host::ProfileError,
    },
}

/// How to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// I/Os of 4 KiB a test; larger ones get fewer, so that all move the same bytes. A percentile needs ten samples
    /// above it: 1,000,000 for p99.999, 100,000,000 for p99.99999.
    pub ios: u64,
    /// Seed of drives, hosts and addresses.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { ios: 4_000_000, seed: 1 }
    }
}

/// All published tests.
///
/// # Errors
/// [`ConformanceError::Table`]: a fault of the program.
pub fn published() -> Result<Vec<Test>, ConformanceError> {
    #[derive(Deserialize)]
    struct Table {
        test: Vec<Test>,
    }
    let table: Table = toml::from_str(PUBLISHED).map_err(|error| ConformanceError::Table(error.to_string()))?;
    Ok(table.test)
}

/// Runs those published tests for which `wanted` says so, on the models as they come.
///
/// # Errors
/// [`ConformanceError`]: faults of the tables that the program brings along.
pub fn run(options: Options, mut wanted: impl FnMut(&Test) -> bool) -> Result<Vec<Row>, ConformanceError> {
    let mut rows = Vec::new();
    for test in published()?.iter().filter(|test| wanted(test)) {
        let drive = Drive::named(&test.drive)
            .and_then(|drive| match test.scaled_bytes {
                Some(bytes) => drive.scaled(bytes),
                None => Ok(drive),
            })
            .and_then(|drive| drive.build(options.seed));
        let mut ssd = drive.map_err(|source| ConformanceError::Drive { test: test.name.clone(), source })?;
        let profile =
            Profile::named(&test.host).map_err(|source| ConformanceError::Host { test: test.name.clone(), source })?;
        let figures = test.figures(ssd.as_mut(), &profile, options);
        rows.extend(test.rows(&figures));
    }
    Ok(rows)
}

impl Test {
    /// Runs the test on a drive that has done nothing yet.
    pub fn figures(&self, ssd: &mut dyn Ssd, profile: &Profile, options: Options) -> Figures {
        if let Some(Behind { filled, random_passes }) = self.past {
            ssd.age(Past { filled, random_passes });
        }
        let blocks = u64::from(self.workload.size_bytes).div_ceil(4096).max(1);
        closed_loop(ssd, profile, &self.workload, options.seed, (options.ios / blocks).max(1))
    }

    /// The published figures beside these.
    #[must_use]
    pub fn rows(&self, figures: &Figures) -> Vec<Row> {
        let kinds =
            [(Relation::Is, &self.published), (Relation::AtMost, &self.at_most), (Relation::AtLeast, &self.at_least)];
        let mut rows = Vec::new();
        for (relation, numbers) in kinds {
            for (&measure, &published) in numbers {
                let modelled = measure.of(figures);
                let place = (self.source.as_str(), self.name.as_str(), self.drive.as_str(), self.host.as_str());
                rows.push(Row::new(place, self.used, measure, (relation, published), modelled));
            }
        }
        rows
    }
}

impl Row {
    /// A published number, with what it says, beside the model's. `place` is source, test, drive and host.
    pub(super) fn new(
        place: (&str, &str, &str, &str),
        used: Use,
        measure: Measure,
        (relation, published): (Relation, f64),
        modelled: Option<f64>,
    ) -> Self {
        let error_percent = modelled.map(|modelled| (modelled / published - 1.0) * 100.0);
        let within = error_percent.and_then(|error| match relation {
            Relation::Is => measure.target_percent().map(|target| error.abs() <= target),
            Relation::AtMost => Some(error <= 0.0),
            Relation::AtLeast => Some(error >= 0.0),
        });
        let (source, test, drive, host) = place;
        Self {
            source: source.to_owned(),
            test: test.to_owned(),
            drive: drive.to_owned(),
            host: host.to_owned(),
            used,
            measure,
            relation,
            published,
            modelled,
            error_percent,
            within,
        }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let relation = match self.relation {
            Relation::Is => "",
            Relation::AtMost => "<=",
            Relation::AtLeast => ">=",
        };
        let used = match self.used {
            Use::Fit => "fit",
            Use::HeldOut => "held out",
            Use::Calibrated => "calibrated",
        };
        write!(f, "{:<10} {:<34} {:<22} ", self.drive, self.test, self.host)?;
        write!(f, "{:<16} {:>2}{:>13.2} ", self.measure.name(), relation, self.published)?;
        match (self.modelled, self.error_percent) {
            (Some(modelled), Some(error)) => write!(f, "{modelled:>13.2} {error:>+7.1} % ")?,
            _ => write!(f, "{:>13} {:>9} ", "too few", "")?,
        }
        let verdict = match self.within {
            Some(true) => "within",
            Some(false) => "OUTSIDE",
            None => "no limit",
        };
        write!(f, "{verdict:<8} {used}")
    }
}
