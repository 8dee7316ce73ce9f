//! Bars of classes, in the colour of their tier.

use crate::fields::{number, text};
use crate::picture::Picture;
use crate::svg::{Bar, Bars, Drawing, Form};
use crate::table::{Cell, Column, Table};
use crate::unit::Unit;
use serde_json::Value;

/// A bar for each row of the table.
pub(super) fn bars(rows: &[Value], path: &str, (title, axis): (&str, &str), unit: Unit, form: Form) -> Option<Picture> {
    let has_letters = rows.iter().any(|row| text(row, "letter").is_some());
    let bars: Vec<Bar> = rows
        .iter()
        .filter_map(|row| {
            let value = number(row, path)?;
            let name = text(row, "name")?.to_owned();
            // A class has the same look in all pictures: that of its tier.
            let look = match text(row, "letter") {
                Some("X") => 4,
                Some(_) => 0,
                None if has_letters => 3,
                None => 0,
            };
            Some(Bar { say: format!("{name}: {}", unit.show(value)), name, value, look })
        })
        .collect();
    if bars.is_empty() {
        return None;
    }
    let mut table = Table::new(title, vec![Column::text("data"), Column::text("class"), Column::number(path, unit)]);
    table.rows.extend(rows.iter().map(|row| {
        vec![Cell::at(row, "name", Unit::Plain), Cell::at(row, "letter", Unit::Plain), Cell::at(row, path, unit)]
    }));
    let about = if has_letters {
        "Blue: for the fast tier (T temporary, M metadata, L log, H hot); gray: for the capacity tier (X)."
    } else {
        axis
    };
    let drawing = Bars { title: axis.to_owned(), unit, form, bars };
    Some(Picture::drawn(title, about, Drawing::Bars(drawing), table))
}
