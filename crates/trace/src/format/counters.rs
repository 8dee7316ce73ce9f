//! Counts what could be read of a trace, and checks that it is a trace of the format at all.

use crate::{Faults, TraceError};

/// If this many lines or records are bad and none is good, the file has another format.
const BAD_FIRST_MAX: u64 = 1000;

/// Counts good and bad lines or records.
pub(super) struct Counters {
    format: &'static str,
    faults: Faults,
    /// Byte at which the first bad one begins.
    first_bad_bytes: u64,
}

impl Counters {
    /// Counters for a text, whose faults are located by line.
    pub fn of_text(format: &'static str) -> Self {
        Self { faults: Faults { by_line: true, ..Faults::default() }, ..Self::of_binary(format) }
    }

    /// Counters for a binary file, whose faults are located by byte.
    pub fn of_binary(format: &'static str) -> Self {
        Self { format, faults: Faults::default(), first_bad_bytes: 0 }
    }

    /// Counts a line or record that could be read.
    #[inline]
    pub fn good(&mut self) {
        self.faults.entries_read += 1;
    }

    /// Counts a line or record that could not be read.
    ///
    /// # Errors
    /// `Malformed` if the trace began with so many bad ones that it can hardly have the format.
    #[cold]
    pub fn bad(&mut self, place: u64, offset_bytes: u64, what: impl FnOnce() -> String) -> Result<(), TraceError> {
        if self.faults.count == 0 {
            self.first_bad_bytes = offset_bytes;
        }
        self.faults.note(place, what);
        if self.faults.count >= BAD_FIRST_MAX { self.end() } else { Ok(()) }
    }

    /// Sets the number of missing events, as reported by the trace itself.
    pub fn missing(&mut self, events: u64) {
        self.faults.missing = events;
    }

    /// Checks the counts at the end of the trace.
    ///
    /// # Errors
    /// `Malformed` if nothing could be read.
    pub fn end(&self) -> Result<(), TraceError> {
        let Some(first) = self.faults.first.first().filter(|_| self.faults.entries_read == 0) else { return Ok(()) };
        Err(TraceError::Malformed {
            format: self.format,
            what: format!("none of the first {} entries is one; {}", self.faults.count, first.what),
            offset_bytes: self.first_bad_bytes,
        })
    }

    /// The name of the format.
    pub fn format(&self) -> &'static str {
        self.format
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}
