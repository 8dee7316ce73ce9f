//! What an experiment answers.

use crate::output::table::Table;
use serde_json::Value;

/// An experiment's answer.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the experiment.
    pub name: String,
    /// What it measures and where the method comes from, in one sentence.
    pub what: String,
    /// Under what conditions it was measured: what was done to the target before, times, waiting, deviations from the
    /// method. One sentence each.
    pub conditions: Vec<String>,
    /// Results for people.
    pub tables: Vec<Table>,
    /// Results for programs: raw numbers, units last in names.
    pub json: Value,
    /// What the reader should know to judge the results. One sentence each.
    pub notes: Vec<String>,
    /// It ended before its time; the results are of what was done.
    pub partial: bool,
    /// I/Os that failed or never came back, over all runs.
    pub failures: u64,
}
