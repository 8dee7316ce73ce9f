//! A forged XFS.

use forebay_block::checksum::crc32c;

/// UUID of the file system, in its superblock and in its log headers.
pub const UUID: [u8; 16] = *b"uuid of this xfs";

/// An XFS superblock of 256 MiB: four groups, log of 8 MiB in the middle of the third.
pub fn superblock() -> Vec<u8> {
    let mut block = vec![0u8; 4096];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"XFSB");
    put(4, &4096u32.to_be_bytes());
    put(8, &65_536u64.to_be_bytes());
    put(32, &UUID);
    put(48, &(2u64 << 14 | 1000).to_be_bytes());
    put(84, &16_384u32.to_be_bytes());
    put(88, &4u32.to_be_bytes());
    put(96, &2048u32.to_be_bytes());
    put(100, &0xb4a5u16.to_be_bytes());
    put(102, &512u16.to_be_bytes());
    put(104, &512u16.to_be_bytes());
    put(124, &[14]);
    let sum = crc32c(&block[..512]);
    block[224..228].copy_from_slice(&sum.to_le_bytes());
    block
}
