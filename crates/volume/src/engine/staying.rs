//! How long what hosts write stays on the fast tier: the policy (`forebay-placement`), and the room that it shares out.

use super::Engine;
use super::leaves::may_destage;
use super::migrate::{STAY_MAX_EPOCHS, epoch_blocks};
use super::setup::Setup;
use super::space::Space;
use forebay_block::{ClassId, DiskId};
use forebay_placement::stay::{GroupLook, Stay, Stays};
use std::ops::Range;

/// Memory of the policy: this part of the limit, at most so many bytes.
const MEMORY_PART: u64 = 256;
const MEMORY_MAX_BYTES: u64 = 4 << 20;

/// Memory of the policy, of a limit.
pub(super) fn memory_bytes(memory_limit_bytes: u64) -> u64 {
    (memory_limit_bytes / MEMORY_PART).min(MEMORY_MAX_BYTES)
}

/// What becomes of a write, as far as its stay is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// How long it stays, in epochs.
    pub epochs: u16,
    /// Its data saves nothing on the fast tier.
    pub passes_by: bool,
}

/// The policy, in the engine's terms.
#[derive(Debug)]
pub(crate) struct Staying {
    stays: Stays,
}

impl Staying {
    /// For the pool of this setup.
    pub fn new(setup: &Setup, memory_limit_bytes: u64) -> Self {
        let slots = setup.superblock.slots;
        let bands = u64::from(setup.extents.bands()) * (u64::from(setup.superblock.band_bytes) / 4096);
        Self { stays: Stays::new(slots, slots + bands, memory_bytes(memory_limit_bytes)) }
    }

    /// A host reads. `now` is the pool's time, blocks that hosts have written; here and below.
    pub fn read(&mut self, disk: DiskId, blocks: Range<u64>, now: u64) {
        self.stays.read(disk.0, blocks.start, blocks.end - blocks.start, now);
    }

    /// What becomes of data of a class that is written from a block on.
    pub fn stay(&mut self, (class, disk, block): (ClassId, DiskId, u64), space: &Space) -> Decision {
        let group = self.stays.group(class.0, disk.0, block);
        match self.stays.stay(group) {
            Stay::Blocks(blocks) => {
                let epochs = (blocks / epoch_blocks(space)).min(STAY_MAX_EPOCHS);
                Decision { epochs: epochs as u16, passes_by: false }
            }
            Stay::PassBy => Decision { epochs: 0, passes_by: true },
        }
    }

    /// A host writes these blocks of a class.
    pub fn written(&mut self, class: ClassId, disk: DiskId, blocks: Range<u64>, now: u64) {
        let group = self.stays.group(class.0, disk.0, blocks.start);
        self.stays.written(disk.0, blocks, group, now);
    }

    /// A host discards these blocks, or writes zeros there.
    pub fn died(&mut self, disk: DiskId, blocks: Range<u64>, now: u64) {
        self.stays.died(disk.0, blocks, now);
    }
}

impl Engine {
    /// Shares the fast tier out anew, where it is time to.
    pub(super) fn share_out_fast_tier(&mut self) {
        let now = self.stats.written_blocks();
        if self.staying.stays.is_due(now) {
            let room = self.room_to_stay();
            self.staying.stays.plan(now, room, std::mem::take(&mut self.migrate.early_blocks));
        }
    }

    /// Slots for data that may be destaged: what it has, and what it may take of those that are free.
    fn room_to_stay(&self) -> u64 {
        let staged = |(class, number): (&forebay_prism::ClassStats, u8)| {
            if may_destage(&self.prism, ClassId(number)) { class.fast_blocks } else { 0 }
        };
        let held: u64 = self.stats.classes.iter().zip(0..).map(staged).sum();
        let passing = self.copies.len() as u64 + self.space.freed.slots();
        let free = self.space.data_slots_free() + passing;
        let used_most = self.space.slots.total() * self.setup.options.destage_above_percent / 100;
        let unused = (used_most + passing).saturating_sub(self.space.slots_used());
        let over = self.space.slots_used().saturating_sub(used_most + passing);
        (held + free.saturating_sub(self.free_slots_wanted()).min(unused)).saturating_sub(over)
    }

    /// What is known of how long data lives and stays, by groups of writes, those with the most first.
    #[must_use]
    pub fn stays(&self) -> Vec<GroupLook> {
        self.staying.stays.look()
    }
}
