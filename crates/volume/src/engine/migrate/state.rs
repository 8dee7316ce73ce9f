//! What migration knows: its jobs, what they hold, and what it leaves alone.

use super::ages::AgeQueue;
use super::job::{Job, JobKind, Phase};
use super::stranded::Stranded;
use super::together::Together;
use crate::engine::Freed;
use crate::space::bands::Bands;
use crate::space::extents::Extents;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet};

/// How long a band whose collection failed is left alone, in nanoseconds: the fault may pass.
const AVOID_NS: u64 = 10_000_000_000;
/// For how long a band out of which nothing could be moved comes behind all others, in nanoseconds: to the choice of victims it is the best of all, and stays that.
const LAST_NS: u64 = 600_000_000_000;
/// How often it is tried to empty a band whose parity does not match its data.
const SUSPECT_TRIES_MAX: u32 = 3;

/// How far jobs have come with a band, group by group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub generation: u32,
    /// Where the next job begins.
    pub next_group: u32,
    /// Blocks that were valid in the band when its collection began.
    pub alive_blocks: u64,
    /// The policy of lifetime groups knows that the collection has begun.
    pub is_known: bool,
    /// How often groups were given to a job.
    pub handed_out: u32,
}

/// State of migration.
#[derive(Debug, Default)]
pub(crate) struct Migrate {
    pub(super) jobs: Slab<Job>,
    /// No new jobs begin, while a pool is being opened or stopped.
    pub(super) paused: bool,
    /// Leaves with blocks to be destaged.
    pub ages: AgeQueue,
    /// Blocks that leave together without being due, once there are enough of them.
    pub together: Together,
    /// Where the survey of all leaves is.
    pub(super) cursor: (u16, u64),
    /// Surveys of all leaves that are left, the one in progress among them: since a policy changed, the counts of what
    /// may be destaged may be too low.
    pub(super) surveys_left: u8,
    pub(super) not_before_ns: u64,
    /// Jobs in a row that failed or found nothing.
    pub(super) failures: u32,
    /// How much of bands had died, in grains, when the last of them did.
    died_at_failure_grains: u64,
    /// Sources of destages, from when a job takes them: not to be reused while a job may still compare the map with
    /// them.
    pub(super) held: BTreeSet<u64>,
    /// Destinations of recorded moves that were not applied.
    pub stranded: Stranded,
    /// Freed space with which jobs still compare the map.
    pub(super) deferred: Vec<Freed>,
    /// Bands that are collected in part.
    pub(super) rounds: BTreeMap<u32, Round>,
    /// Bands whose collection failed, in this generation, and until when they are left alone.
    excluded_until_ns: BTreeMap<u32, (u32, u64)>,
    /// Bands out of which nothing could be moved, in this generation, and until when they come behind all others.
    last_until_ns: BTreeMap<u32, (u32, u64)>,
    /// When such a band is tried again at the earliest, where data could leave the fast tier instead.
    pub(super) last_not_before_ns: u64,
    /// Collections in a row that moved nothing.
    pub(super) in_vain: u32,
    /// Bands in which collections found something wrong that may be mended: the generation of the band, and how often.
    tried: BTreeMap<u32, (u32, u32)>,
    /// Suspects: bands whose parity does not match their data, so that the data is moved away. With the generation of the band, and how often that was tried in
    /// vain.
    suspects: BTreeMap<u32, (u32, u32)>,
    /// Blocks that destages took before they were due, since the fast tier was last shared out.
    pub early_blocks: u64,
    /// Most slots to be kept free for hosts, by what data in them would save; `None` while that is not known, or where it would save nothing.
    pub free_slots_max: Option<u64>,
    /// Slots that hosts allocate while a destage runs, a decaying maximum: so many must be free for them.
    pub(super) slots_taken_per_job: u64,
}

/// Whether a suspect band was emptied, or is given up.
fn is_over(band: u32, (generation, tries): (u32, u32), bands: &Bands) -> bool {
    let now = bands.get(band);
    now.generation != generation || now.valid == 0 || tries >= SUSPECT_TRIES_MAX
}

impl Migrate {
    /// A job.
    pub(super) fn job(&self, id: u32) -> Option<&Job> {
        self.jobs.get(id as usize)
    }

    /// A job.
    pub(super) fn job_mut(&mut self, id: u32) -> Option<&mut Job> {
        self.jobs.get_mut(id as usize)
    }

    /// Whether a destage job, and whether a collection job is in progress.
    pub fn in_progress(&self) -> (bool, bool) {
        let has = |wanted: fn(JobKind) -> bool| self.jobs.iter().any(|(_, job)| wanted(job.kind));
        (has(|kind| kind == JobKind::Destage), has(|kind| matches!(kind, JobKind::Collect { .. })))
    }

    /// Whether a job is compressing, and waits only for its next step.
    pub fn computes(&self) -> bool {
        self.jobs.iter().any(|(_, job)| job.phase == Phase::Pack)
    }

    /// Whether any job is in progress.
    pub fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Keeps new jobs from beginning, or lets them begin again.
    pub fn pause_all(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Time passes: bands are tried again.
    pub(super) fn tick(&mut self, now_ns: u64) {
        self.excluded_until_ns.retain(|_, (_, until_ns)| now_ns < *until_ns);
        self.last_until_ns.retain(|_, (_, until_ns)| now_ns < *until_ns);
        self.together.tick(now_ns);
    }

    /// A job failed or found nothing, when so many grains of bands had died.
    pub(super) fn fails(&mut self, died_grains: u64) {
        self.failures = self.failures.saturating_add(1);
        self.died_at_failure_grains = died_grains;
    }

    /// Where a whole band's worth of data has died since the last failure, jobs may find something now: the failures count no more.
    pub(super) fn forgive(&mut self, died_grains: u64, band_grains: u64) {
        if self.failures > 0 && died_grains - self.died_at_failure_grains >= band_grains {
            (self.failures, self.not_before_ns) = (0, 0);
        }
    }

    /// Leaves a band, in this generation, alone for a while.
    pub(super) fn exclude(&mut self, band: u32, generation: u32, now_ns: u64) {
        self.excluded_until_ns.insert(band, (generation, now_ns.saturating_add(AVOID_NS)));
    }

    /// Whether a band, in this generation, is left alone for a while.
    pub(super) fn is_excluded(&self, band: u32, generation: u32) -> bool {
        self.excluded_until_ns.get(&band).is_some_and(|&(of, _)| of == generation)
    }

    /// A collection of a band, in this generation, ended without having moved anything, for example as the last blocks in it cannot be read.
    pub(super) fn moved_nothing(&mut self, band: u32, generation: u32, now_ns: u64) {
        self.in_vain = self.in_vain.saturating_add(1);
        self.exclude(band, generation, now_ns);
        self.last_until_ns.insert(band, (generation, now_ns.saturating_add(LAST_NS)));
    }

    /// A collection of a band, in this generation, moved something. Where nothing could be moved out of it before, a device did not answer, and does now.
    pub(super) fn moved_some(&mut self, band: u32, generation: u32) {
        if self.comes_last(band, generation) {
            self.last_until_ns.clear();
        }
    }

    /// Whether a band, in this generation, comes behind all others.
    pub(super) fn comes_last(&self, band: u32, generation: u32) -> bool {
        self.last_until_ns.get(&band).is_some_and(|&(of, _)| of == generation)
    }

    /// Notes that blocks of a band, in this generation, could not be moved away.
    pub(super) fn tried(&mut self, band: u32, generation: u32) {
        let entry = self.tried.entry(band).or_default();
        let before = if entry.0 == generation { entry.1 } else { 0 };
        *entry = (generation, before + 1);
    }

    /// How often that was noted.
    pub(super) fn tries(&self, band: u32, generation: u32) -> u32 {
        self.tried.get(&band).filter(|(of, _)| *of == generation).map_or(0, |&(_, tries)| tries)
    }

    /// Notes that the parity of a band, in this generation, does not match its data. Returns whether that is new.
    pub fn suspect(&mut self, band: u32, generation: u32) -> bool {
        let is_new = !self.is_suspect(band, generation);
        if is_new {
            self.suspects.insert(band, (generation, 0));
        }
        is_new
    }

    /// Whether the parity of a band, in this generation, is known not to match its data.
    pub fn is_suspect(&self, band: u32, generation: u32) -> bool {
        self.suspects.get(&band).is_some_and(|(of, _)| *of == generation)
    }

    /// A collection of a band ended without having moved anything. Returns whether the band is a suspect: then this was one of some attempts, the band is left
    /// alone for a while, and other jobs go on.
    pub(super) fn is_vain_suspect(&mut self, band: u32, generation: u32, now_ns: u64) -> bool {
        let is_suspect = self.is_suspect(band, generation);
        if is_suspect {
            if let Some((_, tries)) = self.suspects.get_mut(&band) {
                *tries += 1;
            }
            self.exclude(band, generation, now_ns);
        }
        is_suspect
    }

    /// The first suspect that can be collected now. Those that were emptied or given up are forgotten.
    pub(super) fn next_suspect(&mut self, bands: &Bands) -> Option<u32> {
        let is_over = |&(&band, &suspect): &(&u32, &(u32, u32))| is_over(band, suspect, bands);
        let over: Vec<u32> = self.suspects.iter().filter(is_over).map(|(&band, _)| band).collect();
        over.iter().for_each(|band| _ = self.suspects.remove(band));
        self.suspects
            .keys()
            .copied()
            .find(|&band| bands.may_collect(band) && !self.leaves_alone(band, bands.get(band).generation))
    }

    /// Whether there are suspects that are still to be emptied.
    pub fn has_suspects(&self, bands: &Bands) -> bool {
        self.suspects.iter().any(|(&band, &suspect)| !is_over(band, suspect, bands))
    }

    /// Whether freed space belongs to a job in progress; if so it is kept back until a job ends.
    pub fn holds(&mut self, freed: Freed, extents: &Extents) -> bool {
        let hit = match freed {
            Freed::Band(band) => self.collects(band),
            Freed::Slots { first, count } => {
                let (from, to) = (extents.slot_location(first), extents.slot_location(first + count));
                self.held.range(from..to).next().is_some()
            }
        };
        if hit {
            self.deferred.push(freed);
        }
        hit
    }

    pub(super) fn collects(&self, band: u32) -> bool {
        self.jobs.iter().any(|(_, job)| job.kind == JobKind::Collect { band })
    }

    /// Whether a band, in this generation, is not to be collected now: its collection failed lately, or is in progress.
    pub(super) fn leaves_alone(&self, band: u32, generation: u32) -> bool {
        self.is_excluded(band, generation) || self.collects(band)
    }

    /// Freed space that is kept back for jobs.
    pub fn deferred(&self) -> impl Iterator<Item = Freed> + '_ {
        self.deferred.iter().copied()
    }

    /// Where in the journal recovery would find what jobs have recorded and not yet applied.
    pub fn journal_at(&self) -> Option<(u64, u64)> {
        self.jobs.iter().filter_map(|(_, job)| job.journal_at).min()
    }

    /// Sequences of jobs that are recorded but not yet applied.
    pub fn unapplied(&self) -> Vec<u64> {
        let mut sequences = Vec::new();
        for (_, job) in self.jobs.iter().filter(|(_, job)| job.journal_at.is_some()) {
            // Moves that are applied must not be replayed: the band of their destination may have its summary written
            // by now.
            let applied = if job.phase == Phase::Apply { job.next } else { 0 };
            sequences.extend(job.candidates[applied..].iter().map(|candidate| candidate.sequence).filter(|&s| s != 0));
        }
        sequences.sort_unstable();
        sequences.dedup();
        sequences
    }

    /// Leaves that jobs in progress have reached: their records are replayed whole while other leaves of theirs are still to be changed.
    pub fn leaves_replayed(&self) -> usize {
        self.jobs.iter().map(|(_, job)| job.leaves_done).sum()
    }

    /// Leaves that jobs in progress have recorded and not reached yet.
    pub fn leaves_named(&self) -> usize {
        let recorded = self.jobs.iter().filter(|(_, job)| job.journal_at.is_some());
        recorded.map(|(_, job)| job.leaves - job.leaves_done).sum()
    }

    /// Whether the counts of what may be destaged are right: no survey is left since a policy changed.
    pub fn has_surveyed(&self) -> bool {
        self.surveys_left == 0
    }

    /// A policy has changed: the counts of what may be destaged may be wrong, and all leaves are surveyed.
    pub fn policy_changed(&mut self) {
        // A survey in progress may have begun anywhere: only the next one sees all leaves.
        let is_in_progress = !self.jobs.is_empty() || self.cursor != (0, 0);
        self.surveys_left = if is_in_progress { 2 } else { 1 };
        self.not_before_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts filled a pool until jobs had found nothing for so long that they paused for seconds, and then discarded most of it: writes found no space until the
    /// pause was over.
    #[test]
    fn regression_failures_count_no_more_where_a_band_of_data_has_died() {
        let mut migrate = Migrate { not_before_ns: 7, ..Migrate::default() };
        (0..40).for_each(|_| migrate.fails(1000));
        migrate.forgive(1099, 100);
        assert_eq!((migrate.failures, migrate.not_before_ns), (40, 7));
        migrate.forgive(1100, 100);
        assert_eq!((migrate.failures, migrate.not_before_ns), (0, 0));
    }
}
