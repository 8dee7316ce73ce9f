//! What the blocks of a group cost the bands: how many came there, and how often collection moved them.

/// Fewest blocks of the sample that came to the bands for which a ratio is reported.
const KNOWN_BLOCKS: u64 = 8;

/// Blocks since the start, as far as a sample says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Blocks that came to the bands: written there by a host, or destaged.
    pub came_blocks: u64,
    /// Blocks that collection moved, each as often as it did.
    pub collected_blocks: u64,
}

impl Costs {
    /// Blocks came to a band, or were moved by collection.
    pub fn count(&mut self, blocks: u64, is_collection: bool) {
        let count = if is_collection { &mut self.collected_blocks } else { &mut self.came_blocks };
        *count += blocks;
    }

    /// Blocks written to the bands for each that came there. `None` where hardly any did, one of `one_of` being in the sample.
    #[must_use]
    pub fn write_amplification(&self, one_of: u64) -> Option<f64> {
        let is_known = self.came_blocks >= KNOWN_BLOCKS.saturating_mul(one_of);
        is_known.then(|| 1.0 + self.collected_blocks as f64 / self.came_blocks as f64)
    }
}
