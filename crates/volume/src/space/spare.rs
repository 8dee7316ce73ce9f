//! What compressed blocks may take more of the device where they are moved: each run ends within a block, and each group.

/// Runs of one job, each in a band of its own, and a half for what ends within a group.
const RUNS_PER_JOB: u64 = 3;
/// Of the blocks of a group, this part is lost at its end.
const GROUP_PART: u64 = 64;

/// How they are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Blocks that one job moves.
    pub blocks_per_job: u64,
}

impl Spare {
    /// Whether moving what takes so many sectors of a band of so many blocks leaves some free.
    #[must_use]
    pub fn leaves_some(self, sectors: u32, data_blocks: u32) -> bool {
        let blocks = u64::from(sectors.div_ceil(8));
        blocks + self.of(blocks) < u64::from(data_blocks)
    }

    /// What so many blocks of the device may take more, in blocks.
    #[must_use]
    pub fn of(self, blocks: u64) -> u64 {
        // Most that can be compressed into them, in jobs.
        let jobs = (blocks * 8 / 3).div_ceil(self.blocks_per_job.max(1));
        blocks / GROUP_PART + RUNS_PER_JOB.min(1 + blocks / 16) * jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fortieth_of_large_bands_and_a_block_or_two_of_small_ones() {
        let of = |blocks| Spare { blocks_per_job: 512 }.of(blocks);
        assert_eq!([1, 6, 50, 252, 16_000].map(of), [1, 1, 3, 9, 502]);
        assert_eq!(Spare { blocks_per_job: 16 }.of(63), 33);
        assert_eq!(Spare { blocks_per_job: 0 }.of(0), 0);
    }
}
