//! From results to what the page shows of them: one file for each kind of result, and pictures that several kinds share.

mod check;
mod compare;
mod conformance;
mod doctor;
mod jobs;
mod other;
mod over_time;
mod percentiles;
mod prism;
mod records;
mod simulation;
mod sizing;
mod surface;
mod sweep;
mod texts;
mod together;

use crate::fields;
use crate::picture::Picture;
use crate::records::Records;
use crate::results::{Found, Kind};
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

/// What the page shows of all: first what holds results beside each other, then each alone.
pub(crate) fn all(found: &[Found], records: &[Records]) -> Vec<Section> {
    let mut sections = together::of(found);
    sections.extend(found.iter().map(|result| one(result, found)));
    sections.extend(records.iter().map(records::of));
    sections
}

fn one(found: &Found, all: &[Found]) -> Section {
    let mut section = match found.kind {
        Kind::Jobs => jobs::of(found),
        Kind::Experiment if sweep::is(found) => sweep::of(found, all),
        Kind::Experiment if compare::is(found) => compare::of(found),
        Kind::Experiment if surface::is(found) => surface::of(found),
        Kind::Experiment => other::of_experiment(found),
        Kind::Check => check::of(found),
        Kind::Analysis => prism::of(found),
        Kind::Size => sizing::of(found),
        Kind::UseCase => conformance::of_use_case(found),
        Kind::Conformance => conformance::of_drives(found),
        Kind::WriteAmplification => conformance::of_write_amplification(found),
        Kind::Simulation => simulation::of(found),
        Kind::Doctor => doctor::of(found),
        Kind::Status => other::of_status(found),
    };
    section.file = found.name.clone();
    section.command = found.command();
    section
}

/// What all experiments and jobs say in the same words.
fn framed(found: &Found, title: String) -> Section {
    let value = &found.value;
    let mut section = Section { title, ..Section::default() };
    section.about.extend(fields::text(value, "what").map(str::to_owned));
    section.conditions.extend(fields::texts(value, "conditions").map(str::to_owned));
    section.notes.extend(fields::texts(value, "notes").map(str::to_owned));
    if fields::is_set(value, "partial") {
        section.warnings.push("PARTIAL: it ended before its time; this is of what was done".to_owned());
    }
    if let Some(failures) = fields::number(value, "failures").filter(|failures| *failures > 0.0) {
        section.warnings.push(format!("{failures} I/Os failed or never came back"));
    }
    section
}
