//! A finding: the command did its work, and the result is bad. Exit code 1.

use thiserror::Error;

/// A bad result, in one sentence.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Finding(pub String);

/// Makes an error of a finding; the command then exits with code 1.
pub fn finding(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Finding(text.into()))
}
