//! The published run in numbers, and the values that follow for a scale.

use crate::generate::parts::{BLOCK_BYTES, GB};

/// Number of levels that compactions write: L1, L2, L3, and L4 and L5 as one.
pub(super) const MERGED_LEVELS: usize = 4;
/// Number of files for the published 4.0 GB of write-ahead log.
pub(super) const WAL_FILES: u64 = 16;
/// Number of files in L0 at which the oldest is compacted; also the most that there are.
pub(super) const L0_FILES: usize = 4;

/// Published bytes written to the write-ahead log, in GB.
const WAL_WRITTEN_GB: f64 = 688.9;
/// Published space of the write-ahead log, in GB.
const WAL_OCCUPIED_GB: f64 = 4.0;
/// Published bytes written to L0, in GB.
const L0_WRITTEN_GB: f64 = 689.6;
/// Published bytes written to L1, L2, L3 and L4/L5, in GB.
const WRITTEN_GB: [f64; MERGED_LEVELS] = [1012.3, 3157.0, 4511.9, 2601.9];
/// Published space of these levels, in GB.
const OCCUPIED_GB: [f64; MERGED_LEVELS] = [1.0, 11.8, 100.0, 1000.0];
/// Published space of the file system's metadata and log, in GB.
const METADATA_OCCUPIED_GB: f64 = 2.0;
/// Published bytes written to metadata and log, in GB.
const METADATA_WRITTEN_GB: f64 = 5.7;
/// Share of the log in that space: `mkfs.xfs` makes it just below 2 GiB on a drive of 8 TB.
const METADATA_LOG_SHARE: f64 = 0.95;
/// Bytes of a level that are rewritten for each byte merged into it. Calibrated.
const REWRITTEN: [f64; MERGED_LEVELS] = [0.98, 5.5, 9.3, 6.2];
/// `target_file_size_base` of the published run, 128 MiB, in GB.
const FILE_GB: f64 = 0.134_217_728;
/// Size of the volume relative to the peak of live data.
const SLACK: f64 = 1.3;
/// Share of the time in which a background thread works, on average. L1 must be compacted into L2 between two compactions into L1, or the
/// log has to wait.
const BUSY: f64 = 0.4;
/// Speed of a flush relative to the log.
const FLUSH_SPEED: f64 = 4.0;

/// A level that compactions write.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelPlan {
    /// Share of the bytes picked from the level above that remains after the merge.
    pub kept: f64,
    /// Bytes of this level that the merge rewrites for each remaining byte.
    pub rewritten: f64,
    /// Bytes of this level that the merge reads for each remaining byte.
    pub read: f64,
    /// Size in blocks beyond which files are compacted into the next level.
    pub limit_blocks: u64,
    /// Speed of the thread that compacts into this level, reads and writes, relative to the log.
    pub speed: f64,
    /// Most blocks that one compaction writes.
    pub job_blocks: u64,
}

/// All sizes in blocks, for one scale.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Blocks of log until the end.
    pub wal_blocks: u64,
    /// Blocks of log for one memtable, and of one log file.
    pub memtable_blocks: u64,
    /// Blocks of an L0 file.
    pub flush_blocks: f64,
    /// Speed of a flush relative to the log.
    pub flush_speed: f64,
    /// Target size of a file in blocks.
    pub file_blocks: u64,
    /// L1 and the deeper levels.
    pub levels: [LevelPlan; MERGED_LEVELS],
    /// Blocks of the file system's log.
    pub log_blocks: u64,
    /// Blocks of its other metadata.
    pub metadata_blocks: u64,
    /// Bytes of metadata written for each byte of files.
    pub metadata_share: f64,
    /// Blocks of log written for each block of metadata.
    pub wal_per_metadata: f64,
    /// Number of file slots of `file_blocks` each.
    pub slots: u64,
}

fn blocks(gb: f64) -> u64 {
    ((gb * GB / BLOCK_BYTES as f64).round() as u64).max(1)
}

impl Plan {
    pub fn new(scale: f64) -> Self {
        let memtable_blocks = blocks(WAL_OCCUPIED_GB / WAL_FILES as f64 * scale);
        let flush_blocks = memtable_blocks as f64 * (L0_WRITTEN_GB / WAL_WRITTEN_GB);
        let file_blocks = blocks(FILE_GB * scale);
        let mut above_gb = L0_WRITTEN_GB;
        let mut above_blocks = flush_blocks.ceil();
        let levels = std::array::from_fn(|level| {
            let merged_gb = WRITTEN_GB[level] / (1.0 + REWRITTEN[level]);
            let kept = merged_gb / above_gb;
            // The last level does not grow: incoming data replaces as many older versions.
            let is_last = level + 1 == MERGED_LEVELS;
            let read = REWRITTEN[level] + if is_last { 1.0 } else { 0.0 };
            let moved_gb = above_gb + merged_gb * read + WRITTEN_GB[level];
            let job_blocks = (above_blocks * kept * (1.0 + REWRITTEN[level])).ceil() as u64 + 1;
            above_gb = merged_gb;
            above_blocks = file_blocks as f64;
            LevelPlan {
                kept,
                rewritten: REWRITTEN[level],
                read,
                // Until a compaction ends, its output exists beside the files that it replaces.
                limit_blocks: blocks(OCCUPIED_GB[level] * scale).saturating_sub(job_blocks),
                speed: moved_gb / WAL_WRITTEN_GB / BUSY,
                job_blocks,
            }
        });
        let files_gb: f64 = WRITTEN_GB.iter().sum::<f64>() + L0_WRITTEN_GB + WAL_WRITTEN_GB;
        let metadata_all = blocks(METADATA_OCCUPIED_GB * scale);
        let log_blocks = ((metadata_all as f64 * METADATA_LOG_SHARE) as u64).max(1);
        let occupied_gb: f64 = OCCUPIED_GB.iter().sum::<f64>() + 1.0;
        Self {
            wal_blocks: blocks(WAL_WRITTEN_GB * scale),
            memtable_blocks,
            flush_blocks,
            flush_speed: FLUSH_SPEED,
            file_blocks,
            levels,
            log_blocks,
            metadata_blocks: metadata_all.saturating_sub(log_blocks).max(1),
            metadata_share: METADATA_WRITTEN_GB / files_gb,
            wal_per_metadata: WAL_WRITTEN_GB / METADATA_WRITTEN_GB,
            slots: blocks(occupied_gb * scale * SLACK).div_ceil(file_blocks) + 64,
        }
    }
}
