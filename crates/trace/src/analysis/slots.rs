//! Which blocks are followed, each with a small number of its own: its place in a list of what is known of it.
//!
//! Requests are of neighbouring blocks, and a table of single blocks waits for memory with each of them. So eight neighbours share
//! an entry, that of the last block is at hand for the next, and what came together has numbers that follow one another.

use crate::hash::Seed;
use std::collections::HashMap;

/// The number of a block.
pub type Slot = u32;
/// Neighbours that share an entry.
const NEIGHBOURS: u64 = 8;
/// A neighbour that is not followed.
const NONE: Slot = Slot::MAX;
/// Of no block: addresses are of 64 bits.
const NO_GROUP: u64 = u64::MAX;

type Group = [Slot; NEIGHBOURS as usize];
const EMPTY: Group = [NONE; NEIGHBOURS as usize];

/// Numbers of blocks by their addresses. Those of blocks that are gone are given again.
pub struct Slots {
    /// By address, without what tells neighbours apart.
    groups: HashMap<u64, Group, Seed>,
    /// The group of the last block, and whether it is to be put back before another is looked at.
    last: (u64, Group),
    is_changed: bool,
    free: Vec<Slot>,
    len: usize,
}

impl Default for Slots {
    fn default() -> Self {
        Self { groups: HashMap::default(), last: (NO_GROUP, EMPTY), is_changed: false, free: Vec::new(), len: 0 }
    }
}

fn addresses(number: u64, group: Group) -> impl Iterator<Item = (u64, Slot)> {
    (0..).zip(group).filter(|(_, slot)| *slot != NONE).map(move |(at, slot)| (number * NEIGHBOURS + at, slot))
}

impl Slots {
    /// Blocks that are followed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Numbers are below this.
    fn end(&self) -> usize {
        self.len + self.free.len()
    }

    /// The number of a block that is followed.
    pub fn get(&mut self, address: u64) -> Option<Slot> {
        Some(*self.neighbour(address)).filter(|slot| *slot != NONE)
    }

    /// The number of a block, which is followed from now on, and whether it was before. A new number is one that was free, or
    /// the next one.
    pub fn follow(&mut self, address: u64) -> (Slot, bool) {
        if let Some(slot) = self.get(address) {
            return (slot, true);
        }
        let slot = self.free.pop().unwrap_or(self.end() as Slot);
        *self.neighbour(address) = slot;
        self.is_changed = true;
        self.len += 1;
        (slot, false)
    }

    /// Follows a block no longer; the number that it had.
    pub fn remove(&mut self, address: u64) -> Option<Slot> {
        let slot = self.get(address)?;
        *self.neighbour(address) = NONE;
        self.is_changed = true;
        self.free.push(slot);
        self.len -= 1;
        Some(slot)
    }

    /// Addresses of all, in any order.
    pub fn addresses(&mut self) -> impl Iterator<Item = u64> {
        self.put_back();
        self.groups.iter().flat_map(|(&number, &group)| addresses(number, group)).map(|(address, _)| address)
    }

    /// Follows only those on, by address and number, that `stays` says yes to.
    pub fn retain(&mut self, mut stays: impl FnMut(u64, Slot) -> bool) {
        self.put_back();
        self.last = (NO_GROUP, EMPTY);
        let Self { groups, free, .. } = self;
        let before = free.len();
        groups.retain(|&number, group| {
            for (at, slot) in (0..).zip(group.iter_mut()) {
                if *slot != NONE && !stays(number * NEIGHBOURS + at, *slot) {
                    free.push(std::mem::replace(slot, NONE));
                }
            }
            *group != EMPTY
        });
        self.len -= free.len() - before;
    }

    fn neighbour(&mut self, address: u64) -> &mut Slot {
        let number = address / NEIGHBOURS;
        if self.last.0 != number {
            self.put_back();
            self.last = (number, self.groups.get(&number).copied().unwrap_or(EMPTY));
        }
        &mut self.last.1[(address % NEIGHBOURS) as usize]
    }

    fn put_back(&mut self) {
        if std::mem::take(&mut self.is_changed) {
            let (number, group) = self.last;
            if group == EMPTY {
                self.groups.remove(&number);
            } else {
                self.groups.insert(number, group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        /// Against a map. The last address of all has neighbours, too.
        #[test]
        fn each_block_has_a_number_of_its_own(
            steps in proptest::collection::vec((0_u64..40, 0_u8..20, any::<bool>()), 0..400),
        ) {
            let (mut slots, mut model, mut most) = (Slots::default(), BTreeMap::new(), 0);
            for (at, what, is_far) in steps {
                let address = if is_far { u64::MAX - at } else { at };
                let known = model.get(&address).copied();
                match what {
                    0 => {
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
                    2..6 => {
                        prop_assert_eq!(slots.remove(address), known);
                        model.remove(&address);
                    }
                    6..10 => prop_assert_eq!(slots.get(address), known),
                    _ => {
                        let (slot, was_followed) = slots.follow(address);
                        prop_assert_eq!(was_followed.then_some(slot), known);
                        if !was_followed {
                            prop_assert!(!model.values().any(|other| *other == slot));
                            model.insert(address, slot);
                        }
                        most = most.max(model.len());
                        prop_assert!((slot as usize) < most, "numbers are given again");
                    }
                }
                prop_assert_eq!(slots.len(), model.len());
            }
        }
    }
}
