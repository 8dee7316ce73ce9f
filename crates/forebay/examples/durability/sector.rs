//! What is written into a sector: where it belongs, which version it is, and bytes that follow from both, so that a
//! torn, mixed, misplaced or old sector is told apart from the right one.

use crate::random::mix;

/// The smallest write, in bytes.
pub const SECTOR_BYTES: usize = 512;
/// Sectors of a block, the unit of atomicity.
pub const BLOCK_SECTORS: usize = 8;
/// Block size in bytes.
pub const BLOCK_BYTES: usize = SECTOR_BYTES * BLOCK_SECTORS;

/// A sector that holds nothing that was ever written there.
pub const WRONG: u32 = u32::MAX;
/// A sector of zeros.
pub const ZERO: u32 = 0;

const MAGIC: u64 = 0x6b63_6568_6365_6279;

fn word(seed: u64, sector: u64, version: u32, index: usize) -> u64 {
    match index {
        0 => MAGIC ^ seed,
        1 => sector,
        2 => u64::from(version),
        _ => mix(seed ^ sector << 20 ^ u64::from(version) << 6 ^ index as u64),
    }
}

/// Fills the sector of this number on the disk.
pub fn fill(bytes: &mut [u8], seed: u64, sector: u64, version: u32) {
    for (index, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&word(seed, sector, version, index).to_le_bytes());
    }
}

/// The version that a sector holds, [`ZERO`] or [`WRONG`].
pub fn look(bytes: &[u8], seed: u64, sector: u64) -> u32 {
    if bytes.len() != SECTOR_BYTES {
        return WRONG;
    }
    if bytes.iter().all(|&byte| byte == 0) {
        return ZERO;
    }
    let mut version = WRONG;
    for (index, chunk) in bytes.chunks_exact(8).enumerate() {
        let value = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        if index == 2 {
            version = u32::try_from(value).unwrap_or(WRONG);
        }
        if value != word(seed, sector, version, index) {
            return WRONG;
        }
    }
    version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_right_from_wrong() {
        let mut bytes = vec![0; SECTOR_BYTES];
        assert_eq!(look(&bytes, 1, 7), ZERO);
        fill(&mut bytes, 1, 7, 3);
        assert_eq!(look(&bytes, 1, 7), 3);
        assert_eq!(look(&bytes, 1, 8), WRONG, "misplaced");
        assert_eq!(look(&bytes, 2, 7), WRONG, "of another run");
        bytes[500] ^= 1;
        assert_eq!(look(&bytes, 1, 7), WRONG, "flipped");
        assert_eq!(look(&bytes[..256], 1, 7), WRONG, "short");
    }
}
