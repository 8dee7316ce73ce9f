//! Copies of blocks of the capacity tier on the fast tier: of classes that are placed on both, written with the data, and of
//! classes whose reads are cached, written when they were read. Reads prefer them. No record names a copy: nothing is lost with
//! one, and what its slot holds is verified like everything that is read.

mod rate;
mod share;
mod warm;

pub(crate) use share::Look;
pub use share::ReadCacheStatus;

use super::outbox::{Outbox, Pending};
use super::setup::Setup;
use crate::layout::Id;
use crate::layout::page::Entry;
use crate::layout::stream::class_hint;
use crate::layout::warm_list::WarmEntry;
use crate::space::slots::Slots;
use forebay_block::checksum::block_checksum;
use forebay_block::{ClassId, DiskId, IoError, Op, SharedBuf, Vectored};
use forebay_placement::cache::{Admitted, Counts, Key, S3Fifo, Seen, Warm};
use forebay_prism::{ClassTable, Place};
use rate::FillRate;
use share::Share;
use std::collections::BTreeSet;
use warm::WarmWriter;

const BLOCK: usize = 4096;
/// One copy for so many bytes of the memory limit: 1 GiB allows 8 GiB of copies for 128 MiB of tables, or 1 GiB for 16 where no class had any
/// when the pool was opened.
const MEMORY_BYTES_PER_COPY: u64 = 512;
const MEMORY_BYTES_PER_COPY_LATER: u64 = 4096;
/// Bytes of the tables per copy, for the sharing out of memory: 44 of the policy, and a [`Held`].
pub(crate) const INDEX_BYTES_PER_COPY: u64 = 64;
const _: () = assert!(size_of::<Held>() == 16);
/// Blocks of copies on their way, at most: 8 MiB of memory.
const ARRIVING_MAX_BLOCKS: u64 = 2048;
/// Copies given up at once where no class has any more.
const GIVEN_UP_AT_ONCE: u64 = 4096;

/// Most copies that a memory limit allows, on a tier of so many slots, where these are the classes when the pool is opened.
pub(crate) fn copies_max(memory_limit_bytes: u64, slots: u64, table: &ClassTable) -> u64 {
    let each = if are_wanted(table) { MEMORY_BYTES_PER_COPY } else { MEMORY_BYTES_PER_COPY_LATER };
    (memory_limit_bytes / each).min(slots).min(u64::from(u32::MAX / 4))
}

/// Whether blocks of any class get copies.
fn are_wanted(table: &ClassTable) -> bool {
    table.classes().iter().any(|class| class.read_cache || class.place == Place::Both)
}

/// Seeds the policy's hashes: nobody who chooses addresses knows the pool's id.
fn seed(pool: &Id) -> u64 {
    let (low, high) = (u128::from_le_bytes(*pool) as u64, (u128::from_le_bytes(*pool) >> 64) as u64);
    low ^ high.rotate_left(32)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// Its data is on its way.
    Arriving,
    Ready,
}

/// A copy.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    slot: u32,
    /// The checksum that the map names for the block.
    named: u32,
    /// That of the copy itself, which is never compressed.
    own: u32,
    state: State,
}

/// The tables. All memory is taken when they are made.
#[derive(Debug)]
struct Cache {
    policy: S3Fifo,
    /// By the policy's places.
    held: Vec<Held>,
}

/// A copy that a read may be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub slot: u64,
    pub own: u32,
}

/// All copies.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// None as long as no class has any.
    cache: Option<Box<Cache>>,
    /// Slots of copies given up while their write was in flight: they are free when it ends, not before, or it could
    /// fall upon somebody else's data.
    orphans: BTreeSet<u64>,
    share: Share,
    rate: FillRate,
    pub warm: WarmWriter,
    /// Blocks written since the start, and on their way.
    written_blocks: u64,
    arriving_blocks: u64,
}

impl Copies {
    /// Takes memory where classes have copies, of at most so many slots, and gives copies up where none has any more.
    pub fn prepare(&mut self, table: &ClassTable, setup: &Setup, slots: &mut Slots) {
        if !are_wanted(table) {
            self.evict(GIVEN_UP_AT_ONCE, slots);
            if self.len() == 0 {
                self.cache = None;
            }
        } else if self.cache.is_none() {
            let places = setup.copies_max as u32;
            let held = vec![Held::default(); places as usize];
            let policy = S3Fifo::new(places, seed(&setup.superblock.pool));
            self.cache = Some(Box::new(Cache { policy, held }));
            self.share = Share::new(slots.total());
        }
    }

    /// Whether there may be any.
    pub fn is_on(&self) -> bool {
        self.cache.is_some()
    }

    /// Slots that copies hold, and the list of them.
    pub fn slots(&self) -> impl Iterator<Item = u64> + '_ {
        let held = self.cache.iter().flat_map(|cache| &cache.held).filter(|held| held.state != State::Free);
        held.map(|held| held.slot.into()).chain(self.orphans.iter().copied()).chain(self.warm.slots())
    }

    /// Number of copies.
    pub fn len(&self) -> usize {
        self.cache.as_ref().map_or(0, |cache| cache.policy.held() as usize)
    }

    /// Slots that are kept for copies, whether they have them yet or not.
    pub fn entitled(&self) -> u64 {
        if self.is_on() { self.share.entitled() } else { 0 }
    }

    /// Slots that copies are entitled to and have not.
    pub fn lacking(&self) -> u64 {
        self.entitled().saturating_sub(self.len() as u64)
    }

    /// Copies beyond that: they have slots that nobody else wants yet.
    pub fn excess(&self) -> u64 {
        (self.len() as u64).saturating_sub(self.entitled())
    }

    /// Blocks of copies written since the start.
    pub fn written_blocks(&self) -> u64 {
        self.written_blocks
    }

    /// None yet; so many bytes a second may be written of what was read.
    pub fn new(fill_bytes_per_s: u64) -> Self {
        let mut copies = Self::default();
        copies.set_fill_rate(fill_bytes_per_s);
        copies
    }

    /// Most bytes a second that are written of what was read.
    pub fn set_fill_rate(&mut self, bytes_per_s: u64) {
        self.rate.bytes_per_s = bytes_per_s;
    }

    /// Time passes.
    pub fn tick(&mut self, now_ns: u64) {
        self.rate.tick(now_ns);
    }

    /// Whether so many bytes that were read may be copied now; they count as copied then.
    pub fn may_fill(&mut self, bytes: u64) -> bool {
        self.arriving_blocks + bytes / BLOCK as u64 <= ARRIVING_MAX_BLOCKS && self.rate.take(bytes)
    }

    fn counts(&self) -> Counts {
        self.cache.as_ref().map(|cache| cache.policy.counts()).unwrap_or_default()
    }

    /// The copy that a read of a block is best sent to, where there is one of the content that the map names.
    pub fn find(&self, disk: DiskId, block: u64, named: u32) -> Option<Found> {
        let cache = self.cache.as_ref().filter(|cache| cache.policy.held() > 0)?;
        let held = cache.held[cache.policy.place_of(Key::new(disk.0, block)?)? as usize];
        (held.state == State::Ready && held.named == named).then_some(Found { slot: held.slot.into(), own: held.own })
    }

    /// Whether a block has a copy, or one on its way.
    pub fn holds(&self, disk: DiskId, block: u64) -> bool {
        let found = self.cache.as_ref().zip(Key::new(disk.0, block));
        found.is_some_and(|(cache, key)| cache.policy.place_of(key).is_some())
    }

    /// A host reads a block of the capacity tier; in the order in which reads come. Whether it is to have a copy and has none.
    pub fn seen(&mut self, disk: DiskId, block: u64) -> bool {
        let Some((cache, key)) = self.cache.as_mut().zip(Key::new(disk.0, block)) else { return false };
        cache.policy.seen(key) == Seen::Miss
    }

    /// A block got a new entry: a copy of something else is of no use any more.
    pub fn superseded(&mut self, disk: DiskId, block: u64, entry: Entry, checksum: u32, slots: &mut Slots) {
        let Some(cache) = &self.cache else { return };
        let Some(key) = Key::new(disk.0, block) else { return };
        let stays = |place: u32| cache.held[place as usize].named == checksum && matches!(entry, Entry::Data { .. });
        // What is not there may be remembered: whether it would come back is not known any more.
        if !cache.policy.place_of(key).is_some_and(stays) {
            self.give_up(key, slots);
        }
    }

    /// Forgets the copies of blocks: their slots do not hold what they should.
    pub fn forget(&mut self, disk: DiskId, blocks: std::ops::Range<u64>, slots: &mut Slots) {
        if self.is_on() {
            blocks.filter_map(|block| Key::new(disk.0, block)).for_each(|key| self.give_up(key, slots));
        }
    }

    fn give_up(&mut self, key: Key, slots: &mut Slots) {
        if let Some(place) = self.cache.as_mut().and_then(|cache| cache.policy.remove(key)) {
            self.release(place, slots);
        }
    }

    /// The policy has given up a place.
    fn release(&mut self, place: u32, slots: &mut Slots) {
        let Some(cache) = &mut self.cache else { return };
        let Held { slot, state, .. } = std::mem::take(&mut cache.held[place as usize]);
        match state {
            State::Free => {}
            State::Arriving => {
                self.orphans.insert(slot.into());
            }
            // No record names the slot: it is free at once. A read in flight finds another checksum and looks again.
            State::Ready => {
                slots.clear(slot.into());
            }
        }
    }

    /// Gives up copies for data that has no other place, those of least use; true where there was one.
    pub fn evict(&mut self, wanted: u64, slots: &mut Slots) -> bool {
        let mut any = false;
        for _ in 0..wanted {
            let Some((_, place)) = self.cache.as_mut().and_then(|cache| cache.policy.give_up_one()) else { break };
            self.release(place, slots);
            any = true;
        }
        any
    }

    /// Sends copies of a run to the fast tier, in slots that are to spare or in place of others. `named`: the checksums that the map
    /// names for them; `is_packed`: those of their compressed forms.
    pub fn write(
        &mut self,
        (disk, first, class): (DiskId, u64, ClassId),
        (named, is_packed): (&[u32], bool),
        data: &SharedBuf,
        mut spare: u64,
        (setup, slots, outbox): (&Setup, &mut Slots, &mut Outbox),
    ) {
        let mut at = 0;
        while at < named.len() && self.cache.as_ref().is_some_and(|cache| cache.policy.places() > 0) {
            let left = (named.len() - at) as u64;
            if spare == 0 {
                let free = slots.free();
                self.evict(left, slots);
                spare = slots.free() - free;
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
                let named = named[within];
                let own = if is_packed { block_checksum(disk, block, bytes) } else { named };
                self.admit((disk, block), Held { slot: (slot + i) as u32, named, own, state: State::Arriving }, slots);
                spare += slots.free() - free;
            }
            if let Some((device, offset_bytes)) = setup.extents.place(setup.extents.slot_location(slot)) {
                let bufs = Vectored::One(data.slice(at * BLOCK, got as usize * BLOCK));
                let pending = Pending::Copy { disk, block: first + at as u64, slot, blocks: got };
                self.arriving_blocks += got;
                self.written_blocks += got;
                outbox.send(device, offset_bytes, class_hint(class), Op::Write { bufs, fua: false }, pending);
            }
            at += got as usize;
        }
    }

    fn admit(&mut self, (disk, block): (DiskId, u64), held: Held, slots: &mut Slots) {
        let Some((cache, key)) = self.cache.as_mut().zip(Key::new(disk.0, block)) else { return };
        let before = cache.policy.place_of(key);
        if before.is_some() {
            self.give_up(key, slots);
        }
        match self.cache.as_mut().and_then(|cache| cache.policy.admit(key)) {
            Some(Admitted { place, evicted }) => {
                if evicted.is_some() {
                    self.release(place, slots);
                }
                if let Some(cache) = &mut self.cache {
                    cache.held[place as usize] = held;
                }
            }
            // Its data is on its way all the same.
            None => {
                self.orphans.insert(held.slot.into());
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
            if self.orphans.remove(&slot) {
                slots.clear(slot);
                continue;
            }
            let Some((cache, key)) = self.cache.as_mut().zip(Key::new(disk.0, block)) else { continue };
            let Some(place) = cache.policy.place_of(key) else { continue };
            let held = &mut cache.held[place as usize];
            if u64::from(held.slot) == slot && held.state == State::Arriving {
                held.state = State::Ready;
                if result.is_err() {
                    self.give_up(key, slots);
                }
            }
        }
    }

    /// What the policy had learned before a restart.
    pub fn relearn(&mut self, learned: u64) {
        if let Some(cache) = &mut self.cache {
            cache.policy.relearn(learned);
        }
    }

    fn learned(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.policy.learned())
    }

    /// A copy that was there before a restart, of a list. Its slot is free; it is taken where there is room.
    pub fn restore(&mut self, entry: &WarmEntry, slots: &mut Slots) {
        let Some(cache) = &mut self.cache else { return };
        let place = cache.policy.held();
        let &WarmEntry { key, slot, named, own, is_main, reads } = entry;
        let warm = Warm { key: Key::from_bits(key), place, is_main, reads };
        let Ok(number) = u32::try_from(slot) else { return };
        if !slots.is_used(slot) && cache.policy.restore(warm) {
            slots.set(slot);
            cache.held[place as usize] = Held { slot: number, named, own, state: State::Ready };
        }
    }

    /// Copies from a place on, as a list has them, at most so many; and where to go on, `None` at the end.
    fn list(&self, from: u32, most: usize) -> (Vec<WarmEntry>, Option<u32>) {
        let Some(cache) = &self.cache else { return (Vec::new(), None) };
        let mut entries = Vec::with_capacity(most.min(self.len()));
        // So many places are looked at in one turn, however few of them are taken.
        let looked_at = cache.held.len().min(from as usize + (1 << 16));
        for place in from as usize..looked_at {
            if entries.len() == most {
                return (entries, Some(place as u32));
            }
            let Held { slot, named, own, state } = cache.held[place];
            if state == State::Ready {
                let Warm { key, is_main, reads, .. } = cache.policy.at(place as u32);
                entries.push(WarmEntry { key: key.bits(), slot: slot.into(), named, own, is_main, reads });
            }
        }
        (entries, (looked_at < cache.held.len()).then_some(looked_at as u32))
    }

    /// Adapts what copies are entitled to, and what the policy may take of the slots. `unused`: slots that nobody wants.
    pub fn share_out(&mut self, look: &Look, unused: u64) {
        let len = self.len() as u64;
        let Some(cache) = &mut self.cache else { return };
        let policy = &mut cache.policy;
        self.share.look(look, (policy.counts(), policy.ghosts(), len, u64::from(policy.places())));
        let most = (self.share.entitled().max(len + unused)).min(cache.held.len() as u64).max(1);
        if self.share.is_worth_resizing(u64::from(policy.places()), most) {
            // Never below what it has: others take slots of it one by one, as they need them.
            policy.resize(most.max(len) as u32, |_, _| {});
        }
    }
}
