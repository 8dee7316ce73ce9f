//! Common parts of all generators: units, random numbers, and whole blocks from fractions.

use forebay_block::Random;

/// Size of a file-system block in bytes; all sizes here are multiples of it.
pub(super) const BLOCK_BYTES: u64 = forebay_block::BLOCK_BYTES_U64;

/// Largest data request in bytes. Larger transfers are split, as by the kernel for the NVMe drives of the published runs (128 KiB maximum
/// data transfer size).
pub(super) const REQUEST_BYTES: u64 = 128 << 10;

pub(super) const GB: f64 = 1e9;

/// A random number from 0 to below 1 in steps of 2^-53, like Java's `Random.nextDouble`.
pub(super) fn fraction(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A random time between half and one and a half times the mean `gap_ns`, at least 1 ns.
pub(super) fn jittered_ns(random: &mut Random, gap_ns: f64) -> u64 {
    ((gap_ns * (0.5 + fraction(random))) as u64).max(1)
}

/// The random gap to the next event of a Poisson process with this mean gap.
pub(super) fn poisson_gap_ns(random: &mut Random, mean_ns: f64) -> u64 {
    // 1 - fraction is above 0, so its logarithm is finite.
    (-(1.0 - fraction(random)).ln() * mean_ns) as u64
}

/// Converts a stream of fractional blocks to whole blocks without loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carry {
    rest: f64,
}

impl Carry {
    /// The whole blocks of `blocks` plus the earlier remainder.
    pub fn take(&mut self, blocks: f64) -> u64 {
        self.rest += blocks;
        let whole = self.rest.floor().max(0.0);
        self.rest -= whole;
        whole as u64
    }
}
