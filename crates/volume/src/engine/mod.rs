//! The engine: a single-threaded state machine between host requests and device requests.
//!
//! `submit` takes a host request, `complete` a device completion, `pump` lets background work go on; what it wants
//! from devices comes out of `next_command`, what it has for hosts out of `next_completion`. Nothing here calls the
//! operating system.

mod admin;
mod apply;
mod checkpoint;
mod clients;
mod construct;
mod copies;
mod discard;
mod flush;
mod freed;
mod migrate;
mod options;
mod paging;
mod place;
mod ranges;
mod read;
mod reclass;
mod status;
mod streams;
mod summaries;
mod write;

pub use admin::{AdminError, DISK_NAME_MAX};
pub(crate) use checkpoint::header_offsets;
pub use construct::{Parts, memory_needed_bytes};
pub(crate) use freed::{Freed, FreedQueue};
pub use options::{EngineOptions, Faults};
pub use status::{Activity, Counters, Status, TierStatus};

use crate::journal::{Journal, Sealed};
use crate::layout::page::PageRef;
use crate::layout::superblock::Superblock;
use crate::map::frames::Frames;
use crate::map::index::Disk;
use crate::request::{Completion, RequestError};
use crate::space::bands::Bands;
use crate::space::extents::Extents;
use crate::space::slots::Slots;
use forebay_block::{Buf, Completion as DeviceCompletion, DiskId, IoError, Op, Request as DeviceRequest, Vectored};
use forebay_prism::{ClassStats, Prism, Run};
use ranges::Ranges;
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};

/// Most time that those who wait count between two ticks, whatever the clock says: a process that was stopped, or a clock
/// that was set, must not look like devices that have done nothing for so long.
const PATIENCE_STEP_NS: u64 = 1_000_000_000;

/// What a device request was for.
#[derive(Debug)]
pub(crate) enum Pending {
    /// Data of a read piece.
    Read { piece: u32, part: u16 },
    /// The fast copy of a block.
    Copy { disk: DiskId, block: u64, slot: u64 },
    /// Old content of a block that is partly overwritten.
    Merge { piece: u32 },
    /// Data of a write piece on a device.
    Write { piece: u32, device: usize, groups: summaries::Groups },
    /// A journal batch, for another attempt.
    Batch { sealed: Sealed, attempts: u8 },
    /// A leaf being read into a frame; `again`: the first time it was not what its parent names.
    PageIn { frame: u32, reference: PageRef, again: bool },
    /// A leaf being written.
    PageOut { frame: u32, location: u64 },
    /// An index page being written.
    IndexOut,
    /// The root blob or a root header.
    RootOut,
    /// A device flush of the flush under way.
    Flush { device: usize },
    /// A device flush that a job needs, by its number.
    MoveFlush { job: u32, number: u64 },
    /// Source blocks of a job, by their number in its list.
    MoveRead { job: u32, candidates: Vec<u32> },
    /// One source block that was not what it should be at the first reading.
    MoveReadAgain { job: u32, candidate: u32 },
    /// Destination blocks of a job.
    MoveWrite { job: u32, groups: summaries::Groups },
    /// The summary of a group of the band being collected.
    MoveSummary { job: u32, group: u32 },
    /// The summary of a complete group.
    Summary { device: usize, key: crate::space::bands::GroupKey },
    /// A freed band being trimmed.
    Trim { band: u32 },
    /// The lazily written watermark block.
    Watermark,
}

/// The engine. See the module's documentation.
pub struct Engine {
    pub(crate) options: EngineOptions,
    pub(crate) superblock: Superblock,
    pub(crate) extents: Extents,
    pub(crate) names: Vec<String>,
    /// One bit per device with a volatile cache.
    pub(crate) volatile: u32,
    /// One bit per device that gives space back on discard.
    pub(crate) discards: u32,
    pub(crate) disks: BTreeMap<u16, Disk>,
    pub(crate) next_disk: u16,
    pub(crate) frames: Frames,
    pub(crate) slots: Slots,
    pub(crate) bands: Bands,
    pub(crate) journal: Journal,
    pub(crate) prism: Prism,
    pub(crate) stats: Vec<ClassStats>,
    pub(crate) counters: Counters,
    pub(crate) ranges: Ranges,
    clients: Slab<clients::Client>,
    pieces: Slab<clients::Piece>,
    pending: Slab<Pending>,
    commands: VecDeque<(usize, DeviceRequest)>,
    completions: VecDeque<Completion>,
    waiting: clients::Waiting,
    /// Pieces and jobs that wait for a frame.
    frame_waiters: VecDeque<u32>,
    /// Space to be freed, by batch.
    pub(crate) freed: FreedQueue,
    /// Slots of writes whose records may be on the device or not: a batch could not be written.
    lost: Vec<Freed>,
    pub(crate) flush: flush::FlushState,
    pub(crate) checkpoint: checkpoint::CheckpointState,
    pub(crate) migrate: migrate::Migrate,
    /// Space was taken or freed since migration last looked whether a job is due.
    space_changed: bool,
    streams: streams::Streams,
    /// Requests of hosts' writes in flight on the fast device, and on all others.
    writes_in_flight: [u32; 2],
    /// Blocks of data that hosts have written, over the pool's life: its clock.
    written_blocks: u64,
    /// Slots that writes have taken since the start.
    slots_taken: u64,
    /// Pieces that hold a leaf which they will change.
    executing: usize,
    /// Reused scratch space: no allocation per request.
    runs: Vec<Run>,
    woken: Vec<u32>,
    copies: copies::Copies,
    /// Why no writes are taken any more.
    pub(crate) read_only: Option<String>,
    pub(crate) now_ns: u64,
    /// What the clock showed at the last tick.
    told_ns: u64,
    /// The time by which requests lose patience: it goes on by `PATIENCE_STEP_NS` a tick at most.
    pub(crate) patience_ns: u64,
}

impl Engine {
    /// The next device request: (device index, request).
    pub fn next_command(&mut self) -> Option<(usize, DeviceRequest)> {
        self.commands.pop_front()
    }

    /// The next finished host request.
    pub fn next_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Advances the engine's clock (nanoseconds of any origin) and lets lazy work start. Where the clock that is told
    /// here steps back no time passes, and from there on it counts again: nothing waits for it to catch up.
    pub fn tick(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.told_ns);
        self.told_ns = now_ns;
        self.now_ns = self.now_ns.saturating_add(passed_ns);
        self.patience_ns = self.patience_ns.saturating_add(passed_ns.min(PATIENCE_STEP_NS));
        self.lazy_watermark();
        self.migrate_tick();
    }

    /// Lets everything that became possible happen: to be called after a round of `submit` and `complete`.
    pub fn pump(&mut self) {
        self.release_durable();
        self.retry_frame_waiters();
        self.retry_waiting();
        self.checkpoint_step();
        self.migrate_step();
        self.seal_batch(false);
        self.flush_step();
    }

    /// Host requests not yet answered.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.clients.len()
    }

    /// Whether device requests or background jobs are under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.pending.is_empty() || !self.commands.is_empty() || !self.clients.is_empty() || self.checkpoint.is_active()
    }

    /// Why no writes are taken any more, where that is so.
    #[must_use]
    pub fn read_only_reason(&self) -> Option<&str> {
        self.read_only.as_deref()
    }

    /// Takes no more writes, for `reason`.
    pub fn set_read_only(&mut self, reason: &str) {
        self.read_only.get_or_insert_with(|| reason.to_owned());
    }

    /// A disk by name.
    #[must_use]
    pub fn disk_named(&self, name: &str) -> Option<&Disk> {
        self.disks.values().find(|disk| disk.name == name)
    }

    /// All disks.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.disks.values()
    }

    /// The classifier and its class table.
    #[must_use]
    pub fn prism(&self) -> &Prism {
        &self.prism
    }

    /// Queues a device request.
    pub(crate) fn command(&mut self, device: usize, offset_bytes: u64, stream: u8, op: Op, pending: Pending) {
        let tag = self.pending.insert(pending) as u64;
        self.commands.push_back((device, DeviceRequest { tag, offset_bytes, stream, op }));
    }

    /// Takes the end of a device request.
    pub fn complete(&mut self, device: usize, completion: DeviceCompletion) {
        let Some(pending) = self.pending.try_remove(completion.tag as usize) else {
            return;
        };
        let DeviceCompletion { result, bufs, .. } = completion;
        match pending {
            Pending::Read { piece, part } => self.read_done(piece, part, device, result, bufs),
            Pending::Copy { disk, block, slot } => self.copy_written(disk, block, slot, result),
            Pending::Merge { piece } => self.merge_read_done(piece, device, result, bufs),
            Pending::Write { piece, device, groups } => {
                self.summaries_written(&groups, result.is_ok());
                self.data_written(piece, device, result);
            }
            Pending::Batch { sealed, attempts } => self.batch_written(sealed, attempts, result),
            Pending::PageIn { frame, reference, again } => {
                self.page_in_done(frame, reference, again, result, bufs);
            }
            Pending::PageOut { frame, location } => self.page_out_done(frame, location, result),
            Pending::IndexOut | Pending::RootOut => self.checkpoint_io_done(result),
            Pending::Flush { device } => self.device_flushed(device, result),
            Pending::MoveFlush { job, number } => self.destination_flushed(job, number, device, result),
            Pending::MoveRead { job, candidates } => self.sources_read(job, &candidates, result, bufs),
            Pending::MoveReadAgain { job, candidate } => self.source_read_again(job, candidate, result, bufs),
            Pending::MoveWrite { job, groups } => {
                self.summaries_written(&groups, result.is_ok());
                self.destination_written(job, result);
            }
            Pending::MoveSummary { job, group } => self.summary_read(job, group, result, bufs),
            Pending::Summary { device, key } => self.summary_written(device, key, &result),
            Pending::Trim { band } => {
                // A failed trim costs the drive some spare area, nothing else.
                if result.is_err() {
                    self.counters.trim_errors += 1;
                }
                self.bands.release(band);
            }
            Pending::Watermark => self.flush.watermark_written(result.is_ok()),
        }
    }

    /// A device failure as the host sees it.
    pub(crate) fn device_error(&self, device: usize, source: IoError) -> RequestError {
        RequestError::Device { device: self.names.get(device).cloned().unwrap_or_default(), source }
    }

    /// The single buffer of a read completion.
    pub(crate) fn single(bufs: Option<Vectored<Buf>>) -> Option<Buf> {
        match bufs {
            Some(Vectored::One(buf)) => Some(buf),
            _ => None,
        }
    }

    pub(crate) fn disk(&self, disk: DiskId) -> Option<&Disk> {
        self.disks.get(&disk.0)
    }

    pub(crate) fn disk_mut(&mut self, disk: DiskId) -> Option<&mut Disk> {
        self.disks.get_mut(&disk.0)
    }
}
