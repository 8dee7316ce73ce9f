//! The key of a block in a read cache.

/// Bits of a block's number.
const BLOCK_BITS: u32 = 48;

/// A block of a disk in 64 bits: the disk in the upper 16 bits, the number of the block in the lower 48.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

impl Key {
    /// The key of a block of a disk; `None` if the block's number has more than 48 bits.
    #[must_use]
    pub fn new(disk: u16, block: u64) -> Option<Self> {
        (block >> BLOCK_BITS == 0).then_some(Self(u64::from(disk) << BLOCK_BITS | block))
    }

    /// The key with these bits: every value is a valid key.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The key's 64 bits.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The number of the disk.
    #[must_use]
    pub fn disk(self) -> u16 {
        (self.0 >> BLOCK_BITS) as u16
    }

    /// The number of the block on the disk.
    #[must_use]
    pub fn block(self) -> u64 {
        self.0 & ((1 << BLOCK_BITS) - 1)
    }

    /// Its bits spread evenly (the finalizer of SplitMix64, Steele and others, 2014). With one seed a key always has
    /// the same hash, so that the same accesses always end in the same cache; only somebody who knows the seed can
    /// choose addresses that are slow to find.
    pub(super) fn hash(self, seed: u64) -> u64 {
        let mut bits = (self.0 ^ seed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9 ^ seed << 1);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_disk_and_its_block() {
        let key = Key::new(7, (1 << BLOCK_BITS) - 1).unwrap();
        assert_eq!((key.disk(), key.block()), (7, (1 << BLOCK_BITS) - 1));
        assert_eq!(Key::from_bits(key.bits()), key);
        assert_eq!(Key::new(0, 1 << BLOCK_BITS), None);
    }
}
