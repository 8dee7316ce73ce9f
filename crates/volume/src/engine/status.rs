//! What the engine tells of itself.

use super::Engine;
use forebay_prism::ClassStats;

/// Buckets per power of two: a resolution of 1/16.
const SUB_BUCKETS: usize = 16;

/// Latencies in log-linear buckets (relative error at most 1/16).
#[derive(Clone)]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: vec![0; 64 * SUB_BUCKETS], total: 0 }
    }
}

impl std::fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} values, median {:?} ns", self.total, self.quantile_ns(0.5))
    }
}

impl LatencyHistogram {
    /// Counts one value in nanoseconds.
    pub fn record(&mut self, value_ns: u64) {
        let at = Self::bucket(value_ns);
        self.counts[at] += 1;
        self.total += 1;
    }

    fn bucket(value: u64) -> usize {
        if value < SUB_BUCKETS as u64 {
            return value as usize;
        }
        let power = 63 - value.leading_zeros() as usize;
        let sub = (value >> (power - 4)) as usize & (SUB_BUCKETS - 1);
        (power - 3) * SUB_BUCKETS + sub
    }

    fn lower_bound(bucket: usize) -> u64 {
        if bucket < SUB_BUCKETS {
            return bucket as u64;
        }
        let power = bucket / SUB_BUCKETS + 3;
        (1 << power) + ((bucket % SUB_BUCKETS) as u64) * (1 << (power - 4))
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Lower bound of the bucket in which the quantile lies, in nanoseconds; `None` where nothing was counted.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = ((quantile * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (i, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(Self::lower_bound(i));
            }
        }
        None
    }
}

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Leaves read because they were not resident.
    pub map_misses: u64,
    /// Leaves that did not match their parent's checksum.
    pub damaged_pages: u64,
    /// Host reads that met damaged data.
    pub damaged_reads: u64,
    /// Blocks found damaged when they were to be moved.
    pub damaged_moves: u64,
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
    /// Bytes of map pages and roots written.
    pub map_bytes: u64,
    /// Flushes sent to devices (each to all that needed it).
    pub flushes: u64,
    /// Failed flushes.
    pub flush_errors: u64,
    /// The last of them.
    pub last_flush_error: Option<String>,
    /// Checkpoints made durable.
    pub checkpoints: u64,
    /// Checkpoints given up.
    pub checkpoint_errors: u64,
    /// Why, the last time.
    pub last_checkpoint_error: Option<String>,
    /// Summaries that could not be written or read.
    pub summary_errors: u64,
    /// Trims that failed.
    pub trim_errors: u64,
    /// Destage or collection jobs that failed.
    pub mover_errors: u64,
    /// Latency of host requests.
    pub latency_ns: LatencyHistogram,
}

/// Fill of one tier, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierStatus {
    /// Space for data and map.
    pub total_bytes: u64,
    /// In use (on the capacity tier: in bands that are not free).
    pub used_bytes: u64,
    /// Named by the map.
    pub live_bytes: u64,
}

/// A snapshot of the engine's state.
#[derive(Clone, Debug)]
pub struct Status {
    /// Fast tier.
    pub fast: TierStatus,
    /// Capacity tier.
    pub capacity: TierStatus,
    /// Books by class id.
    pub classes: Vec<ClassStats>,
    /// Counts since the start.
    pub counters: Counters,
    /// Host requests under way.
    pub in_flight: usize,
    /// Leaves resident, and most that may be.
    pub leaves_resident: usize,
    /// See `leaves_resident`.
    pub leaves_limit: usize,
    /// Journal bytes that recovery would read, and the journal's length.
    pub journal_used_bytes: u64,
    /// See `journal_used_bytes`.
    pub journal_len_bytes: u64,
    /// Free bands and all bands.
    pub free_bands: usize,
    /// See `free_bands`.
    pub bands: usize,
    /// Number of the last durable checkpoint.
    pub checkpoint: u64,
    /// Epoch.
    pub epoch: u64,
    /// Why no writes are taken, where that is so.
    pub read_only: Option<String>,
    /// Whether a failed flush makes every flush fail until the restart.
    pub flush_failed: bool,
}

/// What an engine does at the moment: where a power cut would meet it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Staged data goes to bands.
    pub destage: bool,
    /// A band is collected.
    pub collection: bool,
    /// A checkpoint is written.
    pub checkpoint: bool,
    /// A map page is read.
    pub page_in: bool,
    /// A map page is written.
    pub page_out: bool,
    /// A device is flushed.
    pub flush: bool,
    /// A freed band is trimmed.
    pub trim: bool,
    /// Requests wait for space or for the journal.
    pub stalled: bool,
    /// Every leaf is yet to be looked at since a class changed its place.
    pub sweep: bool,
}

impl Engine {
    /// What is under way, by kind.
    #[must_use]
    pub fn activity(&self) -> Activity {
        use super::Pending;
        let (destage, collection) = self.moving();
        let mut found = Activity {
            destage,
            collection,
            checkpoint: self.checkpoint.is_active(),
            stalled: !self.waiting.is_empty(),
            sweep: !self.migrate_has_surveyed(),
            ..Activity::default()
        };
        for (_, pending) in &self.pending {
            match pending {
                Pending::PageIn { .. } => found.page_in = true,
                Pending::PageOut { .. } => found.page_out = true,
                Pending::Flush { .. } | Pending::MoveFlush { .. } => found.flush = true,
                Pending::Trim { .. } => found.trim = true,
                _ => {}
            }
        }
        found
    }

    /// What must be true at any time, as far as it can be told at once.
    ///
    /// # Errors
    /// What is not.
    pub fn audit(&self) -> Result<(), String> {
        let fast: u64 = self.stats.iter().map(|class| class.fast_blocks).sum();
        let capacity: u64 = self.stats.iter().map(|class| class.capacity_blocks).sum();
        let used = self.slots.total() - self.slots.free();
        let room = self.bands.count() as u64 * u64::from(self.bands.data_blocks());
        let limits = [
            (fast <= used, "blocks on the fast tier are more than slots in use", fast, used),
            (capacity <= room, "blocks on the capacity tier are more than bands hold", capacity, room),
            (
                self.bands.valid_sectors() <= 8 * room,
                "valid sectors are more than bands hold",
                self.bands.valid_sectors(),
                8 * room,
            ),
            (
                self.frames.resident() <= self.frames.limit(),
                "leaves resident are more than may be",
                self.frames.resident() as u64,
                self.frames.limit() as u64,
            ),
            (
                self.journal.used_bytes() <= self.journal.len_bytes(),
                "the journal holds more than its length",
                self.journal.used_bytes(),
                self.journal.len_bytes(),
            ),
        ];
        match limits.into_iter().find(|(is_true, ..)| !is_true) {
            Some((_, what, found, limit)) => Err(format!("{what}: {found} of {limit}")),
            None => self.audit_leaf(),
        }
    }

    /// What the index says of one leaf in memory, another at another time: all of them would take too long.
    fn audit_leaf(&self) -> Result<(), String> {
        let made = self.frames.made().max(1) as u64;
        let at = (self.now_ns / 1000 % made) as u32;
        // Where classes have changed their places, counts are made anew when migration comes by.
        if self.frames.made() == 0 || !self.migrate_has_surveyed() {
            return Ok(());
        }
        let frame = self.frames.get(at);
        let Some(disk) = self.disks.get(&frame.disk.0).filter(|_| frame.occupied && !frame.loading) else {
            return Ok(());
        };
        let (reference, resident) = disk.leaf(frame.leaf);
        let counted = self.count_stageable(at);
        if resident == at && reference.stageable != counted {
            return Err(format!(
                "{} blocks of leaf {} of disk {} may be destaged, and its index says {}",
                counted, frame.leaf, frame.disk.0, reference.stageable
            ));
        }
        Ok(())
    }

    /// What is under way, in words, for reports of requests that do not end.
    #[must_use]
    pub fn describe(&self) -> String {
        let pieces: Vec<String> = self
            .pieces
            .iter()
            .map(|(id, p)| {
                format!(
                    "piece {id}: block {}+{} wants {:?} locked {} outstanding {} data {} batches {:?}",
                    p.block(),
                    p.blocks,
                    p.wants,
                    p.locked,
                    p.outstanding,
                    p.data_outstanding,
                    p.batches
                )
            })
            .collect();
        format!(
            "ranges {:?}\npending {:?}\nwaiting {:?} frame waiters {:?} freed {:?} executing {} {}\n{}",
            self.ranges,
            self.pending.iter().map(|(_, p)| p).collect::<Vec<_>>(),
            self.waiting,
            self.frame_waiters,
            self.freed.len(),
            self.executing,
            self.checkpoint_describe(),
            pieces.join("\n")
        )
    }

    /// A snapshot.
    #[must_use]
    pub fn status(&self) -> Status {
        let band_bytes = u64::from(self.bands.data_blocks()) * 4096;
        let free_bands = self.bands.free_count();
        let used_bands = (self.bands.count() - free_bands) as u64;
        let fast_live: u64 = self.stats.iter().map(|class| class.fast_blocks).sum();
        Status {
            fast: TierStatus {
                total_bytes: self.slots.total() * 4096,
                used_bytes: (self.slots.total() - self.slots.free()) * 4096,
                live_bytes: fast_live * 4096,
            },
            capacity: TierStatus {
                total_bytes: self.bands.count() as u64 * band_bytes,
                used_bytes: used_bands * band_bytes,
                live_bytes: self.bands.valid_sectors() * 512,
            },
            classes: self.stats.clone(),
            counters: self.counters.clone(),
            in_flight: self.requests_in_flight(),
            leaves_resident: self.frames.resident(),
            leaves_limit: self.frames.limit(),
            journal_used_bytes: self.journal.used_bytes(),
            journal_len_bytes: self.journal.len_bytes(),
            free_bands,
            bands: self.bands.count(),
            checkpoint: self.checkpoint_number(),
            epoch: self.journal.epoch(),
            read_only: self.read_only.clone(),
            flush_failed: self.flush.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_precise() {
        let mut last = 0;
        for value in (0..2000).chain([1 << 20, (1 << 40) + 12345, u64::MAX]) {
            let bucket = LatencyHistogram::bucket(value);
            assert!(bucket >= last && bucket < 64 * SUB_BUCKETS);
            last = bucket;
            let low = LatencyHistogram::lower_bound(bucket);
            assert!(low <= value && value - low <= value / 16, "{value} in bucket from {low}");
        }
    }
}
