//! Fast copies of blocks whose class goes to both tiers at once: the record names the capacity tier, reads prefer the
//! copy. Copies are known in memory only: nothing is lost with them, and after a restart they are gone.

use super::outbox::{Outbox, Pending};
use super::setup::Setup;
use crate::layout::page::Entry;
use crate::layout::stream::class_hint;
use crate::space::slots::Slots;
use forebay_block::{ClassId, DiskId, IoError, Op, SharedBuf, Vectored};
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
    /// Slots of copies given up while their write was in flight: they are free when it ends, not before, or it could
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

    /// The slot that a read of a block is best sent to: its copy, where there is one of the same content.
    pub fn slot(&self, disk: DiskId, block: u64, checksum: u32) -> Option<u64> {
        if self.by_block.is_empty() {
            return None;
        }
        let copy = self.by_block.get(&(disk.0, block))?;
        (copy.ready && copy.checksum == checksum).then_some(copy.slot)
    }

    /// A block got a new entry: a copy of something else is of no use any more.
    pub fn superseded(&mut self, disk: DiskId, block: u64, entry: Entry, checksum: u32, slots: &mut Slots) {
        if self.by_block.is_empty() {
            return;
        }
        let key = (disk.0, block);
        let stays = |copy: &Copy| copy.checksum == checksum && matches!(entry, Entry::Data { .. });
        if self.by_block.get(&key).is_some_and(|copy| !stays(copy)) {
            self.give_up(key, slots);
        }
    }

    /// Forgets the copies of blocks: their slots do not hold what they should.
    pub fn forget(&mut self, disk: DiskId, blocks: std::ops::Range<u64>, slots: &mut Slots) {
        blocks.for_each(|block| self.give_up((disk.0, block), slots));
    }

    fn give_up(&mut self, key: (u16, u64), slots: &mut Slots) {
        if let Some(copy) = self.by_block.remove(&key) {
            // No record names the slot: it is free at once. A read in flight finds another checksum and looks again.
            if copy.ready {
                slots.clear(copy.slot);
            } else {
                self.orphans.insert(copy.slot);
            }
        }
    }

    /// Gives up copies for data that has no other place; true where there was one.
    pub fn evict(&mut self, wanted: u64, slots: &mut Slots) -> bool {
        let keys: Vec<_> = self.by_block.keys().take(wanted as usize).copied().collect();
        let any = !keys.is_empty();
        keys.into_iter().for_each(|key| self.give_up(key, slots));
        any
    }

    /// Sends copies of a run that was just sent to the capacity tier, as far as there are slots to spare.
    pub fn write(
        &mut self,
        who: (DiskId, u64, ClassId),
        checksums: &[u32],
        data: &SharedBuf,
        mut spare: u64,
        (setup, slots, outbox): (&Setup, &mut Slots, &mut Outbox),
    ) {
        let (disk, first, class) = who;
        for (i, &checksum) in checksums.iter().enumerate() {
            if spare == 0 || self.len() as u64 >= copies_max(setup.options.memory_limit_bytes) {
                return;
            }
            let Some((slot, _)) = slots.allocate(1) else { return };
            let key = (disk.0, first + i as u64);
            let free = slots.free();
            self.give_up(key, slots);
            spare = spare + (slots.free() - free) - 1;
            self.by_block.insert(key, Copy { slot, checksum, ready: false });
            if let Some((device, offset_bytes)) = setup.extents.place(setup.extents.slot_location(slot)) {
                let bufs = Vectored::One(data.slice(i * BLOCK, BLOCK));
                let pending = Pending::Copy { disk, block: key.1, slot };
                outbox.send(device, offset_bytes, class_hint(class), Op::Write { bufs, fua: false }, pending);
            }
        }
    }

    /// The write of a copy ended.
    pub fn written(&mut self, disk: DiskId, block: u64, slot: u64, result: &Result<(), IoError>, slots: &mut Slots) {
        if self.orphans.remove(&slot) {
            slots.clear(slot);
            return;
        }
        let key = (disk.0, block);
        if let Some(copy) = self.by_block.get_mut(&key).filter(|copy| copy.slot == slot) {
            copy.ready = true;
            if result.is_err() {
                self.give_up(key, slots);
            }
        }
    }
}
