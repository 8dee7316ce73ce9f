//! S3-FIFO as published (Yang and others, SOSP 2023, algorithm 1): a small queue of a tenth of the places, whatever comes, a main
//! one, and as many ghosts as that has places, of what left the small queue. One more read promotes a block; the default of its authors' code asks for two, which does worse on block
//! traces. Held against ours.

use super::key::Key;
use super::nodes::Nodes;
use super::replacement::Replacement;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOSTS: usize = 2;
const READS_MAX: u8 = 3;

/// Two queues and ghosts.
#[derive(Clone, Debug)]
pub struct StaticS3Fifo {
    nodes: Nodes<3>,
    places: u32,
    small_max: u32,
    ghosts_max: u32,
}

impl StaticS3Fifo {
    /// Over so many places.
    #[must_use]
    pub fn new(places: u32) -> Self {
        let small_max = (places / 10).max(1);
        let ghosts_max = places - small_max.min(places);
        Self {
            nodes: Nodes::new(places.saturating_add(ghosts_max).saturating_add(1), 0),
            places,
            small_max,
            ghosts_max,
        }
    }

    fn held(&self) -> u32 {
        self.nodes.len(SMALL) + self.nodes.len(MAIN)
    }

    fn evict(&mut self) {
        let before = self.held();
        while self.held() == before {
            let is_small = self.nodes.len(SMALL) >= self.small_max || self.nodes.len(MAIN) == 0;
            let Some(number) = self.nodes.oldest(if is_small { SMALL } else { MAIN }) else { return };
            let reads = self.nodes.note(number);
            if reads > 0 {
                self.nodes.renew(number, MAIN);
                self.nodes.set_note(number, if is_small { 0 } else { reads - 1 });
            } else if is_small {
                self.nodes.renew(number, GHOSTS);
                if self.nodes.len(GHOSTS) > self.ghosts_max
                    && let Some(oldest) = self.nodes.oldest(GHOSTS)
                {
                    self.nodes.remove(oldest);
                }
            } else {
                self.nodes.remove(number);
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
        if self.held() >= self.places {
            self.evict();
        }
        if let Some(number) = self.nodes.free() {
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
