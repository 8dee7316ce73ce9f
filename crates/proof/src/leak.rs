//! Writes a seeded share of the unflushed sectors back early, so that killing the process leaves lost, torn and
//! reordered writes behind rather than only lost ones.

use forebay_block::Random;
use std::ops::Range;

/// Most parts of writes that wait for early write-back; beyond that, the oldest is dropped, which only means that it
/// stays unflushed.
const WAITING_LIMIT: usize = 256;

/// Sectors of one operation that are to be written back early.
#[derive(Clone, Debug)]
pub struct Part {
    /// Number of the operation.
    pub id: u64,
    /// The sectors.
    pub sectors: Range<u64>,
}

/// Chooses which sectors are written back early, and when.
#[derive(Debug)]
pub struct Leak {
    random: Random,
    waiting: Vec<Part>,
}

impl Leak {
    /// A chooser whose choices all depend on the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), waiting: Vec::new() }
    }

    /// Considers an operation: half of all operations are written back early, whole or in part.
    pub fn consider(&mut self, id: u64, sectors: Range<u64>) {
        if self.random.chance(1, 2) {
            return;
        }
        let len = sectors.end - sectors.start;
        let part = match self.random.below(4) {
            0 => sectors,
            1 => sectors.start..sectors.start + 1 + self.random.below(len),
            2 => sectors.start + self.random.below(len)..sectors.end,
            _ => {
                let start = sectors.start + self.random.below(len);
                start..start + 1 + self.random.below(sectors.end - start)
            }
        };
        if self.waiting.len() == WAITING_LIMIT {
            self.waiting.remove(0);
        }
        self.waiting.push(Part { id, sectors: part });
    }

    /// A part to be written back now, in no particular order; `None` if there is none now.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Part> {
        if self.waiting.is_empty() || !self.random.chance(1, 3) {
            return None;
        }
        let index = self.random.index(self.waiting.len());
        Some(self.waiting.swap_remove(index))
    }

    /// Drops all waiting parts.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}
