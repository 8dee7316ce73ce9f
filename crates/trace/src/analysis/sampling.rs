//! Which blocks are followed: all of them, until they are too many, and then a share that is the same whatever the access
//! (SHARDS, Waldspurger et al., FAST'15: a block is followed while the hash of its address lies below a threshold).

/// The sample: blocks whose hash is below the threshold.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    threshold: u64,
    halvings: u32,
}

/// A hash of 64 bits (the finaliser of SplitMix64, Steele et al. 2014).
pub fn hash(key: u64) -> u64 {
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

impl Default for Sample {
    fn default() -> Self {
        Self { threshold: u64::MAX, halvings: 0 }
    }
}

impl Sample {
    /// One block in 2^`halvings`.
    pub fn one_in_power(halvings: u32) -> Self {
        // 63: two keys are left, fewer than any table holds, so that halving always ends, however the addresses were chosen.
        let halvings = halvings.min(63);
        Self { threshold: u64::MAX >> halvings, halvings }
    }

    /// Whether a block is followed, by its hash.
    pub fn has(&self, hash: u64) -> bool {
        hash <= self.threshold
    }

    /// Follows half as many from now on.
    pub fn halve(&mut self) {
        *self = Self::one_in_power(self.halvings + 1);
    }

    /// Blocks that each one followed stands for.
    pub fn weight(&self) -> u64 {
        1 << self.halvings
    }
}

/// Taken off a block's address before it is hashed: 0 is the hash of 0, and block 0 is not to be followed always.
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Key of a block of a volume; blocks are below 2^44, volumes below 2^20.
pub fn key(volume: u32, block: u64) -> u64 {
    hash((u64::from(volume) << 44 | block) ^ SALT)
}

impl Sample {
    /// Keys of the blocks of a range that are followed. A range may be of terabytes: then those of the table are fewer.
    pub fn keys(&self, volume: u32, first: u64, count: u64, table: impl ExactSizeIterator<Item = u64>) -> Vec<u64> {
        if count > table.len() as u64 * 4 {
            // With its end in it: that of the last volume is the end of all numbers.
            let begin = (u64::from(volume) << 44) + first;
            let range = begin..=begin + (count - 1);
            table.filter(|&key| range.contains(&address(key))).collect()
        } else {
            (first..first + count).map(|block| key(volume, block)).filter(|&key| self.has(key)).collect()
        }
    }
}

/// The volume and block of a key, together.
pub fn address(key: u64) -> u64 {
    unhash(key) ^ SALT
}

/// The key of a hash.
fn unhash(hash: u64) -> u64 {
    // Each step of `hash` undone, the last first; the factors are the inverses modulo 2^64.
    let key = hash ^ (hash >> 31) ^ (hash >> 62);
    let key = key.wrapping_mul(0x3196_42b2_d24d_8ec3);
    let key = key ^ (key >> 27) ^ (key >> 54);
    let key = key.wrapping_mul(0x96de_1b17_3f11_9089);
    key ^ (key >> 30) ^ (key >> 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hash_can_be_undone(key: u64) {
            prop_assert_eq!(unhash(hash(key)), key);
        }
    }

    #[test]
    fn regression_the_last_volume_ends_where_numbers_do() {
        let (volume, end) = ((1 << 20) - 1, 1_u64 << 44);
        let table = [key(volume, end - 1), key(volume, end - 9)];
        let keys = Sample::default().keys(volume, end - 9, 9, table.into_iter());
        assert_eq!(keys, table);
        assert_eq!(Sample::default().keys(volume, end - 8, 8, table[..1].iter().copied()), table[..1]);
    }

    #[test]
    fn a_sample_is_as_large_as_it_says() {
        for halvings in [1, 4, 8] {
            let sample = Sample::one_in_power(halvings);
            let followed = (0..1_u64 << 20).filter(|key| sample.has(hash(*key ^ 0x9e37_79b9_7f4a_7c15))).count() as f64;
            let expected = f64::from(1 << 20 >> halvings);
            assert!((followed - expected).abs() < 5.0 * expected.sqrt(), "{followed} of {expected}");
        }
    }
}
