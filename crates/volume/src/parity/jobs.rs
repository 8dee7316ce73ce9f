//! What goes on in an array: requests of hosts, reads of whole rows, and batches of writes to members, each with what follows when it has ended.

use super::chores::Readings;
use crate::layout::array_shape::{Shape, Way};
use forebay_block::{Buf, IoError, Request, SharedBuf};

/// Something that has requests in flight on members, or waiting for them.
pub(super) enum Job {
    /// Writes, flushes or discards of several members.
    Batch(Batch),
    /// A host's read of the part that all members have alike.
    Same(SameRead),
    /// A host's read of data of rows.
    Read(Read),
    /// Rows are read from all members.
    Rows(Rows),
    /// A part of the log is read of a member.
    Log,
    /// Members are asked whether they answer at all.
    Probe(Probe),
    /// Labels of members are read, before what was read of rows is believed.
    Proof(Proof),
}

/// Whether members from which rows were read still are what they were.
pub(super) struct Proof {
    pub rows: Rows,
    pub left: usize,
    /// One bit for each member that has something else in the place of a label.
    pub doubted: u32,
    /// They are read for the second time.
    pub is_second: bool,
}

/// Whether members answer: several places of each are read.
pub(super) struct Probe {
    /// The member for whose rebuild they are asked.
    pub rebuilt: usize,
    pub left: usize,
    /// One bit for each member that was asked, and one for each of which something could be read.
    pub asked: u32,
    pub alive: u32,
}

/// Tag of the reads for copying to a member that is rebuilt: no host uses it.
pub(super) const COPY_TAG: u64 = u64::MAX;

/// Work that has ended, and is to be continued.
pub(super) enum Next {
    Batch(Then, Result<(), IoError>),
    Rows(Rows),
    /// Members from which rows were read have lost their labels, and too few others are left.
    Unproven(Rows),
}

/// Requests to members that end together.
pub(super) struct Batch {
    pub left: usize,
    /// One bit for each member that failed.
    pub failed: u32,
    /// The failure of the last of them.
    pub error: Option<IoError>,
    /// The failure of a flush meanwhile: what was written may be lost.
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

impl Part {
    /// One bit for the place in the row of each block that it has.
    pub fn written(&self) -> u32 {
        self.blocks.iter().fold(0, |bits, (at, _)| bits | 1 << at)
    }
}

/// What follows a batch.
pub(super) enum Then {
    /// A flush, and what follows it.
    Flushed { number: u64, thens: Vec<Then> },
    /// A host's flush.
    HostFlush { tag: u64 },
    /// A flush for places of the log.
    OwnFlush,
    /// A flush that lets places of the log become free.
    Part { op: usize },
    /// The flush behind a change that is to be durable.
    Durable { op: usize },
    /// A part of a host's change that wrote whole rows.
    Whole { op: usize, rows: std::ops::Range<u64> },
    /// Bands were discarded.
    Discarded { op: usize, rows: std::ops::Range<u64> },
    /// Blocks were added to an open row; without a place in the log the row is whole now.
    Appended { part: Part, slot: Option<u32> },
    /// What lives in a row is in the log, before something else is written there.
    Logged(Logged),
    /// The entries are durable as well.
    LogFlushed(Logged),
    /// An open row was filled up with zeros.
    Filled { row: u64, lock: u64 },
    /// A row that was found open is whole, except for what nobody can read or restore.
    Settled { row: u64, lock: u64, is_whole: bool },
    /// Entries of the log were erased.
    Erased,
    /// A newer entry was written, at this place and of this row, as one of the row cannot be erased.
    Superseded { slot: u32, row: u64 },
    /// A block that a member could not read was written again.
    Mended { member: usize, lock: u64 },
    /// Rows of the member that is rebuilt were written, or a piece of the part that all have alike.
    Rebuilt { lock: u64 },
    /// What was rebuilt is durable.
    RebuildFlushed,
    /// A label.
    Labelled,
    /// The label is durable.
    LabelFlushed,
}

impl Then {
    /// Whether the flush that follows makes durable what was written.
    pub fn is_flushed_next(&self) -> bool {
        matches!(self, Self::Logged(_) | Self::Labelled)
    }

    /// Whether nothing is lost where a member fails.
    pub fn is_discard(&self) -> bool {
        matches!(self, Self::Discarded { .. })
    }
}

/// A part of a write to a row of which everything that lives there is in the log.
pub(super) struct Logged {
    pub part: Part,
    pub living: Blocks,
    pub slot: u32,
}

/// A part of a write that waits for a place in the log; blocks in `living` are logged before it is written.
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
    /// The change is to be durable when it is answered, and a part of it was not written past the caches.
    pub wants_flush: bool,
}

/// A read of the part that all members have alike.
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
    /// It is the first attempt: no earlier reading was wrong.
    pub is_first: bool,
    /// It is the last attempt: all other readings were wrong.
    pub is_last: bool,
    /// Lengths of the buffers, to which the pieces are put together again.
    pub lens: Vec<usize>,
    pub is_single: bool,
    pub pieces: Vec<Piece>,
    /// The requests that were sent to members: by part, the pieces that each reads.
    pub groups: Vec<(usize, Vec<usize>)>,
    pub left: usize,
    /// The failure of a member.
    pub error: Option<IoError>,
    /// The failure where no member can give a part of it.
    pub lost: Option<IoError>,
    /// Blocks that members could not read and that were restored: member and row.
    pub mends: Vec<(usize, u64)>,
}

/// A part of a block.
pub(super) struct Piece {
    pub buf: Option<Buf>,
    pub row: u64,
    pub role: usize,
    /// Where it begins in its block, in bytes.
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
    /// A part of a row is written while it is unknown what else lives in the row; with what was read of it before.
    Overwrite { part: Part, readings: Readings },
    /// A row that was found open is to be whole.
    Settle,
    /// A member could not read its block of it.
    Mend { member: usize },
    /// A member is rebuilt.
    Rebuild { member: usize },
}

/// Rows whose blocks lie on the same members, read from all of these that can be read.
pub(super) struct Rows {
    pub first: u64,
    pub count: u64,
    /// By role; empty where the block was not or could not be read.
    pub images: Vec<Option<Vec<u8>>>,
    pub left: usize,
    /// One bit for each member that held everything when they were read, and was asked for its block.
    pub asked: u32,
    /// These still had their labels afterwards.
    pub is_proven: bool,
    /// One bit for each member that could not read its block.
    pub failed: u32,
    /// Those of them whose failure says nothing of the block (the device may be away), and one such failure.
    pub gone: u32,
    pub away: Option<IoError>,
    pub purpose: Purpose,
    /// 0 where another holds the lock.
    pub lock: u64,
}

impl Rows {
    pub fn new(first: u64, count: u64, shape: &Shape, purpose: Purpose, lock: u64) -> Self {
        let images = vec![None; shape.members()];
        Self {
            first,
            count,
            images,
            left: 0,
            asked: 0,
            is_proven: false,
            failed: 0,
            gone: 0,
            away: None,
            purpose,
            lock,
        }
    }
}

/// Requests that wait for a range.
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
