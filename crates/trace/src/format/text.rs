//! Reads traces that are texts with an entry per line.

use super::counters::Counters;
use super::fields::Bad;
use super::lines::{LINE_BYTES_MAX, Lines};
use crate::{BATCH_REQUESTS, Faults, Knows, Names, Request, Source, TraceError};
use std::io::Read;

/// Bytes of a bad line that its fault quotes.
const QUOTED_BYTES: usize = 60;

/// Parses the lines of a format.
pub(super) trait LineFormat: Send {
    /// Appends the requests that a line contains or completes.
    ///
    /// # Errors
    /// What is wrong with the line; nothing is appended then.
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad>;

    /// Whether the first line may be a header without information, recognised by a letter at its beginning.
    fn may_have_header(&self) -> bool {
        false
    }

    /// Whether the next valid line names columns, and is no entry.
    fn awaits_header(&self) -> bool {
        false
    }

    /// Whether the last bad line shows that the good ones before it were misread, so that the trace ends there.
    fn is_misread(&self) -> bool {
        false
    }

    /// Appends requests that waited for more lines, at the end of the trace.
    fn end(&mut self, _into: &mut Vec<Request>) {}

    /// Number of events that the text reports as missing.
    fn missing(&self) -> u64 {
        0
    }

    /// The facts that the trace provides.
    fn knows(&self) -> Knows;

    /// As for [`Source`].
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A text being read.
pub(super) struct Text<R> {
    lines: Lines<R>,
    format: Box<dyn LineFormat>,
    counters: Counters,
}

impl<R: Read> Text<R> {
    pub fn new(from: R, name: &'static str, format: Box<dyn LineFormat>) -> Self {
        Self { lines: Lines::new(from, name), format, counters: Counters::of_text(name) }
    }
}

/// Whether a first line is a header.
pub(super) fn is_header(format: &dyn LineFormat, line: &[u8]) -> bool {
    format.may_have_header() && line.first().is_some_and(u8::is_ascii_alphabetic)
}

/// The text of a bad line, shortened.
fn quoted(line: &[u8]) -> String {
    let more = if line.len() > QUOTED_BYTES { "..." } else { "" };
    format!("{}{more}", line[..line.len().min(QUOTED_BYTES)].escape_ascii())
}

impl<R: Read> Source for Text<R> {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        for _ in 0..BATCH_REQUESTS {
            let next = self.lines.next();
            if next.is_err() {
                // An error or the end comes after everything that was waiting.
                self.format.end(into);
            }
            let Some(line) = next? else {
                self.format.end(into);
                self.counters.missing(self.format.missing());
                self.counters.end()?;
                return Ok(false);
            };
            let Some(bytes) = line.bytes else {
                let what = || format!("the line is longer than {LINE_BYTES_MAX} bytes");
                self.counters.bad(line.number, line.offset_bytes, what)?;
                continue;
            };
            if bytes.trim_ascii().is_empty() || line.number == 1 && is_header(&*self.format, bytes) {
                continue;
            }
            let is_entry = !self.format.awaits_header();
            match self.format.line(bytes, into, names) {
                Ok(()) if is_entry => self.counters.good(),
                Ok(()) => {}
                Err(bad) if self.format.is_misread() => {
                    let (format, offset_bytes) = (self.counters.format(), line.offset_bytes);
                    let what = format!("line {}: {bad}", line.number);
                    return Err(TraceError::Malformed { format, what, offset_bytes });
                }
                Err(bad) => {
                    self.counters.bad(line.number, line.offset_bytes, || format!("{bad}: {}", quoted(bytes)))?;
                }
            }
        }
        Ok(true)
    }

    fn faults(&self) -> &Faults {
        self.counters.faults()
    }

    fn knows(&self) -> Knows {
        self.format.knows()
    }

    fn notes(&self) -> Vec<String> {
        self.format.notes()
    }
}
