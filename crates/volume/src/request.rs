//! What front ends ask of the volume, and what they get back.

use forebay_block::{Buf, ClassId, DiskId, IoError, IoErrorKind};
use forebay_prism::HostHints;
use smallvec::SmallVec;
use thiserror::Error;

/// A host request. Offsets and lengths are multiples of 512 bytes.
#[derive(Debug)]
pub struct Request {
    /// Chosen by the front end, returned in the completion.
    pub token: u64,
    /// The disk addressed.
    pub disk: DiskId,
    /// Byte offset on the disk.
    pub offset_bytes: u64,
    /// Length in bytes; ignored for flush.
    pub len_bytes: u64,
    /// The operation.
    pub op: Op,
    /// Durable when complete (writes, discards, write-zeroes).
    pub fua: bool,
    /// Index of the export that the request came through.
    pub export: u16,
    /// The client that it came from, as numbered by [`Engine::begin_session`](crate::Engine::begin_session); 0 where clients are not kept apart.
    pub session: u64,
    /// Class with which the export tags its writes.
    pub tag: Option<ClassId>,
    /// What the host says of it, part by part from its first block on; nothing is said of blocks behind the last part. In a box, so that a request
    /// stays small where there is no source of evidence.
    pub hints: Option<Box<HintParts>>,
}

impl Request {
    /// A request of no particular client, without hints, that is not durable when it is complete.
    #[must_use]
    pub fn new(token: u64, disk: DiskId, offset_bytes: u64, len_bytes: u64, op: Op) -> Self {
        Self { token, disk, offset_bytes, len_bytes, op, fua: false, export: 0, session: 0, tag: None, hints: None }
    }
}

/// Parts of a request about which the host says different things; mostly there is one.
pub type HintParts = SmallVec<[HintPart; 1]>;

/// A part of a request about which the host says one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintPart {
    /// Its length in blocks of 4 KiB.
    pub blocks: u64,
    /// What it says.
    pub hints: HostHints,
}

/// A host operation.
#[derive(Debug)]
pub enum Op {
    /// Read; the data comes back in [`Outcome::Data`].
    Read,
    /// Write `len_bytes` from the buffer.
    Write(Buf),
    /// Everything acknowledged before, on any connection, survives power loss once this completes.
    Flush,
    /// The range reads as zeros afterwards, and its space is freed.
    Discard,
    /// The range reads as zeros afterwards.
    WriteZeroes {
        /// Whether the range may become a hole; if not it stays reported as allocated.
        may_unmap: bool,
    },
    /// Hint that the range will be read.
    Cache,
    /// The range belongs to what `hints` says: blocks whose class changes by this get the new class, and stay where they are. A whole number of blocks.
    Reclass,
    /// State of the extents from the start of the range, at most `max_extents`; need not reach the end of the range.
    Status {
        /// Upper bound on the extents returned, at least 1.
        max_extents: usize,
    },
}

/// The end of a host request.
#[derive(Debug)]
pub struct Completion {
    /// The request's token.
    pub token: u64,
    /// What came of it.
    pub result: Result<Outcome, RequestError>,
}

/// Success.
#[derive(Debug)]
pub enum Outcome {
    /// Done; nothing to return.
    Done,
    /// Data of a read, exactly as long as asked.
    Data(Buf),
    /// Extents of a status request, in order, covering a prefix of the range (at least one extent).
    Extents(Vec<Extent>),
}

/// State of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentState {
    /// Never written or discarded; reads as zeros.
    Hole,
    /// In the base that the disk lies over.
    Base,
    /// Allocated, reads as zeros.
    Zero,
    /// Data.
    Data {
        /// Its class.
        class: ClassId,
        /// Whether it lies on the fast tier.
        fast: bool,
    },
    /// Known damaged: reads fail.
    Damaged,
}

/// A run of bytes in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub len_bytes: u64,
    /// State.
    pub state: ExtentState,
}

/// Why a host request failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// Beyond the end of the disk, or not a multiple of 512 bytes.
    #[error("the range is outside the disk or not a multiple of 512 bytes")]
    OutOfRange,
    /// The disk does not exist (any more).
    #[error("there is no such disk")]
    NoDisk,
    /// The base of the disk is not there.
    #[error("the base that the disk lies over is not there")]
    NoBase,
    /// A device failed.
    #[error("device {device}: {source}")]
    Device {
        /// Name of the device.
        device: String,
        /// The failure.
        source: IoError,
    },
    /// Stored data does not match its checksum.
    #[error("damaged data on disk {} at byte {offset_bytes}", disk.0)]
    Damaged {
        /// The disk.
        disk: DiskId,
        /// First damaged byte.
        offset_bytes: u64,
    },
    /// A device flush failed; what was acknowledged since the last good flush is not durable yet, and may be lost.
    #[error(
        "a device flush failed: what it covered is being written again, or was lost in part (flush_lost_blocks in the status); \
         flush once more later"
    )]
    FlushFailed,
    /// The pool accepts no writes.
    #[error("the pool is read-only: {0}")]
    ReadOnly(String),
    /// No space on any tier.
    #[error("the pool is full")]
    NoSpace,
    /// The server is stopping.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl RequestError {
    /// Whether the request succeeds once somebody makes room: in the pool, or below a device of it. Hosts can wait for that, as QEMU does
    /// (`werror=enospc`).
    #[must_use]
    pub fn is_for_want_of_space(&self) -> bool {
        let is_below = |source: &IoError| source.kind == IoErrorKind::NoSpace;
        matches!(self, Self::NoSpace) || matches!(self, Self::Device { source, .. } if is_below(source))
    }
}
