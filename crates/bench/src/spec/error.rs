//! What can be wrong with a sheet.

use crate::job::JobError;
use forebay_block::mistakes::{Hint, Mistake, nearest, place};
use std::path::PathBuf;

/// Why a sheet was refused. Each names the place, the offending word and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// A key or value that does not exist.
    #[error("{place}: unknown {what} `{word}`{hint}", hint = Hint(nearest.as_deref()))]
    Unknown {
        /// File and line.
        place: String,
        /// Kind of word: "key", "value".
        what: &'static str,
        /// The word.
        word: String,
        /// The known word that looks most like it.
        nearest: Option<String>,
    },
    /// A value that its key cannot have.
    #[error("{place}: {key}: {reason}")]
    Value {
        /// File and line.
        place: String,
        /// The key.
        key: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The text as a whole.
    #[error("{place}: {reason}")]
    Form {
        /// File, and line where one is to blame.
        place: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A job's keys; the error names its own place.
    #[error(transparent)]
    JobText(JobError),
    /// A job that is well written and cannot be run.
    #[error("{place}: {source}")]
    Job {
        /// File and line.
        place: String,
        /// Which bound it breaks.
        source: JobError,
    },
    /// Neither a built-in sheet nor a file.
    #[error(
        "{word} is no file and no built-in sheet{hint}: give a path, or one of {known}",
        hint = Hint(nearest.as_deref())
    )]
    NoSuchSheet {
        /// What was asked for.
        word: String,
        /// The built-in name that looks most like it.
        nearest: Option<String>,
        /// All built-in names.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the spec sheet {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A directory, device, pipe or socket.
    #[error("{path} is not a regular file: give the path of a spec sheet", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Larger than any sheet is.
    #[error("{place} is larger than {limit_bytes} bytes: this is not a spec sheet")]
    TooLarge {
        /// The file.
        place: String,
        /// The limit.
        limit_bytes: u64,
    },
}

/// What TOML or serde says of a text, with line, column and the nearest known word.
pub(super) fn of_toml(error: &toml::de::Error, text: &str, name: &str) -> SpecError {
    let place = place(name, text, error.span());
    match Mistake::of(error.message()) {
        Mistake::Unknown { what, word, known } => {
            SpecError::Unknown { place, what, nearest: nearest(&word, known).map(str::to_owned), word }
        }
        Mistake::Other(reason) => SpecError::Form { place, reason },
    }
}
