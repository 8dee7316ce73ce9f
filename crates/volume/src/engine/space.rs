//! Space on both tiers: what may be allocated, what is given back, and when it is free again.

use super::copies::{Copies, GIVEN_UP_AT_ONCE};
use super::lifetimes::{Arrival, Lifetimes};
use super::pace::Pace;
use super::setup::Setup;
use super::{Freed, FreedQueue};
use crate::layout::band_summary::SummaryEntry;
use crate::layout::page::{BLOCK_GRAINS, Span};
use crate::layout::stream::{Lifetime, Stream};
use crate::space::bands::{Bands, Grant};
use crate::space::fitting::Wanted;
use crate::space::open_bands::low;
use crate::space::slots::Slots;
use forebay_block::ClassId;
use smallvec::SmallVec;
use std::sync::Arc;

/// Part of the slots that is kept free for a map that grows. More comes from data that may be destaged.
const GROWTH_PART: u64 = 64;

/// Blocks that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First grain.
    pub location: u64,
    /// Blocks.
    pub blocks: u32,
    /// Blocks of the device that they take: fewer where they are compressed.
    pub device_blocks: u32,
}

impl Run {
    fn whole(location: u64, blocks: u32) -> Self {
        Self { location, blocks, device_blocks: blocks }
    }
}

pub(crate) type Runs = SmallVec<[Run; 2]>;

/// Slots and bands.
pub(crate) struct Space {
    setup: Arc<Setup>,
    pub slots: Slots,
    pub bands: Bands,
    /// Which lifetime group the data of bands is in.
    pub lifetimes: Lifetimes,
    /// How fast hosts may use up bands.
    pub pace: Pace,
    /// Space to be freed, by batch.
    pub freed: FreedQueue,
    /// Slots of writes whose records may or may not be on the device: a batch could not be written.
    pub lost: Vec<Freed>,
    /// Space was allocated or freed since migration last looked whether a job is due.
    pub changed: bool,
    /// Dirty leaves that have no page on the device yet: each will take a slot for good.
    pub new_leaves: u64,
    /// Slots kept for pages, and those that may have to be kept from the next checkpoint on.
    reserve: u64,
    reserve_next: u64,
    /// Slots that the map may still grow into.
    growth: u64,
    /// Data of classes that are kept on the fast tier stays there. False while such data leaves the map no slots to
    /// grow into.
    pub pins: bool,
    /// Data that stays leaves room for the slots that may have to be kept for pages from the next checkpoint on.
    pub may_keep_more: bool,
    /// Slots that writes have taken since the start.
    slots_taken: u64,
    /// Grains of bands that the map has ceased to name since the start.
    died_grains: u64,
}

impl Space {
    /// Space as these tables have it.
    pub fn new(setup: Arc<Setup>, slots: Slots, bands: Bands, lifetimes: Lifetimes) -> Self {
        Self {
            setup,
            slots,
            bands,
            lifetimes,
            pace: Pace::default(),
            freed: FreedQueue::default(),
            lost: Vec::new(),
            changed: true,
            new_leaves: 0,
            reserve: 0,
            reserve_next: 0,
            growth: 0,
            pins: true,
            may_keep_more: true,
            slots_taken: 0,
            died_grains: 0,
        }
    }

    /// Keeps slots for the map: to write it at all, now and from the next checkpoint on, and to grow.
    pub fn keep_for_map(&mut self, [reserve, reserve_next]: [u64; 2], growth: u64) {
        (self.reserve, self.reserve_next, self.growth) = (reserve, reserve_next, growth);
    }

    /// Slots in use.
    pub fn slots_used(&self) -> u64 {
        self.slots.total() - self.slots.free()
    }

    /// Grains of bands that the map has ceased to name since the start.
    pub fn died_grains(&self) -> u64 {
        self.died_grains
    }

    /// Slots in use that will not be freed soon.
    pub fn slots_kept(&self) -> u64 {
        self.slots_used().saturating_sub(self.freed.slots())
    }

    /// Slots that writes have taken since the start.
    pub fn slots_taken(&self) -> u64 {
        self.slots_taken
    }

    /// Slots that new map pages may still take: free ones less those that the map needs to be written at all.
    pub fn page_slots_free(&self) -> u64 {
        self.slots.free().saturating_sub(self.kept_for_pages())
    }

    fn kept_for_pages(&self) -> u64 {
        self.reserve + self.new_leaves
    }

    /// Slots that data may still take: those into which the map is about to grow are kept, too.
    pub fn data_slots_free(&self) -> u64 {
        self.slots.free().saturating_sub(self.kept_for_map())
    }

    fn kept_for_map(&self) -> u64 {
        self.kept_for_pages() + self.growth_left().min(self.growth_kept())
    }

    /// Most slots that are kept free for a map that grows.
    pub fn growth_kept(&self) -> u64 {
        self.slots.total() / GROWTH_PART
    }

    fn growth_left(&self) -> u64 {
        self.growth.saturating_sub(self.new_leaves)
    }

    /// Slots that data may take which does not leave them, where destage can free `may_leave` others: all that the map may grow into has to be free, or to be
    /// freed by destage.
    fn slots_to_stay_in(&self, may_leave: u64) -> u64 {
        let kept = self.reserve_next + self.new_leaves + self.growth_left();
        (self.slots.free() + self.freed.slots() + may_leave).saturating_sub(kept)
    }

    /// Slots that have to be given up before data finds one, at most as many as are given up at once: a disk that was added may want a large part of the tier.
    fn missing_for_map(&self) -> u64 {
        self.kept_for_map().saturating_sub(self.slots.free()).min(GIVEN_UP_AT_ONCE)
    }

    /// Gives up copies in whose place the map may grow, at most as many as are given up at once; false where there was
    /// nothing to give up.
    pub fn give_up_for_map(&mut self, copies: &mut Copies) -> bool {
        let missing = self.missing_for_map();
        missing > 0 && copies.evict(missing, &mut self.slots) > 0
    }

    /// Free bands below which collection is due.
    pub fn low_bands(&self) -> usize {
        low(self.bands.count(), self.bands.data_blocks(), self.setup.limits.blocks_in_jobs())
    }

    /// Blocks of data for which there is space on both tiers, if so many copies were given up. Bands count as full while they are left to collection.
    /// `may_leave`: `Some` where some of the data does not leave its slots again, with the number of slots whose data or copies do.
    pub fn room(&self, given_up: u64, may_leave: Option<u64>) -> u64 {
        let slots = (self.slots.free() + given_up).saturating_sub(self.kept_for_map());
        let most = may_leave.map_or(u64::MAX, |may_leave| self.slots_to_stay_in(may_leave));
        slots.min(most) + if self.pace.is_closed() { 0 } else { self.bands.room(false) }
    }

    /// Whether there is space now for so many blocks: `most` or, where these do not fit, those that `count` returns. Copies are given up for them where that
    /// suffices. `may_leave` as in [`Self::take`]. A write that cannot have all that it needs must not take a part: what it gives back of a band is lost until
    /// the band is collected, and so it would use up what collection frees for it, again and again.
    pub fn has_room(
        &mut self,
        (most, count): (u64, impl FnOnce() -> u64),
        may_leave: Option<u64>,
        copies: &mut Copies,
    ) -> bool {
        let held = copies.slots_held();
        let may_leave = may_leave.map(|may_leave| may_leave + held);
        if self.room(0, may_leave) >= most {
            return true;
        }
        let blocks = count();
        let missing = blocks.saturating_sub(self.room(0, None));
        // Copies are not given up for a write that would have to wait all the same, nor for one that waits for collection.
        if missing > 0 && !self.pace.is_closed() && self.room(held, may_leave) >= blocks {
            let given_up = copies.evict(missing + self.missing_for_map(), &mut self.slots);
            return self.room(0, may_leave.map(|may_leave| may_leave.saturating_sub(given_up))) >= blocks;
        }
        self.room(0, may_leave) >= blocks
    }

    /// Whether there is a slot for the page of one more leaf beside `executing` others. Copies are given up for it if
    /// need be.
    pub fn has_page_slot(&mut self, executing: u64, copies: &mut Copies) -> bool {
        let needed = executing + 1;
        let missing = (self.kept_for_pages() + needed).saturating_sub(self.slots.free());
        if missing > 0 {
            copies.evict(missing.min(GIVEN_UP_AT_ONCE), &mut self.slots);
        }
        self.page_slots_free() >= needed
    }

    /// Allocates space for data that arrives, of a class, on the preferred tier as far as that goes. Returns it with the lifetime of what goes to bands.
    /// `sizes` returns how many grains each block takes in a band, from a given block on; empty: all are stored uncompressed. `may_leave`: `Some` for data that
    /// does not leave its slots again, with the number of slots whose data does. `None` is returned where there is no space now; what was allocated is given
    /// back.
    pub fn take(
        &mut self,
        class: ClassId,
        arrival: Arrival,
        fast_first: bool,
        (copies, may_leave): (&mut Copies, Option<u64>),
        sizes: &mut dyn FnMut(u32) -> Vec<u8>,
        last_recorded: u64,
    ) -> Option<(Runs, Lifetime)> {
        self.changed = true;
        let mut runs = Runs::new();
        let (mut left, mut lifetime) = (arrival.blocks, None);
        let mut known: Option<Vec<u8>> = None;
        for fast in [fast_first, !fast_first] {
            while left > 0 {
                let taken = if fast {
                    let most =
                        may_leave.map_or(u64::MAX, |may_leave| self.slots_to_stay_in(may_leave + copies.slots_held()));
                    self.take_slots(u64::from(left).min(most), copies)
                } else {
                    let arrives = || self.lifetimes.arrives(Arrival { blocks: left, ..arrival });
                    let group = lifetime.get_or_insert_with(arrives).group;
                    let known = known.get_or_insert_with(|| sizes(arrival.blocks - left));
                    let rest = known.get(known.len().saturating_sub(left as usize)..).unwrap_or_default();
                    let taken = self.take_band(Stream { is_collected: false, group, class }, left, rest);
                    self.free_emptied(last_recorded);
                    taken
                };
                let Some(run) = taken else { break };
                runs.push(run);
                left -= run.blocks;
            }
        }
        if left == 0 {
            return Some((runs, lifetime.unwrap_or_default()));
        }
        self.give_back(&runs, last_recorded);
        None
    }

    fn take_slots(&mut self, wanted: u64, copies: &mut Copies) -> Option<Run> {
        if wanted == 0 {
            return None;
        }
        // Copies stay where giving up all of them would still be too little.
        if self.data_slots_free() == 0 && self.slots.free() + copies.slots_held() > self.kept_for_map() {
            copies.evict(wanted + self.missing_for_map(), &mut self.slots);
        }
        let wanted = wanted.min(self.data_slots_free());
        let (slot, got) = self.slots.allocate(wanted)?;
        self.slots_taken += got;
        Some(Run::whole(self.setup.extents.slot_location(slot), got as u32))
    }

    /// Allocates space in a band for the first of some blocks. `sizes` has the grains of each, or is empty where all are uncompressed.
    fn take_band(&mut self, stream: Stream, blocks: u32, sizes: &[u8]) -> Option<Run> {
        let is_packed = |size: &u8| u64::from(*size) < BLOCK_GRAINS;
        let packs = sizes.first().is_some_and(is_packed);
        let alike = sizes.iter().take_while(|size| is_packed(size) == packs).count();
        let wanted = match (sizes.is_empty(), packs) {
            (true, _) => Wanted::Whole(blocks),
            (false, false) => Wanted::Whole(alike as u32),
            (false, true) => Wanted::Packed(&sizes[..alike]),
        };
        let Grant { band, first, blocks: device_blocks, count } = self.bands.grant(stream, wanted)?;
        self.pace.take(device_blocks);
        self.lifetimes.arrived(stream, device_blocks);
        // At the end of a group compressed blocks may find no more room than whole ones: they are stored uncompressed then.
        Some(Run { location: self.setup.extents.band_location(band, first), blocks: count, device_blocks })
    }

    /// Gives back space that was never written. Bands are only appended to, so their space is lost until they are
    /// collected.
    pub fn give_back(&mut self, runs: &[Run], last_recorded: u64) {
        for &Run { location, blocks, .. } in runs {
            if self.setup.extents.is_fast(location) {
                self.slots.clear_run(self.setup.extents.slot(location), u64::from(blocks));
            } else {
                self.settle(location, blocks, last_recorded);
            }
        }
    }

    /// Bands that were closed because nothing fitted into them are free, where nothing in them is valid, once all that was recorded so far is durable.
    pub fn free_emptied(&mut self, last_recorded: u64) {
        for band in self.bands.take_emptied() {
            self.freed.push(last_recorded, Freed::Band(band));
        }
    }

    /// The fate of blocks granted in a band is known. Where that leaves the band empty, it is free once all that was
    /// recorded so far is durable.
    pub fn settle(&mut self, location: u64, blocks: u32, last_recorded: u64) {
        if let Some((band, _)) = self.setup.extents.band(location)
            && self.bands.settle(band, blocks)
        {
            self.freed.push(last_recorded, Freed::Band(band));
        }
    }

    /// Frees the space of a write whose records were cancelled in `batch`.
    pub fn cancel(&mut self, location: u64, blocks: u32, batch: u64, last_recorded: u64) {
        if self.setup.extents.is_fast(location) {
            let first = self.setup.extents.slot(location);
            self.freed.push(batch, Freed::Slots { first, count: u64::from(blocks) });
        } else {
            self.settle(location, blocks, last_recorded);
        }
    }

    /// An entry of the map names this place now.
    pub fn gain(&mut self, span: Span) {
        if let Some((band, _)) = self.setup.extents.band(span.location) {
            self.bands.gain(band, span.grains);
        }
    }

    /// An entry does not name this place any more, by a record in `batch`.
    pub fn lose(&mut self, Span { location, grains }: Span, batch: u64, last_recorded: u64) {
        if self.setup.extents.is_fast(location) {
            let first = self.setup.extents.slot(location);
            self.freed.push(batch, Freed::Slots { first, count: 1 });
        } else if let Some((band, _)) = self.setup.extents.band(location) {
            self.died_grains += u64::from(grains);
            if self.bands.lose(band, grains.into(), 1) {
                // Batches are applied in any order: one after `batch` may have removed blocks of this band before, and need
                // not be durable when `batch` is.
                self.freed.push(last_recorded, Freed::Band(band));
            }
        }
    }

    /// No entry of the map names anything in this closed band, whatever its counts say: it is free once all that was recorded so far is durable.
    pub fn lose_all(&mut self, band: u32, last_recorded: u64) {
        if self.bands.lose(band, u32::MAX, u32::MAX) {
            self.freed.push(last_recorded, Freed::Band(band));
        }
    }

    /// The lifetime group of the band that a location lies in; none on the fast tier.
    pub fn group(&self, location: u64) -> Option<u8> {
        self.setup.extents.band(location).map(|(band, _)| self.bands.get(band).stream.group)
    }

    /// The group and the age of what lies at a location of a band; none on the fast tier.
    pub fn lifetime(&self, location: u64, now: u64) -> Option<(u8, u64)> {
        let (band, _) = self.setup.extents.band(location)?;
        Some(self.lifetimes.of_band(self.bands.get(band), now))
    }

    /// Low bits of the generation of the band that a location lies in, as records have them; 0 on the fast tier.
    pub fn record_generation(&self, location: u64) -> u16 {
        self.setup.extents.band(location).map_or(0, |(band, _)| self.bands.record_generation(band))
    }

    /// Notes for the summary which block is written to a place in a band.
    pub fn note(&mut self, location: u64, entry: SummaryEntry) {
        if let Some((band, grain)) = self.setup.extents.band_grain(location) {
            self.bands.note(band, grain, entry);
        }
    }
}
