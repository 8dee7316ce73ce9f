//! A run divided into blocks of time, in bounded memory.

use hdrhistogram::Histogram;

/// Default for the most blocks that are kept.
pub const BLOCKS: usize = 128;

/// The samples of one bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Upper edge of the bucket, in ns.
    pub value: u64,
    /// Number of samples.
    pub count: u64,
}

/// The samples of one block of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Occupied buckets, ascending.
    cells: Vec<Cell>,
    samples: u64,
    /// Exact sum of all values; all values of a bucket may lie at one of its ends.
    sum_ns: u128,
}

impl Block {
    fn new(histogram: &Histogram<u64>, sum_ns: u128) -> Self {
        let mut block = Self { sum_ns, ..Self::default() };
        for step in histogram.iter_recorded() {
            let (value, count) = (step.value_iterated_to(), step.count_at_value());
            block.cells.push(Cell { value: histogram.highest_equivalent(value), count });
            block.samples = block.samples.saturating_add(count);
        }
        block
    }

    fn merge(&mut self, other: Self) {
        if self.cells.is_empty() {
            *self = other;
            return;
        }
        let mut merged = Vec::with_capacity(self.cells.len().max(other.cells.len()));
        let mut left = self.cells.iter().copied().peekable();
        let mut right = other.cells.into_iter().peekable();
        loop {
            let cell = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a.value == b.value => {
                    let both = Cell { value: a.value, count: a.count.saturating_add(b.count) };
                    left.next();
                    right.next();
                    Some(both)
                }
                (Some(a), Some(b)) if a.value > b.value => right.next(),
                (Some(_), _) => left.next(),
                (None, _) => right.next(),
            };
            let Some(cell) = cell else { break };
            merged.push(cell);
        }
        self.cells = merged;
        self.samples = self.samples.saturating_add(other.samples);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Occupied buckets, ascending.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Number of samples; 0 if a stall lasted for the whole block.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Sum of the samples, in ns.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Samples in buckets above the one whose upper edge is `value`.
    #[must_use]
    pub fn above(&self, value: u64) -> u64 {
        let from = self.cells.partition_point(|cell| cell.value <= value);
        self.cells[from..].iter().map(|cell| cell.count).sum()
    }

    /// Samples in the bucket whose upper edge is `value`, and above.
    #[must_use]
    pub fn at_or_above(&self, value: u64) -> u64 {
        let from = self.cells.partition_point(|cell| cell.value < value);
        self.cells[from..].iter().map(|cell| cell.count).sum()
    }
}

/// A run as a bounded number of blocks of equal time. When the number is reached, neighbours are merged, and each block takes twice as many
/// pushes from then on.
///
/// Memory: 16 bytes for each occupied bucket of each block. A device's latencies occupy some hundreds of the buckets of three digits, so
/// 128 blocks take about a megabyte. The range from 1 ns to a minute has at most 27,000 buckets, which a block fills only if it has as many
/// samples.
#[derive(Clone, Debug)]
pub struct Blocks {
    blocks: Vec<Block>,
    most: usize,
    /// The block that is being filled, and its pushes so far.
    filling: Block,
    filled: u64,
    pushes_per_block: u64,
}

impl Default for Blocks {
    fn default() -> Self {
        Self::new(BLOCKS)
    }
}

impl Blocks {
    /// Keeps at most `most` blocks, at least 8, an even number.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = most.clamp(8, 4096).next_multiple_of(2);
        Self { blocks: Vec::new(), most, filling: Block::default(), filled: 0, pushes_per_block: 1 }
    }

    /// Adds the samples of the next interval of time, even if it has none. Intervals have equal length and come in order; their histograms
    /// have the same significant digits and lowest value. `sum_ns` is the exact sum of the samples.
    pub fn push(&mut self, interval: &Histogram<u64>, sum_ns: u128) {
        self.filling.merge(Block::new(interval, sum_ns));
        self.filled += 1;
        if self.filled < self.pushes_per_block {
            return;
        }
        self.blocks.push(std::mem::take(&mut self.filling));
        self.filled = 0;
        if self.blocks.len() >= self.most {
            self.blocks = pairs(std::mem::take(&mut self.blocks));
            self.pushes_per_block *= 2;
        }
    }

    /// Blocks in order of time. The last may cover less time than the others.
    pub fn iter(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().chain((self.filled > 0).then_some(&self.filling))
    }

    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether nothing was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of intervals in each block but the last.
    #[must_use]
    pub fn pushes_per_block(&self) -> u64 {
        self.pushes_per_block
    }

    /// Samples in all blocks.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.iter().map(Block::samples).sum()
    }
}

fn pairs(blocks: Vec<Block>) -> Vec<Block> {
    let mut merged: Vec<Block> = Vec::with_capacity(blocks.len().div_ceil(2));
    for (at, block) in blocks.into_iter().enumerate() {
        match merged.last_mut() {
            Some(last) if at % 2 == 1 => last.merge(block),
            _ => merged.push(block),
        }
    }
    merged
}

/// The sum of samples of which only the buckets are known.
#[cfg(test)]
pub fn sum_of_middles_ns(histogram: &Histogram<u64>) -> u128 {
    let middle = |value| u128::from(histogram.median_equivalent(value));
    histogram.iter_recorded().map(|step| middle(step.value_iterated_to()) * u128::from(step.count_at_value())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn merging_loses_nothing_and_keeps_the_order(
            most in 8_usize..20,
            intervals in prop::collection::vec(prop::collection::vec(1_u64..1_000_000, 0..6), 0..150),
        ) {
            let mut blocks = Blocks::new(most);
            let mut all = Histogram::<u64>::new(3).unwrap();
            for values in &intervals {
                let mut histogram = Histogram::<u64>::new(3).unwrap();
                for value in values {
                    histogram.record(*value).unwrap();
                    all.record(*value).unwrap();
                }
                blocks.push(&histogram, sum_of_middles_ns(&histogram));
                prop_assert!(blocks.len() <= most.next_multiple_of(2));
            }
            prop_assert_eq!(blocks.samples(), all.len());
            prop_assert_eq!(blocks.len() as u64, (intervals.len() as u64).div_ceil(blocks.pushes_per_block()));
            for value in [1_000, 50_000, 500_000] {
                let value = all.highest_equivalent(value);
                let above: u64 = blocks.iter().map(|block| block.above(value)).sum();
                let at_or_above: u64 = blocks.iter().map(|block| block.at_or_above(value)).sum();
                prop_assert_eq!(above, all.iter_recorded().filter(|step| all.highest_equivalent(step.value_iterated_to()) > value).map(|step| step.count_at_value()).sum::<u64>());
                prop_assert_eq!(at_or_above - above, all.count_at(value));
            }
            let per_block = blocks.pushes_per_block() as usize;
            for (at, block) in blocks.iter().enumerate() {
                let own = intervals[at * per_block..].iter().take(per_block).map(|values| values.len() as u64);
                prop_assert_eq!(block.samples(), own.sum::<u64>());
                prop_assert!(block.cells().is_sorted_by(|a, b| a.value < b.value));
            }
            prop_assert_eq!(blocks.iter().map(Block::sum_ns).sum::<u128>(), sum_of_middles_ns(&all));
        }
    }

    #[test]
    fn an_interval_without_samples_is_a_block() {
        let mut blocks = Blocks::default();
        blocks.push(&Histogram::new(3).unwrap(), 0);
        assert_eq!((blocks.len(), blocks.samples()), (1, 0));
        assert!(!blocks.is_empty() && Blocks::default().is_empty());
    }
}
