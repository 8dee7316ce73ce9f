//! Stores a record durably, and locks out other processes that change settings.

use super::record::Record;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags, flock, fsync, openat, renameat_with, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use thiserror::Error;

const NAME: &str = "settings.json";
const NEW_NAME: &str = "settings.json.new";
/// Longest record that is read; records are far shorter.
const RECORD_BYTES_MAX: u64 = 16 << 20;

/// Why a record cannot be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process is changing settings.
    #[error("{}: another forebay doctor is changing settings; wait for it, or end it", .0.display())]
    Busy(PathBuf),
    /// There is a record already.
    #[error("{}: a record is there already: put its settings back with forebay doctor --restore first", .0.display())]
    Exists(PathBuf),
    /// The record cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The record would be too long to be read again.
    #[error("{}: a record of {bytes} bytes is longer than the {RECORD_BYTES_MAX} that are read: nothing was changed", path.display())]
    TooLong {
        /// Its path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// The file is not a valid record.
    #[error("{}: no record of settings: {why}. Where it is of no use to anybody, remove it", path.display())]
    Garbage {
        /// Its path.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// A folder with at most one record. The folder is locked as long as this exists.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    folder: OwnedFd,
}

impl Store {
    /// Opens and locks the folder; creates it if it is missing.
    ///
    /// # Errors
    /// The folder cannot be opened, or another process has locked it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |source: io::Error| StoreError::Io { path: path.to_owned(), source };
        let is_new = !path.exists();
        std::fs::create_dir_all(path).map_err(failed)?;
        let folder = File::open(path).map_err(failed)?;
        if let (true, Some(above)) = (is_new, path.parent()) {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            File::open(above).and_then(|above| above.sync_all()).map_err(failed)?;
        }
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), folder: folder.into() }),
            Err(Errno::WOULDBLOCK) => Err(StoreError::Busy(path.to_owned())),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Path of the record.
    pub fn place(&self) -> PathBuf {
        self.path.join(NAME)
    }

    fn failed(&self, error: impl Into<io::Error>) -> StoreError {
        StoreError::Io { path: self.place(), source: error.into() }
    }

    /// Reads the record; `None` if there is none.
    ///
    /// # Errors
    /// The record cannot be read, or is invalid.
    pub fn load(&self) -> Result<Option<Record>, StoreError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.folder, NAME, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            other => other.map_err(|error| self.failed(error))?,
        };
        let mut text = String::new();
        File::from(file).take(RECORD_BYTES_MAX).read_to_string(&mut text).map_err(|error| self.failed(error))?;
        let garbage = |error: serde_json::Error| StoreError::Garbage { path: self.place(), why: error.to_string() };
        serde_json::from_str(&text).map(Some).map_err(garbage)
    }

    /// Writes the record durably and atomically, even if the machine crashes meanwhile.
    ///
    /// # Errors
    /// The record cannot be written, or there is one already.
    pub fn save(&self, record: &Record) -> Result<(), StoreError> {
        let text = serde_json::to_string_pretty(record).map_err(|error| self.failed(io::Error::other(error)))?;
        if text.len() as u64 >= RECORD_BYTES_MAX {
            return Err(StoreError::TooLong { path: self.place(), bytes: text.len() });
        }
        self.unlink(NEW_NAME)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.folder, NEW_NAME, flags, Mode::from_raw_mode(0o600));
        let mut file = File::from(file.map_err(|error| self.failed(error))?);
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| self.failed(error))?;
        match renameat_with(&self.folder, NEW_NAME, &self.folder, NAME, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => return Err(StoreError::Exists(self.place())),
            other => other.map_err(|error| self.failed(error))?,
        }
        fsync(&self.folder).map_err(|error| self.failed(error))
    }

    /// Removes the record durably.
    ///
    /// # Errors
    /// The record cannot be removed.
    pub fn remove(&self) -> Result<(), StoreError> {
        self.unlink(NAME)?;
        fsync(&self.folder).map_err(|error| self.failed(error))
    }

    fn unlink(&self, name: &str) -> Result<(), StoreError> {
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => other.map_err(|error| self.failed(error)),
        }
    }
}
