//! Content of writes at a cost of nanoseconds: a slot's buffer is filled once, and each write changes only a few words
//! in it.
//!
//! A write is cut into pieces of 4096 bytes from its beginning; the last piece may be shorter.
//!
//! **Compressibility.** The last `compressible_percent` of each piece are zeros; the rest is random and does not
//! compress. From a single piece of 4096 bytes, lz4 and zstd leave the random share and about 40 bytes (measured with
//! lz4_flex 0.14 and zstd 1.5: 2086 and 2078 bytes at 50 percent). At 100 percent only the stamp is left, 44 and 37
//! bytes. Random data does not repeat within 1 MiB of one write, so a compressor with larger blocks (btrfs and ZFS: 128
//! KiB) gains no more within one write (64 KiB at 50 percent: 33,067 and 32,876). Writes of one slot share their random
//! part; such a compressor sees this only where it puts several writes into one block.
//!
//! **Duplicates.** `duplicate_percent` of the 4096-byte pieces are copies of one of 64 blocks that follow from the seed
//! alone. All other pieces of at least 16 bytes differ wherever offset or generation differ: they begin with a stamp of
//! 16 bytes, a one-to-one function of both. So deduplication by 4096-byte blocks finds exactly these duplicates, if
//! writes are aligned to 4096 bytes. The same seed writes the same content again: use another seed for another run if
//! the target must not recognise it.
//!
//! **With verifying** each unit begins with a header, and each sector of 512 bytes has its own stamp of 8 bytes, also
//! among the zeros: a sector of another write never passes for the expected one. At 100 percent compressible this
//! leaves 150 to 170 bytes of 4096. Duplicates are refused then, because headers make every block unique.

use super::verify::{HEADER_BYTES, Header, Layout};
use crate::job::model::Data;
use forebay_block::Random;
use forebay_block::hash::murmur64;
use std::sync::Arc;

/// Length of the pieces of a write in bytes: the usual block of deduplication and compression.
pub(super) const PIECE_BYTES: usize = 4096;
/// Length of the random data in bytes, a power of two. Nothing repeats within it; it fits into a second-level cache.
const POOL_BYTES: usize = 1 << 20;
/// Number of different blocks that duplicates are copies of.
const DUPLICATES: usize = 64;
/// Stamp of a piece.
const STAMP_BYTES: usize = 16;
/// Bytes that a device writes atomically.
const SECTOR_BYTES: usize = 512;

/// Why content cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// A share above 100 percent.
    #[error("{name} is {percent} percent: it must be 0 to 100")]
    Percent {
        /// Name of the option.
        name: &'static str,
        /// The given value.
        percent: u32,
    },
    /// Duplicates and verification headers exclude each other.
    #[error(
        "{percent} percent of the blocks are to be duplicates, but verifying gives each a header of its own: set \
         duplicate_percent to 0 or do not verify"
    )]
    DuplicatesWithVerify {
        /// The given share of duplicates.
        percent: u32,
    },
}

/// Makes the content of a job's writes. Cheap to clone; clones share their memory of about 1.3 MiB and make the same.
#[derive(Clone, Debug)]
pub struct Content {
    pool: Arc<[u8]>,
    duplicates: Arc<[u8]>,
    seed: u64,
    /// Bytes of a whole piece that are random; the rest are zeros.
    random_bytes: usize,
    duplicate_percent: u64,
    /// Length of a unit with a header; `None` without verifying.
    unit_bytes: Option<usize>,
}

impl Content {
    /// Content as `data` asks for it, with headers where `verify` gives their layout. Everything follows from `seed`.
    ///
    /// # Errors
    /// Where a share is above 100 percent, or duplicates are to be verified.
    pub fn new(data: &Data, verify: Option<&Layout>, seed: u64) -> Result<Self, DataError> {
        let shares =
            [("compressible_percent", data.compressible_percent), ("duplicate_percent", data.duplicate_percent)];
        for (name, percent) in shares {
            if percent > 100 {
                return Err(DataError::Percent { name, percent });
            }
        }
        if verify.is_some() && data.duplicate_percent > 0 {
            return Err(DataError::DuplicatesWithVerify { percent: data.duplicate_percent });
        }
        let mut random = Random::new(murmur64(seed ^ 0x3c6e_f372_fe94_f82b));
        let pool = random_bytes(POOL_BYTES, &mut random);
        let random_bytes_per_piece = PIECE_BYTES * (100 - data.compressible_percent as usize) / 100;
        let mut duplicates = Vec::new();
        if data.duplicate_percent > 0 {
            duplicates = random_bytes(PIECE_BYTES * DUPLICATES, &mut random);
            for block in duplicates.chunks_mut(PIECE_BYTES) {
                // At least the stamp's length stays random, or all blocks with 100 percent zeros would be equal.
                block[random_bytes_per_piece.max(STAMP_BYTES)..].fill(0);
            }
        }
        Ok(Self {
            pool: pool.into(),
            duplicates: duplicates.into(),
            seed,
            random_bytes: random_bytes_per_piece,
            duplicate_percent: u64::from(data.duplicate_percent),
            unit_bytes: verify.map(|layout| layout.unit_bytes() as usize),
        })
    }

    /// Fills a slot's buffer with the data that [`Content::stamp`] relies on. Call it once for each slot, with a
    /// different `number` (any value) for each so that their contents differ; and again before a write if a read has
    /// overwritten the buffer. Takes about 110 ns for 4 KiB, most of it copying.
    pub fn prepare(&self, buffer: &mut [u8], number: u64) {
        // Each buffer begins at another cache line of the pool, and wraps around at the pool's end.
        let mut at = (murmur64(self.seed ^ murmur64(number)) as usize) % POOL_BYTES / 64 * 64;
        for piece in buffer.chunks_mut(PIECE_BYTES) {
            let random = (piece.len() * self.random_bytes).div_ceil(PIECE_BYTES);
            let (random, zeros) = piece.split_at_mut(random);
            let first = random.len().min(POOL_BYTES - at);
            let (before_end, after_end) = random.split_at_mut(first);
            before_end.copy_from_slice(&self.pool[at..at + first]);
            after_end.copy_from_slice(&self.pool[..after_end.len()]);
            zeros.fill(0);
            at = (at + PIECE_BYTES) % POOL_BYTES;
        }
    }

    /// Whether the first `len_bytes` of a fully prepared buffer have the compressible share too (the zeros are at the
    /// end of each 4096 bytes). If not, prepare only the part that is written, or use [`Content::fill`].
    #[must_use]
    pub fn suits_prepared(&self, len_bytes: u32) -> bool {
        self.random_bytes == PIECE_BYTES || (len_bytes as usize).is_multiple_of(PIECE_BYTES)
    }

    /// Turns a prepared buffer into the content of one write. `data` is the part of the buffer that is written,
    /// `offset_bytes` its offset on the target. `generation` must differ between two writes to the same offset; with
    /// verifying it comes from [`super::verify::WrittenMap::before_write`].
    ///
    /// Measured for 4 KiB: 4 ns; with duplicates, where everything is copied, 130 ns; with verifying, where a CRC is
    /// computed, 90 ns.
    #[inline]
    pub fn stamp(&self, data: &mut [u8], offset_bytes: u64, generation: u64) {
        if let Some(unit_bytes) = self.unit_bytes {
            self.stamp_units(data, unit_bytes, offset_bytes, generation);
            return;
        }
        if self.duplicate_percent > 0 {
            self.copy_pieces(data, offset_bytes, generation);
            return;
        }
        let mut at = offset_bytes;
        for piece in data.chunks_mut(PIECE_BYTES) {
            self.stamp_piece(piece, at, generation);
            at = at.wrapping_add(PIECE_BYTES as u64);
        }
    }

    /// [`Content::prepare`] and [`Content::stamp`] in one call, for a buffer of unknown content.
    pub fn fill(&self, data: &mut [u8], offset_bytes: u64, generation: u64) {
        self.prepare(data, offset_bytes ^ generation.rotate_left(32));
        self.stamp(data, offset_bytes, generation);
    }

    #[inline]
    fn stamp_piece(&self, piece: &mut [u8], offset_bytes: u64, generation: u64) {
        let seed = self.seed;
        // Both halves are one-to-one functions, so the whole stamp is a one-to-one function of (offset, generation).
        let low = murmur64(offset_bytes ^ seed);
        let high = murmur64(generation ^ seed.rotate_left(32));
        let stamp = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        if let Some(place) = piece.first_chunk_mut::<STAMP_BYTES>() {
            *place = stamp;
        } else {
            let len = piece.len();
            piece.copy_from_slice(&stamp[..len]);
        }
    }

    fn copy_pieces(&self, data: &mut [u8], offset_bytes: u64, generation: u64) {
        // An earlier duplicate may have overwritten the buffer, so the random part must be made anew.
        self.prepare(data, offset_bytes ^ generation.rotate_left(32));
        let mut at = offset_bytes;
        for piece in data.chunks_mut(PIECE_BYTES) {
            let draw = murmur64(at ^ murmur64(generation ^ self.seed));
            let percent = ((draw >> 32) * 100) >> 32;
            if piece.len() == PIECE_BYTES && percent < self.duplicate_percent {
                let block = draw as usize % DUPLICATES * PIECE_BYTES;
                piece.copy_from_slice(&self.duplicates[block..block + PIECE_BYTES]);
            } else {
                self.stamp_piece(piece, at, generation);
            }
            at = at.wrapping_add(PIECE_BYTES as u64);
        }
    }

    fn stamp_units(&self, data: &mut [u8], unit_bytes: usize, offset_bytes: u64, generation: u64) {
        let mut at = offset_bytes;
        for unit in data.chunks_mut(unit_bytes) {
            for (number, sector) in unit.chunks_mut(SECTOR_BYTES).enumerate() {
                let place = if number == 0 { HEADER_BYTES } else { 0 };
                let sector_at = at.wrapping_add((number * SECTOR_BYTES) as u64);
                let stamp = murmur64(murmur64(generation ^ self.seed) ^ sector_at);
                if let Some(place) = sector.get_mut(place..).and_then(|rest| rest.first_chunk_mut::<8>()) {
                    *place = stamp.to_le_bytes();
                }
            }
            Header::write(unit, at, self.seed, generation);
            at = at.wrapping_add(unit_bytes as u64);
        }
    }
}

fn random_bytes(len: usize, random: &mut Random) -> Vec<u8> {
    (0..len / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    fn content(compressible_percent: u32, duplicate_percent: u32) -> Content {
        Content::new(&Data { compressible_percent, duplicate_percent }, None, 7).unwrap()
    }

    fn prepared(content: &Content, len: usize) -> Vec<u8> {
        let mut buffer = vec![0xaa; len];
        content.prepare(&mut buffer, 1);
        buffer
    }

    #[test]
    fn each_piece_has_its_zeros_at_the_end() {
        for (percent, zeros) in [(0, 0), (25, 1024), (50, 2048), (99, 4056), (100, 4080)] {
            let content = content(percent, 0);
            let mut buffer = prepared(&content, 64 << 10);
            content.stamp(&mut buffer, 8192, 5);
            for piece in buffer.chunks(4096) {
                let tail = piece.iter().rev().take_while(|&&byte| byte == 0).count();
                // The random bytes before the zeros may end with a 0 by chance.
                assert!((zeros..zeros + 4).contains(&tail), "{percent}: {tail}");
                let random = &piece[..4096 - tail];
                let distinct: HashSet<&[u8]> = random.chunks_exact(8).collect();
                assert_eq!(distinct.len(), random.len() / 8);
            }
        }
        // A short piece has its share of zeros too if it was prepared with its own length.
        let content = content(50, 0);
        assert!(content.suits_prepared(8192) && !content.suits_prepared(1000));
        let mut buffer = prepared(&content, 1000);
        content.stamp(&mut buffer, 0, 1);
        assert!(buffer[500..].iter().all(|&byte| byte == 0));
        assert!(buffer[..500].iter().filter(|&&byte| byte == 0).count() < 20);
    }

    #[test]
    fn nothing_repeats_within_a_mebibyte() {
        let buffer = prepared(&content(0, 0), POOL_BYTES);
        let words: HashSet<&[u8]> = buffer.chunks_exact(8).collect();
        assert_eq!(words.len(), POOL_BYTES / 8);
    }

    #[test]
    fn no_two_blocks_are_equal() {
        let content = content(100, 0);
        let mut buffer = prepared(&content, 16 << 10);
        let mut seen = HashSet::new();
        for generation in 0..50 {
            for offset in [0, 16_384, 512, 1 << 40] {
                content.stamp(&mut buffer, offset, generation);
                for (index, piece) in buffer.chunks(4096).enumerate() {
                    // The pieces at 512 + 4096 * k begin at offsets of their own, so no stamp comes twice.
                    assert!(seen.insert(piece.to_vec()), "{offset} {generation} {index}");
                }
            }
        }
    }

    #[test]
    fn duplicates_are_so_many_and_the_rest_is_unique() {
        let content = content(30, 40);
        let mut buffer = prepared(&content, 256 << 10);
        let mut counts: HashMap<Vec<u8>, u32> = HashMap::new();
        for write in 0..100_u64 {
            content.stamp(&mut buffer, write << 18, write);
            for piece in buffer.chunks(4096) {
                assert!(piece[2868..].iter().all(|&byte| byte == 0));
                *counts.entry(piece.to_vec()).or_insert(0) += 1;
            }
        }
        let repeated: Vec<u32> = counts.into_values().filter(|&count| count > 1).collect();
        assert_eq!(repeated.len(), DUPLICATES);
        let share = f64::from(repeated.iter().sum::<u32>()) / 6400.0;
        // The standard deviation is 0.6 percentage points.
        assert!((share - 0.4).abs() < 0.025, "{share}");
    }

    #[test]
    fn what_a_read_left_is_no_matter_for_fill() {
        let content = content(20, 0);
        let mut dirty = vec![0; 8192];
        let mut other = vec![0xff; 8192];
        content.fill(&mut dirty, 4096, 3);
        content.fill(&mut other, 4096, 3);
        assert_eq!(dirty, other);
        for len in [0, 1, 15, 16, 17, 4095, 4097] {
            content.fill(&mut dirty[..len], 0, 9);
        }
    }

    #[test]
    fn shares_that_cannot_be_are_refused() {
        let data = |compressible_percent, duplicate_percent| Data { compressible_percent, duplicate_percent };
        assert!(matches!(Content::new(&data(101, 0), None, 1), Err(DataError::Percent { .. })));
        assert!(matches!(Content::new(&data(0, 101), None, 1), Err(DataError::Percent { .. })));
        let layout = Layout::new(0, 4096).unwrap();
        let refused = Content::new(&data(0, 1), Some(&layout), 1);
        assert_eq!(refused.unwrap_err(), DataError::DuplicatesWithVerify { percent: 1 });
    }
}
