//! Whether a device still is what it was when its pool was opened. Somebody may write over it under a running server, or make its file
//! shorter, and then its answers are no errors. So superblock and label are read again now and then, beside what the pool asks for.
//!
//! Superblocks are not written while a pool is served, and labels only count up: anything else there was written by somebody else. One
//! reading may go wrong, so only what was found twice counts. The caller decides what follows: see
//! [`crate::mirror::MirrorView::leave_behind`].

mod device;
mod judge;

pub use device::{OverwriteWatch, OverwriteWatchedDevice};
pub use judge::Expected;
