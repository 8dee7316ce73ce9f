//! Finds the paths of files that requests belong to, without delaying requests: the mounts of the recorded disks are watched, so that even
//! short-lived files have names.

use super::disk::{Disk, Target};
use super::output::{FileId, Output};
use crate::files::{Change, Mount, Watch, WatchOptions, WatchState, mounts};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most file systems that are watched.
const WATCHES_MAX: usize = 16;
/// Most files that are known for each file system (about 300 bytes each).
const FILES_MAX: usize = 1 << 20;
/// How often new mounts are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most changes taken from a watch in one iteration.
const TURN_CHANGES: usize = 1 << 14;
/// Longest wait at the end, for first walks and for the last changes.
const END_MAX: Duration = Duration::from_secs(5);
/// A watch counts as finished if nothing arrives for this long: longer than the interval of looks into a LOG of RocksDB.
const QUIET: Duration = Duration::from_millis(700);

/// The watches of a capture.
#[derive(Debug)]
pub(super) struct Paths {
    disks: Vec<Disk>,
    watches: BTreeMap<u32, Watch>,
    /// File systems that requests belong to.
    seen: HashSet<u32>,
    /// Ids of mounts that cannot be watched.
    refused: HashSet<i32>,
    looked: Instant,
    is_due: bool,
    changes: Vec<Change>,
}

fn number(mount: &Mount) -> u32 {
    mount.number.0 << 20 | mount.number.1 & 0xf_ffff
}

impl Paths {
    /// Watches everything that is mounted from these disks now, or will be.
    pub fn start(disks: &[Disk]) -> Self {
        let mut paths = Self {
            disks: disks.to_vec(),
            watches: BTreeMap::new(),
            seen: HashSet::new(),
            refused: HashSet::new(),
            looked: Instant::now(),
            is_due: false,
            changes: Vec::new(),
        };
        paths.look();
        paths
    }

    /// Notes that a request belongs to this file system, which may lie on the disk indirectly.
    pub fn saw(&mut self, file_system: u32) {
        if file_system != 0 && self.seen.len() < WATCHES_MAX * 4 && self.seen.insert(file_system) {
            self.is_due |= !self.watches.contains_key(&file_system);
        }
    }

    fn is_ours(&self, mount: &Mount) -> bool {
        if self.seen.contains(&number(mount)) {
            return true;
        }
        let target = match mount.number.0 {
            // A file system with its own device number (btrfs): the mount names the block device.
            0 if mount.source.starts_with("/dev/") => Target::of_device(&mount.source),
            0 => return false,
            _ => Target::of_number(&mount.source.display().to_string(), mount.number),
        };
        target.is_ok_and(|target| self.disks.contains(&target.disk))
    }

    /// Looks for mounts that are to be watched.
    fn look(&mut self) {
        self.looked = Instant::now();
        self.is_due = false;
        self.watches.retain(|_, watch| watch.state().ended.is_none());
        let mut mounts = mounts().unwrap_or_default();
        // Whole file systems before parts of them.
        mounts.sort_by_key(|mount| mount.root != Path::new("/"));
        for mount in mounts {
            let number = number(&mount);
            let is_new = !self.watches.contains_key(&number) && !self.refused.contains(&mount.id);
            if !is_new || self.watches.len() >= WATCHES_MAX || !self.is_ours(&mount) {
                continue;
            }
            let options =
                WatchOptions { mount: mount.point, with_extents: false, files_max: FILES_MAX, extents_max: 0 };
            match Watch::start(options) {
                // Another file system may be mounted over it.
                Ok(watch) if watch.place().mount.id == mount.id => drop(self.watches.insert(number, watch)),
                // Its files are then only known by their numbers.
                _ => drop(self.refused.insert(mount.id)),
            }
        }
    }

    /// Passes new findings on to the output; true if there were any.
    pub fn turn(&mut self, output: &mut Output) -> bool {
        if self.is_due || self.looked.elapsed() >= LOOK_EVERY {
            self.look();
        }
        let mut any = false;
        for (&file_system, watch) in &mut self.watches {
            watch.changes(TURN_CHANGES, &mut self.changes);
            for change in self.changes.drain(..) {
                any = true;
                match change {
                    Change::File { facts, .. } => {
                        let file = FileId { file_system, inode: facts.inode, generation: facts.generation };
                        output.add_path(file, facts.path, facts.level_written);
                    }
                    Change::Gone { inode, generation } => output.gone(FileId { file_system, inode, generation }),
                }
            }
        }
        any
    }

    /// Waits for findings that are on their way, and passes them on. Returns the state of each watch.
    pub fn finish(mut self, output: &mut Output) -> Vec<(PathBuf, WatchState)> {
        let begun = Instant::now();
        let mut quiet = Instant::now();
        while begun.elapsed() < END_MAX && quiet.elapsed() < QUIET {
            let is_walking = |watch: &Watch| {
                let state = watch.state();
                state.ended.is_none() && !state.is_walked
            };
            if self.turn(output) || self.watches.values().any(is_walking) {
                quiet = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let state = |watch: &Watch| (watch.place().mount.point.clone(), watch.state());
        self.watches.values().map(state).collect()
    }
}
