//! From results to sections of the page: one file for each kind of result, and pictures that several kinds share.

mod check;
mod class_bars;
mod compare;
mod conformance;
mod doctor;
mod frame;
mod jobs;
mod ladder;
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
mod trace_over_time;

use crate::reading::Reduced;
use crate::records::Records;
use crate::results::{Found, Kind};
pub(crate) use frame::Section;

/// Maximum number of reduced lists that are named one by one.
const REDUCED_SHOWN: usize = 4;

/// All sections of the page: first comparisons of several results, then each result alone.
pub(crate) fn all(found: &[Found], records: &[Records]) -> Vec<Section> {
    let mut sections = together::of(found);
    sections.extend(found.iter().map(|result| one(result, found)));
    sections.extend(records.iter().map(records::of));
    sections
}

/// A sentence for each list that was reduced on reading.
fn reduced(found: &Found) -> Vec<String> {
    let sentence = |list: &Reduced| {
        format!(
            "REDUCED: {} has {} rows; {} were read: of each {} neighbours those with the least and the greatest of each figure",
            if list.name.is_empty() { "a list" } else { &list.name },
            list.rows,
            list.kept,
            list.together
        )
    };
    let mut sentences: Vec<String> = found.reduced.iter().take(REDUCED_SHOWN).map(sentence).collect();
    if found.reduced.len() > REDUCED_SHOWN {
        sentences.push(format!("REDUCED: so were {} more lists", found.reduced.len() - REDUCED_SHOWN));
    }
    sentences
}

fn one(found: &Found, all: &[Found]) -> Section {
    let mut section = match found.kind {
        Kind::Jobs => jobs::of(found),
        Kind::Experiment if found.is_experiment(sweep::NAME) => sweep::of(found, all),
        Kind::Experiment if found.is_experiment(compare::NAME) => compare::of(found),
        Kind::Experiment if found.is_experiment(ladder::NAME) => ladder::of(found),
        Kind::Experiment if found.is_experiment(surface::NAME) => surface::of(found),
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
    section.warnings.extend(reduced(found));
    section.file = found.name.clone();
    section.command = found.command();
    section
}
