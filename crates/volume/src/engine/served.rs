//! How long hosts' requests took, by kind, and how many there were, by disk.

use super::latency::LatencyHistogram;
use super::requests::{ClientKind, Sweep};
use crate::request::Op;

/// Kinds of host requests, as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Reads.
    Read,
    /// Writes that carry data.
    Write,
    /// Flushes.
    Flush,
    /// Discards, and writes of zeroes.
    Discard,
    /// Queries of block status, cache hints, and corrections of classes.
    Other,
}

impl RequestKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Flush, Self::Discard, Self::Other];

    /// The name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::Other => "other",
        }
    }

    /// The kind of a request.
    #[must_use]
    pub fn of_op(op: &Op) -> Self {
        match op {
            Op::Read => Self::Read,
            Op::Write(_) => Self::Write,
            Op::Flush => Self::Flush,
            Op::Discard | Op::WriteZeroes { .. } => Self::Discard,
            Op::Cache | Op::Reclass | Op::Status { .. } => Self::Other,
        }
    }

    pub(crate) fn of(kind: &ClientKind) -> Self {
        match kind {
            ClientKind::Read { .. } => Self::Read,
            ClientKind::Write => Self::Write,
            ClientKind::Flush => Self::Flush,
            ClientKind::Sweep { what: Sweep::Unmap | Sweep::Zero, .. } => Self::Discard,
            ClientKind::Sweep { what: Sweep::Reclass, .. }
            | ClientKind::Status { .. }
            | ClientKind::Scrub { .. }
            | ClientKind::Adopt { .. } => Self::Other,
        }
    }
}

/// Latencies of host requests.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    kinds: [LatencyHistogram; RequestKind::ALL.len()],
}

impl Latencies {
    /// Latencies of one kind.
    #[must_use]
    pub fn of(&self, kind: RequestKind) -> &LatencyHistogram {
        &self.kinds[kind as usize]
    }

    pub(crate) fn record(&mut self, kind: RequestKind, value_ns: u64) {
        self.kinds[kind as usize].record(value_ns);
    }

    /// Latencies of all kinds together.
    #[must_use]
    pub fn all(&self) -> LatencyHistogram {
        let mut all = LatencyHistogram::default();
        self.kinds.iter().for_each(|kind| all.add(kind));
        all
    }
}

/// Requests by kind, and their bytes, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    requests: [u64; RequestKind::ALL.len()],
    bytes: [u64; RequestKind::ALL.len()],
}

impl RequestCounts {
    /// How many of a kind, and their bytes.
    #[must_use]
    pub fn of(&self, kind: RequestKind) -> (u64, u64) {
        (self.requests[kind as usize], self.bytes[kind as usize])
    }

    /// Counts one request.
    pub fn count(&mut self, kind: RequestKind, len_bytes: u64) {
        // Saturating: a host may discard a whole disk as often as it likes.
        self.requests[kind as usize] = self.requests[kind as usize].saturating_add(1);
        self.bytes[kind as usize] = self.bytes[kind as usize].saturating_add(len_bytes);
    }
}
