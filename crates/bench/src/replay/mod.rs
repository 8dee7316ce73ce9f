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
