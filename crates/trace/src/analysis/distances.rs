//! How far back accesses reach, and the miss ratios that follow.

use super::groups::Groups;
use super::histogram::Histogram;

/// Counts of stack distances. Exact while every block is followed, and in buckets of 0.8 % from then on.
#[derive(Clone, Debug)]
pub struct Distances {
    exact: Vec<u64>,
    sampled: Option<Histogram>,
    /// All accesses, also those of blocks that are not followed.
    accesses: u64,
    /// Accesses that were followed, by the weight they had.
    followed: f64,
    groups: Groups,
}

impl Default for Distances {
    fn default() -> Self {
        Self { exact: Vec::new(), sampled: None, accesses: 0, followed: 0.0, groups: Groups::default() }
    }
}

impl Distances {
    /// Counts accesses, whether their blocks are followed or not.
    pub fn count(&mut self, accesses: u64) {
        self.accesses += accesses;
    }

    /// An access to a block of a group of the sample that was never accessed before.
    pub fn first(&mut self, weight: u64, group: usize) {
        self.followed += weight as f64;
        if self.sampled.is_some() {
            self.groups.access(group, weight);
        }
    }

    /// An access with so many other followed blocks accessed since the last one, each of which stands for `weight`.
    pub fn again(&mut self, others: usize, weight: u64, group: usize) {
        self.first(weight, group);
        self.at_distance(others, weight, group);
    }

    fn at_distance(&mut self, others: usize, weight: u64, group: usize) {
        match &mut self.sampled {
            Some(sampled) => {
                let distance = (others as u64).saturating_mul(weight);
                sampled.add_weighted(distance, weight as f64);
                self.groups.again(group, distance, weight);
            }
            None => {
                if self.exact.len() <= others {
                    self.exact.resize(others + 1, 0);
                }
                self.exact[others] += 1;
            }
        }
    }

    /// A version of a block is dead without having been written over: it counts as kept where it was still there, and as no
    /// access.
    pub fn discarded(&mut self, others: usize, weight: u64, group: usize) {
        self.at_distance(others, weight, group);
    }

    /// From now on blocks stand for several.
    pub fn sample(&mut self) {
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
            None => self.exact[..self.exact.len().min(usize::try_from(blocks).unwrap_or(usize::MAX))]
                .iter()
                // From zero on: the sum of nothing is -0.0.
                .fold(0.0_f64, |sum, &count| sum + count as f64),
            Some(sampled) if blocks > 0 => {
                let found = self.groups.correction(blocks, self.accesses as f64 - self.followed);
                let hits = share(sampled.below(blocks) + found.hits).clamp(0.0, 1.0) + 0.0;
                return Some((hits, Some(share(found.error).min(1.0))));
            }
            Some(_) => 0.0,
        };
        Some((share(hits).clamp(0.0, 1.0), None))
    }
}
