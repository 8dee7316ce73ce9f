//! Who reads in sequence, and whether what is read so has lately been read again.

use super::key::Key;

/// Sequences that are followed at once: those that were read last.
const STREAMS: usize = 16;
/// Blocks in sequence from which on it is a run: 1 MiB, from which on Open CAS lets reads pass by.
const RUN_BLOCKS: u32 = 256;
/// A run passes by where less than one of so many of its blocks has lately come back.
const RETURNS_ONE_OF: u32 = 32;
/// What is lately: between one and two of so many of the places, in blocks of runs, and no fewer than the least.
const WINDOW_ONE_OF: u32 = 64;
const WINDOW_BLOCKS_MIN: u32 = 64;

/// A sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    next: u64,
    blocks: u32,
}

/// What was read in sequence.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// The one that was read last comes first.
    streams: [Stream; STREAMS],
    window_blocks: u32,
    /// Blocks of runs lately, and how many of them had a copy or a ghost.
    blocks: u32,
    returned: u32,
}

impl Runs {
    /// Beside a cache of so many places.
    pub fn new(places: u32) -> Self {
        let mut runs = Self { streams: [Stream::default(); STREAMS], window_blocks: 0, blocks: 0, returned: 0 };
        runs.resize(places);
        runs
    }

    /// The cache has so many places from now on.
    pub fn resize(&mut self, places: u32) {
        self.window_blocks = (places / WINDOW_ONE_OF).max(WINDOW_BLOCKS_MIN);
    }

    /// A block is read; whether it has a copy or a ghost. True where it is of a run of which nothing is to be expected.
    pub fn read(&mut self, key: Key, is_known: bool) -> bool {
        if self.length(key) <= RUN_BLOCKS {
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

    /// How long the sequence is to which a block belongs.
    fn length(&mut self, key: Key) -> u32 {
        let bits = key.bits();
        // Requests that are not aligned read the block between them twice.
        let again = bits.wrapping_add(1);
        let found =
            self.streams.iter().position(|stream| stream.blocks > 0 && (stream.next == bits || stream.next == again));
        let before = found.map_or(Stream::default(), |at| self.streams[at]);
        let blocks =
            if before.blocks > 0 && before.next == again { before.blocks } else { before.blocks.saturating_add(1) };
        self.streams[..=found.unwrap_or(STREAMS - 1)].rotate_right(1);
        self.streams[0] = Stream { next: again, blocks };
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(block: u64) -> Key {
        Key::from_bits(block)
    }

    #[test]
    fn sequences_are_followed_beside_each_other() {
        let mut runs = Runs::new(1);
        for at in 0..100 {
            assert_eq!(runs.length(key(1000 + at)), at as u32 + 1);
            assert_eq!(runs.length(key(1000 + at)), at as u32 + 1, "the same block again");
            assert_eq!(runs.length(key(5000 + at)), at as u32 + 1);
            assert_eq!(runs.length(key(90_000 - 7 * at)), 1);
        }
        for at in 0..STREAMS as u64 {
            runs.length(key(100_000 + 3 * at));
        }
        assert_eq!(runs.length(key(1100)), 1, "forgotten");
    }

    #[test]
    fn runs_pass_by_until_they_come_back() {
        let mut runs = Runs::new(64);
        let passed = (0..1000).position(|at| runs.read(key(at), false));
        assert_eq!(passed, Some((RUN_BLOCKS + WINDOW_BLOCKS_MIN) as usize - 1));
        assert!(!runs.read(key(50_000), false), "no run");
        let admitted = (1000..2000).position(|at| !runs.read(key(at), true));
        assert!(admitted.is_some_and(|reads| reads < 10), "{admitted:?}");
    }
}
