//! What an application-shaped load is asked to do, and why it cannot.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Most files of one run.
pub const FILES_MAX: u64 = 1_000_000;

/// Settings of an application-shaped load.
#[derive(Clone, Debug)]
pub struct Options {
    /// An existing directory on the file system under test; a new one is made in it, and removed at the end.
    pub directory: PathBuf,
    /// Files, 1 to [`FILES_MAX`].
    pub files: u64,
    /// Mean size of a file in bytes, 4 KiB to 1 GiB; sizes lie between half of it and one and a half.
    pub file_bytes: u64,
    /// Seed of sizes and content.
    pub seed: u64,
}

/// What ends a load early, and who is shown how far it is.
pub struct Control<'a> {
    /// Set by the user.
    pub stop: &'a AtomicBool,
    /// Files done, of how many, and what is being done.
    pub progress: &'a mut dyn FnMut(u64, u64, &str),
}

/// Why a load could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ApplicationError {
    /// An option outside its range.
    #[error("{what}")]
    Option {
        /// Which, and what is allowed.
        what: String,
    },
    /// The file system failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
}
