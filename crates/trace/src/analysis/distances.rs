//! Stack distances of accesses, and the miss ratios that follow from them.

use super::groups::Groups;
use super::histogram::Histogram;

/// Most distances that wait to be counted.
const WAITING_MAX: usize = 512;

/// Counts of stack distances: exact while every block is followed, from then on in buckets of 0.8 %.
#[derive(Clone, Debug)]
pub struct Distances {
    exact: Vec<u64>,
    /// Distances and counts not yet added to `exact`. Counts lie far apart in memory; if many are added together, the cache misses overlap.
    waiting: Vec<(usize, u64)>,
    sampled: Option<Histogram>,
    /// Number of all accesses, including those to blocks that are not followed.
    accesses: u64,
    /// Sum of the weights of accesses to followed blocks.
    followed: f64,
    groups: Groups,
}

impl Default for Distances {
    fn default() -> Self {
        let (exact, waiting) = (Vec::new(), Vec::new());
        Self { exact, waiting, sampled: None, accesses: 0, followed: 0.0, groups: Groups::default() }
    }
}

impl Distances {
    /// Counts accesses, whether or not their blocks are followed.
    pub fn count(&mut self, accesses: u64) {
        self.accesses += accesses;
    }

    /// Counts an access to a block that stands for `weight`, in a group of the sample (`None` for a hot block, which only stands for
    /// itself). `distance` is the number of other blocks accessed since the block's last access; `None` if there was none.
    pub fn access(&mut self, distance: Option<u64>, weight: u64, group: Option<usize>) {
        self.followed += weight as f64;
        if let (true, Some(group)) = (self.sampled.is_some(), group) {
            self.groups.access(group, weight);
        }
        if let Some(distance) = distance {
            self.at_distance(distance, weight, group);
        }
    }

    fn at_distance(&mut self, distance: u64, weight: u64, group: Option<usize>) {
        match &mut self.sampled {
            Some(sampled) => {
                sampled.add_weighted(distance, weight as f64);
                if let Some(group) = group {
                    self.groups.again(group, distance, weight);
                }
            }
            None => self.wait(distance, 1),
        }
    }

    /// Counts `times` accesses to blocks that only stand for themselves, while every block is followed.
    pub fn access_all(&mut self, distance: Option<u64>, times: u64) {
        debug_assert!(self.sampled.is_none(), "all blocks are followed");
        self.followed += times as f64;
        if let Some(distance) = distance {
            self.wait(distance, times);
        }
    }

    fn wait(&mut self, distance: u64, times: u64) {
        self.waiting.push((distance as usize, times));
        if self.waiting.len() >= WAITING_MAX {
            self.count_waiting();
        }
    }

    fn count_waiting(&mut self) {
        let longest = self.waiting.iter().map(|(distance, _)| distance + 1).max().unwrap_or(0);
        if self.exact.len() < longest {
            self.exact.resize(longest, 0);
        }
        for (distance, times) in self.waiting.drain(..) {
            self.exact[distance] += times;
        }
    }

    /// Counts the discard of a block's version: it counts as kept if it was still in the cache, but not as an access.
    pub fn discarded(&mut self, distance: u64, weight: u64, group: Option<usize>) {
        self.at_distance(distance, weight, group);
    }

    /// From now on, blocks stand for several.
    pub fn sample(&mut self) {
        self.count_waiting();
        let exact = std::mem::take(&mut self.exact);
        let sampled = self.sampled.get_or_insert_default();
        for (distance, count) in exact.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            sampled.add_weighted(distance as u64, count as f64);
        }
    }

    /// All accesses.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Share of accesses that an LRU cache of `blocks` blocks serves, and half of its 95 % interval if only a sample is followed; `None`
    /// without accesses.
    pub fn hit_ratio(&self, blocks: u64) -> Option<(f64, Option<f64>)> {
        if self.accesses == 0 {
            return None;
        }
        let share = |hits: f64| hits / self.accesses as f64;
        let hits = match &self.sampled {
            None => {
                let blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
                let waiting = self.waiting.iter().filter(|(distance, _)| *distance < blocks);
                let waiting: u64 = waiting.map(|(_, times)| times).sum();
                (waiting + self.exact.iter().take(blocks).sum::<u64>()) as f64
            }
            Some(sampled) if blocks > 0 => {
                let found = self
                    .groups
                    .correction(blocks, self.accesses as f64 - self.followed, |distance| sampled.below(distance));
                let hits = share(sampled.below(blocks) + found.hits).clamp(0.0, 1.0) + 0.0;
                return Some((hits, Some(share(found.error).min(1.0))));
            }
            Some(_) => 0.0,
        };
        Some((share(hits).clamp(0.0, 1.0), None))
    }
}
