//! Where the blocks of a write go: class, policy, and how full the tiers are.

use super::{ClassStats, Engine};
use crate::layout::page::LEAF_ENTRIES;
use crate::map::index::{Disk, INDEX_SPAN_BYTES};
use forebay_block::ClassId;
use forebay_prism::Place;
use smallvec::SmallVec;

/// Shortest sequential stream that goes past the fast tier, in blocks: 64 MiB.
const STREAM_MIN_BLOCKS: u64 = 16_384;
/// Writes in flight on the fast device from which on it is saturated: the knee of an Optane-class drive lies near 6, and
/// each write has a journal batch beside it.
const FAST_QUEUE: u32 = 16;

/// Runs of (location, blocks).
pub(crate) type Runs = SmallVec<[(u64, u32); 2]>;

impl Engine {
    /// Slots kept for map pages: a checkpoint writes every dirty page to a new place before the old one is free.
    pub(crate) fn meta_reserve(&self) -> u64 {
        let pages: u64 = self.disks.values().map(|d| d.size_bytes.div_ceil(INDEX_SPAN_BYTES)).sum();
        let leaves: u64 = self.disks.values().map(|d| d.blocks().div_ceil(LEAF_ENTRIES as u64)).sum();
        // What is dirtied before a checkpoint, and what while it is written; each leaf is written once in a checkpoint.
        ((2 * self.dirty_limit() as u64).min(leaves) + pages + 16).min(self.slots.total() / 2)
    }

    /// Slots that the map could still grow into, as far as half of the tier goes: data that lives on the fast tier must
    /// not take them, or blocks written for the first time would find no page although there is room for them.
    pub(crate) fn map_growth(&self) -> u64 {
        let missing: u64 = self.disks.values().map(Disk::leaves_missing).sum();
        missing.min((self.slots.total() / 2).saturating_sub(self.meta_reserve()))
    }

    /// Slots that the map of the disks as they are now may need and cannot get, because data is there that stays.
    pub(crate) fn slots_missing_for_map(&self) -> u64 {
        let on_fast: u64 = self.stats.iter().map(|class| class.fast_blocks).sum();
        let stays = |(class, number): (&ClassStats, u8)| match self.prism.table().get(ClassId(number)) {
            Some(spec) if spec.place == Place::Fast => class.fast_blocks,
            _ => 0,
        };
        let staying: u64 = self.stats.iter().zip(0..).map(stays).sum();
        // What is only passing through: copies that can be dropped, and slots that are about to be free.
        let passing = self.copies.len() as u64 + self.freed.slots() + self.checkpoint.slots_held();
        let pages = (self.slots.total() - self.slots.free()).saturating_sub(on_fast + passing);
        let wanted = pages + staying + self.meta_reserve() + self.map_growth();
        wanted.saturating_sub(self.slots.total())
    }

    /// Keeps slots back for the map as the disks are now.
    pub(crate) fn reserve_for_map(&mut self) {
        self.checkpoint.reserve = self.meta_reserve();
        self.checkpoint.growth = self.map_growth();
    }

    /// Slots that new map pages may still take: free ones less those that the map needs to be written at all.
    fn page_slots_free(&self) -> u64 {
        self.slots.free().saturating_sub(self.checkpoint.reserve + self.checkpoint.new_leaves)
    }

    /// Slots that data may still take: less those that the map may grow into, too.
    pub(crate) fn data_slots_free(&self) -> u64 {
        self.page_slots_free().saturating_sub(self.checkpoint.growth.saturating_sub(self.checkpoint.new_leaves))
    }

    /// Whether the leaf in a frame would need a page of its own and there is no slot for it, also not in place of copies.
    pub(crate) fn lacks_page_slot(&mut self, frame: u32) -> bool {
        if self.frames.get(frame).dirty || !self.is_new_leaf(frame) {
            return false;
        }
        let needed = self.executing as u64 + 1;
        let missing = needed.saturating_sub(self.page_slots_free());
        missing > 0 && !(self.evict_copies(missing) && self.page_slots_free() >= needed)
    }

    /// Blocks of data that there is space for now, on both tiers.
    pub(crate) fn room(&self) -> u64 {
        self.data_slots_free() + self.bands.room(false)
    }

    /// Whether there is space for `blocks` blocks now. A write that cannot have all it needs must not take a part: what it
    /// gives back of a band is lost until that is collected, and so it would eat what collection frees for it, again and
    /// again.
    pub(crate) fn has_room(&mut self, blocks: u64) -> bool {
        let missing = blocks.saturating_sub(self.room());
        // Copies are not given up for a write that would have to wait all the same.
        if missing > 0 && missing <= self.copies.len() as u64 {
            self.evict_copies(missing);
        }
        self.room() >= blocks
    }

    /// Takes space for `blocks` blocks of a class. `None`: there is none now; what was taken is given back.
    pub(crate) fn take_space(&mut self, class: ClassId, blocks: u32, streams: bool) -> Option<Runs> {
        self.space_changed = true;
        let mut runs = Runs::new();
        let fast_first = self.prefers_fast(class, blocks, streams);
        let mut left = blocks;
        for fast in [fast_first, !fast_first] {
            while left > 0 {
                let Some((location, got)) = (if fast { self.take_slots(left) } else { self.take_band(class, left) })
                else {
                    break;
                };
                runs.push((location, got));
                left -= got;
            }
        }
        if left == 0 {
            return Some(runs);
        }
        self.give_back(&runs);
        None
    }

    /// Gives back what was never written. Band space is appended only, so it is lost until the band is collected.
    pub(crate) fn give_back(&mut self, runs: &[(u64, u32)]) {
        for &(location, blocks) in runs {
            if self.extents.is_fast(location) {
                let slot = self.extents.slot(location);
                (slot..slot + u64::from(blocks)).for_each(|slot| {
                    self.slots.clear(slot);
                });
            } else {
                self.settle(location, blocks);
            }
        }
    }

    fn take_slots(&mut self, wanted: u32) -> Option<(u64, u32)> {
        if self.data_slots_free() == 0 && !self.evict_copies(u64::from(wanted)) {
            return None;
        }
        let wanted = u64::from(wanted).min(self.data_slots_free());
        let (slot, got) = self.slots.allocate(wanted)?;
        self.slots_taken += got;
        Some((self.extents.slot_location(slot), got as u32))
    }

    fn take_band(&mut self, class: ClassId, wanted: u32) -> Option<(u64, u32)> {
        let grant = self.bands.grant(class.0, wanted)?;
        if self.bands.has_due() {
            self.checkpoint.summaries_due = true;
        }
        Some((self.extents.band_location(grant.band, grant.first), grant.blocks))
    }

    /// Whether so many blocks more of a class are within its share of the fast tier.
    pub(crate) fn has_share(&self, class: ClassId, blocks: u64) -> bool {
        let share = self.prism.table().get(class).map_or(1.0, |spec| spec.share);
        let held = self.stats.get(usize::from(class.0)).map_or(0, |s| s.fast_blocks) + blocks;
        share >= 1.0 || held as f64 <= share * self.slots.total().max(1) as f64
    }

    /// A sequential stream of so many blocks goes past the fast tier: it is nobody's log or table any more.
    pub(crate) fn stream_min_blocks(&self) -> u64 {
        (self.slots.total() / 8).max(STREAM_MIN_BLOCKS)
    }

    /// Whether the fast device is the slower one now: more of the hosts' writes wait there than it takes at once, and more
    /// than on the capacity tier.
    fn fast_is_behind(&self) -> bool {
        let [fast, capacity] = self.writes_in_flight;
        fast >= FAST_QUEUE && capacity < fast
    }

    /// Whether a write of this class goes to the fast tier first. Long sequential streams do not, nor does what would wait
    /// there for longer. Below a threshold of free slots a growing share of staged writes goes past it, so that the pool
    /// slows down in proportion and never stops.
    fn prefers_fast(&mut self, class: ClassId, blocks: u32, streams: bool) -> bool {
        let Some(spec) = self.prism.table().get(class) else {
            return true;
        };
        let (place, total) = (spec.place, self.slots.total().max(1));
        if !self.has_share(class, u64::from(blocks)) {
            self.counters.spilled_blocks += u64::from(blocks);
            return false;
        }
        match place {
            Place::Fast => true,
            Place::Capacity | Place::Both => false,
            Place::Stage if streams || self.fast_is_behind() => false,
            Place::Stage => {
                // Half of what should be free for hosts is gone: destage does not keep up.
                let threshold =
                    (total * self.options.bypass_below_percent / 100).min(self.free_slots_wanted().div_ceil(2));
                let free = self.data_slots_free();
                if free >= threshold || threshold == 0 {
                    return true;
                }
                // Error diffusion instead of chance: deterministic, and exact over any stretch of writes.
                self.checkpoint.bypass_debt += u64::from(blocks) * (threshold - free);
                let due = u64::from(blocks) * threshold;
                if self.checkpoint.bypass_debt >= due {
                    self.checkpoint.bypass_debt -= due;
                    return false;
                }
                true
            }
        }
    }
}
