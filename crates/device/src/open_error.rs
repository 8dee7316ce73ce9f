//! Errors of opening a target.

use crate::file::Holder;
use std::io;
use std::path::PathBuf;

/// The reason why a target could not be opened: what failed, where, and what to do where that is known.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system refused.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Somebody else has it.
    #[error("{} {holder}", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
        /// Who that is, as far as it is known.
        holder: Holder,
    },
    /// The path is neither a regular file nor a block device.
    #[error("{} is neither a regular file nor a block device", path.display())]
    NotStorage {
        /// The path.
        path: PathBuf,
    },
    /// The file or device is too small.
    #[error("{} is too small ({size_bytes} bytes): give it a size first, e.g. truncate -s 1G", path.display())]
    TooSmall {
        /// The path.
        path: PathBuf,
        /// Its size in bytes.
        size_bytes: u64,
    },
    /// The device can only be written sequentially.
    #[error("{} is a host-managed zoned device, which cannot be written at random", path.display())]
    HostManaged {
        /// The path.
        path: PathBuf,
    },
    /// A property that is needed could not be read.
    #[error("cannot find out the {what} of {}: {source}", path.display())]
    Probe {
        /// The path.
        path: PathBuf,
        /// Name of the property.
        what: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The target is only for load generation.
    #[error("{target} can only be measured, no pool can be made over it; {advice}")]
    NotADevice {
        /// The target.
        target: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// The target cannot be the base of a disk.
    #[error("{target} cannot be the base of a disk, which is a file or a block device; {advice}")]
    NotABase {
        /// The target.
        target: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// The model does not exist or cannot be built.
    #[error("{target}: {source}")]
    Model {
        /// The target.
        target: String,
        /// The reason.
        source: crate::modelled::ModelError,
    },
    /// The store of an emulated drive does not exist.
    #[error("{target}: its store {} is not there: make it (truncate -s {size_bytes} {}), or correct store=", path.display(), path.display())]
    NoStore {
        /// The target.
        target: String,
        /// Path of the store.
        path: PathBuf,
        /// Size of the drive, in bytes.
        size_bytes: u64,
    },
    /// The store of an emulated drive has another size than the drive.
    #[error("{target}: the store has {store_bytes} bytes, the drive {size_bytes}: {advice}")]
    StoreSize {
        /// The target.
        target: String,
        /// Size of the store, in bytes.
        store_bytes: u64,
        /// Size of the drive, in bytes.
        size_bytes: u64,
        /// What to do.
        advice: &'static str,
    },
    /// A bucket cannot be used. The caller adds the name of the target.
    #[error("{source}")]
    Bucket {
        /// The target.
        target: String,
        /// The reason.
        source: crate::bucket::BucketError,
    },
    /// Memory for a RAM device could not be reserved.
    #[error("cannot reserve {size_bytes} bytes of memory: {source}")]
    Memory {
        /// The size in bytes.
        size_bytes: u64,
        /// The operating system's reason.
        source: io::Error,
    },
}
