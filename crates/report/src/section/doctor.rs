//! The audit of a machine.

use super::frame::Section;
use crate::fields::{list, text};
use crate::picture::Picture;
use crate::results::Found;
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;

pub(super) fn of(found: &Found) -> Section {
    let value = &found.value;
    let device = text(value, "device").map_or_else(String::new, |device| format!(" and {device}"));
    let mut section = Section { title: format!("Settings of the machine{device}"), ..Section::default() };
    section.about.push("What settings cost is what their sources say; nothing was measured here. What could not be read is unknown, not good.".to_owned());
    if let Some(root) = text(value, "root").filter(|root| *root != "/") {
        section.notes.push(format!("Read from the tree {root}"));
    }
    let (findings, unknown, good) = (list(value, "findings"), list(value, "unknown"), list(value, "good"));
    let has_cost = findings.iter().any(|finding| text(finding, "severity") != Some("note"));
    section.facts.extend([
        ("Findings".to_owned(), Cell::toned(findings.len().to_string(), if has_cost { Tone::Bad } else { Tone::Good })),
        ("Unknown".to_owned(), Cell::toned(unknown.len().to_string(), Tone::Open)),
        ("Good".to_owned(), Cell::toned(good.len().to_string(), Tone::Good)),
    ]);
    section.pictures.push(Picture::table("Findings", table(findings)));
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

fn verdicts(rows: &[Value], what: &str) -> Table {
    let mut table = Table::new("", ["setting", "device", what].map(Column::text).to_vec());
    let row = |row: &Value| ["name", "device", "text"].map(|path| Cell::at(row, path, Unit::Plain)).to_vec();
    table.rows.extend(rows.iter().map(row));
    table
}
