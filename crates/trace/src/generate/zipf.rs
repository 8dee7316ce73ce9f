//! Writes and reads of single blocks by Zipf's law with any skew, like the writes of SepBIT's authors; the hot blocks may change.

use super::parts::{BLOCK_BYTES, fraction, poisson_gap_ns};
use super::{GenerateError, Parameters};
use crate::{BATCH_REQUESTS, Faults, Knows, Names, Op, Request, Source, TraceError};
use forebay_block::Random;

/// Largest volume in bytes: each block takes 12 bytes of memory.
const SIZE_MAX_BYTES: u64 = 64 << 30;
/// One block in this many is hot, if hot blocks change (SepBIT's `synthetic.r`).
const HOT_OF: usize = 5;
const NS_PER_S: f64 = 1e9;

/// Options of a [`Zipf`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZipfOptions {
    /// Skew: the block of rank r is accessed in proportion to r^-alpha.
    pub alpha: f64,
    /// Size of the volume in bytes.
    pub size_bytes: u64,
    /// Number of accesses besides the fill, as a multiple of the volume's blocks.
    pub writes: f64,
    /// Share of reads among them, at random.
    pub reads: f64,
    /// Whether all blocks are written in sequence first.
    pub fill: bool,
    /// Number of accesses after which the hottest fifth is exchanged, as a multiple of the volume's blocks; 0 for never.
    pub shift: f64,
    /// Accesses per second, at random times.
    pub rate: f64,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for ZipfOptions {
    fn default() -> Self {
        Self {
            alpha: 1.0,
            size_bytes: 512 << 20,
            writes: 10.0,
            reads: 0.0,
            fill: false,
            shift: 0.0,
            rate: 10_000.0,
            seed: 1,
        }
    }
}

impl ZipfOptions {
    pub(super) const KEYS: &[&str] = &["alpha", "size", "writes", "reads", "fill", "shift", "rate", "seed"];

    pub(super) fn parse(text: &str) -> Result<Self, GenerateError> {
        let parameters = Parameters::parse("zipf", Self::KEYS, text)?;
        let default = Self::default();
        Ok(Self {
            alpha: parameters.number("alpha", default.alpha, 0.0, 3.0)?,
            size_bytes: parameters.size_bytes(
                "size",
                default.size_bytes,
                (BLOCK_BYTES, SIZE_MAX_BYTES),
                BLOCK_BYTES,
            )?,
            writes: parameters.number("writes", default.writes, 0.0, 1e6)?,
            reads: parameters.number("reads", default.reads, 0.0, 1.0)?,
            fill: parameters.count("fill", default.fill.into(), 0, 1)? == 1,
            shift: parameters.number("shift", default.shift, 0.0, 1e6)?,
            rate: parameters.number("rate", default.rate, 0.001, 1e9)?,
            seed: parameters.count("seed", default.seed, 0, u64::MAX)?,
        })
    }
}

/// The requests; see the module.
pub struct Zipf {
    options: ZipfOptions,
    random: Random,
    /// Cumulative weights of the ranks.
    sums: Vec<f64>,
    /// Blocks by rank.
    blocks: Vec<u32>,
    /// Blocks of the fill that are still to be written.
    fill_left: u64,
    written: u64,
    writes: u64,
    now_ns: u64,
    faults: Faults,
}

impl Zipf {
    /// A stream from its beginning. A size that the text form does not allow is replaced by the nearest allowed one.
    #[must_use]
    pub fn new(options: ZipfOptions) -> Self {
        let blocks = options.size_bytes.clamp(BLOCK_BYTES, SIZE_MAX_BYTES) / BLOCK_BYTES;
        let mut random = Random::new(options.seed);
        let mut sum = 0.0;
        let weights = (1..=blocks).map(|rank| (rank as f64).powf(-options.alpha));
        let sums = weights.map(|weight| {
            sum += weight;
            sum
        });
        let sums = sums.collect();
        let mut by_rank: Vec<u32> = (0..blocks as u32).collect();
        shuffle(&mut by_rank, &mut random);
        Self {
            random,
            sums,
            blocks: by_rank,
            fill_left: if options.fill { blocks } else { 0 },
            written: 0,
            writes: (options.writes * blocks as f64) as u64,
            now_ns: 0,
            faults: Faults::default(),
            options,
        }
    }

    /// Size of the volume in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_BYTES
    }

    fn next_block(&mut self) -> u64 {
        let blocks = self.blocks.len();
        if self.fill_left > 0 {
            self.fill_left -= 1;
            return blocks as u64 - 1 - self.fill_left;
        }
        let shift = (self.options.shift * blocks as f64) as u64;
        if shift > 0 && self.written > 0 && self.written.is_multiple_of(shift) {
            shuffle(&mut self.blocks[..blocks.div_ceil(HOT_OF)], &mut self.random);
        }
        self.written += 1;
        let at = fraction(&mut self.random) * self.sums[blocks - 1];
        let rank = self.sums.partition_point(|&sum| sum <= at).min(blocks - 1);
        u64::from(self.blocks[rank])
    }
}

/// The shuffle of Fisher and Yates.
fn shuffle(blocks: &mut [u32], random: &mut Random) {
    for last in (1..blocks.len()).rev() {
        blocks.swap(last, random.index(last + 1));
    }
}

impl Source for Zipf {
    fn read(&mut self, into: &mut Vec<Request>, _names: &mut Names) -> Result<bool, TraceError> {
        let end = into.len() + BATCH_REQUESTS;
        while into.len() < end && (self.fill_left > 0 || self.written < self.writes) {
            // Streams without reads, and the fill, draw no random number, so that they are the same as before reads were added.
            let is_read =
                self.fill_left == 0 && self.options.reads > 0.0 && fraction(&mut self.random) < self.options.reads;
            let block = self.next_block();
            let op = if is_read { Op::Read } else { Op::Write };
            into.push(Request::new(self.now_ns, op, block * BLOCK_BYTES, BLOCK_BYTES));
            let gap_ns = poisson_gap_ns(&mut self.random, NS_PER_S / self.options.rate.max(0.001));
            self.now_ns = self.now_ns.saturating_add(gap_ns);
        }
        Ok(self.fill_left > 0 || self.written < self.writes)
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: true, ..Knows::default() }
    }
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn blocks(options: ZipfOptions) -> Vec<u64> {
        let mut zipf = Zipf::new(options);
        let (mut requests, mut names) = (Vec::new(), Names::default());
        while zipf.read(&mut requests, &mut names).unwrap() {}
        requests.iter().map(|request| request.offset_bytes / BLOCK_BYTES).collect()
    }

    fn by_count(blocks: &[u64]) -> Vec<(usize, u64)> {
        let mut counts = std::collections::BTreeMap::new();
        for &block in blocks {
            *counts.entry(block).or_insert(0) += 1;
        }
        let mut counts: Vec<(usize, u64)> = counts.into_iter().map(|(block, count)| (count, block)).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn ranks_are_written_in_proportion_to_their_weights() {
        let options = ZipfOptions { size_bytes: 1000 * BLOCK_BYTES, writes: 1000.0, ..ZipfOptions::default() };
        let counts = by_count(&blocks(options));
        // The harmonic number of 1000 is 7.4855.
        for rank in [1, 2, 10] {
            let wanted = 1e6 / 7.4855 / rank as f64;
            let found = counts[rank - 1].0 as f64;
            assert!((found / wanted - 1.0).abs() < 0.05, "rank {rank}: {found}, {wanted} wanted");
        }
        let even = by_count(&blocks(ZipfOptions { alpha: 0.0, ..options }));
        assert!(even[0].0 < 1200 && even[999].0 > 800, "alpha 0 has no ranks");
    }

    #[test]
    fn reads_have_their_part_and_the_fill_has_none() {
        let options = ZipfOptions {
            size_bytes: 1000 * BLOCK_BYTES,
            reads: 0.7,
            fill: true,
            writes: 50.0,
            ..ZipfOptions::default()
        };
        let of = |options| {
            let (mut requests, mut names) = (Vec::new(), Names::default());
            let mut zipf = Zipf::new(options);
            while zipf.read(&mut requests, &mut names).unwrap() {}
            requests
        };
        let is_read = |request: &&Request| request.op == Op::Read;
        let found = of(options);
        assert_eq!(found[..1000].iter().filter(is_read).count(), 0);
        let reads = found[1000..].iter().filter(is_read).count() as f64 / 50_000.0;
        assert!((reads - 0.7).abs() < 0.01, "{reads}");
        assert!(of(ZipfOptions { reads: 1.0, fill: false, ..options }).iter().all(|request| is_read(&request)));
        assert!(!of(ZipfOptions { reads: 0.0, ..options }).iter().any(|request| is_read(&request)));
    }

    #[test]
    fn fills_first_and_shifts_what_is_hot() {
        let options = ZipfOptions {
            alpha: 1.2,
            size_bytes: 500 * BLOCK_BYTES,
            writes: 200.0,
            fill: true,
            shift: 100.0,
            ..ZipfOptions::default()
        };
        let found = blocks(options);
        assert_eq!(found.len(), 500 + 100_000);
        assert!(found[..500].iter().copied().eq(0..500));
        let (before, after) = found[500..].split_at(50_000);
        assert_ne!(by_count(before)[0].1, by_count(after)[0].1);
        let still = blocks(ZipfOptions { shift: 0.0, ..options });
        let (before, after) = still[500..].split_at(50_000);
        assert_eq!(by_count(before)[0].1, by_count(after)[0].1);
    }
}
