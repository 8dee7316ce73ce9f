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
    #[error("the {0}, which holds the capacity-side checkpoint, is missing")]
    FirstDevice(String),
    /// The pool has no capacity-side checkpoint.
    #[error("the pool was formatted without room for checkpoints on its capacity tier")]
    NoArea,
    /// No capacity-side root is whole.
    #[error("no capacity-side checkpoint is whole ({0}): which disks there were, and what is current, is unknown")]
    Root(String),
    /// The pool was served since by a program that does not write it.
    #[error(
        "the capacity-side checkpoint {checkpoint} is of epoch {found}, but the pool was served in epoch {served}: it says nothing of what \
         was done since"
    )]
    Stale {
        /// The checkpoint.
        checkpoint: u64,
        /// Its epoch.
        found: u64,
        /// The newest epoch of a superblock.
        served: u64,
    },
    /// The map does not fit into memory.
    #[error(
        "the map of what the capacity tier holds does not fit into the {share_bytes} bytes of the memory limit that are for it; it \
         takes 18.3 bytes for each block of 4 KiB: raise memory.limit"
    )]
    Memory {
        /// What it may take.
        share_bytes: u64,
    },
    /// The pool with the map in memory is larger than the format can address.
    #[error("the pool has no room for the addresses of its map")]
    Addresses,
}
