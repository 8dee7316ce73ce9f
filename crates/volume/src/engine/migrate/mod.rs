//! Migration: destages from the fast tier and collects bands (garbage collection), some jobs at once. Data goes to its
//! new place and is made durable there, then the journal says so, then the map changes where it still names the old
//! place.

mod ages;
mod collect;
mod destage;
mod record;
mod transfer;

pub(crate) use ages::{AgeQueue, BYTES_PER_PAGE, EPOCHS};

use super::{Engine, Freed};
use crate::layout::batch::Moved;
use crate::layout::page::BLOCK_SECTORS;
use crate::space::bands::COLLECTED;
use forebay_block::{ClassId, DiskId, SharedBuf};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Jobs under way at most.
const JOBS_MAX: usize = 4;
/// Leaves that a job should be able to name; where fewer can be named together there are fewer jobs.
const LEAVES_PER_JOB_MIN: usize = 4;
/// A band whose collection failed is left alone for so long, in nanoseconds: the fault may have passed.
const AVOID_NS: u64 = 10_000_000_000;
/// Wait after a job that failed or found nothing, in nanoseconds.
const PAUSE_NS: u64 = 100_000_000;
/// How often that doubles at most once nobody waits for space any more.
const PAUSE_DOUBLINGS_MAX: u32 = 6;
/// After so many jobs in a row that failed or found nothing, those who wait for space are told that there is none.
/// More than a few: a job that runs out of bands fails, and what it had been granted is empty and freed by that.
const FAILURES_MAX: u32 = 30;

/// Who waits for a leaf or for a batch: a job, or (below) a piece.
const FIRST_JOB: u32 = u32::MAX - JOBS_MAX as u32 + 1;

/// The number under which a job waits.
fn waiter(job: u32) -> u32 {
    FIRST_JOB + job
}

/// The job that waits under a number; `None` where a piece does.
pub(crate) fn job_of_waiter(waiter: u32) -> Option<u32> {
    waiter.checked_sub(FIRST_JOB)
}

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
    class: ClassId,
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
    phase: Phase,
    candidates: Vec<Candidate>,
    /// Summary entries still to be looked up, the last first.
    lookups: Vec<(Moved, ClassId)>,
    /// Next group of the band whose summary is to be read.
    next_group: u32,
    /// Newest epoch whose blocks a destage takes.
    cutoff_epoch: Option<u32>,
    /// Runs of candidates that are still to be read, the last first.
    reads: Vec<Vec<u32>>,
    /// Device requests (those to be sent among them) or batches under way.
    outstanding: usize,
    failed: bool,
    /// Waits for a leaf.
    waiting: bool,
    leaves_seen: usize,
    /// Leaves that its candidates lie in, and the newest of them.
    leaves: usize,
    newest_leaf: Option<(DiskId, u64)>,
    /// Next candidate to record or to apply.
    next: usize,
    journal_at: Option<(u64, u64)>,
    last_batch: u64,
    batches: SmallVec<[u64; 4]>,
    /// Devices written, one bit each.
    devices: u32,
    /// Slots that hosts had taken when it began.
    slots_taken_before: u64,
}

/// State of migration.
#[derive(Debug, Default)]
pub(crate) struct Migrate {
    jobs: Slab<Job>,
    /// No new jobs, while a pool is being opened.
    pub paused: bool,
    /// Leaves with blocks to be destaged.
    pub ages: AgeQueue,
    /// Where the survey of all leaves has come to.
    cursor: (u16, u64),
    /// The counts of what may be destaged may be too low since a policy changed: surveys, the one under way among them,
    /// that look at every leaf.
    surveys_left: u8,
    not_before_ns: u64,
    /// Jobs in a row that failed or found nothing.
    failures: u32,
    /// Sources of destages, from when they are taken: not to be reused while a job may still compare with them.
    held: BTreeSet<u64>,
    /// Freed space that jobs still compare with.
    deferred: Vec<Freed>,
    /// Bands whose collection failed, and until when they are left alone.
    excluded_until_ns: BTreeMap<u32, u64>,
    /// Slots that hosts take while a destage runs, a decaying maximum: so many must be free for them.
    slots_taken_per_job: u64,
}

impl Engine {
    /// Whether a destage job, and whether a collection job is under way.
    pub(crate) fn moving(&self) -> (bool, bool) {
        let has = |wanted: fn(JobKind) -> bool| self.migrate.jobs.iter().any(|(_, job)| wanted(job.kind));
        (has(|kind| kind == JobKind::Destage), has(|kind| matches!(kind, JobKind::Collect { .. })))
    }

    fn job(&self, id: u32) -> Option<&Job> {
        self.migrate.jobs.get(id as usize)
    }

    fn job_mut(&mut self, id: u32) -> Option<&mut Job> {
        self.migrate.jobs.get_mut(id as usize)
    }

    /// Lets migration try again what it had put off.
    pub(crate) fn migrate_tick(&mut self) {
        self.space.changed = true;
        let now_ns = self.clock.now_ns();
        self.migrate.excluded_until_ns.retain(|_, until_ns| now_ns < *until_ns);
        if self.summaries.is_due() {
            self.summaries.write(&mut self.space.bands, &mut self.outbox, now_ns);
        }
    }

    /// Leaves a band alone for a while.
    fn exclude(&mut self, band: u32) {
        self.migrate.excluded_until_ns.insert(band, self.clock.now_ns().saturating_add(AVOID_NS));
    }

    /// Whether freed space belongs to a job under way; if so it is kept back until a job ends.
    pub(crate) fn migrate_holds(&mut self, freed: Freed) -> bool {
        let hit = match freed {
            Freed::Band(band) => self.collects(band),
            Freed::Slots { first, count } => {
                let (from, to) =
                    (self.setup.extents.slot_location(first), self.setup.extents.slot_location(first + count));
                self.migrate.held.range(from..to).next().is_some()
            }
        };
        if hit {
            self.migrate.deferred.push(freed);
        }
        hit
    }

    fn collects(&self, band: u32) -> bool {
        self.migrate.jobs.iter().any(|(_, job)| job.kind == JobKind::Collect { band })
    }

    /// Space kept back by jobs.
    pub(crate) fn migrate_deferred(&self) -> impl Iterator<Item = Freed> + '_ {
        self.migrate.deferred.iter().copied()
    }

    /// Where recovery would find what jobs have recorded and not yet applied.
    pub(crate) fn migrate_journal_at(&self) -> Option<(u64, u64)> {
        self.migrate.jobs.iter().filter_map(|(_, job)| job.journal_at).min()
    }

    /// Sequences of jobs that are recorded but not yet applied.
    pub(crate) fn migrate_unapplied(&self) -> Vec<u64> {
        let mut sequences = Vec::new();
        for (_, job) in self.migrate.jobs.iter().filter(|(_, job)| job.journal_at.is_some()) {
            // What is applied already must not be replayed: the band it went to may have its summary written by now.
            let applied = if job.phase == Phase::Apply { job.next } else { 0 };
            sequences.extend(job.candidates[applied..].iter().map(|candidate| candidate.sequence).filter(|&s| s != 0));
        }
        sequences.sort_unstable();
        sequences.dedup();
        sequences
    }

    /// Whether the counts of what may be destaged are right: none is left from before a policy changed.
    pub(crate) fn migrate_has_surveyed(&self) -> bool {
        self.migrate.surveys_left == 0
    }

    /// The counts of what may be destaged may be wrong since a policy changed.
    pub(crate) fn migrate_policy_changed(&mut self) {
        // A survey under way may have begun anywhere: only the next one sees all.
        let is_under_way = !self.migrate.jobs.is_empty() || self.migrate.cursor != (0, 0);
        self.migrate.surveys_left = if is_under_way { 2 } else { 1 };
        self.migrate.not_before_ns = 0;
    }

    /// Leaves that jobs may name together. Their records stand in the journal before the leaves are dirty, and recovery
    /// needs all leaves that the journal names in memory at once: this is what two rounds of dirty leaves leave over.
    fn leaves_of_jobs(&self) -> usize {
        self.map.frames.limit().saturating_sub(2 * self.dirty_limit()).max(1)
    }

    /// Jobs that may be under way at once.
    fn jobs_max(&self) -> usize {
        (self.leaves_of_jobs() / LEAVES_PER_JOB_MIN).clamp(1, JOBS_MAX)
    }

    /// Leaves that one job may name.
    fn leaves_per_job(&self) -> usize {
        (self.leaves_of_jobs() / self.jobs_max()).max(1)
    }

    /// Blocks that one job may move: small against the fast tier, because what is being moved is not overwritten there any
    /// more without having been written to the capacity tier.
    fn blocks_per_job(&self) -> usize {
        let by_journal = (self.journal.len_bytes() / 512).max(16) as usize;
        let by_memory = (self.setup.options.memory_limit_bytes / 16 / 4096).max(16) as usize;
        let together = (self.setup.options.job_blocks as usize).min(by_journal).min(by_memory);
        (together / self.jobs_max()).max(16.min(together))
    }

    /// Slots that should be free for hosts: what they take while jobs make room.
    pub(crate) fn free_slots_wanted(&self) -> u64 {
        let total = self.space.slots.total();
        (2 * self.migrate.slots_taken_per_job + self.blocks_per_job() as u64 / 2).clamp(total / 64 + 1, total / 16 + 1)
    }

    /// Whether a job is under way or could free something now or after its pause.
    pub(crate) fn migrate_may_free(&self) -> bool {
        if self.read_only.is_some() || self.flushes.has_failed() || self.migrate.failures >= FAILURES_MAX {
            return false;
        }
        // What could be collected and is not due will not be: with bands free that cannot be opened, for one.
        !self.migrate.jobs.is_empty() || self.destage_due() || self.collect_due() && self.victim().is_some()
    }

    /// There is no room to move anything to. What was freed and is not yet durable would help: nobody else may ever
    /// flush. Where nothing is under way that could, this counts as a job that found nothing.
    fn want_freed(&mut self) {
        if !self.space.freed.is_empty() {
            self.flushes.want();
        } else if self.outbox.is_empty() {
            self.migrate.failures = self.migrate.failures.saturating_add(1);
            self.migrate_pause();
        }
    }

    /// Waits before the next job: the longer, the more jobs have come to nothing.
    fn migrate_pause(&mut self) {
        let longer = self.migrate.failures.saturating_sub(FAILURES_MAX).min(PAUSE_DOUBLINGS_MAX);
        self.migrate.not_before_ns = self.clock.now_ns().saturating_add(PAUSE_NS << longer);
    }

    fn collect_due(&self) -> bool {
        let low = (self.space.bands.count() / 16).max(3);
        let free = self.space.bands.free_count() + self.space.freed.bands();
        // A request larger than what is kept free needs more.
        free < low || self.space_wanted() > free.saturating_sub(low) as u64 * u64::from(self.space.bands.data_blocks())
    }

    /// The band whose collection pays best.
    fn victim(&self) -> Option<u32> {
        self.space.bands.victim(|band| self.migrate.excluded_until_ns.contains_key(&band) || self.collects(band))
    }

    /// Blocks for which a job has yet to ask for space.
    fn blocks_to_write(&self, job: &Job) -> u64 {
        match (job.phase, job.kind) {
            (Phase::Summary | Phase::Gather | Phase::Read, JobKind::Collect { band }) => {
                u64::from(self.space.bands.get(band).valid).div_ceil(BLOCK_SECTORS)
            }
            (Phase::Gather | Phase::Read, JobKind::Destage) => job.candidates.len() as u64,
            _ => 0,
        }
    }

    fn destage_due(&self) -> bool {
        if self.migrate.ages.is_empty() && self.migrate.surveys_left == 0 {
            return false;
        }
        let is_full =
            self.space.slots_kept() * 100 > self.space.slots.total() * self.setup.options.destage_above_percent;
        // What jobs are moving is as good as free.
        let soon_free = self.space.data_slots_free() + self.space.freed.slots() + self.migrate.held.len() as u64;
        is_full || soon_free < self.free_slots_wanted()
    }

    /// Starts jobs, and continues those under way as far as they go without waiting.
    pub(crate) fn migrate_step(&mut self) {
        if std::mem::take(&mut self.space.changed) {
            while self.migrate.jobs.len() < self.jobs_max() && self.start_job() {}
        }
        if self.migrate.jobs.is_empty() {
            return;
        }
        for id in 0..JOBS_MAX as u32 {
            self.step_job(id);
        }
    }

    fn step_job(&mut self, id: u32) {
        match self.job(id).map(|job| (job.phase, job.waiting, job.kind)) {
            Some((Phase::Gather, false, JobKind::Destage)) => self.gather_destage(id),
            Some((Phase::Gather, false, JobKind::Collect { .. })) => self.gather_collect(id),
            Some((Phase::Record, false, _)) => self.record_moves(id),
            Some((Phase::Apply, false, _)) => self.apply_moves(id),
            _ => {}
        }
    }

    /// Starts a job where one is due; false where none was.
    fn start_job(&mut self) -> bool {
        if self.migrate.paused
            || self.read_only.is_some()
            || self.flushes.has_failed()
            || self.clock.now_ns() < self.migrate.not_before_ns
        {
            return false;
        }
        let kind = if self.collect_due()
            && let Some(band) = self.victim()
        {
            // A band's worth must fit before the band is given up, or collecting would only use up space; other jobs take
            // of the same.
            let promised: u64 = self.migrate.jobs.iter().map(|(_, job)| self.blocks_to_write(job)).sum();
            let wanted = u64::from(self.space.bands.get(band).valid).div_ceil(BLOCK_SECTORS) + promised;
            if self.space.bands.room(true) < wanted {
                if self.migrate.jobs.is_empty() {
                    self.want_freed();
                }
                return false;
            }
            JobKind::Collect { band }
        } else if self.destage_due() {
            if self.space.bands.room(false) == 0 {
                if self.migrate.jobs.is_empty() {
                    self.want_freed();
                }
                return false;
            }
            JobKind::Destage
        } else {
            return false;
        };
        let job = Job {
            kind,
            phase: if kind == JobKind::Destage { Phase::Gather } else { Phase::Summary },
            candidates: Vec::new(),
            lookups: Vec::new(),
            next_group: 0,
            cutoff_epoch: None,
            reads: Vec::new(),
            outstanding: 0,
            failed: false,
            waiting: false,
            leaves_seen: 0,
            leaves: 0,
            newest_leaf: None,
            next: 0,
            journal_at: None,
            last_batch: 0,
            batches: SmallVec::new(),
            devices: 0,
            slots_taken_before: self.space.slots_taken(),
        };
        let id = self.migrate.jobs.insert(job) as u32;
        match kind {
            JobKind::Collect { band } => self.read_summaries(id, band),
            JobKind::Destage => self.gather_destage(id),
        }
        true
    }

    /// A leaf that a job waited for is there, or a frame is.
    pub(crate) fn resume_job(&mut self, id: u32) {
        if let Some(job) = self.job_mut(id) {
            job.waiting = false;
        }
        self.step_job(id);
    }

    /// A leaf that a job waited for cannot be read: its blocks stay where they are.
    pub(crate) fn job_leaf_failed(&mut self, id: u32, disk: DiskId, leaf: u64) {
        let Some(job) = self.job_mut(id) else { return };
        job.waiting = false;
        match (job.phase, job.kind) {
            (Phase::Apply, _) => {
                // The record is in the journal, and recovery may be able to read the leaf: it would map the blocks to
                // their destinations then. So these are not given to anybody else; they are settled by the next start.
                let leaf = job.candidates.get(job.next).map(|candidate| candidate.moved.leaf());
                while let Some(candidate) = job.candidates.get_mut(job.next).filter(|c| Some(c.moved.leaf()) == leaf) {
                    candidate.destination = 0;
                    job.next += 1;
                }
                // Recovery reads what the journal names, changed or not.
                self.checkpoint.count_dirtied();
            }
            (_, JobKind::Collect { band }) => {
                let leaf = job.lookups.last().map(|(moved, _)| moved.leaf());
                while job.lookups.pop_if(|(moved, _)| Some(moved.leaf()) == leaf).is_some() {}
                self.exclude(band);
            }
            (_, JobKind::Destage) => {
                self.pass_over_leaf(disk, leaf);
                // With what it has, or not at once again: there may be no other leaf.
                return self.gathered(id);
            }
        }
        self.step_job(id);
    }

    /// Ends a job; what it kept back is freed.
    fn end_job(&mut self, id: u32, pause: bool) {
        let Some(job) = self.migrate.jobs.try_remove(id as usize) else { return };
        self.space.changed = true;
        for candidate in &job.candidates {
            if candidate.destination != 0 {
                // Granted and never applied.
                self.space.settle(candidate.destination, 1, self.journal.last_recorded());
            }
        }
        if job.failed {
            self.stats.counters.mover_errors += 1;
        }
        self.migrate.failures = if pause || job.failed { self.migrate.failures.saturating_add(1) } else { 0 };
        if pause || job.failed {
            self.migrate_pause();
        }
        if job.kind == JobKind::Destage {
            let taken = self.space.slots_taken() - job.slots_taken_before;
            let before = self.migrate.slots_taken_per_job;
            self.migrate.slots_taken_per_job = taken.max(before - before / 8);
            job.candidates.iter().for_each(|candidate| self.let_go(&candidate.moved));
        }
        for freed in std::mem::take(&mut self.migrate.deferred) {
            // These were durable already: they come first.
            self.space.freed.push_durable(freed);
        }
    }

    /// A block that a destage took is not its any more.
    fn let_go(&mut self, moved: &Moved) {
        self.migrate.held.remove(&moved.source);
        // What was not moved after all must be found again.
        let (disk, leaf) = moved.leaf();
        self.enqueue_leaf(disk, leaf);
    }
}

impl Job {
    /// The stream that blocks of a class are written in.
    fn stream(&self, class: ClassId) -> u8 {
        class.0 | if self.kind == JobKind::Destage { 0 } else { COLLECTED }
    }

    /// Takes a block to be moved. Blocks come in the order of their leaves.
    fn take(&mut self, moved: Moved, class: ClassId) {
        let leaf = Some(moved.leaf());
        self.leaves += usize::from(leaf != self.newest_leaf);
        self.newest_leaf = leaf;
        self.candidates.push(Candidate { moved, class, data: None, damaged: false, destination: 0, sequence: 0 });
    }
}
