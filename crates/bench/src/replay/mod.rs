//! Replaying a trace: recorded requests become the I/Os of a job.
//!
//! A [`TraceSource`] provides requests as they were recorded. [`Requests`] sorts them by time, selects those of a window, and fits them to
//! a target: rounded to its blocks, wrapped around its end, split if longer than a buffer. A trace is read twice: [`survey`] finds out
//! beforehand what will come and whether it fits; then a [`Feed`] reads ahead in its own thread, and the workers of a job take one I/O
//! after the other from it.

mod counts;
mod feed;
mod player;
mod requests;
mod source;
mod survey;
#[cfg(test)]
mod tests;

pub use counts::{Counts, Span};
pub use feed::{Feed, ReplayError};
pub(crate) use player::Player;
pub use requests::{Fit, REQUEST_MAX_BYTES, Requests, Selection};
pub use source::{Recorded, ReplayIo, SourceError, TraceSource};
pub use survey::survey;
