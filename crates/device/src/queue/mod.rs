//! Queues for load generation ([`forebay_block::Queue`]): io_uring, plain calls, NBD, any device, nothing. Each has
//! fixed buffers, so that an I/O costs no allocation, and sends each I/O as it was submitted: no bounce buffers, no
//! rounding, so that what a target refuses is seen as refused.

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

/// Most slots of a queue: what can be registered with a ring (IORING_MAX_REG_BUFFERS, Linux io_uring/rsrc.h).
pub const SLOTS_MAX: u32 = 16384;
/// Largest buffer of a slot, in bytes: the longest that can be registered (Linux io_uring/rsrc.c).
pub const BUFFER_MAX_BYTES: usize = 1 << 30;
/// Most memory that the buffers of the queues of one target may take, in bytes.
pub const BUFFERS_MAX_BYTES: u64 = 64 << 30;
/// Most queues of one target.
pub const QUEUES_MAX: usize = 1024;

/// How I/O reaches a file or block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// io_uring.
    Ring {
        /// Completions are polled for in the driver instead of interrupting (IORING_SETUP_IOPOLL).
        polled: bool,
    },
    /// preadv2(2) and pwritev2(2), one I/O at a time.
    Sync {
        /// With RWF_HIPRI, as old recipes have it. Linux 5.19 and later ignore it (commit 9650b453a3d4).
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
    /// Nothing will be written: others may read the target too, as long as its [`Source`] was opened for nothing else.
    pub read_only: bool,
    /// How I/O reaches a file or block device; without effect on other targets.
    pub calls: Calls,
    /// Through the page cache instead of directly. Files and block devices only.
    pub buffered: bool,
    /// Every write durable when complete, as [`OpKind::WriteFua`] is.
    pub dsync: bool,
    /// How completions will be waited for; some queues prepare for it.
    pub wait: WaitMethod,
}

impl Default for QueueOptions {
    /// One slot of 4 KiB, read and written through io_uring, directly, sleeping.
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

/// The queues of a target and what is known of it.
pub struct OpenedQueues {
    /// One for each that was asked for.
    pub queues: Vec<Box<dyn Queue>>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Smallest unit of an I/O that the target tells, in bytes.
    pub logical_block_bytes: u32,
    /// What is really used, e.g. `file, io_uring, registered buffers, direct`.
    pub description: String,
    /// What the user should know: one sentence each.
    pub notes: Vec<String>,
    /// Whether it is a block device.
    pub block_device: bool,
}

impl std::fmt::Debug for OpenedQueues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenedQueues({} of {}, {} bytes)", self.queues.len(), self.description, self.size_bytes)
    }
}

/// The error of an I/O. Boxed as [`forebay_block::Done`] wants it.
#[cold]
fn failure(kind: IoErrorKind, op: OpKind, offset_bytes: u64, os_error: i32) -> Box<IoError> {
    Box::new(IoError { kind, operation: op.name(), offset_bytes, os_error })
}

/// Why an I/O cannot be sent at all.
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
