//! Checksums: CRC32C (Castagnoli polynomial, RFC 3720 appendix B.4) for the pool's own structures, XXH3 for hosts'
//! data.
//!
//! Hosts' blocks often end with a CRC32C of their own (extent blocks of ext4, pages of databases). The CRC32C over
//! data followed by its own CRC32C is the same for all data. It could not distinguish a block from an older version
//! of it, nor from another such block. So hosts' data needs a checksum that is not linear.
//!
//! `crc-fast` was chosen over `crc32c` by measurement: 57 ns against 207 ns for a cached 4 KiB block on a CPU with
//! VPCLMULQDQ.

use crate::ident::DiskId;
use twox_hash::XxHash3_64;

/// CRC32C of `bytes`, as used for on-disk structures.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The crate returns every width in a u64; CRC-32 occupies the low half.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC32C of bytes in several parts, in order.
#[must_use]
pub fn crc32c_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.into_iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

/// Checksum of a host's data, for structures that distinguish versions of it: the lower half of its 64-bit XXH3
/// (<https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>).
#[must_use]
pub fn content_checksum(payload: &[u8]) -> u32 {
    XxHash3_64::oneshot(payload) as u32
}

/// As [`content_checksum`], seeded with the disk and the address of the 4 KiB block. So a misdirected write is
/// detected although its bytes are intact.
#[must_use]
pub fn block_checksum(disk: DiskId, block_address: u64, payload: &[u8]) -> u32 {
    block_hash(disk, block_address, payload) as u32
}

/// The 64-bit hash whose lower half is [`block_checksum`].
#[must_use]
pub fn block_hash(disk: DiskId, block_address: u64, payload: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(block_address ^ u64::from(disk.0) << 48, payload)
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
    fn contents_match_the_published_vectors() {
        // From xxHash's tests/sanity_test_vectors.h: XXH3_64bits of empty input.
        assert_eq!(content_checksum(b""), 0x2d06_8005_38d3_94c2_u64 as u32);
    }

    /// Regression: a block that ends with its own CRC32C had one checksum in all its versions.
    #[test]
    fn what_ends_with_its_own_crc_has_another_checksum_in_each_version() {
        let ending_with_its_own = |fill: u8| {
            let mut block = [fill; 4096];
            let crc = crc32c(&block[..4092]);
            block[4092..].copy_from_slice(&crc.to_le_bytes());
            block
        };
        let (old, new) = (ending_with_its_own(1), ending_with_its_own(2));
        assert_eq!(crc32c(&old), crc32c(&new), "what a CRC cannot tell");
        assert_ne!(content_checksum(&old), content_checksum(&new));
        assert_ne!(block_checksum(DiskId(1), 10, &old), block_checksum(DiskId(1), 10, &new));
    }

    #[test]
    fn address_and_disk_change_the_checksum() {
        let data = [7u8; 4096];
        let a = block_checksum(DiskId(1), 10, &data);
        assert_ne!(a, block_checksum(DiskId(1), 11, &data));
        assert_ne!(a, block_checksum(DiskId(2), 10, &data));
    }
}
