//! Finds out beforehand what a replay will do.

use super::counts::Counts;
use super::requests::{Fit, Requests, Selection};
use super::source::{SourceError, TraceSource};

/// Reads a trace as a replay will, and counts what will come. Nothing is read beyond the window's end.
///
/// # Errors
/// The reason why the trace cannot be read.
pub fn survey(source: impl TraceSource, selection: &Selection, fit: &Fit) -> Result<Counts, SourceError> {
    let mut requests = Requests::new(source, *selection, *fit);
    let mut ios = Vec::new();
    while requests.read(&mut ios)? {
        ios.clear();
    }
    Ok(requests.counts().clone())
}
