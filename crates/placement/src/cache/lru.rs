//! LRU: the block whose last read is the longest ago is evicted first.

use super::key::Key;
use super::nodes::Nodes;
use super::replacement::Replacement;

/// One list in the order of reads.
#[derive(Clone, Debug)]
pub struct Lru {
    nodes: Nodes<1>,
}

impl Lru {
    /// An empty cache of this many places.
    #[must_use]
    pub fn new(places: u32) -> Self {
        Self { nodes: Nodes::new(places, 0) }
    }

    fn seen(&mut self, key: Key) -> bool {
        let found = self.nodes.find(key);
        if let Some(number) = found {
            self.nodes.renew(number, 0);
        }
        found.is_some()
    }

    fn admit(&mut self, key: Key) {
        if self.nodes.free().is_none()
            && let Some(oldest) = self.nodes.oldest(0)
        {
            self.nodes.remove(oldest);
        }
        if let Some(number) = self.nodes.free() {
            self.nodes.add(number, key, 0);
        }
    }
}

impl Replacement for Lru {
    fn read(&mut self, key: Key) -> bool {
        let is_hit = self.seen(key);
        if !is_hit {
            self.admit(key);
        }
        is_hit
    }

    fn remove(&mut self, key: Key) {
        if let Some(number) = self.nodes.find(key) {
            self.nodes.remove(number);
        }
    }

    fn holds(&self, key: Key) -> bool {
        self.nodes.find(key).is_some()
    }
}
