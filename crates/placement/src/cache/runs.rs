//! Recognizes sequential reads, and measures whether blocks read in sequence have lately been read again.

use super::key::Key;

/// Number of sets of sequences that are followed at once: the set of a sequence depends on the block that is expected
/// next.
const SETS: usize = 64;
const WAYS: usize = 4;
/// Longer sequences are runs: 1 MiB, the length from which on Open CAS lets reads pass.
const RUN_BLOCKS: u32 = 256;
/// From this length on, a sequence keeps its slot, unless none of its blocks was read for `KEPT_FOR_BLOCKS` blocks.
const KEPT_BLOCKS: u32 = 32;
const KEPT_FOR_BLOCKS: u32 = 1 << 16;
/// A reader that reads a block again does so within this many blocks.
const AGAIN_WITHIN_BLOCKS: u32 = 128;
/// A run passes the cache if less than one in this many of its blocks has lately returned.
const RETURNS_ONE_OF: u32 = 32;
/// The period for "lately": between one and two times the places divided by this, in blocks of runs, and at least the
/// minimum.
const WINDOW_ONE_OF: u32 = 64;
const WINDOW_BLOCKS_MIN: u32 = 64;

/// A sequence; an unused slot has no blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    next: u64,
    blocks: u32,
    /// The value of the counter of all blocks read when this sequence was last read.
    read_at: u32,
    /// Whether its last block was not worth a copy.
    passed: bool,
}

/// The position of a block in its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The block was read just before: requests smaller than a block, or not aligned, cause that. `passed` says
    /// whether the block was found not worth a copy then.
    Again { passed: bool },
    /// The block continues its sequence, which with it has this many blocks.
    Next { blocks: u32 },
}

/// The sequences being followed, and how many blocks of runs returned.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    streams: [[Stream; WAYS]; SETS],
    /// Set and slot of the sequence that was read last.
    last: (usize, usize),
    read_blocks: u32,
    seed: u64,
    window_blocks: u32,
    /// Blocks of runs lately, and how many of them had a copy or a ghost.
    blocks: u32,
    returned: u32,
}

impl Runs {
    /// State for a cache of this many places. `seed` is the seed of the hashes.
    pub fn new(places: u32, seed: u64) -> Self {
        let mut runs = Self {
            streams: [[Stream::default(); WAYS]; SETS],
            last: (0, 0),
            read_blocks: 0,
            seed,
            window_blocks: 0,
            blocks: 0,
            returned: 0,
        };
        runs.resize(places);
        runs
    }

    /// Sets the number of the cache's places.
    pub fn resize(&mut self, places: u32) {
        self.window_blocks = (places / WINDOW_ONE_OF).max(WINDOW_BLOCKS_MIN);
    }

    fn set(&self, next: u64) -> usize {
        (Key::from_bits(next).hash(self.seed) >> 32) as usize % SETS
    }

    fn find(&self, next: u64) -> Option<(usize, usize)> {
        let set = self.set(next);
        let way = self.streams[set].iter().position(|stream| stream.blocks > 0 && stream.next == next)?;
        Some((set, way))
    }

    /// Processes the read of a block; returns the block's position in its sequence.
    pub fn step(&mut self, key: Key) -> Step {
        self.read_blocks = self.read_blocks.wrapping_add(1);
        let after = key.bits().wrapping_add(1);
        let found = self.find(key.bits());
        if found.is_none()
            && let Some((set, way)) = self.find(after)
            // A sequence of a single block does not show this: the block may be one that is read often. Nor does a
            // sequence after many reads of other blocks.
            && self.streams[set][way].blocks > 1
            && self.read_blocks.wrapping_sub(self.streams[set][way].read_at) <= AGAIN_WITHIN_BLOCKS
        {
            let stream = &mut self.streams[set][way];
            stream.read_at = self.read_blocks;
            self.last = (set, way);
            return Step::Again { passed: stream.passed };
        }
        let before = found.map_or(0, |(set, way)| std::mem::take(&mut self.streams[set][way]).blocks);
        let blocks = before.saturating_add(1);
        let set = self.set(after);
        let way = self.victim(set, after);
        self.streams[set][way] = Stream { next: after, blocks, read_at: self.read_blocks, passed: false };
        self.last = (set, way);
        Step::Next { blocks }
    }

    /// The slot of a set that a new sequence replaces: of the sequences that need not be kept, the one last read the
    /// longest ago.
    fn victim(&self, set: usize, next: u64) -> usize {
        let age = |stream: &Stream| self.read_blocks.wrapping_sub(stream.read_at);
        let worth = |stream: &Stream| match stream.blocks {
            0 => (0, 0),
            _ if stream.next == next => (0, 1),
            KEPT_BLOCKS.. if age(stream) < KEPT_FOR_BLOCKS => (2, u32::MAX - age(stream)),
            _ => (1, u32::MAX - age(stream)),
        };
        (0..WAYS).min_by_key(|&way| worth(&self.streams[set][way])).unwrap_or(0)
    }

    /// Processes one more block of a sequence that now has `blocks` blocks; `is_known` says whether the block has a
    /// copy or a ghost. Returns true if the block belongs to a run whose blocks are not expected to be read again.
    pub fn is_hopeless(&mut self, blocks: u32, is_known: bool) -> bool {
        if blocks <= RUN_BLOCKS {
            return false;
        }
        self.blocks += 1;
        self.returned += u32::from(is_known);
        let is_hopeless =
            self.blocks >= self.window_blocks && self.returned.saturating_mul(RETURNS_ONE_OF) < self.blocks;
        if self.blocks >= self.window_blocks.saturating_mul(2) {
            self.blocks /= 2;
            self.returned /= 2;
        }
        is_hopeless
    }

    /// Notes that the block read last was not worth a copy.
    pub fn passed(&mut self) {
        let (set, way) = self.last;
        self.streams[set][way].passed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::Random;

    fn key(block: u64) -> Key {
        Key::from_bits(block)
    }

    fn blocks(runs: &mut Runs, block: u64) -> u32 {
        match runs.step(key(block)) {
            Step::Next { blocks } => blocks,
            Step::Again { .. } => 0,
        }
    }

    #[test]
    fn sequences_are_followed_beside_each_other() {
        let mut runs = Runs::new(1, 7);
        for at in 0..100 {
            assert_eq!(blocks(&mut runs, 1000 + at), at as u32 + 1);
            if at > 0 {
                assert_eq!(runs.step(key(1000 + at)), Step::Again { passed: false }, "the same block again");
            }
            assert_eq!(blocks(&mut runs, 5000 + at), at as u32 + 1);
            assert_eq!(blocks(&mut runs, 90_000 - 7 * at), 1);
        }
        let mut random = Random::new(3);
        (0..u64::from(KEPT_FOR_BLOCKS) / 2).for_each(|_| {
            blocks(&mut runs, 1 << 40 | random.below(1 << 39));
        });
        assert_eq!(blocks(&mut runs, 1100), 101, "kept beside what is read here and there");
        (0..4 * u64::from(KEPT_FOR_BLOCKS)).for_each(|_| {
            blocks(&mut runs, 1 << 40 | random.below(1 << 39));
        });
        assert_eq!(blocks(&mut runs, 1101), 1, "forgotten");
    }

    #[test]
    fn a_block_that_is_read_often_is_no_sequence() {
        let mut runs = Runs::new(1, 7);
        for at in 0..10 {
            assert_eq!((blocks(&mut runs, 5), blocks(&mut runs, 100 + 3 * at)), (1, 1));
        }
        // Two neighbours that are read alternately are a new sequence each time.
        for _ in 0..10 {
            assert_eq!((blocks(&mut runs, 50), blocks(&mut runs, 51)), (1, 2));
        }
    }

    #[test]
    fn runs_pass_by_until_they_come_back() {
        let mut runs = Runs::new(64, 7);
        let mut read = |block, is_known| match runs.step(key(block)) {
            Step::Next { blocks } => runs.is_hopeless(blocks, is_known),
            Step::Again { .. } => panic!("read once"),
        };
        let passed = (0..1000).position(|at| read(at, false));
        assert_eq!(passed, Some((RUN_BLOCKS + WINDOW_BLOCKS_MIN) as usize - 1));
        (passed.unwrap_or(0) as u64 + 1..1000).for_each(|at| {
            read(at, false);
        });
        assert!(!read(50_000, false), "no run");
        let admitted = (1000..2000).position(|at| !read(at, true));
        assert!(admitted.is_some_and(|reads| reads < 10), "{admitted:?}");
    }
}
