//! Errors of experiments.

use super::driver::DriverError;
use crate::job::JobError;

/// Why an experiment could not run, or ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Data on the target would be lost.
    #[error(
        "{what} writes to the target, and what is on it would be lost: repeat with --destroy-data if that is meant{instead}"
    )]
    NeedsWrites {
        /// What would write.
        what: String,
        /// What can be done without writing, if anything; begins with a comma.
        instead: &'static str,
    },
    /// A run could not begin.
    #[error("{step}: {source}")]
    Driver {
        /// The step that was to run.
        step: String,
        /// The cause.
        source: DriverError,
    },
    /// A job of the experiment cannot run with these options.
    #[error("{step}: {source}")]
    Job {
        /// The step that was to run.
        step: String,
        /// The cause.
        source: JobError,
    },
    /// The value of an option makes no sense.
    #[error("{option}: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// A run returned fewer results than it had jobs.
    #[error("{step}: {got} results of {want} jobs; the run did not end as it should")]
    Results {
        /// The step that ran.
        step: String,
        /// Number of results.
        got: usize,
        /// Number of jobs.
        want: usize,
    },
}
