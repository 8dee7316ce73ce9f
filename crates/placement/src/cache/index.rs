//! Finds numbers by hashes: open addressing with linear probing, of a fixed size.

/// An empty slot.
const NONE: u32 = u32::MAX;

/// Slots for `count` numbers: at two thirds full, an unsuccessful search examines five slots on average (Knuth,
/// volume 3, section 6.4, theorem K).
fn slots(count: u32) -> usize {
    count as usize + count as usize / 2 + 1
}

/// Numbers by hashes. The caller can compute the hash of each number; the index does not store it.
#[derive(Clone, Debug)]
pub(super) struct Index {
    slots: Vec<u32>,
}

impl Index {
    /// An empty index for at most `count` numbers, each below [`u32::MAX`].
    pub fn new(count: u32) -> Self {
        Self { slots: vec![NONE; slots(count)] }
    }

    /// Memory for an index of `count` numbers.
    pub fn memory_bytes(count: u32) -> u64 {
        (slots(count) * size_of::<u32>()) as u64
    }

    /// The slot at which the search for a hash begins: its upper bits, spread over all slots.
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    /// The slot of the number with this hash that `is_it` accepts.
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

    /// The number with this hash that `is_it` accepts.
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.slot_of(hash, is_it).map(|slot| self.slots[slot])
    }

    /// Adds a number that is not in the index, which must have room for it.
    pub fn add(&mut self, hash: u64, number: u32) {
        let mut slot = self.home(hash);
        while self.slots[slot] != NONE {
            slot = self.after(slot);
        }
        self.slots[slot] = number;
    }

    /// Removes a number, if it is in the index. Other numbers move up to close the gap, so that searches need no
    /// marks of removed numbers; `hash_of` returns the hashes of these numbers.
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
            // This number may move to the gap unless its search begins after the gap: between gap and slot, around
            // the end.
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

    /// Hashes of which many begin at the same slot, and some at the last slot.
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
