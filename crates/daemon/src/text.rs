//! Text helpers for messages, and the version of JSON output.

use anyhow::{Context, anyhow, ensure};
pub use forebay_block::figures::{count, size};
use forebay_trace::reading::open_file;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{IsTerminal, Read, Write};
use std::path::Path;

/// Version of the structure of all JSON output.
pub const SCHEMA_VERSION: u32 = 1;

/// Escapes control characters other than newlines: names from traces and devices must not send control sequences to
/// the terminal.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && c != '\n';
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    text.chars().flat_map(|c| if is_bad(c) { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// A JSON object with the schema version first.
#[must_use]
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

/// As [`versioned`], with the command behind the version, so that a stored result shows how it was made.
#[must_use]
pub fn documented(value: Value) -> Value {
    let mut value = versioned(value);
    if let Value::Object(fields) = &mut value {
        fields.shift_insert(1, "command".to_owned(), command().into());
    }
    value
}

/// The command line, with the program's path reduced to its name.
#[must_use]
pub fn command() -> Vec<String> {
    let mut words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(program) = words.first_mut() {
        *program = "forebay".to_owned();
    }
    words
}

/// Formats a time in nanoseconds for people.
#[must_use]
pub fn time(ns: u64) -> String {
    forebay_block::figures::time(ns as f64)
}

/// An error with its causes. A cause that a message already contains is not repeated.
#[must_use]
pub fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    bounded(harmless(&text).into_owned())
}

/// Longest error, in characters.
const ERROR_CHARS_MAX: usize = 4096;

/// An error that repeats what is too long to be read, without its middle: what it is about stands at the beginning, and why at the end.
fn bounded(text: String) -> String {
    let chars = text.chars().count();
    if chars <= ERROR_CHARS_MAX {
        return text;
    }
    let part = ERROR_CHARS_MAX / 2;
    let begin: String = text.chars().take(part).collect();
    let end: String = text.chars().skip(chars - part).collect();
    format!("{begin}[... {} characters are left out ...]{end}", chars - 2 * part)
}

/// Reads a text file of at most `bytes_max` bytes. Also works for files without a known size, such as devices and
/// those in /proc.
///
/// # Errors
/// The file cannot be read, is longer, or is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> anyhow::Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    open_file(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes)).with_context(cannot)?;
    ensure!(
        bytes.len() as u64 <= bytes_max,
        "{} has more than {bytes_max} bytes, the most that are read",
        path.display()
    );
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..at];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let wrong = error.as_bytes().get(at).copied().unwrap_or_default();
        anyhow!("{}:{line}: byte {at} of the file ({wrong:#04x}) is no UTF-8: save it as text in UTF-8", path.display())
    })
}

/// Writes a message to stderr, and ignores that nobody may read it.
pub fn complain(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "forebay: {text}");
}

/// Whether stderr may carry colours: it is a terminal, and NO_COLOR is not set (<https://no-color.org>).
#[must_use]
pub fn colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && std::io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: `class import /dev/zero` used up all memory.
    #[test]
    fn endless_files_are_not_read_to_their_end() {
        let error = read_text(Path::new("/dev/zero"), 1000).unwrap_err().to_string();
        assert!(error.contains("/dev/zero has more than 1000 bytes"), "{error}");
        assert!(read_text(Path::new("/proc/self/status"), 1 << 20).unwrap().contains("Name:"));
        assert!(read_text(Path::new("/proc/self/absent"), 1).is_err());
    }

    /// What somebody had written was repeated as a whole, whatever its length.
    #[test]
    fn regression_an_error_has_a_bounded_length() {
        let error = anyhow::anyhow!("it is too long").context(format!("rule {}", "\u{e4}".repeat(200_000)));
        let text = chain(&error);
        assert!(text.starts_with("rule \u{e4}") && text.ends_with(": it is too long"), "{text}");
        assert!(
            text.chars().count() < 4200 && text.contains("195925 characters are left out"),
            "{}",
            text.chars().count()
        );
    }

    /// "stream did not contain valid UTF-8", and nothing of where.
    #[test]
    fn regression_what_is_no_utf_8_is_said_with_its_place() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"one\ntw\xe4\n").unwrap();
        let error = read_text(file.path(), 100).unwrap_err().to_string();
        assert!(error.contains(":2: byte 6 of the file (0xe4) is no UTF-8"), "{error}");
    }

    #[test]
    fn causes_are_said_once() {
        let error = anyhow::anyhow!("no such file").context("cannot open x: no such file").context("target x");
        assert_eq!(chain(&error), "target x: cannot open x: no such file");
    }
}
