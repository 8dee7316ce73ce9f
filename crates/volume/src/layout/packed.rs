//! How a compressed block is stored: a header of four bytes, what the compressor made, and zeros to the end of its last grain of 32 bytes.
//!
//! ```text
//! 0          2                4
//! +----------+----------------+----------- ... ---+-------+
//! |check     |length, how     |payload            |zeros  |
//! +----------+----------------+----------- ... ---+-------+
//!   2          2 (12, 4 bits)   length
//! ```
//!
//! *how*: 1 an LZ4 block (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>), 2 a Zstandard frame (RFC 8878). What follows *check* is
//! hashed, seeded with disk and block: bits 0 to 22 of the hash are the block checksum that the map names, and bits 23 to 38 are *check*. A leaf has no
//! room for more beside the place of a compressed block; all these bits together see any damage.

use super::page::{CHECKSUM_BITS, GRAIN_BYTES};
use forebay_block::checksum::{block_checksum, block_hash};
use forebay_block::{BLOCK_BYTES as BLOCK, DiskId};
use forebay_prism::Compress;
use std::fmt;
use zstd::bulk;

const HEADER_BYTES: usize = 4;
const CHECK_BYTES: usize = 2;
const LENGTH_BITS: u32 = 12;
/// Most bytes that a compressed block is stored in: saving less than a sixteenth is not worth the decompression.
const STORED_MAX_BYTES: usize = BLOCK - BLOCK / 16;
const HOW_LZ4: u16 = 1;
const HOW_ZSTD: u16 = 2;

/// The block checksum of stored bytes; `None` where they are of a compressed block and their *check* does not match.
#[must_use]
pub fn stored_checksum(disk: DiskId, block: u64, stored: &[u8]) -> Option<u32> {
    if stored.len() == BLOCK {
        return Some(block_checksum(disk, block, stored));
    }
    let (check, rest) = stored.split_first_chunk::<CHECK_BYTES>()?;
    let (checksum, right) = packed_checksum(disk, block, rest);
    (right == *check).then_some(checksum)
}

/// Whether stored bytes match a block checksum.
#[must_use]
pub fn is_stored(disk: DiskId, block: u64, stored: &[u8], checksum: u32) -> bool {
    stored_checksum(disk, block, stored) == Some(checksum)
}

/// Block checksum and *check* of the bytes that follow *check*.
fn packed_checksum(disk: DiskId, block: u64, rest: &[u8]) -> (u32, [u8; CHECK_BYTES]) {
    let hash = block_hash(disk, block, rest);
    (hash as u32 & ((1 << CHECKSUM_BITS) - 1), ((hash >> CHECKSUM_BITS) as u16).to_le_bytes())
}

/// Makes and undoes the stored form. The contexts of Zstandard are large, so they are kept.
#[derive(Default)]
pub struct Packer {
    /// The compressor, with the level that it was made for.
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
    /// The stored form of a block of 4096 bytes, in whole grains; `None` where compression is not worth it.
    pub fn pack(&mut self, compress: Compress, (disk, address): (DiskId, u64), block: &[u8]) -> Option<&[u8]> {
        self.stored.clear();
        // LZ4 refuses to begin without room for its worst case.
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
        let stored_bytes = (HEADER_BYTES + length).next_multiple_of(GRAIN_BYTES);
        if stored_bytes > STORED_MAX_BYTES {
            return None;
        }
        self.stored.truncate(HEADER_BYTES + length);
        // What the compressor left behind its end must not get onto a device.
        self.stored.resize(stored_bytes, 0);
        let (check, rest) = self.stored.split_first_chunk_mut::<CHECK_BYTES>()?;
        rest[..CHECK_BYTES].copy_from_slice(&(length as u16 | how << LENGTH_BITS).to_le_bytes());
        (_, *check) = packed_checksum(disk, address, rest);
        Some(&self.stored)
    }

    /// Fills `block`, 4096 bytes, from its stored form; false where the form is invalid. As the checksum was right, a program wrote these bytes, and
    /// all that is done with them is to fill the block.
    pub fn unpack(&mut self, stored: &[u8], block: &mut [u8]) -> bool {
        let Some((&[_, _, low, high], rest)) = stored.split_first_chunk::<HEADER_BYTES>() else { return false };
        let word = u16::from_le_bytes([low, high]);
        let Some(payload) = rest.get(..usize::from(word & ((1 << LENGTH_BITS) - 1))) else { return false };
        let filled = match word >> LENGTH_BITS {
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
    const WHOSE: (DiskId, u64) = (DiskId(3), 77);

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
        fn what_is_packed_is_whole_grains_and_comes_back(random in 0..5000usize, seed: u64) {
            let (mut packer, block) = (Packer::default(), block(random, seed));
            for compress in ALL {
                let Some(stored) = packer.pack(compress, WHOSE, &block).map(<[u8]>::to_vec) else {
                    prop_assert!(compress == Compress::Off || random > 3600, "{compress} of {random}");
                    continue;
                };
                let checksum = stored_checksum(WHOSE.0, WHOSE.1, &stored).unwrap();
                prop_assert!(compress != Compress::Off);
                prop_assert!(stored.len() % GRAIN_BYTES == 0);
                prop_assert!((1..BLOCK / GRAIN_BYTES).contains(&(stored.len() / GRAIN_BYTES)));
                prop_assert!(stored.len() <= STORED_MAX_BYTES && checksum >> CHECKSUM_BITS == 0);
                prop_assert!(stored.len() >= random.min(BLOCK) && stored.len() <= random + 256);
                prop_assert!(is_stored(WHOSE.0, WHOSE.1, &stored, checksum));
                prop_assert!(!is_stored(WHOSE.0, WHOSE.1 + 1, &stored, checksum), "another's");
                let mut out = vec![1; BLOCK];
                prop_assert!(packer.unpack(&stored, &mut out));
                prop_assert_eq!(out, block.clone());
            }
        }

        #[test]
        fn hostile_bytes_fill_no_block_and_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600), how in 0..4u8) {
            let mut stored = bytes;
            if let Some(high) = stored.get_mut(3) {
                *high = *high & 15 | how << 4;
            }
            Packer::default().unpack(&stored, &mut [0; BLOCK]);
        }

        #[test]
        fn a_damaged_one_is_seen_and_does_no_harm(random in 0..3000usize, at: prop::sample::Index, bit in 0..8u8) {
            let mut packer = Packer::default();
            for compress in ALL {
                let packed = packer.pack(compress, WHOSE, &block(random, 3)).map(<[u8]>::to_vec);
                let Some(mut stored) = packed else { continue };
                let checksum = stored_checksum(WHOSE.0, WHOSE.1, &stored).unwrap();
                let at = at.index(stored.len());
                stored[at] ^= 1 << bit;
                prop_assert!(!is_stored(WHOSE.0, WHOSE.1, &stored, checksum));
                packer.unpack(&stored, &mut [0; BLOCK]);
            }
        }
    }

    #[test]
    fn nothing_of_one_block_lies_behind_the_next() {
        let mut packer = Packer::default();
        packer.pack(Compress::Lz4, WHOSE, &block(3000, 5)).unwrap();
        let stored = packer.pack(Compress::Lz4, WHOSE, &block(0, 5)).unwrap();
        let length = usize::from(u16::from_le_bytes([stored[2], stored[3] & 15]));
        assert_eq!(stored.len(), GRAIN_BYTES);
        assert!(stored[HEADER_BYTES + length..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn what_is_stored_as_it_is_has_all_of_the_checksum() {
        let block = block(4096, 9);
        assert_eq!(stored_checksum(WHOSE.0, WHOSE.1, &block), Some(block_checksum(WHOSE.0, WHOSE.1, &block)));
        assert_eq!(stored_checksum(WHOSE.0, WHOSE.1, &[]), None);
    }
}
