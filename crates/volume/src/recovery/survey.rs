//! What the journal holds: how far it goes, how far it was durable, what was cancelled, and which leaves it needs.

use super::durable::{Durable, Watermarks};
use super::torn::Recorded;
use crate::journal::scan::{ScanEnd, ScanStart};
use crate::layout::page::LEAF_ENTRIES;
use forebay_block::DiskId;
use std::collections::{BTreeMap, BTreeSet};

/// What to do about journal batches that were durable and are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingBatches {
    /// Do not open: which blocks they changed is unknown.
    Refuse,
    /// Do not open where batches are known to be gone, but go on where a part of the journal cannot be read: the operator gives up what may
    /// be there.
    RefuseKnown,
    /// Go on without them, for salvage.
    Skip,
}

impl MissingBatches {
    /// Whether batches that are known to be gone keep the pool from being opened.
    pub fn are_refused(self) -> bool {
        self != Self::Skip
    }
}

/// Where a move took a block from. In this order moves of the same block from the same place lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MovedFrom {
    pub location: u64,
    pub disk: u16,
    pub block: u64,
    pub checksum: u32,
    /// The sequence of the move.
    pub sequence: u64,
}

/// What the journal holds.
pub(super) struct Survey {
    pub start: ScanStart,
    pub end: ScanEnd,
    pub next_sequence: u64,
    /// Batches that were durable.
    pub durable: Durable,
    pub cancelled: BTreeSet<u64>,
    /// Leaves that records name.
    pub leaves: BTreeSet<(u16, u64)>,
    /// By leaf: the most blocks, from the first of the leaf on, that one record clears, and the sequence of that record.
    cleared: BTreeMap<(u16, u64), (u64, u64)>,
    /// Sources of moves in batches not known durable.
    pub moved: BTreeSet<MovedFrom>,
    /// What records say of bands of a tier with parity; empty where there is no parity.
    pub recorded: Recorded,
    pub batches: u64,
    pub holes: u64,
    pub watermark_serial: u64,
    /// A part of the journal that may hold durable batches could not be read.
    pub is_unread: bool,
}

impl Survey {
    /// A survey of which no batch has been read yet.
    pub fn new(start: ScanStart, marks: Watermarks, next_sequence: u64) -> Self {
        Self {
            start,
            end: ScanEnd::default(),
            next_sequence,
            durable: marks.durable,
            cancelled: BTreeSet::new(),
            leaves: BTreeSet::new(),
            cleared: BTreeMap::new(),
            moved: BTreeSet::new(),
            recorded: Recorded::default(),
            batches: 0,
            holes: 0,
            watermark_serial: marks.serial,
            is_unread: false,
        }
    }

    /// Notes the leaves that a run of blocks touches.
    pub fn needs(&mut self, disk: DiskId, block: u64, blocks: u64) {
        let (first, last) = (block / LEAF_ENTRIES as u64, (block + blocks.max(1) - 1) / LEAF_ENTRIES as u64);
        self.leaves.extend((first..=last).map(|leaf| (disk.0, leaf)));
    }

    /// Notes that a record clears a run of blocks.
    pub fn clear(&mut self, disk: DiskId, block: u64, blocks: u64, sequence: u64) {
        if block.is_multiple_of(LEAF_ENTRIES as u64) {
            let cleared = self.cleared.entry((disk.0, block / LEAF_ENTRIES as u64)).or_default();
            *cleared = (*cleared).max((blocks, sequence));
        }
    }

    /// Whether a later move took this block from this place.
    pub fn was_moved_on(&self, location: u64, disk: DiskId, block: u64, checksum: u32, sequence: u64) -> bool {
        let later = |sequence| MovedFrom { location, disk: disk.0, block, checksum, sequence };
        self.moved.range(later(sequence)..=later(u64::MAX)).next().is_some()
    }

    /// Whether a record clears all of a leaf, on a disk of `disk_blocks` blocks: then the page of the leaf is not needed.
    pub fn clears(&self, disk: DiskId, leaf: u64, disk_blocks: u64) -> bool {
        let blocks = disk_blocks.saturating_sub(leaf * LEAF_ENTRIES as u64).min(LEAF_ENTRIES as u64);
        self.cleared
            .get(&(disk.0, leaf))
            .is_some_and(|&(cleared, sequence)| cleared >= blocks && !self.cancelled.contains(&sequence))
    }

    pub fn is_durable(&self, batch: u64) -> bool {
        self.durable.is_durable(batch)
    }
}
