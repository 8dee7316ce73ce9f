//! The device trait: vectored reads and writes at logical-block granularity with a stream hint, flush, FUA, discard
//! and write-zeroes. Submission never blocks on the medium; completions are polled.

use crate::buf::{Buf, SharedBuf};
use crate::geometry::Geometry;
use std::fmt;

/// One item, or several in order. The variant for one item avoids an allocation, since most I/O has one buffer.
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

/// An operation on a device. Offsets and lengths are multiples of its logical block.
#[derive(Debug)]
pub enum Op {
    /// Fills the buffers from the device. The completion returns the buffers, also on an error.
    Read {
        /// Destination.
        bufs: Vectored<Buf>,
        /// How often this was read before with a wrong result. A device with several copies reads another copy each
        /// time; others read the same place again.
        attempt: u8,
    },
    /// Writes the buffers.
    Write {
        /// Source.
        bufs: Vectored<SharedBuf>,
        /// Whether the write must be durable when complete, without a separate flush.
        fua: bool,
    },
    /// Makes all writes durable that completed before the flush was submitted.
    Flush,
    /// The content of the range is no longer needed.
    Discard {
        /// Length in bytes.
        len_bytes: u64,
    },
    /// Makes the range read as zeros.
    WriteZeroes {
        /// Length in bytes.
        len_bytes: u64,
    },
}

impl Op {
    /// Attempt number of a comparing read. A device with parity also reads the parity, and fails with
    /// [`IoErrorKind::Mismatch`] where it does not match the data. Other devices just read.
    pub const COMPARE: u8 = u8::MAX;

    /// Bit in the attempt: a device with several copies returns this copy or fails. Without the bit, another copy
    /// replaces one that cannot be read, and an error in it goes unnoticed.
    pub const ALONE: u8 = 1 << 6;

    /// A first read into `bufs`.
    #[must_use]
    pub fn read(bufs: Vectored<Buf>) -> Self {
        Self::Read { bufs, attempt: 0 }
    }

    /// Name of the operation in messages.
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

    /// Length of the range in bytes; 0 for a flush. Saturates, so that a hostile sum fails range checks instead of
    /// wrapping.
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
    /// Number of the write stream: data expected to die together has the same number. 0 means no hint.
    pub stream: u8,
    /// The operation.
    pub op: Op,
}

/// The completion of a request.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// Success, or the error.
    pub result: Result<(), IoError>,
    /// The buffers of a read; `None` for other operations.
    pub bufs: Option<Vectored<Buf>>,
}

/// Kind of a device error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoErrorKind {
    /// The medium or its transport failed (EIO and similar).
    Medium,
    /// What the device itself stores for this place, such as an object in a bucket, does not exist. No later read
    /// will find it.
    Missing,
    /// The device is not there any more.
    Gone,
    /// The device, or the file system under a file, has no space left.
    NoSpace,
    /// Fewer bytes were transferred than requested.
    Short,
    /// The request was outside the device or not aligned, which is a bug of the caller.
    Invalid,
    /// The device does not support this operation.
    Unsupported,
    /// The data read does not match the device's parity: restoring it from parity would give other data
    /// ([`Op::COMPARE`]).
    Mismatch,
}

/// A device error: kind, place, and errno where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoError {
    /// Kind of the error.
    pub kind: IoErrorKind,
    /// Name of the operation ("read", "write", "flush", ...).
    pub operation: &'static str,
    /// Byte offset on the device.
    pub offset_bytes: u64,
    /// Errno; 0 where there is none.
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

/// A block device, real or modelled. It has one owner. Requests may complete in any order.
pub trait Device: Send {
    /// Path or URI of the device, for messages.
    fn name(&self) -> &str;

    /// Size, logical block, band, volatile cache.
    fn geometry(&self) -> &Geometry;

    /// Accepts a request, which may start at once or be queued until [`Device::poll`]. Never waits for the medium.
    /// The caller keeps at most [`Device::queue_limit`] requests in flight.
    fn submit(&mut self, request: Request);

    /// Starts queued requests as one batch, and moves completions to `done`. Never waits.
    fn poll(&mut self, done: &mut Vec<Completion>);

    /// Waits until a request in flight has completed or `timeout_ns` has passed. Returns at once where nothing is in
    /// flight. [`Device::poll`] returns the completions.
    fn wait(&mut self, timeout_ns: u64);

    /// Appends the descriptors that become readable (poll(2) POLLIN) when completions wait, for event loops: none where
    /// requests complete inside `submit` or `poll`, several where the device consists of several.
    fn wake_fds(&self, _out: &mut Vec<i32>) {}

    /// Whether requests are in flight whose completion no descriptor signals, so that the device must be polled. A
    /// device that passes on descriptors of others and also completes requests itself has to say so.
    fn completes_unseen(&self) -> bool {
        let mut fds = Vec::new();
        self.wake_fds(&mut fds);
        fds.is_empty() && self.in_flight() > 0
    }

    /// Most requests in flight.
    fn queue_limit(&self) -> usize;

    /// Requests that were submitted and whose completion `poll` has not returned.
    fn in_flight(&self) -> usize;

    /// In virtual time: when the next event happens inside; `u64::MAX` where the device is idle, and for devices in
    /// real time.
    fn next_event_ns(&self) -> u64 {
        u64::MAX
    }

    /// In virtual time: processes events up to and including `to_ns`, but stops at the first time at which requests
    /// complete. Returns that time; the next [`Device::poll`] returns the completions.
    fn advance(&mut self, _to_ns: u64) -> Option<u64> {
        None
    }
}

/// Methods of [`Device`] that a wrapper passes on to the device within, named one by one:
/// `forward_device!(self => self.inner; name geometry wake_fds);`. `virtual_time` is [`Device::next_event_ns`] with
/// [`Device::advance`].
#[macro_export]
macro_rules! forward_device {
    ($self:ident => $inner:expr; $($method:ident)*) => {
        $($crate::forward_device!(@ $method $self $inner);)*
    };
    (@ name $self:ident $inner:expr) => {
        fn name(&$self) -> &str {
            $inner.name()
        }
    };
    (@ geometry $self:ident $inner:expr) => {
        fn geometry(&$self) -> &$crate::Geometry {
            $inner.geometry()
        }
    };
    (@ submit $self:ident $inner:expr) => {
        fn submit(&mut $self, request: $crate::Request) {
            $inner.submit(request);
        }
    };
    (@ poll $self:ident $inner:expr) => {
        fn poll(&mut $self, done: &mut Vec<$crate::Completion>) {
            $inner.poll(done);
        }
    };
    (@ wait $self:ident $inner:expr) => {
        fn wait(&mut $self, timeout_ns: u64) {
            $inner.wait(timeout_ns);
        }
    };
    (@ wake_fds $self:ident $inner:expr) => {
        fn wake_fds(&$self, out: &mut Vec<i32>) {
            $inner.wake_fds(out);
        }
    };
    (@ completes_unseen $self:ident $inner:expr) => {
        fn completes_unseen(&$self) -> bool {
            $inner.completes_unseen()
        }
    };
    (@ queue_limit $self:ident $inner:expr) => {
        fn queue_limit(&$self) -> usize {
            $inner.queue_limit()
        }
    };
    (@ in_flight $self:ident $inner:expr) => {
        fn in_flight(&$self) -> usize {
            $inner.in_flight()
        }
    };
    (@ virtual_time $self:ident $inner:expr) => {
        fn next_event_ns(&$self) -> u64 {
            $inner.next_event_ns()
        }
        fn advance(&mut $self, to_ns: u64) -> Option<u64> {
            $inner.advance(to_ns)
        }
    };
}

/// So that wrappers take devices whose type is known only at run time.
impl<D: Device + ?Sized> Device for Box<D> {
    crate::forward_device!(self => (**self);
        name geometry submit poll wait wake_fds completes_unseen queue_limit in_flight virtual_time);
}
