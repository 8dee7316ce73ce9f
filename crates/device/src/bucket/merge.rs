//! A unit that lies in many objects, on its way to be one.

use super::name::Sequence;
use bytes::Bytes;
use std::ops::Range;

/// Parts that are being read.
pub(crate) struct Merge {
    sequence: Sequence,
    start_bytes: u64,
    /// Zeros where nothing shows.
    bytes: Vec<u8>,
    waits: usize,
    has_failed: bool,
}

impl Merge {
    /// So many parts of a range are to come.
    pub(crate) fn new(sequence: Sequence, range: Range<u64>, parts: usize) -> Self {
        let bytes = vec![0; (range.end - range.start) as usize];
        Self { sequence, start_bytes: range.start, bytes, waits: parts, has_failed: false }
    }

    /// Number of the object that is to be.
    pub(crate) fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// A part, which stands there in the range; nothing where it could not be read.
    pub(crate) fn got(&mut self, at: usize, part: Option<&[u8]>) {
        self.waits -= 1;
        let place = part.and_then(|part| self.bytes.get_mut(at..at + part.len()));
        match (place, part) {
            (Some(place), Some(part)) => place.copy_from_slice(part),
            _ => self.has_failed = true,
        }
    }

    /// Whether all parts have come.
    pub(crate) fn is_complete(&self) -> bool {
        self.waits == 0
    }

    /// Number, place and content of the object; nothing where a part could not be read.
    pub(crate) fn into_object(self) -> Option<(Sequence, u64, Bytes)> {
        (!self.has_failed).then(|| (self.sequence, self.start_bytes, Bytes::from(self.bytes)))
    }
}
