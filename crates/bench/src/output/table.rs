//! Tables for people; who shows them knows how wide they may be.

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
