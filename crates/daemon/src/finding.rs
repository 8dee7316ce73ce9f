//! A finding: the work was done, and what it found is bad. Exit code 1.

use thiserror::Error;

/// What was found.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Finding(pub String);

/// A finding as an error.
pub fn finding(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Finding(text.into()))
}
