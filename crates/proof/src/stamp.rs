//! Stamps: what is written into a sector, so that it names the write it came from.
//!
//! A sector is filled with its tag, four bytes again and again. No tag is given twice on a disk, neither to two sectors of
//! one write nor after a restart: a sector that is torn, shifted, misplaced, mixed or old holds what the history of its
//! place does not have there.

use forebay_block::BLOCK_BYTES;

/// The smallest write, in bytes.
pub const SECTOR_BYTES: usize = 512;
/// Sectors of a block, the unit of atomicity.
pub const BLOCK_SECTORS: usize = BLOCK_BYTES / SECTOR_BYTES;

/// The tags of a block's sectors; 0 is zeros.
pub type Content = [u32; BLOCK_SECTORS];

/// Fills a sector with a tag.
pub fn fill(tag: u32, sector: &mut [u8]) {
    sector.as_chunks_mut::<4>().0.fill(tag.to_le_bytes());
}

/// Fills the sectors of a request with their tags.
pub fn fill_all(tags: &[u32], bytes: &mut [u8]) {
    bytes.chunks_exact_mut(SECTOR_BYTES).zip(tags).for_each(|(sector, &tag)| fill(tag, sector));
}

/// The tag of a sector; `None` where it is not filled with one.
#[must_use]
pub fn tag_of(sector: &[u8]) -> Option<u32> {
    let words = sector.as_chunks::<4>().0;
    let tag = u32::from_le_bytes(*words.first()?);
    // Without an early end: nearly all sectors are whole, and the comparison of many words at once is what counts.
    let difference = words.iter().fold(0, |difference, word| difference | (u32::from_le_bytes(*word) ^ tag));
    (difference == 0).then_some(tag)
}

/// The tags of a block; `None` where a sector of it is not filled with one, or where this is no block.
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
}
