//! ARC: blocks read once and blocks read again in two lists, each with ghosts that show which of the two should be
//! larger (Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, figure 4).

use super::key::Key;
use super::nodes::Nodes;
use super::replacement::Replacement;

/// The lists: read once; read again; the ghosts of each. The names are those of the paper.
const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

/// The two lists, their two lists of ghosts, and the target size of the first.
#[derive(Clone, Debug)]
pub struct Arc {
    nodes: Nodes<4>,
    places: u32,
    /// Target size of T1 ("p").
    target: u32,
}

impl Arc {
    /// An empty cache of this many places.
    #[must_use]
    pub fn new(places: u32) -> Self {
        Self { nodes: Nodes::new(places.saturating_mul(2), 0), places, target: 0 }
    }

    fn len(&self, list: usize) -> u32 {
        self.nodes.len(list)
    }

    fn drop_oldest(&mut self, list: usize) {
        if let Some(number) = self.nodes.oldest(list) {
            self.nodes.remove(number);
        }
    }

    /// Turns the oldest block of T1 or T2 into a ghost ("REPLACE").
    fn replace(&mut self, is_ghost_of_t2: bool) {
        let t1 = self.len(T1);
        let is_t1 = t1 > 0 && (t1 > self.target || is_ghost_of_t2 && t1 == self.target);
        let (from, to) = if is_t1 || self.len(T2) == 0 { (T1, B1) } else { (T2, B2) };
        if let Some(number) = self.nodes.oldest(from) {
            self.nodes.renew(number, to);
        }
    }

    fn is_full(&self) -> bool {
        self.len(T1) + self.len(T2) >= self.places
    }

    fn seen(&mut self, key: Key) -> bool {
        let found = self.nodes.find(key).filter(|&number| self.nodes.list(number) <= T2);
        if let Some(number) = found {
            self.nodes.renew(number, T2);
        }
        found.is_some()
    }

    fn admit(&mut self, key: Key) {
        if let Some(number) = self.nodes.find(key) {
            let is_of_t2 = self.nodes.list(number) == B2;
            let (own, other) = if is_of_t2 { (B2, B1) } else { (B1, B2) };
            let step = (self.len(other) / self.len(own).max(1)).max(1);
            let target = if is_of_t2 { self.target.saturating_sub(step) } else { self.target.saturating_add(step) };
            self.target = target.min(self.places);
            if self.is_full() {
                self.replace(is_of_t2);
            }
            self.nodes.renew(number, T2);
            return;
        }
        let once = self.len(T1) + self.len(B1);
        let all = once + self.len(T2) + self.len(B2);
        if once >= self.places {
            if self.len(T1) < self.places {
                self.drop_oldest(B1);
                if self.is_full() {
                    self.replace(false);
                }
            } else {
                self.drop_oldest(T1);
            }
        } else {
            if all >= self.places.saturating_mul(2) {
                self.drop_oldest(B2);
            }
            if self.is_full() {
                self.replace(false);
            }
        }
        if let Some(number) = self.nodes.free() {
            self.nodes.add(number, key, T1);
        }
    }
}

impl Replacement for Arc {
    fn read(&mut self, key: Key) -> bool {
        let is_hit = self.seen(key);
        if !is_hit {
            self.admit(key);
        }
        is_hit
    }

    fn remove(&mut self, key: Key) {
        // A later read finds other data in the written block: its ghost says nothing about that either.
        if let Some(number) = self.nodes.find(key) {
            self.nodes.remove(number);
        }
    }

    fn holds(&self, key: Key) -> bool {
        self.nodes.find(key).is_some_and(|number| self.nodes.list(number) <= T2)
    }
}
