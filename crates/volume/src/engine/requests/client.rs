//! A host request in progress.

use crate::engine::clock::Clock;
use crate::request::{Extent, HintParts, RequestError};
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, Buf, ClassId, DiskId};
use smallvec::SmallVec;

/// The export of what no host asked for.
const NO_EXPORT: u16 = u16::MAX;

/// What a client has asked for, and how far that is.
#[derive(Debug)]
pub(crate) enum ClientKind {
    /// A read: its parts in order.
    Read { parts: SmallVec<[Option<Buf>; 1]> },
    /// A write.
    Write,
    /// A discard, write-zeroes or change of class, done leaf by leaf.
    Sweep { next_block: u64, end_block: u64, what: Sweep },
    /// Block status, collected leaf by leaf.
    Status { next_block: u64, end_block: u64, extents: Vec<Extent>, max_extents: usize },
    /// A flush.
    Flush,
    /// A step of a scrub, which no host asked for, with the number of its blocks that hold data.
    Scrub { stored_blocks: u64 },
    /// A step of copying a base, which no host asked for either, with the number of blocks that had to be read.
    Adopt { read_blocks: u64 },
}

/// What is done to a range leaf by leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Blocks become unmapped.
    Unmap,
    /// Blocks become zeros.
    Zero,
    /// Blocks get the class that they belong to by what is known now.
    Reclass,
}

/// A host request in flight.
#[derive(Debug)]
pub(crate) struct Client {
    pub token: u64,
    pub kind: ClientKind,
    pub disk: DiskId,
    pub offset_bytes: u64,
    pub len_bytes: u64,
    pub fua: bool,
    pub export: u16,
    pub session: u64,
    pub tag: Option<ClassId>,
    pub hints: Option<Box<HintParts>>,
    /// Pieces not yet finished.
    pub remaining: u32,
    pub error: Option<RequestError>,
    pub started_ns: u64,
    /// When it came, by the clock by which requests time out.
    pub waits_since_ns: u64,
}

impl Client {
    /// Work on blocks of a disk that no host asked for. One piece remains: the function that begins it.
    pub fn without_host(kind: ClientKind, disk: DiskId, block: u64, blocks: u64, clock: &Clock) -> Self {
        Self {
            token: 0,
            kind,
            disk,
            offset_bytes: block * BLOCK,
            len_bytes: blocks * BLOCK,
            fua: false,
            export: NO_EXPORT,
            session: 0,
            tag: None,
            hints: None,
            remaining: 1,
            error: None,
            started_ns: clock.now_ns(),
            waits_since_ns: clock.waiting_ns(),
        }
    }
}
