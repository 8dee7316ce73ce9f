//! SIEVE: one queue, a bit for each block that was read again, and a hand that spares such a block once (Zhang and
//! others, "SIEVE is Simpler than LRU: an Efficient Turn-Key Eviction Algorithm for Web Caches", NSDI 2024, algorithm
//! 1). It is not made for scans: a block that is read once stays until the hand has passed it.

use super::key::Key;
use super::nodes::Nodes;
use super::replacement::Replacement;

/// The queue and its hand.
#[derive(Clone, Debug)]
pub struct Sieve {
    nodes: Nodes<1>,
    /// The next block that the hand examines; `None` means the oldest.
    hand: Option<u32>,
}

impl Sieve {
    /// An empty cache of this many places.
    #[must_use]
    pub fn new(places: u32) -> Self {
        Self { nodes: Nodes::new(places, 0), hand: None }
    }

    fn drop_node(&mut self, number: u32) {
        if self.hand == Some(number) {
            self.hand = self.nodes.newer(number);
        }
        self.nodes.remove(number);
    }

    fn evict(&mut self) {
        while let Some(number) = self.hand.or_else(|| self.nodes.oldest(0)) {
            if self.nodes.note(number) == 0 {
                self.hand = Some(number);
                return self.drop_node(number);
            }
            self.nodes.set_note(number, 0);
            self.hand = self.nodes.newer(number);
        }
    }

    fn seen(&mut self, key: Key) -> bool {
        let found = self.nodes.find(key);
        if let Some(number) = found {
            self.nodes.set_note(number, 1);
        }
        found.is_some()
    }

    fn admit(&mut self, key: Key) {
        if self.nodes.free().is_none() {
            self.evict();
        }
        if let Some(number) = self.nodes.free() {
            self.nodes.add(number, key, 0);
        }
    }
}

impl Replacement for Sieve {
    fn read(&mut self, key: Key) -> bool {
        let is_hit = self.seen(key);
        if !is_hit {
            self.admit(key);
        }
        is_hit
    }

    fn remove(&mut self, key: Key) {
        if let Some(number) = self.nodes.find(key) {
            self.drop_node(number);
        }
    }

    fn holds(&self, key: Key) -> bool {
        self.nodes.find(key).is_some()
    }
}
