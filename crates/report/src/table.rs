//! Tables: below each picture, and where a picture would show less. Cells keep the number that they show.

use crate::fields;
use crate::markup::{Attribute, Markup};
use crate::unit::Unit;
use serde_json::Value;

/// Maximum number of rows of a table.
pub(crate) const ROWS_MAX: usize = 1000;
/// Texts of at least this length wrap over several lines.
const LONG_CHARS: usize = 36;

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    title: String,
    unit: Unit,
    holds: Holds,
}

/// Contents of a column. A column of intervals becomes two columns of numbers when the table is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Texts,
    Numbers,
    Intervals,
}

impl Column {
    pub(crate) fn text(title: impl Into<String>) -> Self {
        Self { title: title.into(), unit: Unit::Plain, holds: Holds::Texts }
    }

    pub(crate) fn number(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, holds: Holds::Numbers }
    }

    pub(crate) fn interval(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, holds: Holds::Intervals }
    }
}

/// A cell: the text that people read, and the number of the result behind it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    value: Option<String>,
    /// The ends of an interval, where known.
    ends: [Option<String>; 2],
    tone: Tone,
}

/// Emphasis of a cell; its text says the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    /// Unknown, withheld or left open.
    Open,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Open => "open",
        }
    }
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone, ..Self::default() }
    }

    /// A number of a result; a dash where it is absent.
    pub(crate) fn of(value: Option<&Value>, unit: Unit) -> Self {
        match value {
            Some(Value::Number(number)) => Self {
                text: match number.as_f64() {
                    // An integer without a unit is a count.
                    Some(value) if unit != Unit::Plain || number.is_f64() => unit.show(value),
                    _ => number.to_string(),
                },
                value: Some(number.to_string()),
                ..Self::default()
            },
            Some(Value::String(text)) => Self::text(text.clone()),
            Some(Value::Bool(flag)) => Self::text(if *flag { "yes" } else { "no" }),
            _ => Self::text("-"),
        }
    }

    /// The number at a path of a result.
    pub(crate) fn at(value: &Value, path: &str, unit: Unit) -> Self {
        Self::of(fields::at(value, path), unit)
    }

    /// An interval with its known ends.
    pub(crate) fn interval(low: Option<&Value>, high: Option<&Value>, unit: Unit) -> Self {
        let end =
            |end: Option<&Value>| end.and_then(Value::as_f64).map_or_else(|| "open".to_owned(), |end| unit.show(end));
        let is_number = |end: Option<&Value>| end.is_some_and(Value::is_number);
        if is_number(low) || is_number(high) {
            let raw = |end: Option<&Value>| end.filter(|end| end.is_number()).map(Value::to_string);
            Self { ends: [raw(low), raw(high)], ..Self::text(format!("{} to {}", end(low), end(high))) }
        } else {
            Self::text("-")
        }
    }

    /// A figure that is withheld for too few samples.
    pub(crate) fn withheld(needed_more: Option<f64>) -> Self {
        let needs = needed_more.map_or_else(String::new, |more| format!(", needs {more} more samples"));
        Self::toned(format!("withheld{needs}"), Tone::Open)
    }

    pub(crate) fn with_tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// Writes the cell as an element outside a table.
    pub(crate) fn write_as(&self, into: &mut Markup, name: &'static str) {
        let class = self.tone.class();
        match &self.value {
            Some(value) => into.element(name, &[("class", &class), ("data-value", value)], &self.text),
            None => into.element(name, &[("class", &class)], &self.text),
        }
    }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// What it shows.
    pub(crate) caption: String,
    /// Whether a title with the same words is already above the table.
    is_named_above: bool,
    pub(crate) head: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(caption: impl Into<String>, head: Vec<Column>) -> Self {
        Self { caption: caption.into(), head, ..Self::default() }
    }

    /// Keeps the first [`ROWS_MAX`] rows; the caption says how many there were.
    pub(crate) fn bounded(mut self) -> Self {
        let all = self.rows.len();
        if all > ROWS_MAX {
            self.rows.truncate(ROWS_MAX);
            self.caption = format!("{} (the first {ROWS_MAX} of {all} rows)", self.caption);
        }
        self
    }

    /// The table below `title`: its caption is not repeated where it equals the title.
    pub(crate) fn below(self, title: &str) -> Self {
        Self { is_named_above: self.caption == title, ..self }
    }

    /// Writes the table in a box of its own, in which it may be wider than the page.
    pub(crate) fn write(&self, into: &mut Markup) {
        into.open(
            "div",
            &[("class", &"scroll"), ("tabindex", &"0"), ("role", &"region"), ("aria-label", &self.caption)],
        );
        into.open("table", &[]);
        into.element("caption", &[("class", if self.is_named_above { &"unseen" } else { &"" })], &self.caption);
        into.raw("<thead><tr>");
        for column in &self.head {
            let class = if column.holds == Holds::Numbers { "" } else { "text" };
            let unit = column.unit.raw();
            let mut attributes: Vec<Attribute<'_>> = vec![("scope", &"col"), ("class", &class), ("data-unit", &unit)];
            if column.holds == Holds::Intervals {
                attributes.push(("data-holds", &"intervals"));
            }
            into.element("th", &attributes, &column.title);
        }
        into.raw("</tr></thead><tbody>");
        for row in &self.rows {
            into.raw("<tr>");
            for (at, (cell, column)) in row.iter().zip(&self.head).enumerate() {
                let name = if at == 0 { "th" } else { "td" };
                let is_long = cell.text.chars().count() > LONG_CHARS;
                let kind =
                    if column.holds != Holds::Numbers { if is_long { "text long " } else { "text " } } else { "" };
                let class = format!("{kind}{}", cell.tone.class());
                let mut attributes: Vec<Attribute<'_>> = Vec::new();
                if at == 0 {
                    attributes.push(("scope", &"row"));
                }
                if !class.is_empty() {
                    attributes.push(("class", &class));
                }
                if let Some(value) = &cell.value {
                    attributes.push(("data-value", value));
                }
                for (name, end) in ["data-low", "data-high"].into_iter().zip(&cell.ends) {
                    attributes.extend(end.iter().map(|end| (name, end as &dyn std::fmt::Display)));
                }
                into.element(name, &attributes, &cell.text);
            }
            into.raw("</tr>");
        }
        into.raw("</tbody></table></div>");
    }
}
