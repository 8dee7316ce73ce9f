//! The file below the queues of one opening, which all of them share.

use super::hold::Hold;
use super::{Calls, OpenError, QueueOptions};
use crate::file::{FileOptions, OpenMode, open};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// An opened file or block device, and the hold that keeps others away from it.
#[derive(Debug)]
pub(super) struct Medium {
    file: File,
    hold: Option<Held>,
    pub(super) facts: Facts,
}

/// The hold on a file, kept as long as its queues live.
#[derive(Debug)]
struct Held {
    /// The file that carried the lock when the queues were opened.
    file: Arc<File>,
    _hold: Arc<Hold>,
}

/// Properties that decide how an I/O is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) block_device: bool,
    /// Whether I/O bypasses the page cache.
    pub(super) direct: bool,
    /// Alignment of direct I/O, in bytes.
    pub(super) block_bytes: u32,
}

/// A medium with the further facts from its opening.
pub(super) struct Opened {
    pub(super) medium: Medium,
    pub(super) size_bytes: u64,
    /// Whether io_uring may be used.
    pub(super) ring_allowed: bool,
    pub(super) notes: Vec<String>,
}

impl Medium {
    #[cfg(test)]
    pub(super) fn of(file: File, facts: Facts) -> Self {
        Self { file, hold: None, facts }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Descriptors that a ring keeps open until it has ended: the file as number 0, and the one that carries the
    /// lock. The I/O of a killed process may continue for a while, and until then nobody else must get the target.
    pub(super) fn raw_fds(&self) -> Vec<RawFd> {
        let hold = self.hold.iter().map(|held| held.file.as_raw_fd());
        std::iter::once(self.raw_fd()).chain(hold).collect()
    }
}

/// Opens a file or block device under a hold, which is raised to what the options need: exclusive for writing, shared
/// for reading.
pub(super) fn open_medium(hold: &Arc<Hold>, options: &QueueOptions) -> Result<Opened, OpenError> {
    let path = hold.path();
    let mode = if options.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
    let file_options = FileOptions { direct: !options.buffered, ..FileOptions::new(mode) };
    let explained = |error| match error {
        crate::OpenError::Open { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            OpenError::Missing { path }
        }
        other => OpenError::Target(other),
    };
    let held = hold.take(mode, file_options.timeout).map_err(explained)?;
    let opened = open::open_unlocked(path, &file_options).map_err(explained)?;
    if !is_same_file(&held, &opened.file) {
        return Err(OpenError::Replaced { path: path.to_owned() });
    }
    let facts = Facts {
        block_device: opened.medium.block_device,
        direct: opened.medium.direct,
        block_bytes: opened.medium.logical_block_bytes,
    };
    let mut notes = Vec::new();
    if !options.buffered && !facts.direct {
        notes.push(format!("{} does not do direct I/O: the page cache is measured too", path.display()));
    }
    if let Ok(metadata) = opened.file.metadata() {
        if !facts.block_device {
            note_holes(path, metadata.len(), metadata.blocks() * 512, &mut notes);
        }
        if options.calls == (Calls::Ring { polled: true }) {
            let device = if facts.block_device { metadata.rdev() } else { metadata.dev() };
            check_polling(path, facts.direct, device)?;
        }
    }
    let (size_bytes, ring_allowed) = (opened.geometry.size_bytes, file_options.ring);
    let hold = Some(Held { file: held, _hold: Arc::clone(hold) });
    Ok(Opened { medium: Medium { file: opened.file, hold, facts }, size_bytes, ring_allowed, notes })
}

/// Whether two descriptors lead to the same file, or to the same device.
fn is_same_file(one: &File, other: &File) -> bool {
    let identity = |file: &File| file.metadata().ok().map(|known| (known.dev(), known.ino(), known.rdev()));
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

fn note_holes(path: &Path, size_bytes: u64, allocated_bytes: u64, notes: &mut Vec<String>) {
    // Metadata of the file system may count as allocated, so a few blocks more or less prove nothing.
    if allocated_bytes < size_bytes - size_bytes / 64 {
        let percent = (size_bytes - allocated_bytes) as f64 * 100.0 / size_bytes as f64;
        notes.push(format!(
            "{percent:.0} % of {} are holes: reads of them never reach the disk; fill it first",
            path.display()
        ));
    }
}

/// Polling needs direct I/O and a driver with poll queues (Documentation/ABI/stable/sysfs-block, queue/io_poll).
fn check_polling(path: &Path, direct: bool, device: u64) -> Result<(), OpenError> {
    let base = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    // A partition has no queue of its own; its parent directory is the disk.
    let candidates = [format!("{base}/queue"), format!("{base}/../queue")];
    let found = candidates.iter().find_map(|queue| {
        let text = std::fs::read_to_string(format!("{queue}/io_poll")).ok()?;
        Some((queue.clone(), text.trim().to_owned()))
    });
    let (queue, what) = match found {
        Some((_, text)) if text == "1" && direct => return Ok(()),
        Some((queue, text)) if text == "1" => (queue, "only direct I/O is polled".to_owned()),
        Some((queue, text)) => (queue.clone(), format!("{queue}/io_poll reads {text}")),
        None => (candidates[0].clone(), "no block device with a queue lies below it".to_owned()),
    };
    Err(OpenError::NoPolling { path: path.to_owned(), what, queue })
}
