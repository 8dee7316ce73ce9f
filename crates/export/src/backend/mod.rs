//! What the server drives: something that takes volume requests and completes them.

mod memory;
mod null;

pub use memory::MemoryBackend;
pub use null::NullBackend;

use forebay_block::DiskId;
use forebay_volume::{Completion, Request};

/// Takes requests and hands out completions, on the server's thread. No method may block.
pub trait Backend {
    /// A client begins that may write to this disk, or to none: the number that its requests bear, or 0 where clients are not kept apart.
    fn begin_session(&mut self, _disk: Option<DiskId>) -> u64 {
        0
    }

    /// A client has ended: nothing that it is answered from now on reaches it.
    fn end_session(&mut self, _session: u64) {}

    /// Accepts a request. Its completion comes out of [`Backend::poll`], once, with the same token.
    fn submit(&mut self, request: Request);

    /// Pumps the devices and appends finished requests to `done`.
    fn poll(&mut self, done: &mut Vec<Completion>);

    /// Appends descriptors that become readable when completions wait, and stay so until [`Backend::poll`] took
    /// them. Asked at the start and after every tick, so devices may come and go.
    fn wake_fds(&self, out: &mut Vec<i32>);

    /// Called about every 50 ms with a monotonic time in nanoseconds, for periodic work.
    fn tick(&mut self, now_ns: u64);

    /// Whether something is in progress that only [`Backend::poll`] can finish and no descriptor announces. The server
    /// does not sleep then.
    fn in_flight(&self) -> bool;
}
