//! Why a change of disks was refused, in words for its operator.

use crate::map::index::INDEX_SPAN_BYTES;
use forebay_block::size::format_size;
use thiserror::Error;

/// Longest disk name in bytes.
pub const DISK_NAME_MAX: usize = 64;
/// Most disks of a pool.
pub const DISKS_MAX: usize = 1024;

/// Why a change was refused. Nothing was changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AdminError {
    /// No disk of this name.
    #[error("there is no disk named {0:?}")]
    NoDisk(String),
    /// The name is taken.
    #[error(
        "there is a disk named {0:?} already: give the new one another name (`forebay disk CONFIG list` shows all)"
    )]
    NameTaken(String),
    /// The name cannot be used.
    #[error("a disk name has 1 to {DISK_NAME_MAX} characters out of letters, digits, '-', '_' and '.', not {0:?}")]
    BadName(String),
    /// The size is not usable.
    #[error("a disk size is a multiple of 4096 bytes from 4096 on, not {0}")]
    BadSize(u64),
    /// The disks would not fit.
    #[error(
        "{wanted_bytes} bytes do not fit: the largest size that does is {} ({free_bytes} bytes){}",
        format_size(*free_bytes), promised(*free_bytes, *usable_bytes)
    )]
    TooLarge {
        /// The size that was asked for.
        wanted_bytes: u64,
        /// Bytes that are not promised to disks.
        free_bytes: u64,
        /// Bytes usable in all.
        usable_bytes: u64,
    },
    /// The map of the disks would not fit on the fast tier.
    #[error(
        "the fast tier has no room for the map of such a disk: with {wanted_bytes} bytes the map of all disks, once they are full, would take {} of {}; the \
         largest size for which there is room is {} ({largest_bytes} bytes). Make it so large at most, or take a larger fast tier (a 300th of the disks and \
         more); where the disks are never to be full, pool.overcommit lets it in",
        format_size(*map_bytes), format_size(*fast_bytes), format_size(*largest_bytes)
    )]
    MapTooLarge {
        /// Asked for.
        wanted_bytes: u64,
        /// Bytes that the map would take.
        map_bytes: u64,
        /// Bytes that the fast tier has.
        fast_bytes: u64,
        /// The largest size for which there is room.
        largest_bytes: u64,
    },
    /// The index of the map would not fit into memory.
    #[error("the map of these disks needs {needed_bytes} bytes of memory, and the engine may have {limit_bytes}")]
    Memory {
        /// Bytes that are needed.
        needed_bytes: u64,
        /// Bytes that the engine may have.
        limit_bytes: u64,
    },
    /// Data that stays on the fast tier leaves no room there for the map.
    #[error(
        "the fast tier has no room for the map of such a disk: {needed} slots of 4 KiB are missing; make it smaller, or \
         place a class that stays on the fast tier elsewhere (its data moves then)"
    )]
    NoRoomForMap {
        /// Slots that are missing.
        needed: u64,
    },
    /// The root has no room for the index of the map.
    #[error(
        "what each checkpoint writes has room for {fits} parts of the map beside these disks, each of up to {} of one disk, and {needed} would be needed: \
         remove a disk that is not needed, or make it smaller; where the disks are never to be full, pool.overcommit lets more in",
        format_size(INDEX_SPAN_BYTES)
    )]
    NoRoomInRoot {
        /// Index pages that would be needed.
        needed: u64,
        /// Index pages for which there is room.
        fits: u64,
    },
    /// Data lies beyond the new end.
    #[error("data is mapped beyond the new end of disk {0:?}: discard it first")]
    MappedBeyond(String),
    /// Requests go beyond the new end, or a checkpoint is in progress.
    #[error(
        "requests beyond the new end of disk {0:?}, or a checkpoint, are in progress: try again without such requests"
    )]
    InUse(String),
    /// The disk still holds data, or requests for it are in progress.
    #[error("disk {0:?} still holds data: discard it first")]
    NotEmpty(String),
    /// The disk lies over a base.
    #[error("disk {0:?} lies over a base: it can be made smaller when that is detached")]
    HasBase(String),
    /// The disk lies over nothing.
    #[error("disk {0:?} has no base: there is nothing to detach")]
    NoBase(String),
    /// The base is still needed.
    #[error(
        "the base of disk {name:?} is needed yet: the pool was seen to have {done_blocks} of its {blocks} blocks of 4 KiB{why}"
    )]
    BaseNeeded {
        /// The disk.
        name: String,
        /// Blocks that the pool was seen to have.
        done_blocks: u64,
        /// Blocks of the base.
        blocks: u64,
        /// What could not be copied, and why, where that is known; follows the rest of the sentence.
        why: String,
    },
    /// Copied blocks may have been lost, or the capacity tier alone would still need the base.
    #[error("the base of disk {name:?} is needed yet: {why}")]
    BaseKept {
        /// The disk.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// The base is longer than the disk, or empty.
    #[error("a base has at least one block of 4 KiB, and not more than the disk: this one has {blocks}")]
    BadBase {
        /// Blocks of the base.
        blocks: u64,
    },
    /// Too many disks.
    #[error("a pool has at most {DISKS_MAX} disks")]
    TooMany,
    /// Recovery could not hold what the journal names now beside the map of such a disk.
    #[error(
        "the journal names more of the map than fits into memory beside a disk of that size: try again in a few seconds, with fewer requests in progress"
    )]
    Busy,
    /// The pool takes no changes.
    #[error("the pool is read-only: {0}")]
    ReadOnly(String),
}

/// The end of the message where some space is promised to other disks.
fn promised(free_bytes: u64, usable_bytes: u64) -> String {
    if free_bytes == usable_bytes {
        return String::new();
    }
    format!("; of {usable_bytes} usable bytes the rest is promised to other disks")
}
