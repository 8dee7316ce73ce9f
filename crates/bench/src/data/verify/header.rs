//! The header of a unit.

use forebay_block::checksum::crc32c;

/// Bytes of a header. All numbers are little-endian.
///
/// | bytes | content |
/// |---|---|
/// | 0..8 | magic `FBVERIFY` |
/// | 8..12 | version, 1 |
/// | 12..16 | length of the unit in bytes, header included |
/// | 16..24 | byte offset on the target |
/// | 24..32 | seed of the run |
/// | 32..40 | generation, from 1 |
/// | 40..44 | CRC32C of the unit behind the header |
/// | 44..48 | CRC32C of the bytes 0..44 |
pub const HEADER_BYTES: usize = 48;

const MAGIC: [u8; 8] = *b"FBVERIFY";
const VERSION: u32 = 1;

/// The fields of a unit's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the unit in bytes, header included.
    pub unit_bytes: u32,
    /// Byte offset on the target to which the unit was written.
    pub offset_bytes: u64,
    /// Seed of the run that wrote it.
    pub seed: u64,
    /// Number of the write within the run, from 1.
    pub generation: u64,
    /// CRC32C of the unit behind the header.
    pub content_crc: u32,
}

/// Why a unit has no valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// The magic is missing, or the version is another one.
    Absent,
    /// The header's own checksum or its length is wrong.
    Damaged,
}

impl Header {
    /// Puts a header at the beginning of a unit whose content is complete. A unit shorter than a header is left
    /// unchanged; a [`super::Layout`] never makes such a unit.
    pub fn write(unit: &mut [u8], offset_bytes: u64, seed: u64, generation: u64) {
        let len = unit.len() as u32;
        let Some((place, content)) = unit.split_first_chunk_mut::<HEADER_BYTES>() else { return };
        place[0..8].copy_from_slice(&MAGIC);
        place[8..12].copy_from_slice(&VERSION.to_le_bytes());
        place[12..16].copy_from_slice(&len.to_le_bytes());
        place[16..24].copy_from_slice(&offset_bytes.to_le_bytes());
        place[24..32].copy_from_slice(&seed.to_le_bytes());
        place[32..40].copy_from_slice(&generation.to_le_bytes());
        place[40..44].copy_from_slice(&crc32c(content).to_le_bytes());
        let crc = crc32c(&place[..44]);
        place[44..48].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads and checks the header of a unit, but not the unit's content.
    pub(super) fn read(unit: &[u8]) -> Result<Self, HeaderFault> {
        let Some((place, _)) = unit.split_first_chunk::<HEADER_BYTES>() else { return Err(HeaderFault::Absent) };
        if place[0..8] != MAGIC || number(place, 8, 4) != u64::from(VERSION) {
            return Err(HeaderFault::Absent);
        }
        if number(place, 12, 4) != unit.len() as u64 {
            return Err(HeaderFault::Damaged);
        }
        Self::read_any(unit)
    }

    /// Reads the header at the beginning of `bytes`, of a unit of any length, even one that continues behind `bytes`.
    pub(super) fn read_any(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let Some((place, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Err(HeaderFault::Absent) };
        if place[0..8] != MAGIC || number(place, 8, 4) != u64::from(VERSION) {
            return Err(HeaderFault::Absent);
        }
        if number(place, 44, 4) != u64::from(crc32c(&place[..44])) || number(place, 12, 4) < HEADER_BYTES as u64 {
            return Err(HeaderFault::Damaged);
        }
        Ok(Self {
            unit_bytes: number(place, 12, 4) as u32,
            offset_bytes: number(place, 16, 8),
            seed: number(place, 24, 8),
            generation: number(place, 32, 8),
            content_crc: number(place, 40, 4) as u32,
        })
    }

    /// Whether the content of `unit` is what was written.
    pub(super) fn content_is_sound(&self, unit: &[u8]) -> bool {
        unit.get(HEADER_BYTES..).is_some_and(|content| crc32c(content) == self.content_crc)
    }
}

/// A little-endian number of `len` bytes at `at`.
fn number(place: &[u8; HEADER_BYTES], at: usize, len: usize) -> u64 {
    place[at..at + len].iter().rev().fold(0, |sum, &byte| (sum << 8) | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_documented_bytes() {
        let mut unit = vec![7; 512];
        Header::write(&mut unit, 0x0102_0304_0506_0708, 9, 10);
        assert_eq!(&unit[..16], b"FBVERIFY\x01\0\0\0\0\x02\0\0");
        assert_eq!(&unit[16..24], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(&unit[24..40], [9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(unit[40..44], crc32c(&[7; 464]).to_le_bytes());
        let header = Header::read(&unit).unwrap();
        assert_eq!((header.offset_bytes, header.seed, header.generation), (0x0102_0304_0506_0708, 9, 10));
        assert!(header.content_is_sound(&unit));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let mut unit = vec![7; 512];
        Header::write(&mut unit, 4096, 9, 10);
        for bit in 0..512 * 8 {
            unit[bit / 8] ^= 1 << (bit % 8);
            let sound = Header::read(&unit).is_ok_and(|header| header.content_is_sound(&unit));
            assert!(!sound, "bit {bit}");
            unit[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Header::read(&[]), Err(HeaderFault::Absent));
    }
}
