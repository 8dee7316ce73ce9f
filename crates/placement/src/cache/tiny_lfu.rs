//! W-TinyLFU: a window in the order of reads before a main part that a block enters when it was read more often than the one
//! that would go (Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM Transactions on
//! Storage 13(4), 2017). The window is 1 % and four fifths of the main part are protected, as the authors advise; reads are counted by
//! a count-min sketch of four rows that is halved after ten times as many reads as there are places.

use super::key::Key;
use super::nodes::Nodes;
use super::replacement::Replacement;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
const ROWS: usize = 4;
const COUNT_MAX: u8 = 15;
/// Reads between two halvings, for each place.
const SAMPLE: u64 = 10;
/// Counters of a row, for each place.
const WIDTH: usize = 4;

/// How often blocks were read, about, the longer ago the less.
#[derive(Clone, Debug)]
struct Sketch {
    counts: Vec<u8>,
    width: usize,
    reads: u64,
    reads_max: u64,
}

impl Sketch {
    fn new(places: u32) -> Self {
        let width = (places as usize * WIDTH).max(16);
        Self { counts: vec![0; width * ROWS], width, reads: 0, reads_max: SAMPLE * u64::from(places).max(1) }
    }

    fn at(&self, hash: u64, row: usize) -> usize {
        let hash = hash.wrapping_add(row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let column = (u128::from(hash.wrapping_mul(0xbf58_476d_1ce4_e5b9)) * self.width as u128) >> 64;
        row * self.width + column as usize
    }

    fn count(&self, key: Key) -> u8 {
        let hash = key.hash(0);
        (0..ROWS).map(|row| self.counts[self.at(hash, row)]).min().unwrap_or(0)
    }

    fn read(&mut self, key: Key) {
        let (hash, least) = (key.hash(0), self.count(key));
        for row in 0..ROWS {
            let at = self.at(hash, row);
            // Only the least are counted up ("conservative update").
            if self.counts[at] == least && least < COUNT_MAX {
                self.counts[at] += 1;
            }
        }
        self.reads += 1;
        if self.reads >= self.reads_max {
            self.reads /= 2;
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }
}

/// A window, a main part of two lists, and counts.
#[derive(Clone, Debug)]
pub struct TinyLfu {
    nodes: Nodes<3>,
    sketch: Sketch,
    window_max: u32,
    protected_max: u32,
}

impl TinyLfu {
    /// Over so many places.
    #[must_use]
    pub fn new(places: u32) -> Self {
        let window_max = (places / 100).max(1);
        let protected_max = (f64::from(places - window_max.min(places)) * 0.8) as u32;
        Self { nodes: Nodes::new(places, 0), sketch: Sketch::new(places), window_max, protected_max }
    }

    /// Lets the oldest of the window compete with the oldest of the main part, if the window is too long.
    fn out_of_window(&mut self) {
        if self.nodes.len(WINDOW) <= self.window_max && self.nodes.free().is_some() {
            return;
        }
        let Some(candidate) = self.nodes.oldest(WINDOW) else { return };
        if self.nodes.free().is_some() {
            return self.nodes.renew(candidate, PROBATION);
        }
        let victim = self.nodes.oldest(PROBATION).or_else(|| self.nodes.oldest(PROTECTED));
        let Some(victim) = victim else { return self.nodes.remove(candidate) };
        let is_better = self.sketch.count(self.nodes.key(candidate)) > self.sketch.count(self.nodes.key(victim));
        if is_better {
            self.nodes.remove(victim);
            self.nodes.renew(candidate, PROBATION);
        } else {
            self.nodes.remove(candidate);
        }
    }

    fn seen(&mut self, key: Key) -> bool {
        self.sketch.read(key);
        let Some(number) = self.nodes.find(key) else { return false };
        match self.nodes.list(number) {
            WINDOW => self.nodes.renew(number, WINDOW),
            _ => {
                self.nodes.renew(number, PROTECTED);
                while self.nodes.len(PROTECTED) > self.protected_max
                    && let Some(oldest) = self.nodes.oldest(PROTECTED)
                {
                    self.nodes.renew(oldest, PROBATION);
                }
            }
        }
        true
    }

    fn admit(&mut self, key: Key) {
        if self.nodes.free().is_none() {
            self.out_of_window();
        }
        if let Some(number) = self.nodes.free() {
            self.nodes.add(number, key, WINDOW);
            if self.nodes.len(WINDOW) > self.window_max {
                self.out_of_window();
            }
        }
    }
}

impl Replacement for TinyLfu {
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
