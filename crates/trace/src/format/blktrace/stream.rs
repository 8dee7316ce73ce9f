//! Reads the records of one file in chunks.

use super::wire::{MAGIC, RECORD_BYTES, Record, VERSION, byte_order};
use crate::TraceError;
use std::io::{ErrorKind, Read};
use std::ops::Range;

/// Larger than the longest record with its data.
const CHUNK_BYTES: usize = 1 << 20;

/// A part of the file.
pub(super) enum Part<'a> {
    /// A record with its data.
    Record(Record, &'a [u8]),
    /// Number of bytes that are no record.
    Junk(u64),
}

/// Reads records; after invalid bytes, finds the next one.
pub(super) struct Stream<R> {
    from: R,
    chunk: Box<[u8]>,
    filled: Range<usize>,
    /// Byte of the file at which the chunk begins.
    offset_bytes: u64,
    is_over: bool,
    failed: Option<std::io::Error>,
}

impl<R: Read> Stream<R> {
    pub fn new(from: R) -> Self {
        Self {
            from,
            chunk: vec![0; CHUNK_BYTES].into_boxed_slice(),
            filled: 0..0,
            offset_bytes: 0,
            is_over: false,
            failed: None,
        }
    }

    /// The next part, and the byte at which it begins; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(u64, Part<'_>)>, TraceError> {
        self.have(RECORD_BYTES);
        let place = self.place();
        let whole = match self.chunk[self.filled.clone()].first_chunk::<RECORD_BYTES>().and_then(Record::decode) {
            Some(record) => {
                let len = RECORD_BYTES + usize::from(record.data_bytes);
                self.have(len);
                let bytes = &self.chunk[self.filled.clone()];
                // Data is names, messages and ids. If it contains another record, its length is damaged, and only this record is lost.
                let is_whole = bytes
                    .get(RECORD_BYTES..len)
                    .is_some_and(|data| data.len() < RECORD_BYTES || next_magic(data).is_none());
                is_whole.then_some((record, len))
            }
            None => None,
        };
        if let Some((record, len)) = whole {
            let begin = self.filled.start;
            self.filled.start += len;
            return Ok(Some((place, Part::Record(record, &self.chunk[begin + RECORD_BYTES..begin + len]))));
        }
        let junk_bytes = self.pass_junk();
        if junk_bytes > 0 {
            return Ok(Some((place, Part::Junk(junk_bytes))));
        }
        match self.failed.take() {
            Some(source) => Err(TraceError::Read { offset_bytes: self.place(), source }),
            None => Ok(None),
        }
    }

    fn place(&self) -> u64 {
        self.offset_bytes + self.filled.start as u64
    }

    /// Skips at least a byte, up to what looks like the next record.
    fn pass_junk(&mut self) -> u64 {
        let before = self.place();
        self.filled.start = (self.filled.start + 1).min(self.filled.end);
        loop {
            let bytes = &self.chunk[self.filled.clone()];
            if let Some(at) = next_magic(bytes) {
                self.filled.start += at;
                return self.place() - before;
            }
            // Three bytes may be the beginning of a magic number.
            self.filled.start += bytes.len().saturating_sub(3);
            if self.is_over {
                self.filled.start = self.filled.end;
                return self.place() - before;
            }
            self.fill();
        }
    }

    /// Reads until `wanted_bytes` bytes are available, if the file has them.
    fn have(&mut self, wanted_bytes: usize) {
        while self.filled.len() < wanted_bytes && !self.is_over {
            self.fill();
        }
    }

    fn fill(&mut self) {
        self.chunk.copy_within(self.filled.clone(), 0);
        self.offset_bytes += self.filled.start as u64;
        self.filled = 0..self.filled.len();
        match self.from.read(&mut self.chunk[self.filled.end..]) {
            Ok(0) => self.is_over = true,
            Ok(read) => self.filled.end += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => (self.is_over, self.failed) = (true, Some(error)),
        }
    }
}

/// Index of the first magic number in some bytes.
fn next_magic(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four.first_chunk().copied().and_then(byte_order).is_some())
}

/// Whether a file begins like this format, in any version.
pub(in crate::format) fn looks_right(head: &[u8]) -> bool {
    head.first_chunk().is_some_and(|&magic| {
        byte_order(magic).is_some()
            || u32::from_le_bytes(magic) & !0xff == MAGIC && u32::from_le_bytes(magic) & 0xff > VERSION
    })
}
