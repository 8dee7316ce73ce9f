//! One request of a trace.

use forebay_prism::Lifetime;

/// A time or a length that the trace does not tell.
pub const NOT_KNOWN: u64 = u64::MAX;

/// What a request does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Discards: what was there is no longer needed.
    Discard,
    /// Writes zeros without sending them.
    WriteZeroes,
    /// Makes what was written durable; has no range.
    Flush,
    /// An access that the trace does not name: neither alpha nor beta can be computed from it.
    #[default]
    Access,
}

impl Op {
    /// All of them, in the order of their numbers.
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

/// What the kernel or the host said of a request, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// File-system metadata (`REQ_META`).
    pub const META: Self = Self(1);
    /// Somebody waits for it (`REQ_SYNC`).
    pub const SYNC: Self = Self(1 << 1);
    /// Durable when it completes (`REQ_FUA`).
    pub const FUA: Self = Self(1 << 2);
    /// A flush goes before it (`REQ_PREFLUSH`).
    pub const PREFLUSH: Self = Self(1 << 3);
    /// Swap (`REQ_SWAP`).
    pub const SWAP: Self = Self(1 << 4);
    /// Read-ahead (`REQ_RAHEAD`).
    pub const READ_AHEAD: Self = Self(1 << 5);
    /// It failed.
    pub const ERROR: Self = Self(1 << 6);
    /// Past the page cache (`O_DIRECT`).
    pub const DIRECT: Self = Self(1 << 7);
    /// In the background, for write-back (`REQ_BACKGROUND`).
    pub const BACKGROUND: Self = Self(1 << 8);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
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
    /// How long it had waited for its issue, in nanoseconds; [`NOT_KNOWN`].
    pub queued_ns: u64,
    /// From issue to completion, in nanoseconds; [`NOT_KNOWN`].
    pub latency_ns: u64,
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for flushes.
    pub len_bytes: u64,
    /// Inode of the file; 0 where it is not known.
    pub inode: u64,
    /// Id of the control group; 0 where it is not known.
    pub cgroup: u64,
    /// Volume, in [`crate::Names::volumes`].
    pub volume: u32,
    /// Name of the process, in [`crate::Names::processes`]; 0 where it is not known.
    pub process: u32,
    /// Its id; 0 where it is not known.
    pub pid: u32,
    /// Path of the file, in [`crate::Names::paths`]; 0 where it is not known.
    pub path: u32,
    /// Class that the trace gives it (Open CAS); [`Request::NO_CLASS`].
    pub io_class: u16,
    /// Requests at the device when it was issued, itself included; 0 where it is not known, 65,535 for so many or more.
    pub depth: u16,
    /// What the host said of it.
    pub flags: Flags,
    /// What it does.
    pub op: Op,
    /// How long its data will live, by its writer.
    pub lifetime: Lifetime,
}

impl Request {
    /// No class.
    pub const NO_CLASS: u16 = u16::MAX;

    /// A request of which nothing else is known.
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

    /// Whether it puts new data on the device.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.op, Op::Write | Op::WriteZeroes)
    }
}
