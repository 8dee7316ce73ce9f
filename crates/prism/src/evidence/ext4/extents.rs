//! Ranges of blocks.

/// Most extents of bitmaps and inode tables; with flex_bg one extent describes 2 GiB, so that 4 TiB are exact.
pub(in super::super) const EXTENTS_LIMIT: usize = 2048;

/// Sorted, disjoint, merged ranges of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Extents {
    /// Start and end (exclusive).
    pub ranges: Vec<(u64, u64)>,
}

impl Extents {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of blocks in all ranges.
    pub fn blocks(&self) -> u64 {
        self.ranges.iter().map(|range| range.1 - range.0).sum()
    }

    #[inline]
    pub fn contains(&self, block: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.0 <= block);
        after.checked_sub(1).and_then(|i| self.ranges.get(i)).is_some_and(|range| block < range.1)
    }

    /// Adds a range, joined with its neighbours; returns false, and changes nothing, if the limit would be exceeded.
    pub fn add(&mut self, start: u64, end: u64, limit: usize) -> bool {
        let from = self.ranges.partition_point(|range| range.1 < start);
        let to = self.ranges.partition_point(|range| range.0 <= end);
        let joined = self.ranges.get(from..to).unwrap_or_default().iter();
        let merged = joined.fold((start, end), |merged, range| (merged.0.min(range.0), merged.1.max(range.1)));
        if from >= to && self.ranges.len() >= limit {
            return false;
        }
        self.ranges.splice(from..to.max(from), [merged]);
        true
    }
}
