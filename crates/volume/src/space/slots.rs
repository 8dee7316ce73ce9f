//! Slots of the fast tier: a bitmap with a next-fit cursor, so that consecutive writes lie together.

/// The bitmap. A set bit is in use.
#[derive(Clone, Debug)]
pub struct Slots {
    words: Vec<u64>,
    total: u64,
    used: u64,
    cursor: u64,
}

impl Slots {
    /// From a stored bitmap; missing words are free, bits beyond the end are ignored.
    #[must_use]
    pub fn from_words(mut words: Vec<u64>, total: u64) -> Self {
        words.resize(total.div_ceil(64) as usize, 0);
        if let (Some(last), tail @ 1..) = (words.last_mut(), total % 64) {
            *last &= (1 << tail) - 1;
        }
        let used = words.iter().map(|word| u64::from(word.count_ones())).sum();
        Self { words, total, used, cursor: 0 }
    }

    /// The stored form.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Number of slots.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Free slots.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.total - self.used
    }

    /// Whether a slot is in use (beyond the end: yes).
    #[must_use]
    pub fn is_used(&self, slot: u64) -> bool {
        slot >= self.total || self.words[(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    /// Allocates a run of at most `wanted` slots: the first free one after the cursor, and what is free behind it.
    pub fn allocate(&mut self, wanted: u64) -> Option<(u64, u64)> {
        if self.used == self.total || wanted == 0 {
            return None;
        }
        let start = self.next_free(self.cursor).or_else(|| self.next_free(0))?;
        let mut len = 0;
        while len < wanted && start + len < self.total && !self.is_used(start + len) {
            self.set(start + len);
            len += 1;
        }
        self.cursor = start + len;
        Some((start, len))
    }

    fn next_free(&self, from: u64) -> Option<u64> {
        let mut index = (from / 64) as usize;
        let mut skip = from % 64;
        while index < self.words.len() {
            let free = !self.words[index] & (u64::MAX << skip);
            if free != 0 {
                let slot = index as u64 * 64 + u64::from(free.trailing_zeros());
                return (slot < self.total).then_some(slot);
            }
            skip = 0;
            index += 1;
        }
        None
    }

    /// Marks a slot as used; false where it was already, or is beyond the end.
    pub fn set(&mut self, slot: u64) -> bool {
        if self.is_used(slot) {
            return false;
        }
        self.words[(slot / 64) as usize] |= 1 << (slot % 64);
        self.used += 1;
        true
    }

    /// Marks a slot as free; false where it already was.
    pub fn clear(&mut self, slot: u64) -> bool {
        if slot >= self.total || !self.is_used(slot) {
            return false;
        }
        self.words[(slot / 64) as usize] &= !(1 << (slot % 64));
        self.used -= 1;
        true
    }

    /// Marks a run of slots as free.
    pub fn clear_run(&mut self, first: u64, count: u64) {
        (first..first + count).for_each(|slot| {
            self.clear(slot);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(total in 1u64..200, steps in proptest::collection::vec((any::<bool>(), 1u64..20), 1..200)) {
            let mut slots = Slots::from_words(Vec::new(), total);
            let mut model = BTreeSet::new();
            for (allocate, n) in steps {
                if allocate {
                    match slots.allocate(n) {
                        Some((start, len)) => {
                            prop_assert!(len >= 1 && len <= n);
                            for slot in start..start + len {
                                prop_assert!(slot < total && model.insert(slot));
                            }
                        }
                        None => prop_assert_eq!(model.len() as u64, total),
                    }
                } else if let Some(&slot) = model.iter().nth(n as usize % model.len().max(1)) {
                    model.remove(&slot);
                    prop_assert!(slots.clear(slot));
                    prop_assert!(!slots.clear(slot));
                }
                prop_assert_eq!(slots.free(), total - model.len() as u64);
            }
            let again = Slots::from_words(slots.words().to_vec(), total);
            prop_assert_eq!(again.free(), slots.free());
        }
    }
}
