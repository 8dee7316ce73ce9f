//! Completes everything at once: the cost of the load generator itself.

use super::arena::Arena;
use super::error::OpenError;
use forebay_block::{Done, Io, Queue};

/// A queue whose I/Os are complete when they are submitted. It looks at neither buffers nor offsets.
#[derive(Debug)]
pub struct NullQueue {
    arena: Arena,
    finished: Vec<u32>,
}

impl NullQueue {
    /// A queue of `slots` buffers of `buffer_bytes`, whose memory is allocated on first use.
    ///
    /// # Errors
    /// [`OpenError::Buffers`].
    pub fn new(slots: u32, buffer_bytes: usize) -> Result<Self, OpenError> {
        Ok(Self { arena: Arena::new(slots, buffer_bytes, false)?, finished: Vec::with_capacity(slots as usize) })
    }
}

impl Queue for NullQueue {
    #[inline]
    fn slots(&self) -> u32 {
        self.arena.slots()
    }

    #[inline]
    fn buffer_bytes(&self) -> usize {
        self.arena.buffer_bytes()
    }

    #[inline]
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.arena.slice_mut(slot)
    }

    #[inline]
    fn submit(&mut self, io: &Io) {
        self.finished.push(io.slot);
    }

    #[inline]
    fn kick(&mut self) {}

    #[inline]
    fn reap(&mut self, done: &mut Vec<Done>) {
        done.extend(self.finished.iter().map(|&slot| Done { slot, error: None }));
        self.finished.clear();
    }

    #[inline]
    fn wait(&mut self, _timeout_ns: u64) {}

    #[inline]
    fn in_flight(&self) -> u32 {
        self.finished.len() as u32
    }
}
