//! Checkpoints: freeze the map at one sequence, write what changed to new places, then the root, and only then let
//! go of the journal and of old pages. The foreground goes on meanwhile: a frozen leaf that is to change is written
//! first.

use super::clients::Fill;
use super::{Counters, Engine, Freed, Pending};
use crate::layout::page::{self, Entry, INDEX_ENTRIES, LEAF_ENTRIES, PAGE_BYTES, PageName, PageRef};
use crate::layout::root::{DiskRoot, KeptSection, Root, RootHeader};
use crate::layout::superblock::Superblock;
use crate::map::index::Disk;
use crate::space::bands::GroupKey;
use crate::space::slots::Slots;
use forebay_block::{Buf, DiskId, IoError, Op, Vectored};
use std::collections::BTreeSet;

/// Page writes under way at once.
const PAGES_IN_FLIGHT: usize = 64;
/// Most leaves dirtied between two checkpoints: with those dirtied while one is written, this bounds what recovery
/// reads (2 x 65536 leaves of 4 KiB are 512 MiB).
const DIRTY_MAX: usize = 65_536;
/// After so many failed attempts in a row, a second apart, writes are refused instead of kept waiting.
const FAILURES_MAX: u32 = 3;
/// Further attempts at writing the headers of a root.
const HEADER_ATTEMPTS_MAX: u32 = 3;
const BLOB_CHUNK_BYTES: usize = 1 << 20;

/// How far a checkpoint has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Leaves,
    Index,
    Blob,
    FlushPages,
    Header,
    FlushHeader,
    Supersede,
}

/// State of checkpointing, and of what is done beside it.
#[derive(Default)]
pub(crate) struct CheckpointState {
    /// Number of the last durable root.
    pub number: u64,
    /// Generation written into pages.
    pub generation: u32,
    /// Leaves dirtied since the last freeze.
    pub dirtied: usize,
    /// Leaves dirtied from the last durable root to that freeze: where the checkpoint comes to nothing, recovery still
    /// needs them.
    pub dirtied_before: usize,
    /// See [`RootHeader::counts_due`], as this checkpoint began.
    counts_due: bool,
    /// Sections of the root that this program does not know.
    pub kept: Vec<KeptSection>,
    /// Groups that were complete at the freeze, whose summary has not reached the device since: the root does not carry
    /// their entries, so they come first.
    summaries_awaited: BTreeSet<GroupKey>,
    phase: Phase,
    requested: bool,
    clean: bool,
    in_flight: usize,
    failed: bool,
    /// Time before which no new attempt is made after a failure.
    not_before_ns: u64,
    /// Attempts in a row that were given up.
    failures: u32,
    /// Attempts at writing the headers of this checkpoint.
    header_attempts: u32,
    /// The headers of the last attempt may be on the device or not: its area must not be touched again.
    root_stuck: bool,
    frozen: Vec<u32>,
    next_frozen: usize,
    next_index: (u16, usize),
    root: Root,
    shadow: Option<Slots>,
    /// Page slots to be freed when the next root is durable.
    superseded: Vec<u64>,
    /// Slots reserved at the freeze for the pages of this checkpoint. A slot taken later might be one that records
    /// after the freeze used and gave up: replaying them would give up the page.
    page_slots: Vec<u64>,
    header: Option<RootHeader>,
    /// Sizes of the disks that its root tells, in bytes.
    disk_sizes_bytes: Vec<(u16, u64)>,
    /// Journal position where a recovery from this checkpoint would start.
    start: u64,
}

impl CheckpointState {
    /// Whether a checkpoint is under way.
    pub fn is_active(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// The summary of a group could not be written: where the checkpoint under way needs it, it is given up.
    pub fn summary_failed(&mut self, key: GroupKey, error: String, counters: &mut Counters) {
        if self.summaries_awaited.contains(&key) {
            self.failed = true;
            counters.last_checkpoint_error = Some(error);
        }
    }

    /// Slots that the checkpoint under way holds twice: new pages reserved, or old ones not yet given up.
    pub fn slots_held(&self) -> u64 {
        (self.page_slots.len() + self.superseded.len()) as u64
    }
}

impl Engine {
    /// Asks for a checkpoint as soon as possible; `clean`: nothing will follow in the journal.
    pub fn request_checkpoint(&mut self, clean: bool) {
        self.checkpoint.requested = true;
        self.checkpoint.clean = clean;
        self.checkpoint.not_before_ns = 0;
    }

    /// Checkpoints given up since the start.
    #[must_use]
    pub fn checkpoints_given_up(&self) -> u64 {
        self.stats.counters.checkpoint_errors
    }

    /// Number of the last durable checkpoint.
    #[must_use]
    pub fn checkpoint_number(&self) -> u64 {
        self.checkpoint.number
    }

    /// Whether a checkpoint is wanted or under way.
    #[must_use]
    pub fn checkpoint_pending(&self) -> bool {
        self.checkpoint.requested || self.checkpoint.is_active()
    }

    /// Whether the last attempt at a checkpoint was given up.
    #[must_use]
    pub fn checkpoint_failed(&self) -> bool {
        self.flush.failed || !self.checkpoint.is_active() && self.checkpoint.not_before_ns > self.clock.now_ns()
    }

    /// Why writes need not wait for a checkpoint any more: several attempts in a row were given up.
    pub(crate) fn checkpoint_hopeless(&self) -> Option<String> {
        (self.checkpoint.failures >= FAILURES_MAX && !self.checkpoint.is_active()).then(|| {
            let why = self.stats.counters.last_checkpoint_error.as_deref().unwrap_or("a device flush failed");
            format!("checkpoints cannot be written, the journal is full: {why}")
        })
    }

    /// For reports of requests that do not end.
    pub(crate) fn checkpoint_describe(&self) -> String {
        let c = &self.checkpoint;
        format!(
            "checkpoint {:?} requested {} in flight {} failed {} dirtied {} of {} not before {}",
            c.phase,
            c.requested,
            c.in_flight,
            c.failed,
            c.dirtied,
            self.dirty_limit(),
            c.not_before_ns
        )
    }

    pub(crate) fn dirty_limit(&self) -> usize {
        // Each dirty leaf needs a slot of its own before its old one is free.
        let by_slots = (self.space.slots.total() / 16) as usize;
        (self.map.frames.limit() * 2 / 5).min(by_slots).clamp(1, DIRTY_MAX)
    }

    fn checkpoint_due(&self) -> bool {
        if self.flush.failed || self.checkpoint.root_stuck || self.read_only.is_some() && !self.checkpoint.clean {
            return false;
        }
        if self.clock.now_ns() < self.checkpoint.not_before_ns {
            return false;
        }
        self.checkpoint.requested
            || self.checkpoint.dirtied >= self.dirty_limit()
            || self.journal.used_bytes() > self.journal.len_bytes() / 2
                // One that could not move the journal's start would only write the same root again, and again.
                && self.journal_needed_from().0 > self.journal.start()
    }

    /// From where recovery would need the journal if the map were frozen now: position and batch.
    fn journal_needed_from(&self) -> (u64, u64) {
        let pieces = self.requests.pieces.iter().filter_map(|(_, piece)| piece.journal_at);
        pieces.chain(self.migrate_journal_at()).fold(self.journal.head(), Ord::min)
    }

    /// Moves the checkpoint on as far as it goes without waiting.
    pub(crate) fn checkpoint_step(&mut self) {
        if self.summaries.is_due() {
            self.write_summaries();
        }
        if self.checkpoint.phase == Phase::Idle && self.checkpoint_due() {
            self.freeze();
        }
        if self.checkpoint.phase == Phase::Leaves {
            while self.checkpoint.in_flight < PAGES_IN_FLIGHT
                && self.checkpoint.next_frozen < self.checkpoint.frozen.len()
            {
                let frame = self.checkpoint.frozen[self.checkpoint.next_frozen];
                self.checkpoint.next_frozen += 1;
                if self.map.frames.get(frame).frozen {
                    self.page_out(frame);
                }
            }
            if self.checkpoint.next_frozen == self.checkpoint.frozen.len() && self.checkpoint.in_flight == 0 {
                self.checkpoint.phase = Phase::Index;
            }
        }
        if self.checkpoint.phase == Phase::Index {
            let all_sent = self.write_index_pages();
            if all_sent && self.checkpoint.in_flight == 0 {
                if self.checkpoint.failed {
                    return self.abort_checkpoint();
                }
                self.write_blob();
            }
        }
        if self.checkpoint.in_flight > 0 {
            return;
        }
        match self.checkpoint.phase {
            Phase::Blob if self.checkpoint.failed => self.abort_checkpoint(),
            Phase::Blob if self.awaits_summaries() => {}
            Phase::Header if self.checkpoint.failed => self.retry_headers(),
            Phase::Blob => {
                self.checkpoint.summaries_awaited.clear();
                self.checkpoint.phase = Phase::FlushPages;
                self.flush.checkpoint_wants = true;
            }
            Phase::Header => {
                self.checkpoint.phase = Phase::FlushHeader;
                self.flush.checkpoint_wants = true;
            }
            Phase::Supersede => {
                self.checkpoint.phase = Phase::Idle;
                // Another may have been asked for meanwhile.
                if self.checkpoint_due() {
                    self.checkpoint_step();
                }
            }
            _ => {}
        }
    }

    /// Whether summaries that the root under way relies on are still to be written.
    fn awaits_summaries(&self) -> bool {
        self.checkpoint.summaries_awaited.iter().any(|&key| self.space.bands.is_unwritten(key))
    }

    /// The flush that the checkpoint asked for ended.
    pub(crate) fn checkpoint_flushed(&mut self, good: bool) {
        match self.checkpoint.phase {
            _ if !good => self.abort_checkpoint(),
            Phase::FlushPages => self.write_headers(),
            Phase::FlushHeader => self.root_durable(),
            _ => {}
        }
    }

    pub(crate) fn checkpoint_io_done(&mut self, result: Result<(), IoError>) {
        self.checkpoint.in_flight -= 1;
        if let Err(error) = result {
            self.checkpoint.failed = true;
            self.stats.counters.last_checkpoint_error = Some(format!("{}: {error}", self.setup.names[0]));
        }
    }

    fn write_summaries(&mut self) {
        self.summaries.write(&mut self.space.bands, &mut self.outbox, self.clock.now_ns());
    }

    /// A summary that went by itself arrived, or not: then no root is written meanwhile.
    pub(crate) fn summary_written(&mut self, device: usize, key: GroupKey, result: &Result<(), IoError>) {
        self.summaries.written(&[key], result.is_ok(), &mut self.space.bands, &mut self.outbox);
        if let Err(error) = result {
            self.stats.counters.summary_errors += 1;
            self.summaries.failed(self.clock.now_ns());
            let text = format!("summary of band {}: {}: {error}", key.0, self.setup.names[device]);
            self.checkpoint.summary_failed(key, text, &mut self.stats.counters);
        }
    }

    /// Fixes the sequence: what is applied now is in the checkpoint, the rest will be replayed.
    fn freeze(&mut self) {
        self.seal_batch(false);
        let start = self.journal_needed_from();
        let mut unapplied = Vec::new();
        let mut shadow = self.space.slots.clone();
        for (_, piece) in self.requests.pieces.iter().filter(|(_, piece)| piece.journal_at.is_some()) {
            for segment in &piece.segments {
                unapplied.push(segment.sequence);
            }
        }
        for (_, piece) in &self.requests.pieces {
            for segment in &piece.segments {
                if let Fill::Data { location, .. } = segment.fill
                    && self.setup.extents.is_fast(location)
                {
                    let slot = self.setup.extents.slot(location);
                    (slot..slot + u64::from(segment.blocks)).for_each(|slot| {
                        shadow.clear(slot);
                    });
                }
            }
        }
        unapplied.extend(self.migrate_unapplied());
        unapplied.sort_unstable();
        unapplied.dedup();
        for freed in self.space.freed.iter().chain(self.migrate_deferred()).chain(self.space.lost.iter().copied()) {
            if let Freed::Slots { first, count } = freed {
                (first..first + count).for_each(|slot| {
                    shadow.clear(slot);
                });
            }
        }
        for slot in self.copies.slots() {
            shadow.clear(slot);
        }
        for &slot in &self.checkpoint.superseded {
            shadow.clear(slot);
        }
        self.map.disks.values_mut().for_each(Disk::take_counts);
        let counts_due = !self.migrate_has_surveyed();
        let state = &mut self.checkpoint;
        state.counts_due = counts_due;
        state.generation += 1;
        state.requested = false;
        state.failed = false;
        state.header_attempts = 0;
        state.dirtied_before = std::mem::take(&mut state.dirtied);
        state.in_flight = 0;
        state.next_frozen = 0;
        state.next_index = (0, 0);
        state.phase = Phase::Leaves;
        state.frozen = (0..self.map.frames.made() as u32).filter(|&id| self.map.frames.get(id).dirty).collect();
        for &frame in &state.frozen {
            self.map.frames.get_mut(frame).frozen = true;
        }
        state.root = Root {
            journal_position: start.0,
            journal_batch: start.1,
            next_sequence: self.journal.next_sequence(),
            unapplied,
            clean: state.clean,
            generation: state.generation,
            disks: Vec::new(),
            next_disk: self.map.next_disk,
            classes: self.prism.table().encode(),
            stats: self.stats.classes.clone(),
            evidence: self.prism.save(),
            band_clock: self.space.bands.clock(),
            bands: self.space.bands.table().to_vec(),
            open_groups: self.space.bands.open_groups().map(|(band, group, e)| (band, group, e.to_vec())).collect(),
            slots: Vec::new(),
            kept: state.kept.clone(),
        };
        state.shadow = Some(shadow);
        state.start = start.0;
        state.summaries_awaited = self.space.bands.unwritten();
        self.summaries.may_retry();
        self.write_summaries();
        self.reserve_page_slots();
        self.reserve_for_map();
    }

    /// Takes the slots that the pages of this checkpoint will need.
    fn reserve_page_slots(&mut self) {
        let mut pages: BTreeSet<(u16, usize)> = BTreeSet::new();
        for disk in self.map.disks.values() {
            let dirty = disk.pages.iter().enumerate().filter(|(_, page)| page.as_ref().is_some_and(|p| p.dirty));
            pages.extend(dirty.map(|(number, _)| (disk.id.0, number)));
        }
        for &frame in &self.checkpoint.frozen {
            let frame = self.map.frames.get(frame);
            pages.insert((frame.disk.0, (frame.leaf / INDEX_ENTRIES as u64) as usize));
        }
        let mut wanted = (self.checkpoint.frozen.len() + pages.len()) as u64;
        while wanted > 0 {
            let Some((slot, got)) = self.space.slots.allocate(wanted) else {
                // What is missing shows when a page finds none.
                return;
            };
            self.checkpoint.page_slots.extend(slot..slot + got);
            wanted -= got;
        }
    }

    /// Gives back reserved slots that no page took.
    fn release_page_slots(&mut self) {
        for slot in std::mem::take(&mut self.checkpoint.page_slots) {
            self.space.slots.clear(slot);
        }
    }

    /// Writes a frozen leaf to a new place, as it is now.
    pub(crate) fn page_out(&mut self, frame: u32) {
        let entry = self.map.frames.get_mut(frame);
        entry.frozen = false;
        let (disk, leaf) = (entry.disk, entry.leaf);
        self.map.frames.set_dirty(frame, false);
        let Some((old, _)) = self.map.disk(disk).map(|d| d.leaf(leaf)) else {
            return;
        };
        let is_new = old.location == 0;
        self.space.new_leaves = self.space.new_leaves.saturating_sub(u64::from(is_new));
        let page = &self.map.frames.get(frame).page;
        if (0..LEAF_ENTRIES).all(|i| page::leaf_entry(page, i).0 == Entry::Unmapped) {
            self.supersede_page(old);
            if let Some(entry) = self.map.disk_mut(disk) {
                entry.set_reference(leaf, PageRef::default());
            }
            return;
        }
        let Some(slot) = self.take_page_slot() else {
            self.map.frames.set_dirty(frame, true);
            self.space.new_leaves += u64::from(is_new);
            return;
        };
        let generation = self.checkpoint.generation;
        let page = &mut self.map.frames.get_mut(frame).page;
        let crc = page::seal_leaf(page, PageName { disk, number: leaf, generation });
        let bytes = Buf::copy_of(page).freeze();
        self.map.frames.get_mut(frame).writing = true;
        let location = self.setup.extents.slot_location(slot);
        self.supersede_page(old);
        if let Some(entry) = self.map.disk_mut(disk) {
            entry.set_reference(leaf, PageRef { location, stageable: old.stageable, crc, generation });
        }
        self.checkpoint.in_flight += 1;
        let pending = Pending::PageOut { frame, location };
        self.write_fast(location, bytes, pending);
    }

    fn write_fast(&mut self, location: u64, bytes: forebay_block::SharedBuf, pending: Pending) {
        let offset_bytes = self.setup.extents.place(location).map_or(0, |(_, offset)| offset);
        self.stats.counters.map_bytes += bytes.len() as u64;
        self.outbox.send(0, offset_bytes, 0, Op::Write { bufs: Vectored::One(bytes), fua: false }, pending);
    }

    fn take_page_slot(&mut self) -> Option<u64> {
        let Some(slot) = self.checkpoint.page_slots.pop() else {
            self.checkpoint.failed = true;
            self.stats.counters.last_checkpoint_error = Some("no free slot for a map page".to_owned());
            return None;
        };
        if let Some(shadow) = &mut self.checkpoint.shadow {
            shadow.set(slot);
        }
        Some(slot)
    }

    /// A page was replaced: its slot is not part of this checkpoint, and free once the new root is durable.
    pub(crate) fn supersede_page(&mut self, old: PageRef) {
        if old.location != 0 {
            let slot = self.setup.extents.slot(old.location);
            if let Some(shadow) = &mut self.checkpoint.shadow {
                shadow.clear(slot);
            }
            self.checkpoint.superseded.push(slot);
        }
    }

    pub(crate) fn page_out_done(&mut self, frame: u32, location: u64, result: Result<(), IoError>) {
        self.map.frames.get_mut(frame).writing = false;
        if result.is_err() {
            // The page exists only in memory: it stays dirty, and this checkpoint will not become a root.
            let (disk, leaf) = (self.map.frames.get(frame).disk, self.map.frames.get(frame).leaf);
            if self.map.disk(disk).is_some_and(|d| d.leaf(leaf).0.location == location) {
                self.map.frames.set_dirty(frame, true);
            }
        }
        self.checkpoint_io_done(result);
    }

    /// Writes dirty index pages; true when all were sent.
    fn write_index_pages(&mut self) -> bool {
        let (mut disk_id, mut number) = self.checkpoint.next_index;
        loop {
            let Some((&id, disk)) = self.map.disks.range(disk_id..).next() else {
                self.checkpoint.next_index = (u16::MAX, usize::MAX);
                return true;
            };
            if id != disk_id {
                (disk_id, number) = (id, 0);
            }
            let next = (number..disk.pages.len()).find(|&n| disk.pages[n].as_ref().is_some_and(|p| p.dirty));
            let Some(next) = next else {
                let Some(following) = disk_id.checked_add(1) else {
                    return true;
                };
                (disk_id, number) = (following, 0);
                continue;
            };
            if self.checkpoint.in_flight >= PAGES_IN_FLIGHT {
                self.checkpoint.next_index = (disk_id, next);
                return false;
            }
            self.write_index_page(disk_id, next);
            number = next + 1;
        }
    }

    fn write_index_page(&mut self, disk_id: u16, number: usize) {
        let taken = self.map.disks.get_mut(&disk_id).and_then(|disk| disk.pages[number].take());
        let Some(mut index) = taken else { return };
        let old = index.reference;
        if index.is_empty() {
            self.supersede_page(old);
            return;
        }
        let Some(slot) = self.take_page_slot() else {
            if let Some(disk) = self.map.disks.get_mut(&disk_id) {
                disk.pages[number] = Some(index);
            }
            return;
        };
        let generation = self.checkpoint.generation;
        let name = PageName { disk: DiskId(disk_id), number: number as u64, generation };
        let mut buf = Buf::new(PAGE_BYTES);
        let crc = page::encode_index(name, index.references().iter().copied(), &mut buf);
        let location = self.setup.extents.slot_location(slot);
        index.reference = PageRef { location, stageable: 0, crc, generation };
        index.dirty = false;
        if let Some(disk) = self.map.disks.get_mut(&disk_id) {
            disk.pages[number] = Some(index);
        }
        self.supersede_page(old);
        self.checkpoint.in_flight += 1;
        self.write_fast(location, buf.freeze(), Pending::IndexOut);
    }

    fn write_blob(&mut self) {
        // Disks may have been added since the freeze; their ids must never be given out again.
        self.checkpoint.root.next_disk = self.map.next_disk;
        self.checkpoint.root.disks = self
            .map
            .disks
            .values()
            .map(|disk| DiskRoot {
                id: disk.id.0,
                name: disk.name.clone(),
                size_bytes: disk.size_bytes,
                pages: disk
                    .pages
                    .iter()
                    .enumerate()
                    .filter_map(|(i, p)| p.as_ref().map(|p| (i as u32, p.reference)))
                    .filter(|(_, reference)| reference.location != 0)
                    .collect(),
            })
            .collect();
        let sizes = self.map.disks.values().map(|disk| (disk.id.0, disk.size_bytes));
        self.checkpoint.disk_sizes_bytes = sizes.collect();
        let Some(shadow) = self.checkpoint.shadow.take() else {
            return;
        };
        self.checkpoint.root.slots = shadow.words().to_vec();
        let blob = self.checkpoint.root.encode();
        self.checkpoint.root = Root::default();
        let number = self.checkpoint.number + 1;
        let area = self.setup.superblock.root_offsets_bytes[(number % 2) as usize];
        if blob.len() as u64 + 2 * 4096 > self.setup.superblock.root_len_bytes {
            self.stats.counters.last_checkpoint_error = Some("the root area is too small for this map".to_owned());
            return self.abort_checkpoint();
        }
        let (epoch, counts_due) = (self.journal.epoch(), self.checkpoint.counts_due);
        self.checkpoint.header = Some(Root::header(&blob, number, epoch, counts_due));
        self.checkpoint.phase = Phase::Blob;
        let mut offset_bytes = area + 4096;
        for chunk in blob.chunks(BLOB_CHUNK_BYTES) {
            let mut buf = Buf::zeroed(chunk.len().next_multiple_of(4096));
            buf[..chunk.len()].copy_from_slice(chunk);
            let len = buf.len() as u64;
            self.stats.counters.map_bytes += len;
            self.checkpoint.in_flight += 1;
            let op = Op::Write { bufs: Vectored::One(buf.freeze()), fua: false };
            self.outbox.send(0, offset_bytes, 0, op, Pending::RootOut);
            offset_bytes += len;
        }
    }

    fn write_headers(&mut self) {
        let Some(header) = self.checkpoint.header else {
            return;
        };
        self.checkpoint.phase = Phase::Header;
        self.write_header_copies(&header);
    }

    /// A copy of the header may be on the device: from here on there is no way back, because another attempt would
    /// write its blob under this header. The same bytes are written again; if that fails, too, nothing more is.
    fn retry_headers(&mut self) {
        self.checkpoint.failed = false;
        self.checkpoint.header_attempts += 1;
        if self.checkpoint.header_attempts <= HEADER_ATTEMPTS_MAX {
            return self.write_headers();
        }
        let why = self.stats.counters.last_checkpoint_error.clone().unwrap_or_default();
        self.set_read_only(&format!("the root cannot be written: {why}"));
        self.checkpoint.root_stuck = true;
        self.abort_checkpoint();
    }

    fn write_header_copies(&mut self, header: &RootHeader) {
        for offset_bytes in header_offsets(&self.setup.superblock, header.checkpoint) {
            let buf = Buf::copy_of(&header.encode(&self.setup.superblock.pool)).freeze();
            self.checkpoint.in_flight += 1;
            let op = Op::Write { bufs: Vectored::One(buf), fua: false };
            self.outbox.send(0, offset_bytes, 0, op, Pending::RootOut);
        }
    }

    fn root_durable(&mut self) {
        let Some(header) = self.checkpoint.header.take() else {
            return;
        };
        self.checkpoint.number = header.checkpoint;
        for (id, size_bytes) in std::mem::take(&mut self.checkpoint.disk_sizes_bytes) {
            if let Some(disk) = self.map.disks.get_mut(&id) {
                disk.durable_bytes = size_bytes;
            }
        }
        self.checkpoint.failures = 0;
        self.checkpoint.dirtied_before = 0;
        self.journal.truncate(self.checkpoint.start, header.checkpoint);
        for slot in std::mem::take(&mut self.checkpoint.superseded) {
            self.space.slots.clear(slot);
        }
        self.release_page_slots();
        self.stats.counters.checkpoints += 1;
        self.checkpoint.phase = Phase::Supersede;
        // The older root must never be taken for the newest, should the new one be lost.
        let older = RootHeader { checkpoint: header.checkpoint - 1, superseded_by: header.checkpoint, ..header };
        self.write_header_copies(&older);
    }

    fn abort_checkpoint(&mut self) {
        self.checkpoint.phase = Phase::Idle;
        self.checkpoint.dirtied += std::mem::take(&mut self.checkpoint.dirtied_before);
        self.release_page_slots();
        self.checkpoint.header = None;
        self.checkpoint.shadow = None;
        self.checkpoint.summaries_awaited.clear();
        self.checkpoint.requested = true;
        self.checkpoint.not_before_ns = self.clock.now_ns().saturating_add(1_000_000_000);
        self.checkpoint.failures = self.checkpoint.failures.saturating_add(1);
        self.stats.counters.checkpoint_errors += 1;
        for &frame in &self.checkpoint.frozen {
            self.map.frames.get_mut(frame).frozen = false;
        }
        // Which index page it was that failed is not known: all of this attempt are written again.
        let generation = self.checkpoint.generation;
        for page in self.map.disks.values_mut().flat_map(|disk| disk.pages.iter_mut()).flatten() {
            page.dirty |= page.reference.generation == generation;
        }
    }
}

/// Where the two header copies of a checkpoint's root lie.
pub(crate) fn header_offsets(superblock: &Superblock, checkpoint: u64) -> [u64; 2] {
    let area = superblock.root_offsets_bytes[(checkpoint % 2) as usize];
    [area, area + superblock.root_len_bytes - 4096]
}
