//! When a job is due, and whether one could free what others wait for.

use super::job::{JobKind, Phase};
use crate::engine::Engine;
use crate::layout::page::BLOCK_SECTORS;
use std::collections::BTreeSet;

/// Wait after a job that failed or found nothing, in nanoseconds.
const PAUSE_NS: u64 = 100_000_000;
/// How often that doubles at most once nobody waits for space any more.
const PAUSE_DOUBLINGS_MAX: u32 = 6;
/// After so many jobs in a row that failed or found nothing, requests that wait for space learn that there is none.
/// More than a few: a job that runs out of bands fails, and what it had been granted is empty and freed by that.
const FAILURES_MAX: u32 = 30;

impl Engine {
    /// Whether a job is in progress or could free something now or after its pause.
    pub(crate) fn migrate_may_free(&self) -> bool {
        if self.read_only.is_some() || self.flushes.has_failed() {
            return false;
        }
        if self.may_unpin() {
            return true;
        }
        if self.migrate.failures >= FAILURES_MAX {
            return false;
        }
        // What could be collected and is not due will not be: with bands free that cannot be opened, for one.
        !self.migrate.jobs.is_empty() || self.destage_due() || self.collect_due() && self.victim().is_some()
    }

    /// Whether bands wait for a checkpoint that could be written.
    fn may_unpin(&self) -> bool {
        self.checkpoint.capacity.pinned() > 0 && self.checkpoint.hopeless(&self.stats.counters).is_none()
    }

    /// There is no room to move anything to. What was freed and is not yet durable would help: nobody else may ever
    /// flush. Where nothing is in progress that could, this counts as a job that found nothing.
    pub(super) fn want_freed(&mut self) {
        if !self.space.freed.is_empty() {
            self.flushes.want();
        } else if self.may_unpin() {
            self.checkpoint.want_another();
        } else if self.outbox.is_empty() {
            self.migrate.failures = self.migrate.failures.saturating_add(1);
            self.migrate_pause();
        }
    }

    /// Waits before the next job: the longer, the more jobs have come to nothing.
    pub(super) fn migrate_pause(&mut self) {
        let longer = self.migrate.failures.saturating_sub(FAILURES_MAX).min(PAUSE_DOUBLINGS_MAX);
        self.migrate.not_before_ns = self.clock.now_ns().saturating_add(PAUSE_NS << longer);
    }

    pub(super) fn collect_due(&self) -> bool {
        let low = (self.space.bands.count() / 16).max(3);
        let free = self.space.bands.free_count() + self.space.freed.bands() + self.checkpoint.capacity.pinned();
        // A request larger than what is kept free needs more.
        free < low
            || self.requests.space_wanted()
                > free.saturating_sub(low) as u64 * u64::from(self.space.bands.data_blocks())
    }

    /// The band whose collection pays best: one that is begun, or the best of the others.
    pub(super) fn victim(&self) -> Option<u32> {
        self.begun_band().or_else(|| self.space.bands.victim(|band| self.migrate.leaves_alone(band)))
    }

    /// Blocks for which jobs have yet to ask for space, where this band is collected, too: all that lives in each band, and
    /// what destages have taken.
    pub(super) fn blocks_to_write(&self, band: u32) -> u64 {
        let mut bands = BTreeSet::from([band]);
        let mut blocks = 0;
        for (_, job) in &self.migrate.jobs {
            match (job.phase, job.kind) {
                (_, JobKind::Collect { band }) => {
                    bands.insert(band);
                }
                (Phase::Gather | Phase::Read, JobKind::Destage) => blocks += job.candidates.len() as u64,
                _ => {}
            }
        }
        let valid = |band: u32| u64::from(self.space.bands.get(band).valid).div_ceil(BLOCK_SECTORS);
        blocks + bands.into_iter().map(valid).sum::<u64>()
    }

    pub(super) fn destage_due(&self) -> bool {
        if self.migrate.ages.is_empty() && self.migrate.surveys_left == 0 {
            return false;
        }
        let is_full =
            self.space.slots_kept() * 100 > self.space.slots.total() * self.setup.options.destage_above_percent;
        // What jobs are moving is as good as free.
        let soon_free = self.space.data_slots_free() + self.space.freed.slots() + self.migrate.held.len() as u64;
        is_full || soon_free < self.free_slots_wanted()
    }

    /// Slots that should be free for hosts: what they take while jobs make room.
    pub(crate) fn free_slots_wanted(&self) -> u64 {
        let total = self.space.slots.total();
        (2 * self.migrate.slots_taken_per_job + self.setup.limits.blocks_per_job as u64 / 2)
            .clamp(total / 64 + 1, total / 16 + 1)
    }
}
