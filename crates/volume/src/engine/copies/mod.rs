//! Copies on the fast tier of blocks of the capacity tier. Classes that are placed on both tiers get them when data is written, classes whose reads are cached
//! get them when data was read. Reads prefer copies. No record names a copy: nothing is lost with one, and what its slot holds is verified like everything that
//! is read.

mod cache;
mod memory;
mod rate;
mod recent;
mod share;
mod warm;

pub(crate) use memory::CacheLimits;
pub(crate) use recent::Named;
pub(crate) use share::Look;
pub use share::ReadCacheStatus;

use super::outbox::{Outbox, Pending};
use super::setup::Setup;
use crate::layout::Id;
use crate::layout::stream::class_hint;
use crate::layout::warm_list::WarmEntry;
use crate::space::slots::Slots;
use cache::{Cache, Found, Held, State, Table};
use forebay_block::checksum::block_checksum;
use forebay_block::{BLOCK_BYTES as BLOCK, ClassId, DiskId, IoError, Op, SharedBuf, Vectored};
use forebay_placement::cache::{Admitted, Counts, Key, Seen};
use forebay_prism::ClassTable;
use memory::are_wanted;
use rate::FillRate;
use recent::Recent;
use share::Share;
use warm::WarmWriter;

/// Memory for copies in flight: this part of the limit, and at most and at least so many blocks.
const ARRIVING_PART: u64 = 64;
const ARRIVING_MAX_BLOCKS: u64 = 2048;
const ARRIVING_MIN_BLOCKS: u64 = 16;
/// Most copies given up in one step, however many have to go.
pub(crate) const GIVEN_UP_AT_ONCE: u64 = 4096;

/// Seeds the policy's hashes: whoever chooses addresses does not know the pool's id.
fn seed(pool: &Id) -> u64 {
    let (low, high) = (u128::from_le_bytes(*pool) as u64, (u128::from_le_bytes(*pool) >> 64) as u64);
    low ^ high.rotate_left(32)
}

/// Neighbouring blocks of one class that get copies.
pub(crate) struct Originals<'a> {
    pub disk: DiskId,
    pub first: u64,
    pub class: ClassId,
    pub data: &'a SharedBuf,
    /// The checksums that the map names for them.
    pub named: &'a [u32],
    /// Whether these are checksums of compressed forms.
    pub is_packed: bool,
}

/// All copies.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    table: Table,
    share: Share,
    rate: FillRate,
    pub warm: WarmWriter,
    pub recent: Recent,
    /// Blocks written since the start, blocks in flight, and the most that may be.
    written_blocks: u64,
    arriving_blocks: u64,
    arriving_max_blocks: u64,
}

impl Copies {
    /// Allocates memory where classes have copies, and gives copies up where no class has any more.
    pub fn prepare(&mut self, table: &ClassTable, setup: &Setup, slots: &mut Slots) {
        if !are_wanted(table) {
            self.recent.end();
            self.evict(GIVEN_UP_AT_ONCE, slots);
            if self.len() == 0 {
                self.table.cache = None;
                self.warm.give_up(slots);
            }
            return;
        }
        let (places, seed) = (setup.cache.copies as u32, seed(&setup.superblock.pool));
        if self.table.cache.is_none() {
            self.recent = Recent::default();
            self.table.cache = Some(Box::new(Cache::new(places, seed)));
            self.share = Share::new(slots.total(), places.into());
            let arriving_bytes = setup.options.memory_limit_bytes / ARRIVING_PART;
            self.arriving_max_blocks = (arriving_bytes / BLOCK as u64).clamp(ARRIVING_MIN_BLOCKS, ARRIVING_MAX_BLOCKS);
        }
        self.recent.begin(setup.cache.recent as u32, seed);
    }

    /// Whether there may be copies.
    pub fn is_on(&self) -> bool {
        self.table.cache.is_some()
    }

    /// Slots that copies and their list hold.
    pub fn slots(&self) -> impl Iterator<Item = u64> + '_ {
        let held = self.table.cache.iter().flat_map(|cache| cache.slots());
        held.chain(self.table.orphans.iter().copied()).chain(self.warm.slots())
    }

    /// How many slots these are: all of them make room for what has no other place.
    pub fn slots_held(&self) -> u64 {
        (self.len() + self.table.orphans.len()) as u64 + self.warm.slots_held()
    }

    /// Number of copies.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Slots that are kept for copies, whether they have them yet or not.
    pub fn entitled(&self) -> u64 {
        if self.is_on() { self.share.entitled() } else { 0 }
    }

    /// Slots to which copies are entitled and that they do not have.
    pub fn lacking(&self) -> u64 {
        self.entitled().saturating_sub(self.len() as u64)
    }

    /// Copies beyond that share: they have slots that nobody else wants yet.
    pub fn excess(&self) -> u64 {
        (self.len() as u64).saturating_sub(self.entitled())
    }

    /// Blocks of copies, and of lists of them, written since the start.
    pub fn written_blocks(&self) -> u64 {
        self.written_blocks + self.warm.written_slots
    }

    /// No copies yet; so many bytes a second may be written as copies of what was read.
    pub fn new(fill_bytes_per_s: u64) -> Self {
        let mut copies = Self::default();
        copies.set_fill_rate(fill_bytes_per_s);
        copies
    }

    /// Sets the most bytes a second that are written as copies of what was read.
    pub fn set_fill_rate(&mut self, bytes_per_s: u64) {
        self.rate.bytes_per_s = bytes_per_s;
    }

    /// Time passes.
    pub fn tick(&mut self, now_ns: u64) {
        self.rate.tick(now_ns);
    }

    /// Whether so many bytes that were read may be copied now; if so they count as copied.
    pub fn may_fill(&mut self, bytes: u64) -> bool {
        let is_bounded = self.arriving_blocks + bytes / BLOCK as u64 <= self.arriving_max_blocks;
        // A read larger than the bound is copied while no other copy is in flight.
        (is_bounded || self.arriving_blocks == 0) && self.rate.take(bytes)
    }

    fn counts(&self) -> Counts {
        self.table.cache.as_ref().map(|cache| cache.policy.counts()).unwrap_or_default()
    }

    /// The copy to which a read of a block is best sent, where there is one of what the map names at `location`.
    pub fn find(&self, disk: DiskId, block: u64, location: u64) -> Option<Found> {
        self.table.cache.as_ref()?.find(Key::new(disk.0, block)?, location)
    }

    /// Whether a block has a copy, or one on its way.
    pub fn holds(&self, disk: DiskId, block: u64) -> bool {
        let found = self.table.cache.as_ref().zip(Key::new(disk.0, block));
        found.is_some_and(|(cache, key)| cache.policy.place_of(key).is_some())
    }

    /// A host reads a block of the capacity tier; called in the order in which reads come. Returns whether the block is to have a copy and has none.
    pub fn seen(&mut self, (disk, block, location): (DiskId, u64, u64), slots: &mut Slots) -> bool {
        let Some(key) = Key::new(disk.0, block) else { return false };
        let is_other = |cache: &Cache| {
            cache.policy.place_of(key).is_some_and(|place| cache.held[place as usize].location != location)
        };
        // This copy is from a list that was older than the map.
        if self.table.cache.as_ref().is_some_and(|cache| is_other(cache)) {
            self.table.give_up(key, slots);
        }
        self.table.cache.as_mut().is_some_and(|cache| cache.policy.seen(key) == Seen::Miss)
    }

    /// A host wrote or discarded a block, or it is damaged: its copy is of no use any more, unless it is of what is there now.
    pub fn superseded(&mut self, disk: DiskId, block: u64, now_at: Option<u64>, slots: &mut Slots) {
        self.recent.remove(disk, block);
        let (Some(cache), Some(key)) = (&self.table.cache, Key::new(disk.0, block)) else { return };
        // A copy from before a restart is not of a later write, wherever that goes.
        let is_of_it = |place: u32| {
            let (held, state) = (cache.held[place as usize], cache.states[place as usize]);
            Some(held.location) == now_at && state != State::Restored
        };
        // The policy may remember a block without a copy: it is unknown now whether that would be read again, so it is
        // forgotten.
        if !cache.policy.place_of(key).is_some_and(is_of_it) {
            self.table.give_up(key, slots);
        }
    }

    /// A block was moved; its content is the same.
    pub fn moved(&mut self, (disk, block): (DiskId, u64), (from, to): (u64, u64), slots: &mut Slots) {
        if let Some((cache, key)) = self.table.cache.as_mut().zip(Key::new(disk.0, block))
            && !cache.moved(key, from, to)
        {
            self.table.give_up(key, slots);
        }
    }

    /// A copy from before a restart was read, and holds what it should.
    pub fn proved(&mut self, disk: DiskId, block: u64) {
        if let Some((cache, key)) = self.table.cache.as_mut().zip(Key::new(disk.0, block))
            && let Some(place) = cache.policy.place_of(key).map(|place| place as usize)
            && cache.states[place] == State::Restored
        {
            cache.states[place] = State::Ready;
        }
    }

    /// Forgets copies whose slots do not hold what they should.
    pub fn forget(&mut self, disk: DiskId, blocks: std::ops::Range<u64>, slots: &mut Slots) {
        if self.is_on() {
            blocks.filter_map(|block| Key::new(disk.0, block)).for_each(|key| self.table.give_up(key, slots));
        }
    }

    /// Gives up copies for data that has no other place, those of least use first, and then their list. Returns how many slots this freed.
    pub fn evict(&mut self, wanted: u64, slots: &mut Slots) -> u64 {
        let before = slots.free();
        let is_last = wanted > self.len() as u64;
        self.table.evict(wanted, slots);
        if is_last {
            self.warm.give_up(slots);
        }
        slots.free() - before
    }

    /// Writes copies of blocks to the fast tier, in spare slots or in place of other copies. `location` returns where each block is.
    pub fn write(
        &mut self,
        of: &Originals<'_>,
        location: impl Fn(usize) -> u64,
        mut spare: u64,
        (setup, slots, outbox): (&Setup, &mut Slots, &mut Outbox),
    ) {
        let &Originals { disk, first, class, data, named, is_packed } = of;
        let mut at = 0;
        while at < named.len() && self.table.cache.as_ref().is_some_and(|cache| cache.policy.places() > 0) {
            let left = (named.len() - at) as u64;
            if spare == 0 {
                spare = self.table.evict(left, slots);
            }
            let Some((slot, got)) = slots.allocate(left.min(spare)) else { return };
            if slot + got > u64::from(u32::MAX) {
                return slots.clear_run(slot, got);
            }
            spare -= got;
            for i in 0..got {
                let (within, free) = (at + i as usize, slots.free());
                let block = first + within as u64;
                let bytes = data.get(within * BLOCK..(within + 1) * BLOCK).unwrap_or_default();
                let own = if is_packed { block_checksum(disk, block, bytes) } else { named[within] };
                let held = Held { location: location(within), slot: (slot + i) as u32, own };
                self.admit((disk, block), held, slots);
                spare += slots.free() - free;
            }
            if let Some((device, offset_bytes)) = setup.extents.place(setup.extents.slot_location(slot)) {
                let bufs = Vectored::One(data.slice(at * BLOCK, got as usize * BLOCK));
                let pending = Pending::Copy { disk, block: first + at as u64, slots: slot..slot + got };
                self.arriving_blocks += got;
                self.written_blocks += got;
                outbox.send(device, offset_bytes, class_hint(class), Op::Write { bufs, fua: false }, pending);
            }
            at += got as usize;
        }
    }

    fn admit(&mut self, (disk, block): (DiskId, u64), held: Held, slots: &mut Slots) {
        let Some((cache, key)) = self.table.cache.as_mut().zip(Key::new(disk.0, block)) else { return };
        if cache.policy.place_of(key).is_some() {
            self.table.give_up(key, slots);
        }
        match self.table.cache.as_mut().and_then(|cache| cache.policy.admit(key)) {
            Some(Admitted { place, evicted }) => {
                if evicted.is_some() {
                    self.table.release(place, slots);
                }
                if let Some(cache) = &mut self.table.cache {
                    let place = place as usize;
                    (cache.held[place], cache.states[place]) = (held, State::Arriving);
                }
            }
            // There is no place for it, but its data is on its way.
            None => {
                self.table.orphans.insert(held.slot.into());
            }
        }
    }

    /// The write of copies ended.
    pub fn written(
        &mut self,
        (disk, first): (DiskId, u64),
        written: std::ops::Range<u64>,
        result: &Result<(), IoError>,
        slots: &mut Slots,
    ) {
        self.arriving_blocks -= written.end - written.start;
        for (block, slot) in (first..).zip(written) {
            if self.table.orphans.remove(&slot) {
                slots.clear(slot);
                continue;
            }
            let Some((cache, key)) = self.table.cache.as_mut().zip(Key::new(disk.0, block)) else { continue };
            let Some(place) = cache.policy.place_of(key) else { continue };
            let (held, state) = (cache.held[place as usize], &mut cache.states[place as usize]);
            if u64::from(held.slot) == slot && *state == State::Arriving {
                *state = State::Ready;
                if result.is_err() {
                    self.table.give_up(key, slots);
                }
            }
        }
    }

    /// Takes over what the policy had learned before a restart.
    pub fn relearn(&mut self, learned: u64) {
        if let Some(cache) = &mut self.table.cache {
            cache.policy.relearn(learned);
        }
    }

    /// Takes over a copy from before a restart, which a list names.
    pub fn restore(&mut self, entry: &WarmEntry, slots: &mut Slots) {
        if let Some(cache) = &mut self.table.cache {
            cache.restore(entry, slots);
        }
    }

    /// Adapts the share of copies, and how many slots the policy may take. `unused`: slots that nobody wants.
    pub fn share_out(&mut self, look: &Look, unused: u64) {
        let len = self.len() as u64;
        let Some(cache) = &mut self.table.cache else { return };
        let policy = &mut cache.policy;
        self.share.look(look, (policy.counts(), policy.ghosts(), len, u64::from(policy.places())));
        let most = (self.share.entitled().max(len + unused)).min(cache.held.len() as u64).max(1);
        if self.share.is_worth_resizing(u64::from(policy.places()), most) {
            // Never below what it has: others take slots of it one by one, as they need them.
            policy.resize(most.max(len) as u32, |_, _| {});
        }
    }

    /// Begins a list where it is time to. `interval_ns`: least time from the beginning of one list to that of the next.
    pub fn begin_list(&mut self, now_ns: u64, interval_ns: u64) {
        self.warm.begin((self.len() as u64, self.written_blocks), now_ns, interval_ns);
    }

    /// See [`WarmWriter::go_on`].
    pub fn go_on_with_list(
        &mut self,
        spare: u64,
        of: (u64, impl Fn(u64) -> Option<u32>),
        rooms: (&Setup, &mut Slots, &mut Outbox),
    ) {
        self.warm.go_on(&mut self.table, spare, of, rooms);
    }

    /// The pool is being stopped: an old list is written anew, without waiting for time to pass.
    pub fn hurry_list(&mut self) {
        self.warm.hurry(self.written_blocks);
    }

    /// The state to be shown.
    pub fn status(&self) -> ReadCacheStatus {
        let (counts, (in_memory, beside)) = (self.counts(), self.recent.hits());
        ReadCacheStatus {
            held_blocks: self.len() as u64,
            entitled_blocks: self.entitled(),
            hit_blocks: counts.hits.saturating_sub(beside),
            missed_blocks: counts.misses.saturating_sub(in_memory - beside),
            passed_blocks: counts.passed,
            returned_blocks: counts.returned,
            written_blocks: self.written_blocks,
            restored_blocks: self.warm.restored_blocks,
            in_memory_blocks: self.recent.len(),
            memory_hit_blocks: in_memory,
        }
    }
}
