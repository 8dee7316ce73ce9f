//! The audit of a machine.

use super::frame::Section;
use crate::fields::{at, list, text};
use crate::picture::Picture;
use crate::results::Found;
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;

pub(super) fn of(found: &Found) -> Section {
    let value = &found.value;
    let device = text(value, "device").map_or_else(String::new, |device| format!(" and {device}"));
    let mut section = Section { title: format!("Settings of the machine{device}"), ..Section::default() };
    let findings = list(value, "findings");
    let measured = findings.iter().filter(|finding| !list(finding, "effects").is_empty()).count();
    let here = match measured {
        0 => "; nothing was measured here".to_owned(),
        count => format!(", but for {count} that were measured on this machine"),
    };
    section.about.push(format!(
        "What settings cost is what their sources say{here}. What could not be read is unknown, not good."
    ));
    if let Some(root) = text(value, "root").filter(|root| *root != "/") {
        section.notes.push(format!("Read from the tree {root}"));
    }
    let (unknown, good) = (list(value, "unknown"), list(value, "good"));
    let has_cost = findings.iter().any(|finding| text(finding, "severity") != Some("note"));
    section.facts.extend([
        ("Findings".to_owned(), Cell::toned(findings.len().to_string(), if has_cost { Tone::Bad } else { Tone::Good })),
        ("Unknown".to_owned(), Cell::toned(unknown.len().to_string(), Tone::Open)),
        ("Good".to_owned(), Cell::toned(good.len().to_string(), Tone::Good)),
    ]);
    section.pictures.push(Picture::table("Findings", table(findings)));
    if measured > 0 {
        section.pictures.push(Picture::table("Measured here", effects(findings)));
    }
    section.pictures.push(Picture::table("Unknown", verdicts(unknown, "why")));
    section.pictures.push(Picture::table("Good", verdicts(good, "what")));
    section
}

fn table(findings: &[Value]) -> Table {
    let titles = [
        "setting",
        "kind",
        "what is set",
        "what it costs, and why",
        "for now",
        "for good",
        "what the change costs",
        "source",
    ];
    let mut table = Table::new("Settings that cost something, worst first", titles.map(Column::text).to_vec());
    table.rows.extend(findings.iter().map(|finding| {
        let severity = text(finding, "severity").unwrap_or("-");
        let tone = if severity == "note" { Tone::Plain } else { Tone::Bad };
        let device = text(finding, "device").map_or_else(String::new, |device| format!(" of {device}"));
        let name = format!("{}{device}", text(finding, "name").unwrap_or("-"));
        let texts =
            ["what", "cost", "now", "for_good", "price", "source"].map(|path| Cell::at(finding, path, Unit::Plain));
        [Cell::text(name), Cell::toned(severity.replace('-', " "), tone)].into_iter().chain(texts).collect()
    }));
    table
}

/// Effects that a ladder measured on this machine.
fn effects(findings: &[Value]) -> Table {
    let mut table = Table::new(
        "With the setting changed, over that of the rung below",
        vec![
            Column::text("setting"),
            Column::text("rung"),
            Column::text("load"),
            Column::text("figure"),
            Column::text("against"),
            Column::number("ratio", Unit::Ratio),
            Column::interval("interval", Unit::Ratio),
            Column::text("effect"),
            Column::number("would have been shown", Unit::Ratio),
        ],
    );
    for finding in findings {
        let texts = |effect| ["rung", "job", "figure", "against"].map(|path| Cell::at(effect, path, Unit::Plain));
        table.rows.extend(list(finding, "effects").iter().map(|effect| {
            let (low, high) = (at(effect, "ratio_low"), at(effect, "ratio_high"));
            let figures = [
                Cell::at(effect, "ratio", Unit::Ratio),
                Cell::interval(low, high, Unit::Ratio),
                Cell::at(effect, "verdict", Unit::Plain),
                Cell::at(effect, "would_show", Unit::Ratio),
            ];
            let name = Cell::at(finding, "name", Unit::Plain);
            [name].into_iter().chain(texts(effect)).chain(figures).collect()
        }));
    }
    table
}

fn verdicts(rows: &[Value], what: &str) -> Table {
    let mut table = Table::new("", ["setting", "device", what].map(Column::text).to_vec());
    let row = |row: &Value| ["name", "device", "text"].map(|path| Cell::at(row, path, Unit::Plain)).to_vec();
    table.rows.extend(rows.iter().map(row));
    table
}
