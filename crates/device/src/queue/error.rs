//! Errors of opening queues.

use crate::nbd_client::NbdError;
use std::io;
use std::path::PathBuf;

/// The reason why the queues of a target could not be opened: what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file does not exist.
    #[error(
        "{path} does not exist; to measure on a file make it first, with content, for holes are never read from the \
         disk: dd if=/dev/urandom of={path} bs=1M count=8192", path = path.display()
    )]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The target could not be opened.
    #[error(transparent)]
    Target(#[from] crate::OpenError),
    /// The path leads to another file than the one that is held.
    #[error(
        "{} is another file than the one that this session has opened before: leave it in its place while it is \
         measured, and begin again", path.display()
    )]
    Replaced {
        /// The path.
        path: PathBuf,
    },
    /// Polled completions were asked for, but the device does not support them.
    #[error(
        "{} cannot be polled: {what}. Give the driver poll queues (nvme.poll_queues=N on the kernel's command line, or \
         as option of the module nvme; then {queue}/io_poll reads 1), use direct I/O, or do not ask for polling",
        path.display()
    )]
    NoPolling {
        /// The path.
        path: PathBuf,
        /// The obstacle.
        what: String,
        /// Directory of the queue in sysfs.
        queue: String,
    },
    /// An NBD server could not be used.
    #[error("cannot use {uri}: {source}")]
    Nbd {
        /// The URI.
        uri: String,
        /// The reason.
        source: NbdError,
    },
    /// The export refuses writes.
    #[error("{uri} is read-only: the server takes no writes; plan reads only, or have it exported for writing")]
    ReadOnly {
        /// The URI.
        uri: String,
    },
    /// An option is out of its range.
    #[error("{what} is {value}: it must be 1 to {most}")]
    Option {
        /// Name of the option.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The highest value allowed.
        most: u64,
    },
    /// Memory for the buffers could not be allocated.
    #[error(
        "cannot have {size_bytes} bytes for the buffers of {slots} slots: {source}; ask for less depth or smaller I/O"
    )]
    Buffers {
        /// Size in bytes.
        size_bytes: u64,
        /// Count of slots.
        slots: u32,
        /// The operating system's reason.
        source: io::Error,
    },
}
