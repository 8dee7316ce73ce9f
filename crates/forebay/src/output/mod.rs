//! Results on stdout, as a table or as JSON.

use anyhow::{Context, Result};
use clap::ValueEnum;
use forebay_bench::output::table::Table;
use forebay_daemon::text::{documented, harmless};
use forebay_device::stdout;
use serde_json::Value;
use std::io::{self, StdoutLock, Write};

mod columns;
mod width;

pub use columns::{Section, sections, table};
pub use forebay_daemon::text::{chain, colours, complain, count, size, time};
use width::height;
pub use width::width;

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs; carries `schema_version`.
    Json,
}

/// Writes a line and flushes it.
pub fn line(text: &str) -> Result<()> {
    written(|out| writeln!(out, "{}", harmless(text)))
}

/// Writes bytes as they are.
pub fn raw(bytes: &[u8]) -> Result<()> {
    written(|out| out.write_all(bytes))
}

/// Runs `write`, which writes to standard output itself, and flushes.
pub fn by_itself(write: impl FnOnce() -> io::Result<()>) -> Result<()> {
    open().and_then(|()| write()).and_then(|()| io::stdout().flush()).context("cannot write to standard output")
}

/// Fails where standard output is closed.
fn open() -> io::Result<()> {
    if stdout::was_closed() {
        return Err(io::Error::other("it is closed; send it to a file, or to /dev/null where nobody wants it"));
    }
    Ok(())
}

/// Runs `write` on standard output and flushes.
fn written(write: impl FnOnce(&mut StdoutLock<'static>) -> io::Result<()>) -> Result<()> {
    let mut out = io::stdout().lock();
    open().and_then(|()| write(&mut out)).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Writes a JSON object with the schema version first, then the command that made it, so that a result in a file shows its origin.
pub fn json(value: Value) -> Result<()> {
    let mut text = String::new();
    laid_out(&documented(value), 0, &mut text)?;
    line(&text)
}

/// Appends a value with one line per field and element, but lists of only numbers in one line: a histogram has hundreds.
fn laid_out(value: &Value, depth: usize, into: &mut String) -> Result<()> {
    let begin = |into: &mut String, at: usize, depth: usize| {
        into.push_str(if at == 0 { "\n" } else { ",\n" });
        into.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        Value::Array(list) if !list.is_empty() && !list.iter().all(Value::is_number) => {
            into.push('[');
            for (at, element) in list.iter().enumerate() {
                begin(into, at, depth + 1);
                laid_out(element, depth + 1, into)?;
            }
            begin(into, 0, depth);
            into.push(']');
        }
        Value::Object(fields) if !fields.is_empty() => {
            into.push('{');
            for (at, (name, field)) in fields.iter().enumerate() {
                begin(into, at, depth + 1);
                into.push_str(&serde_json::to_string(name)?);
                into.push_str(": ");
                laid_out(field, depth + 1, into)?;
            }
            begin(into, 0, depth);
            into.push('}');
        }
        plain => into.push_str(&serde_json::to_string(plain)?),
    }
    Ok(())
}

/// Writes an object in one line, where several follow each other: readers take them line by line.
pub fn json_line(value: Value) -> Result<()> {
    line(&one_line(value))
}

/// The text that [`json_line`] writes.
pub fn one_line(value: Value) -> String {
    documented(value).to_string()
}

/// A table under its title, where it has one.
pub fn titled(table: &Table) -> String {
    let head: Vec<&str> = table.head.iter().map(String::as_str).collect();
    let title = if table.title.is_empty() { String::new() } else { format!("{}\n", table.title) };
    format!("{title}{}", self::table(&head, table.left, &table.rows))
}

/// Writes text for people: lines wider than the terminal wrap at spaces.
pub fn text(text: &str) -> Result<()> {
    line(&wrapped(text, width()))
}

/// As [`text`], but on a terminal no more than it has room for: what follows is counted.
pub fn screen(text: &str) -> Result<()> {
    line(&fitting(&wrapped(text, width()), height()))
}

/// The lines that fit, leaving one for the cursor.
fn fitting(text: &str, rows: Option<usize>) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match rows.map(|rows| rows.saturating_sub(1).max(1)) {
        Some(rows) if lines.len() > rows => {
            let shown = rows - 1;
            let more = format!("({} lines more in a higher terminal)", lines.len() - shown);
            lines[..shown].iter().copied().chain([more.as_str()]).collect::<Vec<_>>().join("\n")
        }
        _ => text.to_owned(),
    }
}

/// Clears the terminal before a repeated display.
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
            // The space that ends a line may be just after the width.
            let end = rest.char_indices().nth(width + 1).map_or(rest.len(), |(end, _)| end);
            let from = rest.len() - rest.trim_start().len();
            if from >= end {
                break;
            }
            // A word that is longer than a line stays whole, so that paths and addresses can be copied.
            let inside = rest[from..end].rfind(' ').or_else(|| rest[end..].find(' ').map(|at| end - from + at));
            let Some(at) = inside.map(|at| from + at) else { break };
            lines.push(rest[..at].trim_end().to_owned());
            rest = format!("{indent}{}", rest[at..].trim_start());
        }
        lines.push(rest);
    }
    lines.join("\n")
}

/// A ratio with two decimals, or a dash.
pub fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// Whether the reader of the output has closed it, which is not an error of this program.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind =
        |cause: &(dyn std::error::Error + 'static)| cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    error.chain().any(|cause| kind(cause) == Some(std::io::ErrorKind::BrokenPipe))
        && error.to_string().contains("standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of 67 lines scrolled the important part out of a terminal of 24 lines.
    #[test]
    fn a_screen_has_no_more_lines_than_the_terminal() {
        let text = (1..=30).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        let shown = fitting(&text, Some(24));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            (lines.len(), lines[0], lines[21], lines[22]),
            (23, "1", "22", "(8 lines more in a higher terminal)")
        );
        assert_eq!(fitting(&text, Some(31)), text);
        assert_eq!(fitting(&text, None), text);
    }

    /// Histograms took one line per number.
    #[test]
    fn lists_of_numbers_are_one_line_and_all_else_is_as_it_was() {
        let laid_out = |value: &Value| {
            let mut text = String::new();
            super::laid_out(value, 0, &mut text).unwrap();
            text
        };
        let value = serde_json::json!({
            "a\u{1b}": [[], {}, ["x", 1], [{ "b": null }]], "c": { "d": -0.5, "e": "\n" }, "f": true, "g": [],
        });
        assert_eq!(laid_out(&value), serde_json::to_string_pretty(&value).unwrap());
        let counts = serde_json::json!({ "counts": [1, 2, 3.5] });
        assert_eq!(laid_out(&counts), "{\n  \"counts\": [1,2,3.5]\n}");
    }

    /// `1 power cuts`, `1 lives`, `1 intervals`.
    #[test]
    fn regression_one_of_a_kind_is_no_plural() {
        let said = |number| ["life", "power cut", "recovery", "interval"].map(|name| count(number, name)).join(", ");
        assert_eq!(said(1), "1 life, 1 power cut, 1 recovery, 1 interval");
        assert_eq!(said(2), "2 lives, 2 power cuts, 2 recoveries, 2 intervals");
    }

    #[test]
    fn a_missing_ratio_is_a_dash() {
        assert_eq!(ratio(None), "-");
        assert_eq!(ratio(Some(0.125)), "0.12");
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
