//! Who runs the jobs of an experiment.

use crate::job::model::Job;
use crate::run::{JobResult, Watch};

/// Runs jobs on the target under test, for experiments that decide from one run what the next one is.
pub trait Driver {
    /// Runs jobs at once and returns their results, in order. `step` says what is being done, for people.
    ///
    /// # Errors
    /// What could not be begun, as text with its causes.
    fn run(&mut self, step: &str, jobs: &[Job]) -> Result<Vec<JobResult>, DriverError>;

    /// Runs one job, which may be ended before its time.
    ///
    /// # Errors
    /// As of [`Driver::run`].
    fn run_watched(&mut self, step: &str, job: &Job, watch: Watch) -> Result<Vec<JobResult>, DriverError>;

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
