//! Writes the map's pages to new places: each page of a checkpoint has a slot of its own, and the slot that it had
//! before is free only when the root that names the new one is durable.

use crate::engine::map::Map;
use crate::engine::outbox::{Outbox, Pending};
use crate::engine::rewrite::item::{Content, Item};
use crate::engine::setup::Setup;
use crate::engine::space::Space;
use crate::layout::page::{self, Entry, INDEX_ENTRIES, LEAF_ENTRIES, PAGE_BYTES, PageName, PageRef};
use crate::layout::tier_page::LeafTiers;
use crate::map::index::NO_FRAME;
use crate::map::tiers::Tiers;
use crate::space::slots::Slots;
use forebay_block::{Buf, DiskId, IoError, Op, SharedBuf, Vectored};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Page writes in flight at once.
const IN_FLIGHT_MAX: usize = 64;

/// The rooms that pages are written from and to.
pub(crate) struct PageRooms<'a> {
    pub map: &'a mut Map,
    pub space: &'a mut Space,
    pub outbox: &'a mut Outbox,
    /// What the capacity tier is to know of the leaves that are written.
    pub tiers: &'a mut Tiers,
}

/// State of writing pages.
pub(crate) struct PageWriter {
    setup: Arc<Setup>,
    /// Generation of the pages written last.
    generation: u32,
    /// Generation of the pages of the last durable root.
    durable_generation: u32,
    in_flight: usize,
    /// Why the checkpoint in progress cannot become a root.
    error: Option<String>,
    /// Leaves that the freeze found dirty, and how many of them were looked at.
    frozen: Vec<u32>,
    next_frozen: usize,
    next_index: (u16, usize),
    /// Reserved at the freeze: a slot allocated later may be one that records after the freeze used and gave up, and their replay would give up the page.
    slots: VecDeque<u64>,
    /// The slots as the root will have them.
    shadow: Option<Slots>,
    /// Page slots to be freed when the next root is durable.
    superseded: Vec<u64>,
    written_bytes: u64,
}

impl PageWriter {
    /// Goes on after the pages of a generation.
    pub fn new(setup: Arc<Setup>, generation: u32) -> Self {
        Self {
            setup,
            generation,
            durable_generation: generation,
            in_flight: 0,
            error: None,
            frozen: Vec::new(),
            next_frozen: 0,
            next_index: (0, 0),
            slots: VecDeque::new(),
            shadow: None,
            superseded: Vec::new(),
            written_bytes: 0,
        }
    }

    /// Generation of the pages written last.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Slots that the checkpoint in progress holds beside the pages in use: reserved for new pages, or of old ones that
    /// are not given up yet.
    pub fn slots_held(&self) -> u64 {
        (self.slots.len() + self.superseded.len()) as u64
    }

    /// Slots of pages that are not part of the next root.
    pub fn superseded(&self) -> &[u64] {
        &self.superseded
    }

    /// Requests in flight, including those of the root.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Bytes of pages and roots sent since the start.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Whether the checkpoint in progress cannot become a root.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Takes the reason why it cannot: from here on it has not failed.
    pub fn take_error(&mut self) -> Option<String> {
        self.error.take()
    }

    /// The checkpoint in progress cannot become a root; the first reason stays.
    pub fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    /// A checkpoint begins: all leaves that are dirty now are written as they are now. `shadow`: the slots as the root will have them.
    pub fn begin(&mut self, shadow: Slots, map: &mut Map) {
        self.generation = self.generation.wrapping_add(1);
        self.error = None;
        self.in_flight = 0;
        self.next_frozen = 0;
        self.next_index = (0, 0);
        self.frozen = (0..map.frames.made() as u32).filter(|&id| map.frames.get(id).dirty).collect();
        for &frame in &self.frozen {
            map.frames.get_mut(frame).frozen = true;
        }
        self.shadow = Some(shadow);
    }

    /// Reserves the slots that the pages of this checkpoint will need.
    pub fn reserve_slots(&mut self, map: &Map, slots: &mut Slots) {
        let mut pages: BTreeSet<(u16, usize)> = BTreeSet::new();
        for disk in map.disks.values() {
            let dirty = disk.pages.iter().enumerate().filter(|(_, page)| page.as_ref().is_some_and(|p| p.dirty));
            pages.extend(dirty.map(|(number, _)| (disk.id.0, number)));
        }
        for &frame in &self.frozen {
            let frame = map.frames.get(frame);
            pages.insert((frame.disk.0, (frame.leaf / INDEX_ENTRIES as u64) as usize));
        }
        let mut wanted = (self.frozen.len() + pages.len()) as u64;
        while wanted > 0 {
            let Some((slot, got)) = slots.allocate(wanted) else {
                // A lack of slots shows when a page finds none.
                return;
            };
            self.slots.extend(slot..slot + got);
            wanted -= got;
        }
    }

    /// The root is durable: slots that it does not name any more are free, and so are reserved slots that no page took.
    pub fn root_durable(&mut self, slots: &mut Slots) {
        self.durable_generation = self.generation;
        for slot in std::mem::take(&mut self.superseded) {
            slots.clear(slot);
        }
        self.release_slots(slots);
    }

    fn release_slots(&mut self, slots: &mut Slots) {
        for slot in std::mem::take(&mut self.slots) {
            slots.clear(slot);
        }
    }

    /// The checkpoint is given up: all of it will be written again.
    pub fn abort(&mut self, map: &mut Map, slots: &mut Slots) {
        self.release_slots(slots);
        self.shadow = None;
        for &frame in &self.frozen {
            map.frames.get_mut(frame).frozen = false;
        }
        // It is unknown which index page failed, so all of this attempt are written again.
        let generation = self.generation;
        for page in map.disks.values_mut().flat_map(|disk| disk.pages.iter_mut()).flatten() {
            page.dirty |= page.reference.generation == generation;
        }
    }

    /// Leaves of checkpoints that were given up, to be written again: the next root names them where they are. Index pages of such checkpoints are written to
    /// new places in any case.
    pub fn to_rewrite<'a>(&'a self, map: &'a Map) -> impl Iterator<Item = Item> + 'a {
        let pages = map.disks.values().flat_map(|disk| {
            let pages = disk.pages.iter().enumerate();
            pages.filter_map(move |(number, page)| Some((disk.id, number, page.as_ref()?.references())))
        });
        let leaves = pages.flat_map(|(disk, number, references)| {
            let first = (number * INDEX_ENTRIES) as u64;
            (first..).zip(references).map(move |(leaf, reference)| (disk, leaf, reference))
        });
        leaves.filter_map(|(disk, number, &PageRef { location, crc, generation, .. })| {
            // A dirty leaf is written to another place in any case.
            let is_dirty = |frame: u32| frame != NO_FRAME && map.frames.get(frame).dirty;
            if location == 0 || !self.is_since_durable(generation) || is_dirty(map.disk(disk)?.leaf(number).1) {
                return None;
            }
            let content = Content::Leaf { name: PageName { disk, number, generation }, crc };
            Some(Item::new(0, self.offset_bytes(location), content))
        })
    }

    /// Takes the slots as the root will have them.
    pub fn take_shadow(&mut self) -> Option<Slots> {
        self.shadow.take()
    }

    /// A page was replaced: its slot is not part of this checkpoint, and is free once the new root is durable. A slot of an attempt that was given up is free
    /// at once, or a series of these would use up the slots. No root names it: where headers were sent and failed there is no further attempt
    /// ([`RootWriter::is_stuck`](super::roots::RootWriter::is_stuck)). It is taken last, as it may be what could not be written.
    pub fn supersede(&mut self, old: PageRef) {
        if old.location == 0 {
            return;
        }
        let slot = self.setup.extents.slot(old.location);
        let is_of_attempt = old.generation != self.generation && self.is_since_durable(old.generation);
        match &mut self.shadow {
            Some(shadow) => {
                shadow.clear(slot);
                if is_of_attempt { self.slots.push_front(slot) } else { self.superseded.push(slot) }
            }
            None => self.superseded.push(slot),
        }
    }

    /// Whether pages of a generation were written since the last durable root. Generations wrap.
    fn is_since_durable(&self, generation: u32) -> bool {
        let attempts = self.generation.wrapping_sub(self.durable_generation);
        (1..=attempts).contains(&generation.wrapping_sub(self.durable_generation))
    }

    fn take_slot(&mut self) -> Option<u64> {
        let Some(slot) = self.slots.pop_back() else {
            self.fail("no free slot for a map page".to_owned());
            return None;
        };
        if let Some(shadow) = &mut self.shadow {
            shadow.set(slot);
        }
        Some(slot)
    }

    /// Writes frozen leaves, some at once; true when all were sent and have arrived.
    pub fn write_leaves(&mut self, rooms: &mut PageRooms) -> bool {
        while self.in_flight < IN_FLIGHT_MAX && self.next_frozen < self.frozen.len() {
            let frame = self.frozen[self.next_frozen];
            self.next_frozen += 1;
            if rooms.map.frames.get(frame).frozen {
                self.write_leaf(frame, rooms);
            }
        }
        self.next_frozen == self.frozen.len() && self.in_flight == 0
    }

    /// Writes a frozen leaf to a new place, as it is now.
    pub fn write_leaf(&mut self, frame: u32, rooms: &mut PageRooms) {
        let PageRooms { map, space, outbox, tiers } = rooms;
        let entry = map.frames.get_mut(frame);
        entry.frozen = false;
        let (disk, leaf) = (entry.disk, entry.leaf);
        map.frames.set_dirty(frame, false);
        let Some((old, _)) = map.disk(disk).map(|d| d.leaf(leaf)) else {
            return;
        };
        let is_new = old.location == 0;
        space.new_leaves = space.new_leaves.saturating_sub(u64::from(is_new));
        // Entries behind the end of the disk, which a smaller size or damage of the whole leaf has left, are cleared.
        let disk_blocks = map.disk(disk).map_or(0, |disk| disk.blocks()).saturating_sub(leaf * LEAF_ENTRIES as u64);
        let page = &mut map.frames.get_mut(frame).page;
        for at in disk_blocks.min(LEAF_ENTRIES as u64) as usize..LEAF_ENTRIES {
            page::set_leaf_entry(page, at, Entry::Unmapped, 0);
        }
        let page = &map.frames.get(frame).page;
        // On which tier its blocks live goes to the capacity tier with the same checkpoint.
        tiers.leaf_written(disk.0, leaf, LeafTiers::of(page, |location| self.setup.extents.is_fast(location)));
        if (0..LEAF_ENTRIES).all(|i| page::leaf_entry(page, i).0 == Entry::Unmapped) {
            self.supersede(old);
            if let Some(entry) = map.disk_mut(disk) {
                entry.set_reference(leaf, PageRef::default());
            }
            return;
        }
        let Some(slot) = self.take_slot() else {
            map.frames.set_dirty(frame, true);
            space.new_leaves += u64::from(is_new);
            return;
        };
        let generation = self.generation;
        let page = &mut map.frames.get_mut(frame).page;
        let crc = page::seal_leaf(page, PageName { disk, number: leaf, generation });
        let bytes = Buf::copy_of(page).freeze();
        map.frames.get_mut(frame).writing = true;
        let location = self.setup.extents.slot_location(slot);
        self.supersede(old);
        if let Some(entry) = map.disk_mut(disk) {
            entry.set_reference(leaf, PageRef { location, stageable: old.stageable, crc, generation });
        }
        let offset_bytes = self.offset_bytes(location);
        self.send(offset_bytes, bytes, Pending::PageOut { frame, location }, outbox);
    }

    fn offset_bytes(&self, location: u64) -> u64 {
        self.setup.extents.place(location).map_or(0, |(_, offset_bytes)| offset_bytes)
    }

    /// Sends a part of the checkpoint to the fast device.
    pub fn send(&mut self, offset_bytes: u64, bytes: SharedBuf, pending: Pending, outbox: &mut Outbox) {
        self.begins(bytes.len() as u64);
        outbox.send(0, offset_bytes, 0, Op::Write { bufs: Vectored::One(bytes), fua: false }, pending);
    }

    /// Sends the header of a root to the fast device, past its cache.
    pub fn send_header(&mut self, offset_bytes: u64, bytes: SharedBuf, outbox: &mut Outbox) {
        self.begins(bytes.len() as u64);
        outbox.send(0, offset_bytes, 0, Op::Write { bufs: Vectored::One(bytes), fua: true }, Pending::RootOut);
    }

    /// A request of the checkpoint is sent that writes so many bytes.
    pub fn begins(&mut self, bytes: u64) {
        self.in_flight += 1;
        self.written_bytes += bytes;
    }

    /// A request of the checkpoint ended.
    pub fn ended(&mut self, device: usize, result: Result<(), IoError>) {
        self.in_flight -= 1;
        if let Err(error) = result {
            self.fail(format!("{}: {error}", self.setup.names[device]));
        }
    }

    /// The write of a leaf ended.
    pub fn leaf_written(&mut self, frame: u32, location: u64, result: Result<(), IoError>, map: &mut Map) {
        map.frames.get_mut(frame).writing = false;
        if result.is_err() {
            // The page exists only in memory: it stays dirty, and this checkpoint cannot become a root.
            let (disk, leaf) = (map.frames.get(frame).disk, map.frames.get(frame).leaf);
            if map.disk(disk).is_some_and(|d| d.leaf(leaf).0.location == location) {
                map.frames.set_dirty(frame, true);
            }
        }
        self.ended(0, result);
    }

    /// Writes dirty index pages, some at once; true when all were sent and have arrived.
    pub fn write_index_pages(&mut self, map: &mut Map, outbox: &mut Outbox) -> bool {
        let (mut disk_id, mut number) = self.next_index;
        while let Some((&id, disk)) = map.disks.range(disk_id..).next() {
            if id != disk_id {
                (disk_id, number) = (id, 0);
            }
            let next = (number..disk.pages.len()).find(|&n| disk.pages[n].as_ref().is_some_and(|p| p.dirty));
            let Some(next) = next else {
                let Some(following) = disk_id.checked_add(1) else { break };
                (disk_id, number) = (following, 0);
                continue;
            };
            if self.in_flight >= IN_FLIGHT_MAX {
                self.next_index = (disk_id, next);
                return false;
            }
            self.write_index_page(disk_id, next, map, outbox);
            number = next + 1;
        }
        self.next_index = (u16::MAX, usize::MAX);
        self.in_flight == 0
    }

    fn write_index_page(&mut self, disk_id: u16, number: usize, map: &mut Map, outbox: &mut Outbox) {
        let taken = map.disks.get_mut(&disk_id).and_then(|disk| disk.pages[number].take());
        let Some(mut index) = taken else { return };
        let old = index.reference;
        if index.is_bare() {
            // The root need not list it. Leaves that are only in memory are still found through it.
            self.supersede(old);
            (index.reference, index.dirty) = (PageRef::default(), false);
            if let Some(disk) = map.disks.get_mut(&disk_id).filter(|_| !index.is_empty()) {
                disk.pages[number] = Some(index);
            }
            return;
        }
        let slot = self.take_slot();
        let mut encoded = None;
        if let Some(slot) = slot {
            let generation = self.generation;
            let name = PageName { disk: DiskId(disk_id), number: number as u64, generation };
            let mut buf = Buf::new(PAGE_BYTES);
            let crc = page::encode_index(name, index.references().iter().copied(), &mut buf);
            let location = self.setup.extents.slot_location(slot);
            index.reference = PageRef { location, stageable: 0, crc, generation };
            index.dirty = false;
            encoded = Some((location, buf));
        }
        if let Some(disk) = map.disks.get_mut(&disk_id) {
            disk.pages[number] = Some(index);
        }
        if let Some((location, buf)) = encoded {
            self.supersede(old);
            let offset_bytes = self.offset_bytes(location);
            self.send(offset_bytes, buf.freeze(), Pending::IndexOut, outbox);
        }
    }
}
