//! Checkpoints: freeze the map at one sequence, write what changed to new places, then the root, and only then let
//! go of the journal and of old pages. The foreground goes on meanwhile: a frozen leaf that is to change is written
//! first.

mod capacity;
mod pages;
mod roots;
mod state;

pub(crate) use roots::header_offsets;
pub(crate) use state::Checkpoint;

use super::requests::Fill;
use super::{Engine, Freed};
use crate::layout::root::Root;
use crate::map::index::Disk;
use crate::space::groups::GroupKey;
use forebay_block::IoError;
use pages::PageRooms;
use state::Phase;

/// After so many failed attempts in a row, a second apart, writes are refused instead of kept waiting.
const FAILURES_MAX: u32 = 3;
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
        self.checkpoint.roots.number()
    }

    /// Whether a checkpoint is wanted or in progress.
    #[must_use]
    pub fn checkpoint_pending(&self) -> bool {
        self.checkpoint.requested || self.checkpoint.is_active()
    }

    /// Whether the last attempt at a checkpoint was given up.
    #[must_use]
    pub fn checkpoint_failed(&self) -> bool {
        self.flushes.has_failed() || !self.checkpoint.is_active() && self.checkpoint.not_before_ns > self.clock.now_ns()
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
            c.pages.in_flight(),
            c.pages.has_failed(),
            c.dirtied,
            self.setup.limits.dirty_leaves,
            c.not_before_ns
        )
    }

    fn checkpoint_due(&self) -> bool {
        if self.flushes.has_failed()
            || self.checkpoint.roots.is_stuck()
            || self.read_only.is_some() && !self.checkpoint.clean
        {
            return false;
        }
        if self.clock.now_ns() < self.checkpoint.not_before_ns {
            return false;
        }
        self.checkpoint.requested
            || self.checkpoint.dirtied >= self.setup.limits.dirty_leaves
            || self.journal.used_bytes() > self.journal.len_bytes() / 2
                // One that could not move the journal's start would only write the same root again, and again.
                && self.journal_needed_from().0 > self.journal.start()
            || self.pinned_bands_due()
    }

    /// Whether bands wait for a checkpoint and are needed: few others are free, or a write waits for space.
    fn pinned_bands_due(&self) -> bool {
        let few = (self.space.bands.count() / 32).max(1);
        self.checkpoint.capacity.pinned() > 0 && (self.space.bands.free_count() <= few || self.space_wanted() > 0)
    }

    /// From where recovery would need the journal if the map were frozen now: position and batch.
    fn journal_needed_from(&self) -> (u64, u64) {
        let pieces = self.requests.pieces.iter().filter_map(|(_, piece)| piece.journal_at);
        pieces.chain(self.migrate.journal_at()).fold(self.journal.head(), Ord::min)
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
            let Self { checkpoint, map, space, outbox, .. } = self;
            let Checkpoint { pages, capacity, phase, .. } = checkpoint;
            if pages.write_leaves(&mut PageRooms { map, space, outbox, tiers: capacity.tiers() }) {
                *phase = Phase::Index;
            }
        }
        if self.checkpoint.phase == Phase::Index
            && self.checkpoint.pages.write_index_pages(&mut self.map, &mut self.outbox)
        {
            if self.checkpoint.pages.has_failed() {
                return self.abort_checkpoint();
            }
            self.checkpoint.phase = Phase::Tiers;
        }
        if self.checkpoint.phase == Phase::Tiers {
            let Checkpoint { pages, capacity, .. } = &mut self.checkpoint;
            if capacity.write_pages(&self.map, pages, &mut self.outbox) {
                if pages.has_failed() {
                    return self.abort_checkpoint();
                }
                self.write_blob();
            }
        }
        if self.checkpoint.pages.in_flight() > 0 {
            return;
        }
        let has_failed = self.checkpoint.pages.has_failed();
        match self.checkpoint.phase {
            Phase::Blob if has_failed => self.abort_checkpoint(),
            Phase::Blob if self.awaits_summaries() => {}
            Phase::CapacityHeader if has_failed => self.abort_checkpoint(),
            Phase::CapacityHeader => self.write_headers(),
            Phase::Header if has_failed => self.retry_headers(),
            Phase::Blob => {
                self.checkpoint.summaries_awaited.clear();
                self.checkpoint.phase = Phase::FlushPages;
                self.flushes.want_all();
            }
            Phase::Header => self.root_durable(),
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

    /// Whether summaries that the root in progress relies on are still to be written.
    fn awaits_summaries(&self) -> bool {
        self.checkpoint.summaries_awaited.iter().any(|&key| self.space.bands.groups().is_unwritten(key))
    }

    /// The flush that the checkpoint asked for ended.
    pub(crate) fn checkpoint_flushed(&mut self, good: bool) {
        match self.checkpoint.phase {
            _ if !good => self.abort_checkpoint(),
            Phase::FlushPages => self.write_capacity_header(),
            _ => {}
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
            self.checkpoint.summary_failed(key, text);
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
                    shadow.clear_run(slot, u64::from(segment.blocks));
                }
            }
        }
        unapplied.extend(self.migrate.unapplied());
        unapplied.sort_unstable();
        unapplied.dedup();
        for freed in self.space.freed.iter().chain(self.migrate.deferred()).chain(self.space.lost.iter().copied()) {
            if let Freed::Slots { first, count } = freed {
                shadow.clear_run(first, count);
            }
        }
        for slot in self.copies.slots() {
            shadow.clear(slot);
        }
        for &slot in self.checkpoint.pages.superseded() {
            shadow.clear(slot);
        }
        self.map.disks.values_mut().for_each(Disk::take_counts);
        let counts_due = !self.migrate.has_surveyed();
        let state = &mut self.checkpoint;
        state.counts_due = counts_due;
        state.requested = false;
        state.dirtied_before = std::mem::take(&mut state.dirtied);
        state.phase = Phase::Leaves;
        state.start = start.0;
        state.summaries_awaited = self.space.bands.groups().unwritten();
        state.capacity.tiers().freeze();
        state.pages.begin(shadow, &mut self.map);
        state.roots.begin(Root {
            journal_position: start.0,
            journal_batch: start.1,
            next_sequence: self.journal.next_sequence(),
            unapplied,
            clean: state.clean,
            generation: state.pages.generation(),
            classes: self.prism.table().encode(),
            stats: self.stats.classes.clone(),
            evidence: self.prism.save(),
            band_clock: self.space.bands.clock(),
            bands: self.space.bands.table().to_vec(),
            open_groups: self.space.bands.open_groups().map(|(band, group, e)| (band, group, e.to_vec())).collect(),
            ..Root::default()
        });
        self.summaries.may_retry();
        self.write_summaries();
        self.checkpoint.pages.reserve_slots(&self.map, &mut self.space.slots);
        self.reserve_for_map();
    }

    /// Writes a leaf that is to change, as it was when the checkpoint in progress began.
    pub(crate) fn write_frozen_leaf(&mut self, frame: u32) {
        let Self { checkpoint, map, space, outbox, .. } = self;
        let Checkpoint { pages, capacity, .. } = checkpoint;
        pages.write_leaf(frame, &mut PageRooms { map, space, outbox, tiers: capacity.tiers() });
    }

    fn write_blob(&mut self) {
        let Checkpoint { pages, roots, capacity, counts_due, phase, .. } = &mut self.checkpoint;
        *phase = Phase::Blob;
        let (number, epoch) = (roots.number() + 1, self.journal.epoch());
        match roots.write_blob((&self.map, &mut *pages, &mut self.outbox), epoch, *counts_due) {
            Ok(root) => {
                let of = (&self.map, self.space.bands.shape());
                capacity.write_root(&root, (number, epoch), of, (pages, &mut self.outbox));
            }
            Err(error) => {
                pages.fail(error);
                self.abort_checkpoint();
            }
        }
    }

    fn write_capacity_header(&mut self) {
        let Checkpoint { pages, capacity, phase, .. } = &mut self.checkpoint;
        *phase = Phase::CapacityHeader;
        if !capacity.write_header(pages, &mut self.outbox) {
            self.write_headers();
        }
    }

    fn write_headers(&mut self) {
        let Checkpoint { pages, roots, phase, .. } = &mut self.checkpoint;
        if roots.write_headers(pages, &mut self.outbox) {
            *phase = Phase::Header;
        }
    }

    fn retry_headers(&mut self) {
        let Checkpoint { pages, roots, .. } = &mut self.checkpoint;
        let why = pages.take_error().unwrap_or_default();
        if !roots.retry_headers(pages, &mut self.outbox) {
            self.checkpoint.pages.fail(why.clone());
            self.set_read_only(&format!("the root cannot be written: {why}"));
            self.abort_checkpoint();
        }
    }

    fn root_durable(&mut self) {
        let Checkpoint { pages, roots, .. } = &mut self.checkpoint;
        let Some(number) = roots.durable(&mut self.map, pages, &mut self.outbox) else { return };
        self.checkpoint.failures = 0;
        self.checkpoint.dirtied_before = 0;
        self.journal.truncate(self.checkpoint.start, number);
        self.checkpoint.pages.root_durable(&mut self.space.slots);
        for band in self.checkpoint.capacity.tiers().durable() {
            self.space.changed = true;
            self.summaries.trim(band, &mut self.space.bands, &mut self.outbox);
        }
        self.stats.counters.checkpoints += 1;
        self.checkpoint.phase = Phase::Supersede;
    }

    fn abort_checkpoint(&mut self) {
        self.stats.counters.checkpoint_errors += 1;
        let state = &mut self.checkpoint;
        if let Some(error) = state.pages.take_error() {
            self.stats.counters.last_checkpoint_error = Some(error);
        }
        state.phase = Phase::Idle;
        state.dirtied += std::mem::take(&mut state.dirtied_before);
        state.roots.abort();
        state.capacity.abort();
        state.pages.abort(&mut self.map, &mut self.space.slots);
        state.summaries_awaited.clear();
        state.requested = true;
        state.not_before_ns = self.clock.now_ns().saturating_add(1_000_000_000);
        state.failures = state.failures.saturating_add(1);
    }
}
