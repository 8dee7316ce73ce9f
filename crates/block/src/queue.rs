//! A queue of a target as a load generator drives it: fixed buffers, one per slot, so that no I/O allocates, copies or
//! counts references; submission apart from the call that hands it over, so that both can be timed.
//!
//! A [`crate::Device`] serves the pool, which passes buffers on; a [`Queue`] serves measurement, which must not pay
//! for that.

use crate::device::IoError;
use std::fmt;

/// What one I/O does. Each kind has figures of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OpKind {
    /// Read.
    Read = 0,
    /// Write, durable after the next flush.
    Write = 1,
    /// Write, durable when complete.
    WriteFua = 2,
    /// Discard.
    Trim = 3,
    /// Flush: of a file fdatasync(2).
    Flush = 4,
    /// fsync(2), where the target is a file; elsewhere the same as a flush.
    Fsync = 5,
}

impl OpKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 6] = [Self::Read, Self::Write, Self::WriteFua, Self::Trim, Self::Flush, Self::Fsync];

    /// Name in results.
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

    /// Whether it changes what the target holds.
    #[must_use]
    pub const fn is_destructive(self) -> bool {
        matches!(self, Self::Write | Self::WriteFua | Self::Trim)
    }

    /// Whether bytes are transferred.
    #[must_use]
    pub const fn has_data(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::WriteFua)
    }
}

/// One I/O. Data comes from, or goes to, the first `len_bytes` of the slot's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Slot, below [`Queue::slots`], not in flight.
    pub slot: u32,
    /// What it does.
    pub kind: OpKind,
    /// Bytes; 0 for flushes. At most [`Queue::buffer_bytes`] where data is transferred.
    pub len_bytes: u32,
    /// Byte offset on the target.
    pub offset_bytes: u64,
    /// What else is known of it, by a number that whoever makes I/Os shares with the target; 0 is nothing. Most targets have
    /// no use for it.
    pub hint: u32,
}

/// The end of an I/O.
#[derive(Debug)]
pub struct Done {
    /// Slot, free again.
    pub slot: u32,
    /// What failed, where something did. Boxed: failures are rare, and results pass through a hot loop.
    pub error: Option<Box<IoError>>,
}

/// How a load generator waits for completions. Said beside every result: it decides latencies of fast targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMethod {
    /// In the kernel, woken by the completion.
    #[default]
    Sleep,
    /// Looking without pause; the core stays awake.
    Spin,
    /// Looking for so many nanoseconds, then in the kernel.
    Hybrid {
        /// Nanoseconds of looking.
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

/// A queue with fixed buffers. One owner.
pub trait Queue: Send {
    /// How many I/Os may be in flight.
    fn slots(&self) -> u32;

    /// Size of each slot's buffer.
    fn buffer_bytes(&self) -> usize;

    /// The buffer of a slot that is not in flight: to be filled before a write, read after a read.
    fn buffer(&mut self, slot: u32) -> &mut [u8];

    /// Takes an I/O. Synchronous queues carry it out here; others gather it until [`Queue::kick`].
    fn submit(&mut self, io: &Io);

    /// Hands gathered I/Os to the target, in one call where it can.
    fn kick(&mut self);

    /// Appends finished I/Os to `done`. Never waits.
    fn reap(&mut self, done: &mut Vec<Done>);

    /// Sleeps until an I/O in flight has finished or `timeout_ns` has passed; returns at once where none is in flight.
    fn wait(&mut self, timeout_ns: u64);

    /// Whether [`Queue::submit`] carries the I/O out before it returns. Its latency then begins before the call, as
    /// that of a system call does; otherwise when the call that handed it over has returned.
    fn is_synchronous(&self) -> bool {
        false
    }

    /// Submitted and not reaped.
    fn in_flight(&self) -> u32;

    /// Whether the host is modelled too: then [`Queue::go_on`] is called when the caller has seen what it reaped, and
    /// time has passed after it.
    fn is_modelled(&self) -> bool {
        false
    }

    /// The thread goes on to its next I/O: a modelled host spends the time between two I/Os here.
    fn go_on(&mut self) {}

    /// How long the thread of a modelled host has worked since its begin, in nanoseconds; none where no host is modelled.
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
