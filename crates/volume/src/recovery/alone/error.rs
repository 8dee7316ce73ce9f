//! Why the capacity tier cannot be opened alone.

use crate::recovery::members::MemberError;
use thiserror::Error;

/// Why the capacity tier cannot be opened alone. Nothing was changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AloneError {
    /// The devices are not the capacity tier of one pool.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// The device with the capacity-side checkpoint is missing.
    #[error("the {device}, which holds the capacity-side checkpoint, is missing{why}")]
    FirstDevice {
        /// The device.
        device: String,
        /// Which devices were given and cannot be used, and why.
        why: String,
    },
    /// The pool has no capacity-side checkpoint.
    #[error("the pool was formatted without room for checkpoints on its capacity tier")]
    NoArea,
    /// No capacity-side root is whole.
    #[error("no capacity-side checkpoint is whole ({0}): which disks there were, and what is current, is unknown")]
    Root(String),
    /// The map does not fit into memory.
    #[error(
        "the map of what the capacity tier holds takes at least {needed_bytes} bytes, and {share_bytes} of the memory limit are for it"
    )]
    Memory {
        /// What it may take.
        share_bytes: u64,
        /// What is known to be needed; blocks that came after the checkpoint add to it.
        needed_bytes: u64,
    },
    /// The pool with the map in memory is larger than the format can address.
    #[error("the pool has no room for the addresses of its map")]
    Addresses,
}
