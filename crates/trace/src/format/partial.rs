//! A file that appears whole or not at all.

use crate::TraceError;
use std::fs::{self, File};
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

/// `NAME.partial` until it is whole, then `NAME`. Removed where it does not become whole.
#[derive(Debug)]
pub struct PartialFile {
    file: File,
    at: PathBuf,
    to: PathBuf,
    is_whole: bool,
}

impl PartialFile {
    /// Begins `to`, which must not exist.
    ///
    /// # Errors
    /// `to` exists, somebody else is writing it, or it cannot be created.
    pub fn create(to: &Path) -> std::result::Result<Self, TraceError> {
        Self::try_create(to).map_err(|source| TraceError::Open { path: to.to_owned(), source })
    }

    fn try_create(to: &Path) -> Result<Self> {
        refuse_existing(to)?;
        let at = with_partial(to);
        // What a kill has left there is of no use and is overwritten, unless its writer lives.
        let file = File::options().write(true).create(true).truncate(false).open(&at)?;
        file.try_lock().map_err(|_| ErrorKind::ResourceBusy)?;
        // The other writer may have come to its end in between: then this is its file, under its last name.
        refuse_existing(to)?;
        file.set_len(0)?;
        Ok(Self { file, at, to: to.to_owned(), is_whole: false })
    }

    /// The file, to be written from its begin on.
    ///
    /// # Errors
    /// The system has no more open files.
    pub fn file(&self) -> Result<File> {
        self.file.try_clone()
    }

    /// The name that it will have.
    #[must_use]
    pub fn to(&self) -> &Path {
        &self.to
    }

    /// Gives the file, which has been written, its name.
    ///
    /// # Errors
    /// It cannot be made durable, or something has its name by now.
    pub fn finish(mut self) -> std::result::Result<(), TraceError> {
        let finished = self.try_finish();
        finished.map_err(|source| TraceError::WriteFile { path: self.to.clone(), source })
    }

    fn try_finish(&mut self) -> Result<()> {
        self.file.sync_all()?;
        refuse_existing(&self.to)?;
        fs::rename(&self.at, &self.to)?;
        self.is_whole = true;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn over(file: File, to: &Path) -> Self {
        Self { file, at: with_partial(to), to: to.to_owned(), is_whole: false }
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_whole {
            // Half a file is of no use (Parquet has its index last); why it is half has been reported.
            let _ = fs::remove_file(&self.at);
        }
    }
}

/// An error where there is something at `path`.
pub(super) fn refuse_existing(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// `NAME.partial`.
pub(super) fn with_partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}
