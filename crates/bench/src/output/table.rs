//! Tables for people; the caller that prints them knows the available width.

/// A table for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Title of the table.
    pub title: String,
    /// Column heads.
    pub head: Vec<String>,
    /// Number of columns, from the left, that are text; the others are numbers, aligned to the right.
    pub left: usize,
    /// Rows, each with as many cells as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows; the first `left` columns are text.
    pub(crate) fn new(title: impl Into<String>, left: usize, head: &[&str]) -> Self {
        let head = head.iter().map(|&cell| cell.to_owned()).collect();
        Self { title: title.into(), head, left, rows: Vec::new() }
    }
}
