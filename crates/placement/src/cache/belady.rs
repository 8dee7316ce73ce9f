//! The optimum for a sequence that is known: what is read latest goes, or is not admitted at all (Belady, "A study of replacement
//! algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966).

use super::key::Key;
use std::collections::{BTreeSet, HashMap};

/// What happens to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A block of the capacity tier is read.
    Read(Key),
    /// A block is written or discarded: a copy of it is worth nothing.
    Gone(Key),
}

/// Reads that a cache of so many places can have answered at most.
#[must_use]
pub fn optimum_hits(events: &[Event], places: u32) -> u64 {
    let next = next_reads(events);
    let (mut held, mut by_next) = (HashMap::new(), BTreeSet::new());
    let mut hits = 0;
    for (event, &next) in events.iter().zip(&next) {
        let (Event::Read(key) | Event::Gone(key)) = *event;
        let before: Option<u32> = held.remove(&key);
        if let Some(before) = before {
            by_next.remove(&(before, key));
            hits += u64::from(matches!(event, Event::Read(_)));
        }
        if next == u32::MAX {
            continue;
        }
        held.insert(key, next);
        by_next.insert((next, key));
        if by_next.len() > places as usize
            && let Some((_, latest)) = by_next.pop_last()
        {
            held.remove(&latest);
        }
    }
    hits
}

/// For each event, which one reads its block next, if nothing writes it before.
fn next_reads(events: &[Event]) -> Vec<u32> {
    let mut next = vec![u32::MAX; events.len()];
    let mut reads = HashMap::new();
    for (at, event) in events.iter().enumerate().rev() {
        match *event {
            Event::Read(key) => next[at] = reads.insert(key, at as u32).unwrap_or(u32::MAX),
            Event::Gone(key) => {
                reads.remove(&key);
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The best of all ways to hold blocks: the most hits with which each set can be held after each event.
    fn of_all_ways(events: &[Event], places: u32) -> u64 {
        let mut ways: HashMap<u8, u64> = HashMap::from([(0, 0)]);
        for event in events {
            let mut after = HashMap::new();
            for (held, hits) in ways {
                let (Event::Read(key) | Event::Gone(key)) = *event;
                let bit = 1_u8 << key.block();
                let hits = hits + u64::from(*event == Event::Read(key) && held & bit != 0);
                let mut reach = |held: u8| {
                    let best = after.entry(held).or_insert(hits);
                    *best = hits.max(*best);
                };
                let others = held & !bit;
                reach(others);
                if *event == Event::Read(key) {
                    let choices = (0..8).map(|drop| others & !(1 << drop)).chain([others]);
                    choices.map(|kept| kept | bit).filter(|held| held.count_ones() <= places).for_each(reach);
                }
            }
            ways = after;
        }
        ways.into_values().max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_way_to_hold_blocks_has_more_hits(
            events in prop::collection::vec((0u8..5, 0u64..6), 0..24),
            places in 1u32..4,
        ) {
            let event = |&(what, block): &(u8, u64)| {
                let key = Key::from_bits(block);
                if what == 0 { Event::Gone(key) } else { Event::Read(key) }
            };
            let events: Vec<Event> = events.iter().map(event).collect();
            prop_assert_eq!(optimum_hits(&events, places), of_all_ways(&events, places));
        }
    }
}
