//! How far back accesses reach, and the miss ratios that follow.

use super::groups::Groups;
use super::histogram::Histogram;

/// Distances that wait to be counted at most.
const WAITING_MAX: usize = 512;

/// Counts of stack distances. Exact while every block is followed, and in buckets of 0.8 % from then on.
#[derive(Clone, Debug)]
pub struct Distances {
    exact: Vec<u64>,
    /// Of `exact`, what is not counted yet, and how often: each count lies elsewhere in memory, and of many at once the waits overlap.
    waiting: Vec<(usize, u64)>,
    sampled: Option<Histogram>,
    /// All accesses, also those of blocks that are not followed.
    accesses: u64,
    /// Accesses that were followed, by the weight they had.
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
    /// Counts accesses, whether their blocks are followed or not.
    pub fn count(&mut self, accesses: u64) {
        self.accesses += accesses;
    }

    /// An access to a block that stands for `weight`, of a group of the sample (none for a hot one, which stands for itself), with
    /// as many other blocks accessed since the last one; `None` where there was none.
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

    /// As many accesses to blocks that each stand for themselves: while every block is followed.
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

    /// A version of a block is dead without having been written over: it counts as kept where it was still there, and as no
    /// access.
    pub fn discarded(&mut self, distance: u64, weight: u64, group: Option<usize>) {
        self.at_distance(distance, weight, group);
    }

    /// From now on blocks stand for several.
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

    /// Share of accesses that an LRU cache of so many blocks serves, and half of its 95 % interval where it is of a sample;
    /// `None` where there were none.
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
