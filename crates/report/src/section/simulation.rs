//! Simulated lives of pools: what they met, and whether a promise was broken.

use super::frame::Section;
use crate::fields::{at, text, texts};
use crate::picture::Picture;
use crate::results::Found;
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;

/// A seed with all digits: rounding a seed beyond 2^53 would name another life.
fn seed(value: &Value) -> Option<String> {
    at(value, "seed")?.as_u64().map(|seed| seed.to_string())
}

pub(super) fn of(found: &Found) -> Section {
    let value = &found.value;
    let mut section = Section { title: "Simulated lives of pools".to_owned(), ..Section::default() };
    match at(value, "failure") {
        Some(failure) => section.warnings.push(format!(
            "A promise was BROKEN: seed {}, {}: {}",
            // For a single life the seed is outside the failure.
            seed(failure).or_else(|| seed(value)).unwrap_or_else(|| "-".to_owned()),
            text(failure, "doing").unwrap_or("-"),
            text(failure, "what").unwrap_or("-")
        )),
        None => section.facts.push(("Promises".to_owned(), Cell::toned("every one was kept", Tone::Good))),
    }
    section.facts.extend(seed(value).map(|seed| ("Seed of the life".to_owned(), Cell::text(seed))));
    let facts = [
        ("Lives", "lives", Unit::Count),
        ("Power cuts", "power_cuts", Unit::Count),
        ("Recoveries", "recoveries", Unit::Count),
        ("Took", "seconds", Unit::Seconds),
        ("Steps", "steps", Unit::Count),
        ("Steps that are left of it, shrunk", "steps_shrunk", Unit::Count),
    ];
    let known = facts.into_iter().filter(|(_, key, _)| at(value, key).is_some());
    section.facts.extend(known.map(|(name, key, unit)| (name.to_owned(), Cell::at(value, key, unit))));
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
    // A single life reports it as text that begins with the count.
    table.rows.extend(texts(value, "met").map(|met| {
        let (count, what) = met.split_once(' ').unwrap_or(("-", met));
        let count: Option<Value> = count.parse::<u64>().ok().map(Value::from);
        vec![Cell::text(what), Cell::of(count.as_ref(), Unit::Count)]
    }));
    if !table.rows.is_empty() {
        section.pictures.push(Picture::table("What the lives met", table));
    }
    let mut log = Table::new("The last that it did, shrunk to what breaks the promise", vec![Column::text("step")]);
    log.rows.extend(texts(value, "log").map(|line| vec![Cell::text(line)]));
    if !log.rows.is_empty() {
        section.pictures.push(Picture::table("The life that failed", log));
    }
    section
}
