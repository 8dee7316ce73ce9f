//! The report of an experiment.

use crate::output::table::Table;
use serde_json::Value;

/// The result of an experiment.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the experiment.
    pub name: String,
    /// What it measures and where the method comes from, in one sentence.
    pub what: String,
    /// The conditions of the measurement: conditioning, times, waiting, deviations from the method. One sentence each.
    pub conditions: Vec<String>,
    /// Results for people.
    pub tables: Vec<Table>,
    /// Results for programs: raw numbers; names end with the unit.
    pub json: Value,
    /// What the reader should know when judging the results. One sentence each.
    pub notes: Vec<String>,
    /// The experiment ended early; the results cover what was done.
    pub partial: bool,
    /// I/Os that failed or never completed, over all runs.
    pub failures: u64,
}
