//! What the engine counts: by class over the life of the pool, and events since the start.

use super::served::{Latencies, RequestCounts};
use crate::layout::page::{Entry, GRAIN_BYTES};
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, ClassId};
use forebay_prism::ClassStats;
use std::collections::BTreeMap;

const GRAIN: u64 = GRAIN_BYTES as u64;

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Leaves read because they were not in memory.
    pub map_misses: u64,
    /// Leaves that did not match their parent's checksum.
    pub damaged_pages: u64,
    /// Host reads that found damaged data.
    pub damaged_reads: u64,
    /// Of these, reads of blocks that the map knows to be lost: their data was compared with nothing.
    pub lost_reads: u64,
    /// Bytes read from the capacity tier ahead of sequential readers.
    pub ahead_read_bytes: u64,
    /// Of these, bytes that were served to hosts.
    pub ahead_used_bytes: u64,
    /// Blocks found damaged when they were to be moved.
    pub damaged_moves: u64,
    /// Blocks that a scrub could not read, or found damaged.
    pub scrub_damaged_blocks: u64,
    /// Bands whose parity, as a scrub found, does not match their data, which is moved away for that.
    pub unfit_bands: u64,
    /// Blocks of 4 KiB that were wrong on one device of several, and were written again.
    pub mended_blocks: u64,
    /// Of these, blocks of the capacity tier.
    pub capacity_mended_blocks: u64,
    /// Host requests answered with an error.
    pub request_errors: u64,
    /// Times a write waited for space or for the journal.
    pub stalls: u64,
    /// Blocks that went to the capacity tier because their class had used its share.
    pub spilled_blocks: u64,
    /// Blocks whose class was to change and did not, because the other class had used its share.
    pub reclass_refused_blocks: u64,
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Bytes of map pages and roots written to the fast tier.
    pub map_bytes: u64,
    /// Bytes written to the capacity tier so that it can be opened alone.
    pub capacity_side_bytes: u64,
    /// Flushes sent to devices (each to all that needed it).
    pub flushes: u64,
    /// Failed flushes.
    pub flush_errors: u64,
    /// The last of these failures.
    pub last_flush_error: Option<String>,
    /// Failed flushes after which all that they covered was written again, and flushed.
    pub flushes_made_good: u64,
    /// Blocks and pages that were gone when that was done: reads of them fail. Also blocks that recovery could not write again.
    pub flush_lost_blocks: u64,
    /// Checkpoints made durable.
    pub checkpoints: u64,
    /// Checkpoints given up.
    pub checkpoint_errors: u64,
    /// Why the last of them was given up.
    pub last_checkpoint_error: Option<String>,
    /// Summaries that could not be written or read.
    pub summary_errors: u64,
    /// Trims that failed.
    pub trim_errors: u64,
    /// Destage or collection jobs that failed.
    pub migration_errors: u64,
    /// Latency of host requests.
    pub latency_ns: Latencies,
}

impl Counters {
    /// A block of a device was mended, or could not be.
    pub(crate) fn mended(&mut self, device: usize, is_good: bool) {
        let blocks = u64::from(is_good);
        self.mended_blocks += blocks;
        self.capacity_mended_blocks += if device > 0 { blocks } else { 0 };
    }
}

/// All statistics.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    pub classes: Vec<ClassStats>,
    pub counters: Counters,
    /// Requests answered, by disk.
    pub disks: BTreeMap<u16, RequestCounts>,
    /// Blocks of data that hosts have written, over the pool's life: its clock.
    written_blocks: u64,
    /// Valid bytes in bands, of all classes.
    stored_bytes: u64,
    /// Bytes that compression saved in writes to bands, over the pool's life.
    pub saved_bytes: u64,
    /// Blocks that hosts wrote to the fast tier since the start, and blocks that were destaged from there.
    staged_blocks: u64,
    destaged_blocks: u64,
}

impl Statistics {
    /// Goes on from what a root has.
    pub fn new(mut classes: Vec<ClassStats>, saved_bytes: u64, count: usize) -> Self {
        classes.resize(count.max(classes.len()), ClassStats::default());
        let written_blocks = classes.iter().map(|class| class.host_written_bytes / BLOCK).sum();
        let stored_bytes = classes.iter().map(|class| class.stored_bytes).sum();
        Self { classes, written_blocks, stored_bytes, saved_bytes, ..Self::default() }
    }

    /// Makes room for so many classes.
    pub fn resize(&mut self, count: usize) {
        if self.classes.len() < count {
            self.classes.resize(count, ClassStats::default());
        }
    }

    /// Statistics of a class.
    pub fn class(&mut self, class: ClassId) -> &mut ClassStats {
        self.resize(usize::from(class.0) + 1);
        &mut self.classes[usize::from(class.0)]
    }

    /// Blocks of data that hosts have written over the pool's life.
    pub fn written_blocks(&self) -> u64 {
        self.written_blocks
    }

    /// Blocks that went to the fast tier since the start, and blocks that were destaged.
    pub fn staged_and_destaged_blocks(&self) -> (u64, u64) {
        (self.staged_blocks, self.destaged_blocks)
    }

    /// Blocks on the fast tier, of all classes.
    pub fn fast_blocks(&self) -> u64 {
        self.classes.iter().map(|class| class.fast_blocks).sum()
    }

    /// Whether some of the blocks in bands are compressed.
    pub fn are_some_packed(&self) -> bool {
        self.classes.iter().any(|class| class.stored_bytes < class.capacity_blocks * BLOCK)
    }

    /// Device blocks of valid data in bands, of all classes.
    pub fn capacity_blocks(&self) -> u64 {
        self.stored_bytes.div_ceil(BLOCK)
    }

    /// Counts blocks that hosts wrote to a tier, and the grains that they take.
    pub fn count_written(&mut self, class: ClassId, is_fast: bool, (blocks, grains): (u64, u64)) {
        let bytes = blocks * BLOCK;
        self.saved_bytes += bytes.saturating_sub(grains * GRAIN);
        self.written_blocks += blocks;
        let statistics = self.class(class);
        statistics.host_written_bytes += bytes;
        statistics.bypassed_bytes += if is_fast { 0 } else { bytes };
    }

    /// Counts blocks that hosts wrote to the fast tier, to stay there for a time.
    pub fn count_staged(&mut self, blocks: u64) {
        self.staged_blocks += blocks;
    }

    /// Counts one of them that had to leave it.
    pub fn count_destaged(&mut self) {
        self.destaged_blocks += 1;
    }

    /// A block of so many grains came to a tier.
    pub fn block_came(&mut self, class: ClassId, grains: u8, is_fast: bool) {
        let statistics = self.class(class);
        if is_fast {
            statistics.fast_blocks += 1;
        } else {
            let bytes = u64::from(grains) * GRAIN;
            statistics.capacity_blocks += 1;
            statistics.stored_bytes += bytes;
            self.stored_bytes += bytes;
        }
    }

    /// A block of so many grains left a tier.
    pub fn block_left(&mut self, class: ClassId, grains: u8, is_fast: bool) {
        let statistics = self.class(class);
        if is_fast {
            statistics.fast_blocks = statistics.fast_blocks.saturating_sub(1);
        } else {
            let bytes = u64::from(grains) * GRAIN;
            statistics.capacity_blocks = statistics.capacity_blocks.saturating_sub(1);
            statistics.stored_bytes = statistics.stored_bytes.saturating_sub(bytes);
            self.stored_bytes = self.stored_bytes.saturating_sub(bytes);
        }
    }

    /// A block moved to its new entry; `is_destage`: from the fast tier.
    pub fn count_moved(&mut self, entry: Entry, is_destage: bool) {
        let Entry::Data { class, span } = entry else { return };
        self.saved_bytes += BLOCK.saturating_sub(u64::from(span.grains) * GRAIN);
        let statistics = self.class(class);
        if is_destage {
            statistics.destaged_bytes += BLOCK;
        } else {
            statistics.collected_bytes += BLOCK;
        }
    }

    /// A block changed its class where it lies.
    pub fn count_reclassed(&mut self, old: Entry, new: Entry, is_fast: bool) {
        let (Entry::Data { class: before, span }, Entry::Data { class: after, .. }) = (old, new) else { return };
        self.block_left(before, span.grains, is_fast);
        self.class(before).reclassed_out_bytes += BLOCK;
        self.block_came(after, span.grains, is_fast);
        self.class(after).reclassed_in_bytes += BLOCK;
    }
}
