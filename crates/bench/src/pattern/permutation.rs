//! A fixed permutation of the numbers below n, computed without a table.
//!
//! A Feistel network (Luby and Rackoff 1988) whose low half is a power of two and whose high half is just large enough. A result outside
//! the range is permuted again until it is inside (cycle walking; Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002),
//! which rarely takes more than one step. Not suitable for secrets: its rounds are cheap.

use forebay_block::Random;

/// Pairs of rounds. Four rounds of a good function already look random; these are simple, so there are more.
const ROUND_PAIRS: usize = 3;

/// A permutation of 0..n, n up to 2^63.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    size: u64,
    keys: [[u64; 2]; ROUND_PAIRS],
    low_bits: u32,
    low_mask: u64,
    /// Number of values of the high half, below 2^32.
    highs: u64,
}

impl Permutation {
    /// One of the permutations of 0..`size`, chosen by `random`; `size` of 0 counts as 1.
    pub(super) fn new(size: u64, random: &mut Random) -> Self {
        let size = size.clamp(1, 1 << 63);
        let bits = u64::BITS - (size - 1).leading_zeros();
        let low_bits = bits.div_ceil(2);
        let low_mask = (1_u64 << low_bits) - 1;
        let keys = std::array::from_fn(|_| [random.next_u64(), random.next_u64()]);
        Self { size, keys, low_bits, low_mask, highs: ((size - 1) >> low_bits) + 1 }
    }

    /// Another permutation of the same numbers.
    pub(super) fn renew(&mut self, random: &mut Random) {
        *self = Self::new(self.size, random);
    }

    /// The image of `index`, which must be below the size.
    pub(super) fn apply(&self, index: u64) -> u64 {
        debug_assert!(index < self.size);
        // The domain is larger than the size by less than one low half. The cycle through `index` returns to it at the latest, so the loop
        // always ends.
        let mut x = self.network(index);
        while x >= self.size {
            x = self.network(x);
        }
        x
    }

    fn network(&self, x: u64) -> u64 {
        let mut low = x & self.low_mask;
        let mut high = x >> self.low_bits;
        for [to_low, to_high] in self.keys {
            low ^= round(high, to_low) & self.low_mask;
            // Addition modulo the number of high values, by multiplication and conditional subtraction.
            high += (round(low, to_high) * self.highs) >> 32;
            high = if high >= self.highs { high - self.highs } else { high };
        }
        (high << self.low_bits) | low
    }
}

#[inline]
fn round(half: u64, key: u64) -> u64 {
    // The odd constant is 2^64 divided by the golden ratio. A half has at most 32 bits, and the bits from 32 on of the product depend on
    // all of them.
    (half ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_each_number_once() {
        for size in [1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100, 1000, 1025, 65_537] {
            for seed in 0..4 {
                let permutation = Permutation::new(size, &mut Random::new(seed));
                let mut seen = vec![false; size as usize];
                for index in 0..size {
                    let to = permutation.apply(index) as usize;
                    assert!(!std::mem::replace(&mut seen[to], true), "{size}: {to} twice");
                }
            }
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        let size = 1_000_000;
        let permutation = Permutation::new(size, &mut Random::new(9));
        // The mean distance of two independent uniform numbers is a third of the range; its standard deviation over
        // 10,000 pairs is 0.24 % of the range.
        let sum: u64 = (0..10_000).map(|i| permutation.apply(i).abs_diff(permutation.apply(i + 1))).sum();
        let mean = sum as f64 / 10_000.0 / size as f64;
        assert!((mean - 1.0 / 3.0).abs() < 0.015, "{mean}");
        // Chi-square of 100 bins with 100 each: 99 degrees, standard deviation 14.1.
        let mut bins = [0_i64; 100];
        for i in 0..10_000 {
            bins[(permutation.apply(i) * 100 / size) as usize] += 1;
        }
        let chi: f64 = bins.iter().map(|&n| ((n - 100) * (n - 100)) as f64 / 100.0).sum();
        assert!(chi < 99.0 + 4.0 * 14.1, "{chi}");
    }

    #[test]
    fn large_domains_stay_inside() {
        for size in [(1_u64 << 40) + 1, 1 << 62, 1 << 63] {
            let permutation = Permutation::new(size, &mut Random::new(1));
            for i in (0..1000).map(|i| i * (size / 1000)) {
                assert!(permutation.apply(i) < size);
            }
        }
    }
}
