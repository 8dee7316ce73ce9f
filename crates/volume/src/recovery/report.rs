//! What opening a pool came to.

use super::members::MemberError;
use super::policy_state::PolicyState;
use crate::io::Devices;
use crate::map::index::Disk;
use forebay_block::{BLOCK_BYTES, DiskId, IoError};
use forebay_prism::ClassError;
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a pool cannot be opened. Nothing was changed unless the message says so.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum OpenError {
    /// The devices are not this pool.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// A device failed.
    #[error("device {device}: {source}")]
    Io {
        /// The device.
        device: String,
        /// The failure.
        source: IoError,
    },
    /// No usable root.
    #[error(
        "the root of checkpoint {checkpoint} is damaged ({what}): the newest state cannot be read, and an older one is not used in its place"
    )]
    Root {
        /// The newest checkpoint known.
        checkpoint: u64,
        /// What is wrong.
        what: String,
    },
    /// An index page is damaged.
    #[error("index page {page} of disk {disk:?} is damaged: which blocks it mapped is unknown")]
    Index {
        /// Disk name.
        disk: String,
        /// Page.
        page: u32,
    },
    /// Pages of the map would be given up for good that a missing member may have.
    #[error(
        "{leaves} pages of the map can be read of no member of the fast tier's mirror that is there, the first for disk {disk:?} from byte \
         {first_bytes} on: what they mapped would be lost for good, and {members}, which held everything, is not there"
    )]
    Late {
        /// Ids of the members.
        members: String,
        /// How many pages.
        leaves: usize,
        /// The disk of the first.
        disk: String,
        /// The byte of the disk from which on the first page maps.
        first_bytes: u64,
    },
    /// Pages of the map that the journal needs cannot be read. Opening would lose for good what they map; they may be readable later.
    #[error(
        "{device}: {leaves} pages of the map that the journal needs cannot be read, the first for disk {disk:?} from byte {first_bytes} on: \
         what they map would be lost for good"
    )]
    Unread {
        /// The device.
        device: String,
        /// How many pages.
        leaves: usize,
        /// The disk of the first.
        disk: String,
        /// The byte of the disk from which on the first page maps.
        first_bytes: u64,
        /// Why the first could not be read.
        source: IoError,
    },
    /// Blocks that hosts wrote shortly before the power went cannot be read, and opening would give up for them what the map had before.
    /// They may be readable later, or may never have arrived.
    #[error(
        "{device}: {blocks} blocks that were written just before the pool was stopped cannot be read, the first of disk {disk:?} at byte \
         {first_bytes}: whether they arrived is not known, and what was there before would be lost for good"
    )]
    UnreadData {
        /// The device of the first that cannot be read.
        device: String,
        /// How many blocks.
        blocks: usize,
        /// The disk of the first of them.
        disk: String,
        /// Where it is on the disk.
        first_bytes: u64,
        /// Why the first could not be read.
        source: IoError,
    },
    /// A part of the journal cannot be read that may hold durable changes. It may be readable later.
    #[error("{device}: a part of the journal cannot be read: nothing tells whether it holds changes that were durable")]
    UnreadJournal {
        /// The device.
        device: String,
        /// Why the first such part could not be read.
        source: IoError,
    },
    /// A journal batch that was durable is gone.
    #[error(
        "journal batch {batch} is damaged or missing although it was durable up to batch {durable}: which blocks it changed is unknown"
    )]
    Journal {
        /// First missing batch.
        batch: u64,
        /// Watermark.
        durable: u64,
    },
    /// A record that no engine writes.
    #[error("journal batch {batch} is whole, but names space where no data can be")]
    Record {
        /// The batch.
        batch: u64,
    },
    /// The memory limit is too low.
    #[error(
        "recovery needs {needed} map pages in memory at once, the memory limit allows {allowed}: raise memory.limit"
    )]
    Memory {
        /// Leaves touched by the journal.
        needed: usize,
        /// Frames.
        allowed: usize,
    },
    /// The memory limit cannot hold the index.
    #[error("the map of this pool needs {needed_bytes} bytes of memory, and the engine may have {limit_bytes}")]
    Limit {
        /// Needed.
        needed_bytes: u64,
        /// Set.
        limit_bytes: u64,
    },
    /// The class table cannot be used.
    #[error("classes: {0}")]
    Classes(#[from] ClassError),
    /// The checkpoint that ends recovery failed.
    #[error("the checkpoint that ends recovery could not be written: {0}")]
    Checkpoint(String),
    /// After replay the map needs more room in the root than there is.
    #[error("with what the journal holds the map of the disks has more parts than a checkpoint of this pool can list")]
    RootFull,
}

/// Blocks that may have arrived and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unread {
    /// How many.
    pub blocks: usize,
    /// Disk and block of the first.
    pub first: (DiskId, u64),
    /// On which device it cannot be read, and why.
    pub error: (usize, IoError),
}

impl OpenError {
    /// Blocks that may have arrived and cannot be read.
    pub(super) fn of_unread(devices: &Devices, disks: &BTreeMap<u16, Disk>, unread: Unread) -> Self {
        let Unread { blocks, first: (disk, block), error: (device, source) } = unread;
        Self::UnreadData {
            device: devices.list[device].name().to_owned(),
            blocks,
            disk: disks.get(&disk.0).map_or_else(String::new, |disk| disk.name.clone()),
            first_bytes: block * BLOCK_BYTES as u64,
            source,
        }
    }

    /// A failure of a device, by its name.
    pub(super) fn of_device(devices: &Devices, device: usize) -> impl FnOnce(IoError) -> Self + use<> {
        let device = devices.list[device].name().to_owned();
        move |source| Self::Io { device, source }
    }
}

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Whether the pool had been stopped cleanly.
    pub clean: bool,
    /// Bytes read from all devices.
    pub read_bytes: u64,
    /// Batches found in the journal.
    pub batches: u64,
    /// Batches missing above the watermark: never durable.
    pub holes: u64,
    /// Records applied.
    pub records: u64,
    /// Blocks dropped because their data had not become durable.
    pub dropped_blocks: u64,
    /// Map leaves read.
    pub leaves: u64,
    /// Map leaves found damaged: reads of what they mapped fail.
    pub damaged_leaves: u64,
    /// Blocks that were written last and cannot be read: what the map had before was given up for them, and reads of them fail.
    pub unread_blocks: u64,
    /// A part of the journal could not be read, and the operator gave it up: changes that were durable may be lost.
    pub is_journal_unread: bool,
    /// Index pages that are lost, by name of the disk and number, in a pool that is opened for salvage: reads of what they mapped fail.
    pub lost_pages: Vec<(String, u32)>,
    /// Epoch that begins.
    pub epoch: u64,
    /// The capacity tier's part of the checkpoint cannot be read. If the fast tier is lost as well, what was not written again since is
    /// unknown.
    pub is_capacity_root_lost: bool,
    /// What policies had learned before.
    pub policy_state: PolicyState,
}
