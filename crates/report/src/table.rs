//! Tables: under each picture, and where a picture would say less. Cells keep the number that they show.

use crate::fields;
use crate::markup::{Attribute, Markup};
use crate::unit::Unit;
use serde_json::Value;

/// Rows of a table; of what has more, every so-manieth is left out by [`Table::bounded`], and the caption says so.
pub(crate) const ROWS_MAX: usize = 1000;
/// A text from which on it is written over several lines.
const LONG_CHARS: usize = 36;

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    title: String,
    unit: Unit,
    holds: Holds,
}

/// What a column has. One of intervals is two columns of numbers where the table is saved.
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

/// A cell: what people read, and the number behind it as the result has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    value: Option<String>,
    /// The ends of an interval, as far as they are known.
    ends: [Option<String>; 2],
    tone: Tone,
}

/// What a cell says at a glance; its words say it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    /// Not known, withheld, left open.
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

    /// A number of a result; a dash where there is none.
    pub(crate) fn of(value: Option<&Value>, unit: Unit) -> Self {
        match value {
            Some(Value::Number(number)) => Self {
                text: match number.as_f64() {
                    // A whole number without a unit is a count.
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

    /// An interval: of what is known of it.
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

    /// A figure that too few samples would have to bear.
    pub(crate) fn withheld(needed_more: Option<f64>) -> Self {
        let needs = needed_more.map_or_else(String::new, |more| format!(", needs {more} more samples"));
        Self::toned(format!("withheld{needs}"), Tone::Open)
    }

    pub(crate) fn with_tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// The cell as an element outside of a table.
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
    /// The caption stands above it already.
    is_named_above: bool,
    pub(crate) head: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(caption: impl Into<String>, head: Vec<Column>) -> Self {
        Self { caption: caption.into(), head, ..Self::default() }
    }

    /// At most [`ROWS_MAX`] rows, the first ones; the caption says how many there were.
    pub(crate) fn bounded(mut self) -> Self {
        let all = self.rows.len();
        if all > ROWS_MAX {
            self.rows.truncate(ROWS_MAX);
            self.caption = format!("{} (the first {ROWS_MAX} of {all} rows)", self.caption);
        }
        self
    }

    /// The table below such a title, which need not stand there twice.
    pub(crate) fn below(self, title: &str) -> Self {
        Self { is_named_above: self.caption == title, ..self }
    }

    /// The table in a box of its own, in which it may be wider than the page.
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
