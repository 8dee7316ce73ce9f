//! Events of block requests, whichever form they were written in.

use crate::{Flags, Op};

/// What happened to a request, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::format) enum Action {
    /// It came from above (Q).
    Queue,
    /// It came from above and was added to the end of another, so that it will not be issued itself (M).
    BackMerge,
    /// It went into the scheduler's queue (I).
    Insert,
    /// It went to the driver (D).
    Issue,
    /// The driver gave it back (R).
    Requeue,
    /// It is done (C).
    Complete,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(in crate::format) struct Event {
    /// Since the trace's zero.
    pub time_ns: u64,
    /// Major number times 2^20 plus minor number.
    pub device: u32,
    pub sector: u64,
    pub len_bytes: u64,
    pub action: Action,
    pub op: Op,
    pub flags: Flags,
    pub pid: u32,
    /// In the table of names.
    pub process: u32,
    /// In the table of names.
    pub volume: u32,
    pub cgroup: u64,
}

impl Event {
    /// What requests are distinguished by.
    pub fn key(&self) -> Key {
        Key { device: self.device, sector: self.sector, op: self.op }
    }
}

/// What the events of one request have in common.
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
