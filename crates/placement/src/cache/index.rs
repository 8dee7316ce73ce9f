//! Finds numbers by hashes: open addressing with linear probing, of a size that is fixed when it is made.

/// An empty slot.
const NONE: u32 = u32::MAX;

/// Slots for so many numbers: at two thirds a search that finds nothing looks at five slots on average (Knuth, volume 3,
/// section 6.4, theorem K).
fn slots(count: u32) -> usize {
    count as usize + count as usize / 2 + 1
}

/// Numbers by hashes. Who asks knows the hash of each number; it is not kept here.
#[derive(Clone, Debug)]
pub(super) struct Index {
    slots: Vec<u32>,
}

impl Index {
    /// For at most so many numbers, each below [`u32::MAX`].
    pub fn new(count: u32) -> Self {
        Self { slots: vec![NONE; slots(count)] }
    }

    /// Memory for so many numbers.
    pub fn memory_bytes(count: u32) -> u64 {
        (slots(count) * size_of::<u32>()) as u64
    }

    /// Where the search for a hash begins: its upper bits, spread over all slots.
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    /// The slot of the number with this hash that `is_it` says yes to.
    fn slot_of(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        let mut slot = self.home(hash);
        loop {
            match self.slots[slot] {
                NONE => return None,
                number if is_it(number) => return Some(slot),
                _ => slot = self.after(slot),
            }
        }
    }

    /// The number with this hash that `is_it` says yes to.
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.slot_of(hash, is_it).map(|slot| self.slots[slot])
    }

    /// Adds a number that is not there. There must be room for it.
    pub fn add(&mut self, hash: u64, number: u32) {
        let mut slot = self.home(hash);
        while self.slots[slot] != NONE {
            slot = self.after(slot);
        }
        self.slots[slot] = number;
    }

    /// Takes a number out, if it is there. `hash_of` is asked for the hashes of others, which close the gap, so that searches
    /// need no marks of what was there.
    pub fn remove(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        let Some(mut gap) = self.slot_of(hash, |other| other == number) else { return };
        let mut slot = gap;
        loop {
            slot = self.after(slot);
            let other = self.slots[slot];
            if other == NONE {
                self.slots[gap] = NONE;
                return;
            }
            // It may go to the gap unless its search begins behind the gap: between gap and slot, around the end.
            let home = self.home(hash_of(other));
            let is_behind = if gap < slot { gap < home && home <= slot } else { gap < home || home <= slot };
            if !is_behind {
                self.slots[gap] = other;
                gap = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Hashes of which many begin at the same slot, and some at the last.
    fn hash_of(number: u32) -> u64 {
        [0, 1 << 61, u64::MAX, 1 << 63][number as usize % 4]
    }

    proptest! {
        #[test]
        fn finds_what_is_there_and_nothing_else(steps in prop::collection::vec((any::<bool>(), 0u32..40), 1..400)) {
            let (mut index, mut model) = (Index::new(40), BTreeSet::new());
            for (is_add, number) in steps {
                if is_add && model.insert(number) {
                    index.add(hash_of(number), number);
                } else if !is_add {
                    model.remove(&number);
                    index.remove(hash_of(number), number, hash_of);
                }
                for number in 0..40 {
                    let found = index.find(hash_of(number), |other| other == number);
                    prop_assert_eq!(found, model.contains(&number).then_some(number));
                }
            }
        }
    }
}
