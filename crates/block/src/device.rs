//! The device trait: vectored reads and writes at logical-block granularity with a stream hint, flush, FUA, discard
//! and write-zeroes. Submission never blocks on the medium; completions are polled.

use crate::buf::{Buf, SharedBuf};
use crate::geometry::Geometry;
use std::fmt;

/// One item, or several in order. Most I/O is one buffer; this keeps it free of allocation.
#[derive(Debug)]
pub enum Vectored<T> {
    /// A single buffer.
    One(T),
    /// Several buffers, contiguous on the device, in order.
    Many(Vec<T>),
}

impl<T> Vectored<T> {
    /// The buffers in order.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    /// The buffers in order, mutable.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Self::One(one) => std::slice::from_mut(one),
            Self::Many(many) => many,
        }
    }
}

/// What is asked of a device. Offsets and lengths are multiples of its logical block.
#[derive(Debug)]
pub enum Op {
    /// Fill the buffers from the device. The buffers come back in the completion, also on error.
    Read {
        /// Destination.
        bufs: Vectored<Buf>,
        /// How often this was read before and was not what it should be: a device that has several copies reads another one
        /// each time, the others read the same place once more.
        attempt: u8,
    },
    /// Write the buffers.
    Write {
        /// Source.
        bufs: Vectored<SharedBuf>,
        /// Durable when complete, without a separate flush.
        fua: bool,
    },
    /// Make all writes that completed before this was submitted durable.
    Flush,
    /// The range's content is no longer needed.
    Discard {
        /// Length in bytes.
        len_bytes: u64,
    },
    /// The range reads as zeros afterwards.
    WriteZeroes {
        /// Length in bytes.
        len_bytes: u64,
    },
}

impl Op {
    /// Attempt of a read that compares: a device with parity of its own reads that, too, and fails with [`IoErrorKind::Mismatch`] where it is not of
    /// what lies there. Others read.
    pub const COMPARE: u8 = u8::MAX;

    /// Beside an attempt: a device of several copies answers of that copy or fails. Otherwise another copy takes the place of one that cannot be read, and
    /// what is wrong beside that is seen by nobody.
    pub const ALONE: u8 = 1 << 6;

    /// A first read.
    #[must_use]
    pub fn read(bufs: Vectored<Buf>) -> Self {
        Self::Read { bufs, attempt: 0 }
    }

    /// Its name in messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Flush => "flush",
            Self::Discard { .. } => "discard",
            Self::WriteZeroes { .. } => "write-zeroes",
        }
    }

    /// Length of the range in bytes, 0 for a flush; saturates, so that hostile sums fail range checks instead of wrapping.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        let sum = |sum: u64, len: usize| sum.saturating_add(len as u64);
        match self {
            Self::Read { bufs, .. } => bufs.as_slice().iter().map(|buf| buf.len()).fold(0, sum),
            Self::Write { bufs, .. } => bufs.as_slice().iter().map(|buf| buf.len()).fold(0, sum),
            Self::Flush => 0,
            Self::Discard { len_bytes } | Self::WriteZeroes { len_bytes } => *len_bytes,
        }
    }
}

/// A request to a device.
#[derive(Debug)]
pub struct Request {
    /// Chosen by the caller, returned in the completion.
    pub tag: u64,
    /// Byte offset on the device.
    pub offset_bytes: u64,
    /// Data expected to die together carries the same number; 0 means no hint.
    pub stream: u8,
    /// The operation.
    pub op: Op,
}

/// The end of a request.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// Success, or what failed.
    pub result: Result<(), IoError>,
    /// The buffers of a read.
    pub bufs: Option<Vectored<Buf>>,
}

/// Kind of a device failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoErrorKind {
    /// The medium or its transport failed (EIO and kin).
    Medium,
    /// What the device keeps by itself for this place, as an object of a bucket, is not there: no later read will find it.
    Missing,
    /// The device is no longer there.
    Gone,
    /// The device, or the file system under a file, has no space left.
    NoSpace,
    /// Fewer bytes than asked were transferred.
    Short,
    /// The request lay outside the device or was not aligned: a bug of the caller.
    Invalid,
    /// The device does not offer this operation.
    Unsupported,
    /// What was read is not what the device's own parity says, and a read of it by that would give something else ([`Op::COMPARE`]).
    Mismatch,
}

/// A device failure: kind, where, and the operating system's error number where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoError {
    /// What kind of failure.
    pub kind: IoErrorKind,
    /// Which operation ("read", "write", "flush", ...).
    pub operation: &'static str,
    /// Byte offset on the device.
    pub offset_bytes: u64,
    /// Operating system's error number, 0 where none.
    pub os_error: i32,
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            IoErrorKind::Medium => "failed",
            IoErrorKind::Missing => "failed: what is kept for this place is not there",
            IoErrorKind::Gone => "failed: the device is gone",
            IoErrorKind::NoSpace => "failed: no space left",
            IoErrorKind::Short => "transferred too few bytes",
            IoErrorKind::Invalid => "was out of range or not aligned",
            IoErrorKind::Unsupported => "is not supported",
            IoErrorKind::Mismatch => "met parity of something else",
        };
        write!(f, "{} at offset {} {kind}", self.operation, self.offset_bytes)?;
        if self.os_error != 0 {
            write!(f, " (os error {})", self.os_error)?;
        }
        Ok(())
    }
}

impl std::error::Error for IoError {}

/// A block device, real or modelled. One owner; requests may complete in any order.
pub trait Device: Send {
    /// A name for messages: path or URI.
    fn name(&self) -> &str;

    /// Size, logical block, band, volatile cache.
    fn geometry(&self) -> &Geometry;

    /// Accepts a request. It may run at once or be queued until [`Device::poll`]; it never waits for the medium.
    /// The caller keeps at most [`Device::queue_limit`] requests in flight.
    fn submit(&mut self, request: Request);

    /// Starts what was queued (one batch) and moves finished requests to `done`. Never waits.
    fn poll(&mut self, done: &mut Vec<Completion>);

    /// Waits until at least one request in flight has finished or `timeout_ns` has passed. Returns at once where
    /// nothing is in flight. Finished requests are then found by [`Device::poll`].
    fn wait(&mut self, timeout_ns: u64);

    /// A descriptor that becomes readable (poll(2) POLLIN) when completions wait, for event loops. `None`: requests
    /// complete inside `submit` or `poll`.
    fn wake_fd(&self) -> Option<i32> {
        None
    }

    /// Whether requests are in flight whose completion no descriptor tells of: it must be polled.
    fn completes_unseen(&self) -> bool {
        self.wake_fd().is_none() && self.in_flight() > 0
    }

    /// All such descriptors, where the device is made of several.
    fn wake_fds(&self, out: &mut Vec<i32>) {
        out.extend(self.wake_fd());
    }

    /// How many requests may be in flight.
    fn queue_limit(&self) -> usize;

    /// Requests submitted and not yet handed out by `poll`.
    fn in_flight(&self) -> usize;

    /// In virtual time: when something happens next inside; `u64::MAX` where it is idle, and for devices of real time.
    fn next_event_ns(&self) -> u64 {
        u64::MAX
    }

    /// In virtual time: lets everything happen up to and including a time, but no further than to the first at which
    /// requests end. Returns that; the next [`Device::poll`] hands them out.
    fn advance(&mut self, _to_ns: u64) -> Option<u64> {
        None
    }
}
