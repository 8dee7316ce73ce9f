//! Where a run is, for who watches it.

use super::result::IntervalRow;

/// Where a run is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Seconds since the load began.
    pub elapsed_s: f64,
    /// Seconds that it will take, where time ends it.
    pub total_s: Option<f64>,
    /// Name, newest interval and failures of each job.
    pub jobs: Vec<(String, Option<IntervalRow>, u64)>,
}
