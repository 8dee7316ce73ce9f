//! How much may go on at once, from what the pool and its memory are: pure arithmetic, done once.

use super::EngineOptions;
use crate::layout::band_summary::GROUP_BLOCKS;

/// Most leaves dirtied between two checkpoints: with those dirtied while one is written, this bounds what recovery
/// reads (2 x 65536 leaves of 4 KiB are 512 MiB).
const DIRTY_MAX: usize = 65_536;
/// Jobs of migration at once, at most.
pub(crate) const JOBS_MAX: usize = 4;
/// Leaves that a job should be able to name; where fewer can be named together there are fewer jobs.
const LEAVES_PER_JOB_MIN: usize = 4;

/// Memory for what is read ahead of sequential readers: this part of the limit, and no more than so many bytes.
const AHEAD_PART: u64 = 64;
const AHEAD_MAX_BYTES: u64 = 16 << 20;
/// Bytes of a group of a band.
pub(crate) const GROUP_BYTES: u64 = 4096 * GROUP_BLOCKS as u64;

/// Groups of bands that may be read ahead, all together.
pub(crate) fn ahead_groups(memory_limit_bytes: u64) -> usize {
    ((memory_limit_bytes / AHEAD_PART).min(AHEAD_MAX_BYTES) / GROUP_BYTES) as usize
}

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Leaves that fit into memory: recovery may need no more.
    pub leaves: usize,
    /// Leaves that may be dirtied between two checkpoints.
    pub dirty_leaves: usize,
    /// Jobs of migration at once.
    pub jobs: usize,
    /// Leaves that one job may name.
    pub leaves_per_job: usize,
    /// Blocks that one job may move: few against the fast tier, because what is being moved is not overwritten there any
    /// more without having been written to the capacity tier.
    pub blocks_per_job: usize,
}

impl Limits {
    /// Of an engine with so many frames and slots, and a journal of this length.
    pub fn new(options: &EngineOptions, frames: usize, slots: u64, journal_len_bytes: u64) -> Self {
        // Each dirty leaf needs a slot of its own before its old one is free.
        let by_slots = (slots / 16) as usize;
        let dirty_leaves = (frames * 2 / 5).min(by_slots).clamp(1, DIRTY_MAX);
        // The records of jobs stand in the journal before the leaves are dirty, and recovery needs all leaves that the
        // journal names in memory at once: jobs are made for what two rounds of dirty leaves leave over. What they may name
        // at a time is decided by what is needed then (`Checkpoint::try_name`).
        let in_jobs = frames.saturating_sub(2 * dirty_leaves).max(1);
        let jobs = (in_jobs / LEAVES_PER_JOB_MIN).clamp(1, JOBS_MAX);
        let by_journal = (journal_len_bytes / 512).max(16) as usize;
        let by_memory = (options.memory_limit_bytes / 16 / 4096).max(16) as usize;
        let together = (options.job_blocks as usize).min(by_journal).min(by_memory);
        Self {
            leaves: frames,
            dirty_leaves,
            jobs,
            leaves_per_job: (in_jobs / jobs).max(1),
            blocks_per_job: (together / jobs).max(16.min(together)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixty_fourth_of_the_memory_is_read_ahead_into_and_at_most_16_mib() {
        assert_eq!([1 << 20, 16 << 20, 160 << 20, 1 << 30, 64 << 30].map(ahead_groups), [0, 1, 10, 64, 64]);
    }

    #[test]
    fn few_frames_mean_few_jobs_and_never_none() {
        let options = EngineOptions::default();
        let wide = Limits::new(&options, 100_000, 1 << 20, 64 << 20);
        let expected =
            Limits { leaves: 100_000, dirty_leaves: 40_000, jobs: 4, leaves_per_job: 5_000, blocks_per_job: 512 };
        assert_eq!(wide, expected);
        let narrow = Limits::new(&options, 16, 1 << 20, 128 << 10);
        assert_eq!((narrow.dirty_leaves, narrow.jobs, narrow.leaves_per_job), (6, 1, 4));
        let tiny = Limits::new(&options, 1, 1, 4096);
        assert_eq!((tiny.dirty_leaves, tiny.jobs, tiny.leaves_per_job, tiny.blocks_per_job), (1, 1, 1, 16));
    }
}
