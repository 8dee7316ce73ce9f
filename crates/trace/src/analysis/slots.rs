//! Which blocks are followed, and by which number: the index of their state in a list.
//!
//! Requests cover neighbouring blocks, and a table of single blocks would wait for memory for each of them. So eight neighbours share an
//! entry, and the last block's entry is remembered for the next. Neighbours that were last accessed together also share a number, so one
//! state represents all of them. They form an extent, which is [cut](Slots::cut) if a request covers only a part, and [joined](Slots::join)
//! with a similar neighbour. A table that may be full, or that holds a sample, has [no extents](Slots::has_extents).
//!
//! Entries are found by linear probing. Keys are stored apart from the entries, so that eight are compared in one cache line, and so that
//! entries can be [prefetched](Slots::fetch_keys) for many requests before the first of them needs its own.

use super::stack::Place;
use crate::hash::Seed;
use std::hash::BuildHasher;
use std::hint::black_box;

/// The number of a block.
pub type Slot = u32;
/// Number of neighbours that share an entry.
pub const NEIGHBOURS: u64 = 8;
/// A neighbour that is not followed.
pub const NONE: Slot = Slot::MAX;
/// The key of an unused entry: no block has it, since addresses have 64 bits.
const NO_GROUP: u64 = u64::MAX;
/// Number of entries at first.
const ENTRIES_MIN: usize = 64;
/// Of this many entries, at least one stays free.
const LOAD: usize = 8;

/// Numbers of the neighbours. No entry crosses a cache line.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(align(32))]
struct Group([Slot; NEIGHBOURS as usize]);
const EMPTY: Group = Group([NONE; NEIGHBOURS as usize]);

/// An extent of a group, or a part of one that has become its own extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of the extent.
    pub number: Slot,
    /// Number of its blocks.
    pub len: u64,
    /// The extent that it was cut from, and how many blocks of that lie before it; `None` if its blocks were not followed before.
    pub of: Option<(Slot, Place)>,
    /// The new number of what lay behind it in that extent, and how many blocks of the old extent lie before that.
    pub tail: Option<(Slot, Place)>,
}

/// Numbers of blocks by address. Numbers of removed blocks are reused.
pub struct Slots {
    /// Group numbers (addresses divided by [`NEIGHBOURS`]); the length is a power of two.
    keys: Vec<u64>,
    groups: Vec<Group>,
    /// Number of entries with a key, including those without followed blocks.
    taken: usize,
    /// The group of the last block, and its entry.
    last: (u64, usize),
    seed: Seed,
    /// Free numbers, and the first number that was never used.
    free: Vec<Slot>,
    end: usize,
    /// Number of followed blocks.
    len: usize,
    /// Whether each block has its own number.
    is_single: bool,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            keys: vec![NO_GROUP; ENTRIES_MIN],
            groups: vec![EMPTY; ENTRIES_MIN],
            taken: 0,
            last: (NO_GROUP, 0),
            seed: Seed::default(),
            free: Vec::new(),
            end: 0,
            len: 0,
            is_single: false,
        }
    }
}

fn addresses(number: u64, group: Group) -> impl Iterator<Item = (u64, Slot)> {
    (0..).zip(group.0).filter(|(_, slot)| *slot != NONE).map(move |(at, slot)| (number * NEIGHBOURS + at, slot))
}

impl Extent {
    /// Length that the list of states needs for this extent.
    pub fn end(&self) -> usize {
        self.number.max(self.tail.map_or(0, |(tail, _)| tail)) as usize + 1
    }
}

/// Number of blocks of the extent at `at` that lie before `at`.
fn before(group: &Group, at: usize) -> Place {
    group.0[..at].iter().rev().take_while(|other| **other == group.0[at]).count() as Place
}

impl Slots {
    /// Number of blocks that are followed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of a block; `None` if it is not followed.
    pub fn get(&mut self, address: u64) -> Option<Slot> {
        let entry = self.find(address / NEIGHBOURS)?;
        Some(self.groups[entry].0[(address % NEIGHBOURS) as usize]).filter(|slot| *slot != NONE)
    }

    /// The extent of a block, and how many blocks of it lie before; `None` if the block is not followed.
    pub fn extent(&mut self, address: u64) -> Option<(Slot, Place)> {
        let entry = self.find(address / NEIGHBOURS)?;
        let (group, at) = (&self.groups[entry], (address % NEIGHBOURS) as usize);
        let number = Some(group.0[at]).filter(|number| *number != NONE)?;
        Some((number, before(group, at)))
    }

    /// Follows a block from now on; returns its number, and whether it was followed before. A new number is a free one, or the next one.
    pub fn follow(&mut self, address: u64) -> (Slot, bool) {
        if let Some(number) = self.get(address) {
            return (number, true);
        }
        (self.cut(address, 1).number, false)
    }

    /// Makes an extent from a block and up to `count` blocks including it that share its entry, and that belong to the same extent or are
    /// all not followed; they are followed from now on.
    pub fn cut(&mut self, address: u64, count: u64) -> Extent {
        let begin = (address % NEIGHBOURS) as usize;
        let most = begin + count.min(NEIGHBOURS - begin as u64) as usize;
        let entry = self.find_or_take(address / NEIGHBOURS);
        let Self { groups, free, end, .. } = self;
        let ahead = before(&groups[entry], begin);
        let group = &mut groups[entry].0;
        let mut give = |slots: &mut [Slot]| {
            let number = free.pop().unwrap_or_else(|| {
                *end += 1;
                (*end - 1) as Slot
            });
            slots.fill(number);
            number
        };
        let number = group[begin];
        let alike = |slots: &[Slot]| slots.iter().take_while(|other| **other == number).count();
        let len = alike(&group[begin..most]);
        let next = begin + len;
        if number == NONE {
            self.len += len;
            return Extent { number: give(&mut group[begin..next]), len: len as u64, of: None, tail: None };
        }
        let behind = alike(&group[next..]);
        let tail = (behind > 0).then(|| (give(&mut group[next..next + behind]), ahead + len as Place));
        let of = Some((number, ahead));
        let number = if ahead > 0 { give(&mut group[begin..next]) } else { number };
        Extent { number, len: len as u64, of, tail }
    }

    /// Joins the extent of `len` blocks at an address, which share an entry, with the extent `number` before it; its own number becomes
    /// free.
    pub fn join(&mut self, address: u64, len: u64, number: Slot) {
        let entry = self.find_or_take(address / NEIGHBOURS);
        let begin = (address % NEIGHBOURS) as usize;
        let slots = &mut self.groups[entry].0[begin..begin + len as usize];
        self.free.push(slots[0]);
        slots.fill(number);
    }

    /// Stops following a block that is an extent by itself; returns its number.
    pub fn remove(&mut self, address: u64) -> Option<Slot> {
        let entry = self.find(address / NEIGHBOURS)?;
        let slot = &mut self.groups[entry].0[(address % NEIGHBOURS) as usize];
        let slot = std::mem::replace(slot, NONE);
        if slot == NONE {
            return None;
        }
        self.free.push(slot);
        self.len -= 1;
        Some(slot)
    }

    /// Whether similar neighbours share a number. If `is_of_single`, the table is converted to one in which each block has its own number,
    /// for good; `take` gets each extent that is cut for that.
    pub fn has_extents(&mut self, is_of_single: bool, mut take: impl FnMut(Extent)) -> bool {
        if is_of_single && !self.is_single {
            for entry in 0..self.keys.len() {
                for (address, _) in addresses(self.keys[entry], self.groups[entry]) {
                    take(self.cut(address, 1));
                }
            }
            self.is_single = true;
        }
        !self.is_single
    }

    /// Makes a followed block an extent by itself; `None` if the table has only single blocks, or the block is not followed.
    pub fn part(&mut self, address: u64) -> Option<Extent> {
        (!self.is_single && self.get(address).is_some()).then(|| self.cut(address, 1))
    }

    /// Addresses of all followed blocks, in any order.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let entries = self.keys.iter().zip(&self.groups);
        entries.flat_map(|(&number, &group)| addresses(number, group)).map(|(address, _)| address)
    }

    /// Keeps only blocks for which `stays` returns true for address and number. Each must be an extent by itself.
    pub fn retain(&mut self, mut stays: impl FnMut(u64, Slot) -> bool) {
        let before = self.free.len();
        for (number, group) in self.keys.iter().zip(&mut self.groups) {
            for (at, slot) in (0..).zip(group.0.iter_mut()) {
                if *slot != NONE && !stays(number * NEIGHBOURS + at, *slot) {
                    self.free.push(std::mem::replace(slot, NONE));
                }
            }
        }
        self.len -= self.free.len() - before;
        self.rebuild();
    }

    /// Prefetches the keys of these groups (addresses divided by [`NEIGHBOURS`]); `entries` gets the index at which the search for each
    /// begins.
    pub fn fetch_keys(&self, groups: &[u64], entries: &mut Vec<usize>) {
        let mask = self.keys.len() - 1;
        entries.clear();
        entries.extend(groups.iter().map(|&number| self.hash(number) & mask));
        // These loads do not depend on each other.
        black_box(entries.iter().fold(0, |sum, &entry| sum ^ self.keys[entry]));
    }

    /// Prefetches the entries of these groups after their keys were prefetched; `entries` gets the index of each entry, or [`usize::MAX`]
    /// where a group has none.
    pub fn fetch_groups(&self, groups: &[u64], entries: &mut [usize]) {
        let mut sum = 0;
        for (&number, entry) in groups.iter().zip(entries) {
            let (found, is_there) = self.search(number, *entry);
            sum ^= self.groups[found].0[0];
            *entry = if is_there { found } else { usize::MAX };
        }
        black_box(sum);
    }

    /// The numbers of two blocks of a group, by its entry; [`NONE`] if they have none.
    pub fn ends_of(&self, entry: usize, first: u64, last: u64) -> (Slot, Slot) {
        let group = &self.groups.get(entry).unwrap_or(&EMPTY).0;
        let number = |address: u64| group[(address % NEIGHBOURS) as usize];
        (number(first), number(last))
    }

    fn hash(&self, number: u64) -> usize {
        self.seed.hash_one(number) as usize
    }

    fn find(&mut self, number: u64) -> Option<usize> {
        if self.last.0 != number {
            self.last = (number, self.probe(number)?);
        }
        Some(self.last.1)
    }

    /// The entry of a group; `None` if it has none.
    fn probe(&self, number: u64) -> Option<usize> {
        let (entry, is_there) = self.search(number, self.hash(number) & (self.keys.len() - 1));
        is_there.then_some(entry)
    }

    /// The entry of a group, or the one that it would get, searched from `first`; and whether the group has it.
    fn search(&self, number: u64, first: usize) -> (usize, bool) {
        let mask = self.keys.len() - 1;
        let mut entry = first;
        loop {
            match self.keys[entry & mask] {
                key if key == number => return (entry & mask, true),
                NO_GROUP => return (entry & mask, false),
                _ => entry += 1,
            }
        }
    }

    fn find_or_take(&mut self, number: u64) -> usize {
        if let Some(entry) = self.find(number) {
            return entry;
        }
        if (self.taken + 1) * LOAD > self.keys.len() * (LOAD - 1) {
            self.rebuild();
        }
        let entry = self.take(number);
        self.last = (number, entry);
        entry
    }

    /// Makes an entry for a group that has none.
    fn take(&mut self, number: u64) -> usize {
        let mask = self.keys.len() - 1;
        let mut entry = self.hash(number) & mask;
        while self.keys[entry] != NO_GROUP {
            entry = (entry + 1) & mask;
        }
        self.keys[entry] = number;
        self.taken += 1;
        entry
    }

    /// Rebuilds the table without groups that have no followed block, and with room for as many groups again.
    fn rebuild(&mut self) {
        let used = self.groups.iter().filter(|group| **group != EMPTY).count();
        let entries = ((used + 1) * LOAD / (LOAD - 1)).next_power_of_two().max(ENTRIES_MIN);
        // A larger table, so that the next rebuild is not due soon.
        let entries = if used * 16 > entries * 13 { entries * 2 } else { entries };
        let keys = std::mem::replace(&mut self.keys, vec![NO_GROUP; entries]);
        let groups = std::mem::replace(&mut self.groups, vec![EMPTY; entries]);
        (self.taken, self.last) = (0, (NO_GROUP, 0));
        for (number, group) in keys.into_iter().zip(groups).filter(|(_, group)| *group != EMPTY) {
            let entry = self.take(number);
            self.groups[entry] = group;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// The blocks of the extent of an address, by a map of numbers.
    fn extent_of(model: &BTreeMap<u64, Slot>, address: u64) -> (u64, u64) {
        let is_of = |other: u64| other / NEIGHBOURS == address / NEIGHBOURS && model.get(&other) == model.get(&address);
        let (mut first, mut last) = (address, address);
        while first.checked_sub(1).is_some_and(is_of) {
            first -= 1;
        }
        while last.checked_add(1).is_some_and(is_of) {
            last += 1;
        }
        (first, last)
    }

    proptest! {
        /// Compared with a map. The last of all addresses has neighbours too.
        #[test]
        fn extents_are_those_of_a_map(
            steps in proptest::collection::vec((0_u64..40, 0_u8..20, 1_u64..12, any::<bool>()), 0..400),
        ) {
            let (mut slots, mut model, mut most) = (Slots::default(), BTreeMap::new(), 0);
            for (at, what, count, is_far) in steps {
                let address = if is_far { u64::MAX - at } else { at };
                let known = model.get(&address).copied();
                match what {
                    0 => {
                        let all: Vec<u64> = slots.addresses().collect();
                        for address in all {
                            model.extend(slots.part(address).map(|part| (address, part.number)));
                            model.extend((address..=u64::MAX).skip(1).take(7).filter_map(|other| {
                                Some((other, slots.get(other)?))
                            }));
                        }
                        slots.retain(|address, slot| {
                            assert_eq!(model.get(&address), Some(&slot));
                            address % 3 > 0
                        });
                        model.retain(|address, _| address % 3 > 0);
                    }
                    1 => {
                        let all: BTreeSet<u64> = slots.addresses().collect();
                        prop_assert!(all.iter().eq(model.keys()));
                    }
                    2..5 => {
                        if known.is_some() {
                            let (first, last) = extent_of(&model, address);
                            let part = slots.cut(address, 1);
                            prop_assert_eq!(part.len, 1);
                            if let Some((tail, _)) = part.tail {
                                (address + 1..=last).for_each(|other| { model.insert(other, tail); });
                            }
                            prop_assert_eq!(part.tail.is_some(), last > address);
                            prop_assert_eq!(part.of, known.map(|known| (known, (address - first) as Place)));
                            prop_assert_eq!(slots.remove(address), Some(part.number));
                        }
                        model.remove(&address);
                        prop_assert_eq!(slots.get(address), None);
                    }
                    5..8 => {
                        let ahead = known.map(|known| (known, (address - extent_of(&model, address).0) as Place));
                        prop_assert_eq!(slots.extent(address), ahead);
                        prop_assert_eq!(slots.get(address), known);
                    }
                    8..11 => {
                        // Joins an extent with the one before it.
                        let first = known.map(|_| extent_of(&model, address));
                        if let Some((first, last)) = first
                            && first % NEIGHBOURS > 0
                            && let Some(&before) = model.get(&(first - 1))
                        {
                            slots.join(first, last - first + 1, before);
                            (first..=last).for_each(|other| { model.insert(other, before); });
                        }
                    }
                    _ => {
                        let part = slots.cut(address, count);
                        let end = extent_of(&model, address);
                        let end = if known.is_some() { end.1 } else {
                            let neighbours = address..=address | (NEIGHBOURS - 1);
                            neighbours.take_while(|other| !model.contains_key(other)).last().unwrap_or(address)
                        };
                        let last = end.min(address.saturating_add(count - 1));
                        prop_assert_eq!(part.len, last - address + 1);
                        prop_assert_eq!(part.of.map(|of| of.0), known);
                        if let Some((tail, ahead)) = part.tail {
                            prop_assert!(tail != part.number && !model.values().any(|other| *other == tail));
                            prop_assert_eq!(u64::from(ahead), part.len + part.of.map_or(0, |of| u64::from(of.1)));
                            (last + 1..=end).for_each(|other| { model.insert(other, tail); });
                        }
                        prop_assert_eq!(part.tail.is_some(), known.is_some() && last < end);
                        let is_new = !model.values().any(|other| *other == part.number);
                        prop_assert!(is_new || known == Some(part.number));
                        model.extend((address..=last).map(|other| (other, part.number)));
                    }
                }
                let numbers: BTreeSet<Slot> = model.values().copied().collect();
                // Cutting a block from the middle of an extent temporarily adds two numbers.
                most = most.max(model.len() + 3);
                prop_assert!(numbers.last().is_none_or(|last| (*last as usize) < most), "numbers are given again");
                prop_assert_eq!(slots.len(), model.len());
            }
        }
    }
}
