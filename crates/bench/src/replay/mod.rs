//! Replaying a trace: requests that were recorded elsewhere become the I/Os of a job.
//!
//! A [`TraceSource`] gives requests as they were recorded. [`Requests`] puts them in the order of their times, takes
//! those of a window, and fits them to a target: rounded to its blocks, wrapped around its end, split where they are longer
//! than a buffer. It runs twice over one trace: [`survey`] tells beforehand what will come, and whether it fits; then a
//! [`Feed`] reads ahead in a thread of its own, and the workers of a job take I/Os from it, each the next.

mod counts;
mod feed;
mod player;
mod requests;
#[cfg(test)]
mod tests;

pub use counts::{Counts, Span};
pub use feed::{Feed, ReplayError};
pub(crate) use player::Player;
pub use requests::{Fit, REQUEST_MAX_BYTES, Requests, Selection};

use forebay_block::OpKind;

/// Why a trace cannot be read any further.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// A request as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it was issued, in nanoseconds since the trace's own zero.
    pub at_ns: u64,
    /// What it does.
    pub kind: OpKind,
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for flushes.
    pub len_bytes: u64,
    /// A flush goes before it.
    pub flush_before: bool,
    /// What was recorded has no kind of its own here, and this one stands for it.
    pub is_stand_in: bool,
}

/// A trace being read.
pub trait TraceSource: Send {
    /// Appends the next requests, some thousand; `false` at the end. Times may go back a little.
    ///
    /// # Errors
    /// What makes the rest unreadable.
    fn read(&mut self, into: &mut Vec<Recorded>) -> Result<bool, SourceError>;
}

impl<S: TraceSource + ?Sized> TraceSource for &mut S {
    fn read(&mut self, into: &mut Vec<Recorded>) -> Result<bool, SourceError> {
        (**self).read(into)
    }
}

/// An I/O to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayIo {
    /// When, in nanoseconds since the replay's begin, in the order of which I/Os come.
    pub at_ns: u64,
    /// Byte on the target; 0 for flushes.
    pub offset_bytes: u64,
    /// Bytes; 0 for flushes.
    pub len_bytes: u32,
    /// What it does.
    pub kind: OpKind,
}

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
