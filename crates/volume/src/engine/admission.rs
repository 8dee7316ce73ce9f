//! Admission to the tiers: space for a write of a class, and what is kept for the map.

use super::Engine;
use super::admin_error::AdminError;
use super::leaves::may_destage;
use super::lifetimes::Arrival;
use super::packing::Packing;
use super::place::{Situation, shrinks_alone_blocks};
use super::requests::packed_sizes;
use super::space::Runs;
use crate::layout::page::{LEAF_ENTRIES, PAGE_BYTES};
use crate::layout::stream::Lifetime;
use crate::map::frames::Frame;
use crate::map::index::{Disk, INDEX_SPAN_BYTES};
use forebay_block::{BLOCK_BYTES_U64 as BLOCK_BYTES, ClassId};
use forebay_prism::{ClassStats, Place};

/// Shortest sequential stream that goes past the fast tier, in blocks: 64 MiB.
const STREAM_MIN_BLOCKS: u64 = 16_384;
/// Where data mostly dies on the fast tier, this many times as many writes may wait there as the device takes at once: on the capacity tier the data would cost
/// wear.
const KEPT_QUEUES: u32 = 4;
/// The same for data that shrinks when it leaves the tier. A client that copies a file with holes sends hundreds of such writes at once, each of a block or
/// two, which on the capacity tier would stay uncompressed for ever.
const SHRINKING_QUEUES: u32 = 32;
/// Only while no more bytes than this wait there: a journal batch waits behind them.
const SHRINKING_BYTES: u64 = 4 << 20;
/// Slots kept for pages of the map in addition to those that are counted.
const SLOTS_SPARE: u64 = 16;

/// Data that arrives: that of a piece, from its block `at` on.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub piece: u32,
    pub at: usize,
    pub data: &'a [u8],
}

/// What is expected of data that arrives.
#[derive(Clone, Copy)]
pub(crate) struct Behaviour {
    /// It is a stream, or would not stay on the fast tier.
    pub past: bool,
    /// It mostly dies there.
    pub keeps: bool,
}

impl Engine {
    /// Leaves of all disks.
    fn leaves_of_disks(&self) -> u64 {
        self.map.disks.values().map(|disk| disk.blocks().div_ceil(LEAF_ENTRIES as u64)).sum()
    }

    /// Index pages of all disks.
    fn index_pages_of_disks(&self) -> u64 {
        self.map.disks.values().map(|disk| disk.size_bytes.div_ceil(INDEX_SPAN_BYTES)).sum()
    }

    /// Slots kept for map pages: a checkpoint writes every dirty page to a new place before the old one is free. The checkpoint of a recovery writes the most,
    /// as it has all pages that the journal names.
    fn meta_reserve(&self, leaves_wanted: u64) -> u64 {
        self.meta_reserve_for(leaves_wanted, (self.leaves_of_disks(), self.index_pages_of_disks()))
    }

    /// The same for disks with so many leaves and index pages.
    fn meta_reserve_for(&self, leaves_wanted: u64, (leaves, index_pages): (u64, u64)) -> u64 {
        (leaves_wanted.min(leaves) + index_pages + SLOTS_SPARE).min(self.space.slots.total() / 2)
    }

    /// Slots that may have to be kept for them from the next checkpoint on: data that stays must not take these.
    fn meta_reserve_next(&self) -> u64 {
        self.meta_reserve(self.checkpoint.leaves_wanted_next())
    }

    /// Slots that the map could still grow into, until it has half of the tier: data that stays on the fast tier must
    /// not take them, or blocks written for the first time would find no page although there is room for them.
    fn map_growth(&self) -> u64 {
        let missing: u64 = self.map.disks.values().map(Disk::leaves_missing).sum();
        let stored = self.leaves_of_disks().saturating_sub(missing);
        missing.min((self.space.slots.total() / 2).saturating_sub(self.meta_reserve_next() + stored))
    }

    /// Slots that the map of the disks as they are now may need and cannot get because data that stays has them.
    pub(crate) fn slots_missing_for_map(&self) -> u64 {
        self.slots_missing_beside(self.meta_reserve(self.checkpoint.leaves_wanted()))
    }

    /// The same where so many slots are kept for pages.
    fn slots_missing_beside(&self, reserve: u64) -> u64 {
        let stays = |(class, number): (&ClassStats, u8)| match self.prism.table().get(ClassId(number)) {
            Some(spec) if spec.place == Place::Fast => class.fast_blocks,
            _ => 0,
        };
        let staying: u64 = self.stats.classes.iter().zip(0..).map(stays).sum();
        // What only passes through: copies that can be dropped, and slots that are about to be free.
        let passing = self.copies.slots_held() + self.space.freed.slots() + self.checkpoint.pages.slots_held();
        let pages = self.space.slots_used().saturating_sub(self.stats.fast_blocks() + passing);
        let wanted = pages + staying + reserve + self.map_growth();
        wanted.saturating_sub(self.space.slots.total())
    }

    /// While fewer slots are free than are to be kept for pages, the journal may name fewer leaves. Not changed during a checkpoint, which holds slots of its
    /// own.
    pub(crate) fn limit_by_slots(&mut self) {
        if !self.checkpoint.is_active() {
            let pages = self.map.disks.values().map(|disk| disk.pages.iter().flatten().count() as u64).sum::<u64>();
            let left = self.space.slots.free().saturating_sub(pages + SLOTS_SPARE);
            self.checkpoint.limit_by_slots(Some(left).filter(|&left| left < self.leaves_of_disks()));
        }
    }

    /// Keeps slots for the map as the disks are now. Where data that stays is in its way, because classes have changed, that data may leave until there is
    /// room.
    pub(crate) fn reserve_for_map(&mut self) {
        self.limit_by_slots();
        let (reserve, growth) = (self.meta_reserve(self.checkpoint.leaves_wanted()), self.map_growth());
        let reserve_next = self.meta_reserve_next();
        self.space.keep_for_map([reserve, reserve_next], growth);
        self.space.may_keep_more = self.slots_missing_beside(reserve_next) == 0;
        // Somewhat less does not matter where so much is free for growth.
        let growth_kept = self.space.growth_kept();
        let has_kept = self.space.page_slots_free() >= growth_kept.min(growth);
        let missing_max = if self.space.pins && has_kept { growth_kept } else { 0 };
        let pins = self.slots_missing_for_map() <= missing_max;
        // Not during a checkpoint, which holds slots of its own for a while.
        if self.space.pins != pins && !self.checkpoint.is_active() {
            self.space.pins = pins;
            self.migrate.policy_changed();
        }
    }

    /// Blocks on the fast tier that may leave it.
    pub(super) fn blocks_that_may_leave(&self) -> u64 {
        let staged = |(class, number): (&ClassStats, u8)| {
            if may_destage(&self.prism, &self.space, ClassId(number)) { class.fast_blocks } else { 0 }
        };
        self.stats.classes.iter().zip(0..).map(staged).sum()
    }

    /// Bytes that the map takes of the fast tier when all blocks of all disks have been written, with what is kept for checkpoints.
    #[must_use]
    pub fn full_map_bytes(&self) -> u64 {
        self.full_map_bytes_of((self.leaves_of_disks(), self.index_pages_of_disks()))
    }

    fn full_map_bytes_of(&self, (leaves, index_pages): (u64, u64)) -> u64 {
        let kept = self.meta_reserve_for(self.checkpoint.leaves_wanted_most(), (leaves, index_pages));
        (leaves + index_pages + kept) * PAGE_BYTES as u64
    }

    /// Checks that the fast tier has room for the map when all blocks of all disks have been written, where a disk of `old_bytes` gets `size_bytes`.
    ///
    /// # Errors
    /// [`AdminError::MapTooLarge`]: what the map would take, and the largest size of that disk for which there is room.
    pub(super) fn check_map_of(&self, old_bytes: u64, size_bytes: u64) -> Result<(), AdminError> {
        let leaves_of = |size_bytes: u64| (size_bytes / BLOCK_BYTES).div_ceil(LEAF_ENTRIES as u64);
        let pages_of = |size_bytes: u64| size_bytes.div_ceil(INDEX_SPAN_BYTES);
        let leaves = self.leaves_of_disks().saturating_sub(leaves_of(old_bytes));
        let pages = self.index_pages_of_disks().saturating_sub(pages_of(old_bytes));
        let map_of =
            |size_bytes| self.full_map_bytes_of((leaves + leaves_of(size_bytes), pages + pages_of(size_bytes)));
        let fast_bytes = self.space.slots.total() * PAGE_BYTES as u64;
        let map_bytes = map_of(size_bytes);
        if map_bytes <= fast_bytes {
            return Ok(());
        }
        // In whole leaves: for two sizes with as many leaves the map is the same.
        let of_leaves = |leaves: u64| leaves * LEAF_ENTRIES as u64 * BLOCK_BYTES;
        let (mut fits, mut too_many) = (0, leaves_of(size_bytes));
        while too_many - fits > 1 {
            let between = fits.midpoint(too_many);
            if map_of(of_leaves(between)) <= fast_bytes { fits = between } else { too_many = between }
        }
        Err(AdminError::MapTooLarge { wanted_bytes: size_bytes, map_bytes, fast_bytes, largest_bytes: of_leaves(fits) })
    }

    /// Whether the fast tier is so full of map pages that there is hardly a slot for another, and disks have parts that would need one.
    #[must_use]
    pub fn lacks_map_slots(&self) -> bool {
        let is_missing = self.map.disks.values().any(|disk| disk.leaves_missing() > 0);
        // If staged data filled the tier, destage would keep more slots free than this.
        is_missing && self.map_growth() == 0 && self.space.page_slots_free() < self.space.growth_kept()
    }

    /// Most index pages for which the root has room.
    #[must_use]
    pub fn index_pages_max(&self) -> u64 {
        self.checkpoint.index_room.pages_max()
    }

    /// Whether the root has no room for another index page, and disks have parts that would need one.
    #[must_use]
    pub fn lacks_index_room(&self) -> bool {
        let pages_of_disks = self.index_pages_of_disks();
        self.checkpoint.index_room.is_full() && self.checkpoint.index_room.pages() < pages_of_disks
    }

    /// Checks that the root has room for the disks: with the present index and one page more for the last disk or, where they are `whole`, with all of their
    /// index pages.
    ///
    /// # Errors
    /// [`AdminError::NoRoomInRoot`]: how many pages are needed, and for how many there is room.
    pub(super) fn check_index(&self, whole: bool) -> Result<(), AdminError> {
        let needed = if whole { self.index_pages_of_disks() } else { self.checkpoint.index_room.pages() + 1 };
        let fits = self.checkpoint.index_room.pages_beside(self.map.disks.values().map(|disk| disk.name.as_str()));
        if needed <= fits { Ok(()) } else { Err(AdminError::NoRoomInRoot { needed, fits }) }
    }

    /// Whether the leaf in a frame would need a page of its own for which there is no slot, even in place of copies; or an index page for which the root has no
    /// room.
    pub(crate) fn lacks_page_slot(&mut self, frame: u32) -> bool {
        let &Frame { dirty, disk, leaf, .. } = self.map.frames.get(frame);
        if dirty || !self.map.is_new_leaf(frame) {
            return false;
        }
        if self.checkpoint.index_room.lacks(&self.map, disk, leaf) {
            if self.checkpoint.index_room.may_gain() {
                self.checkpoint.want_another();
            }
            return true;
        }
        !self.space.has_page_slot(self.requests.executing as u64, &mut self.copies)
    }

    /// Allocates space for data that arrives, of a class. Returns it with the lifetime of what goes to bands. `None`: there is none now. Where bands are left to
    /// collection (not `may_use_bands`), what goes past the fast tier waits: it must not fill that tier meanwhile.
    pub(crate) fn allocate(
        &mut self,
        Source { piece, at, data }: Source<'_>,
        class: ClassId,
        arrival: Arrival,
        behaviour: Behaviour,
        may_use_bands: bool,
    ) -> Option<(Runs, Lifetime)> {
        let blocks = arrival.blocks;
        if !may_use_bands && !self.has_share(class, u64::from(blocks)) {
            return None;
        }
        let fast_first = self.goes_to_fast_first(class, blocks, behaviour);
        if !fast_first && !may_use_bands {
            return None;
        }
        let last_recorded = self.journal.last_recorded();
        // A sum over all classes, at most 120; made only for data that stays.
        let may_leave = (!may_destage(&self.prism, &self.space, class)).then(|| self.blocks_that_may_leave());
        let compress = Packing::of_class(&self.prism, class);
        let Self { space, copies, packing, requests, .. } = self;
        let mut sizes = |from: u32| {
            let (from, piece) = (from as usize, requests.pieces.get_mut(piece as usize));
            let data = data.get(from * PAGE_BYTES..).unwrap_or_default();
            piece.map_or_else(Vec::new, |piece| packed_sizes((&mut *packing, class, compress), piece, at + from, data))
        };
        let runs = space.take(class, arrival, fast_first, (copies, may_leave), &mut sizes, last_recorded);
        self.summaries.granted(&self.space.bands);
        runs
    }

    /// Whether a class is within its share of the fast tier with so many blocks more.
    pub(crate) fn has_share(&self, class: ClassId, blocks: u64) -> bool {
        let share = self.prism.table().get(class).map_or(1.0, |spec| spec.share);
        let held = self.stats.classes.get(usize::from(class.0)).map_or(0, |s| s.fast_blocks) + blocks;
        share >= 1.0 || held as f64 <= share * self.space.slots.total().max(1) as f64
    }

    /// Blocks from which on a sequential stream goes past the fast tier: it is too long to be a log or a table.
    pub(crate) fn stream_min_blocks(&self) -> u64 {
        (self.space.slots.total() / 8).max(STREAM_MIN_BLOCKS)
    }

    fn goes_to_fast_first(&mut self, class: ClassId, blocks: u32, behaviour: Behaviour) -> bool {
        let Behaviour { past, keeps } = behaviour;
        let Some(place) = self.prism.table().get(class).map(|spec| spec.place) else {
            return true;
        };
        if !self.has_share(class, u64::from(blocks)) {
            self.stats.counters.spilled_blocks += u64::from(blocks);
            return false;
        }
        let by_share = self.space.slots.total().max(1) * self.setup.options.bypass_below_percent / 100;
        let shrinks_later = blocks < shrinks_alone_blocks(place) && self.packing.shrinks(&self.prism, class);
        let situation = Situation {
            place,
            past,
            keeps,
            shrinks_later,
            fast_is_behind: self.outbox.fast_is_behind(match (shrinks_later, keeps) {
                (true, _) if self.outbox.in_flight_bytes()[0] < SHRINKING_BYTES => SHRINKING_QUEUES,
                (false, false) => 1,
                _ => KEPT_QUEUES,
            }),
            capacity_refuses: self.bypass.capacity_refuses(self.clock.now_ns()),
            in_flight_bytes: self.outbox.in_flight_bytes(),
            changes: self.requests.changes_with_one_more(),
            may_stay: self.prism.table().host_facts_keep_fast(),
            free: self.space.data_slots_free() + self.copies.excess(),
            // Half of what should be free for hosts is gone: destage does not keep up.
            threshold: by_share.min(self.free_slots_wanted().div_ceil(2)),
        };
        let (staged, destaged) = self.stats.staged_and_destaged_blocks();
        self.bypass.learn(staged, destaged, self.space.slots.total());
        self.bypass.goes_to_fast_first(&situation, blocks)
    }
}
