//! What of a trace could be read: faults, and whether it is a trace of the format at all.

use crate::{Faults, TraceError};

/// So many bad lines or records, and no good one: the file is of another format.
const BAD_FIRST_MAX: u64 = 1000;

/// Counts what is good and what is bad.
pub(super) struct Counters {
    format: &'static str,
    faults: Faults,
    /// Where the first bad one begins, in bytes.
    first_bad_bytes: u64,
}

impl Counters {
    /// Of a text, whose faults are located by line.
    pub fn of_text(format: &'static str) -> Self {
        Self { faults: Faults { by_line: true, ..Faults::default() }, ..Self::of_binary(format) }
    }

    /// Of a binary file, whose faults are located by byte.
    pub fn of_binary(format: &'static str) -> Self {
        Self { format, faults: Faults::default(), first_bad_bytes: 0 }
    }

    /// A line or record could be read.
    #[inline]
    pub fn good(&mut self) {
        self.faults.entries_read += 1;
    }

    /// A line or record could not be read.
    ///
    /// # Errors
    /// `Malformed` where the trace began with so many of them that it can hardly be one of the format.
    #[cold]
    pub fn bad(&mut self, place: u64, offset_bytes: u64, what: impl FnOnce() -> String) -> Result<(), TraceError> {
        if self.faults.count == 0 {
            self.first_bad_bytes = offset_bytes;
        }
        self.faults.note(place, what);
        if self.faults.count >= BAD_FIRST_MAX { self.end() } else { Ok(()) }
    }

    /// So many events are missing, as the trace says itself.
    pub fn missing(&mut self, events: u64) {
        self.faults.missing = events;
    }

    /// The trace is over.
    ///
    /// # Errors
    /// `Malformed` where nothing in it could be read.
    pub fn end(&self) -> Result<(), TraceError> {
        let Some(first) = self.faults.first.first().filter(|_| self.faults.entries_read == 0) else { return Ok(()) };
        Err(TraceError::Malformed {
            format: self.format,
            what: format!("none of the first {} entries is one; {}", self.faults.count, first.what),
            offset_bytes: self.first_bad_bytes,
        })
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}
