//! State of a host command inside the drive.

use crate::ssd::{Command, Op};

/// Stage of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Looking up pieces of the map.
    Map,
    /// Reading units that the command writes only in part.
    Edges,
    /// Moving data.
    Data,
}

/// A submitted command that has not ended.
#[derive(Clone, Copy)]
pub(super) struct Active {
    pub command: Command,
    pub stage: Stage,
    /// The next unit to process, and the end of the command's units.
    pub cursor: u32,
    pub end: u32,
    /// Number of flash reads and other steps that the command waits for.
    pub parts: u32,
    /// When the last byte so far has reached the host.
    pub ready_ns: u64,
    pub next: u32,
}

/// A flush that waits until the writes before it are on the media.
#[derive(Clone, Copy)]
pub(super) struct Flush {
    pub command: u32,
    pub epoch: u32,
    pub remaining: u32,
}

/// Whether an operation moves data of the host.
pub(super) fn has_data(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}
