//! The progress of a run, for its observer.

use super::result::IntervalRow;

/// Progress of a run.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Seconds since the load began.
    pub elapsed_s: f64,
    /// Length of the run in seconds; `None` unless time ends it.
    pub total_s: Option<f64>,
    /// For each job: name, newest interval, number of failures.
    pub jobs: Vec<(String, Option<IntervalRow>, u64)>,
}
