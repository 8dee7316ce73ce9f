//! What goes on in an array: requests of hosts, reads of whole rows, and batches of writes to members, each with what follows when it has ended.

use super::chores::Readings;
use crate::layout::array_shape::{Shape, Way};
use forebay_block::{Buf, IoError, Request, SharedBuf};

/// Something that has requests in flight on members, or waits to.
pub(super) enum Job {
    /// Writes, flushes or discards of several members.
    Batch(Batch),
    /// A host's read of what all members have alike.
    Same(SameRead),
    /// A host's read of data of rows.
    Read(Read),
    /// Rows are read from all members.
    Rows(Rows),
    /// A part of the log is read of a member.
    Log,
    /// Members are asked whether they answer at all.
    Probe(Probe),
}

/// Whether members answer: several places of each are read.
pub(super) struct Probe {
    /// The member for whose rebuild they are asked.
    pub rebuilt: usize,
    pub left: usize,
    /// One bit for each that was asked, and for each of which something could be read.
    pub asked: u32,
    pub alive: u32,
}

/// Tag of what is copied to a member that is rebuilt: nobody else has it.
pub(super) const COPY_TAG: u64 = u64::MAX;

/// Something that has ended, and is to be gone on with.
pub(super) enum Next {
    Batch(Then, Result<(), IoError>),
    Rows(Rows),
}

/// Requests to members that end together.
pub(super) struct Batch {
    pub left: usize,
    /// One bit for each member that failed.
    pub failed: u32,
    /// What the last of them said.
    pub error: Option<IoError>,
    /// A flush failed meanwhile: what was written may be lost.
    pub spoiled: Option<IoError>,
    pub then: Then,
}

impl Batch {
    pub fn new(left: usize, then: Then) -> Self {
        Self { left, failed: 0, error: None, spoiled: None, then }
    }
}

/// Blocks of a row, by their number in it.
pub(super) type Blocks = Vec<(usize, SharedBuf)>;

/// A part of a host's write that changes a part of a row.
pub(super) struct Part {
    pub op: usize,
    pub row: u64,
    pub blocks: Blocks,
    pub stream: u8,
}

/// What follows a batch.
pub(super) enum Then {
    /// A flush, and what follows it.
    Flushed { number: u64, thens: Vec<Then> },
    /// A host's flush.
    HostFlush { tag: u64 },
    /// A flush for places of the log.
    OwnFlush,
    /// A part of a host's change.
    Part { op: usize },
    /// The flush behind a change that is to be durable.
    Durable { op: usize },
    /// The same, of whole rows.
    Whole { op: usize, rows: std::ops::Range<u64> },
    /// Bands were discarded.
    Discarded { op: usize, rows: std::ops::Range<u64> },
    /// Blocks were added to an open row; without a place in the log it is whole now.
    Appended { part: Part, slot: Option<u32> },
    /// What lives in a row is in the log, before something else is written there.
    Logged { part: Part, living: Blocks, slot: u32 },
    /// And durable.
    LogFlushed { part: Part, living: Blocks, slot: u32 },
    /// An open row was filled up with zeros.
    Filled { row: u64, lock: u64 },
    /// A row that was found open is whole, but for what nobody can read or restore.
    Settled { row: u64, lock: u64, is_whole: bool },
    /// Entries of the log were erased, or a newer one was written instead: its place, and its row.
    Erased { instead: Option<(u32, u64)> },
    /// A block that a member could not read was written again.
    Mended { member: usize, lock: u64 },
    /// So many rows of the member that is rebuilt were written, or a piece of what all have alike.
    Rebuilt { lock: u64 },
    /// And are durable.
    RebuildFlushed,
    /// A label.
    Labelled,
    /// And it is durable.
    LabelFlushed,
}

impl Then {
    /// Whether what was written is to be durable with the flush that follows.
    pub fn is_flushed_next(&self) -> bool {
        matches!(self, Self::Logged { .. } | Self::Labelled)
    }

    /// Whether nothing is lost where a member fails it.
    pub fn is_discard(&self) -> bool {
        matches!(self, Self::Discarded { .. })
    }
}

/// A part of a write beside what lives in its row, of which all is in the log.
pub(super) struct Logged {
    pub part: Part,
    pub living: Blocks,
    pub slot: u32,
}

/// A part of a write that waits for a place in the log; with blocks that live there, these are logged first.
pub(super) struct Starved {
    pub part: Part,
    pub living: Option<Blocks>,
}

/// A host's change, of several parts.
pub(super) struct HostOp {
    pub tag: u64,
    pub left: usize,
    pub lock: u64,
    pub error: Option<IoError>,
    /// It is to be durable when it is answered, and a part of it went past no cache.
    pub wants_flush: bool,
}

/// A read of what all members have alike.
pub(super) struct SameRead {
    pub tag: u64,
    pub offset_bytes: u64,
    pub attempt: u8,
    pub lens: Vec<usize>,
    /// One bit for each member that failed it.
    pub tried: u32,
}

/// A read of data of rows.
pub(super) struct Read {
    pub tag: u64,
    pub way: Way,
    /// Nothing was wrong with an earlier reading.
    pub is_first: bool,
    /// All other readings were not what it should be.
    pub is_last: bool,
    /// Lengths of the buffers, which are put together again.
    pub lens: Vec<usize>,
    pub is_single: bool,
    pub pieces: Vec<Piece>,
    /// What was sent to members: by part, the pieces that it reads.
    pub groups: Vec<(usize, Vec<usize>)>,
    pub left: usize,
    /// What a member said that failed it.
    pub error: Option<IoError>,
    /// Something of it can be read of nobody.
    pub lost: Option<IoError>,
    /// What was restored of it that members could not read: member and row.
    pub mends: Vec<(usize, u64)>,
}

/// A part of a block.
pub(super) struct Piece {
    pub buf: Option<Buf>,
    pub row: u64,
    pub role: usize,
    /// From here on in the block.
    pub from: usize,
    pub len: usize,
    /// Its member was asked for it.
    pub is_sent: bool,
    /// Its member failed to read it.
    pub failed: bool,
}

/// What whole rows are read for.
pub(super) enum Purpose {
    /// Pieces of a host's read that their members do not have.
    Restore { read: usize },
    /// A part of a row is written of which it is not known what else lives in it, and what was read of it before.
    Overwrite { part: Part, readings: Readings },
    /// A row that was found open is to be whole.
    Settle,
    /// A member could not read its block of it.
    Mend { member: usize },
    /// A member is rebuilt.
    Rebuild { member: usize },
}

/// Rows whose blocks lie on the same members, read from all of these that can be.
pub(super) struct Rows {
    pub first: u64,
    pub count: u64,
    /// By role; empty where it was not, or could not be, read.
    pub images: Vec<Option<Vec<u8>>>,
    pub left: usize,
    /// One bit for each member that could not read its block.
    pub failed: u32,
    /// One bit for each of these of which it was no matter of what lies there, and what one of them said.
    pub gone: u32,
    pub away: Option<IoError>,
    pub purpose: Purpose,
    /// 0 where another holds it.
    pub lock: u64,
}

impl Rows {
    pub fn new(first: u64, count: u64, shape: &Shape, purpose: Purpose, lock: u64) -> Self {
        let images = vec![None; shape.members()];
        Self { first, count, images, left: 0, failed: 0, gone: 0, away: None, purpose, lock }
    }
}

/// What waits for a range.
pub(super) enum Held {
    /// A write or a discard.
    Change(Request),
    /// Rows that are read to restore a part of them.
    Restore { first: u64, count: u64, read: usize },
}

impl Held {
    /// The range of the device that it waits for.
    pub fn range(&self, shape: &Shape) -> (u64, u64) {
        match self {
            Self::Change(request) => locked_range(shape, request.offset_bytes, request.op.len_bytes()),
            Self::Restore { first, count, .. } => (shape.row_start_bytes(*first), count * shape.row_bytes()),
        }
    }
}

/// What a change of a range locks: whole rows.
pub(super) fn locked_range(shape: &Shape, offset_bytes: u64, len_bytes: u64) -> (u64, u64) {
    if shape.is_in_rows(offset_bytes) {
        let begin = offset_bytes - shape.head_bytes;
        let first = begin / shape.row_bytes();
        let end = (begin + len_bytes).div_ceil(shape.row_bytes());
        return (shape.row_start_bytes(first), (end - first) * shape.row_bytes());
    }
    (offset_bytes, len_bytes)
}
