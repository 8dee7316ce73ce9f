//! Finds content that no signature explains. On a device the first, the last and sampled blocks are read; of an
//! ordinary file all data, since the file system knows its holes.

use crate::blocking;
use crate::file::kernel::{next_data, next_hole};
use forebay_block::{Device, IoError, Random};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes read completely at each end: headers and labels, and the copies of them that many formats keep.
const END_BYTES: u64 = 1 << 20;
/// Longest single read, in bytes.
const READ_BYTES: u64 = 256 << 10;
/// Sampled blocks between the ends, one in each of as many equal parts. Reading them takes half a second on an SSD
/// and some seconds on a hard disk.
const SAMPLES: u64 = 512;
const SAMPLE_BYTES: u64 = 4096;
/// Samples lie at the same places each time, so that a refusal can be reproduced.
const SEED: u64 = 1;

/// Most data of a file that is read, which takes seconds. A larger file is sampled like a device.
const FILE_BYTES_MAX: u64 = 16 << 30;

/// The content found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// Offset of the first byte that is not zero.
    At(u64),
    /// A part that cannot be read, and therefore may hold anything.
    Unread {
        /// Offset of the part, in bytes.
        at: u64,
        /// The error.
        why: String,
    },
}

impl fmt::Display for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at) => write!(f, "content that is not known (it is not zero at byte {at})"),
            Self::Unread { at, why } => write!(f, "something that cannot be read at byte {at} ({why})"),
        }
    }
}

/// The content of an ordinary file; `None` where all its data is zero, or it is no ordinary file.
#[must_use]
pub fn file_content(path: &Path) -> Option<FileContent> {
    if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    look(path).unwrap_or_else(|(at, error)| Some(FileContent::Unread { at, why: error.to_string() }))
}

fn look(path: &Path) -> Result<Option<FileContent>, (u64, io::Error)> {
    let file = File::open(path).map_err(|error| (0, error))?;
    let mut bytes = vec![0; READ_BYTES as usize];
    let (mut at, mut looked_at_bytes) = (0, 0);
    while let Some(start) = next_data(file.as_fd(), at).map_err(|error| (at, error))? {
        let end = next_hole(file.as_fd(), start).map_err(|error| (start, error))?.unwrap_or(start);
        at = start;
        while at < end {
            if looked_at_bytes >= FILE_BYTES_MAX {
                return Ok(None);
            }
            let len = (end - at).min(READ_BYTES) as usize;
            let count = file.read_at(&mut bytes[..len], at).map_err(|error| (at, error))?;
            if count == 0 {
                // The file was truncated meanwhile.
                return Ok(None);
            }
            if let Some(place) = bytes[..count].iter().position(|&byte| byte != 0) {
                return Ok(Some(FileContent::At(at + place as u64)));
            }
            at += count as u64;
            looked_at_bytes += count as u64;
        }
        if end <= start {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Offset of the first byte that is not zero in the blocks that are read; `None` where all of them are zero. The
/// device must be idle.
///
/// # Errors
/// The device's: a block that cannot be read must not count as empty.
pub fn first_content(device: &mut dyn Device) -> Result<Option<u64>, IoError> {
    let size_bytes = device.geometry().size_bytes;
    let tail = size_bytes.saturating_sub(END_BYTES).max(END_BYTES.min(size_bytes));
    if let Some(at) = in_range(device, 0, END_BYTES.min(size_bytes))? {
        return Ok(Some(at));
    }
    let middle = tail.saturating_sub(END_BYTES);
    if middle <= SAMPLES * SAMPLE_BYTES {
        if let Some(at) = in_range(device, END_BYTES.min(size_bytes), tail)? {
            return Ok(Some(at));
        }
    } else {
        let mut random = Random::new(SEED);
        let part = middle / SAMPLES / SAMPLE_BYTES;
        for sample in 0..SAMPLES {
            let block = sample * part + random.next_u64() % part;
            let start = END_BYTES + block * SAMPLE_BYTES;
            if let Some(at) = in_range(device, start, start + SAMPLE_BYTES)? {
                return Ok(Some(at));
            }
        }
    }
    in_range(device, tail, size_bytes)
}

/// Offset of the first byte from `start` to `end` that is not zero.
fn in_range(device: &mut dyn Device, start: u64, end: u64) -> Result<Option<u64>, IoError> {
    let mut at = start;
    while at < end {
        let len = (end - at).min(READ_BYTES);
        let bytes = blocking::read_any(device, at, len as usize)?;
        if let Some(place) = bytes.iter().position(|&byte| byte != 0) {
            return Ok(Some(at + place as u64));
        }
        at += len;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a file of gigabytes with an island of data between two samples was taken for empty, and
    /// overwritten.
    #[test]
    fn an_island_in_a_sparse_file_is_found() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("x");
        let file = File::create(&path).unwrap();
        file.set_len(8 << 30).unwrap();
        assert_eq!(file_content(&path), None);
        file.write_all_at(&[0; 8192], 1 << 20).unwrap();
        assert_eq!(file_content(&path), None);
        let at = (3 << 30) + 12_345;
        file.write_all_at(&[7], at).unwrap();
        assert_eq!(file_content(&path), Some(FileContent::At(at)));
        file.write_all_at(&[7], (8 << 30) - 1).unwrap();
        file.write_all_at(&[0], at).unwrap();
        assert_eq!(file_content(&path), Some(FileContent::At((8 << 30) - 1)));
        assert_eq!(file_content(directory.path()), None);
        assert_eq!(file_content(Path::new("/dev/zero")), None);
    }
}
