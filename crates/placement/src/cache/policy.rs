//! The replacement policies by name.

use super::arc::Arc;
use super::lru::Lru;
use super::replacement::Replacement;
use super::s3_fifo_static::StaticS3Fifo;
use super::sieve::Sieve;
use super::tiny_lfu::TinyLfu;
use super::two_tiers::TwoTiers;

/// A replacement policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// LRU: evicts the block whose last read is the longest ago.
    Lru,
    /// ARC: a list of blocks read once and one of blocks read again, balanced by ghosts.
    Arc,
    /// W-TinyLFU: a window, and admission by how often a block was read.
    TinyLfu,
    /// SIEVE: a queue and a hand.
    Sieve,
    /// S3-FIFO as published.
    Published,
    /// S3-FIFO as published, but one further read promotes a block, not two.
    OneRead,
    /// This project's S3-FIFO: its small queue follows the ghosts, and runs pass the cache; behind a cache in memory.
    #[default]
    Ours,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 7] =
        [Self::Lru, Self::Arc, Self::TinyLfu, Self::Sieve, Self::Published, Self::OneRead, Self::Ours];

    /// The name that the policy's authors gave it, or a description of this project's variant.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "LRU",
            Self::Arc => "ARC",
            Self::TinyLfu => "W-TinyLFU",
            Self::Sieve => "SIEVE",
            Self::Published => "S3-FIFO",
            Self::OneRead => "S3-FIFO, 1 read",
            Self::Ours => "ours",
        }
    }

    /// Creates the policy for a cache of this many places.
    #[must_use]
    pub fn build(self, places: u32) -> Box<dyn Replacement + Send> {
        match self {
            Self::Lru => Box::new(Lru::new(places)),
            Self::Arc => Box::new(Arc::new(places)),
            Self::TinyLfu => Box::new(TinyLfu::new(places)),
            Self::Sieve => Box::new(Sieve::new(places)),
            Self::Published => Box::new(StaticS3Fifo::new(places, 2)),
            Self::OneRead => Box::new(StaticS3Fifo::new(places, 1)),
            Self::Ours => Box::new(TwoTiers::new(places)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Event, optimum_hits};
    use super::*;
    use crate::cache::Key;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn hits(policy: Policy, events: &[Event], places: u32) -> u64 {
        let mut cache = policy.build(places);
        let mut hits = 0;
        for event in events {
            match *event {
                Event::Read(key) => hits += u64::from(cache.read(key)),
                Event::Gone(key) => cache.remove(key),
            }
        }
        hits
    }

    fn event() -> impl Strategy<Value = Event> {
        let key = (0u64..40).prop_map(Key::from_bits);
        prop_oneof![9 => key.clone().prop_map(Event::Read), 1 => key.prop_map(Event::Gone)]
    }

    proptest! {
        /// Every policy reports a hit only for a block that was read before and not written since, holds no more
        /// blocks than there are places, and has no more hits than the optimum.
        #[test]
        fn every_policy_keeps_within_its_places(
            events in prop::collection::vec(event(), 1..400),
            places in 0u32..30,
        ) {
            let optimum = optimum_hits(&events, places);
            for policy in Policy::ALL {
                let mut cache = policy.build(places);
                let mut may_be_held = BTreeSet::new();
                let mut is_full = false;
                for event in &events {
                    match *event {
                        Event::Read(key) => {
                            let was_held = cache.holds(key);
                            prop_assert_eq!(cache.read(key), was_held);
                            may_be_held.insert(key);
                        }
                        Event::Gone(key) => {
                            cache.remove(key);
                            may_be_held.remove(&key);
                            is_full = false;
                        }
                    }
                    let held = (0..40).map(Key::from_bits).filter(|&key| cache.holds(key));
                    let held: Vec<Key> = held.collect();
                    prop_assert!(held.len() <= places as usize, "{}: {} held", policy.name(), held.len());
                    prop_assert!(held.iter().all(|key| may_be_held.contains(key)), "{}", policy.name());
                    // Once all places are occupied, they stay occupied: a new block replaces an evicted one. In two
                    // tiers a block may occupy two places.
                    let takes_one = policy != Policy::Ours;
                    prop_assert!(!is_full || !takes_one || held.len() == places as usize, "{}: {} held", policy.name(), held.len());
                    is_full = held.len() == places as usize;
                }
                prop_assert!(hits(policy, &events, places) <= optimum, "{}", policy.name());
            }
        }
    }

    #[test]
    fn known_sequences_have_known_hits() {
        let read =
            |blocks: &[u64]| -> Vec<Event> { blocks.iter().map(|&block| Event::Read(Key::from_bits(block))).collect() };
        // A textbook's pages in three frames: 9 of 20 reads miss if each page must be loaded, 8 if it need not be
        // loaded, 12 with LRU.
        let example = read(&[7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1]);
        assert_eq!(optimum_hits(&example, 3), 12);
        assert_eq!(hits(Policy::Lru, &example, 3), 8);
        // SIEVE keeps a block that was read again where LRU does not.
        let scan = read(&[1, 2, 1, 3, 4, 5, 1, 6, 7, 8, 1]);
        assert_eq!(hits(Policy::Lru, &scan, 3), 1);
        assert_eq!(hits(Policy::Sieve, &scan, 3), 3);
        // A loop over one block more than there are places: LRU never hits; the optimum keeps all blocks but one.
        let around = read(&(0..10).flat_map(|_| 0..11).collect::<Vec<_>>());
        assert_eq!(hits(Policy::Lru, &around, 10), 0);
        assert_eq!(optimum_hits(&around, 10), 90);
        // ARC protects blocks that were read twice from blocks that are read once.
        let twice: Vec<u64> = (0..8).chain(0..8).chain(100..200).chain(0..8).collect();
        assert_eq!(hits(Policy::Arc, &read(&twice), 10), 16);
        assert_eq!(hits(Policy::Lru, &read(&twice), 10), 8);
        // So does W-TinyLFU, if it has enough counters for the blocks read within its sample of ten reads for each
        // place.
        let twice: Vec<u64> = (0..80).chain(0..80).chain(1000..1300).chain(0..80).collect();
        assert_eq!(hits(Policy::TinyLfu, &read(&twice), 100), 160);
        assert_eq!(hits(Policy::Lru, &read(&twice), 100), 80);
    }
}
