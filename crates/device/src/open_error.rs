//! Why a target could not be opened.

use crate::file::Holder;
use std::io;
use std::path::PathBuf;

/// Why a target could not be opened: what, where, and what to do where that is known.
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
    /// Neither a regular file nor a block device.
    #[error("{} is neither a regular file nor a block device", path.display())]
    NotStorage {
        /// The path.
        path: PathBuf,
    },
    /// There is no room in it.
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
    /// A property that is needed could not be found out.
    #[error("cannot find out the {what} of {}: {source}", path.display())]
    Probe {
        /// The path.
        path: PathBuf,
        /// The property.
        what: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A target that only a load generator can use.
    #[error("{target} can only be measured, no pool can be made over it; {advice}")]
    NotADevice {
        /// The target.
        target: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// A target that a disk cannot be laid over.
    #[error("{target} cannot be the base of a disk, which is a file or a block device; {advice}")]
    NotABase {
        /// The target.
        target: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// There is no such model.
    #[error("{target}: {source}")]
    Model {
        /// The target.
        target: String,
        /// Why.
        source: crate::modelled::ModelError,
    },
    /// The store of an emulated drive is not there.
    #[error("{target}: its store {} is not there: make it (truncate -s {size_bytes} {}), or correct store=", path.display(), path.display())]
    NoStore {
        /// The target.
        target: String,
        /// Where the store would be.
        path: PathBuf,
        /// Bytes of the drive.
        size_bytes: u64,
    },
    /// The store of an emulated drive is larger or smaller than the drive.
    #[error("{target}: the store has {store_bytes} bytes, the drive {size_bytes}: {advice}")]
    StoreSize {
        /// The target.
        target: String,
        /// Bytes of the store.
        store_bytes: u64,
        /// Bytes of the drive.
        size_bytes: u64,
        /// What to do.
        advice: &'static str,
    },
    /// A bucket cannot be used. Who opens it says which.
    #[error("{source}")]
    Bucket {
        /// The target.
        target: String,
        /// Why.
        source: crate::bucket::BucketError,
    },
    /// Memory for a RAM device could not be had.
    #[error("cannot reserve {size_bytes} bytes of memory: {source}")]
    Memory {
        /// The size in bytes.
        size_bytes: u64,
        /// The operating system's reason.
        source: io::Error,
    },
}
