//! A setting that could not be read, and why.

use thiserror::Error;

/// Characters of a value that messages show.
const SHOWN_CHARS: usize = 120;

/// Why a setting is not known.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Lack {
    /// The kernel, or the tree, has no such file.
    #[error("{path} is not there")]
    Absent {
        /// Where it was looked for.
        path: String,
    },
    /// The file is there, and what it says could not be had or understood.
    #[error("{path}: {why}")]
    Unreadable {
        /// Where.
        path: String,
        /// What stood in the way.
        why: String,
    },
}

/// A setting, or why it is not known.
pub type Reading<T> = Result<T, Lack>;

impl Lack {
    pub(crate) fn absent(path: &str) -> Self {
        Self::Absent { path: path.to_owned() }
    }

    pub(crate) fn unreadable(path: &str, why: impl Into<String>) -> Self {
        Self::Unreadable { path: path.to_owned(), why: why.into() }
    }
}

/// Takes a file that is not there for a setting that does not exist; what else went wrong stays.
pub(crate) fn optional<T>(reading: &Reading<T>) -> Reading<Option<&T>> {
    match reading {
        Ok(value) => Ok(Some(value)),
        Err(Lack::Absent { .. }) => Ok(None),
        Err(lack) => Err(lack.clone()),
    }
}

/// A value as messages show it: its beginning, where it is long.
pub(crate) fn shown(value: &str) -> String {
    if value.chars().count() <= SHOWN_CHARS {
        return value.to_owned();
    }
    value.chars().take(SHOWN_CHARS).chain("...".chars()).collect()
}
