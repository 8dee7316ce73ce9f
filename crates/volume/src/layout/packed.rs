//! How a compressed block is stored: a header of four bytes, what the compressor made, and zeros to the end of the sector, at least three sectors.
//!
//! ```text
//! 0     1      2         4
//! +-----+------+---------+----------- ... ---+-------+
//! |how  |0     |length   |payload            |zeros  |
//! +-----+------+---------+----------- ... ---+-------+
//!   1     1      2         length
//! ```
//!
//! *how*: 1 an LZ4 block (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>), 2 a Zstandard frame (RFC 8878).
//! The block checksum is over all of it.

use super::page::BLOCK_SECTORS;
use forebay_block::SECTOR_BYTES;
use forebay_prism::Compress;
use std::fmt;
use zstd::bulk;

const BLOCK: usize = 4096;
const HEADER_BYTES: usize = 4;
/// Most bytes that a compressed block is stored in: one that would take all its sectors is stored as it is.
const STORED_MAX_BYTES: usize = (BLOCK_SECTORS as usize - 1) * SECTOR_BYTES;
/// Fewest: the summary of a group has no room for the names of more blocks than these.
const STORED_MIN_BYTES: usize = STORED_MIN_SECTORS * SECTOR_BYTES;
/// Fewest sectors of a compressed block.
pub const STORED_MIN_SECTORS: usize = 3;
/// A tier of compressed blocks holds less than so many times as much.
pub const PACKED_TIMES_MAX: u64 = BLOCK_SECTORS.div_ceil(STORED_MIN_SECTORS as u64);
const HOW_LZ4: u8 = 1;
const HOW_ZSTD: u8 = 2;

/// Makes and undoes the stored form. The contexts of Zstandard are large, so they are kept.
#[derive(Default)]
pub struct Packer {
    /// With the level it was made for.
    compressor: Option<(u8, bulk::Compressor<'static>)>,
    decompressor: Option<bulk::Decompressor<'static>>,
    stored: Vec<u8>,
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Packer {
    /// The stored form of a block of 4096 bytes, in whole sectors; `None` where it would save none.
    pub fn pack(&mut self, compress: Compress, block: &[u8]) -> Option<&[u8]> {
        self.stored.clear();
        // LZ4 refuses to begin where its worst case has no room.
        self.stored.resize(HEADER_BYTES + lz4_flex::block::get_maximum_output_size(BLOCK), 0);
        let payload = self.stored.get_mut(HEADER_BYTES..)?;
        let (how, length) = match compress {
            Compress::Off => return None,
            Compress::Lz4 => (HOW_LZ4, lz4_flex::block::compress_into(block, payload).ok()?),
            Compress::Zstd(level) => {
                if self.compressor.as_ref().is_none_or(|(other, _)| *other != level) {
                    self.compressor = Some((level, bulk::Compressor::new(i32::from(level)).ok()?));
                }
                let (_, compressor) = self.compressor.as_mut()?;
                (HOW_ZSTD, compressor.compress_to_buffer(block, payload).ok()?)
            }
        };
        let stored_bytes = (HEADER_BYTES + length).next_multiple_of(SECTOR_BYTES).max(STORED_MIN_BYTES);
        if stored_bytes > STORED_MAX_BYTES {
            return None;
        }
        self.stored.truncate(HEADER_BYTES + length);
        // What the compressor left behind its end must not lie on a device.
        self.stored.resize(stored_bytes, 0);
        let [low, high] = (length as u16).to_le_bytes();
        self.stored[..HEADER_BYTES].copy_from_slice(&[how, 0, low, high]);
        Some(&self.stored)
    }

    /// Fills `block`, 4096 bytes, from its stored form; false where that is none. Its checksum was right, so that this is what a
    /// program wrote, and nothing is done but what fills the block.
    pub fn unpack(&mut self, stored: &[u8], block: &mut [u8]) -> bool {
        let Some((&[how, 0, low, high], rest)) = stored.split_first_chunk::<HEADER_BYTES>() else { return false };
        let Some(payload) = rest.get(..usize::from(u16::from_le_bytes([low, high]))) else { return false };
        let filled = match how {
            HOW_LZ4 => lz4_flex::block::decompress_into(payload, block).ok(),
            HOW_ZSTD => {
                if self.decompressor.is_none() {
                    self.decompressor = bulk::Decompressor::new().ok();
                }
                self.decompressor.as_mut().and_then(|zstd| zstd.decompress_to_buffer(payload, block).ok())
            }
            _ => None,
        };
        filled == Some(BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Compress; 5] = [Compress::Off, Compress::Lz4, Compress::Zstd(1), Compress::Zstd(3), Compress::Zstd(19)];

    /// A block of which `random` bytes cannot be compressed.
    fn block(random: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let noise = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        });
        noise.take(random.min(BLOCK)).chain(std::iter::repeat(7)).take(BLOCK).collect()
    }

    proptest! {
        #[test]
        fn what_is_packed_is_whole_sectors_and_comes_back(random in 0..5000usize, seed: u64) {
            let (mut packer, block) = (Packer::default(), block(random, seed));
            for compress in ALL {
                let Some(stored) = packer.pack(compress, &block).map(<[u8]>::to_vec) else {
                    prop_assert!(compress == Compress::Off || random > 3400, "{compress} of {random}");
                    continue;
                };
                prop_assert!(compress != Compress::Off);
                prop_assert!(stored.len() % 512 == 0 && (STORED_MIN_SECTORS..8).contains(&(stored.len() / 512)));
                prop_assert!(stored.len() >= random.min(BLOCK) / 512 * 512);
                let mut out = vec![1; BLOCK];
                prop_assert!(packer.unpack(&stored, &mut out));
                prop_assert_eq!(out, block.clone());
            }
        }

        #[test]
        fn hostile_bytes_fill_no_block_and_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600), how in 0..4u8) {
            let mut stored = bytes;
            if let Some(first) = stored.first_mut() {
                *first = how;
            }
            Packer::default().unpack(&stored, &mut [0; BLOCK]);
        }

        #[test]
        fn a_damaged_one_does_no_harm(random in 0..3000usize, at: prop::sample::Index, flip in 1..=255u8) {
            let mut packer = Packer::default();
            for compress in ALL {
                let Some(mut stored) = packer.pack(compress, &block(random, 3)).map(<[u8]>::to_vec) else { continue };
                let at = at.index(stored.len());
                stored[at] ^= flip;
                packer.unpack(&stored, &mut [0; BLOCK]);
            }
        }
    }

    #[test]
    fn nothing_of_one_block_lies_behind_the_next() {
        let mut packer = Packer::default();
        packer.pack(Compress::Lz4, &block(3000, 5)).unwrap();
        let stored = packer.pack(Compress::Lz4, &block(0, 5)).unwrap();
        let length = usize::from(u16::from_le_bytes([stored[2], stored[3]]));
        assert_eq!(stored.len(), STORED_MIN_BYTES);
        assert!(stored[HEADER_BYTES + length..].iter().all(|&byte| byte == 0));
    }
}
