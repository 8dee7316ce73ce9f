//! Predicates that hold for no request at all: of a disk or an export that is not there, or over a range without numbers.

use super::expression::{Comparison, Predicate};

/// The disks and exports that there are.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// Names of the disks.
    pub disks: &'a [&'a str],
    /// Indices and names of the exports.
    pub exports: &'a [(u16, &'a str)],
}

/// Why no request meets a predicate; `None` where one may.
pub(super) fn why_in_vain(predicate: &Predicate, present: Present<'_>) -> Option<&'static str> {
    match predicate {
        Predicate::Disk(name) => (!present.disks.contains(&name.as_str())).then_some("there is no such disk"),
        Predicate::ExportName(wanted) => {
            let is_there = present.exports.iter().any(|(_, name)| name == wanted);
            (!is_there).then_some("there is no such export")
        }
        Predicate::ExportIndex(wanted) => {
            let is_there = present.exports.iter().any(|(index, _)| index == wanted);
            (!is_there).then_some("there is no export of this index")
        }
        Predicate::Range { start, end, .. } => (start >= end).then_some("the range is empty: its end is not in it"),
        Predicate::Compare { comparison: Comparison::Lt, value: 0, .. } => Some("no number is below zero"),
        _ => None,
    }
}
