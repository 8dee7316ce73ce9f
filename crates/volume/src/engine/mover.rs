//! The mover: destages from the fast tier and collects bands, one job at a time. Data goes to its new place and is
//! made durable there, then the journal says so, then the map changes where it still names the old place.

mod gather;
mod transfer;

use super::paging::Leaf;
use super::{Engine, Freed, MOVER};
use crate::layout::batch::{MOVED_MAX, Moved, Record, move_bytes};
use crate::layout::page::LEAF_ENTRIES;
use crate::map::change::Change;
use forebay_block::{ClassId, DiskId, SharedBuf};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Blocks of one move record.
const RECORD_BLOCKS: usize = MOVED_MAX;
/// A band whose collection failed is left alone for so long: the fault may have passed.
const AVOID_NS: u64 = 10_000_000_000;
/// Wait after a job that failed or found nothing.
const PAUSE_NS: u64 = 100_000_000;
/// How often that doubles at most once nobody waits for space any more.
const PAUSE_DOUBLINGS_MAX: u32 = 6;
/// After so many jobs in a row that failed or found nothing, those who wait for space are told that there is none.
/// More than a few: a job that runs out of bands fails, and what it had been granted is empty and freed by that.
const FRUITLESS_MAX: u32 = 30;

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// From the fast tier to bands.
    Destage,
    /// What still lives in a band, to another band.
    Collect { band: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Reading the summary of the band.
    Summary,
    Gather,
    Read,
    Write,
    Flush,
    Record,
    Apply,
}

/// A block to be moved.
#[derive(Clone, Debug)]
struct Candidate {
    moved: Moved,
    data: Option<SharedBuf>,
    /// Its source does not match its checksum.
    damaged: bool,
    destination: u64,
    sequence: u64,
}

/// A job under way.
#[derive(Debug)]
pub(crate) struct Job {
    kind: JobKind,
    class: Option<ClassId>,
    phase: Phase,
    candidates: Vec<Candidate>,
    /// Summary entries still to be looked up, the last first.
    lookups: Vec<Moved>,
    /// Next group of the band whose summary is to be read.
    next_group: u32,
    /// Device requests or batches under way.
    outstanding: usize,
    failed: bool,
    /// Waits for a leaf.
    waiting: bool,
    leaves_seen: usize,
    /// Leaves that its candidates lie in, and the newest of them.
    leaves: usize,
    newest_leaf: Option<(DiskId, u64)>,
    wrapped: bool,
    /// Next candidate to record or to apply.
    next: usize,
    journal_at: Option<(u64, u64)>,
    last_batch: u64,
    batches: SmallVec<[u64; 4]>,
    /// Devices written, one bit each.
    devices: u32,
}

/// State of moving.
#[derive(Debug, Default)]
pub(crate) struct MoverState {
    job: Option<Job>,
    /// No new jobs, while a pool is being opened.
    pub paused: bool,
    cursor: (u16, u64),
    /// The destage hints may be too low since a policy changed: rounds, the one under way among them, that look at every leaf.
    sweeps_left: u8,
    not_before_ns: u64,
    /// Jobs in a row that failed or found nothing.
    fruitless: u32,
    /// Sources of the job, from when it takes them: not to be reused while it may still compare with them.
    held: BTreeSet<u64>,
    deferred: Vec<Freed>,
    /// Bands whose collection failed.
    avoided: BTreeSet<u32>,
    /// When they were last forgiven.
    avoided_since_ns: u64,
}

impl Engine {
    /// Whether a destage job, and whether a collection job is under way.
    pub(crate) fn moving(&self) -> (bool, bool) {
        let kind = self.mover.job.as_ref().map(|job| job.kind);
        (kind == Some(JobKind::Destage), matches!(kind, Some(JobKind::Collect { .. })))
    }

    /// Lets the mover try again what it had put off.
    pub(crate) fn mover_tick(&mut self) {
        if self.now_ns.saturating_sub(self.mover.avoided_since_ns) >= AVOID_NS {
            self.mover.avoided_since_ns = self.now_ns;
            self.mover.avoided.clear();
        }
        if self.checkpoint.summaries_due {
            self.write_summaries();
        }
    }

    /// Whether freed space belongs to the job under way; if so it is kept back until the job ends.
    pub(crate) fn mover_holds(&mut self, freed: Freed) -> bool {
        let Some(job) = &self.mover.job else {
            return false;
        };
        let hit = match freed {
            Freed::Band(band) => job.kind == JobKind::Collect { band },
            Freed::Slots { first, count } => {
                let (from, to) = (self.extents.slot_location(first), self.extents.slot_location(first + count));
                self.mover.held.range(from..to).next().is_some()
            }
        };
        if hit {
            self.mover.deferred.push(freed);
        }
        hit
    }

    /// Space kept back by the job.
    pub(crate) fn mover_deferred(&self) -> impl Iterator<Item = Freed> + '_ {
        self.mover.deferred.iter().copied()
    }

    /// Where recovery would find what the job has recorded and not yet applied.
    pub(crate) fn mover_journal_at(&self) -> Option<(u64, u64)> {
        self.mover.job.as_ref()?.journal_at
    }

    /// Sequences of the job that are recorded but not yet applied.
    pub(crate) fn mover_unapplied(&self) -> Vec<u64> {
        let Some(job) = self.mover.job.as_ref().filter(|job| job.journal_at.is_some()) else { return Vec::new() };
        // What is applied already must not be replayed: the band it went to may have its summary written by now.
        let applied = if job.phase == Phase::Apply { job.next } else { 0 };
        let left = job.candidates[applied..].iter();
        let mut sequences: Vec<u64> = left.map(|candidate| candidate.sequence).filter(|&s| s != 0).collect();
        sequences.sort_unstable();
        sequences.dedup();
        sequences
    }

    /// Whether the hints are right as far as they are in memory: none is left from before a policy changed.
    pub(crate) fn mover_has_swept(&self) -> bool {
        self.mover.sweeps_left == 0
    }

    /// The hints may be wrong since a policy changed.
    pub(crate) fn mover_policy_changed(&mut self) {
        // A round under way may have begun anywhere: only the next one sees all.
        let is_under_way = self.mover.job.is_some() || self.mover.cursor != (0, 0);
        self.mover.sweeps_left = if is_under_way { 2 } else { 1 };
        self.mover.not_before_ns = 0;
    }

    fn job_limit(&self) -> usize {
        let by_journal = (self.journal.len_bytes() / 512).max(16) as usize;
        let by_memory = (self.options.memory_limit_bytes / 16 / 4096).max(16) as usize;
        (self.options.job_blocks as usize).min(by_journal).min(by_memory)
    }

    /// Leaves that a job may name. Its records stand in the journal before the leaves are dirty, and recovery needs all
    /// leaves that the journal names in memory at once: this is what two rounds of dirty leaves leave over.
    fn job_leaves(&self) -> usize {
        self.frames.limit().saturating_sub(2 * self.dirty_limit()).max(1)
    }

    /// Blocks of slots in use that will not be freed soon.
    fn slots_held(&self) -> u64 {
        (self.slots.total() - self.slots.free()).saturating_sub(self.freed.slots())
    }

    /// Whether a job is under way or could free something now or after its pause.
    pub(crate) fn mover_may_free(&self) -> bool {
        if self.read_only.is_some() || self.flush.failed || self.mover.fruitless >= FRUITLESS_MAX {
            return false;
        }
        // What could be collected and is not due will not be: with bands free that cannot be opened, for one.
        let collects = || self.collect_due() && self.bands.victim(|band| self.mover.avoided.contains(&band)).is_some();
        self.mover.job.is_some() || self.destage_due() || collects()
    }

    /// There is no room to move anything to. What was freed and is not yet durable would help: nobody else may ever
    /// flush. Where nothing is under way that could, this counts as a job that found nothing.
    fn want_freed(&mut self) {
        if !self.freed.is_empty() {
            self.want_flush();
        } else if self.pending.is_empty() {
            self.mover.fruitless = self.mover.fruitless.saturating_add(1);
            self.mover_pause();
        }
    }

    /// Waits before the next job: the longer, the more jobs have come to nothing.
    fn mover_pause(&mut self) {
        let longer = self.mover.fruitless.saturating_sub(FRUITLESS_MAX).min(PAUSE_DOUBLINGS_MAX);
        self.mover.not_before_ns = self.now_ns.saturating_add(PAUSE_NS << longer);
    }

    fn collect_due(&self) -> bool {
        let low = (self.bands.count() / 16).max(3);
        let free = self.bands.free_count() + self.freed.bands();
        // A request larger than what is kept free needs more.
        free < low || self.space_wanted() > free.saturating_sub(low) as u64 * u64::from(self.bands.data_blocks())
    }

    fn destage_due(&self) -> bool {
        let high = self.slots_held() * 100 > self.slots.total() * self.options.destage_above_percent;
        let low = self.data_slots_free() * 100 < self.slots.total() * self.options.bypass_below_percent;
        high || low
    }

    /// Starts or continues the job as far as it goes without waiting.
    pub(crate) fn mover_step(&mut self) {
        if self.mover.job.is_none() {
            self.mover_start();
        }
        match self.mover.job.as_ref().map(|job| (job.phase, job.waiting)) {
            Some((Phase::Gather, false)) => self.mover_gather(),
            Some((Phase::Record, false)) => self.mover_record(),
            Some((Phase::Apply, false)) => self.mover_apply(),
            _ => {}
        }
    }

    fn mover_start(&mut self) {
        if self.mover.paused || self.read_only.is_some() || self.flush.failed || self.now_ns < self.mover.not_before_ns
        {
            return;
        }
        let kind = if self.collect_due()
            && let Some(band) = self.bands.victim(|band| self.mover.avoided.contains(&band))
        {
            // A band's worth must fit before the band is given up, or collecting would only use up space.
            if 8 * self.bands.room(true) < u64::from(self.bands.get(band).valid) {
                return self.want_freed();
            }
            JobKind::Collect { band }
        } else if self.destage_due() {
            if self.bands.room(false) == 0 {
                return self.want_freed();
            }
            JobKind::Destage
        } else {
            return;
        };
        self.mover.job = Some(Job {
            kind,
            class: None,
            phase: if kind == JobKind::Destage { Phase::Gather } else { Phase::Summary },
            candidates: Vec::new(),
            lookups: Vec::new(),
            next_group: 0,
            outstanding: 0,
            failed: false,
            waiting: false,
            leaves_seen: 0,
            leaves: 0,
            newest_leaf: None,
            wrapped: false,
            next: 0,
            journal_at: None,
            last_batch: 0,
            batches: SmallVec::new(),
            devices: 0,
        });
        if let JobKind::Collect { band } = kind {
            self.mover_read_summaries(band);
        }
    }

    /// A leaf the mover waited for is there, or a frame is.
    pub(crate) fn mover_resume(&mut self) {
        if let Some(job) = &mut self.mover.job {
            job.waiting = false;
        }
        self.mover_step();
    }

    /// A leaf the mover waited for cannot be read: its blocks stay where they are.
    pub(crate) fn mover_leaf_failed(&mut self) {
        let Some(job) = &mut self.mover.job else {
            return;
        };
        job.waiting = false;
        match job.phase {
            Phase::Apply => {
                // The record is in the journal, and recovery may be able to read the leaf: it would map the blocks to
                // their destinations then. So these are not given to anybody else; they are settled by the next start.
                let leaf = job.candidates.get(job.next).map(|candidate| candidate.moved.leaf());
                while let Some(candidate) = job.candidates.get_mut(job.next).filter(|c| Some(c.moved.leaf()) == leaf) {
                    candidate.destination = 0;
                    job.next += 1;
                }
            }
            _ => {
                self.mover.cursor.1 += 1;
                let leaf = job.lookups.last().map(Moved::leaf);
                while job.lookups.pop_if(|moved| Some(moved.leaf()) == leaf).is_some() {}
                if let JobKind::Collect { band } = job.kind {
                    self.mover.avoided.insert(band);
                }
            }
        }
        self.mover_step();
    }

    /// Ends the job; what it kept back is freed.
    fn mover_end(&mut self, pause: bool) {
        let Some(job) = self.mover.job.take() else {
            return;
        };
        for candidate in &job.candidates {
            if candidate.destination != 0 {
                // Granted and never applied.
                self.settle(candidate.destination, 1);
            }
        }
        if job.failed {
            self.counters.mover_errors += 1;
        }
        self.mover.fruitless = if pause || job.failed { self.mover.fruitless.saturating_add(1) } else { 0 };
        if pause || job.failed {
            self.mover_pause();
        }
        self.mover.held.clear();
        for freed in std::mem::take(&mut self.mover.deferred) {
            // These were durable already: they come first.
            self.freed.push_durable(freed);
        }
    }

    /// Appends the move records, as far as the journal takes them.
    fn mover_record(&mut self) {
        loop {
            let Some(job) = &self.mover.job else { return };
            let start = job.next;
            let Some(first) = job.candidates.get(start) else {
                break;
            };
            let destination = first.destination;
            let mut end = start + 1;
            while end < job.candidates.len()
                && end - start < RECORD_BLOCKS
                && !first.damaged
                && !job.candidates[end].damaged
                && job.candidates[end].destination == destination + 8 * (end - start) as u64
                && self.extents.band(job.candidates[end].destination).map(|(band, _)| band)
                    == self.extents.band(destination).map(|(band, _)| band)
            {
                end += 1;
            }
            let bytes = move_bytes(end - start);
            if !self.journal.accepts(bytes, true) {
                self.want_flush();
                return;
            }
            let record = if first.damaged {
                Record::Damage { blocks: vec![first.moved] }
            } else {
                let moved = job.candidates[start..end].iter().map(|candidate| candidate.moved).collect();
                let (stream, generation) = (job.stream(), self.record_generation(destination));
                Record::Move { stream, location: destination, generation, moved }
            };
            if !self.journal.fits(bytes) {
                self.seal_batch(false);
            }
            let at = self.journal.head();
            let (batch, sequence) = self.journal.append(|out| record.put(out));
            let Some(job) = &mut self.mover.job else {
                return;
            };
            job.journal_at.get_or_insert(at);
            for candidate in &mut job.candidates[start..end] {
                candidate.sequence = sequence;
            }
            let first_in_batch = job.batches.last() != Some(&batch);
            if first_in_batch {
                job.batches.push(batch);
                job.outstanding += 1;
            }
            job.last_batch = batch;
            job.next = end;
            self.journal.join(MOVER, 0, first_in_batch);
            if first_in_batch {
                // The data is durable already: the batch waits only for its own write.
                self.journal.part_complete(batch, self.flush.submitted(), self.volatile);
            }
        }
        self.mover_recorded();
    }

    pub(crate) fn mover_batch_written(&mut self, good: bool) {
        let Some(job) = &mut self.mover.job else {
            return;
        };
        job.outstanding -= 1;
        job.failed |= !good;
        self.mover_recorded();
    }

    fn mover_recorded(&mut self) {
        let Some(job) = &mut self.mover.job else {
            return;
        };
        if job.phase != Phase::Record || job.next < job.candidates.len() || job.outstanding > 0 {
            return;
        }
        if job.failed {
            // The journal is lost; the pool is read-only by now. The sources stay where they are.
            return self.mover_end(true);
        }
        job.phase = Phase::Apply;
        job.next = 0;
        // In the order of leaves, so that each is fetched once.
        job.candidates.sort_by_key(|c| (c.moved.disk, c.moved.block));
        self.mover_apply();
    }

    /// Changes the map, leaf by leaf, where it still names the source.
    fn mover_apply(&mut self) {
        loop {
            let Some(job) = &self.mover.job else { return };
            if job.phase != Phase::Apply {
                return;
            }
            let Some(candidate) = job.candidates.get(job.next) else {
                break;
            };
            let (disk, leaf) = candidate.moved.leaf();
            match self.require_leaf(disk, leaf, MOVER, false) {
                Leaf::Wait => {
                    if let Some(job) = &mut self.mover.job {
                        job.waiting = true;
                    }
                    return;
                }
                Leaf::Hole => self.mover_skip_leaf(disk, leaf),
                // A checkpoint is due or under way; the next step tries again.
                Leaf::Ready(frame) if !self.may_dirty(frame) => return,
                Leaf::Ready(frame) => self.mover_apply_leaf(frame, leaf),
            }
        }
        self.mover_end(false);
    }

    fn mover_skip_leaf(&mut self, disk: forebay_block::DiskId, leaf: u64) {
        let Some(job) = &mut self.mover.job else {
            return;
        };
        while job.candidates.get(job.next).is_some_and(|c| c.moved.leaf() == (disk, leaf)) {
            job.next += 1;
        }
    }

    fn mover_apply_leaf(&mut self, frame: u32, leaf: u64) {
        let disk = self.frames.get(frame).disk;
        let mut change = 0;
        self.dirty_frame(frame);
        loop {
            let Some(job) = &mut self.mover.job else {
                return;
            };
            let batch = job.last_batch;
            let Some(candidate) = job.candidates.get_mut(job.next) else {
                break;
            };
            if candidate.moved.leaf() != (disk, leaf) {
                break;
            }
            job.next += 1;
            let Candidate { moved, damaged, .. } = *candidate;
            let destination = std::mem::take(&mut candidate.destination);
            let Moved { source, checksum, .. } = moved;
            let what = match damaged {
                true => Change::Damage { source, checksum },
                false => Change::Move { source, checksum, destination },
            };
            let at = (moved.block % LEAF_ENTRIES as u64) as usize;
            change += self.change_entry(frame, at, (disk, moved.block), what, batch).unwrap_or(0);
            if destination != 0 {
                self.settle(destination, 1);
            }
        }
        self.adjust_stageable(disk, leaf, change);
    }
}
