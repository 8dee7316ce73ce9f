//! The section of a result on the page, and the parts that many kinds of results share.

use crate::fields;
use crate::picture::Picture;
use crate::results::Found;
use crate::table::Cell;

/// The section of one result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// The result's file.
    pub(crate) file: String,
    pub(crate) command: Option<String>,
    pub(crate) about: Vec<String>,
    /// Reasons to doubt the result.
    pub(crate) warnings: Vec<String>,
    /// The most important figures.
    pub(crate) facts: Vec<(String, Cell)>,
    pub(crate) pictures: Vec<Picture>,
    pub(crate) conditions: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// The parts that all experiments and jobs share.
pub(super) fn framed(found: &Found, title: String) -> Section {
    let value = &found.value;
    let mut section = Section { title, ..Section::default() };
    section.about.extend(fields::text(value, "what").map(str::to_owned));
    section.conditions.extend(fields::texts(value, "conditions").map(str::to_owned));
    section.notes.extend(fields::texts(value, "notes").map(str::to_owned));
    if fields::is_set(value, "partial") {
        section.warnings.push("PARTIAL: it ended before its time; this is of what was done".to_owned());
    }
    if let Some(failures) = fields::number(value, "failures").filter(|failures| *failures > 0.0) {
        section
            .warnings
            .push(format!("{} failed or never came back", forebay_block::figures::count(failures as u64, "I/O")));
    }
    section
}
