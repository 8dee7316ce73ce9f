//! Results on stdout, as a table or as JSON.

use anyhow::{Context, Result};
use clap::ValueEnum;
use forebay_bench::output::table::Table;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{IsTerminal, Write};

mod columns;
mod width;

pub use columns::{Section, sections, table};
use width::width;

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

/// Writes bytes as they are.
pub fn raw(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).context("cannot write to standard output")
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

/// A table below its title, where it has one.
pub fn titled(table: &Table) -> String {
    let head: Vec<&str> = table.head.iter().map(String::as_str).collect();
    let title = if table.title.is_empty() { String::new() } else { format!("{}\n", table.title) };
    format!("{title}{}", self::table(&head, table.left, &table.rows))
}

/// Writes what is for people: lines that are wider than the terminal go on below, parted at spaces.
pub fn text(text: &str) -> Result<()> {
    line(&wrapped(text, width()))
}

/// Empties the terminal, for what is shown again and again.
pub fn clear() -> Result<()> {
    // ECMA-48: erase the display, cursor to the first line.
    raw(b"\x1b[2J\x1b[H")
}

fn wrapped(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let indent: String = line.chars().take_while(|&c| c == ' ').take(width / 2).chain("  ".chars()).collect();
        let mut rest = line.to_owned();
        while rest.chars().count() > width {
            // The space that parts two lines may stand just behind the first.
            let end = rest.char_indices().nth(width + 1).map_or(rest.len(), |(end, _)| end);
            let from = rest.len() - rest.trim_start().len();
            if from >= end {
                break;
            }
            // A word that finds no room in any line stays whole, as a path or an address is copied.
            let inside = rest[from..end].rfind(' ').or_else(|| rest[end..].find(' ').map(|at| end - from + at));
            let Some(at) = inside.map(|at| from + at) else { break };
            lines.push(rest[..at].trim_end().to_owned());
            rest = format!("{indent}{}", rest[at..].trim_start());
        }
        lines.push(rest);
    }
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
    fn long_lines_go_on_below_and_long_words_stay_whole() {
        assert_eq!(wrapped("short\n\nlines", 40), "short\n\nlines");
        let text = "  a sentence of some words that is wider than forty columns";
        assert_eq!(wrapped(text, 40), "  a sentence of some words that is wider\n    than forty columns");
        let path = format!("written: /{}", "x".repeat(60));
        assert_eq!(wrapped(&path, 40), format!("written:\n  /{}", "x".repeat(60)));
        assert_eq!(wrapped(&"y".repeat(60), 40), "y".repeat(60));
        assert_eq!(wrapped(&format!("{} and more", "z".repeat(50)), 40), format!("{}\n  and more", "z".repeat(50)));
    }
}
