//! What a replay will do, known beforehand.

use super::counts::Counts;
use super::requests::{Fit, Requests, Selection};
use super::source::{SourceError, TraceSource};

/// Reads a trace as a replay will, and tells what will come. Beyond the window's end nothing is read.
///
/// # Errors
/// What makes the trace unreadable.
pub fn survey(source: impl TraceSource, selection: &Selection, fit: &Fit) -> Result<Counts, SourceError> {
    let mut requests = Requests::new(source, *selection, *fit);
    let mut ios = Vec::new();
    while requests.read(&mut ios)? {
        ios.clear();
    }
    Ok(requests.counts().clone())
}
