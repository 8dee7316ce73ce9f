//! A cache in memory before the cache on the fast tier, as in a pool.

use super::key::Key;
use super::replacement::Replacement;
use super::s3_fifo::{S3Fifo, Seen};

/// One in this many places is in memory: a pool uses a sixteenth of its memory limit for blocks, and at most eight
/// times the limit for copies.
const MEMORY_ONE_OF: u32 = 128;
/// A small cache has at least this many places in memory, but no more than a sixteenth of all.
const MEMORY_MIN: u32 = 4;
const MEMORY_MAX_ONE_OF: u32 = 16;

/// Each block read goes to memory, and gets a copy if the policy finds it worth one: a block that is in both occupies
/// two places.
#[derive(Clone, Debug)]
pub struct TwoTiers {
    memory: S3Fifo,
    fast: S3Fifo,
}

impl TwoTiers {
    /// An empty cache of this many places, in both tiers together.
    #[must_use]
    pub fn new(places: u32) -> Self {
        let memory = (places / MEMORY_ONE_OF).max(MEMORY_MIN).min(places / MEMORY_MAX_ONE_OF);
        Self { memory: S3Fifo::of_all_reads(memory, 0), fast: S3Fifo::new(places - memory, 0) }
    }
}

impl Replacement for TwoTiers {
    fn read(&mut self, key: Key) -> bool {
        // As in the engine: the policy of the copies sees all reads, and a block that is in memory is not copied from
        // there.
        let seen = self.fast.seen(key);
        let is_in_memory = self.memory.read(key);
        if seen == Seen::Miss && !is_in_memory {
            self.fast.admit(key);
        }
        is_in_memory || matches!(seen, Seen::Hit(_))
    }

    fn remove(&mut self, key: Key) {
        self.memory.remove(key);
        self.fast.remove(key);
    }

    fn holds(&self, key: Key) -> bool {
        self.memory.holds(key) || self.fast.holds(key)
    }

    fn has_copy(&self, key: Key) -> bool {
        self.fast.holds(key)
    }
}
