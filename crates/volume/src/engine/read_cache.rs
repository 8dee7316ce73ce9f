//! The read cache: blocks that hosts read from the capacity tier get copies on the fast one, where their class says so and they are likely to be read again.

use super::Engine;
use super::copies::{Copies, Look, Named, Originals};
use super::requests::IN_MEMORY;
use crate::engine::setup::Setup;
use crate::layout::page::{self, BLOCK_GRAINS, Entry, Span};
use crate::layout::root::BandState;
use crate::layout::warm_list::{SlotRun, WarmEntry, WarmHead};
use crate::space::bands::Bands;
use forebay_block::{BLOCK_BYTES as BLOCK, Buf, ClassId, DiskId};
use forebay_prism::Place;

/// The generation of the band in which a location was written; none where nothing was written.
fn written_in(setup: &Setup, bands: &Bands, location: u64) -> Option<u32> {
    let (number, block) = setup.extents.band(location)?;
    let band = bands.get(number);
    let is_written = band.state != BandState::Free && u64::from(block) * BLOCK_GRAINS < u64::from(band.written);
    is_written.then_some(band.generation)
}

impl Engine {
    /// Whether blocks of a class get copies when they are read.
    pub(super) fn caches_reads(&self, class: ClassId) -> bool {
        self.prism.table().get(class).is_some_and(|spec| spec.read_cache || spec.place == Place::Both)
    }

    /// Sets the most bytes a second that are written as copies of what was read.
    pub fn set_fill_rate(&mut self, bytes_per_s: u64) {
        self.copies.set_fill_rate(bytes_per_s);
    }

    /// The classes may have changed.
    pub(super) fn prepare_copies(&mut self) {
        self.copies.prepare(self.prism.table(), &self.setup, &mut self.space.slots);
    }

    /// Slots that nobody wants for anything else.
    fn slots_for_copies(&self) -> u64 {
        self.space.data_slots_free().saturating_sub(self.free_slots_wanted())
    }

    /// Called as time passes.
    pub(super) fn look_at_copies(&mut self) {
        if !self.copies.is_on() {
            return;
        }
        self.copies.tick(self.clock.now_ns());
        self.prepare_copies();
        let look =
            Look { written_blocks: self.stats.written_blocks(), gain_of_staging: self.staying.stays.gain_of_more() };
        let unused = self.slots_for_copies();
        self.copies.share_out(&look, unused);
        if self.refusal().is_none() {
            self.copies.begin_list(self.clock.now_ns(), self.setup.options.warm_list_interval_ns);
            self.go_on_with_list();
        }
    }

    fn go_on_with_list(&mut self) {
        let spare = self.slots_for_copies();
        let Self { copies, setup, space, outbox, journal, .. } = self;
        let bands = &space.bands;
        let generation = |location| written_in(setup, bands, location);
        let of = (journal.epoch(), generation);
        copies.go_on_with_list(spare, of, (setup, &mut space.slots, outbox));
    }

    /// The write of a part of the list of copies ended.
    pub(super) fn list_written(&mut self, is_good: bool) {
        self.copies.warm.written(is_good, &mut self.space.slots);
        if self.copies.warm.hurries() {
            self.go_on_with_list();
        }
    }

    /// The pool is being stopped: where the list of copies is old, it is written at once.
    pub(super) fn hurry_list(&mut self) {
        if self.copies.is_on() && self.refusal().is_none() {
            self.copies.hurry_list();
            self.go_on_with_list();
        }
    }

    /// Whether such a list is being written.
    pub(super) fn hurries_list(&self) -> bool {
        self.copies.warm.hurries()
    }

    /// Whether any class has copies.
    #[must_use]
    pub fn has_copies(&self) -> bool {
        self.copies.is_on()
    }

    /// Device and offset of slots that a list of copies may take up. `None` where they are in use or wanted, or do not exist.
    pub(crate) fn place_of_list(&self, run: &SlotRun) -> Option<(usize, u64)> {
        if self.slots_for_copies() < run.slots {
            return None;
        }
        let is_free = (run.first..run.first.saturating_add(run.slots)).all(|slot| !self.space.slots.is_used(slot));
        is_free.then(|| self.setup.extents.place(self.setup.extents.slot_location(run.first))).flatten()
    }

    /// A part of a list was found: its slots are taken, and so are those of the copies that it names, as far as nobody else wants them.
    pub(crate) fn restore_copies(&mut self, run: &SlotRun, entries: &[WarmEntry]) {
        (run.first..run.first + run.slots).for_each(|slot| {
            self.space.slots.set(slot);
        });
        let room = self.slots_for_copies() as usize;
        let Self { copies, space, setup, .. } = self;
        // An entry is stale where its block has moved away and other data may lie in its place. Then the band was free meanwhile, which changes its generation,
        // or the place is beyond what is known to be written, as after a power cut.
        let is_there = |entry: &&WarmEntry| written_in(setup, &space.bands, entry.location) == Some(entry.generation);
        let known: Vec<_> = entries.iter().take(room).filter(is_there).collect();
        known.into_iter().for_each(|entry| copies.restore(entry, &mut space.slots));
    }

    /// All parts of a list that can be read were taken over.
    pub(crate) fn restored_list(&mut self, head: &WarmHead, runs: Vec<SlotRun>) {
        self.copies.relearn(head.learned);
        self.copies.warm.found(head.number, runs, self.copies.len() as u64);
        self.reserve_for_map();
    }

    /// Slots that copies and their list take: no record names them.
    pub(crate) fn slots_of_copies(&self) -> impl Iterator<Item = u64> + '_ {
        self.copies.slots()
    }

    /// A piece looks its blocks up, for the first time or again: what an earlier look found is dropped.
    pub(super) fn forget_sources(&mut self, id: u32) {
        let piece = &mut self.requests.pieces[id as usize];
        piece.unproven.clear();
        piece.remembered.clear();
        piece.keeps.clear();
    }

    /// From where a host reads a block that the map names: memory, a copy, or the place itself; with the checksum of what is there.
    pub(super) fn source_of(&mut self, id: u32, at: u16, class: ClassId, named: Named) -> Named {
        let piece = &self.requests.pieces[id as usize];
        let (disk, block, is_first) = (piece.disk, piece.block() + u64::from(at), piece.attempts == 0);
        let Named { span, checksum } = named;
        let mut source = named;
        // A copy says nothing of what it is one of.
        if self.copies.is_on() && !self.setup.extents.is_fast(span.location) {
            let copy = self.copies.find(disk, block, span.location);
            let copy = copy.filter(|copy| !span.is_whole() || copy.own == checksum);
            let is_cached = is_first && self.caches_reads(class);
            let is_worth_a_copy = is_cached && self.copies.seen((disk, block, span.location), &mut self.space.slots);
            let has_copy = self.copies.holds(disk, block);
            let place = if is_cached { self.copies.recent.seen(disk, block, named, has_copy) } else { None };
            let piece = &mut self.requests.pieces[id as usize];
            match (place, copy) {
                (Some(place), _) => {
                    piece.remembered.push((at, place));
                    source.span = IN_MEMORY;
                }
                (None, Some(copy)) => {
                    let span = Span::whole(self.setup.extents.slot_location(copy.slot));
                    source = Named { span, checksum: copy.own };
                    piece.unproven.extend(copy.is_restored.then_some(at));
                }
                (None, None) => piece.fills.extend(is_worth_a_copy.then_some(at)),
            }
            if is_cached && place.is_none() && self.copies.recent.is_on() {
                piece.keeps.push((at, named));
            }
        }
        if is_first && let Some(stats) = self.stats.classes.get_mut(usize::from(class.0)) {
            stats.host_read_bytes += BLOCK as u64;
            let is_hit = source.span == IN_MEMORY || self.setup.extents.is_fast(source.span.location);
            stats.fast_read_bytes += if is_hit { BLOCK as u64 } else { 0 };
        }
        source
    }

    /// Whether a read of a block goes to the place on the capacity tier that the map names.
    pub(super) fn is_read_of_capacity(&self, disk: DiskId, block: u64, span: Span) -> bool {
        let is_elsewhere = || {
            self.copies.is_on()
                && (self.copies.recent.holds(disk, block, span)
                    || self.copies.find(disk, block, span.location).is_some())
        };
        !self.setup.extents.is_fast(span.location) && !is_elsewhere()
    }

    /// Fills a part of a read that is in memory.
    pub(super) fn recall(&mut self, id: u32, first: u16, mut buf: Buf) {
        let piece = &mut self.requests.pieces[id as usize];
        let from = piece.remembered.partition_point(|&(at, _)| at < first);
        for (bytes, &(_, place)) in buf.chunks_exact_mut(BLOCK).zip(&piece.remembered[from..]) {
            bytes.copy_from_slice(self.copies.recent.bytes(place));
        }
        piece.parts.push((first, Some(buf)));
    }

    /// A piece was read: its cached blocks are kept in memory. They are copied, as the host gets its buffer at once.
    pub(super) fn keep_what_was_read(&mut self, id: u32) {
        let Some(piece) = self.requests.pieces.get_mut(id as usize) else { return };
        let Some(leaf) = self.map.in_memory(piece.disk, piece.leaf).filter(|_| !piece.keeps.is_empty()) else { return };
        for &(at, named) in &piece.keeps {
            let at = usize::from(at);
            // What was written or moved meanwhile is not what was read.
            let (entry, checksum) = page::leaf_entry(&leaf.page, usize::from(piece.first) + at);
            let is_same = matches!(entry, Entry::Data { span, .. } if Named { span, checksum } == named);
            if let Some(bytes) = piece.buf.as_deref().and_then(|data| data.get(at * BLOCK..(at + 1) * BLOCK))
                && is_same
            {
                self.copies.recent.keep(piece.disk, piece.block() + at as u64, named, bytes);
            }
        }
    }

    /// A piece was read: those of its blocks that are to have copies get them, as far as rate, memory and slots allow. The data is copied in memory, as the
    /// host gets its buffer at once.
    pub(super) fn copy_what_was_read(&mut self, id: u32) {
        let wanted = self.free_slots_wanted();
        let is_refused = self.refusal().is_some();
        let Self { setup, requests, map, space, copies, outbox, .. } = self;
        let Some(piece) = requests.pieces.get_mut(id as usize) else { return };
        let fills = std::mem::take(&mut piece.fills);
        let is_wanted = !fills.is_empty() && !is_refused;
        let Some(leaf) = map.in_memory(piece.disk, piece.leaf).filter(|_| is_wanted) else { return };
        // What was written or moved meanwhile is not what was read.
        let kind = |at: u16, copies: &Copies| {
            let at = usize::from(at);
            let (entry, named) = page::leaf_entry(&leaf.page, usize::from(piece.first) + at);
            match entry {
                Entry::Data { span, class } if piece.spans.get(at) == Some(&span) => {
                    let is_same = piece.checksums.get(at) == Some(&named);
                    let has_copy = copies.holds(piece.disk, piece.block() + at as u64);
                    (is_same && !has_copy).then_some((class, !span.is_whole()))
                }
                _ => None,
            }
        };
        let mut fills = fills.into_iter().peekable();
        while let Some(from) = fills.next() {
            let Some((class, is_packed)) = kind(from, copies) else { continue };
            let mut to = from + 1;
            while fills.next_if(|&next| next == to && kind(next, copies) == Some((class, is_packed))).is_some() {
                to += 1;
            }
            let run = usize::from(from)..usize::from(to);
            let bytes = piece.buf.as_deref().and_then(|data| data.get(run.start * BLOCK..run.end * BLOCK));
            let Some(bytes) = bytes.filter(|bytes| copies.may_fill(bytes.len() as u64)) else { return };
            let data = &Buf::copy_of(bytes).freeze();
            let (disk, first) = (piece.disk, piece.block() + u64::from(from));
            let originals = Originals { disk, first, class, data, named: &piece.checksums[run.clone()], is_packed };
            let location = |at: usize| piece.spans[run.start + at].location;
            let spare = space.data_slots_free().saturating_sub(wanted);
            copies.write(&originals, location, spare, (setup, &mut space.slots, outbox));
        }
    }
}
