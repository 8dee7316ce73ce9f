//! The queue of a target for a load generator. Each slot has a fixed buffer, so that no I/O allocates, copies or
//! counts references. Gathering I/Os and submitting them are separate calls, so that both can be timed.
//!
//! A [`crate::Device`] serves the pool, which passes buffers on. A [`Queue`] serves measurement, which must not pay
//! for that.

use crate::device::IoError;
use std::fmt;

/// Kinds of I/O. Results are kept for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OpKind {
    /// Read.
    Read = 0,
    /// Write; durable after the next flush.
    Write = 1,
    /// Write; durable when complete.
    WriteFua = 2,
    /// Discard.
    Trim = 3,
    /// Flush; on a file fdatasync(2).
    Flush = 4,
    /// fsync(2) on a file; elsewhere the same as a flush.
    Fsync = 5,
}

impl OpKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 6] = [Self::Read, Self::Write, Self::WriteFua, Self::Trim, Self::Flush, Self::Fsync];

    /// Name of the kind in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteFua => "write-fua",
            Self::Trim => "trim",
            Self::Flush => "flush",
            Self::Fsync => "fsync",
        }
    }

    /// Whether this kind changes the content of the target.
    #[must_use]
    pub const fn is_destructive(self) -> bool {
        matches!(self, Self::Write | Self::WriteFua | Self::Trim)
    }

    /// Whether this kind transfers data.
    #[must_use]
    pub const fn has_data(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::WriteFua)
    }
}

/// One I/O. Its data is in the first `len_bytes` of the slot's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Slot: below [`Queue::slots`], and not in flight.
    pub slot: u32,
    /// Kind of the I/O.
    pub kind: OpKind,
    /// Length in bytes; 0 for flushes. At most [`Queue::buffer_bytes`] for kinds that transfer data.
    pub len_bytes: u32,
    /// Byte offset on the target.
    pub offset_bytes: u64,
    /// A hint: a number whose meaning generator and target share; 0 for none. Most targets ignore it.
    pub hint: u32,
}

/// A completed I/O.
#[derive(Debug)]
pub struct Done {
    /// The slot, which is free again.
    pub slot: u32,
    /// The error; `None` on success. Boxed, because errors are rare and results pass through a hot loop.
    pub error: Option<Box<IoError>>,
}

/// How a load generator waits for completions. Stated with every result, because it decides the latencies of fast
/// targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMethod {
    /// Sleeps in the kernel until a completion.
    #[default]
    Sleep,
    /// Polls without pause; the core stays busy.
    Spin,
    /// Polls for some time, then sleeps.
    Hybrid {
        /// Polling time in nanoseconds.
        spin_ns: u64,
    },
}

impl fmt::Display for WaitMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sleep => f.write_str("sleep"),
            Self::Spin => f.write_str("spin"),
            Self::Hybrid { spin_ns } => write!(f, "hybrid ({} us)", *spin_ns as f64 / 1e3),
        }
    }
}

/// A queue with fixed buffers. It has one owner.
pub trait Queue: Send {
    /// Most I/Os in flight.
    fn slots(&self) -> u32;

    /// Size of each slot's buffer, in bytes.
    fn buffer_bytes(&self) -> usize;

    /// The buffer of a slot that is not in flight. The caller fills it before a write, and finds the data there after
    /// a read.
    fn buffer(&mut self, slot: u32) -> &mut [u8];

    /// Accepts an I/O. Synchronous queues carry it out here; others gather it until [`Queue::kick`].
    fn submit(&mut self, io: &Io);

    /// Submits gathered I/Os to the target, in one call where possible.
    fn kick(&mut self);

    /// Appends completed I/Os to `done`. Never waits.
    fn reap(&mut self, done: &mut Vec<Done>);

    /// Sleeps until an I/O in flight has completed or `timeout_ns` has passed. Returns at once where none is in
    /// flight.
    fn wait(&mut self, timeout_ns: u64);

    /// Whether [`Queue::submit`] carries out the I/O before it returns. The latency then begins before the call, as
    /// that of a system call; otherwise when the call that submitted it has returned.
    fn is_synchronous(&self) -> bool {
        false
    }

    /// I/Os submitted and not reaped.
    fn in_flight(&self) -> u32;

    /// Whether the host is modelled, too. Then the caller calls [`Queue::go_on`] after it has processed what it
    /// reaped, and time passes there.
    fn is_modelled(&self) -> bool {
        false
    }

    /// The thread continues with its next I/O. A modelled host spends the time between two I/Os here.
    fn go_on(&mut self) {}

    /// How long the thread of a modelled host has worked since it began, in nanoseconds; `None` where no host is
    /// modelled.
    fn host_work_ns(&self) -> Option<u64> {
        None
    }
}

impl<Q: Queue + ?Sized> Queue for Box<Q> {
    fn slots(&self) -> u32 {
        (**self).slots()
    }
    fn buffer_bytes(&self) -> usize {
        (**self).buffer_bytes()
    }
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        (**self).buffer(slot)
    }
    fn submit(&mut self, io: &Io) {
        (**self).submit(io);
    }
    fn kick(&mut self) {
        (**self).kick();
    }
    fn reap(&mut self, done: &mut Vec<Done>) {
        (**self).reap(done);
    }
    fn wait(&mut self, timeout_ns: u64) {
        (**self).wait(timeout_ns);
    }
    fn is_synchronous(&self) -> bool {
        (**self).is_synchronous()
    }
    fn in_flight(&self) -> u32 {
        (**self).in_flight()
    }

    fn is_modelled(&self) -> bool {
        (**self).is_modelled()
    }

    fn go_on(&mut self) {
        (**self).go_on();
    }

    fn host_work_ns(&self) -> Option<u64> {
        (**self).host_work_ns()
    }
}
