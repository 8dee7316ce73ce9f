//! Settings of an application-shaped load, and its errors.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Most files of one run.
pub const FILES_MAX: u64 = 1_000_000;

/// Settings of an application-shaped load.
#[derive(Clone, Debug)]
pub struct Options {
    /// An existing directory on the file system under test. The load makes a directory of its own in it, and removes
    /// that at the end.
    pub directory: PathBuf,
    /// Number of files, 1 to [`FILES_MAX`].
    pub files: u64,
    /// Mean size of a file in bytes, 4 KiB to 1 GiB. Single files have between half and one and a half times this size.
    pub file_bytes: u64,
    /// Seed of file sizes and content.
    pub seed: u64,
}

/// How a load is stopped early, and how it reports its progress.
pub struct Control<'a> {
    /// Set when the user asks for the load to stop.
    pub stop: &'a AtomicBool,
    /// Called with the number of files done, the number of all files, and the present step.
    pub progress: &'a mut dyn FnMut(u64, u64, &str),
}

/// Why a load cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ApplicationError {
    /// An option is out of its range.
    #[error("{what}")]
    Option {
        /// The option, and what is allowed.
        what: String,
    },
    /// An operation of the file system failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// The operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
}
