//! The blocks that one connection writes: every n-th stripe of the disk, so that connections share map leaves but never
//! a block, and the order of changes to each block is known.

use forebay_block::BLOCK_BYTES;

/// Blocks of a stripe: more than a map leaf covers, so that a discard can empty a leaf.
pub const STRIPE_BLOCKS: u64 = 512;

/// A connection's blocks.
#[derive(Debug)]
pub struct Part {
    /// Index of this part.
    index: u64,
    /// Number of parts.
    parts: u64,
    stripes: u64,
}

impl Part {
    /// A part of a disk.
    pub fn new(index: u64, parts: u64, disk_bytes: u64) -> Self {
        Self { index, parts, stripes: disk_bytes / BLOCK_BYTES as u64 / STRIPE_BLOCKS / parts }
    }

    /// Number of stripes in this part.
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Number of blocks in this part.
    pub fn blocks(&self) -> u64 {
        self.stripes * STRIPE_BLOCKS
    }

    /// The number on the disk of a block of this part.
    pub fn disk_block(&self, local: u64) -> u64 {
        let (stripe, at) = (local / STRIPE_BLOCKS, local % STRIPE_BLOCKS);
        (stripe * self.parts + self.index) * STRIPE_BLOCKS + at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_one_owner() {
        let parts: Vec<Part> = (0..3).map(|index| Part::new(index, 3, 6 * 512 * 4096)).collect();
        let owned = parts.iter().flat_map(|part| (0..part.blocks()).map(|local| part.disk_block(local)));
        let mut owned: Vec<u64> = owned.collect();
        owned.sort_unstable();
        assert_eq!(owned, (0..6 * 512).collect::<Vec<u64>>());
    }
}
