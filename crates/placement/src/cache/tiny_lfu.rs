//! W-TinyLFU: a window in the order of reads, and a main part that a block enters if it was read more often than the
//! block that would be evicted for it (Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache Admission
//! Policy", ACM Transactions on Storage 13(4), 2017). The window is 1 %, and four fifths of the main part are
//! protected, as the authors advise; reads are counted by a count-min sketch of four rows, which is halved after ten
//! times as many reads as there are places.

use super::key::Key;
use super::nodes::Nodes;
use super::replacement::Replacement;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
const ROWS: usize = 4;
/// Seeds of the rows' hashes: the first hexadecimal digits of pi's fraction.
const ROW_SEEDS: [u64; ROWS] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];
const COUNT_MAX: u8 = 15;
/// Reads between two halvings, for each place.
const SAMPLE: u64 = 10;
/// Counters of a row, for each place.
const WIDTH: usize = 4;

/// Approximate number of reads of each block; older reads count less.
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

    /// Index of a key's counter in a row. Each row has a hash of its own: two keys that collide in one row need not
    /// collide in the next.
    fn at(&self, key: Key, row: usize) -> usize {
        let hash = key.hash(ROW_SEEDS[row]);
        row * self.width + ((u128::from(hash) * self.width as u128) >> 64) as usize
    }

    fn count(&self, key: Key) -> u8 {
        (0..ROWS).map(|row| self.counts[self.at(key, row)]).min().unwrap_or(0)
    }

    fn read(&mut self, key: Key) {
        let least = self.count(key);
        for row in 0..ROWS {
            let at = self.at(key, row);
            // Only the smallest counters are incremented ("conservative update").
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

/// A window, a main part of two lists, and counters.
#[derive(Clone, Debug)]
pub struct TinyLfu {
    nodes: Nodes<3>,
    sketch: Sketch,
    window_max: u32,
    protected_max: u32,
}

impl TinyLfu {
    /// An empty cache of this many places.
    #[must_use]
    pub fn new(places: u32) -> Self {
        let window_max = (places / 100).max(1);
        let protected_max = (f64::from(places - window_max.min(places)) * 0.8) as u32;
        Self { nodes: Nodes::new(places, 0), sketch: Sketch::new(places), window_max, protected_max }
    }

    /// Makes room for a block that enters the window. If the window is full, its oldest block moves to the main part
    /// while that has room; later only if it was read more often than the block that it replaces there.
    fn make_room(&mut self) {
        let candidate = self.nodes.oldest(WINDOW).filter(|_| self.nodes.len(WINDOW) >= self.window_max);
        if self.nodes.free().is_some() {
            if let Some(candidate) = candidate {
                self.nodes.renew(candidate, PROBATION);
            }
            return;
        }
        let count = |number| self.sketch.count(self.nodes.key(number));
        let victim = self.nodes.oldest(PROBATION).or_else(|| self.nodes.oldest(PROTECTED));
        match (candidate, victim) {
            (Some(candidate), Some(victim)) if count(candidate) > count(victim) => {
                self.nodes.remove(victim);
                self.nodes.renew(candidate, PROBATION);
            }
            (Some(loser), _) | (None, Some(loser)) => self.nodes.remove(loser),
            (None, None) => {}
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
        self.make_room();
        if let Some(number) = self.nodes.free() {
            self.nodes.add(number, key, WINDOW);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that collide in the first row collide in another row no more often than any two keys.
    #[test]
    fn regression_rows_of_the_sketch_are_independent() {
        let sketch = Sketch::new(64);
        let keys: Vec<Key> = (0..4000).map(Key::from_bits).collect();
        let columns: Vec<[usize; ROWS]> =
            keys.iter().map(|&key| std::array::from_fn(|row| sketch.at(key, row) % sketch.width)).collect();
        let (mut together, mut also) = (0_u32, [0_u32; ROWS]);
        for (at, one) in columns.iter().enumerate() {
            for other in columns[..at].iter().filter(|other| other[0] == one[0]) {
                together += 1;
                (1..ROWS).for_each(|row| also[row] += u32::from(other[row] == one[row]));
            }
        }
        let expected = together / sketch.width as u32;
        assert!(expected > 100 && also[0] == 0, "{together} {also:?}");
        for count in &also[1..] {
            assert!((expected * 2 / 3..expected * 3 / 2).contains(count), "{also:?}, {expected} expected");
        }
    }

    #[test]
    fn regression_all_places_are_held_once_it_is_full() {
        for places in 1..300 {
            let mut cache = TinyLfu::new(places);
            for block in 0..u64::from(places) * 3 {
                cache.read(Key::from_bits(block));
                cache.read(Key::from_bits(block / 2));
                let held = cache.nodes.len(WINDOW) + cache.nodes.len(PROBATION) + cache.nodes.len(PROTECTED);
                assert_eq!(u64::from(held), (block + 1).min(u64::from(places)), "{places} places");
            }
        }
    }
}
