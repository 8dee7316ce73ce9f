//! Errors of jobs, in whatever form these are written.

use forebay_block::mistakes::{Hint, cut, nearest};
use std::path::PathBuf;

/// Why a job was refused. Each error names the place and the offending word, and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A key, option or name that does not exist.
    #[error("{place}: unknown {what} `{word}`{hint}", hint = Hint(nearest.as_deref()))]
    Unknown {
        /// File and line, or the command line.
        place: String,
        /// Kind of word: "key", "option", "engine".
        what: &'static str,
        /// The word.
        word: String,
        /// The known word that looks most like it.
        nearest: Option<String>,
    },
    /// A value that is not allowed for its key.
    #[error("{place}: {key}: {reason}")]
    Value {
        /// File and line, or the command line.
        place: String,
        /// The key or option.
        key: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A feature of the other tool that does not exist here and would change what is measured.
    #[error("{place}: {what} is not supported: {advice}")]
    Unsupported {
        /// File and line, or the command line.
        place: String,
        /// The feature.
        what: String,
        /// What to do instead.
        advice: String,
    },
    /// The text as a whole is wrong.
    #[error("{place}: {reason}")]
    Form {
        /// File and line, or the command line.
        place: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A job that is well-formed and cannot be run.
    #[error("job {job:?}: {field}: {reason}")]
    Bound {
        /// Name of the job.
        job: String,
        /// The property.
        field: &'static str,
        /// The limit that it violates.
        reason: String,
    },
    /// A region that is not on the target.
    #[error("region: {reason}")]
    Region {
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The file cannot be read.
    #[error("cannot read the job file {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The path is a directory, device, pipe or socket.
    #[error("{path} is not a regular file: give the path of a job file", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than any job file.
    #[error("{place} is larger than {limit_bytes} bytes: this is not a job file")]
    TooLarge {
        /// The file.
        place: String,
        /// The limit.
        limit_bytes: u64,
    },
}

impl JobError {
    pub(super) fn value(place: &str, key: &str, reason: impl Into<String>) -> Self {
        Self::Value { place: place.to_owned(), key: key.to_owned(), reason: reason.into() }
    }

    pub(super) fn form(place: &str, reason: impl Into<String>) -> Self {
        Self::Form { place: place.to_owned(), reason: reason.into() }
    }

    pub(super) fn unsupported(place: &str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Unsupported { place: place.to_owned(), what: what.into(), advice: advice.into() }
    }

    pub(super) fn unknown<'a>(
        place: &str,
        what: &'static str,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let nearest = nearest(word, known).map(str::to_owned);
        Self::Unknown { place: place.to_owned(), what, nearest, word: cut(word) }
    }
}

/// Quotes foreign text for an error: control characters are escaped, and it is cut to the length of a line.
pub(super) fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(SHOWN).collect();
    format!("{start:?}...")
}
