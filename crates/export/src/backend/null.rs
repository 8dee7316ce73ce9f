//! Completes everything at once: the cost of the front end alone.

use super::Backend;
use forebay_block::Buf;
use forebay_volume::{Completion, Extent, ExtentState, Op, Outcome, Request};

/// Drops writes and reads zeros: the upper limit of the server's speed with any volume.
#[derive(Debug, Default)]
pub struct NullBackend {
    done: Vec<Completion>,
}

impl NullBackend {
    /// A null backend.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Backend for NullBackend {
    fn submit(&mut self, request: Request) {
        let outcome = match request.op {
            Op::Read => Outcome::Data(Buf::zeroed(request.len_bytes as usize)),
            Op::Status { .. } => {
                Outcome::Extents(vec![Extent { len_bytes: request.len_bytes, state: ExtentState::Hole }])
            }
            Op::Write(_) | Op::Flush | Op::Discard | Op::WriteZeroes { .. } | Op::Cache | Op::Reclass => Outcome::Done,
        };
        self.done.push(Completion { token: request.token, result: Ok(outcome) });
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }

    fn wake_fds(&self, _out: &mut Vec<i32>) {}

    fn tick(&mut self, _now_ns: u64) {}

    fn in_flight(&self) -> bool {
        !self.done.is_empty()
    }
}
