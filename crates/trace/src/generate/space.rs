//! Places of files: slots of one size; the lowest free slot is used first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The first.
    pub begin_block: u64,
    /// How many.
    pub blocks: u64,
}

/// The part of a volume that files share. A file takes whole slots, so that freed space fits the next file and does not fragment, however
/// long the stream.
pub(super) struct Space {
    begin_block: u64,
    slot_blocks: u64,
    slots: u64,
    /// Slots from this one on were never used.
    fresh: u64,
    free: BinaryHeap<Reverse<u64>>,
}

impl Space {
    pub fn new(begin_block: u64, slot_blocks: u64, slots: u64) -> Self {
        Self { begin_block, slot_blocks: slot_blocks.max(1), slots, fresh: 0, free: BinaryHeap::new() }
    }

    /// The block behind the last one.
    pub fn end_block(&self) -> u64 {
        self.begin_block + self.slots * self.slot_blocks
    }

    /// Number of slots for a file of `blocks` blocks.
    pub fn slots_for(&self, blocks: u64) -> u64 {
        blocks.div_ceil(self.slot_blocks)
    }

    /// Number of free slots.
    pub fn free_slots(&self) -> u64 {
        self.slots - self.fresh + self.free.len() as u64
    }

    /// Allocates a file; `None`, without any effect, if it does not fit.
    pub fn place(&mut self, blocks: u64) -> Option<Vec<Extent>> {
        if self.slots_for(blocks) > self.free_slots() {
            return None;
        }
        let mut extents = Vec::with_capacity(self.slots_for(blocks) as usize);
        let mut left = blocks;
        while left > 0 {
            let slot = match self.free.pop() {
                Some(Reverse(slot)) => slot,
                None => {
                    self.fresh += 1;
                    self.fresh - 1
                }
            };
            let here = left.min(self.slot_blocks);
            extents.push(Extent { begin_block: self.begin_block + slot * self.slot_blocks, blocks: here });
            left -= here;
        }
        Some(extents)
    }

    /// Frees the extents of a file, as returned by [`Space::place`].
    pub fn take_back(&mut self, extents: &[Extent]) {
        for extent in extents {
            self.free.push(Reverse((extent.begin_block - self.begin_block) / self.slot_blocks));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_lowest_slots_and_never_more_than_there_are() {
        let mut space = Space::new(100, 10, 3);
        let first = space.place(10).unwrap();
        let second = space.place(15).unwrap();
        assert_eq!(second.iter().map(|extent| extent.blocks).sum::<u64>(), 15);
        assert_eq!(space.place(1), None);
        space.take_back(&first);
        assert_eq!(space.place(11), None);
        assert_eq!(space.place(3), Some(vec![Extent { begin_block: 100, blocks: 3 }]));
        assert_eq!(space.end_block(), 130);
    }
}
