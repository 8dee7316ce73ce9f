//! Whether a device still is what it was when its pool was opened. Somebody may write over it under a server, or make its file shorter, and what it answers
//! then is no error. So superblock and label are read again now and then, beside what the pool asks for.
//!
//! Superblocks are not written while a pool is served, and labels only count up: what is there and is neither was written by somebody else. One reading may
//! go wrong, so that only what was found twice counts. What follows is decided by who asked: see [`crate::mirror::MirrorView::leave_behind`].

mod device;
mod judge;

pub use device::{Standing, StandingDevice};
pub use judge::Expected;
