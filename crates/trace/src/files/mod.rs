//! Watches live what lies where in a mounted file system: names, sizes, lifetime hints and places on the disk.
//!
//! [`Watch`] runs its own thread. The thread handles the events of the whole file system (fanotify(7), with file and name, so that even
//! short-lived files have a name), reads all folders once, and looks at files that were created or written: at most every 250 ms while they
//! are being written, and again at growing intervals while data has no place yet. Places come from FIEMAP, plus the beginning of the
//! partition. Changes without an event (writes through a mapping, or by io_submit(2)) are found when the file is closed, or by walks every
//! 30 seconds to ten minutes. If the kernel refuses events, the thread walks at intervals instead, and reports so.
//!
//! Between looks nothing on the mount is open, so that it can be unmounted, which ends the watch. Everything is bounded: files, extents,
//! depth, length of paths, waiting changes, and the share of a CPU. Measured unoptimised on two busy cores: 15 microseconds of CPU for each
//! file of the first walk (4 without places), and below 1 % of a CPU while fio or db_bench writes.
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

/// A contiguous range of a file's data on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Byte offset on the whole disk.
    pub disk_offset_bytes: u64,
    /// Byte offset in the file.
    pub file_offset_bytes: u64,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// Whether the place holds the file's data; otherwise it is only reserved, and holds old data.
    pub is_written: bool,
}

/// The facts about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its inode.
    pub inode: u64,
    /// Generation of the inode; together they identify the file during its life.
    pub generation: u32,
    /// Absolute path through the mount point; bytes that are not UTF-8 are replaced. If there are several paths, one of them.
    pub path: String,
    /// Size in bytes; 0 before the first look.
    pub size_bytes: u64,
    /// Hint of the inode; `None` before the first look, or if there are no hints.
    pub lifetime: Option<Lifetime>,
    /// Level of a table of RocksDB, or the level to which it is probably being written; `None` for other files, or if the level is not
    /// known (yet).
    pub level: Option<u8>,
    /// Level for which a table was written, once RocksDB's LOG reports it; moves do not change it.
    pub level_written: Option<u8>,
}

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A file is new, or differs from what was reported.
    File {
        /// All facts about the file.
        facts: FileFacts,
        /// Extents that replace those reported before, by offset in the file; `None` if those still hold. Blocks shared by several files
        /// are reported for each of them.
        extents: Option<Vec<Extent>>,
        /// When the extents were read, in nanoseconds of the monotonic clock; 0 without extents.
        seen_ns: u64,
    },
    /// A file has no name any more. It may still be open, so that its blocks are in use.
    Gone {
        /// Its inode.
        inode: u64,
        /// The inode's generation.
        generation: u32,
    },
}

/// What is watched, and the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// The mount point.
    pub mount: PathBuf,
    /// Whether places on the disk are wanted, with sizes and hints as they change. Otherwise only names are, and a file is looked at only
    /// when it is created and when it is closed after writing.
    pub with_extents: bool,
    /// Most files (about 300 bytes each), and most folders.
    pub files_max: usize,
    /// Most extents that are reported in total.
    pub extents_max: usize,
}

/// How a watch detects changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Watching {
    /// By the kernel's events.
    #[default]
    ByEvents,
    /// By walks, because there are no events. Files that live shorter than the interval of walks are not seen.
    ByWalks {
        /// Why there are no events.
        why: String,
    },
}

/// The state of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchState {
    /// How it detects changes.
    pub watching: Watching,
    /// Number of known files.
    pub files: usize,
    /// Number of extents reported for these files.
    pub extents: usize,
    /// Whether the first walk is complete, and every file that it met was looked at.
    pub is_walked: bool,
    /// Number of complete walks.
    pub walks: u64,
    /// Number of events handled.
    pub events: u64,
    /// Number of looks at files.
    pub looks: u64,
    /// How often the kernel's event queue overflowed; each time everything is walked again.
    pub lost: u64,
    /// How often a file or folder was left out because of the limits.
    pub left_out_files: u64,
    /// Number of files whose extents are only partly reported because of the limit.
    pub cut_files: usize,
    /// Number of changes that wait to be taken.
    pub waiting: usize,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// Why places on the disk are not reported although they are wanted; `None` if they are.
    pub no_extents: Option<String>,
    /// The last error.
    pub last_error: Option<String>,
    /// Why the watch has ended; `None` while it runs.
    pub ended: Option<String>,
}
