//! LRU stack distances (Mattson 1970), by counting the live marks after an access (Olken 1981): a bit for each access in
//! order of time, set while it is the last one of its block, and a Fenwick tree over the words.

/// Marks of a word.
const WORD: usize = 64;
/// Words at first.
const WORDS_MIN: usize = 1 << 10;

/// Blocks that a stack may hold: their marks, packed and with room for as many again, still have places of 32 bits.
pub const LIVE_MAX: usize = (1 << 30) - 1;

/// A place in the order of accesses. Places change when the stack is packed.
pub type Place = u32;

/// The order in which blocks were last accessed.
#[derive(Clone, Debug)]
pub struct Stack {
    marks: Vec<u64>,
    /// Fenwick tree of the marks' counts, from 1.
    sums: Vec<u32>,
    next: usize,
    live: usize,
}

impl Default for Stack {
    fn default() -> Self {
        Self { marks: vec![0; WORDS_MIN], sums: vec![0; WORDS_MIN + 1], next: 0, live: 0 }
    }
}

impl Stack {
    /// Blocks in it.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Whether it must be packed before another access.
    pub fn is_full(&self) -> bool {
        self.next == self.marks.len() * WORD
    }

    /// Puts a block on top. To be called where it [is not full](Self::is_full).
    pub fn push(&mut self) -> Place {
        let place = self.next;
        self.next += 1;
        self.marks[place / WORD] |= 1 << (place % WORD);
        self.add(place / WORD, 1);
        self.live += 1;
        place as Place
    }

    /// Takes a block out.
    pub fn remove(&mut self, place: Place) {
        let place = place as usize;
        self.marks[place / WORD] &= !(1 << (place % WORD));
        self.add(place / WORD, u32::MAX);
        self.live -= 1;
    }

    /// How many other blocks were accessed after the one at a place.
    pub fn above(&self, place: Place) -> usize {
        let place = place as usize;
        let word = place / WORD;
        let mut below = (self.marks[word] & (u64::MAX >> (WORD - 1 - place % WORD))).count_ones();
        let mut at = word;
        while at > 0 {
            below += self.sums[at];
            at &= at - 1;
        }
        self.live - below as usize
    }

    /// Moves the live marks together, and gives room for as many again. `places` are those of all blocks in it, in any
    /// order; they are changed to the new ones.
    pub fn pack<'a>(&mut self, places: impl Iterator<Item = &'a mut Place>) {
        // How many live marks lie before each word: a place's new number is that and those before it in its word.
        let mut before = Vec::with_capacity(self.marks.len());
        let mut count = 0_u32;
        for word in &self.marks {
            before.push(count);
            count += word.count_ones();
        }
        for place in places {
            let (word, bit) = (*place as usize / WORD, *place as usize % WORD);
            *place = before[word] + (self.marks[word] & ((1 << bit) - 1)).count_ones();
        }
        let words = (self.live * 2).div_ceil(WORD).next_power_of_two().max(WORDS_MIN);
        self.marks.clear();
        self.marks.resize(words, 0);
        for at in 0..self.live {
            self.marks[at / WORD] |= 1 << (at % WORD);
        }
        self.next = self.live;
        self.sums.clear();
        self.sums.resize(words + 1, 0);
        for at in 1..=words {
            self.sums[at] = self.sums[at].wrapping_add(self.marks[at - 1].count_ones());
            let parent = at + (at & at.wrapping_neg());
            if parent <= words {
                self.sums[parent] = self.sums[parent].wrapping_add(self.sums[at]);
            }
        }
    }

    fn add(&mut self, word: usize, change: u32) {
        let mut at = word + 1;
        while at < self.sums.len() {
            self.sums[at] = self.sums[at].wrapping_add(change);
            at += at & at.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_packed_stack_has_room_also_where_it_was_full_of_live_blocks() {
        let mut stack = Stack::default();
        let mut places: Vec<Place> = Vec::new();
        for _ in 0..3 * WORDS_MIN * WORD {
            if stack.is_full() {
                stack.pack(places.iter_mut());
                assert!(!stack.is_full());
            }
            places.push(stack.push());
        }
        assert_eq!(stack.above(places[0]), places.len() - 1);
    }

    proptest! {
        /// Against a list that is searched.
        #[test]
        fn distances_are_those_of_a_list(steps in proptest::collection::vec((0_u32..40, 0_u8..20), 1..3000), small: bool) {
            let mut stack = Stack::default();
            if small {
                // So that it is packed often.
                stack.marks.truncate(2);
                stack.sums.truncate(3);
            }
            let (mut places, mut list) = (BTreeMap::<u32, Place>::new(), Vec::<u32>::new());
            for (block, what) in steps {
                if stack.is_full() {
                    stack.pack(places.values_mut());
                }
                let known = list.iter().position(|other| *other == block);
                if let Some(at) = known {
                    prop_assert_eq!(stack.above(places[&block]), at);
                    stack.remove(places[&block]);
                    list.remove(at);
                    places.remove(&block);
                }
                if what > 0 || known.is_none() {
                    places.insert(block, stack.push());
                    list.insert(0, block);
                }
                prop_assert_eq!(stack.live(), list.len());
            }
        }
    }
}
