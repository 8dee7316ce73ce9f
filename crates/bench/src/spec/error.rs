//! Errors of spec sheets.

use crate::job::JobError;
use forebay_block::mistakes::{Hint, Mistake, nearest, place, unknown_of};
use std::path::PathBuf;

/// Why a sheet was refused. Each error names the place and the offending word, and what to write instead.
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
    /// A value that is not allowed for its key.
    #[error("{place}: {key}: {reason}")]
    Value {
        /// File and line.
        place: String,
        /// The key.
        key: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The text as a whole is wrong.
    #[error("{place}: {reason}")]
    Form {
        /// File, with the line if one is at fault.
        place: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A wrong key of a job; the error names its own place.
    #[error(transparent)]
    JobText(JobError),
    /// A job that is well-formed and cannot be run.
    #[error("{place}: {source}")]
    Job {
        /// File and line.
        place: String,
        /// The limit that the job violates.
        source: JobError,
    },
    /// Neither a built-in sheet nor a file.
    #[error(
        "{word} is no file and no built-in sheet{hint}: give a path, or one of {known}",
        hint = Hint(nearest.as_deref())
    )]
    NoSuchSheet {
        /// The name that was given.
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
    /// The path is a directory, device, pipe or socket.
    #[error("{path} is not a regular file: give the path of a spec sheet", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than any sheet.
    #[error("{place} is larger than {limit_bytes} bytes: this is not a spec sheet")]
    TooLarge {
        /// The file.
        place: String,
        /// The limit.
        limit_bytes: u64,
    },
}

/// An error of TOML or serde with line, column and the nearest known word.
pub(super) fn of_toml(error: &toml::de::Error, text: &str, name: &str) -> SpecError {
    let place = place(name, text, error.span());
    match Mistake::of(error.message()) {
        // There are few of these, and each is a choice.
        Mistake::Unknown { what: what @ "value", word, known } => {
            SpecError::Form { place, reason: unknown_of(what, &word, &known) }
        }
        Mistake::Unknown { what, word, known } => {
            SpecError::Unknown { place, what, nearest: nearest(&word, known).map(str::to_owned), word }
        }
        Mistake::Other(reason) => SpecError::Form { place, reason },
    }
}
