//! Plain calls: each I/O is carried out inside `submit`, one after the other.

use super::arena::Arena;
use super::flight::{Answer, Flight, call, rw_flags};
use super::medium::Medium;
use super::refusal;
use forebay_block::{Done, Io, OpKind, Queue};
use std::sync::Arc;

/// A queue over pread/pwrite, or preadv2/pwritev2 where flags are needed.
#[derive(Debug)]
pub struct SyncQueue {
    arena: Arena,
    medium: Arc<Medium>,
    /// RWF_HIPRI or 0, for reads and writes.
    priority: i32,
    dsync: bool,
    finished: Vec<Done>,
}

impl SyncQueue {
    pub(super) fn new(medium: Arc<Medium>, arena: Arena, hipri: bool, dsync: bool) -> Self {
        let finished = Vec::with_capacity(arena.slots() as usize);
        Self { arena, medium, priority: if hipri { libc::RWF_HIPRI } else { 0 }, dsync, finished }
    }
}

impl Queue for SyncQueue {
    fn slots(&self) -> u32 {
        self.arena.slots()
    }

    fn buffer_bytes(&self) -> usize {
        self.arena.buffer_bytes()
    }

    #[inline]
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.arena.slice_mut(slot)
    }

    fn submit(&mut self, io: &Io) {
        let mut flight = Flight::new(io);
        let error = refusal(io, self.arena.buffer_bytes()).or_else(|| {
            let priority = if io.kind.has_data() { self.priority } else { 0 };
            let flags = rw_flags(io.kind, self.dsync) | priority;
            // The loop is bounded: each round moves bytes or uses up a retry.
            loop {
                // SAFETY: the slot's part of the arena holds the length, which `refusal` has compared; `&mut self`
                // keeps all others away until the call returns.
                let result = unsafe { call(&self.medium, &flight, self.arena.pointer(io.slot), flags) };
                if let Answer::Done(error) = flight.answer(result, &self.medium.facts) {
                    return error;
                }
            }
        });
        self.finished.push(Done { slot: io.slot, error });
    }

    fn kick(&mut self) {}

    #[inline]
    fn reap(&mut self, done: &mut Vec<Done>) {
        done.append(&mut self.finished);
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn is_synchronous(&self) -> bool {
        true
    }

    fn in_flight(&self) -> u32 {
        self.finished.len() as u32
    }
}

/// Name of the calls in messages.
pub(super) fn calls_name(hipri: bool) -> &'static str {
    if hipri { "preadv2/pwritev2 with RWF_HIPRI" } else { "pread/pwrite" }
}

/// Whether an I/O needs a blocking call, because a polled ring only supports reads and writes (Linux
/// io_uring/io_uring.c, io_issue_sqe: others fail with EINVAL or EOPNOTSUPP).
pub(super) fn is_not_polled(kind: OpKind) -> bool {
    !kind.has_data()
}
