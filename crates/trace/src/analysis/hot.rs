//! Hot blocks, which are followed in addition to a sample.
//!
//! A sample of blocks says little about a load in which a few blocks have a large share: they are in the sample or not. So the blocks with
//! most accesses are found by counting some of all accesses, whether or not their blocks are in the sample. From then on each access of
//! such a block counts, with weight one (a stratum that is taken completely, Cochran, "Sampling Techniques", chapter 5). That introduces no
//! bias: earlier accesses count as the sample has them, and whether a block is found does not depend on the sample.

use super::sampling::address;
use super::stack::{Place, Stack};
use crate::hash::Seed;
use forebay_block::hash::splitmix64;
use std::collections::{BTreeMap, HashMap};

/// A block is hot if it has one of this many accesses.
const SHARE: u64 = 2048;
/// Counted accesses after which a block is taken to be hot.
const SEEN: u32 = 4;
/// Most blocks that are counted at a time: one access in so many counted ones may be missed.
const COUNTED: usize = 2 * SHARE as usize * SEEN as usize;
/// Most hot blocks at a time.
const HOT_MAX: usize = 2 * SHARE as usize;

/// Finds the blocks with most accesses: one access in each stretch of accesses is counted, and stretches become longer with the trace
/// (Manku and Motwani 2002). Of the counted blocks, those with the fewest accesses are dropped (Misra and Gries 1982).
#[derive(Default)]
pub struct Finder {
    accesses: u64,
    /// Length of stretches as a power of two.
    doublings: u32,
    counts: HashMap<u64, u32, Seed>,
}

impl Finder {
    /// Counts accesses of `count` blocks from `first`; calls `found` with each block that turns out to be hot.
    pub fn count(&mut self, volume: u32, first: u64, count: u64, mut found: impl FnMut(u64)) {
        let (begin, end) = (self.accesses, self.accesses + count);
        let length = 1_u64 << self.doublings;
        for stretch in begin >> self.doublings..=(end - 1) >> self.doublings {
            let at = (stretch << self.doublings) + splitmix64(stretch << 6 ^ u64::from(self.doublings)) % length;
            if (begin..end).contains(&at) {
                self.note(address(volume, first + (at - begin)), &mut found);
            }
        }
        self.accesses = end;
        if end >> self.doublings >= 2 * SHARE * u64::from(SEEN) {
            self.doublings += 1;
            self.lessen(|count| count / 2);
        }
    }

    fn note(&mut self, key: u64, found: &mut impl FnMut(u64)) {
        let count = self.counts.entry(key).or_default();
        *count += 1;
        if *count >= SEEN {
            self.counts.remove(&key);
            found(key);
        } else if self.counts.len() > COUNTED {
            self.lessen(|count| count - 1);
        }
    }

    fn lessen(&mut self, to: impl Fn(u32) -> u32) {
        self.counts.retain(|_, count| {
            *count = to(*count);
            *count > 0
        });
    }

    /// Number of accesses that make a block hot.
    pub fn enough(&self) -> u32 {
        SEEN << self.doublings.min(20)
    }
}

/// Hot blocks in the order of their last accesses, each with the place that was next in the sample's stack at that time.
#[derive(Default)]
struct Order(Vec<(Place, u64)>);

impl Order {
    /// Removes a block; returns how many blocks come after it, and its place.
    fn take(&mut self, key: u64) -> Option<(usize, Place)> {
        let at = self.0.iter().rposition(|(_, other)| *other == key)?;
        let (place, _) = self.0.remove(at);
        Some((self.0.len() - at, place))
    }

    /// Number of blocks accessed after the sampled block at `place`.
    fn above(&self, place: Place) -> usize {
        self.0.len() - self.0.partition_point(|(other, _)| *other <= place)
    }

    /// Number of blocks with this place or a later one.
    fn at_or_above(&self, place: Place) -> usize {
        self.0.len() - self.0.partition_point(|(other, _)| *other < place)
    }
}

/// The hot blocks, beside a stack of the blocks that a sample follows.
#[derive(Default)]
pub struct Hot {
    /// Hot blocks, with their accesses since the stretches last became longer.
    known: BTreeMap<u64, u32>,
    order: Order,
    /// Hot blocks that are also in the sample, with the places of their marks in its stack; these marks do not count.
    sampled: Order,
    enough: u32,
}

impl Hot {
    /// The hot blocks among `count` blocks from an address.
    pub fn among(&self, begin: u64, count: u64) -> Vec<u64> {
        if self.known.is_empty() || count == 0 {
            return Vec::new();
        }
        self.known.range(begin..=begin + (count - 1)).map(|(key, _)| *key).collect()
    }

    /// Whether a block is hot.
    pub fn has(&self, key: u64) -> bool {
        !self.known.is_empty() && self.known.contains_key(&key)
    }

    /// Removes a hot block from the order; returns the distance in blocks to its last access, if there was one.
    pub fn take(&mut self, key: u64, stack: &Stack, weight: u64) -> Option<u64> {
        let taken = self.order.take(key);
        // If the block is in the sample, its own mark does not count either.
        let hot_of_sample = taken.map_or(0, |(_, place)| self.sampled.at_or_above(place));
        self.sampled.take(key);
        let (others, place) = taken?;
        let of_sample = match place.checked_sub(1) {
            Some(before) => stack.above(before),
            None => stack.marked(),
        };
        let cold = of_sample.saturating_sub(hot_of_sample);
        Some((cold as u64).saturating_mul(weight).saturating_add(others as u64))
    }

    /// The distance of a sampled block that is not hot, at a place of the stack.
    pub fn distance(&self, place: Place, stack: &Stack, weight: u64) -> u64 {
        let cold = stack.above(place).saturating_sub(self.sampled.above(place));
        (cold as u64).saturating_mul(weight).saturating_add(self.order.above(place) as u64)
    }

    /// Records an access of a hot block. To be called before the stack has the access.
    pub fn put(&mut self, key: u64, stack: &Stack, is_sampled: bool) {
        if let Some(accesses) = self.known.get_mut(&key) {
            *accesses = accesses.saturating_add(1);
        }
        self.order.0.push((stack.next(), key));
        if is_sampled {
            self.sampled.0.push((stack.next(), key));
        }
    }

    /// Makes a block hot that has just been accessed; `at` is its place in the stack, if it is in the sample.
    pub fn add(&mut self, key: u64, stack: &Stack, at: Option<Place>, enough: u32) {
        if self.name(key, enough) {
            self.order.0.push((stack.next(), key));
            self.sampled.0.extend(at.map(|place| (place, key)));
        }
    }

    /// Makes a block hot without a last access; `enough` is the number of accesses that this needed. Returns whether it was not hot before.
    pub fn name(&mut self, key: u64, enough: u32) -> bool {
        if enough > self.enough {
            self.lessen(enough);
        }
        self.known.len() < HOT_MAX && self.known.insert(key, enough).is_none()
    }

    /// Raises the number of accesses that make a block hot; blocks with few recent accesses are no longer hot.
    fn lessen(&mut self, enough: u32) {
        self.enough = enough;
        self.known.retain(|_, accesses| {
            let stays = *accesses >= enough / 4;
            *accesses = 0;
            stays
        });
        for order in [&mut self.order, &mut self.sampled] {
            order.0.retain(|(_, key)| self.known.contains_key(key));
        }
    }

    /// Removes blocks that the sample no longer follows.
    pub fn retain_sampled(&mut self, has: impl Fn(u64) -> bool) {
        self.sampled.0.retain(|(_, key)| has(*key));
    }

    /// All places, to be updated when the stack is packed.
    pub fn places(&mut self) -> impl Iterator<Item = &mut Place> {
        self.order.0.iter_mut().chain(&mut self.sampled.0).map(|(place, _)| place)
    }
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn those_with_most_accesses_are_found_and_few_others() {
        let (mut finder, mut found, mut state) = (Finder::default(), Vec::new(), 1_u64);
        for _ in 0..1_000_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Three blocks have one of 300 accesses each, all others one of a million.
            let block =
                if (state >> 40).is_multiple_of(100) { (state >> 33) % 3 } else { 3 + (state >> 20) % 1_000_000 };
            finder.count(0, block, 1, |key| found.push(key));
        }
        assert!((0..3).all(|hot| found.contains(&hot)), "{found:?}");
        assert!(found.iter().filter(|key| **key >= 3).count() < 20, "{found:?}");
        assert!(finder.counts.len() <= COUNTED + 1 && finder.enough() > 100);
    }

    #[test]
    fn each_stretch_of_accesses_counts_one() {
        let mut finder = Finder { doublings: 3, ..Finder::default() };
        for first in 0..100 {
            finder.count(0, first * 20, 20, |_| {});
        }
        assert_eq!(finder.counts.values().sum::<u32>(), 250);
    }

    #[test]
    fn those_that_were_accessed_little_of_late_are_hot_no_longer() {
        let (mut hot, mut stack) = (Hot::default(), Stack::default());
        for key in 0..HOT_MAX as u64 + 5 {
            let place = stack.push();
            hot.add(key, &stack, Some(place), 4);
        }
        assert_eq!(hot.among(0, 10_000).len(), HOT_MAX);
        // A block that has just become hot counts as having had enough accesses.
        hot.add(9000, &stack, None, 8);
        assert_eq!(hot.among(0, 10_000).len(), HOT_MAX, "all had enough, and there is no room");
        hot.take(7, &stack, 1).unwrap();
        (0..4).for_each(|_| hot.put(7, &stack, true));
        hot.add(9000, &stack, None, 16);
        assert_eq!(hot.among(0, 10_000), [7, 9000]);
    }

    proptest! {
        /// If all blocks are followed and some of them are hot, distances are those of a list.
        #[test]
        fn distances_are_those_of_a_list(steps in proptest::collection::vec((0_u64..30, 0_u8..20), 1..600)) {
            let (mut hot, mut stack, mut list) = (Hot::default(), Stack::with_lines(1), Vec::new());
            // Many entries, so that the stack is packed while some blocks are hot.
            for _ in 0..450 {
                let place = stack.push();
                stack.forget(place);
            }
            let mut places = BTreeMap::<u64, Place>::new();
            for (key, what) in steps {
                let is_hot = hot.has(key);
                let wanted = list.iter().rev().position(|other| *other == key).map(|at| at as u64);
                list.retain(|other| *other != key);
                if what == 0 {
                    if is_hot {
                        prop_assert_eq!(hot.take(key, &stack, 1), wanted);
                    }
                    places.remove(&key).into_iter().for_each(|place| stack.forget(place));
                    continue;
                }
                list.push(key);
                // Blocks with odd numbers are followed only while they are hot.
                let is_sampled = key % 2 == 0;
                if is_hot {
                    let distance = hot.take(key, &stack, 1);
                    hot.put(key, &stack, is_sampled);
                    prop_assert_eq!(distance, wanted);
                } else if !is_sampled {
                    hot.add(key, &stack, None, 4);
                    continue;
                }
                if !is_sampled {
                    continue;
                }
                if stack.is_full() {
                    stack.pack(places.values_mut().chain(hot.places()));
                }
                let place = match places.get(&key) {
                    Some(place) => {
                        if !is_hot {
                            prop_assert_eq!(Some(hot.distance(*place, &stack, 1)), wanted);
                        }
                        stack.raise(*place)
                    }
                    None => stack.push(),
                };
                places.insert(key, place);
                if what > 17 {
                    hot.add(key, &stack, Some(place), 4);
                }
            }
        }
    }
}
