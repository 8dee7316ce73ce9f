//! Events of block requests, in whatever form they were recorded.

use crate::{Flags, Op};

/// What happened to a request, as far as it is needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::format) enum Action {
    /// The request was made (Q).
    Queue,
    /// The request was appended to another one, so that it will not be issued itself (M).
    BackMerge,
    /// The request went into the scheduler's queue (I).
    Insert,
    /// The request went to the driver (D).
    Issue,
    /// The driver returned the request (R).
    Requeue,
    /// The request completed (C).
    Complete,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(in crate::format) struct Event {
    /// Time in nanoseconds since the trace's zero.
    pub time_ns: u64,
    /// Major number times 2^20 plus minor number.
    pub device: u32,
    pub sector: u64,
    pub len_bytes: u64,
    pub action: Action,
    pub op: Op,
    pub flags: Flags,
    pub pid: u32,
    /// Number in the table of names.
    pub process: u32,
    /// Number in the table of names.
    pub volume: u32,
    pub cgroup: u64,
}

impl Event {
    /// The key by which events of a request are matched.
    pub fn key(&self) -> Key {
        Key { device: self.device, sector: self.sector, op: self.op }
    }
}

/// The properties that all events of a request share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::format) struct Key {
    pub device: u32,
    pub sector: u64,
    pub op: Op,
}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, into: &mut H) {
        // Two words instead of three.
        into.write_u64(self.sector);
        into.write_u64(u64::from(self.device) << 8 | self.op as u64);
    }
}
