//! The optimum for a known sequence of reads: the block whose next read is the latest is evicted, or is not admitted
//! at all (Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2),
//! 1966).

use super::key::Key;
use std::collections::BTreeSet;

/// An event that concerns a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A block of the capacity tier is read.
    Read(Key),
    /// A block is written or discarded, which makes its copy worthless.
    Gone(Key),
}

/// The most reads that a cache of this many places can have answered.
#[must_use]
pub fn optimum_hits(events: &[Event], places: u32) -> u64 {
    let numbers = numbers(events);
    let next = next_reads(events, &numbers);
    // The next read of each block in the cache, and all of these in order.
    let mut held = vec![None; events.len()];
    let mut by_next = BTreeSet::new();
    let mut hits = 0;
    for ((event, &number), &next) in events.iter().zip(&numbers).zip(&next) {
        if let Some(before) = held[number as usize].take() {
            by_next.remove(&(before, number));
            hits += u64::from(matches!(event, Event::Read(_)));
        }
        if next == NEVER {
            continue;
        }
        held[number as usize] = Some(next);
        by_next.insert((next, number));
        if by_next.len() > places as usize
            && let Some((_, latest)) = by_next.pop_last()
        {
            held[latest as usize] = None;
        }
    }
    hits
}

/// A block that is not read again before it is written.
const NEVER: u32 = u32::MAX;

/// A number for each event's block: less than the number of events, in the order of keys.
fn numbers(events: &[Event]) -> Vec<u32> {
    let key = |event: &Event| match *event {
        Event::Read(key) | Event::Gone(key) => key,
    };
    let mut by_key: Vec<u32> = (0..events.len() as u32).collect();
    by_key.sort_unstable_by_key(|&at| key(&events[at as usize]));
    let mut numbers = vec![0; events.len()];
    let mut next = 0;
    for (at, &event) in by_key.iter().enumerate() {
        let is_new = at > 0 && key(&events[by_key[at - 1] as usize]) != key(&events[event as usize]);
        next += u32::from(is_new);
        numbers[event as usize] = next;
    }
    numbers
}

/// For each event, the index of the next event that reads its block, or `NEVER` if a write comes first.
fn next_reads(events: &[Event], numbers: &[u32]) -> Vec<u32> {
    let mut next = vec![NEVER; events.len()];
    let mut reads = vec![NEVER; events.len()];
    for (at, event) in events.iter().enumerate().rev() {
        let read = &mut reads[numbers[at] as usize];
        match event {
            Event::Read(_) => next[at] = std::mem::replace(read, at as u32),
            Event::Gone(_) => *read = NEVER,
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The best of all ways to hold blocks: for each possible set of held blocks, the most hits after each event.
    fn of_all_ways(events: &[Event], places: u32) -> u64 {
        let mut ways: BTreeMap<u8, u64> = BTreeMap::from([(0, 0)]);
        for event in events {
            let mut after = BTreeMap::new();
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
