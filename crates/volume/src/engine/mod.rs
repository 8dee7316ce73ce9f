//! The engine: a single-threaded state machine between host requests and device requests.
//!
//! `submit` takes a host request, `complete` a device completion, `pump` lets background work go on; what it wants
//! from devices comes out of `next_command`, what it has for hosts out of `next_completion`. Nothing here calls the
//! operating system.

mod admin;
mod admin_error;
mod admission;
mod adoption;
mod append;
mod base;
mod batches;
mod checkpoint;
mod clock;
mod construct;
mod copies;
mod durability;
mod flush;
mod freed;
mod latency;
mod leaves;
mod leisure;
mod lifetimes;
mod limits;
mod losses;
mod map;
mod marks;
mod mend_groups;
mod migrate;
mod options;
mod outbox;
mod pace;
mod packing;
mod place;
mod read_cache;
mod release;
mod requests;
mod rewrite;
mod scrub;
mod scrub_pages;
mod served;
mod setup;
mod share_out;
mod space;
mod statistics;
mod status;
mod staying;
mod summaries;
mod transient_leaf;
mod watermark;

pub use admin_error::{AdminError, DISK_NAME_MAX};
pub use adoption::AdoptionStatus;
pub(crate) use batches::BATCH_ATTEMPTS_MAX;
pub(crate) use checkpoint::header_offsets;
pub use construct::{Parts, memory_needed_bytes};
pub use copies::ReadCacheStatus;
pub use forebay_placement::grouping::Kind as GroupingKind;
pub(crate) use freed::{Freed, FreedQueue};
pub use latency::LatencyHistogram;
pub(crate) use leaves::Leaves;
pub use lifetimes::{GroupCounts, LifetimeGroup};
pub(crate) use map::Map;
pub use options::{EngineOptions, Faults};
pub(crate) use outbox::Pending;
pub(crate) use rewrite::Lost;
pub use scrub::{Found, ScrubStatus};
pub use served::{Latencies, RequestCounts, RequestKind};
pub(crate) use setup::Setup;
pub use statistics::Counters;
pub use status::{Activity, Status, TierStatus};
pub use staying::TierWear;

use crate::journal::Journal;
use crate::map::index::Disk;
use crate::readings::{good, single};
use crate::request::Completion;
use adoption::Adoption;
use base::Bases;
use checkpoint::{Checkpoint, Checkpointing};
use clock::Clock;
use flush::Flushes;
use forebay_block::{Buf, Completion as DeviceCompletion, DiskId, IoError, Request as DeviceRequest};
use forebay_prism::Prism;
use map::{Leaf, Loaded};
use migrate::job_of_waiter;
use outbox::{InFlight, LeafRead, Outbox};
use packing::Packing;
use place::Bypass;
use requests::Requests;
use rewrite::Rewriter;
use scrub::Scrub;
use space::Space;
use statistics::Statistics;
use staying::Staying;
use std::sync::Arc;
use summaries::Summaries;
use watermark::WatermarkWriter;

/// The engine. See the module's documentation.
pub struct Engine {
    pub(crate) setup: Arc<Setup>,
    pub(crate) outbox: Outbox,
    clock: Clock,
    pub(crate) stats: Statistics,
    pub(crate) prism: Prism,
    pub(crate) map: Map,
    pub(crate) space: Space,
    pub(crate) journal: Journal,
    flushes: Flushes,
    rewriter: Rewriter,
    pub(crate) watermark: WatermarkWriter,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) migrate: migrate::Migrate,
    requests: Requests,
    copies: copies::Copies,
    summaries: Summaries,
    bypass: Bypass,
    staying: Staying,
    scrub: Scrub,
    bases: Bases,
    adoption: Adoption,
    packing: Packing,
    /// Why no writes are taken any more, where that is so.
    pub(crate) read_only: Option<String>,
}

impl Engine {
    /// The next device request: (device index, request).
    pub fn next_command(&mut self) -> Option<(usize, DeviceRequest)> {
        self.outbox.next()
    }

    /// The next finished host request.
    pub fn next_completion(&mut self) -> Option<Completion> {
        self.requests.completions.pop_front()
    }

    /// Advances the engine's clock (nanoseconds of any origin) and lets lazy work start. Where the given clock steps
    /// back no time passes, and time goes on from there: nothing waits for it to catch up.
    pub fn tick(&mut self, now_ns: u64) {
        self.time_passes(now_ns);
        if self.refusal().is_none() {
            self.watermark.write(&self.journal, &mut self.outbox, self.clock.now_ns());
        }
        self.migrate_tick();
        self.share_out_fast_tier();
        self.look_at_copies();
        self.scrub.leisure.go_on();
        self.scrub_step();
        self.adoption.leisure.go_on();
        self.look_at_bases();
        self.adopt_step();
    }

    /// Does all that has become possible: to be called after a batch of `submit` and `complete`.
    pub fn pump(&mut self) {
        self.release_durable();
        self.retry_frame_waiters();
        self.look_at_pace();
        self.retry_waiting();
        // Where a checkpoint begins, ends or is given up, the map may need other slots, and the next checkpoint may be due.
        let mut was_active = self.checkpoint.is_active();
        loop {
            self.checkpointing().step();
            if self.checkpoint.is_active() == was_active {
                break;
            }
            was_active = !was_active;
            self.reserve_for_map();
        }
        self.migrate_step();
        if batches::may_seal(&self.outbox) {
            self.seal_batch(false);
        }
        self.flush_step();
        // Last, as others wait for all of the above.
        self.staying.plan_on();
    }

    /// Sets the time of day, in seconds since 1970. It is kept with what people are shown; nothing is decided by it.
    pub fn set_unix_time(&mut self, unix_s: u64) {
        self.clock.set_unix(unix_s);
    }

    /// Host requests not yet answered.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.requests.clients.len()
    }

    /// Whether device requests, host requests or a checkpoint are in progress.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.outbox.is_empty() || !self.requests.clients.is_empty() || self.checkpoint.is_active()
    }

    /// Whether a computation is in progress that no device request ends: it goes on with the next [`Engine::pump`].
    #[must_use]
    pub fn computes(&self) -> bool {
        self.migrate.computes() && !self.rewriter.is_active()
    }

    /// Why no writes are taken now, for good or until a failed flush is made good; `None` where they are taken.
    #[must_use]
    pub fn read_only_reason(&self) -> Option<&str> {
        self.refusal()
    }

    /// Why no writes are taken for good; `None` where they are taken, or a failed flush is being made good.
    #[must_use]
    pub fn lasting_read_only_reason(&self) -> Option<&str> {
        self.read_only.as_deref()
    }

    /// Why no change is taken now: writes are refused for good, or a failed flush is being made good.
    fn refusal(&self) -> Option<&str> {
        self.read_only.as_deref().or_else(|| self.flushes.failure())
    }

    /// Takes no more writes, for `reason`; an earlier reason stays.
    pub fn set_read_only(&mut self, reason: &str) {
        self.read_only.get_or_insert_with(|| reason.to_owned());
    }

    /// A disk by name.
    #[must_use]
    pub fn disk_named(&self, name: &str) -> Option<&Disk> {
        self.map.disks.values().find(|disk| disk.name == name)
    }

    /// All disks.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.map.disks.values()
    }

    /// The classifier and its class table.
    #[must_use]
    pub fn prism(&self) -> &Prism {
        &self.prism
    }

    /// Handles the end of a device request.
    pub fn complete(&mut self, device: usize, completion: DeviceCompletion) {
        let Some(InFlight { pending, is_durable, .. }) = self.outbox.ended(device, completion.tag) else {
            return;
        };
        let DeviceCompletion { result, bufs, .. } = completion;
        if is_durable {
            self.durable_write_ended(device, &result);
        }
        match pending {
            Pending::Read { piece, part } => self.read_done(piece, part, device, result, bufs),
            Pending::Ahead { key } => self.ahead_done(key, result, bufs),
            Pending::Copy { disk, block, slots } => {
                self.copies.written((disk, block), slots, &result, &mut self.space.slots)
            }
            Pending::WarmList => self.list_written(result.is_ok()),
            Pending::Merge { piece } => self.merge_read_done(piece, device, result, bufs),
            Pending::Write { piece, device, groups } => {
                self.summaries.written(&groups, result.is_ok(), &mut self.space.bands, &mut self.outbox);
                self.data_written(piece, device, result);
            }
            Pending::Batch { sealed, attempts } => self.batch_written(sealed, attempts, result),
            Pending::PageIn { frame, which } => self.page_in_done(frame, which, (result, single(bufs))),
            Pending::PageOut { frame, location } => {
                self.checkpoint.pages.leaf_written(frame, location, result, &mut self.map)
            }
            Pending::IndexOut | Pending::RootOut => self.checkpoint.pages.ended(0, result),
            Pending::TierPageIn { key, slot, attempt } => {
                let bytes = good(result, bufs);
                self.checkpoint.tier_page_read((key, slot, attempt), bytes, &mut self.outbox);
            }
            Pending::TierPageOut { key, slot, crc } => self.checkpoint.tier_page_written((key, slot, crc), result),
            Pending::CapacityOut => {
                let Checkpoint { pages, capacity, .. } = &mut self.checkpoint;
                capacity.ended(result, pages);
            }
            Pending::CapacityBeside => self.checkpoint.capacity.ended(Ok(()), &mut self.checkpoint.pages),
            Pending::Flush { device } => self.device_flushed(device, result),
            Pending::MoveFlush { number } => self.destination_flushed(number, device, result),
            Pending::MoveRead { job, candidates } => self.sources_read(job, &candidates, result, bufs),
            Pending::MoveReadAgain { job, which } => self.source_read_again(job, which, result, bufs),
            Pending::MoveWrite { job, groups } => {
                self.summaries.written(&groups, result.is_ok(), &mut self.space.bands, &mut self.outbox);
                self.destination_written(job, result);
            }
            Pending::MoveSummary { job, which } => self.summary_read(job, which, result, bufs),
            Pending::Summary { device, key } => self.checkpointing().summary_written(device, key, &result),
            Pending::Trim { band } => {
                // A failed trim costs the drive some spare area, nothing else.
                if result.is_err() {
                    self.stats.counters.trim_errors += 1;
                }
                self.summaries.trimmed(band, &mut self.space.bands);
            }
            Pending::Watermark => self.watermark.ended(result.is_ok()),
            Pending::RewriteRead { item } => {
                self.rewriter.read_done(item, result.map(|()| single(bufs)), &self.map, &mut self.outbox);
            }
            Pending::Rewrite { blocks } => self.rewriter.written(blocks, &result),
            Pending::Mend => self.stats.counters.mended(device, result.is_ok()),
            Pending::ScrubPage(page) => self.scrub_page_read(page, (result, bufs)),
            Pending::Compare { band, generation } => self.compared(band, generation, result),
            Pending::MendGroup(mend) => {
                let bytes = good(result, bufs);
                mend_groups::read(mend, bytes, &self.setup, &self.space.bands, &mut self.outbox);
            }
        }
        self.scrub_step();
        self.adopt_step();
    }

    /// The rooms that a change of a leaf concerns.
    pub(crate) fn leaves(&mut self) -> Leaves<'_> {
        self.leaves_and_requests().0
    }

    /// The same, together with the requests whose changes they are.
    fn leaves_and_requests(&mut self) -> (Leaves<'_>, &mut Requests) {
        let Self { setup, map, space, stats, prism, copies, checkpoint, migrate, outbox, journal, requests, .. } = self;
        let (ages, together, last_recorded) = (&mut migrate.ages, &mut migrate.together, journal.last_recorded());
        let leaves =
            Leaves { setup, map, space, stats, prism, copies, checkpoint, ages, together, outbox, last_recorded };
        (leaves, requests)
    }

    /// Asks for a leaf on behalf of a piece (or a job). With `create`, a hole becomes an empty resident leaf.
    pub(crate) fn require_leaf(&mut self, disk: DiskId, leaf: u64, asker: u32, create: bool) -> Leaf {
        self.map.require(disk, leaf, asker, create, &mut self.outbox, &mut self.stats.counters)
    }

    /// The read of a leaf ended: pieces and jobs that asked for it go on.
    fn page_in_done(&mut self, frame: u32, which: LeafRead, read: (Result<(), IoError>, Option<Buf>)) {
        let rooms = (&mut self.outbox, &mut self.stats.counters);
        let Some(Loaded { disk, leaf, frame, askers }) =
            self.map.loaded(frame, which, read, rooms, self.clock.now_ns())
        else {
            return;
        };
        let frame = frame.map_err(|source| self.setup.device_error(0, source));
        if let Ok(frame) = frame {
            self.leaves().arrived(disk, leaf, frame);
        }
        for asker in askers {
            match (&frame, job_of_waiter(asker)) {
                (Ok(_), None) => self.resume(asker),
                (Ok(_), Some(job)) => self.resume_job(job),
                (Err(_), Some(job)) => self.job_leaf_failed(job, disk, leaf),
                (Err(_), None) if self.sweeps_without_leaf(asker, disk, leaf) => {}
                (Err(error), None) => self.fail_piece(asker, error.clone()),
            }
        }
    }

    /// Resumes pieces and jobs that found no frame.
    fn retry_frame_waiters(&mut self) {
        for _ in 0..self.map.frame_waiters.len() {
            let Some(waiter) = self.map.frame_waiters.pop_front() else { return };
            let before = self.map.frame_waiters.len();
            match job_of_waiter(waiter) {
                Some(job) => self.resume_job(job),
                None => self.resume(waiter),
            }
            if self.map.waits_again(before) {
                return;
            }
        }
    }

    /// The checkpoint, with the rooms whose state it fixes.
    fn checkpointing(&mut self) -> Checkpointing<'_> {
        Checkpointing {
            setup: &self.setup,
            checkpoint: &mut self.checkpoint,
            map: &mut self.map,
            space: &mut self.space,
            journal: &mut self.journal,
            flushes: &mut self.flushes,
            summaries: &mut self.summaries,
            stats: &mut self.stats,
            outbox: &mut self.outbox,
            requests: &self.requests,
            migrate: &mut self.migrate,
            copies: &self.copies,
            prism: &self.prism,
            staying: &mut self.staying,
            scrub: &self.scrub,
            read_only: &mut self.read_only,
            now_ns: self.clock.now_ns(),
        }
    }

    /// Seals the open batch and sends it.
    pub(crate) fn seal_batch(&mut self, force: bool) {
        batches::seal(force, &mut self.journal, &mut self.stats.counters, &mut self.outbox);
    }
}
