//! How much more of the device compressed blocks may take where they are moved: each run ends within a block, and so does each group.

use crate::layout::band_summary::{GROUP_BLOCKS, SUMMARY_PAGES_MAX, summary_pages};
use crate::layout::page::BLOCK_GRAINS;
use crate::layout::root::BandRoot;

/// Runs of one job, each in a band of its own, and a half for what ends within a group.
const RUNS_PER_JOB: u64 = 3;

/// How compressed blocks are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Blocks that one job moves.
    pub blocks_per_job: u64,
}

impl Spare {
    /// Whether moving the living blocks of a band with so many blocks of data leaves some free.
    #[must_use]
    pub fn leaves_some(self, band: &BandRoot, data_blocks: u32) -> bool {
        let blocks = u64::from(band.moved_grains()).div_ceil(BLOCK_GRAINS);
        blocks + self.of(band) < u64::from(data_blocks)
    }

    /// How many blocks of the device more the living blocks of a band may take where they are moved.
    #[must_use]
    pub fn of(self, band: &BandRoot) -> u64 {
        let (blocks, held) = (u64::from(band.moved_grains()).div_ceil(BLOCK_GRAINS), u64::from(band.blocks));
        let jobs = held.div_ceil(self.blocks_per_job.max(1));
        // Lost in each group: pages of its summary beyond the first, and what is left before them.
        let entries = |pages| (u64::from(GROUP_BLOCKS - pages) * held).div_ceil(blocks.max(1)) as usize;
        let lost = (1..SUMMARY_PAGES_MAX).find(|&pages| summary_pages(entries(pages)) <= pages);
        let lost = lost.unwrap_or(SUMMARY_PAGES_MAX);
        blocks * u64::from(lost) / u64::from(GROUP_BLOCKS - lost) + RUNS_PER_JOB.min(1 + blocks / 16) * jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(blocks: u32, held: u32) -> BandRoot {
        BandRoot { valid: blocks * BLOCK_GRAINS as u32, blocks: held, ..BandRoot::default() }
    }

    #[test]
    fn some_hundredths_of_large_bands_and_a_block_or_two_of_small_ones() {
        let of = |blocks: u32, times: u32| Spare { blocks_per_job: 512 }.of(&band(blocks, times * blocks));
        assert_eq!([1, 6, 50, 252, 16_000].map(|blocks| of(blocks, 2)), [1, 1, 3, 7, 442]);
        assert_eq!([1, 6, 50, 252, 16_000].map(|blocks| of(blocks, 8)), [1, 1, 5, 24, 1536]);
        assert_eq!(Spare { blocks_per_job: 16 }.of(&band(63, 126)), 25);
        assert_eq!(Spare { blocks_per_job: 0 }.of(&BandRoot::default()), 0);
    }

    #[test]
    fn a_band_without_names_for_more_is_left_alone_however_small_its_blocks_are() {
        for groups in [1, 16, 256] {
            for grains in [1, 4, 7] {
                let band = |of_group: u32| BandRoot {
                    valid: of_group * groups * grains,
                    blocks: of_group * groups,
                    ..BandRoot::default()
                };
                let spare = Spare { blocks_per_job: 512 };
                assert!(!spare.leaves_some(&band(1008), 63 * groups));
                assert!(spare.leaves_some(&band(800), 63 * groups));
            }
        }
    }

    /// How much a band loses was taken from the average of the pool: a band full of small compressed blocks in a pool of large ones seemed to have
    /// garbage, and was copied again and again.
    #[test]
    fn regression_a_band_full_of_small_compressed_blocks_is_left_alone() {
        for groups in [4, 16, 64, 256] {
            let data_blocks = 63 * groups;
            for blocks_per_job in [16, 512, 4096] {
                let spare = Spare { blocks_per_job };
                for (times, of_group) in [(8, 60), (8, 61), (16, 57), (16, 58)] {
                    let band = band(of_group * groups, times * of_group * groups);
                    assert!(!spare.leaves_some(&band, data_blocks));
                }
            }
            for times in [8, 16] {
                let band = band(50 * groups, times * 50 * groups);
                assert!(Spare { blocks_per_job: 512 }.leaves_some(&band, data_blocks));
            }
        }
    }
}
