//! Fast copies of blocks whose class goes to both tiers at once: the record names the capacity tier, reads prefer the
//! copy. Copies are known in memory only: nothing is lost with them, and after a restart they are gone.

use super::{Engine, Pending};
use crate::layout::page::Entry;
use crate::space::bands::stream_hint;
use forebay_block::{ClassId, DiskId, IoError, Op, SharedBuf, Vectored};
use forebay_prism::Place;
use std::collections::{BTreeMap, BTreeSet};

const BLOCK: usize = 4096;
/// One copy for this many bytes of the memory limit: 1 GiB allows 1 GiB of copies, for about 16 MiB of index.
const MEMORY_BYTES_PER_COPY: u64 = 4096;
/// Bytes of the index per copy, for the sharing out of memory.
pub(crate) const INDEX_BYTES_PER_COPY: u64 = 64;

/// Most copies that a memory limit allows.
pub(crate) fn copies_max(memory_limit_bytes: u64) -> u64 {
    memory_limit_bytes / MEMORY_BYTES_PER_COPY
}

#[derive(Clone, Copy, Debug)]
struct Copy {
    slot: u64,
    checksum: u32,
    /// Its data has arrived.
    ready: bool,
}

/// All copies, by disk and block.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    by_block: BTreeMap<(u16, u64), Copy>,
    /// Slots of copies given up while their write was under way: they are free when it ends, not before, or it could
    /// fall upon somebody else's data.
    orphans: BTreeSet<u64>,
}

impl Copies {
    /// Slots that copies hold.
    pub fn slots(&self) -> impl Iterator<Item = u64> + '_ {
        self.by_block.values().map(|copy| copy.slot).chain(self.orphans.iter().copied())
    }

    /// Number of copies.
    pub fn len(&self) -> usize {
        self.by_block.len()
    }
}

impl Engine {
    /// Where a read of a block is best sent: to its copy, where there is one of the same content.
    pub(crate) fn prefer_copy(&self, disk: DiskId, block: u64, location: u64, checksum: u32) -> u64 {
        if self.copies.by_block.is_empty() {
            return location;
        }
        match self.copies.by_block.get(&(disk.0, block)) {
            Some(copy) if copy.ready && copy.checksum == checksum => self.extents.slot_location(copy.slot),
            _ => location,
        }
    }

    /// A block got a new entry: a copy of something else is of no use any more.
    pub(crate) fn copy_superseded(&mut self, disk: DiskId, block: u64, entry: Entry, checksum: u32) {
        if self.copies.by_block.is_empty() {
            return;
        }
        let key = (disk.0, block);
        let stays = |copy: &Copy| copy.checksum == checksum && matches!(entry, Entry::Data { .. });
        if self.copies.by_block.get(&key).is_some_and(|copy| !stays(copy)) {
            self.drop_copy(key);
        }
    }

    /// Forgets the copy of a block (its slot does not hold what it should).
    pub(crate) fn forget_copy(&mut self, disk: DiskId, block: u64) {
        self.drop_copy((disk.0, block));
    }

    fn drop_copy(&mut self, key: (u16, u64)) {
        if let Some(copy) = self.copies.by_block.remove(&key) {
            // No record names the slot: it is free at once. A read under way finds another checksum and looks again.
            if copy.ready {
                self.slots.clear(copy.slot);
            } else {
                self.copies.orphans.insert(copy.slot);
            }
        }
    }

    /// Gives up copies for data that has no other place; true where there was one.
    pub(crate) fn evict_copies(&mut self, wanted: u64) -> bool {
        let keys: Vec<_> = self.copies.by_block.keys().take(wanted as usize).copied().collect();
        let any = !keys.is_empty();
        keys.into_iter().for_each(|key| self.drop_copy(key));
        any
    }

    /// Whether writes of a class go to both tiers.
    pub(crate) fn goes_to_both(&self, class: ClassId) -> bool {
        self.prism.table().get(class).is_some_and(|spec| spec.place == Place::Both)
    }

    /// Sends copies of a run that was just sent to the capacity tier, as far as there is room to spare.
    pub(crate) fn copy_run(&mut self, who: (DiskId, u64), class: ClassId, checksums: &[u32], data: &SharedBuf) {
        let (disk, first) = who;
        let threshold = self.slots.total() * self.options.bypass_below_percent / 100;
        for (i, &checksum) in checksums.iter().enumerate() {
            let room = self.data_slots_free() > threshold;
            if !room || self.copies.len() as u64 >= copies_max(self.options.memory_limit_bytes) {
                return;
            }
            let Some((slot, _)) = self.slots.allocate(1) else { return };
            let key = (disk.0, first + i as u64);
            self.drop_copy(key);
            self.copies.by_block.insert(key, Copy { slot, checksum, ready: false });
            if let Some((device, offset_bytes)) = self.extents.place(self.extents.slot_location(slot)) {
                let bufs = Vectored::One(data.slice(i * BLOCK, BLOCK));
                let pending = Pending::Copy { disk, block: key.1, slot };
                self.command(device, offset_bytes, stream_hint(class.0), Op::Write { bufs, fua: false }, pending);
            }
        }
    }

    pub(crate) fn copy_written(&mut self, disk: DiskId, block: u64, slot: u64, result: Result<(), IoError>) {
        if self.copies.orphans.remove(&slot) {
            self.slots.clear(slot);
            return;
        }
        let key = (disk.0, block);
        if let Some(copy) = self.copies.by_block.get_mut(&key).filter(|copy| copy.slot == slot) {
            copy.ready = true;
            if result.is_err() {
                self.drop_copy(key);
            }
        }
    }
}
