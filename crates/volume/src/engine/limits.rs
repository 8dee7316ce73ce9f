//! How much may go on at once, derived from the pool and its memory: pure arithmetic, done once.

use super::EngineOptions;
use crate::layout::band_summary::GROUP_BLOCKS;
use crate::layout::superblock::Superblock;

/// Most leaves dirtied between two checkpoints: with those dirtied while one is written, this bounds what recovery
/// reads (2 x 65536 leaves of 4 KiB are 512 MiB).
const DIRTY_MAX: usize = 65_536;
/// Most migration jobs at once.
pub(crate) const JOBS_MAX: usize = 4;
/// Most leaves dirtied between two checkpoints, as a part of the slots: each keeps a slot free for its new page. The part is large where few blocks are written
/// for each leaf, and small where checkpoints cost little anyway: then slots are worth more with data in them.
pub(crate) const DIRTY_PARTS: [usize; 4] = [16, 32, 64, 128];
/// At least so many may be dirty on the smallest fast tiers, whatever the part.
const DIRTY_MIN: usize = 8;
/// Most leaves that jobs may name together, as a part of the slots: for each a slot is kept free. The first part counts where there are few slots, the second
/// where there are many.
const IN_JOBS_PARTS: [usize; 2] = [32, 128];
/// From this many leaves on the second part counts: jobs of whole groups need no more.
const IN_JOBS_ENOUGH: usize = 256;
/// Leaves that a job should be able to name; where fewer can be named together there are fewer jobs.
const LEAVES_PER_JOB_MIN: usize = 4;

/// Memory for what is read ahead of sequential readers: this part of the limit, and at most so many bytes.
const AHEAD_PART: u64 = 64;
const AHEAD_MAX_BYTES: u64 = 16 << 20;
/// Bytes of a group of a band.
pub(crate) const GROUP_BYTES: u64 = 4096 * GROUP_BLOCKS as u64;

/// Groups of bands that may be read ahead, all together, with so much memory to be shared out.
pub(crate) fn ahead_groups(shared_bytes: u64) -> usize {
    ((shared_bytes / AHEAD_PART).min(AHEAD_MAX_BYTES) / GROUP_BYTES) as usize
}

/// Blocks that all jobs together may move, and so the most leaves that they may name.
fn blocks_in_jobs(options: &EngineOptions, journal_len_bytes: u64) -> usize {
    let by_journal = (journal_len_bytes / 512).max(16) as usize;
    (options.job_blocks as usize).min(by_journal)
}

/// Blocks that all jobs together may hold, with so much memory to be shared out.
pub(crate) fn job_blocks_max(shared_bytes: u64) -> u32 {
    (shared_bytes / 16 / 4096).clamp(16, u64::from(u32::MAX)) as u32
}

/// How many leaves the journal may name: recovery must have memory for all of them at once, and a slot for the new page of
/// each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafLimits {
    /// Leaves that recovery may need.
    pub needed: usize,
    /// Leaves that may be dirtied between two checkpoints.
    pub dirty: usize,
    /// Leaves for which jobs are made: what two rounds of dirty leaves leave of those that recovery may need. How many
    /// jobs may name at a given time is decided by what is needed then (`Checkpoint::try_name`).
    in_jobs: usize,
}

impl LeafLimits {
    /// For a pool where recovery has so many frames, and at most this part of the slots may be dirty leaves ([`DIRTY_PARTS`]).
    pub fn within(frames: usize, part: usize, options: &EngineOptions, superblock: &Superblock) -> Self {
        Self::new(options, (frames, part), superblock.slots, superblock.journal_len_bytes)
    }

    fn new(options: &EngineOptions, (frames, part): (usize, usize), slots: u64, journal_len_bytes: u64) -> Self {
        let slots = slots as usize;
        // Each dirty leaf needs a slot of its own before its old one is free.
        let by_slots = (slots / part).max((slots / DIRTY_PARTS[0]).min(DIRTY_MIN));
        let dirty = (frames * 2 / 5).min(by_slots).clamp(1, DIRTY_MAX);
        // Leaves that jobs have named, and as many of earlier jobs whose records are replayed whole.
        let by_jobs = 2 * blocks_in_jobs(options, journal_len_bytes);
        let [of_few, of_many] = IN_JOBS_PARTS.map(|part| slots / part);
        let by_slots = of_few.min(of_many.max(IN_JOBS_ENOUGH));
        let in_jobs = frames.saturating_sub(2 * dirty).min(by_jobs).min(by_slots).max(1);
        Self { needed: frames.min(2 * dirty + in_jobs), dirty, in_jobs }
    }

    /// The smaller of both, limit by limit.
    pub fn at_most(&self, other: &Self) -> Self {
        let Self { needed, dirty, in_jobs } = *self;
        Self { needed: needed.min(other.needed), dirty: dirty.min(other.dirty), in_jobs: in_jobs.min(other.in_jobs) }
    }

    /// Leaves that one of so many jobs may name.
    pub fn per_job(&self, jobs: usize) -> usize {
        (self.in_jobs / jobs).max(1)
    }
}

/// The limits of migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Jobs at once.
    pub jobs: usize,
    /// Blocks that one job may move: few compared with the fast tier, because a block that is overwritten while it is
    /// moved was written to the capacity tier in vain.
    pub blocks_per_job: usize,
}

impl Limits {
    /// Blocks that all jobs together may move at once.
    pub fn blocks_in_jobs(&self) -> u64 {
        (self.jobs * self.blocks_per_job) as u64
    }

    /// For an engine whose jobs may name so many leaves, with a journal of this length.
    pub fn new(options: &EngineOptions, leaves: &LeafLimits, journal_len_bytes: u64) -> Self {
        let jobs = (leaves.in_jobs / LEAVES_PER_JOB_MIN).clamp(1, JOBS_MAX);
        let together = blocks_in_jobs(options, journal_len_bytes);
        Self { jobs, blocks_per_job: (together / jobs).max(16.min(together)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixty_fourth_of_the_memory_is_read_ahead_into_and_at_most_16_mib() {
        assert_eq!([1 << 20, 16 << 20, 160 << 20, 1 << 30, 64 << 30].map(ahead_groups), [0, 1, 10, 64, 64]);
    }

    /// Leaves that recovery may need and that may be dirty, jobs, and what each may name and move.
    fn limits(frames: usize, slots: u64, journal_len_bytes: u64) -> [usize; 5] {
        let options = EngineOptions::default();
        let leaves = LeafLimits::new(&options, (frames, DIRTY_PARTS[0]), slots, journal_len_bytes);
        let Limits { jobs, blocks_per_job } = Limits::new(&options, &leaves, journal_len_bytes);
        [leaves.needed, leaves.dirty, jobs, leaves.per_job(jobs), blocks_per_job]
    }

    #[test]
    fn few_frames_or_slots_mean_few_jobs_and_never_none() {
        assert_eq!(limits(100_000, 1 << 20, 64 << 20), [84_096, 40_000, 4, 1024, 512]);
        assert_eq!(limits(100_000, 1 << 15, 64 << 20), [4352, 2048, 4, 64, 512], "a slot is kept for each leaf");
        assert_eq!(limits(16, 1 << 20, 128 << 10), [16, 6, 1, 4, 256]);
        assert_eq!(limits(1, 1, 4096), [1, 1, 1, 1, 16]);
    }

    #[test]
    fn a_smaller_part_keeps_fewer_slots_for_pages_but_some_on_the_smallest_tiers() {
        let needed = |slots| {
            DIRTY_PARTS.map(|part| LeafLimits::new(&EngineOptions::default(), (100_000, part), slots, 64 << 20).needed)
        };
        assert_eq!(needed(1 << 15), [4352, 2304, 1280, 768]);
        assert_eq!(needed(256), [40, 24, 24, 24]);
        assert_eq!(needed(64), [10; 4]);
        let of = |frames, part| LeafLimits::new(&EngineOptions::default(), (frames, part), 1 << 15, 64 << 20);
        let (few, many) = (of(100_000, 128), of(90_000, 16));
        assert_eq!(few.at_most(&many), few, "less memory is no reason for more leaves");
        assert_eq!(many.at_most(&of(100, 16)), of(100, 16));
    }
}
