//! Experiments: several runs that answer one question together.
//!
//! [`Experiment`] names the built-in ones; [`Experiment::run`] runs one on a [`Driver`] with [`Options`].
//! [`Conditioning`] brings a target into a known state before an experiment or any other job. [`compare`] compares two
//! targets or two settings, [`ladder`] many settings, one after the other. All return a [`Report`].

mod compare;
mod compared;
mod condition;
mod conditioning;
mod depth_histogram;
mod driver;
mod error;
mod figures;
mod ladder;
mod list;
mod mixed;
mod options;
mod plot;
mod prepare;
mod qd_sweep;
mod qos;
mod region;
mod report;
mod rounds;
mod session;
mod short_burst;
mod snia;
mod snia_iops;
mod snia_latency;
mod surface;
mod wait_methods;
mod write_saturation;

#[cfg(test)]
mod fake_tests;
#[cfg(test)]
mod tests;

pub use compare::{Comparing, Side, compare, compare_settings, compare_targets};
pub use compared::{levels as compared_levels, of_round};
pub use condition::condition;
pub use conditioning::{Conditioning, ConditioningError, Stage};
pub use depth_histogram::{DepthHistogram, HistogramError};
pub use driver::{Driver, DriverError};
pub use error::ExperimentError;
pub(crate) use figures::Latency;
pub use ladder::{Climb, Ladder, Pass, Published, Rung, ladder};
pub use list::{Experiment, UnknownExperiment};
pub use options::{Options, Rate};
pub use report::Report;

use forebay_block::figures as text;
