//! A setting that could not be read, and the reason.

use thiserror::Error;

/// Most characters of a value in messages.
const SHOWN_CHARS: usize = 120;

/// Why a setting is not known.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Lack {
    /// The kernel, or the tree, has no such file.
    #[error("{path} is not there")]
    Absent {
        /// The path where it was expected.
        path: String,
    },
    /// The file exists, but could not be read or parsed.
    #[error("{path}: {why}")]
    Unreadable {
        /// Its path.
        path: String,
        /// The reason.
        why: String,
    },
}

/// A setting, or the reason why it is not known.
pub type Reading<T> = Result<T, Lack>;

impl Lack {
    pub(crate) fn absent(path: &str) -> Self {
        Self::Absent { path: path.to_owned() }
    }

    pub(crate) fn unreadable(path: &str, why: impl Into<String>) -> Self {
        Self::Unreadable { path: path.to_owned(), why: why.into() }
    }
}

/// Turns a missing file into `None`, a setting that does not exist; other errors stay.
pub(crate) fn optional<T>(reading: &Reading<T>) -> Reading<Option<&T>> {
    match reading {
        Ok(value) => Ok(Some(value)),
        Err(Lack::Absent { .. }) => Ok(None),
        Err(lack) => Err(lack.clone()),
    }
}

/// A value for messages: cut off if it is long.
pub(crate) fn shown(value: &str) -> String {
    if value.chars().count() <= SHOWN_CHARS {
        return value.to_owned();
    }
    value.chars().take(SHOWN_CHARS).chain("...".chars()).collect()
}
