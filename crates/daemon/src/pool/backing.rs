//! Files as members of a pool: whether all their space is allocated, or their file system could run full under them.

use crate::config::Config;
use crate::text;
use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Unit of `st_blocks`, in bytes (stat(2)).
const STAT_BLOCK_BYTES: u64 = 512;

/// Sparse member files of one file system.
struct Shortage {
    paths: Vec<PathBuf>,
    missing_bytes: u64,
    free_bytes: u64,
}

/// One note for each file system that holds member files whose space is not fully allocated.
pub fn notes(config: &Config) -> Vec<String> {
    let mut by_file_system: BTreeMap<u64, Shortage> = BTreeMap::new();
    for path in config.targets().filter_map(|target| target.path()) {
        let Some(metadata) = path.metadata().ok().filter(|metadata| metadata.is_file()) else { continue };
        let missing_bytes = metadata.len().saturating_sub(metadata.blocks() * STAT_BLOCK_BYTES);
        // Less than a block may be missing although nothing is sparse: the file's last partial block, and parts that
        // the file system stores elsewhere.
        if missing_bytes < metadata.blksize() {
            continue;
        }
        let Ok(space) = statvfs(path) else { continue };
        let shortage = by_file_system.entry(metadata.dev()).or_insert_with(|| Shortage {
            paths: Vec::new(),
            missing_bytes: 0,
            free_bytes: space.f_bavail * space.f_frsize,
        });
        shortage.paths.push(path.to_owned());
        shortage.missing_bytes += missing_bytes;
    }
    by_file_system.values().map(Shortage::note).collect()
}

/// Allocates the start of each fast-tier file: superblock, roots and journal, up to the first slot. Where the file
/// system runs full later, a failed data write can be retried once there is room; after a failed journal write the
/// pool takes no writes until it is started again. On copy-on-write file systems (btrfs) the allocation protects the
/// first write only.
/// # Errors
/// The file system has no space for it.
pub(super) fn allocate_journal(config: &Config, len_bytes: u64) -> Result<()> {
    for path in config.fast.iter().filter_map(|member| member.target.0.path()) {
        if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
            continue;
        }
        let what = || format!("{}: no space for the journal and roots ({})", path.display(), text::size(len_bytes));
        let file = File::options().write(true).open(path).with_context(|| format!("cannot open {}", path.display()))?;
        match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, len_bytes) {
            // The file system does not support preallocation.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(error).with_context(what),
        }
    }
    Ok(())
}

impl Shortage {
    fn note(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        let (missing, free) = (text::size(self.missing_bytes), text::size(self.free_bytes));
        let (is, its) = if paths.len() == 1 { ("is", "its") } else { ("are", "their") };
        let paths = paths.join(" and ");
        if self.missing_bytes > self.free_bytes {
            format!(
                "{paths} {is} sparse: {missing} {is} not allocated, but {its} file system has only {free} free. Once that is used up, writes to \
                 the pool fail: make room, or use smaller files"
            )
        } else {
            format!(
                "{paths} {is} sparse: {missing} {is} not allocated; {its} file system has {free} free, which others may use up. Writes to \
                 the pool fail then; `fallocate -l SIZE PATH` allocates it"
            )
        }
    }
}
