//! The interface through which replacement policies are compared.

use super::key::Key;
use super::s3_fifo::{S3Fifo, Seen};

/// A replacement policy.
pub trait Replacement {
    /// Reads a block of the capacity tier, which gets a copy if it has none and the policy finds it worth one.
    /// Returns whether it had a copy.
    fn read(&mut self, key: Key) -> bool;
    /// A block was written or discarded, so that its copy is worthless: removes the copy, if there is one.
    fn remove(&mut self, key: Key);
    /// Whether a block has a copy.
    fn holds(&self, key: Key) -> bool;
    /// Whether a block has a copy that was written to the fast tier.
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
