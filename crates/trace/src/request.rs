//! One request of a trace.

use forebay_prism::Lifetime;

/// A time or a length that the trace does not have.
pub const NOT_KNOWN: u64 = u64::MAX;

/// The operation of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A discard: the data is no longer needed.
    Discard,
    /// A write of zeros that are not sent.
    WriteZeroes,
    /// Makes completed writes durable; has no range.
    Flush,
    /// An access of unknown kind: neither alpha nor beta can be computed from it.
    #[default]
    Access,
}

impl Op {
    /// All operations in the order of their numbers.
    pub const ALL: [Self; 6] = [Self::Read, Self::Write, Self::Discard, Self::WriteZeroes, Self::Flush, Self::Access];

    /// Its name in tables and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::WriteZeroes => "write-zeroes",
            Self::Flush => "flush",
            Self::Access => "access",
        }
    }
}

/// What the kernel or the host reported of a request, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// File-system metadata (`REQ_META`).
    pub const META: Self = Self(1);
    /// A process waits for it (`REQ_SYNC`).
    pub const SYNC: Self = Self(1 << 1);
    /// Durable when it completes (`REQ_FUA`).
    pub const FUA: Self = Self(1 << 2);
    /// A flush comes before it (`REQ_PREFLUSH`).
    pub const PREFLUSH: Self = Self(1 << 3);
    /// Swap (`REQ_SWAP`).
    pub const SWAP: Self = Self(1 << 4);
    /// Read-ahead (`REQ_RAHEAD`).
    pub const READ_AHEAD: Self = Self(1 << 5);
    /// The request failed.
    pub const ERROR: Self = Self(1 << 6);
    /// Bypasses the page cache (`O_DIRECT`).
    pub const DIRECT: Self = Self(1 << 7);
    /// Background write-back (`REQ_BACKGROUND`).
    pub const BACKGROUND: Self = Self(1 << 8);
    /// The trace does not tell the lifetime of this request, although it tells those of others.
    pub const NO_LIFETIME: Self = Self(1 << 14);
    /// The trace does not tell the flags of this request, although it tells those of others.
    pub const NOT_KNOWN: Self = Self(1 << 15);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What was reported, without the marks that nothing was.
    #[must_use]
    pub fn reported(self) -> Self {
        Self(self.0 & !(Self::NO_LIFETIME.0 | Self::NOT_KNOWN.0))
    }

    /// The union of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One request, as it was issued to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it was issued, in nanoseconds since the trace's own zero.
    pub issued_ns: u64,
    /// How long it waited for its issue, in nanoseconds; [`NOT_KNOWN`] if that is not known.
    pub queued_ns: u64,
    /// From issue to completion, in nanoseconds; [`NOT_KNOWN`] if that is not known.
    pub latency_ns: u64,
    /// Byte offset on the volume.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for flushes.
    pub len_bytes: u64,
    /// Inode of the file; 0 if it is not known.
    pub inode: u64,
    /// Id of the control group; 0 if it is not known.
    pub cgroup: u64,
    /// Number of the volume in [`crate::Names::volumes`].
    pub volume: u32,
    /// Number of the process's name in [`crate::Names::processes`]; 0 if it is not known.
    pub process: u32,
    /// Id of the process; 0 if it is not known.
    pub pid: u32,
    /// Number of the file's path in [`crate::Names::paths`]; 0 if it is not known.
    pub path: u32,
    /// Class in the trace (Open CAS); [`Request::NO_CLASS`] if there is none.
    pub io_class: u16,
    /// Requests at the device when it was issued, including itself; 0 if it is not known, 65,535 for that many or more.
    pub depth: u16,
    /// What the host reported of it.
    pub flags: Flags,
    /// The operation.
    pub op: Op,
    /// Lifetime of its data, as declared by the writer.
    pub lifetime: Lifetime,
}

impl Request {
    /// The value for no class.
    pub const NO_CLASS: u16 = u16::MAX;

    /// A request without any other known facts.
    #[must_use]
    pub fn new(issued_ns: u64, op: Op, offset_bytes: u64, len_bytes: u64) -> Self {
        Self {
            issued_ns,
            queued_ns: NOT_KNOWN,
            latency_ns: NOT_KNOWN,
            offset_bytes,
            len_bytes,
            inode: 0,
            cgroup: 0,
            volume: 0,
            process: 0,
            pid: 0,
            path: 0,
            io_class: Self::NO_CLASS,
            depth: 0,
            flags: Flags::default(),
            op,
            lifetime: Lifetime::NotSet,
        }
    }

    /// End of its range in bytes, at most 2^64 - 1.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.len_bytes)
    }

    /// Whether it writes new data to the device.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.op, Op::Write | Op::WriteZeroes)
    }
}
