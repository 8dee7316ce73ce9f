//! A file that appears complete or not at all.

use crate::TraceError;
use std::fs::{self, File};
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

/// The file is `NAME.partial` until it is complete, then `NAME`. It is removed if it does not become complete.
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
    /// `to` exists, another process is writing it, or it cannot be created.
    pub fn create(to: &Path) -> std::result::Result<Self, TraceError> {
        Self::try_create(to).map_err(|source| TraceError::Open { path: to.to_owned(), source })
    }

    fn try_create(to: &Path) -> Result<Self> {
        refuse_existing(to)?;
        let at = with_partial(to);
        // What a killed writer has left there is useless and is overwritten, unless the writer is alive.
        let file = File::options().write(true).create(true).truncate(false).open(&at)?;
        file.try_lock().map_err(|_| ErrorKind::ResourceBusy)?;
        // The other writer may have finished in between: then this is its file, under its final name.
        refuse_existing(to)?;
        file.set_len(0)?;
        Ok(Self { file, at, to: to.to_owned(), is_whole: false })
    }

    /// The file, to be written from its beginning.
    ///
    /// # Errors
    /// The system has no more open files.
    pub fn file(&self) -> Result<File> {
        self.file.try_clone()
    }

    /// The final name.
    #[must_use]
    pub fn to(&self) -> &Path {
        &self.to
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// It cannot be made durable, or its name has been taken meanwhile.
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
            // An incomplete file is useless (Parquet has its index at the end); the reason has been reported.
            let _ = fs::remove_file(&self.at);
        }
    }
}

/// An error if there is something at `path`.
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
