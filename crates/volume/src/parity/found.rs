//! Rows that were open when the array was last served: what the log says of them, and which of their blocks can be used. They are made
//! whole before anything is written.

use super::code::Code;
use crate::layout::array_label::ArrayLabel;
use crate::layout::array_shape::{SLOT_BYTES, Shape};
use crate::layout::parity_entry::ParityEntry;
use forebay_block::checksum::content_checksum;
use std::collections::{BTreeMap, BTreeSet};

/// A state of a row by the log: entries with the same checksums, and as many blocks of parity as could be read.
#[derive(Debug)]
struct Version {
    sequence: u64,
    covered: u32,
    checksums: Vec<u32>,
    parity: Vec<Option<Vec<u8>>>,
}

/// What the log has of a row.
#[derive(Debug, Default)]
struct Row {
    /// The newest first.
    versions: Vec<Version>,
    /// Its places, each with the number of the newest entry there.
    slots: BTreeMap<u32, u64>,
}

/// Rows that may have been open.
#[derive(Debug, Default)]
pub(super) struct FoundRows {
    rows: BTreeMap<u64, Row>,
    /// The highest sequence of an entry.
    pub newest: u64,
    /// Places whose contents are unknown: they could not be read, and the member cannot be spared; or a cache may show them as erased
    /// although it has lost the erasure with a failed flush.
    pub unsure: BTreeSet<u32>,
}

impl FoundRows {
    /// Takes in what was read of the log of a member, from a place on.
    pub fn take(&mut self, (first, log): (u32, &[u8]), label: &ArrayLabel, member: usize) {
        let shape = &label.shape;
        for (slot, bytes) in (first..).zip(log.chunks_exact(SLOT_BYTES as usize)) {
            let Some(entry) = ParityEntry::decode(bytes, label, member) else { continue };
            self.newest = self.newest.max(entry.sequence);
            let row = self.rows.entry(entry.row).or_default();
            let newest = row.slots.entry(slot).or_default();
            *newest = entry.sequence.max(*newest);
            let at = row.versions.partition_point(|version| version.sequence > entry.sequence);
            let is_known = row.versions.get(at).is_some_and(|version| version.sequence == entry.sequence);
            if !is_known {
                let parity = (0..shape.parity).map(|_| None).collect();
                let ParityEntry { sequence, covered, checksums, .. } = &entry;
                let version = Version { sequence: *sequence, covered: *covered, checksums: checksums.clone(), parity };
                row.versions.insert(at, version);
            }
            if row.versions[at].checksums == entry.checksums {
                row.versions[at].parity[usize::from(entry.number)] = Some(entry.parity);
            }
        }
    }

    /// Places of the log that are in use.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        // One place may have been given to several rows, on several members.
        let of_rows = self.rows.values().flat_map(|row| row.slots.keys().copied());
        of_rows.collect::<BTreeSet<u32>>().into_iter()
    }

    /// The first row.
    pub fn first(&self) -> Option<u64> {
        self.rows.keys().next().copied()
    }

    /// Whether something is known of a row.
    pub fn has(&self, row: u64) -> bool {
        self.rows.contains_key(&row)
    }

    /// Whether no row is left.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Forgets a row whose entries nobody needs any more. Returns its places in the order in which they are to be erased, as no older entry
    /// may outlive a newer one. One place may be of several rows, on different members.
    pub fn forget(&mut self, row: u64) -> Vec<u32> {
        let Some(row) = self.rows.remove(&row) else { return Vec::new() };
        let mut slots: Vec<(u64, u32)> = row.slots.into_iter().map(|(slot, newest)| (newest, slot)).collect();
        slots.sort_unstable();
        slots.into_iter().map(|(_, slot)| slot).collect()
    }

    /// What the log knows of the data of a row, given what was read of its blocks.
    pub fn known(&self, row: u64, code: &Code, shape: &Shape, read: &[Option<Vec<u8>>]) -> Vec<Option<Vec<u8>>> {
        let versions = self.rows.get(&row).map_or(&[][..], |row| &row.versions);
        let known = versions.iter().find_map(|version| version.restore(code, shape, read));
        known.unwrap_or_else(|| vec![None; shape.data])
    }

    /// Whether the newest state that the log has of a row can be restored from what was read.
    pub fn has_newest(&self, row: u64, code: &Code, shape: &Shape, read: &[Option<Vec<u8>>]) -> bool {
        let newest = self.rows.get(&row).and_then(|row| row.versions.first());
        newest.is_some_and(|version| version.restore(code, shape, read).is_some())
    }

    /// The data of a row, from what was read of its blocks by their roles. For blocks that the log covers the log decides; of the others
    /// what was read counts, and where that is missing, what the row's own parity says. `None`: unknown.
    pub fn data(&self, row: u64, code: &Code, shape: &Shape, read: &[Option<Vec<u8>>]) -> Vec<Option<Vec<u8>>> {
        let mut data = self.known(row, code, shape, read);
        let mut all = read.to_vec();
        let is_open = data.iter().zip(read).any(|(known, read)| known.is_none() && read.is_none());
        let is_restored = is_open && code.restore(&mut all);
        for (at, block) in data.iter_mut().enumerate() {
            if block.is_none() {
                *block = read[at].clone().or_else(|| all[at].take().filter(|_| is_restored));
            }
        }
        data
    }
}

impl Version {
    /// The blocks that it covers, if all of them match its checksums.
    fn restore(&self, code: &Code, shape: &Shape, read: &[Option<Vec<u8>>]) -> Option<Vec<Option<Vec<u8>>>> {
        let is_covered = |at: usize| self.covered & 1 << at != 0;
        let len_bytes = read.iter().flatten().next().map_or(0, Vec::len);
        let mut blocks: Vec<Option<Vec<u8>>> = (0..shape.data)
            .map(|at| match is_covered(at) {
                true => read[at].clone().filter(|block| content_checksum(block) == self.checksums[at]),
                false => Some(vec![0; len_bytes]),
            })
            .collect();
        if blocks.iter().any(Option::is_none) {
            blocks.extend(self.parity.iter().cloned());
            if !code.restore(&mut blocks) {
                return None;
            }
            blocks.truncate(shape.data);
        }
        let is_good = |(at, block): (usize, &Option<Vec<u8>>)| {
            !is_covered(at) || block.as_ref().is_some_and(|block| content_checksum(block) == self.checksums[at])
        };
        if !blocks.iter().enumerate().all(is_good) {
            return None;
        }
        Some(blocks.into_iter().enumerate().map(|(at, block)| block.filter(|_| is_covered(at))).collect())
    }
}
