//! What is remembered of a command of the host while it is in the drive.

use crate::ssd::{Command, Op};

/// How far a command has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Pieces of the map are looked up.
    Map,
    /// Units that are written in part are read.
    Edges,
    /// Data move.
    Data,
}

/// A command that was submitted and has not ended.
#[derive(Clone, Copy)]
pub(super) struct Active {
    pub command: Command,
    pub stage: Stage,
    /// The next unit to be dealt with, and the end.
    pub cursor: u32,
    pub end: u32,
    /// Flash reads and other things that are waited for.
    pub parts: u32,
    /// When the last byte so far is at the host.
    pub ready_ns: u64,
    pub next: u32,
}

/// A flush that waits until what came before it is on the media.
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
