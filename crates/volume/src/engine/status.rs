//! What the engine reports of itself.

use super::Engine;
use super::checkpoint::Checkpoint;
use super::copies::ReadCacheStatus;
use super::leaves::may_destage;
use super::map::Map;
use super::migrate::Migrate;
use super::outbox::{Outbox, Pending};
use super::requests::Requests;
use super::scrub::Scrub;
use super::space::Space;
use super::statistics::{Counters, Statistics};
use crate::journal::Journal;
use crate::layout::page::{BLOCK_GRAINS, GRAIN_BYTES};
use crate::layout::root::BandRoot;
use forebay_prism::{ClassStats, Prism};

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
    /// Statistics by class id.
    pub classes: Vec<ClassStats>,
    /// Counts since the start.
    pub counters: Counters,
    /// Copies of the capacity tier's blocks on the fast tier.
    pub read_cache: ReadCacheStatus,
    /// Host requests in flight.
    pub in_flight: usize,
    /// Leaves in memory, and the most that there may be.
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
    /// The newest checkpoint that is on the capacity tier, too, as far as that is known.
    pub capacity_checkpoint: Option<u64>,
    /// Why the last attempt at writing one there failed, and what that means.
    pub capacity_checkpoint_error: Option<String>,
    /// Epoch.
    pub epoch: u64,
    /// Why no writes are taken, where that is so.
    pub read_only: Option<String>,
    /// Whether a flush failed: later ones fail until what it covered is written again.
    pub flush_failed: bool,
}

/// What an engine does at the moment: where a power cut would hit it.
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
    /// Leaves are still to be surveyed since a class changed its place.
    pub sweep: bool,
    /// What a failed flush covered is written again.
    pub rewrite: bool,
    /// A scrub reads, or compares parity.
    pub scrub: bool,
}

/// The rooms, for reading.
pub(super) struct Look<'a> {
    pub map: &'a Map,
    pub space: &'a Space,
    pub journal: &'a Journal,
    pub stats: &'a Statistics,
    pub prism: &'a Prism,
    pub checkpoint: &'a Checkpoint,
    pub migrate: &'a Migrate,
    pub requests: &'a Requests,
    pub outbox: &'a Outbox,
    pub scrub: &'a Scrub,
    pub refusal: Option<&'a str>,
    pub flush_failed: bool,
    pub now_ns: u64,
}

impl Look<'_> {
    /// What is in progress, by kind.
    pub fn activity(&self) -> Activity {
        let (destage, collection) = self.migrate.in_progress();
        let mut found = Activity {
            destage,
            collection,
            checkpoint: self.checkpoint.is_active(),
            stalled: !self.requests.waiting.is_empty(),
            sweep: !self.migrate.has_surveyed(),
            scrub: self.scrub.is_reading(),
            ..Activity::default()
        };
        for pending in self.outbox.in_flight() {
            match pending {
                Pending::PageIn { .. } => found.page_in = true,
                Pending::PageOut { .. } => found.page_out = true,
                Pending::Flush { .. } | Pending::MoveFlush { .. } => found.flush = true,
                Pending::Trim { .. } => found.trim = true,
                Pending::RewriteRead { .. } | Pending::Rewrite { .. } => found.rewrite = true,
                _ => {}
            }
        }
        found
    }

    /// Checks what must be true at any time, as far as it can be seen at once.
    ///
    /// # Errors
    /// What is not true.
    pub fn audit(&self) -> Result<(), String> {
        let fast = self.stats.fast_blocks();
        let capacity = self.stats.capacity_blocks();
        let used = self.space.slots_used();
        let room = self.space.bands.count() as u64 * u64::from(self.space.bands.data_blocks());
        let limits = [
            (fast <= used, "blocks on the fast tier are more than slots in use", fast, used),
            (capacity <= room, "blocks on the capacity tier are more than bands hold", capacity, room),
            (
                self.space.bands.valid_grains() <= BLOCK_GRAINS * room,
                "valid grains are more than bands hold",
                self.space.bands.valid_grains(),
                BLOCK_GRAINS * room,
            ),
            (
                self.map.frames.resident() <= self.map.frames.limit(),
                "leaves resident are more than may be",
                self.map.frames.resident() as u64,
                self.map.frames.limit() as u64,
            ),
            (
                self.migrate.leaves_named() <= self.checkpoint.named(),
                "leaves named by jobs are more than those that count for recovery",
                self.migrate.leaves_named() as u64,
                self.checkpoint.named() as u64,
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

    /// Checks what the index says of one leaf in memory, each time another one: all of them would take too long.
    fn audit_leaf(&self) -> Result<(), String> {
        let made = self.map.frames.made().max(1) as u64;
        let at = (self.now_ns / 1000 % made) as u32;
        // Where classes have changed their places, counts are corrected when migration comes by.
        if self.map.frames.made() == 0 || !self.migrate.has_surveyed() {
            return Ok(());
        }
        let frame = self.map.frames.get(at);
        let Some(disk) = self.map.disks.get(&frame.disk.0).filter(|_| frame.occupied && !frame.loading) else {
            return Ok(());
        };
        let (reference, resident) = disk.leaf(frame.leaf);
        let counted = self.map.count_stageable(at, |class| may_destage(self.prism, self.space, class));
        if resident == at && reference.stageable != counted {
            return Err(format!(
                "{} blocks of leaf {} of disk {} may be destaged, and its index says {}",
                counted, frame.leaf, frame.disk.0, reference.stageable
            ));
        }
        // A leaf of which a job has taken all blocks comes back to the queue when the job ends.
        let is_lost =
            counted > 0 && !self.migrate.in_progress().0 && !self.migrate.ages.contains(frame.disk, frame.leaf);
        if resident == at && is_lost {
            return Err(format!(
                "{counted} blocks of leaf {} of disk {} may be destaged, and it is in no queue",
                frame.leaf, frame.disk.0
            ));
        }
        Ok(())
    }

    /// What is in progress, in words, for reports of requests that do not end.
    pub fn describe(&self) -> String {
        let pieces: Vec<String> = self
            .requests
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
            "ranges {:?}\npending {:?}\nwaiting {:?} frame waiters {:?} freed {:?} {:?} executing {} {}\n{}",
            self.requests.ranges,
            self.outbox.in_flight().collect::<Vec<_>>(),
            self.requests.waiting,
            self.map.frame_waiters,
            self.space.freed.len(),
            self.space.pace,
            self.requests.executing,
            self.checkpoint.describe(),
            pieces.join("\n")
        )
    }

    /// A snapshot.
    pub fn status(&self) -> Status {
        let band_bytes = u64::from(self.space.bands.data_blocks()) * 4096;
        let free_bands = self.space.bands.free_count();
        let used_bands = (self.space.bands.count() - free_bands) as u64;
        Status {
            fast: TierStatus {
                total_bytes: self.space.slots.total() * 4096,
                used_bytes: self.space.slots_used() * 4096,
                live_bytes: self.stats.fast_blocks() * 4096,
            },
            capacity: TierStatus {
                total_bytes: self.space.bands.count() as u64 * band_bytes,
                used_bytes: used_bands * band_bytes,
                live_bytes: self.space.bands.valid_grains() * GRAIN_BYTES as u64,
            },
            classes: self.stats.classes.clone(),
            counters: Counters {
                map_bytes: self.checkpoint.pages.written_bytes(),
                capacity_side_bytes: self.checkpoint.capacity.written_bytes(),
                ..self.stats.counters.clone()
            },
            read_cache: ReadCacheStatus::default(),
            in_flight: self.requests.clients.len(),
            leaves_resident: self.map.frames.resident(),
            leaves_limit: self.map.frames.limit(),
            journal_used_bytes: self.journal.used_bytes(),
            journal_len_bytes: self.journal.len_bytes(),
            free_bands,
            bands: self.space.bands.count(),
            checkpoint: self.checkpoint.roots.number(),
            capacity_checkpoint: self.checkpoint.capacity.newest(),
            capacity_checkpoint_error: self.checkpoint.capacity.describe_error(),
            epoch: self.journal.epoch(),
            read_only: self.refusal.map(str::to_owned),
            flush_failed: self.flush_failed,
        }
    }
}

impl Engine {
    /// The rooms as they are now.
    fn look(&self) -> Look<'_> {
        let Self { map, space, journal, stats, prism, checkpoint, migrate, requests, outbox, scrub, .. } = self;
        let (flush_failed, now_ns) = (self.flushes.has_failed(), self.clock.now_ns());
        let refusal = self.refusal();
        Look {
            map,
            space,
            journal,
            stats,
            prism,
            checkpoint,
            migrate,
            requests,
            outbox,
            scrub,
            refusal,
            flush_failed,
            now_ns,
        }
    }

    /// What is in progress, by kind.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.look().activity()
    }

    /// Checks what must be true at any time, as far as it can be seen at once.
    ///
    /// # Errors
    /// What is not true.
    pub fn audit(&self) -> Result<(), String> {
        self.look().audit()
    }

    /// All bands, by number.
    #[must_use]
    pub fn bands(&self) -> &[BandRoot] {
        self.space.bands.table()
    }

    /// What is in progress, in words, for reports of requests that do not end.
    #[must_use]
    pub fn describe(&self) -> String {
        self.look().describe()
    }

    /// A snapshot.
    #[must_use]
    pub fn status(&self) -> Status {
        Status { read_cache: self.copies.status(), ..self.look().status() }
    }
}
