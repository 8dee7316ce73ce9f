//! Hot blocks, which a sample follows all the same.
//!
//! A sample of blocks tells little of a load of which a few blocks have a large part: it has them or not. So blocks that are
//! accessed most are found by counting some of all accesses, whether their blocks are in the sample or not, and from then on
//! each of their accesses counts, and counts once (a stratum of which all is taken, Cochran, "Sampling Techniques", chapter 5). That
//! favours neither side: what a block had before counts as the sample has it, and whether it is found does not depend on that.

use super::sampling::{address, hash};
use super::stack::{Place, Stack};
use crate::hash::Seed;
use std::collections::{BTreeMap, HashMap};

/// A block is hot that has one of so many accesses.
const SHARE: u64 = 2048;
/// Accesses that are seen of a block before it is taken to be hot.
const SEEN: u32 = 4;
/// Blocks that are counted at a time: one in so many of the accesses that are counted may pass unseen.
const COUNTED: usize = 2 * SHARE as usize * SEEN as usize;
/// Hot blocks at a time.
const HOT_MAX: usize = 2 * SHARE as usize;

/// Finds the blocks with most accesses: of each stretch of accesses one is counted, and stretches become longer with the trace
/// (Manku and Motwani 2002); of the blocks counted those are forgotten that have least (Misra and Gries 1982).
#[derive(Default)]
pub struct Finder {
    accesses: u64,
    /// Stretches are of 2^n accesses.
    doublings: u32,
    counts: HashMap<u64, u32, Seed>,
}

impl Finder {
    /// Accesses of `count` blocks from `first`; calls `found` with each that has turned out to be hot.
    pub fn count(&mut self, volume: u32, first: u64, count: u64, mut found: impl FnMut(u64)) {
        let (begin, end) = (self.accesses, self.accesses + count);
        let length = 1_u64 << self.doublings;
        for stretch in begin >> self.doublings..=(end - 1) >> self.doublings {
            let at = (stretch << self.doublings) + hash(stretch << 6 ^ u64::from(self.doublings)) % length;
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

    /// Accesses that make a block hot.
    pub fn enough(&self) -> u32 {
        SEEN << self.doublings.min(20)
    }
}

/// Blocks in the order of their last accesses, each with the place in the stack of the sample that was next then.
#[derive(Default)]
struct Order(Vec<(Place, u64)>);

impl Order {
    /// Takes a block out: how many come after it, and its place.
    fn take(&mut self, key: u64) -> Option<(usize, Place)> {
        let at = self.0.iter().rposition(|(_, other)| *other == key)?;
        let (place, _) = self.0.remove(at);
        Some((self.0.len() - at, place))
    }

    /// How many were accessed after the block of the sample at a place.
    fn above(&self, place: Place) -> usize {
        self.0.len() - self.0.partition_point(|(other, _)| *other <= place)
    }

    /// How many have a place like that or behind it.
    fn at_or_above(&self, place: Place) -> usize {
        self.0.len() - self.0.partition_point(|(other, _)| *other < place)
    }
}

/// The hot blocks beside a stack of those that a sample follows.
#[derive(Default)]
pub struct Hot {
    /// With the accesses since the stretches last became longer.
    known: BTreeMap<u64, u32>,
    order: Order,
    /// Those of them that are in the sample, too, with the places of their marks in its stack, which do not count.
    sampled: Order,
    enough: u32,
}

impl Hot {
    /// The hot ones of `count` blocks from an address on.
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

    /// Takes a hot block out: the distance in blocks to its last access, where it had one.
    pub fn take(&mut self, key: u64, stack: &Stack, weight: u64) -> Option<u64> {
        let taken = self.order.take(key);
        // Its own mark counts neither, if it is in the sample.
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

    /// The distance of a block of the sample that is not hot, at a place of the stack.
    pub fn distance(&self, place: Place, stack: &Stack, weight: u64) -> u64 {
        let cold = stack.above(place).saturating_sub(self.sampled.above(place));
        (cold as u64).saturating_mul(weight).saturating_add(self.order.above(place) as u64)
    }

    /// A hot block is accessed. To be called before the stack has the access.
    pub fn put(&mut self, key: u64, stack: &Stack, is_sampled: bool) {
        if let Some(accesses) = self.known.get_mut(&key) {
            *accesses = accesses.saturating_add(1);
        }
        self.order.0.push((stack.next(), key));
        if is_sampled {
            self.sampled.0.push((stack.next(), key));
        }
    }

    /// A block that has just been accessed is hot from now on; `at` is where it is in the stack, if it is in the sample.
    pub fn add(&mut self, key: u64, stack: &Stack, at: Option<Place>, enough: u32) {
        if self.name(key, enough) {
            self.order.0.push((stack.next(), key));
            self.sampled.0.extend(at.map(|place| (place, key)));
        }
    }

    /// A block is hot that so many accesses were enough for, and has no last one; whether it was not before.
    pub fn name(&mut self, key: u64, enough: u32) -> bool {
        if enough > self.enough {
            self.lessen(enough);
        }
        self.known.len() < HOT_MAX && self.known.insert(key, enough).is_none()
    }

    /// More accesses make a block hot from now on; those that had few of late are no longer.
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

    /// The sample follows fewer.
    pub fn retain_sampled(&mut self, has: impl Fn(u64) -> bool) {
        self.sampled.0.retain(|(_, key)| has(*key));
    }

    /// The places, to be changed where the stack is packed.
    pub fn places(&mut self) -> impl Iterator<Item = &mut Place> {
        self.order.0.iter_mut().chain(&mut self.sampled.0).map(|(place, _)| place)
    }
}

#[cfg(test)]
// Here a panic is the finding.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn those_with_most_accesses_are_found_and_few_others() {
        let (mut finder, mut found, mut state) = (Finder::default(), Vec::new(), 1_u64);
        for _ in 0..1_000_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Three have one of 300 accesses each, all others one of a million.
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
        // Who became hot counts as having had enough.
        hot.add(9000, &stack, None, 8);
        assert_eq!(hot.among(0, 10_000).len(), HOT_MAX, "all had enough, and there is no room");
        hot.take(7, &stack, 1).unwrap();
        (0..4).for_each(|_| hot.put(7, &stack, true));
        hot.add(9000, &stack, None, 16);
        assert_eq!(hot.among(0, 10_000), [7, 9000]);
    }

    proptest! {
        /// Where all are followed, of whom some are hot, distances are those of a list.
        #[test]
        fn distances_are_those_of_a_list(steps in proptest::collection::vec((0_u64..30, 0_u8..20), 1..600)) {
            let (mut hot, mut stack, mut list) = (Hot::default(), Stack::with_lines(1), Vec::new());
            // So that it is packed while some are hot.
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
                // Those of odd numbers are followed only while they are hot.
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
