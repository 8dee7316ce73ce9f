//! Which parts of disks cannot be read: totals, and the first ranges of each.

/// Ranges that are listed for a disk; all are counted.
pub const LISTED_MAX: usize = 64;

/// Blocks, put together to ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockRanges {
    /// All blocks.
    pub blocks: u64,
    /// All ranges.
    pub ranges: u64,
    /// The first ranges: (first block, blocks).
    pub listed: Vec<(u64, u64)>,
    end: u64,
}

impl BlockRanges {
    /// Adds a run of blocks behind all that were added before.
    pub fn add(&mut self, first: u64, blocks: u64) {
        if blocks == 0 {
            return;
        }
        let continues = self.ranges > 0 && first == self.end;
        self.blocks += blocks;
        self.end = first + blocks;
        if !continues {
            self.ranges += 1;
        }
        if !continues && self.listed.len() < LISTED_MAX {
            self.listed.push((first, blocks));
        } else if continues
            && let Some((start, length)) = self.listed.last_mut()
            && *start + *length == first
        {
            *length += blocks;
        }
    }
}

/// What is known of a disk that is not whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskReport {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Blocks with data that can be read, as far as is known.
    pub readable_blocks: u64,
    /// Of them, those whose newest state came after the checkpoint.
    pub later_blocks: u64,
    /// Blocks that hold data which is gone: reads of them fail.
    pub gone: BlockRanges,
    /// Blocks that are shown in a version which may be older than that of the checkpoint.
    pub maybe_older: BlockRanges,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range_and_what_is_not_listed_is_counted() {
        let mut ranges = BlockRanges::default();
        ranges.add(5, 2);
        ranges.add(7, 1);
        ranges.add(9, 0);
        for i in 0..100 {
            ranges.add(10 + 2 * i, 1);
            if i == 99 {
                ranges.add(11 + 2 * i, 4);
            }
        }
        assert_eq!((ranges.blocks, ranges.ranges, ranges.listed.len()), (107, 101, LISTED_MAX));
        assert_eq!(ranges.listed[..2], [(5, 3), (10, 1)]);
    }
}
