//! A sample of what leaves the small queue without being read again is kept: of data that comes back in turns longer than the cache, a part
//! that stays is hit each time, where queues in the order of reads lose all of it before it comes.
//!
//! Caches of processors insert one of 32 blocks so (BIP: Qureshi and others, "Adaptive insertion policies for high performance caching",
//! ISCA 2007). Here it takes no copy more: what is kept has one. It goes on only as long as what is kept comes back more often than what
//! has to go for it.

use super::key::Key;

/// One of so many blocks belongs to the sample: always the same ones, so that of each turn the same part stays.
const ONE_OF: u64 = 16;
/// One of so many places is taken by what is kept and was not read since, at most: as many as the small queue begins with.
const PLACES_ONE_OF: u64 = 10;
/// Where it does not pay so many times fewer are, from which it would be seen if it did.
const WATCHED_ONE_OF: u64 = 16;
/// Whether it pays is not known before so many left again unread.
const LOST_MIN: u32 = 8;
/// What is lately: between one and two of so many blocks.
const WINDOW_BLOCKS: u32 = 1 << 12;
const QUEUE_WINDOW_BLOCKS: u32 = 1 << 20;

/// How many of so many blocks came back.
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

/// What is kept, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// Blocks that are kept and were not read since.
    kept: u32,
    /// Of those that were kept, of what left the small queue, and of what left the main one.
    of_kept: Odds,
    of_small: Odds,
    of_main: Odds,
}

impl Sample {
    /// Whether a block that is to leave the small queue is kept, in a cache of so many places. `seed`: of the hashes.
    pub fn keeps(&mut self, key: Key, seed: u64, places: u32) -> bool {
        let most_one_of = if self.pays() { PLACES_ONE_OF } else { PLACES_ONE_OF * WATCHED_ONE_OF };
        // In a cache of less than 160 places, where one block would be more than that, none is.
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

    /// One that was kept is read.
    pub fn hit(&mut self) {
        self.kept -= 1;
        self.of_kept.returned += 1;
        self.of_kept.count(WINDOW_BLOCKS);
    }

    /// One that was kept leaves unread.
    pub fn lost(&mut self) {
        self.kept -= 1;
        self.of_kept.count(WINDOW_BLOCKS);
    }

    /// One that was kept was written: it says nothing.
    pub fn removed(&mut self) {
        self.kept -= 1;
    }

    /// A block left the small queue or the main one.
    pub fn left(&mut self, is_small: bool) {
        if is_small { &mut self.of_small } else { &mut self.of_main }.count(QUEUE_WINDOW_BLOCKS);
    }

    /// One that had left the small queue or the main one comes back.
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
        // One of a hundred comes back from the small queue, none of those that were kept.
        (0..160).for_each(|_| sample.lost());
        assert_eq!(kept(&mut sample, 0..10_000, 1600), 10);
        (0..10).for_each(|_| sample.hit());
        assert_eq!(kept(&mut sample, 0..10_000, 1600), 160, "10 of 170");
    }
}
