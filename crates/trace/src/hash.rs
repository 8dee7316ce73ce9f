//! Hashes keys from outside, for tables that are used for every request: fast, and seeded so that nobody can choose keys that collide.

use std::hash::{BuildHasher, Hasher, RandomState};

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes hashers with one seed.
#[derive(Clone)]
pub(crate) struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u64))
    }
}

impl BuildHasher for Seed {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding { state: self.0, seed: self.0 | 1 }
    }
}

/// Multiplies 64 bits to 128 and folds the halves, as wyhash and foldhash do.
pub(crate) struct Folding {
    state: u64,
    seed: u64,
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.state = fold(self.state ^ word, MULTIPLIER ^ self.seed);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn finish(&self) -> u64 {
        fold(self.state, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn neighbours_do_not_collide() {
        let seed = Seed::default();
        let hashes: HashSet<u64> = (0..100_000_u64).map(|key| seed.hash_one((key, 8_u32))).collect();
        assert!(hashes.len() > 99_990, "{}", hashes.len());
        // The lowest bits choose the entry.
        let low: HashSet<u64> = (0..4096_u64).map(|key| seed.hash_one(key * 512) & 0xfff).collect();
        assert!(low.len() > 2000, "{}", low.len());
        assert_ne!(seed.hash_one(1_u64), Seed::default().hash_one(1_u64));
    }
}
