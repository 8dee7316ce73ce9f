//! The built-in experiments and their names.

use super::conditioning::Conditioning;
use super::error::ExperimentError;
use super::options::Options;
use super::report::Report;
use super::{
    Driver, mixed, qd_sweep, qos, short_burst, snia_iops, snia_latency, surface, wait_methods, write_saturation,
};
use forebay_block::mistakes::{Hint, nearest};
use std::fmt;
use std::str::FromStr;

/// A built-in experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Throughput and latency over the queue depth, and where the target saturates.
    QdSweep,
    /// Throughput and latency over share of reads, queue depth and fill level.
    Surface,
    /// SNIA PTS IOPS test.
    SniaIops,
    /// SNIA PTS latency test.
    SniaLatency,
    /// Bursts of reads beside a light write load.
    Mixed,
    /// Random writes of several times the capacity.
    WriteSaturation,
    /// Latency over time at a fixed rate.
    Qos,
    /// Short bursts with pauses.
    ShortBurst,
    /// Different ways of waiting for completions, under the same load.
    WaitMethods,
}

/// A name that no experiment has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no experiment {name:?}{hint}; there are {all}", hint = Hint(*nearest), all = names())]
pub struct UnknownExperiment {
    /// The name that was given.
    pub name: String,
    nearest: Option<&'static str>,
}

fn names() -> String {
    Experiment::ALL.map(|(experiment, _)| experiment.name()).join(", ")
}

impl Experiment {
    /// All experiments, with a line for each that says what it shows.
    pub const ALL: [(Self, &'static str); 9] = [
        (
            Self::QdSweep,
            "throughput-latency curve over queue depths, and the saturation depth to dial an application to",
        ),
        (Self::Surface, "percent read x queue depth x fill level, with the conditioning state of each cell"),
        (Self::SniaIops, "SNIA PTS 2.0.2 IOPS test: 7 mixes x 8 sizes in rounds until the steady state"),
        (Self::SniaLatency, "SNIA PTS 2.0.2 latency test: 3 mixes x 3 sizes at depth 1 until the steady state"),
        (Self::Mixed, "400 MB bursts of sequential reads, alone and beside 20 MB/s of writes"),
        (Self::WriteSaturation, "random 4 KiB writes for some capacities: where throughput falls, and to what"),
        (Self::Qos, "a fixed rate over time, latency from the intended start: percentiles of each interval, the worst"),
        (Self::ShortBurst, "bursts with pauses: the first I/O after a pause, and the throughput of 1, 10 and 100 ms"),
        (Self::WaitMethods, "the same load waited for in five ways: why tools disagree on one drive"),
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QdSweep => "qd-sweep",
            Self::Surface => "surface",
            Self::SniaIops => "snia-iops",
            Self::SniaLatency => "snia-latency",
            Self::Mixed => "mixed",
            Self::WriteSaturation => "write-saturation",
            Self::Qos => "qos",
            Self::ShortBurst => "short-burst",
            Self::WaitMethods => "wait-methods",
        }
    }

    /// Whether the experiment always writes.
    #[must_use]
    pub const fn needs_writes(self) -> bool {
        matches!(self, Self::Surface | Self::SniaIops | Self::SniaLatency | Self::Mixed | Self::WriteSaturation)
    }

    /// Runs the experiment. If the user ends it, the results so far are reported and marked as partial.
    ///
    /// # Errors
    /// [`ExperimentError`]: data would be lost, an option makes no sense, or nothing could be measured.
    pub fn run(self, driver: &mut dyn Driver, options: &Options) -> Result<Report, ExperimentError> {
        let reads_only = ", or ask for reads only (read percent 100)";
        if self.needs_writes() {
            options.refuse_writes(self.name(), "")?;
        } else if options.read_percent.is_some_and(|percent| percent < 100) {
            options.refuse_writes(self.name(), reads_only)?;
        }
        if options.conditioning.is_some_and(|conditioning: Conditioning| !conditioning.to_string().is_empty()) {
            options.refuse_writes("conditioning", ", or leave conditioning out")?;
        }
        match self {
            Self::QdSweep => qd_sweep::run(driver, options),
            Self::Surface => surface::run(driver, options),
            Self::SniaIops => snia_iops::run(driver, options),
            Self::SniaLatency => snia_latency::run(driver, options),
            Self::Mixed => mixed::run(driver, options),
            Self::WriteSaturation => write_saturation::run(driver, options),
            Self::Qos => qos::run(driver, options),
            Self::ShortBurst => short_burst::run(driver, options),
            Self::WaitMethods => wait_methods::run(driver, options),
        }
    }
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Experiment {
    type Err = UnknownExperiment;

    fn from_str(name: &str) -> Result<Self, UnknownExperiment> {
        let all = || Self::ALL.into_iter().map(|(experiment, _)| experiment);
        all().find(|experiment| experiment.name() == name).ok_or_else(|| UnknownExperiment {
            name: name.to_owned(),
            nearest: nearest(name, all().map(Experiment::name)),
        })
    }
}
