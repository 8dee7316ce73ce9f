//! What the blocks of a group cost the bands: how many blocks reached them, and how often collection moved these.

/// Fewest sampled blocks in the bands for which a ratio is reported.
const KNOWN_BLOCKS: u64 = 8;

/// Counts of blocks since the start, as estimated from a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Blocks that reached the bands: written there by a host, or destaged.
    pub came_blocks: u64,
    /// Blocks that collection moved, each as often as it was moved.
    pub collected_blocks: u64,
}

impl Costs {
    /// Counts blocks that reached a band, or were moved by collection.
    pub fn count(&mut self, blocks: u64, is_collection: bool) {
        let count = if is_collection { &mut self.collected_blocks } else { &mut self.came_blocks };
        *count += blocks;
    }

    /// Blocks written to the bands for each block that reached them. `None` for too few blocks, where one in `one_of`
    /// is sampled.
    #[must_use]
    pub fn write_amplification(&self, one_of: u64) -> Option<f64> {
        let is_known = self.came_blocks >= KNOWN_BLOCKS.saturating_mul(one_of);
        is_known.then(|| 1.0 + self.collected_blocks as f64 / self.came_blocks as f64)
    }
}
