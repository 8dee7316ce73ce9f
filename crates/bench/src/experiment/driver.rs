//! The interface by which experiments run jobs.

use crate::job::model::Job;
use crate::run::{JobResult, Watch};

/// Runs jobs on the target under test, for experiments that choose the next run by the results of the last.
pub trait Driver {
    /// Runs jobs at the same time and returns their results in order. `step` describes the step for people.
    ///
    /// # Errors
    /// Why the run could not begin, as text with its causes.
    fn run(&mut self, step: &str, jobs: &[Job]) -> Result<Vec<JobResult>, DriverError>;

    /// Runs one job; `watch` may end it early.
    ///
    /// # Errors
    /// As for [`Driver::run`].
    fn run_watched(&mut self, step: &str, job: &Job, watch: Watch) -> Result<Vec<JobResult>, DriverError>;

    /// Size of the target in bytes.
    ///
    /// # Errors
    /// The target cannot be opened.
    fn size_bytes(&mut self) -> Result<u64, DriverError>;

    /// Whether the user has ended the run. Results so far are reported and marked as partial.
    fn is_stopped(&self) -> bool;
}

/// Why a run could not begin.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DriverError(pub String);
