//! Keeps a sample of the blocks that leave the small queue without being read again: if data is read repeatedly in
//! cycles longer than the cache, a part that stays is hit in each cycle, where queues in the order of reads lose all
//! of it before it is read again.
//!
//! Caches of processors insert one of 32 blocks for this reason (BIP: Qureshi and others, "Adaptive insertion
//! policies for high performance caching", ISCA 2007). Here it costs no further copy: a block that is kept has one.
//! It continues only as long as kept blocks return more often than the blocks evicted for them.

use super::key::Key;

/// One in this many blocks belongs to the sample: always the same ones, so that the same part stays in each cycle.
const ONE_OF: u64 = 16;
/// One in this many places may hold kept blocks that were not read since: as many as the small queue begins with.
const PLACES_ONE_OF: u64 = 10;
/// While keeping does not pay, this many times fewer blocks are kept, enough to notice if it would pay again.
const WATCHED_ONE_OF: u64 = 16;
/// Whether it pays is unknown before this many kept blocks left unread.
const LOST_MIN: u32 = 8;
/// The period for "lately": between one and two times this many blocks.
const WINDOW_BLOCKS: u32 = 1 << 12;
const QUEUE_WINDOW_BLOCKS: u32 = 1 << 20;

/// How many of a number of blocks returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Odds {
    blocks: u32,
    returned: u32,
}

impl Odds {
    fn count(&mut self, window_blocks: u32) {
        self.blocks += 1;
        if self.blocks > window_blocks {
            self.blocks /= 2;
            self.returned /= 2;
        }
    }

    fn is_above(self, other: Self) -> bool {
        u64::from(self.returned) * u64::from(other.blocks) > u64::from(other.returned) * u64::from(self.blocks)
    }
}

/// Statistics of the kept blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// Number of blocks that are kept and were not read since.
    kept: u32,
    /// Odds of the kept blocks, of those that left the small queue, and of those that left the main queue.
    of_kept: Odds,
    of_small: Odds,
    of_main: Odds,
}

impl Sample {
    /// Whether a block that is about to leave the small queue is kept, in a cache of this many places. `seed` is the
    /// seed of the hashes.
    pub fn keeps(&mut self, key: Key, seed: u64, places: u32) -> bool {
        let most_one_of = if self.pays() { PLACES_ONE_OF } else { PLACES_ONE_OF * WATCHED_ONE_OF };
        // A cache of less than 160 places keeps none, since one block would exceed the limit.
        let is_watched = places >= (PLACES_ONE_OF * WATCHED_ONE_OF) as u32;
        let is_kept = is_watched
            && key.hash(seed).is_multiple_of(ONE_OF)
            && u64::from(self.kept) * most_one_of < u64::from(places);
        self.kept += u32::from(is_kept);
        is_kept
    }

    fn pays(&self) -> bool {
        let is_known = self.of_kept.blocks - self.of_kept.returned >= LOST_MIN;
        !is_known || self.of_kept.is_above(self.of_small) && self.of_kept.is_above(self.of_main)
    }

    /// A kept block was read.
    pub fn hit(&mut self) {
        self.kept -= 1;
        self.of_kept.returned += 1;
        self.of_kept.count(WINDOW_BLOCKS);
    }

    /// A kept block leaves unread.
    pub fn lost(&mut self) {
        self.kept -= 1;
        self.of_kept.count(WINDOW_BLOCKS);
    }

    /// A kept block was written, which shows nothing about the sample.
    pub fn removed(&mut self) {
        self.kept -= 1;
    }

    /// A block left the small queue or the main queue.
    pub fn left(&mut self, is_small: bool) {
        if is_small { &mut self.of_small } else { &mut self.of_main }.count(QUEUE_WINDOW_BLOCKS);
    }

    /// A block that had left the small queue or the main queue returns.
    pub fn returned(&mut self, is_small: bool) {
        if is_small { &mut self.of_small } else { &mut self.of_main }.returned += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(sample: &mut Sample, blocks: std::ops::Range<u64>, places: u32) -> usize {
        blocks.filter(|&block| sample.keeps(Key::from_bits(block), 7, places)).count()
    }

    #[test]
    fn one_of_sixteen_is_kept_as_long_as_there_is_room() {
        let mut sample = Sample::default();
        let of_many = kept(&mut sample, 0..10_000, 1_000_000);
        assert!((500..750).contains(&of_many), "{of_many}");
        assert_eq!(kept(&mut Sample::default(), 0..10_000, 1000), 100);
        assert_eq!(kept(&mut Sample::default(), 0..10_000, 159), 0, "too few to be watched");
    }

    #[test]
    fn where_it_does_not_pay_few_are_kept_until_it_does() {
        let mut sample = Sample::default();
        assert_eq!(kept(&mut sample, 0..10_000, 1600), 160);
        (0..100).for_each(|_| {
            sample.left(true);
            sample.left(false);
        });
        sample.returned(true);
        // One in a hundred returns from the small queue, none of the kept blocks.
        (0..160).for_each(|_| sample.lost());
        assert_eq!(kept(&mut sample, 0..10_000, 1600), 10);
        (0..10).for_each(|_| sample.hit());
        assert_eq!(kept(&mut sample, 0..10_000, 1600), 160, "10 of 170");
    }
}
