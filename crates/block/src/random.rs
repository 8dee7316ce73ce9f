//! A random generator with a name and a version, so that a seed gives the same sequence for ever.
//!
//! xoshiro256++ 1.0 (Blackman and Vigna, <https://prng.di.unimi.it/xoshiro256plusplus.c>, public domain), its state
//! filled from the seed by SplitMix64 (<https://prng.di.unimi.it/splitmix64.c>), as its authors advise.

use crate::hash::splitmix64;

/// Name and version of the sequence. It changes whenever a method here would return another value for a seed.
pub const GENERATOR: &str = "xoshiro256++/splitmix64 v1";

/// Deterministic random numbers; not for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator whose whole sequence follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let state = std::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            splitmix64(x)
        });
        Self { state }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let c = c ^ a;
        let d = d ^ b;
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        // The published order of updates: s1 ^= s2 and s0 ^= s3 use the values already mixed above.
        result
    }

    /// A number below `bound`; 0 where the bound is 0. The bias of the multiplication is below 2^-32 for bounds
    /// below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into `len` items; 0 where there are none.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True with probability `numerator / denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_sequence() {
        // Test vector of rand_xoshiro for the reference implementation, with the state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        let expected = [
            41_943_041,
            58_720_359,
            3_588_806_011_781_223,
            3_591_011_842_654_386,
            9_228_616_714_210_784_205,
            9_973_669_472_204_895_162,
            14_011_001_112_246_962_877,
            12_406_186_145_184_390_807,
        ];
        for value in expected {
            assert_eq!(random.next_u64(), value);
        }
        // The first output of SplitMix64 for seed 0.
        assert_eq!(Random::new(0).state[0], 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn stays_below_its_bound_and_reaches_all_of_it() {
        let mut random = Random::new(7);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.index(5)] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(random.below(0), 0);
    }
}
