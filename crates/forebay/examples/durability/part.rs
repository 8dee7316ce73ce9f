//! The blocks that one connection writes: every n-th stripe of the disk, so that connections share map leaves but never
//! a block, and the order of changes to each block is known.

use crate::history::Block;
use crate::sector::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES, look};

/// Blocks of a stripe: more than a map leaf has, so that a discard can empty one.
pub const STRIPE_BLOCKS: u64 = 512;

/// A connection's blocks.
#[derive(Debug)]
pub struct Part {
    /// Which of them.
    pub index: u64,
    /// Of how many.
    pub parts: u64,
    /// Seed of what is written.
    pub seed: u64,
    /// Stripe by stripe.
    pub blocks: Vec<Block>,
}

/// What a check of a whole part found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// Blocks that could only be in one state, and were.
    pub certain: u64,
    /// Blocks with unflushed changes, found in the durable state.
    pub old: u64,
    /// Blocks with unflushed changes, found in the newest state.
    pub new: u64,
    /// Blocks with unflushed changes, found between the two.
    pub between: u64,
    /// Blocks that hold what they must not.
    pub wrong: u64,
}

impl Checked {
    /// Sums up.
    pub fn add(&mut self, other: &Self) {
        self.certain += other.certain;
        self.old += other.old;
        self.new += other.new;
        self.between += other.between;
        self.wrong += other.wrong;
    }
}

/// Versions of the sectors of one block.
pub fn sectors_of(bytes: &[u8], seed: u64, disk_block: u64) -> [u32; BLOCK_SECTORS] {
    let mut found = [0; BLOCK_SECTORS];
    for (index, (sector, version)) in bytes.chunks(SECTOR_BYTES).zip(found.iter_mut()).enumerate() {
        *version = look(sector, seed, disk_block * BLOCK_SECTORS as u64 + index as u64);
    }
    found
}

impl Part {
    /// A part of a disk of zeros.
    pub fn new(index: u64, parts: u64, disk_bytes: u64, seed: u64) -> Self {
        let stripes = disk_bytes / BLOCK_BYTES as u64 / STRIPE_BLOCKS / parts;
        Self { index, parts, seed, blocks: vec![Block::default(); (stripes * STRIPE_BLOCKS) as usize] }
    }

    /// Stripes.
    pub fn stripes(&self) -> u64 {
        self.blocks.len() as u64 / STRIPE_BLOCKS
    }

    /// Where a block of this part is on the disk.
    pub fn disk_block(&self, local: usize) -> u64 {
        let (stripe, at) = (local as u64 / STRIPE_BLOCKS, local as u64 % STRIPE_BLOCKS);
        (stripe * self.parts + self.index) * STRIPE_BLOCKS + at
    }

    /// The block of this part at a place of the disk, if it is one.
    pub fn local(&self, disk_block: u64) -> Option<usize> {
        let (stripe, at) = (disk_block / STRIPE_BLOCKS, disk_block % STRIPE_BLOCKS);
        (stripe % self.parts == self.index).then(|| (stripe / self.parts * STRIPE_BLOCKS + at) as usize)
    }

    /// Judges a block as found after a recovery, and takes it for the only truth.
    pub fn settle(&mut self, local: usize, bytes: &[u8], checked: &mut Checked) -> Result<(), String> {
        let disk_block = self.disk_block(local);
        let found = sectors_of(bytes, self.seed, disk_block);
        let block = &mut self.blocks[local];
        let (floor, newest) = (block.floor(), block.newest());
        match block.judge(&found, floor, newest) {
            Some(_) if floor == newest => checked.certain += 1,
            Some(version) if version == floor => checked.old += 1,
            Some(version) if version == newest => checked.new += 1,
            Some(_) => checked.between += 1,
            None => {
                checked.wrong += 1;
                return Err(format!("block {disk_block} {}", block.explain(&found, floor, newest)));
            }
        }
        block.settle(found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_one_owner() {
        let parts: Vec<Part> = (0..3).map(|index| Part::new(index, 3, 6 * 512 * 4096, 1)).collect();
        for disk_block in 0..6 * 512 {
            let owners: Vec<usize> = parts.iter().filter_map(|part| part.local(disk_block)).collect();
            assert_eq!(owners.len(), 1);
            let owner = &parts[(disk_block / 512 % 3) as usize];
            assert_eq!(owner.disk_block(owners[0]), disk_block);
        }
    }
}
