//! A unit that lies in many objects, on its way to be one. Each of them is read as a whole, for its checksum is that of all its bytes, and
//! it will be deleted.

use super::name::{Content, ObjectName, Sequence};
use bytes::Bytes;
use forebay_block::checksum::crc32c;
use std::collections::BTreeMap;
use std::ops::Range;

/// Objects that are being read.
pub(crate) struct Merge {
    sequence: Sequence,
    /// From the first to the last byte that shows.
    range: Range<u64>,
    /// Zeros where nothing shows.
    bytes: Vec<u8>,
    /// Those with data, and where each of them shows.
    parts: BTreeMap<Sequence, (ObjectName, Vec<Range<u64>>)>,
    /// Those that are not asked for yet, and bytes of those that are.
    unread: Vec<ObjectName>,
    reading: usize,
    reading_bytes: u64,
    /// So many are asked for at once.
    reading_max_bytes: u64,
    has_failed: bool,
}

impl Merge {
    /// Of these parts of a unit, and as this object.
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

    /// Number of the object that is to be.
    pub(crate) fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Where it begins.
    pub(crate) fn start_bytes(&self) -> u64 {
        self.range.start
    }

    /// Those that are not asked for yet.
    pub(crate) fn unread(&self) -> &[ObjectName] {
        &self.unread
    }

    /// The next one to ask for, if there is room for it.
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

    /// One has come, as a whole.
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

    /// One could not be read: the others need not be. Those that are not asked for.
    pub(crate) fn failed(&mut self, name: &ObjectName) -> Vec<ObjectName> {
        self.ended(name);
        self.has_failed = true;
        std::mem::take(&mut self.unread)
    }

    fn ended(&mut self, name: &ObjectName) {
        self.reading -= 1;
        self.reading_bytes -= name.len_bytes;
    }

    /// Whether nothing more is to come.
    pub(crate) fn is_complete(&self) -> bool {
        self.reading == 0 && self.unread.is_empty()
    }

    /// The object and what it holds; nothing where one could not be read.
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
