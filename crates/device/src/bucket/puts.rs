//! Objects being stored.

use super::name::{ObjectName, Sequence};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// One object being stored.
pub(crate) struct Put {
    pub(crate) name: ObjectName,
    /// Whether hosts wrote its data; otherwise it is the result of a merge.
    pub(crate) is_written: bool,
}

/// All objects being stored, by their counters.
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

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A put begins.
    pub(crate) fn add(&mut self, put: Put) {
        self.bytes += put.name.stored_bytes();
        self.table.insert(put.name.sequence.counter, put);
    }

    /// A put has ended.
    pub(crate) fn remove(&mut self, counter: u64) -> Option<Put> {
        let put = self.table.remove(&counter)?;
        self.bytes -= put.name.stored_bytes();
        Some(put)
    }

    /// Sequence of the oldest one.
    pub(crate) fn oldest(&self) -> Option<Sequence> {
        self.table.values().next().map(|put| put.name.sequence)
    }

    /// Names of all of them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &ObjectName> {
        self.table.values().map(|put| &put.name)
    }

    /// Counters of those that hold hosts' data of a range.
    pub(crate) fn written(&self, range: &Range<u64>) -> BTreeSet<u64> {
        let overlaps = |name: &ObjectName| name.start_bytes < range.end && name.end_bytes() > range.start;
        let written = self.table.iter().filter(|(_, put)| put.is_written && overlaps(&put.name));
        written.map(|(counter, _)| *counter).collect()
    }
}
