//! What an experiment answers.

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

/// A table for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Heads of the columns.
    pub head: Vec<String>,
    /// Columns that are text, from the left; the others are numbers and flush right.
    pub left: usize,
    /// Rows, each as long as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(title: impl Into<String>, left: usize, head: &[&str]) -> Self {
        let head = head.iter().map(|&cell| cell.to_owned()).collect();
        Self { title: title.into(), head, left, rows: Vec::new() }
    }
}
