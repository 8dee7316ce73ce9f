//! Results on stdout, as a table or as JSON.

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{IsTerminal, Write};

/// Version of the shape of all JSON output.
pub const SCHEMA_VERSION: u32 = 1;

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs; carries `schema_version`.
    Json,
}

/// Names from traces and devices must not talk to the terminal: control characters other than line ends are written out.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && c != '\n';
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    text.chars().flat_map(|c| if is_bad(c) { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// Writes a line and makes sure that it has left.
pub fn line(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", harmless(text)).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Writes a JSON object with the schema version first.
pub fn json(value: Value) -> Result<()> {
    line(&serde_json::to_string_pretty(&versioned(value))?)
}

/// A JSON object with the schema version first.
pub fn versioned(value: Value) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("schema_version".to_owned(), SCHEMA_VERSION.into());
    match value {
        Value::Object(fields) => object.extend(fields),
        other => {
            object.insert("result".to_owned(), other);
        }
    }
    Value::Object(object)
}

/// A table whose columns, but for the first `left` ones, are numbers.
pub fn table(head: &[&str], left: usize, rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (column, (cell, width)) in cells.zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count().min(*width));
            let gap = if column == 0 { "" } else { "  " };
            if column < left {
                line.push_str(&format!("{gap}{cell}{pad}"));
            } else {
                line.push_str(&format!("{gap}{pad}{cell}"));
            }
        }
        line.trim_end().to_owned()
    };
    let mut lines = vec![line(&mut head.iter().copied())];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines.join("\n")
}

/// A size for people: three digits and a binary unit.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 || value >= 100.0 => 0,
        _ if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A time for people.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// A ratio with two digits, or a dash.
pub fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// An error with its causes, each said once: many messages already name their cause.
pub fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    harmless(&text).into_owned()
}

/// Whether stderr may carry colours: a terminal, and nobody set NO_COLOR (<https://no-color.org>).
pub fn colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && std::io::stderr().is_terminal()
}

/// Whether the reader of our output has gone: no error of ours.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind =
        |cause: &(dyn std::error::Error + 'static)| cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    error.chain().any(|cause| kind(cause) == Some(std::io::ErrorKind::BrokenPipe))
        && error.to_string().contains("standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_keep_three_digits() {
        assert_eq!(size(512), "512 B");
        assert_eq!(size(1536), "1.50 KiB");
        assert_eq!(size(100 << 30), "100 GiB");
        assert_eq!(time(1_500), "1.5 us");
        assert_eq!(time(2_500_000), "2.50 ms");
        assert_eq!(ratio(None), "-");
    }

    #[test]
    fn causes_are_said_once() {
        let error = anyhow::anyhow!("no such file").context("cannot open x: no such file").context("target x");
        assert_eq!(chain(&error), "target x: cannot open x: no such file");
    }

    #[test]
    fn tables_are_aligned() {
        let text = table(&["name", "n"], 1, &[vec!["a".into(), "10".into()], vec!["bb".into(), "9".into()]]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["name   n", "a     10", "bb     9"], "{text}");
    }
}
