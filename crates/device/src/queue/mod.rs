//! Queues for load generation ([`forebay_block::Queue`]): io_uring, plain calls, NBD, any device, null. Each has
//! fixed buffers, so that an I/O allocates nothing. Each sends an I/O exactly as submitted, without bounce buffers or
//! rounding, so that refusals of the target become visible.

#![allow(unsafe_code)]

mod arena;
mod error;
mod flight;
mod hold;
mod medium;
mod model;
mod nbd;
mod null;
mod open;
mod over_device;
mod ring;
mod ring_setup;
mod shared_device;
mod source;
mod sync;

pub use error::OpenError;
pub use model::{ModelQueue, ModelSource};
pub use nbd::NbdQueue;
pub use null::NullQueue;
pub use over_device::DeviceQueue;
pub use ring::RingQueue;
pub use source::{Source, open_queues};
pub use sync::SyncQueue;

use forebay_block::{Io, IoError, IoErrorKind, OpKind, Queue, WaitMethod};

/// Most slots of a queue, limited by what can be registered with a ring (IORING_MAX_REG_BUFFERS, Linux
/// io_uring/rsrc.h).
pub const SLOTS_MAX: u32 = 16384;
/// Largest buffer of a slot, in bytes, limited by what can be registered (Linux io_uring/rsrc.c).
pub const BUFFER_MAX_BYTES: usize = 1 << 30;
/// Most memory of the buffers of all queues of one target, in bytes.
pub const BUFFERS_MAX_BYTES: u64 = 64 << 30;
/// Most queues of one target.
pub const QUEUES_MAX: usize = 1024;

/// Kinds of system calls for I/O on a file or block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// io_uring.
    Ring {
        /// The driver is polled for completions instead of interrupting (IORING_SETUP_IOPOLL).
        polled: bool,
    },
    /// preadv2(2) and pwritev2(2), one I/O at a time.
    Sync {
        /// With RWF_HIPRI, as old recipes ask for it. Linux 5.19 and later ignore it (commit 9650b453a3d4).
        hipri: bool,
    },
}

/// How to open the queues of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// I/Os in flight per queue, 1 to [`SLOTS_MAX`].
    pub slots: u32,
    /// Longest I/O in bytes, 1 to [`BUFFER_MAX_BYTES`].
    pub buffer_bytes: usize,
    /// Nothing will be written. Others may read the target, too, as long as its [`Source`] was opened for reading
    /// only.
    pub read_only: bool,
    /// System calls for files and block devices; other targets ignore it.
    pub calls: Calls,
    /// Through the page cache instead of direct I/O. Files and block devices only.
    pub buffered: bool,
    /// Every write is durable when complete, as with [`OpKind::WriteFua`].
    pub dsync: bool,
    /// How completions will be waited for; some queues are set up for it.
    pub wait: WaitMethod,
}

impl Default for QueueOptions {
    /// One slot of 4 KiB for reads and writes through io_uring with direct I/O; waiting sleeps.
    fn default() -> Self {
        Self {
            slots: 1,
            buffer_bytes: 4096,
            read_only: false,
            calls: Calls::Ring { polled: false },
            buffered: false,
            dsync: false,
            wait: WaitMethod::Sleep,
        }
    }
}

/// The queues of a target and the facts known of it.
pub struct OpenedQueues {
    /// The queues, as many as were asked for.
    pub queues: Vec<Box<dyn Queue>>,
    /// Size of the target, in bytes.
    pub size_bytes: u64,
    /// Smallest unit of an I/O that the target reports, in bytes.
    pub logical_block_bytes: u32,
    /// The means actually used, e.g. `file, io_uring, registered buffers, direct`.
    pub description: String,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
    /// Whether the target is a block device.
    pub block_device: bool,
}

impl std::fmt::Debug for OpenedQueues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenedQueues({} of {}, {} bytes)", self.queues.len(), self.description, self.size_bytes)
    }
}

/// The error of an I/O, boxed because [`forebay_block::Done`] holds it so.
#[cold]
fn failure(kind: IoErrorKind, op: OpKind, offset_bytes: u64, os_error: i32) -> Box<IoError> {
    Box::new(IoError { kind, operation: op.name(), offset_bytes, os_error })
}

/// The error of an I/O that cannot be sent at all; `None` where it can.
#[inline]
fn refusal(io: &Io, buffer_bytes: usize) -> Option<Box<IoError>> {
    let too_long = io.kind.has_data() && io.len_bytes as usize > buffer_bytes;
    too_long.then(|| failure(IoErrorKind::Invalid, io.kind, io.offset_bytes, libc::EINVAL))
}

#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod source_tests;
#[cfg(test)]
mod tests;
