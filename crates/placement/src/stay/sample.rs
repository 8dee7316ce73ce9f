//! A sample of blocks whose lifetimes are followed, chosen by their addresses (as in SHARDS: Waldspurger, FAST'15):
//! of bounded size, however many blocks there are.

use super::ages::Ages;
use super::lives::Lives;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};

/// Memory of one followed block, in bytes: key and value in a B-tree whose nodes are two thirds full.
pub const BYTES_PER_BLOCK: u64 = 60;

#[derive(Clone, Copy, Debug)]
struct Followed {
    written_at: u64,
    /// Up to this time its life is included in the counts of its group.
    counted_to: u64,
    group: u16,
}

/// The followed blocks.
#[derive(Clone, Debug)]
pub struct Sample {
    blocks: BTreeMap<(u16, u64), Followed>,
    blocks_max: usize,
    /// Blocks whose hash ends in at least this many zeros are followed.
    zeros: u32,
    /// Scratch space.
    forgotten: Vec<(u16, u64)>,
}

/// Spreads addresses evenly (the finalizer of SplitMix64, Steele and others, 2014).
pub(super) fn hash(disk: u16, block: u64) -> u64 {
    let mut bits = block ^ u64::from(disk) << 48;
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

impl Sample {
    /// A sample of at most `blocks_max` blocks.
    #[must_use]
    pub fn new(blocks_max: usize) -> Self {
        Self { blocks: BTreeMap::new(), blocks_max: blocks_max.max(1), zeros: 0, forgotten: Vec::new() }
    }

    /// One in this many blocks is followed on average.
    #[must_use]
    pub fn one_of(&self) -> u64 {
        1 << self.zeros
    }

    /// The data in these blocks died.
    pub fn died(&mut self, disk: u16, blocks: Range<u64>, now: u64, ages: Ages, lives: &mut [Lives]) {
        while let Some((&key, _)) = self.blocks.range((disk, blocks.start)..(disk, blocks.end)).next() {
            let Some(followed) = self.blocks.remove(&key) else { break };
            let age = now.saturating_sub(followed.written_at);
            if let Some(lives) = lives.get_mut(usize::from(followed.group)) {
                lives.observed(ages, followed.counted_to.saturating_sub(followed.written_at), age);
                lives.died(ages, age);
            }
        }
    }

    /// These blocks were written, after `died` was called for the old data. Allocates for one in [`Self::one_of`]
    /// blocks.
    pub fn written(&mut self, disk: u16, blocks: Range<u64>, now: u64, group: u16) {
        for block in blocks {
            if hash(disk, block).trailing_zeros() >= self.zeros {
                self.blocks.insert((disk, block), Followed { written_at: now, counted_to: now, group });
            }
        }
        while self.blocks.len() > self.blocks_max {
            self.zeros += 1;
            let zeros = self.zeros;
            self.blocks.retain(|&(disk, block), _| hash(disk, block).trailing_zeros() >= zeros);
        }
    }

    /// Counts the lives up to `now` of at most `most` blocks after `after`; forgets the blocks written before
    /// `oldest`, which have nothing more to show, and those of unknown groups. Returns the last block that it
    /// examined; `None` if no other block follows.
    pub fn count_some(
        &mut self,
        after: Option<(u16, u64)>,
        most: usize,
        (now, oldest, ages): (u64, u64, Ages),
        is_known: impl Fn(u16) -> bool,
        lives: &mut [Lives],
    ) -> Option<(u16, u64)> {
        let (mut last, mut seen) = (None, 0);
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut forgotten = std::mem::take(&mut self.forgotten);
        for (&key, followed) in self.blocks.range_mut((begin, Bound::Unbounded)).take(most) {
            let of = lives.get_mut(usize::from(followed.group));
            if let Some(of) = of.filter(|_| now > followed.counted_to) {
                let from = followed.counted_to.saturating_sub(followed.written_at);
                of.observed(ages, from, now.saturating_sub(followed.written_at));
                followed.counted_to = now;
            }
            if followed.written_at < oldest || !is_known(followed.group) {
                forgotten.push(key);
            }
            (last, seen) = (Some(key), seen + 1);
        }
        for key in forgotten.drain(..) {
            self.blocks.remove(&key);
        }
        self.forgotten = forgotten;
        last.filter(|_| seen == most)
    }

    /// Follows more blocks if there is much room.
    pub fn follow_more(&mut self) {
        if self.zeros > 0 && self.blocks.len() < self.blocks_max / 4 {
            self.zeros -= 1;
        }
    }

    /// Calls `each` with the group of each followed block.
    pub fn count_groups(&self, mut each: impl FnMut(u16)) {
        self.blocks.values().for_each(|followed| each(followed.group));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Sample {
        pub fn len(&self) -> usize {
            self.blocks.len()
        }
    }

    #[test]
    fn a_sample_stays_within_its_size_and_is_drawn_from_everywhere() {
        let mut sample = Sample::new(1000);
        for block in 0..100_000 {
            sample.written(3, block..block + 1, block, 0);
        }
        assert!((400..=1000).contains(&sample.len()), "{}", sample.len());
        assert_eq!(sample.one_of(), 128);
        let quarters: Vec<usize> = (0..4)
            .map(|quarter| sample.blocks.range((3, quarter * 25_000)..(3, (quarter + 1) * 25_000)).count())
            .collect();
        assert!(quarters.iter().all(|count| (sample.len() / 6..sample.len() / 3).contains(count)), "{quarters:?}");
    }

    proptest! {
        /// Compares with a map of all blocks: each death is counted once, at its age, in its group.
        #[test]
        fn lives_are_those_of_the_blocks(steps in prop::collection::vec((0u64..40, 1u64..10, 0u16..3, 0u8..4), 1..200)) {
            let ages = Ages::of_tier(1);
            let mut lives = vec![Lives::default(); 3];
            let (mut sample, mut model) = (Sample::new(1000), BTreeMap::new());
            let mut expected = vec![Lives::default(); 3];
            let mut after = None;
            for (now, (block, blocks, group, what)) in (0u64..).step_by(5).zip(steps) {
                let range = block..block + blocks;
                sample.died(7, range.clone(), now, ages, &mut lives);
                for block in range.clone() {
                    if let Some((born, group)) = model.remove(&block) {
                        expected[usize::from(group)].observed(ages, 0, now - born);
                        expected[usize::from(group)].died(ages, now - born);
                    }
                }
                if what > 0 {
                    sample.written(7, range.clone(), now, group);
                    model.extend(range.map(|block| (block, (now, group))));
                }
                if what == 3 {
                    // A piece of a pass, after any changes since the piece before.
                    after = sample.count_some(after, 4, (now, 0, ages), |_| true, &mut lives);
                }
                prop_assert_eq!(sample.len(), model.len());
            }
            let now = 10_000;
            sample.count_some(None, usize::MAX, (now, 0, ages), |_| true, &mut lives);
            for (born, group) in model.into_values() {
                expected[usize::from(group)].observed(ages, 0, now - born);
            }
            for (lives, expected) in lives.iter().zip(&expected) {
                prop_assert_eq!(lives.deaths(), expected.deaths());
                let mut curves = [Vec::new(), Vec::new()];
                lives.curve(&Lives::default(), ages, |point| curves[0].push(point.dead));
                expected.curve(&Lives::default(), ages, |point| curves[1].push(point.dead));
                prop_assert!(curves[0].iter().zip(&curves[1]).all(|(a, b)| (a - b).abs() < 1e-3));
            }
        }
    }
}
