//! Objects on their way to the store.

use super::name::{ObjectName, Sequence};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// One of them.
pub(crate) struct Put {
    pub(crate) name: ObjectName,
    /// Whether it was written by hosts; else it is made of objects.
    pub(crate) is_written: bool,
}

/// All of them, by their counters.
#[derive(Default)]
pub(crate) struct Puts {
    table: BTreeMap<u64, Put>,
    bytes: u64,
}

impl Puts {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// What they carry.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// One is sent.
    pub(crate) fn add(&mut self, put: Put) {
        self.bytes += put.name.stored_bytes();
        self.table.insert(put.name.sequence.counter, put);
    }

    /// One has ended.
    pub(crate) fn remove(&mut self, counter: u64) -> Option<Put> {
        let put = self.table.remove(&counter)?;
        self.bytes -= put.name.stored_bytes();
        Some(put)
    }

    /// Number of the oldest one.
    pub(crate) fn oldest(&self) -> Option<Sequence> {
        self.table.values().next().map(|put| put.name.sequence)
    }

    /// Names of all.
    pub(crate) fn names(&self) -> impl Iterator<Item = &ObjectName> {
        self.table.values().map(|put| &put.name)
    }

    /// Counters of those that hosts have written a part of a range in.
    pub(crate) fn written(&self, range: &Range<u64>) -> BTreeSet<u64> {
        let overlaps = |name: &ObjectName| name.start_bytes < range.end && name.end_bytes() > range.start;
        let written = self.table.iter().filter(|(_, put)| put.is_written && overlaps(&put.name));
        written.map(|(counter, _)| *counter).collect()
    }
}
