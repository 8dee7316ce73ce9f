//! The published figures, and how closely the models match them.

use super::closed::{Figures, Workload, closed_loop};
use crate::host::Profile;
use crate::preset::{Drive, PresetError};
use crate::ssd::{Past, Ssd};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The figures with their sources.
const PUBLISHED: &str = include_str!("published.toml");

/// Kind of a figure.
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
    /// A ratio; only of experiments.
    #[serde(rename = "times")]
    Times,
    /// I/Os in flight; only of experiments.
    #[serde(rename = "depth")]
    Depth,
    /// Rank correlation with the published order; only of experiments.
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

    /// Allowed error of a model in percent; `None` where no limit is set.
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

    /// The model's figure; `None` where it has too few samples.
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

/// Whether the fit used a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// The parameters of the drive and of its host were fitted to it.
    Fit,
    /// The fit did not use it.
    HeldOut,
    /// The host's profile was calibrated on this test, with the drive's parameters frozen; it says nothing about the drive.
    Calibrated,
}

/// A published test: one line of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Where it was published.
    pub source: String,
    /// Name of its line in the source.
    pub name: String,
    /// Preset of the drive.
    pub drive: String,
    /// Profile of the host.
    pub host: String,
    /// Whether the fit used it; a line is used as a whole.
    pub used: Use,
    /// The load.
    pub workload: Workload,
    /// The drive's past; a new drive where left out.
    #[serde(default)]
    pub past: Option<Behind>,
    /// Capacity of the model in bytes, smaller than the drive's, where the whole drive would take too long to fill.
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

/// [`Past`] in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behind {
    /// [`Past::filled`].
    pub filled: f64,
    /// [`Past::random_passes`].
    pub random_passes: f64,
}

/// How the figure relates to the published number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Equal to it.
    Is,
    /// At most the number.
    AtMost,
    /// At least the number.
    AtLeast,
}

/// One published figure beside the model's figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where it was published.
    pub source: String,
    /// Name of the test's line in the source.
    pub test: String,
    /// Preset of the drive.
    pub drive: String,
    /// Profile of the host.
    pub host: String,
    /// Whether the fit used the test.
    pub used: Use,
    /// Kind of the figure.
    pub measure: Measure,
    /// How the figure relates to the published number.
    pub relation: Relation,
    /// The published number.
    pub published: f64,
    /// The model's figure; `None` where it has too few samples.
    pub modelled: Option<f64>,
    /// Error of the model in percent, positive where its figure is higher.
    pub error_percent: Option<f64>,
    /// Whether the model is within the target or the bound; `None` without a target or a figure.
    pub within: Option<bool>,
}

/// Why a table could not be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// The table of published figures, which is part of the program, cannot be read.
    #[error("table of published figures: {0}")]
    Table(String),
    /// The drive of a test cannot be built.
    #[error("{test}: {source}")]
    Drive {
        /// The test's drive and name.
        test: String,
        /// Cause.
        source: PresetError,
    },
    /// The host profile of a test cannot be used.
    #[error("{test}: {source}")]
    Host {
        /// The test's drive and name.
        test: String,
        /// Cause.
        source: crate::host::ProfileError,
    },
}

/// Effort and seed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// I/Os of a test with 4 KiB; tests with larger I/Os get fewer, so that all move the same bytes. A percentile needs ten samples above
    /// it: 1,000,000 I/Os for p99.999, 100,000,000 for p99.99999.
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
/// [`ConformanceError::Table`] where the table cannot be parsed: a fault of the program.
pub fn published() -> Result<Vec<Test>, ConformanceError> {
    #[derive(Deserialize)]
    struct Table {
        test: Vec<Test>,
    }
    let table: Table = toml::from_str(PUBLISHED).map_err(|error| ConformanceError::Table(error.to_string()))?;
    Ok(table.test)
}

/// Runs the published tests that `wanted` selects, on the models of their presets.
///
/// # Errors
/// [`ConformanceError`] where a table, preset or profile of the program is faulty.
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
    /// Runs the test on a new drive, after giving it the test's past.
    pub fn figures(&self, ssd: &mut dyn Ssd, profile: &Profile, options: Options) -> Figures {
        if let Some(Behind { filled, random_passes }) = self.past {
            ssd.age(Past { filled, random_passes });
        }
        let blocks = u64::from(self.workload.size_bytes).div_ceil(4096).max(1);
        closed_loop(ssd, profile, &self.workload, options.seed, (options.ios / blocks).max(1))
    }

    /// The published figures beside the model's `figures`.
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
    /// A published number and its relation beside the model's figure. `place` is source, test, drive and host.
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
