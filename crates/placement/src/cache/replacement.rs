//! What policies of replacement are compared by.

use super::key::Key;
use super::s3_fifo::{S3Fifo, Seen};

/// A policy of replacement.
pub trait Replacement {
    /// A block of the capacity tier is read, and gets a copy if it has none and the policy thinks it worth one. Whether it had one.
    fn read(&mut self, key: Key) -> bool;
    /// A block was written or discarded: a copy of it is worth nothing.
    fn remove(&mut self, key: Key);
    /// Whether there is a copy of a block.
    fn holds(&self, key: Key) -> bool;
    /// Whether there is one that was written to the fast tier.
    fn has_copy(&self, key: Key) -> bool {
        self.holds(key)
    }
}

impl Replacement for S3Fifo {
    fn read(&mut self, key: Key) -> bool {
        match self.seen(key) {
            Seen::Hit(_) => true,
            Seen::Miss => {
                self.admit(key);
                false
            }
            Seen::Passed => false,
        }
    }

    fn remove(&mut self, key: Key) {
        Self::remove(self, key);
    }

    fn holds(&self, key: Key) -> bool {
        self.place_of(key).is_some()
    }
}
