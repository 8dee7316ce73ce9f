//! The trait of what the server drives: it accepts volume requests and completes them.

mod memory;

pub use memory::MemoryBackend;

use forebay_block::DiskId;
use forebay_volume::{Completion, Request};

/// Accepts requests and returns completions, on the server's thread. No method may block.
pub trait Backend {
    /// A client begins that may write to this disk; `None`: to no disk. Returns the number that its requests carry as
    /// `session`; 0 where clients are not distinguished.
    fn begin_session(&mut self, _disk: Option<DiskId>) -> u64 {
        0
    }

    /// A client has ended. Answers to its requests will not reach it any more.
    fn end_session(&mut self, _session: u64) {}

    /// Accepts a request. [`Backend::poll`] returns its completion once, with the same token.
    fn submit(&mut self, request: Request);

    /// Polls the devices and appends completions to `done`.
    fn poll(&mut self, done: &mut Vec<Completion>);

    /// Appends descriptors that become readable when completions wait, and stay readable until [`Backend::poll`] has
    /// taken them. Called at the start and after every tick, so that devices may come and go.
    fn wake_fds(&self, out: &mut Vec<i32>);

    /// Called about every 50 ms with a monotonic time in nanoseconds, for periodic work.
    fn tick(&mut self, now_ns: u64);

    /// Whether any work is in progress that only [`Backend::poll`] can finish and that no descriptor signals. The
    /// server does not sleep then.
    fn in_flight(&self) -> bool;
}
