//! The daemon's control socket: one JSON object a line, a request and then its answer.

mod client;
mod path;
mod protocol;

pub use client::ask;
pub use path::{control_path, is_own_folder};
pub use protocol::{ClassUpdate, Question, REQUEST_MAX_BYTES, ScrubAction, TOO_MANY_CHANGES};
