//! Leaves that hold blocks to be destaged, by the age of their oldest: what was written longest ago leaves the fast tier
//! first.
//!
//! Time is counted in epochs: [`EPOCHS`] of them to as many blocks written as the fast tier has slots. Eight bytes a leaf.

use forebay_block::DiskId;
use std::collections::BTreeMap;

/// Epochs in a fast tier's worth of writes.
pub(crate) const EPOCHS: u64 = 64;

/// The queue. A leaf is in it once at most; the map's index keeps the mark.
#[derive(Debug, Default)]
pub(crate) struct AgeQueue {
    by_epoch: BTreeMap<u32, Vec<u64>>,
    len: usize,
}

impl AgeQueue {
    /// Puts a leaf under the epoch of its oldest block.
    pub fn push(&mut self, epoch: u32, disk: DiskId, leaf: u64) {
        let leaves = self.by_epoch.entry(epoch).or_default();
        if leaves.len() == leaves.capacity() {
            // By an eighth, not by as much again: what it takes is part of the memory limit.
            leaves.reserve_exact(leaves.len() / 8 + 16);
        }
        leaves.push(u64::from(disk.0) << 48 | leaf);
        self.len += 1;
    }

    /// A leaf of the oldest epoch, which stays where it is.
    pub fn first(&self) -> Option<(u32, DiskId, u64)> {
        let (&epoch, leaves) = self.by_epoch.first_key_value()?;
        let &key = leaves.last()?;
        Some((epoch, DiskId((key >> 48) as u16), key & ((1 << 48) - 1)))
    }

    /// Takes away what [`AgeQueue::first`] gives.
    pub fn pop_first(&mut self) -> Option<(u32, DiskId, u64)> {
        let first = self.first()?;
        let leaves = self.by_epoch.get_mut(&first.0)?;
        leaves.pop();
        if leaves.is_empty() {
            self.by_epoch.remove(&first.0);
        }
        self.len -= 1;
        Some(first)
    }

    /// Number of leaves.
    pub fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_epoch_comes_first() {
        let mut queue = AgeQueue::default();
        for (epoch, leaf) in [(5, 50), (3, 30), (5, 51), (9, (1 << 40) + 7)] {
            queue.push(epoch, DiskId(7), leaf);
        }
        assert_eq!(queue.first(), Some((3, DiskId(7), 30)));
        let epochs: Vec<u32> = std::iter::from_fn(|| queue.pop_first()).map(|(epoch, ..)| epoch).collect();
        assert_eq!(epochs, [3, 5, 5, 9]);
        assert_eq!(queue.len(), 0);
    }
}
