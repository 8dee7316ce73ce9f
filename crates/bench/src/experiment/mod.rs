//! Experiments: several runs that together answer a question.
//!
//! [`Experiment`] names the built-in ones and [`Experiment::run`] carries one out on a [`Driver`], as [`Options`] say.
//! [`Conditioning`] brings a target into a known state, before an experiment or any other job. [`compare`] tells two
//! targets or two settings apart. All answer with a [`Report`].

mod compare;
mod condition;
mod conditioning;
mod course;
mod depth_histogram;
mod error;
mod figures;
mod list;
mod mixed;
mod options;
mod plot;
mod qd_sweep;
mod qos;
mod report;
mod short_burst;
mod snia;
mod snia_iops;
mod snia_latency;
mod surface;
mod text;
mod wait_methods;
mod write_saturation;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use compare::{Comparing, Side, compare, compare_settings, compare_targets};
pub use condition::condition;
pub use conditioning::{Conditioning, ConditioningError, Stage};
pub use depth_histogram::{DepthHistogram, HistogramError};
pub use error::ExperimentError;
pub use list::{Experiment, UnknownExperiment};
pub use options::{Options, Rate};
pub use report::{Report, Table};

use crate::job::model::Job;
use crate::run::JobResult;

/// Runs jobs on the target under test, for experiments that decide from one run what the next one is.
pub trait Driver {
    /// Runs jobs at once and returns their results, in order. `step` says what is being done, for people.
    ///
    /// # Errors
    /// What could not be begun, as text with its causes.
    fn run(&mut self, step: &str, jobs: &[Job]) -> Result<Vec<JobResult>, DriverError>;

    /// Size of the target in bytes.
    ///
    /// # Errors
    /// Where it cannot be opened.
    fn size_bytes(&mut self) -> Result<u64, DriverError>;

    /// Whether the user has ended the run: what is known is reported, marked as partial.
    fn is_stopped(&self) -> bool;
}

/// A run that could not begin.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DriverError(pub String);
