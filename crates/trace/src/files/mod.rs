//! What lies where in a mounted file system, watched live: names, sizes, lifetime hints and places on the disk.
//!
//! [`Watch`] runs a thread of its own. It takes the events of the whole file system (fanotify(7), by file and name, so that a
//! file that lives for a moment has a name too), reads all folders once, and looks at files when they were made or written: at
//! most every 250 ms while they are being written, and again at growing rests while data have no place yet. Places are those of
//! FIEMAP, with the begin of the partition added. What no event tells (writes through a mapping, and those of io_submit(2)) is
//! found when the file is closed, or by walks every 30 seconds to ten minutes. Where the kernel refuses events, it walks with rests instead, and says so.
//!
//! Between looks nothing on the mount is open, so that it can be unmounted; then the watch ends. Everything is bounded: files,
//! extents, depth, length of paths, changes that wait, and the share of a CPU. Measured unoptimised on two busy cores: 15
//! microseconds of CPU for each file of the first walk (4 without places), below 1 % of a CPU while fio or db_bench write.
//!
//! ```text
//! fanotify -> events -> Book (Tree of names, Schedule) -> changes -> Shared -> Watch::changes
//! folders  -> Scans  ->  |                       ^
//!                        +-> look (statx, hint, FIEMAP)
//! ```

mod book;
mod error;
mod events;
mod extents;
mod handle;
#[allow(unsafe_code)]
mod kernel;
mod look;
mod place;
mod rocksdb;
mod scan;
mod schedule;
mod shared;
mod table;
mod tree;
mod watch;

pub use error::FilesError;
pub use handle::Id;
pub use kernel::own_descriptors;
pub use place::{Mount, OnDisk, Place, mounts};
pub use watch::Watch;

use crate::Lifetime;
use std::path::PathBuf;
use std::time::Duration;

/// A run of bytes of a file that lies on the disk in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Where it begins on the whole disk, in bytes.
    pub disk_offset_bytes: u64,
    /// Where it begins in the file, in bytes.
    pub file_offset_bytes: u64,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// Whether the file's data is there; else the place is only reserved, and holds what was there before.
    pub is_written: bool,
}

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its inode.
    pub inode: u64,
    /// The inode's generation: together they name the file for as long as it exists.
    pub generation: u32,
    /// Its absolute path, through the mount point; what is not UTF-8 is replaced. One of them where it has several.
    pub path: String,
    /// Its size in bytes, 0 before it was looked at.
    pub size_bytes: u64,
    /// The hint of its inode; `None` before it was looked at, or where there are no hints.
    pub lifetime: Option<Lifetime>,
    /// The level at which a table of RocksDB is, or to which it is probably being written; `None` where it is none, or the level
    /// is not known (yet).
    pub level: Option<u8>,
    /// The level for which a table's bytes were written, once RocksDB's LOG tells: moves do not change it.
    pub level_written: Option<u8>,
}

/// Something has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A file is there, or differs from what was reported.
    File {
        /// The facts, all of them.
        facts: FileFacts,
        /// Its extents in place of those reported before; `None`: those reported before still hold. By their place in the file; blocks
        /// that files share are reported for each of them.
        extents: Option<Vec<Extent>>,
        /// When it was looked at for its extents, in nanoseconds of the monotonic clock; 0 without.
        seen_ns: u64,
    },
    /// A file has no name any more. It may still be open, and its blocks used.
    Gone {
        /// Its inode.
        inode: u64,
        /// The inode's generation.
        generation: u32,
    },
}

/// What is watched, and its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// The mount point.
    pub mount: PathBuf,
    /// Whether places on the disk are wanted, and sizes and hints as they change; else names are, and a file is looked at only
    /// when it is made and when one that was written is closed.
    pub with_extents: bool,
    /// Most files (some 300 bytes each); and most folders.
    pub files_max: usize,
    /// Most extents reported in all.
    pub extents_max: usize,
}

/// How a watch learns of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Watching {
    /// By the kernel's events.
    #[default]
    ByEvents,
    /// By walking, because there are no events. What lives shorter than a walk's interval is not seen.
    ByWalks {
        /// Why.
        why: String,
    },
}

/// How a watch is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchState {
    /// How it learns of changes.
    pub watching: Watching,
    /// Files known.
    pub files: usize,
    /// Extents reported, of those files.
    pub extents: usize,
    /// Whether the first walk is complete, and every file it has met was looked at.
    pub is_walked: bool,
    /// Walks of all folders completed.
    pub walks: u64,
    /// Events taken.
    pub events: u64,
    /// Looks at files.
    pub looks: u64,
    /// How often the kernel's queue of events ran over; each time all is walked again.
    pub lost: u64,
    /// How often a file or folder was left out for the limits.
    pub left_out_files: u64,
    /// Files of which not all extents are reported, for the limit.
    pub cut_files: usize,
    /// Changes that wait to be taken.
    pub waiting: usize,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// Why places on the disk are not reported although they are wanted.
    pub no_extents: Option<String>,
    /// What failed last.
    pub last_error: Option<String>,
    /// Why it has ended; `None` while it watches.
    pub ended: Option<String>,
}
