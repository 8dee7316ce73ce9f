//! What all generators use: units, chance, and whole blocks of fractions.

use forebay_block::Random;

/// A block of the file system, in bytes: everything here is in multiples of it.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// Largest request for data, in bytes: larger transfers are cut, as the NVMe drives of the published runs
/// (128 KiB maximum data transfer size) make the kernel do.
pub(super) const REQUEST_BYTES: u64 = 128 << 10;

pub(super) const GB: f64 = 1e9;

/// A number from 0 to below 1, in steps of 2^-53, as Java's `Random.nextDouble` has it.
pub(super) fn fraction(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Somewhere from half to one and a half times `gap_ns`, its mean, and at least 1 ns.
pub(super) fn jittered_ns(random: &mut Random, gap_ns: f64) -> u64 {
    ((gap_ns * (0.5 + fraction(random))) as u64).max(1)
}

/// The gap to the next of events that come at random, so many ns apart on average (a Poisson process).
pub(super) fn poisson_gap_ns(random: &mut Random, mean_ns: f64) -> u64 {
    // 1 - fraction is above 0, so that its logarithm is finite.
    (-(1.0 - fraction(random)).ln() * mean_ns) as u64
}

/// Hands out whole blocks of a stream of fractions of blocks, and loses none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carry {
    rest: f64,
}

impl Carry {
    /// Whole blocks of `blocks` and of what was left before.
    pub fn take(&mut self, blocks: f64) -> u64 {
        self.rest += blocks;
        let whole = self.rest.floor().max(0.0);
        self.rest -= whole;
        whole as u64
    }
}
