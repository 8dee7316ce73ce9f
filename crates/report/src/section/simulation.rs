//! Lives of pools in virtual time: what they met, and whether a promise was broken.

use super::frame::Section;
use crate::fields::{at, number, text, texts};
use crate::picture::Picture;
use crate::results::Found;
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;

pub(super) fn of(found: &Found) -> Section {
    let value = &found.value;
    let mut section = Section { title: "Simulated lives of pools".to_owned(), ..Section::default() };
    match at(value, "failure") {
        Some(failure) => section.warnings.push(format!(
            "A promise was BROKEN: seed {}, {}: {}",
            number(failure, "seed").map_or_else(|| "-".to_owned(), |seed| seed.to_string()),
            text(failure, "doing").unwrap_or("-"),
            text(failure, "what").unwrap_or("-")
        )),
        None => section.facts.push(("Promises".to_owned(), Cell::toned("every one was kept", Tone::Good))),
    }
    section.facts.extend([
        ("Lives".to_owned(), Cell::at(value, "lives", Unit::Count)),
        ("Power cuts".to_owned(), Cell::at(value, "power_cuts", Unit::Count)),
        ("Recoveries".to_owned(), Cell::at(value, "recoveries", Unit::Count)),
        ("Took".to_owned(), Cell::at(value, "seconds", Unit::Seconds)),
    ]);
    let never: Vec<&str> = texts(value, "never_met").collect();
    if !never.is_empty() {
        section.notes.push(format!("Never met: {}", never.join(", ")));
    }
    let mut table = Table::new(
        "What the lives met, and how often",
        vec![Column::text("what"), Column::number("times", Unit::Count)],
    );
    let met = at(value, "met").and_then(Value::as_object).into_iter().flatten();
    table.rows.extend(met.map(|(what, count)| vec![Cell::text(what.clone()), Cell::of(Some(count), Unit::Count)]));
    section.pictures.push(Picture::table("What the lives met", table));
    section
}
