//! Why a mount cannot be watched.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a mounted file system cannot be watched.
#[derive(Debug, Error)]
pub enum FilesError {
    /// Nothing is mounted there.
    #[error("{path}: no file system is mounted here")]
    NoMount {
        /// The path.
        path: PathBuf,
    },
    /// A path that the kernel's calls cannot take.
    #[error("{path}: not a path that can be watched")]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// A file of the system cannot be read.
    #[error("{path}: cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("a thread cannot be started")]
    Thread(#[source] io::Error),
}
