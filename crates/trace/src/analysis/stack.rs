//! LRU stack distances (Mattson 1970), computed by counting the marks after an access (Olken 1981): a bit for each access in order of time,
//! which is set while the access is the last one of its block, and a Fenwick tree over cache lines of such bits.
//! The marks around a place are in one cache line of 512 marks, which are counted directly. The tree has one number per line, so it is
//! small enough to stay in the cache: only the line of a block must be fetched.
//! Neighbours are mostly accessed together, and then have places in one line. So the tree is read and updated per line rather than per
//! mark: a line is added once it is full, cleared marks are subtracted once marks of another line are cleared, and the sum before the last
//! line asked for is remembered.
//!
//! A block that is taken out leaves a gap: a free place in each cache that is large enough. A block on top pushes the others down as far as
//! the first gap, and fills it. So the stack represents caches of all sizes at once: a block that a smaller cache has evicted does not come
//! back when there is room.

use std::cell::Cell;
use std::collections::BinaryHeap;

/// Marks in a word.
const WORD: usize = 64;
/// Words in a line.
const LINE_WORDS: usize = 8;
/// Marks in a line.
const LINE: usize = LINE_WORDS * WORD;
/// Number of lines at first.
const LINES_MIN: usize = 1 << 7;

/// Most blocks in a stack: their marks, packed and with room for as many again, still have places of 32 bits.
pub const LIVE_MAX: usize = (1 << 30) - 1;

/// A place in the order of accesses. Places change when the stack is packed.
pub type Place = u32;

/// A line of marks.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; LINE_WORDS]);

impl Line {
    const EMPTY: Self = Self([0; LINE_WORDS]);

    /// Number of marks set.
    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Number of marks set up to and including a place of the line.
    fn count_to(&self, place: usize) -> u32 {
        let (last, rest) = (place / WORD, u64::MAX >> (WORD - 1 - place % WORD));
        // Without a branch, since the word is unpredictable.
        let mask = |at: usize| {
            let whole = if at < last { u64::MAX } else { 0 };
            if at == last { rest } else { whole }
        };
        (0..LINE_WORDS).map(|at| (self.0[at] & mask(at)).count_ones()).sum()
    }
}

/// The order in which blocks were last accessed, with the gaps between them.
#[derive(Clone, Debug)]
pub struct Stack {
    lines: Vec<Line>,
    /// Fenwick tree (from 1) of the number of marks of full lines.
    sums: Vec<u32>,
    /// A line, and the number of its cleared marks that the tree does not know yet.
    cleared: (usize, u32),
    /// A line, and the number of marks in the lines before it.
    before: Cell<(usize, u32)>,
    next: usize,
    /// Number of marks that are set, for blocks and gaps.
    marked: usize,
    /// Places of gaps; the one nearest to the top comes first.
    gaps: BinaryHeap<Place>,
}

impl Default for Stack {
    fn default() -> Self {
        Self::with_lines(LINES_MIN)
    }
}

/// A mask of `count` bits of a word, from the bit of a place on.
fn bits(place: usize, count: usize) -> u64 {
    u64::MAX >> (WORD - count) << (place % WORD)
}

impl Stack {
    /// Number of blocks.
    pub fn live(&self) -> usize {
        self.marked - self.gaps.len()
    }

    /// Number of marks: of blocks and of gaps.
    pub fn marked(&self) -> usize {
        self.marked
    }

    /// The place of the next access.
    pub fn next(&self) -> Place {
        self.next as Place
    }

    /// Whether the stack must be packed before another access.
    pub fn is_full(&self) -> bool {
        self.next == self.lines.len() * LINE
    }

    /// Whether the stack must be packed before `accesses` more accesses.
    pub fn has_no_room_for(&self, accesses: usize) -> bool {
        self.lines.len() * LINE - self.next < accesses
    }

    /// Reads something of the line of a place, so that the processor fetches it.
    pub fn look(&self, place: Place) -> u64 {
        self.lines.get(place as usize / LINE).map_or(0, |line| line.0[0])
    }

    /// Whether there is any gap.
    pub fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Whether there is a gap above a place, which a block raised from there would fill.
    pub fn has_gap_above(&self, place: Place) -> bool {
        self.gaps.peek().is_some_and(|gap| *gap > place)
    }

    /// Puts `count` new blocks on top, one after the other; returns the first one's place, which the others follow. There must be
    /// [room](Self::has_no_room_for).
    pub fn push_all(&mut self, count: usize) -> Place {
        for _ in 0..count.min(self.gaps.len()) {
            if let Some(gap) = self.gaps.pop() {
                self.clear(gap);
            }
        }
        self.mark_all(count)
    }

    /// Raises `count` blocks with consecutive places to the top, one after the other. There must be [no gap above](Self::has_gap_above)
    /// them, so each is as [far](Self::above) from the top as the first one was; and there must be [room](Self::has_no_room_for).
    pub fn raise_all(&mut self, first: Place, count: usize) -> Place {
        debug_assert!(!self.has_gap_above(first));
        let (mut place, end) = (first as usize, first as usize + count);
        while place < end {
            let of_word = (end - place).min(WORD - place % WORD);
            self.clear_all(place / WORD, bits(place, of_word), of_word as u32);
            place += of_word;
        }
        self.mark_all(count)
    }

    fn mark_all(&mut self, count: usize) -> Place {
        let (first, end) = (self.next, self.next + count);
        while self.next < end {
            let (word, of_word) = (self.next / WORD, (end - self.next).min(WORD - self.next % WORD));
            self.lines[word / LINE_WORDS].0[word % LINE_WORDS] |= bits(self.next, of_word);
            self.next += of_word;
            if self.next.is_multiple_of(LINE) {
                let line = word / LINE_WORDS;
                self.add(line, self.lines[line].count());
            }
        }
        self.marked += count;
        first as Place
    }

    /// Puts a new block on top. The stack must not be [full](Self::is_full).
    pub fn push(&mut self) -> Place {
        // The blocks above the nearest gap move down by one; the rest stays.
        if let Some(gap) = self.gaps.pop() {
            self.clear(gap);
        }
        self.mark_next()
    }

    /// Raises the block at a place to the top. The stack must not be [full](Self::is_full).
    pub fn raise(&mut self, place: Place) -> Place {
        match self.gaps.peek().copied().filter(|gap| *gap > place) {
            // Caches that hold the block get a gap where it was; others put it into their gap.
            Some(gap) => {
                self.gaps.pop();
                self.gaps.push(place);
                self.clear(gap);
            }
            None => self.clear(place),
        }
        self.mark_next()
    }

    fn mark_next(&mut self) -> Place {
        self.mark_all(1)
    }

    /// Takes a block out, which leaves a gap.
    pub fn remove(&mut self, place: Place) {
        self.gaps.push(place);
    }

    /// Takes a block out as if it had never been there; for blocks that a sample no longer follows.
    pub fn forget(&mut self, place: Place) {
        self.clear(place);
    }

    /// An empty stack with `lines` lines.
    pub fn with_lines(lines: usize) -> Self {
        Self {
            lines: vec![Line::EMPTY; lines],
            sums: vec![0; lines + 1],
            cleared: (0, 0),
            before: Cell::new((0, 0)),
            next: 0,
            marked: 0,
            gaps: BinaryHeap::new(),
        }
    }

    /// Removes every other gap: when a sample is halved, about half of the gaps come from blocks that it no longer follows.
    pub fn forget_half_of_gaps(&mut self) {
        let gaps = std::mem::take(&mut self.gaps).into_sorted_vec();
        for (at, gap) in gaps.into_iter().enumerate() {
            if at % 2 == 0 { self.gaps.push(gap) } else { self.clear(gap) }
        }
    }

    fn clear(&mut self, place: Place) {
        let place = place as usize;
        self.clear_all(place / WORD, bits(place, 1), 1);
    }

    /// Clears `count` bits of a word, all of which must be set.
    fn clear_all(&mut self, word: usize, bits: u64, count: u32) {
        let line = word / LINE_WORDS;
        self.lines[line].0[word % LINE_WORDS] &= !bits;
        self.marked -= count as usize;
        if line < self.next / LINE {
            if self.cleared.0 != line {
                let (other, count) = std::mem::replace(&mut self.cleared, (line, 0));
                if count > 0 {
                    self.add(other, count.wrapping_neg());
                }
            }
            self.cleared.1 += count;
        }
        let (asked, before) = self.before.get_mut();
        if line < *asked {
            *before -= count;
        }
    }

    /// The largest cache size, in blocks, in which the block at a place is missing: the number of other blocks accessed after it, including
    /// the gaps among them.
    pub fn above(&self, place: Place) -> usize {
        let place = place as usize;
        let line = place / LINE;
        self.marked - (self.before(line) + self.lines[line].count_to(place % LINE)) as usize
    }

    /// Number of marks in the lines before `line`, which are all full.
    fn before(&self, line: usize) -> u32 {
        let (asked, before) = self.before.get();
        if asked == line {
            return before;
        }
        let (mut at, mut before) = (line, 0_u32);
        while at > 0 {
            before = before.wrapping_add(self.sums[at]);
            at &= at - 1;
        }
        if self.cleared.0 < line {
            before = before.wrapping_sub(self.cleared.1);
        }
        self.before.set((line, before));
        before
    }

    /// Packs the marks, and makes room for as many again. `places` must be those of all blocks, in any order; they are updated.
    pub fn pack<'a>(&mut self, places: impl Iterator<Item = &'a mut Place>) {
        // Number of marks before each word. A place's new number is that, plus the marks before it in its word.
        let mut before = Vec::with_capacity(self.lines.len() * LINE_WORDS + 1);
        let mut count = 0_u32;
        for word in self.lines.iter().flat_map(|line| line.0) {
            before.push(count);
            count += word.count_ones();
        }
        // The next place may lie behind all words.
        before.push(count);
        let packed = |place: Place| {
            let (word, bit) = (place as usize / WORD, place as usize % WORD);
            let marks = self.lines.get(word / LINE_WORDS).map_or(0, |line| line.0[word % LINE_WORDS]);
            before[word] + (marks & ((1 << bit) - 1)).count_ones()
        };
        places.for_each(|place| *place = packed(*place));
        self.gaps = std::mem::take(&mut self.gaps).into_iter().map(packed).collect();
        let lines = (self.marked * 2).div_ceil(LINE).next_power_of_two().max(LINES_MIN);
        self.lines.clear();
        self.lines.resize(lines, Line::EMPTY);
        for at in 0..self.marked {
            self.lines[at / LINE].0[at % LINE / WORD] |= 1 << (at % WORD);
        }
        self.next = self.marked;
        (self.cleared, self.before) = ((0, 0), Cell::new((0, 0)));
        self.sums.clear();
        self.sums.resize(lines + 1, 0);
        for at in 1..=lines {
            if at <= self.next / LINE {
                self.sums[at] = self.sums[at].wrapping_add(self.lines[at - 1].count());
            }
            let parent = at + (at & at.wrapping_neg());
            if parent <= lines {
                self.sums[parent] = self.sums[parent].wrapping_add(self.sums[at]);
            }
        }
    }

    fn add(&mut self, line: usize, change: u32) {
        let mut at = line + 1;
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
        for _ in 0..3 * LINES_MIN * LINE {
            if stack.is_full() {
                stack.pack(places.iter_mut());
                assert!(!stack.is_full());
            }
            places.push(stack.push());
        }
        assert_eq!(stack.above(places[0]), places.len() - 1);
    }

    /// Small stacks have few lines, and use only a small part of the tree.
    #[test]
    fn distances_over_many_lines_are_those_of_a_list() {
        let (mut stack, mut list, mut places) = (Stack::with_lines(20), Vec::new(), vec![None; 3000]);
        let (mut random, mut packed) = (1_u64, 0);
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let block = (random >> 33) as usize % places.len();
            if stack.is_full() {
                stack.pack(places.iter_mut().flatten());
                packed += 1;
            }
            let place = match places[block] {
                Some(place) => {
                    let at = list.iter().rposition(|&other| other == block).unwrap();
                    assert_eq!(stack.above(place), list.len() - 1 - at);
                    list.remove(at);
                    stack.raise(place)
                }
                None => stack.push(),
            };
            list.push(block);
            places[block] = Some(place);
        }
        assert!(packed > 0 && stack.next > 24 * LINE, "{packed} {}", stack.next);
    }

    proptest! {
        /// Compared with LRU caches of all sizes.
        #[test]
        fn distances_are_those_of_caches(steps in proptest::collection::vec((0_u32..40, 0_u8..8), 1..1500), small: bool) {
            // Small, so that it is packed often.
            let mut stack = if small { Stack::with_lines(1) } else { Stack::default() };
            let (mut places, mut caches) = (BTreeMap::<u32, Place>::new(), vec![Vec::<u32>::new(); 42]);
            for (block, what) in steps {
                if stack.is_full() {
                    stack.pack(places.values_mut());
                }
                if let Some(place) = places.get(&block) {
                    let above = stack.above(*place);
                    for (size, cache) in caches.iter().enumerate() {
                        prop_assert_eq!(cache.contains(&block), size > above, "{} in {}", block, size);
                    }
                } else {
                    prop_assert!(!caches.iter().any(|cache| cache.contains(&block)));
                }
                caches.iter_mut().for_each(|cache| cache.retain(|other| *other != block));
                let known = places.remove(&block);
                if what > 2 || known.is_none() {
                    let place = match known {
                        Some(place) => stack.raise(place),
                        None => stack.push(),
                    };
                    places.insert(block, place);
                    for (size, cache) in caches.iter_mut().enumerate() {
                        cache.insert(0, block);
                        cache.truncate(size);
                    }
                } else if let Some(place) = known {
                    stack.remove(place);
                }
                prop_assert_eq!(stack.live(), places.len());
            }
        }
    }

    proptest! {
        /// Runs of neighbours at once give the same as one by one.
        #[test]
        fn many_at_once_are_as_one_by_one(steps in proptest::collection::vec((0_usize..12, 0_usize..9, 0_u8..8), 1..300)) {
            // Twelve groups of eight blocks, of which some are followed.
            let (mut stack, mut single) = (Stack::with_lines(2), Stack::with_lines(2));
            let mut places = vec![[None::<(Place, Place)>; 8]; 12];
            for (group, begin, what) in steps {
                if stack.has_no_room_for(8) {
                    let all = || places.iter().flatten().flatten();
                    let (mut of_stack, mut of_single): (Vec<Place>, Vec<Place>) = all().copied().unzip();
                    stack.pack(of_stack.iter_mut());
                    single.pack(of_single.iter_mut());
                    let mut packed = of_stack.into_iter().zip(of_single);
                    places.iter_mut().flatten().flatten().for_each(|place| *place = packed.next().unwrap_or(*place));
                }
                let blocks = &mut places[group][begin.min(7)..];
                let Some(first) = blocks[0] else {
                    let count = blocks.iter().take_while(|place| place.is_none()).count();
                    let place = stack.push_all(count);
                    for (block, place) in blocks[..count].iter_mut().zip(place..) {
                        *block = Some((place, single.push()));
                    }
                    continue;
                };
                if what == 0 {
                    stack.remove(first.0);
                    single.remove(first.1);
                    blocks[0] = None;
                    continue;
                }
                let goes_on = |(ahead, block): &(Place, &Option<(Place, Place)>)| **block == Some((first.0 + ahead, first.1 + ahead));
                let count = if stack.has_gap_above(first.0) { 1 } else { (0..).zip(blocks.iter()).take_while(goes_on).count() };
                let distance = stack.above(first.0);
                let place = if count == 1 { stack.raise(first.0) } else { stack.raise_all(first.0, count) };
                for (block, place) in blocks[..count].iter_mut().zip(place..) {
                    let known = block.map_or(first.1, |known| known.1);
                    prop_assert_eq!(single.above(known), distance);
                    *block = Some((place, single.raise(known)));
                }
                prop_assert_eq!((stack.live(), stack.marked()), (single.live(), single.marked()));
                for (of_stack, of_single) in places.iter().flatten().flatten() {
                    prop_assert_eq!(stack.above(*of_stack), single.above(*of_single));
                }
            }
        }
    }

    #[test]
    fn gaps_take_no_more_room_than_blocks_did() {
        let mut stack = Stack::default();
        for _ in 0..100 {
            let places: Vec<Place> = (0..500).map(|_| stack.push()).collect();
            places.into_iter().for_each(|place| stack.remove(place));
            assert_eq!((stack.live(), stack.marked), (0, 500));
        }
        stack.forget_half_of_gaps();
        assert_eq!((stack.live(), stack.marked), (0, 250));
    }
}
