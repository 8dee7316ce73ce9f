//! Why an experiment has no answer.

use super::driver::DriverError;
use crate::job::JobError;

/// An experiment that could not be made, or had nothing to tell when it ended.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Data would be lost.
    #[error(
        "{what} writes to the target, and what is on it would be lost: repeat with --destroy-data if that is meant{instead}"
    )]
    NeedsWrites {
        /// What writes.
        what: String,
        /// What can be done without writing, if anything; begins with a comma.
        instead: &'static str,
    },
    /// A run could not begin.
    #[error("{step}: {source}")]
    Driver {
        /// What was to be done.
        step: String,
        /// Why not.
        source: DriverError,
    },
    /// A job of the experiment cannot be run with these options.
    #[error("{step}: {source}")]
    Job {
        /// What was to be done.
        step: String,
        /// Why not.
        source: JobError,
    },
    /// An option has no sense.
    #[error("{option}: {reason}")]
    Option {
        /// Which one.
        option: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A run gave fewer results than it had jobs.
    #[error("{step}: {got} results of {want} jobs; the run did not end as it should")]
    Results {
        /// What was done.
        step: String,
        /// Results.
        got: usize,
        /// Jobs.
        want: usize,
    },
}
