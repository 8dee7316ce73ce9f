//! The engine: a single-threaded state machine between host requests and device requests.
//!
//! `submit` takes a host request, `complete` a device completion, `pump` lets background work go on; what it wants
//! from devices comes out of `next_command`, what it has for hosts out of `next_completion`. Nothing here calls the
//! operating system.

mod admin;
mod admission;
mod append;
mod apply;
mod batches;
mod checkpoint;
mod clock;
mod construct;
mod copies;
mod durability;
mod flush;
mod freed;
mod latency;
mod limits;
mod map;
mod migrate;
mod options;
mod outbox;
mod paging;
mod place;
mod requests;
mod rewrite;
mod setup;
mod space;
mod statistics;
mod status;
mod summaries;
mod watermark;

pub use admin::{AdminError, DISK_NAME_MAX};
pub(crate) use checkpoint::header_offsets;
pub use construct::{Parts, memory_needed_bytes};
pub(crate) use freed::{Freed, FreedQueue};
pub use options::{EngineOptions, Faults};
pub(crate) use outbox::Pending;
pub use statistics::Counters;
pub use status::{Activity, Status, TierStatus};

use crate::journal::Journal;
use crate::layout::capacity_root::DEVICE;
use crate::map::index::Disk;
use crate::request::Completion;
use checkpoint::Checkpoint;
use clock::Clock;
use flush::Flushes;
use forebay_block::{Buf, Completion as DeviceCompletion, Request as DeviceRequest, Vectored};
use forebay_prism::Prism;
use map::Map;
use outbox::Outbox;
use place::Bypass;
use requests::Requests;
use rewrite::Rewriter;
use setup::Setup;
use space::Space;
use statistics::Statistics;
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
    /// Why no writes are taken any more.
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

    /// Advances the engine's clock (nanoseconds of any origin) and lets lazy work start. Where the clock that is
    /// given here steps back no time passes, and from there on it counts again: nothing waits for it to catch up.
    pub fn tick(&mut self, now_ns: u64) {
        self.clock.tick(now_ns);
        if self.refusal().is_none() {
            self.watermark.write(&self.journal, &mut self.outbox, self.clock.now_ns());
        }
        self.migrate_tick();
    }

    /// Lets everything that became possible happen: to be called after a round of `submit` and `complete`.
    pub fn pump(&mut self) {
        self.release_durable();
        self.retry_frame_waiters();
        self.retry_waiting();
        self.checkpoint_step();
        self.migrate_step();
        self.seal_when_due();
        self.flush_step();
    }

    /// Host requests not yet answered.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.requests.clients.len()
    }

    /// Whether device requests or background jobs are in progress.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.outbox.is_empty() || !self.requests.clients.is_empty() || self.checkpoint.is_active()
    }

    /// Why no writes are taken any more, where that is so.
    #[must_use]
    pub fn read_only_reason(&self) -> Option<&str> {
        self.refusal()
    }

    /// Why no change is taken now: none is any more, or a failed flush is being made good.
    fn refusal(&self) -> Option<&str> {
        self.read_only.as_deref().or_else(|| self.flushes.failure())
    }

    /// Takes no more writes, for `reason`.
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

    /// Takes the end of a device request.
    pub fn complete(&mut self, device: usize, completion: DeviceCompletion) {
        let Some(pending) = self.outbox.ended(device, completion.tag) else { return };
        let DeviceCompletion { result, bufs, .. } = completion;
        match pending {
            Pending::Read { piece, part } => self.read_done(piece, part, device, result, bufs),
            Pending::Copy { disk, block, slot } => {
                self.copies.written(disk, block, slot, &result, &mut self.space.slots);
            }
            Pending::Merge { piece } => self.merge_read_done(piece, device, result, bufs),
            Pending::Write { piece, device, groups } => {
                self.summaries.written(&groups, result.is_ok(), &mut self.space.bands, &mut self.outbox);
                self.data_written(piece, device, result);
            }
            Pending::Batch { sealed, attempts } => self.batch_written(sealed, attempts, result),
            Pending::PageIn { frame, reference, again } => {
                self.page_in_done(frame, (reference, again), result, Self::single(bufs));
            }
            Pending::PageOut { frame, location } => {
                self.checkpoint.pages.leaf_written(frame, location, result, &mut self.map)
            }
            Pending::IndexOut | Pending::RootOut => self.checkpoint.pages.ended(0, result),
            Pending::TierPageIn { key, slot, is_again } => {
                let Checkpoint { pages, capacity, .. } = &mut self.checkpoint;
                let bytes = result.ok().and_then(|()| Self::single(bufs));
                capacity.page_read((key, slot, is_again), bytes, pages, &mut self.outbox);
            }
            Pending::TierPageOut { key, slot, crc } => {
                let Checkpoint { pages, capacity, .. } = &mut self.checkpoint;
                capacity.page_written((key, slot, crc), result, pages);
            }
            Pending::CapacityOut => self.checkpoint.pages.ended(DEVICE, result),
            Pending::Flush { device } => self.device_flushed(device, result),
            Pending::MoveFlush { job, number } => self.destination_flushed(job, number, device, result),
            Pending::MoveRead { job, candidates } => self.sources_read(job, &candidates, result, bufs),
            Pending::MoveReadAgain { job, candidate } => self.source_read_again(job, candidate, result, bufs),
            Pending::MoveWrite { job, groups } => {
                self.summaries.written(&groups, result.is_ok(), &mut self.space.bands, &mut self.outbox);
                self.destination_written(job, result);
            }
            Pending::MoveSummary { job, group } => self.summary_read(job, group, result, bufs),
            Pending::Summary { device, key } => self.summary_written(device, key, &result),
            Pending::Trim { band } => {
                // A failed trim costs the drive some spare area, nothing else.
                if result.is_err() {
                    self.stats.counters.trim_errors += 1;
                }
                self.space.bands.release(band);
            }
            Pending::Watermark => self.watermark.ended(result.is_ok()),
            Pending::RewriteRead { item } => {
                self.rewriter.read_done(item, result.ok().and_then(|()| Self::single(bufs)), &mut self.outbox);
            }
            Pending::Rewrite => self.rewriter.written(&result),
        }
    }

    /// The single buffer of a read completion.
    pub(crate) fn single(bufs: Option<Vectored<Buf>>) -> Option<Buf> {
        match bufs {
            Some(Vectored::One(buf)) => Some(buf),
            _ => None,
        }
    }
}
