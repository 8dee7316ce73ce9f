//! CRC32C (Castagnoli polynomial, RFC 3720 appendix B.4), plain for structures and seeded for data blocks.
//!
//! `crc-fast` was chosen over `crc32c` by measurement: 57 ns against 207 ns for a cached 4 KiB block on a CPU with
//! VPCLMULQDQ.

use crate::ident::DiskId;

/// CRC32C of `bytes`, as used for on-disk structures.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The crate returns every width in a u64; CRC-32 occupies the low half.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC32C of bytes that lie in several places.
#[must_use]
pub fn crc32c_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.into_iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

/// Checksum of a stored data payload, bound to the disk and the 4 KiB block address it belongs to, so that a
/// misdirected write is seen although its bytes are intact.
#[must_use]
pub fn block_checksum(disk: DiskId, block_address: u64, payload: &[u8]) -> u32 {
    crc32c(payload) ^ address_seed(disk, block_address)
}

/// Mixes disk and address into 32 well-spread bits (the finaliser of MurmurHash3, 64 bit, public domain).
fn address_seed(disk: DiskId, block_address: u64) -> u32 {
    let mut x = block_address ^ (u64::from(disk.0) << 48) ^ 0x9e37_79b9_7f4a_7c15;
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^= x >> 33;
    x as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_vectors() {
        // RFC 3720, B.4: 32 bytes of zeros, 32 of ones, and the standard check string.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_of([&b"1234"[..], b"", b"56789"]), 0xe306_9283);
    }

    #[test]
    fn address_and_disk_change_the_checksum() {
        let data = [7u8; 4096];
        let a = block_checksum(DiskId(1), 10, &data);
        assert_ne!(a, block_checksum(DiskId(1), 11, &data));
        assert_ne!(a, block_checksum(DiskId(2), 10, &data));
    }
}
