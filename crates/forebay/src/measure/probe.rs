//! A queue as a readable device, so that signatures are searched in the same way on every target.

use forebay_block::{Completion, Device, Geometry, Io, IoError, IoErrorKind, Op, OpKind, Queue, Request};

/// Time limit of one read in nanoseconds, after which the target counts as gone.
const TIMEOUT_NS: u64 = 10_000_000_000;

/// Reads through slot 0 of a queue.
pub struct QueueReader {
    queue: Box<dyn Queue>,
    geometry: Geometry,
    ready: Vec<Completion>,
}

impl QueueReader {
    /// A reader of a target of `size_bytes`.
    pub fn new(queue: Box<dyn Queue>, size_bytes: u64, logical_block_bytes: u32) -> Self {
        let geometry = Geometry {
            size_bytes: size_bytes - size_bytes % u64::from(logical_block_bytes.max(1)),
            logical_block_bytes,
            optimal_band_bytes: None,
            volatile_cache: false,
            durable_writes: true,
            discards: false,
        };
        Self { queue, geometry, ready: Vec::new() }
    }

    fn read(&mut self, offset_bytes: u64, into: &mut [u8]) -> Result<(), IoError> {
        let error = |kind, offset_bytes| IoError { kind, operation: "read", offset_bytes, os_error: 0 };
        let (mut at, longest) = (offset_bytes, self.queue.buffer_bytes());
        let mut done = Vec::new();
        for piece in into.chunks_mut(longest) {
            let io = Io { slot: 0, kind: OpKind::Read, len_bytes: piece.len() as u32, offset_bytes: at, hint: 0 };
            self.queue.submit(&io);
            self.queue.kick();
            let started = std::time::Instant::now();
            self.queue.reap(&mut done);
            while done.is_empty() {
                if started.elapsed().as_nanos() > u128::from(TIMEOUT_NS) {
                    return Err(error(IoErrorKind::Gone, at));
                }
                self.queue.wait(TIMEOUT_NS / 10);
                self.queue.reap(&mut done);
            }
            if let Some(error) = done.pop().and_then(|done| done.error) {
                return Err(*error);
            }
            piece.copy_from_slice(&self.queue.buffer(0)[..piece.len()]);
            at += piece.len() as u64;
        }
        Ok(())
    }
}

impl Device for QueueReader {
    fn name(&self) -> &str {
        "target"
    }
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    fn submit(&mut self, request: Request) {
        let Request { tag, offset_bytes, op, .. } = request;
        let completion = match op {
            Op::Read { mut bufs, .. } => {
                let mut at = offset_bytes;
                let mut result = Ok(());
                for buf in bufs.as_mut_slice() {
                    let len = buf.len() as u64;
                    result = result.and_then(|()| self.read(at, buf));
                    at += len;
                }
                Completion { tag, result, bufs: Some(bufs) }
            }
            _ => {
                let error = IoError { kind: IoErrorKind::Unsupported, operation: "write", offset_bytes, os_error: 0 };
                Completion { tag, result: Err(error), bufs: None }
            }
        };
        self.ready.push(completion);
    }
    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
    }
    fn wait(&mut self, _timeout_ns: u64) {}
    fn queue_limit(&self) -> usize {
        1
    }
    fn in_flight(&self) -> usize {
        self.ready.len()
    }
}
