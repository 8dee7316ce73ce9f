//! What a worker knows of an I/O in flight.

use crate::pattern::Next;
use forebay_block::OpKind;

/// An I/O in flight.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub intended_ns: u64,
    pub created_ns: u64,
    pub submitted_ns: u64,
    pub offset_bytes: u64,
    pub len_bytes: u32,
    pub depth: u16,
    pub kind: OpKind,
    /// The I/O was intended in the measurement.
    pub measured: bool,
    /// The I/O was intended in the warm-up of an open loop, and submitted in the measurement.
    pub is_backlog: bool,
}

impl Slot {
    /// That of a slot which is not in use.
    pub const EMPTY: Self = Self {
        intended_ns: 0,
        created_ns: 0,
        submitted_ns: 0,
        offset_bytes: 0,
        len_bytes: 0,
        depth: 0,
        kind: OpKind::Read,
        measured: false,
        is_backlog: false,
    };

    /// Whether the I/O counts for the queue depth.
    pub fn is_begun(&self) -> bool {
        self.measured || self.is_backlog
    }

    /// What was asked for.
    pub fn next(&self) -> Next {
        Next { kind: self.kind, offset_bytes: self.offset_bytes, len_bytes: self.len_bytes, hint: 0 }
    }
}
