//! The merge of a unit that lies in many objects. Each object is read as a whole: its checksum covers all its bytes,
//! and it is deleted afterwards.

use super::name::{Content, ObjectName, Sequence};
use bytes::Bytes;
use forebay_block::checksum::crc32c;
use std::collections::BTreeMap;
use std::ops::Range;

/// A merge in progress.
pub(crate) struct Merge {
    sequence: Sequence,
    /// Range from the first to the last visible byte.
    range: Range<u64>,
    /// The merged content; zeros where nothing is visible.
    bytes: Vec<u8>,
    /// Objects with data, and the ranges where each is visible.
    parts: BTreeMap<Sequence, (ObjectName, Vec<Range<u64>>)>,
    /// Objects that are not requested yet; count and bytes of those being read.
    unread: Vec<ObjectName>,
    reading: usize,
    reading_bytes: u64,
    /// Limit of the bytes being read at once.
    reading_max_bytes: u64,
    has_failed: bool,
}

impl Merge {
    /// Merges these visible parts of a unit into an object with this sequence.
    pub(crate) fn new(sequence: Sequence, shown: &[(Range<u64>, ObjectName)], reading_max_bytes: u64) -> Self {
        let start = shown.first().map_or(0, |(part, _)| part.start);
        let range = start..shown.last().map_or(start, |(part, _)| part.end);
        let mut parts = BTreeMap::<Sequence, (ObjectName, Vec<Range<u64>>)>::new();
        for (part, name) in shown.iter().filter(|(_, name)| matches!(name.content, Content::Data { .. })) {
            parts.entry(name.sequence).or_insert_with(|| (*name, Vec::new())).1.push(part.clone());
        }
        let unread: Vec<ObjectName> = parts.values().map(|(name, _)| *name).collect();
        let len_bytes = if unread.is_empty() { 0 } else { range.end - range.start };
        let bytes = vec![0; len_bytes as usize];
        let (reading, reading_bytes, has_failed) = (0, 0, false);
        Self { sequence, range, bytes, parts, unread, reading, reading_bytes, reading_max_bytes, has_failed }
    }

    /// Sequence of the merged object.
    pub(crate) fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Offset of the merged object on the device.
    pub(crate) fn start_bytes(&self) -> u64 {
        self.range.start
    }

    /// Objects that are not requested yet.
    pub(crate) fn unread(&self) -> &[ObjectName] {
        &self.unread
    }

    /// The next object to read, if the limit allows it.
    pub(crate) fn next(&mut self) -> Option<ObjectName> {
        let name = *self.unread.last()?;
        if self.reading > 0 && self.reading_bytes + name.len_bytes > self.reading_max_bytes {
            return None;
        }
        self.unread.pop();
        self.reading += 1;
        self.reading_bytes += name.len_bytes;
        Some(name)
    }

    /// Takes the whole content of an object.
    pub(crate) fn got(&mut self, name: &ObjectName, content: &[u8]) {
        self.ended(name);
        let Some((_, parts)) = self.parts.get(&name.sequence) else { return };
        for part in parts {
            let from = (part.start - name.start_bytes) as usize..(part.end - name.start_bytes) as usize;
            let to = (part.start - self.range.start) as usize..(part.end - self.range.start) as usize;
            match (self.bytes.get_mut(to), content.get(from)) {
                (Some(to), Some(from)) => to.copy_from_slice(from),
                _ => self.has_failed = true,
            }
        }
    }

    /// An object could not be read, so the merge fails. Returns the objects that need not be read any more.
    pub(crate) fn failed(&mut self, name: &ObjectName) -> Vec<ObjectName> {
        self.ended(name);
        self.has_failed = true;
        std::mem::take(&mut self.unread)
    }

    fn ended(&mut self, name: &ObjectName) {
        self.reading -= 1;
        self.reading_bytes -= name.len_bytes;
    }

    /// Whether no more objects are to be read.
    pub(crate) fn is_complete(&self) -> bool {
        self.reading == 0 && self.unread.is_empty()
    }

    /// The merged object and its content; `None` where an object could not be read.
    pub(crate) fn into_object(self) -> Option<(ObjectName, Vec<Bytes>)> {
        if self.has_failed {
            return None;
        }
        let (start_bytes, len_bytes) = (self.range.start, self.range.end - self.range.start);
        let (content, payload) = match self.parts.is_empty() {
            true => (Content::Zeros, Vec::new()),
            false => (Content::Data { crc: crc32c(&self.bytes) }, vec![Bytes::from(self.bytes)]),
        };
        Some((ObjectName { sequence: self.sequence, start_bytes, len_bytes, content }, payload))
    }
}
