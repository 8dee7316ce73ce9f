//! Checkpoints: freeze the map at one sequence, write what has changed to new places, then the root, and only then
//! release the journal and the old pages. The foreground goes on meanwhile: a frozen leaf that is to change is written
//! first.

mod capacity;
mod index_room;
mod pages;
mod roots;
mod state;

use capacity::CheckpointName;
pub(crate) use roots::header_offsets;
pub(crate) use state::Checkpoint;

use super::Freed;
use super::batches;
use super::copies::Copies;
use super::flush::Flushes;
use super::map::Map;
use super::migrate::Migrate;
use super::outbox::Outbox;
use super::requests::{Fill, Requests};
use super::scrub::Scrub;
use super::setup::Setup;
use super::space::Space;
use super::statistics::Statistics;
use super::staying::Staying;
use super::summaries::Summaries;
use crate::journal::Journal;
use crate::layout::root::{Root, UnwrittenGroup};
use crate::map::index::Disk;
use crate::space::bands::Bands;
use crate::space::groups::GroupKey;
use forebay_block::{IoError, IoErrorKind};
use forebay_prism::Prism;
use pages::PageRooms;
use state::Phase;

/// A checkpoint, with the rooms whose state it fixes.
pub(super) struct Checkpointing<'a> {
    pub setup: &'a Setup,
    pub checkpoint: &'a mut Checkpoint,
    pub map: &'a mut Map,
    pub space: &'a mut Space,
    pub journal: &'a mut Journal,
    pub flushes: &'a mut Flushes,
    pub summaries: &'a mut Summaries,
    pub stats: &'a mut Statistics,
    pub outbox: &'a mut Outbox,
    pub requests: &'a Requests,
    pub migrate: &'a mut Migrate,
    pub copies: &'a Copies,
    pub prism: &'a Prism,
    pub staying: &'a mut Staying,
    pub scrub: &'a Scrub,
    pub read_only: &'a mut Option<String>,
    pub now_ns: u64,
}

impl Checkpointing<'_> {
    fn is_due(&self) -> bool {
        if self.flushes.has_failed()
            || self.checkpoint.roots.is_stuck()
            || self.read_only.is_some() && !self.checkpoint.clean
        {
            return false;
        }
        if self.now_ns < self.checkpoint.not_before_ns {
            return false;
        }
        self.checkpoint.requested
            || self.checkpoint.is_nearly_full()
            || self.journal.used_bytes() > self.journal.len_bytes() / 2
                // A checkpoint that could not move the journal's start would only write the same root again, and again.
                && self.journal_needed_from().0 > self.journal.start()
            || self.pinned_bands_due()
    }

    /// Whether bands that wait for a checkpoint are needed: few others are free, a write waits for space, or many bands wait, or one for long, and the drive
    /// below could use what they hold as spare area.
    fn pinned_bands_due(&self) -> bool {
        let few = (self.space.low_bands() / 2).max(1);
        // A part of all bands, not of the few that are kept free: as long as others are free, bands that wait only cost
        // the drive spare area, and a checkpoint costs writes.
        let many = (self.space.bands.count() / 32).max(1);
        let free = self.space.bands.free_count() + self.summaries.trimming().len();
        // Places that moves could not take are not to be had before a checkpoint either.
        let pinned = self.checkpoint.capacity.pinned() + usize::from(!self.migrate.stranded.is_empty());
        pinned > 0
            && (free <= few
                || pinned > many
                || self.requests.space_wanted() > 0
                || self.checkpoint.capacity.has_pinned_for_long(self.now_ns))
    }

    /// From where recovery would need the journal, as position and batch, if the map were frozen now.
    fn journal_needed_from(&self) -> (u64, u64) {
        let pieces = self.requests.pieces.iter().filter_map(|(_, piece)| piece.journal_at);
        pieces.chain(self.migrate.journal_at()).fold(self.journal.head(), Ord::min)
    }

    /// Moves the checkpoint on as far as it goes without waiting, or until it has begun or ended: then this is to be called again.
    pub fn step(&mut self) {
        if self.summaries.is_due() {
            self.write_summaries();
        }
        self.summaries.retry_kept(&mut self.space.bands, self.outbox, self.now_ns);
        if self.checkpoint.phase == Phase::Idle && self.is_due() {
            return self.freeze();
        }
        if self.checkpoint.phase == Phase::Leaves {
            let Checkpoint { pages, capacity, phase, .. } = &mut *self.checkpoint;
            let (map, space, outbox) = (&mut *self.map, &mut *self.space, &mut *self.outbox);
            if pages.write_leaves(&mut PageRooms { map, space, outbox, tiers: capacity.tiers() }) {
                *phase = Phase::Index;
            }
        }
        if self.checkpoint.phase == Phase::Index && self.checkpoint.pages.write_index_pages(self.map, self.outbox) {
            if self.checkpoint.pages.has_failed() {
                return self.abort();
            }
            self.checkpoint.phase = Phase::Tiers;
        }
        if self.checkpoint.phase == Phase::Tiers {
            let Checkpoint { pages, capacity, .. } = &mut *self.checkpoint;
            if capacity.write_pages(self.map, pages, self.outbox) {
                if pages.has_failed() || capacity.has_failed() {
                    return self.abort();
                }
                self.write_blob();
            }
        }
        if self.checkpoint.pages.in_flight() > 0 {
            return;
        }
        let has_failed = self.checkpoint.pages.has_failed() || self.checkpoint.capacity.has_failed();
        match self.checkpoint.phase {
            Phase::Blob if has_failed || self.checkpoint.summary_error.is_some() => self.abort(),
            Phase::Blob if self.awaits_summaries() => {}
            Phase::CapacityHeader if has_failed || self.may_have_lost_headers() => self.abort(),
            Phase::CapacityHeader => self.write_headers(),
            Phase::Header if has_failed => self.retry_headers(),
            // A flush in flight beside the headers may be the one that reports that the cache has lost them.
            Phase::Header if !self.setup.has_durable_writes() && self.flushes.is_in_flight(0) => {}
            Phase::Header if self.may_have_lost_headers() => self.write_headers(),
            Phase::Blob => {
                self.checkpoint.summaries_awaited.clear();
                self.checkpoint.phase = Phase::FlushPages;
                self.flushes.want_all();
            }
            Phase::Header => self.root_durable(),
            Phase::Supersede => self.checkpoint.phase = Phase::Idle,
            _ => {}
        }
    }

    /// Whether a flush has failed since the headers were sent, where the device has no durable writes of its own: the headers may have been in the cache that
    /// was lost.
    fn may_have_lost_headers(&self) -> bool {
        !self.setup.has_durable_writes() && self.checkpoint.flush_failures_before != self.flushes.failures()
    }

    /// Whether summaries on which the root in progress relies are still to be written.
    fn awaits_summaries(&self) -> bool {
        self.checkpoint.summaries_awaited.iter().any(|&key| self.space.bands.groups().is_unwritten(key))
    }

    /// The flush that the checkpoint asked for ended.
    pub fn flushed(&mut self, good: bool) {
        match self.checkpoint.phase {
            _ if !good => self.abort(),
            Phase::FlushPages => self.write_capacity_header(),
            _ => {}
        }
    }

    fn write_summaries(&mut self) {
        self.summaries.write(&mut self.space.bands, self.outbox, self.now_ns);
    }

    /// A summary sent by itself arrived, or not: then a checkpoint that needs it is given up.
    pub fn summary_written(&mut self, device: usize, key: GroupKey, result: &Result<(), IoError>) {
        self.summaries.written(&[key], result.is_ok(), &mut self.space.bands, self.outbox);
        if let Err(error) = result {
            self.stats.counters.summary_errors += 1;
            self.summaries.failed(self.now_ns);
            let text = format!("summary of band {}: {}: {error}", key.0, self.setup.names[device]);
            // A device that is gone comes back, or everything ends: its error says nothing of this place.
            let is_kept = error.kind != IoErrorKind::Gone && self.space.bands.groups_mut().place_failed(key);
            self.checkpoint.summary_failed(key, text, is_kept);
        }
    }

    /// Fixes the sequence: what is applied by now is in the checkpoint, the rest will be replayed.
    fn freeze(&mut self) {
        batches::seal(false, self.journal, &mut self.stats.counters, self.outbox);
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
        self.checkpoint.index_room.freeze();
        self.migrate.stranded.freeze();
        let counts_due = !self.migrate.has_surveyed();
        let state = &mut *self.checkpoint;
        state.counts_due = counts_due;
        state.requested = false;
        // What is in progress may write to the journal yet.
        state.is_root_clean = state.clean && !self.migrate.has_jobs() && self.requests.pieces.is_empty();
        state.dirtied_before = std::mem::take(&mut state.dirtied);
        state.written_blocks = self.stats.written_blocks();
        state.replayed_next = self.migrate.leaves_replayed();
        state.phase = Phase::Leaves;
        state.start = start.0;
        state.summaries_awaited = self.space.bands.groups().unwritten();
        state.summary_error = None;
        state.capacity.begin(state.roots.number() + 1, self.summaries.trimming());
        state.pages.begin(shadow, self.map);
        let root = Root {
            journal_position: start.0,
            journal_batch: start.1,
            next_sequence: self.journal.next_sequence(),
            unapplied,
            clean: state.is_root_clean,
            generation: state.pages.generation(),
            classes: self.prism.table().encode(),
            stats: self.stats.classes.clone(),
            saved_bytes: self.stats.saved_bytes,
            evidence: self.prism.save(),
            scrub: self.scrub.record(),
            band_clock: self.space.bands.clock(),
            bands: self.space.bands.table().to_vec(),
            open_groups: self.space.bands.open_groups().map(|(band, group, e)| (band, group, e.to_vec())).collect(),
            unwritten_groups: unwritten_groups(&self.space.bands),
            ..Root::default()
        };
        self.checkpoint.roots.begin(root, self.map);
        let state = &mut *self.checkpoint;
        let policy = self.staying.take_unsaved(self.stats.written_blocks(), state.clean);
        state.roots.add_policy_state(policy);
        self.summaries.allow_retry();
        self.write_summaries();
        self.checkpoint.pages.reserve_slots(self.map, &mut self.space.slots);
    }

    fn write_blob(&mut self) {
        let Checkpoint { pages, roots, capacity, counts_due, phase, .. } = &mut *self.checkpoint;
        *phase = Phase::Blob;
        let (number, epoch) = (roots.number() + 1, self.journal.epoch());
        match roots.write_blob((&*self.map, &mut *pages, &mut *self.outbox), epoch, *counts_due) {
            Ok(root) => {
                let shape = self.space.bands.shape();
                capacity.write_root(&root, CheckpointName { number, epoch }, self.map, shape, pages, self.outbox);
            }
            Err(error) => {
                pages.fail(error.to_owned());
                self.abort();
            }
        }
    }

    fn write_capacity_header(&mut self) {
        if self.checkpoint.pages.has_failed() {
            return self.abort();
        }
        let Checkpoint { pages, capacity, phase, flush_failures_before, .. } = &mut *self.checkpoint;
        *flush_failures_before = self.flushes.failures();
        *phase = Phase::CapacityHeader;
        if !capacity.write_header(pages, self.outbox) {
            self.write_headers();
        }
    }

    fn write_headers(&mut self) {
        let Checkpoint { pages, roots, phase, flush_failures_before, .. } = &mut *self.checkpoint;
        *flush_failures_before = self.flushes.failures();
        if roots.write_headers(pages, self.outbox) {
            *phase = Phase::Header;
        }
    }

    fn retry_headers(&mut self) {
        let Checkpoint { pages, roots, flush_failures_before, .. } = &mut *self.checkpoint;
        *flush_failures_before = self.flushes.failures();
        let why = pages.take_error().unwrap_or_default();
        if !roots.retry_headers(pages, self.outbox) {
            self.checkpoint.pages.fail(why.clone());
            self.read_only.get_or_insert_with(|| format!("the root cannot be written: {why}"));
            self.abort();
        }
    }

    fn root_durable(&mut self) {
        let Checkpoint { pages, roots, .. } = &mut *self.checkpoint;
        let Some(number) = roots.durable(self.map, pages, self.outbox) else { return };
        // Data that stays on the fast tier is not moved away only to have fewer checkpoints.
        let has_room = self.space.bands.room(false) > 0 && self.space.may_keep_more;
        self.checkpoint.root_durable((self.requests.executing, has_room));
        self.journal.truncate(self.checkpoint.start, number);
        for place in self.migrate.stranded.root_durable() {
            self.space.settle(place, 1, self.journal.last_recorded());
        }
        self.checkpoint.pages.root_durable(&mut self.space.slots);
        let leaves_max = self.checkpoint.dirty_leaves_max();
        for band in self.checkpoint.capacity.durable(number, self.now_ns, leaves_max) {
            self.space.changed = true;
            self.summaries.trim(band, &mut self.space.bands, self.outbox);
        }
        self.checkpoint.index_room.count(self.map);
        self.stats.counters.checkpoints += 1;
        self.checkpoint.phase = Phase::Supersede;
    }

    fn abort(&mut self) {
        self.stats.counters.checkpoint_errors += 1;
        let state = &mut *self.checkpoint;
        let capacity_error = state.capacity.abort(state.roots.number() + 1).or(state.summary_error.take());
        let error = state.pages.take_error();
        // A failure on the capacity tier ends with a checkpoint that does without it, so it does not count among those
        // after which writes are refused.
        state.is_given_up_by_capacity = error.is_none() && capacity_error.is_some();
        let was_called_off = std::mem::take(&mut state.is_called_off);
        if !state.is_given_up_by_capacity && !was_called_off {
            state.failures = state.failures.saturating_add(1);
        }
        if let Some(error) = error.or(capacity_error) {
            self.stats.counters.last_checkpoint_error = Some(error);
        }
        state.phase = Phase::Idle;
        state.dirtied += std::mem::take(&mut state.dirtied_before);
        state.roots.abort();
        state.pages.abort(self.map, &mut self.space.slots);
        state.summaries_awaited.clear();
        state.requested = true;
        state.not_before_ns = if was_called_off { 0 } else { self.now_ns.saturating_add(1_000_000_000) };
    }
}

/// Complete groups whose summaries cannot be written: the root carries their entries.
fn unwritten_groups(bands: &Bands) -> Vec<UnwrittenGroup> {
    let kept = bands.groups().kept().map(|((band, group), entries)| UnwrittenGroup {
        band,
        generation: bands.get(band).generation,
        group,
        entries: entries.to_vec(),
    });
    kept.collect()
}
