//! Migration: destages from the fast tier and collects bands (garbage collection), in some jobs at once. Data is
//! written to its new place and made durable there, then the journal says so, then the map changes where it still names
//! the old place.

mod ages;
mod collect;
mod destage;
mod destinations;
mod due;
mod gather_together;
mod gathered;
mod job;
mod next;
mod pack;
mod record;
mod rooms;
mod sources;
mod state;
mod stranded;
mod together;

pub(crate) use ages::{AgeQueue, BYTES_PER_PAGE, END_EPOCHS, STAY_MAX_EPOCHS, epoch_blocks, epoch_of};
pub(crate) use job::job_of_waiter;
pub(crate) use state::Migrate;
pub(crate) use together::{Together, waits};

use super::Engine;
use super::limits::JOBS_MAX;
use super::outbox::SummaryRead;
use crate::layout::moved::Moved;
use forebay_block::{Buf, DiskId, IoError, Vectored};
use job::{Job, JobKind, Phase};
use rooms::{After, Moving};

impl Engine {
    /// Lets migration try again what it had put off.
    pub(crate) fn migrate_tick(&mut self) {
        self.space.changed = true;
        let now_ns = self.clock.now_ns();
        self.migrate.tick(now_ns);
        if self.summaries.is_due() {
            self.summaries.write(&mut self.space.bands, &mut self.outbox, now_ns);
        }
    }

    /// While few bands are free, holds hosts to what collection gains.
    pub(crate) fn look_at_pace(&mut self) {
        due::look_at_pace(&mut self.moving());
    }

    /// Starts jobs, and continues those in progress as far as they go without waiting.
    pub(crate) fn migrate_step(&mut self) {
        if std::mem::take(&mut self.space.changed) {
            due::look_at_died(&mut self.moving());
            due::look_at_packed(&mut self.moving());
            while self.migrate.jobs.len() < self.setup.limits.jobs && self.start_job() {}
        }
        if self.migrate.jobs.is_empty() {
            return;
        }
        for id in 0..JOBS_MAX as u32 {
            self.step_job(id);
        }
    }

    fn step_job(&mut self, id: u32) {
        // What a failed flush covered is being written again: nothing else is written meanwhile.
        if self.rewriter.is_active() {
            return;
        }
        match self.migrate.job(id).map(|job| (job.phase, job.waiting, job.kind)) {
            Some((Phase::Gather, false, JobKind::Destage)) => self.moves_on(id, gather_from_fast),
            Some((Phase::Gather, false, JobKind::Collect { .. })) => self.moves_on(id, collect::gather_collect),
            Some((Phase::Pack, false, _)) => self.moves_on(id, pack::pack_on),
            Some((Phase::Record, false, _)) => self.moves_on(id, record::record_moves),
            Some((Phase::Apply, false, _)) => self.moves_on(id, record::apply_moves),
            _ => {}
        }
    }

    /// Starts a job where one is due; false where none was.
    fn start_job(&mut self) -> bool {
        if self.migrate.paused || self.refusal().is_some() || self.clock.now_ns() < self.migrate.not_before_ns {
            return false;
        }
        let Some((kind, together)) = next::next(&mut self.moving()) else { return false };
        let job = Job { together, ..Job::new(kind, self.space.slots_taken()) };
        let id = self.migrate.jobs.insert(job) as u32;
        due::keep_for_collection(&mut self.moving());
        match kind {
            JobKind::Collect { band } => self.moves_on(id, |rooms, id| collect::collect_begins(rooms, id, band)),
            JobKind::Destage => self.moves_on(id, gather_from_fast),
        }
        true
    }

    /// A leaf that a job waited for is in memory, or there is a frame for it.
    pub(crate) fn resume_job(&mut self, id: u32) {
        if let Some(job) = self.migrate.job_mut(id) {
            job.waiting = false;
        }
        self.step_job(id);
    }

    /// A leaf that a job waited for cannot be read: its blocks stay where they are.
    pub(crate) fn job_leaf_failed(&mut self, id: u32, disk: DiskId, leaf: u64) {
        let Some(job) = self.migrate.job_mut(id) else { return };
        job.waiting = false;
        match (job.phase, job.kind) {
            (Phase::Apply, _) => {
                // The record is in the journal, and recovery may be able to read the leaf: it would then map the blocks
                // to their destinations. So nobody else gets these for now.
                let leaf = job.candidates.get(job.next).map(|candidate| candidate.moved.leaf());
                while let Some(candidate) = job.candidates.get_mut(job.next).filter(|c| Some(c.moved.leaf()) == leaf) {
                    job.stranded.extend(Some(std::mem::take(&mut candidate.destination)).filter(|&place| place != 0));
                    job.next += 1;
                }
                job.come_to_leaf(&mut self.checkpoint);
                // Recovery reads the leaves that the journal names, changed or not.
                self.checkpoint.count_dirtied();
            }
            (_, JobKind::Collect { band }) => {
                let leaf = job.lookups.last().map(Moved::leaf);
                while job.lookups.pop_if(|moved| Some(moved.leaf()) == leaf).is_some() {}
                job.is_incomplete = true;
                self.moving().exclude(band);
            }
            (_, JobKind::Destage) if job.together.is_some() => {
                gather_together::pass_over_leaf(&mut self.moving(), id);
            }
            (_, JobKind::Destage) => {
                destage::pass_over_leaf(&mut self.moving(), disk, leaf);
                // It goes on with what it has, or ends with a pause: there may be no other leaf.
                return self.moves_on(id, gathered::gathered);
            }
        }
        self.step_job(id);
    }

    /// Ends a job; space that was kept back for it is freed.
    fn end_job(&mut self, id: u32, pause: bool) {
        let Some(mut job) = self.migrate.jobs.try_remove(id as usize) else { return };
        due::keep_for_collection(&mut self.moving());
        self.space.changed = true;
        // In an earlier phase this means that the journal was lost: the records may be there all the same, and the
        // leaves stay named.
        if job.journal_at.is_some() && job.phase == Phase::Apply {
            self.checkpoint.named_done(job.leaves - job.leaves_done);
        }
        for candidate in &job.candidates {
            if candidate.destination != 0 {
                // Allocated and never applied.
                self.space.settle(candidate.destination, 1, self.journal.last_recorded());
            }
        }
        self.migrate.stranded.add(std::mem::take(&mut job.stranded));
        if job.failed {
            self.stats.counters.migration_errors += 1;
        }
        if !pause && !job.failed && !job.candidates.is_empty() {
            self.migrate.in_vain = 0;
            if let JobKind::Collect { band } = job.kind {
                self.migrate.moved_some(band, self.space.bands.get(band).generation);
            }
        }
        // Other jobs do not wait for a band out of which nothing can be moved, nor for data that did not wait any more.
        let is_vain = match job.kind {
            JobKind::Collect { band } if pause && !job.failed => self.leave_alone(band, job.is_wrong),
            JobKind::Destage => job.together.is_some() && pause && !job.failed,
            _ => false,
        };
        if !is_vain {
            match pause || job.failed {
                true => self.migrate.fails(self.space.died_grains()),
                false => self.migrate.failures = 0,
            }
        }
        if (pause || job.failed) && !is_vain {
            due::pause(&mut self.moving());
        }
        if job.kind == JobKind::Destage {
            if job.together.is_none() {
                let taken = self.space.slots_taken() - job.slots_taken_before;
                let before = self.migrate.slots_taken_per_job;
                self.migrate.slots_taken_per_job = taken.max(before - before / 8);
            }
            let rooms = &mut self.moving();
            job.candidates.iter().for_each(|candidate| rooms.let_go(&candidate.moved));
        }
        for freed in std::mem::take(&mut self.migrate.deferred) {
            // Their records were durable already: they come first.
            self.space.freed.push_durable(freed);
        }
    }

    /// Nothing could be moved out of a band; where blocks in it `are_mended` they may be moved the next time. Returns whether other jobs go on at once.
    fn leave_alone(&mut self, band: u32, are_mended: bool) -> bool {
        let (now_ns, root) = (self.clock.now_ns(), self.space.bands.get(band));
        if self.migrate.is_vain_suspect(band, root.generation, now_ns) {
            return true;
        }
        if are_mended {
            return false;
        }
        if root.valid > 0 {
            self.migrate.moved_nothing(band, root.generation, now_ns);
            // A device may have taken long to say that it cannot read: others are due first now.
            self.migrate.last_not_before_ns = now_ns.saturating_add(next::LAST_EVERY_NS);
        }
        let rooms = self.moving();
        due::better_victim(&rooms).is_some() || due::may_destage(&rooms)
    }

    /// The rooms between which jobs move data.
    fn moving(&mut self) -> Moving<'_> {
        Moving {
            setup: &self.setup,
            migrate: &mut self.migrate,
            map: &mut self.map,
            space: &mut self.space,
            stats: &mut self.stats,
            flushes: &mut self.flushes,
            summaries: &mut self.summaries,
            checkpoint: &mut self.checkpoint,
            outbox: &mut self.outbox,
            copies: &mut self.copies,
            journal: &mut self.journal,
            requests: &self.requests,
            prism: &self.prism,
            packing: &mut self.packing,
            staying: &mut self.staying,
            is_read_only: self.read_only.is_some(),
            now_ns: self.clock.now_ns(),
        }
    }

    /// Does a step of a job, and all steps that follow without waiting.
    fn moves_on(&mut self, id: u32, step: impl FnOnce(&mut Moving<'_>, u32) -> After) {
        let mut after = step(&mut self.moving(), id);
        loop {
            after = match after {
                After::Wait => return,
                After::Gathered => gathered::gathered(&mut self.moving(), id),
                After::Pack => pack::pack_sources(&mut self.moving(), id),
                After::Record => record::record_moves(&mut self.moving(), id),
                After::End { pause } => return self.end_job(id, pause),
            };
        }
    }

    /// A batch with records of a job was written, or could not be.
    pub(crate) fn move_batch_written(&mut self, id: u32, good: bool) {
        self.moves_on(id, |rooms, id| record::batch_written(rooms, id, good));
    }

    /// Whether a job is in progress, or one could free something now or after the pause.
    pub(crate) fn migrate_may_free(&mut self) -> bool {
        let rooms = &mut self.moving();
        due::look_at_died(rooms);
        due::may_free(rooms)
    }

    /// Whether collections go on and move nothing.
    pub(crate) fn migrates_in_vain(&self) -> bool {
        due::is_in_vain(&self.migrate)
    }

    /// Slots that should be free for hosts.
    pub(crate) fn free_slots_wanted(&self) -> u64 {
        due::free_slots_wanted(&self.setup, &self.space, &self.migrate)
    }

    pub(crate) fn summary_read(
        &mut self,
        id: u32,
        which: SummaryRead,
        result: Result<(), IoError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        self.moves_on(id, |rooms, id| collect::summary_read(rooms, id, which, result, bufs));
    }

    pub(crate) fn sources_read(
        &mut self,
        id: u32,
        candidates: &[u32],
        result: Result<(), IoError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        self.moves_on(id, |rooms, id| sources::sources_read(rooms, id, candidates, result, bufs));
    }

    pub(crate) fn source_read_again(
        &mut self,
        id: u32,
        which: (u32, u8),
        result: Result<(), IoError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        self.moves_on(id, |rooms, id| sources::source_read_again(rooms, id, which, result, bufs));
    }

    pub(crate) fn destination_written(&mut self, id: u32, result: Result<(), IoError>) {
        self.moves_on(id, |rooms, id| destinations::destination_written(rooms, id, result.is_ok()));
    }

    /// What a job wrote to a device is durable, or is not known to be.
    pub(crate) fn job_flushed(&mut self, id: u32, is_good: bool) {
        if let Some(job) = self.migrate.job_mut(id) {
            job.failed |= !is_good;
        }
        self.moves_on(id, destinations::part_done);
    }
}

/// Goes on choosing what leaves the fast tier.
fn gather_from_fast(rooms: &mut Moving<'_>, id: u32) -> After {
    match rooms.migrate.job(id) {
        Some(Job { together: Some(_), .. }) => gather_together::gather_together(rooms, id),
        _ => destage::gather_destage(rooms, id),
    }
}
