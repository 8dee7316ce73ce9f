//! What the demo writes into a block: where it belongs, which version it is, and bytes that follow from both, so that
//! a torn, mixed, misplaced or old block is told apart from the right one.

use forebay_block::BLOCK_BYTES;

const MAGIC: u64 = 0x666f_7265_6261_7964;
const WORDS: usize = BLOCK_BYTES / 8;

fn word(seed: u64, index: u64) -> u64 {
    // SplitMix64's finaliser (<https://prng.di.unimi.it/splitmix64.c>, public domain).
    let mut z = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

fn expected(block: u64, version: u64, index: usize) -> u64 {
    match index {
        0 => MAGIC,
        1 => block,
        2 => version,
        _ => word(block << 32 ^ version, index as u64),
    }
}

/// Fills a block.
pub fn fill(bytes: &mut [u8], block: u64, version: u32) {
    for (index, chunk) in bytes.chunks_exact_mut(8).take(WORDS).enumerate() {
        chunk.copy_from_slice(&expected(block, u64::from(version), index).to_le_bytes());
    }
}

/// What a block turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Zeros.
    Zero,
    /// A whole version of this block.
    Version(u32),
    /// Anything else.
    Wrong,
}

/// Looks at a block.
pub fn look(bytes: &[u8], block: u64) -> Content {
    if bytes.len() == BLOCK_BYTES && bytes.iter().all(|&byte| byte == 0) {
        return Content::Zero;
    }
    let mut version = 0;
    for (index, chunk) in bytes.chunks_exact(8).enumerate() {
        let value = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        if index == 2 {
            version = value;
        }
        if value != expected(block, version, index) {
            return Content::Wrong;
        }
    }
    match u32::try_from(version) {
        Ok(version) if bytes.len() == BLOCK_BYTES => Content::Version(version),
        _ => Content::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_right_from_wrong() {
        let mut bytes = vec![0; BLOCK_BYTES];
        assert_eq!(look(&bytes, 7), Content::Zero);
        fill(&mut bytes, 7, 3);
        assert_eq!(look(&bytes, 7), Content::Version(3));
        assert_eq!(look(&bytes, 8), Content::Wrong, "misplaced");
        let mut newer = vec![0; BLOCK_BYTES];
        fill(&mut newer, 7, 4);
        bytes[2048..].copy_from_slice(&newer[2048..]);
        assert_eq!(look(&bytes, 7), Content::Wrong, "torn");
    }
}
