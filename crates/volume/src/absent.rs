//! Stands in for a device that is not there.

use forebay_block::{Completion, Device, Geometry, IoError, IoErrorKind, Op, Request};

/// A device that is not there: reads of it fail.
pub(crate) struct Absent {
    name: String,
    geometry: Geometry,
    done: Vec<Completion>,
}

impl Absent {
    /// An absent device of this name and geometry.
    pub fn new(name: &str, geometry: &Geometry) -> Self {
        Self { name: name.to_owned(), geometry: geometry.clone(), done: Vec::new() }
    }
}

impl Device for Absent {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        let Request { tag, offset_bytes, op, .. } = request;
        let failed = |operation| Err(IoError { kind: IoErrorKind::Gone, operation, offset_bytes, os_error: 0 });
        let (result, bufs) = match op {
            Op::Read { bufs, .. } => (failed("read"), Some(bufs)),
            // Nothing that was written there is left to wait for.
            Op::Flush => (Ok(()), None),
            Op::Write { .. } | Op::WriteZeroes { .. } | Op::Discard { .. } => (failed("write"), None),
        };
        self.done.push(Completion { tag, result, bufs });
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn queue_limit(&self) -> usize {
        64
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

/// ETIMEDOUT.
const TIMED_OUT: i32 = 110;

/// The completion of a request to a device that was given up.
pub(crate) fn unanswered(tag: u64) -> Completion {
    let error = IoError { kind: IoErrorKind::Gone, operation: "wait", offset_bytes: 0, os_error: TIMED_OUT };
    Completion { tag, result: Err(error), bufs: None }
}
