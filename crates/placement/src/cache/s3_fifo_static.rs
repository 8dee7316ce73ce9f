//! S3-FIFO whose queues keep their sizes: a small queue of a tenth of the places, a main queue, and ghosts of the
//! small queue, nine tenths as many as there are places. For comparison with this project's variant.
//!
//! As published, a block is promoted that was read two more times in the small queue: `t.freq > 1` (Yang and others,
//! "FIFO queues are all you need for cache eviction", SOSP 2023, algorithm 1), the default `move-to-main-threshold=2`
//! of its authors' code. This module evicts in the order of that code (`libCacheSim/cache/eviction/S3FIFO.c` of
//! github.com/1a1a11a/libCacheSim at `aa0fc40`, `S3FIFOv0.c` in later commits): promoted blocks may make the main
//! queue too long until the next eviction, where algorithm 1 shortens it at once.

use super::key::Key;
use super::nodes::Nodes;
use super::replacement::Replacement;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOSTS: usize = 2;
const READS_MAX: u8 = 3;

/// The two queues and the ghosts.
#[derive(Clone, Debug)]
pub struct StaticS3Fifo {
    nodes: Nodes<3>,
    places: u32,
    main_max: u32,
    ghosts_max: u32,
    /// Number of further reads in the small queue that promote a block.
    promoting_reads: u8,
}

impl StaticS3Fifo {
    /// An empty cache of this many places; `promoting_reads` further reads in the small queue promote a block.
    #[must_use]
    pub fn new(places: u32, promoting_reads: u8) -> Self {
        let main_max = places - places / 10;
        let ghosts_max = (u64::from(places) * 9 / 10) as u32;
        Self {
            nodes: Nodes::new(places.saturating_add(ghosts_max).saturating_add(1), 0),
            places,
            main_max,
            ghosts_max,
            promoting_reads,
        }
    }

    fn held(&self) -> u32 {
        self.nodes.len(SMALL) + self.nodes.len(MAIN)
    }

    fn evict(&mut self) {
        if self.nodes.len(MAIN) > self.main_max || self.nodes.len(SMALL) == 0 {
            self.evict_from_main();
        } else {
            self.evict_from_small();
        }
    }

    /// Promotes blocks until one is evicted; possibly all of them are promoted.
    fn evict_from_small(&mut self) {
        while let Some(number) = self.nodes.oldest(SMALL) {
            if self.nodes.note(number) < self.promoting_reads {
                self.nodes.renew(number, GHOSTS);
                if self.nodes.len(GHOSTS) > self.ghosts_max
                    && let Some(oldest) = self.nodes.oldest(GHOSTS)
                {
                    self.nodes.remove(oldest);
                }
                return;
            }
            self.nodes.renew(number, MAIN);
            self.nodes.set_note(number, 0);
        }
    }

    fn evict_from_main(&mut self) {
        while let Some(number) = self.nodes.oldest(MAIN) {
            match self.nodes.note(number) {
                0 => return self.nodes.remove(number),
                reads => {
                    self.nodes.renew(number, MAIN);
                    self.nodes.set_note(number, reads - 1);
                }
            }
        }
    }
}

impl Replacement for StaticS3Fifo {
    fn read(&mut self, key: Key) -> bool {
        let found = self.nodes.find(key);
        if let Some(number) = found.filter(|&number| self.nodes.list(number) != GHOSTS) {
            self.nodes.set_note(number, (self.nodes.note(number) + 1).min(READS_MAX));
            return true;
        }
        if let Some(ghost) = found {
            self.nodes.remove(ghost);
        }
        while self.held() > 0 && self.held() >= self.places {
            self.evict();
        }
        if self.held() < self.places
            && let Some(number) = self.nodes.free()
        {
            self.nodes.add(number, key, if found.is_some() { MAIN } else { SMALL });
        }
        false
    }

    fn remove(&mut self, key: Key) {
        if let Some(number) = self.nodes.find(key) {
            self.nodes.remove(number);
        }
    }

    fn holds(&self, key: Key) -> bool {
        self.nodes.find(key).is_some_and(|number| self.nodes.list(number) != GHOSTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn main(places: u32, promoting_reads: u8, blocks: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut cache = StaticS3Fifo::new(places, promoting_reads);
        blocks.into_iter().for_each(|block| {
            cache.read(Key::from_bits(block));
        });
        let newest_first = std::iter::successors(cache.nodes.newest(MAIN), |&number| cache.nodes.older(number));
        newest_first.map(|number| cache.nodes.key(number).block()).collect()
    }

    #[test]
    fn regression_as_published_two_more_reads_promote() {
        let reads = || (0..20).chain([3, 5, 5]).chain(100..120);
        assert_eq!(main(20, 2, reads()), [5]);
        assert_eq!(main(20, 1, reads()), [5, 3]);
    }

    /// A promoted block does not end the eviction: it continues in the small queue, whatever its size.
    #[test]
    fn regression_an_eviction_goes_on_in_the_small_queue() {
        // Nineteen of twenty blocks are worth promoting; the block that came last is not.
        let reads = (0..20).chain(0..19).chain(0..19).chain([50]);
        assert_eq!(main(20, 2, reads).len(), 19);
    }

    #[test]
    fn a_ghost_enters_the_main_queue() {
        assert_eq!(main(20, 2, (0..21).chain([0])), [0]);
    }
}
