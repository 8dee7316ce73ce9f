//! What the page shows of one result, and what many kinds of results say in the same words.

use crate::fields;
use crate::picture::Picture;
use crate::results::Found;
use crate::table::Cell;

/// What the page shows of one result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// The file that it is from.
    pub(crate) file: String,
    pub(crate) command: Option<String>,
    pub(crate) about: Vec<String>,
    /// What makes it worth less.
    pub(crate) warnings: Vec<String>,
    /// The few figures that matter most.
    pub(crate) facts: Vec<(String, Cell)>,
    pub(crate) pictures: Vec<Picture>,
    pub(crate) conditions: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// What all experiments and jobs say in the same words.
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
