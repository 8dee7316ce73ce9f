//! Stamps: the content of a sector that identifies the write it came from.
//!
//! A sector is filled with its tag, four bytes repeated, after a number of words that are derived from the tag: this
//! number, which determines how far the sector can be compressed, changes every few tags. No tag is used twice on a
//! disk, neither for two sectors of one write nor after a restart: a sector that is torn, shifted, misplaced, mixed
//! or old has a content that the history of its place does not permit.

use forebay_block::BLOCK_BYTES;

/// The smallest write, in bytes.
pub const SECTOR_BYTES: usize = 512;
/// Sectors of a block, the unit of atomicity.
pub const BLOCK_SECTORS: usize = BLOCK_BYTES / SECTOR_BYTES;

/// The tags of a block's sectors; 0 stands for zeros.
pub type Content = [u32; BLOCK_SECTORS];

/// How many words of a sector with this tag cannot be compressed, 0 to 120: for some writes none, for others nearly
/// all.
#[must_use]
pub fn noise_words(tag: u32) -> usize {
    let some = match (tag >> 6) % 4 {
        0 => 0,
        1 => tag % 40,
        2 => 60 + tag % 20,
        _ => 120,
    };
    if tag == 0 { 0 } else { some as usize }
}

/// A word derived from a tag and its position: the finalizer of MurmurHash3 (<https://github.com/aappleby/smhasher>).
fn noise(tag: u32, at: u32) -> u32 {
    let mut word = tag.wrapping_mul(0x9e37_79b1) ^ at.wrapping_mul(0x85eb_ca77);
    word = (word ^ word >> 16).wrapping_mul(0x85eb_ca6b);
    word = (word ^ word >> 13).wrapping_mul(0xc2b2_ae35);
    word ^ word >> 16
}

/// Fills a sector with a tag.
pub fn fill(tag: u32, sector: &mut [u8]) {
    let words = sector.as_chunks_mut::<4>().0;
    words.fill(tag.to_le_bytes());
    let noisy = (0u32..).zip(words).take(noise_words(tag));
    noisy.for_each(|(at, word)| *word = noise(tag, at).to_le_bytes());
}

/// Fills the sectors of a request with their tags.
pub fn fill_all(tags: &[u32], bytes: &mut [u8]) {
    bytes.chunks_exact_mut(SECTOR_BYTES).zip(tags).for_each(|(sector, &tag)| fill(tag, sector));
}

/// The tag of a sector; `None` if it is not filled with a single tag.
#[must_use]
pub fn tag_of(sector: &[u8]) -> Option<u32> {
    let words = sector.as_chunks::<4>().0;
    let tag = u32::from_le_bytes(*words.last()?);
    let (noisy, rest) = words.split_at_checked(noise_words(tag))?;
    // Without an early end: nearly all sectors are valid, and comparing many words at once is faster.
    let difference = rest.iter().fold(0, |difference, word| difference | (u32::from_le_bytes(*word) ^ tag));
    let of_noise = (0u32..).zip(noisy).fold(0, |all, (at, word)| all | (u32::from_le_bytes(*word) ^ noise(tag, at)));
    (difference | of_noise == 0).then_some(tag)
}

/// The tags of a block; `None` if one of its sectors is not filled with a single tag, or if the length is not that of
/// a block.
#[must_use]
pub fn content_of(block: &[u8]) -> Option<Content> {
    let mut content = [0; BLOCK_SECTORS];
    for (sector, tag) in block.chunks_exact(SECTOR_BYTES).zip(&mut content) {
        *tag = tag_of(sector)?;
    }
    (block.len() == BLOCK_BYTES).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_tells_its_tags_until_a_byte_is_wrong() {
        let mut block = vec![0; BLOCK_BYTES];
        assert_eq!(content_of(&block), Some([0; 8]));
        fill_all(&[1, 2, 3, 4, 5, 6, 7, 8], &mut block);
        assert_eq!(content_of(&block), Some([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!(content_of(&block[..2048]), None, "half a block");
        let mut shifted = block.clone();
        shifted.rotate_left(4);
        assert_eq!(content_of(&shifted), None);
        block[4095] ^= 1;
        assert_eq!(content_of(&block), None);
    }

    #[test]
    fn sectors_of_each_kind_tell_their_tag_until_any_bit_is_wrong() {
        for tag in [1, 64, 65, 103, 128, 200, 255, 1 << 31, u32::MAX] {
            let mut sector = [0; SECTOR_BYTES];
            fill(tag, &mut sector);
            assert_eq!(tag_of(&sector), Some(tag));
            for bit in 0..8 * SECTOR_BYTES {
                sector[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(tag_of(&sector), Some(tag), "bit {bit} of {tag}");
                sector[bit / 8] ^= 1 << (bit % 8);
            }
        }
        let noisy = [1, 65, 130, 200].map(noise_words);
        assert!(
            noisy[0] == 0 && (1..40).contains(&noisy[1]) && (60..80).contains(&noisy[2]) && noisy[3] == 120,
            "{noisy:?}"
        );
    }
}
