//! Blocks that may lie anywhere in the data area: directories, extent tree nodes, extended attributes.
//!
//! Their checksums are seeded with the owning inode, which is not known here; their structure must suffice. Forging
//! one gains a user nothing but fast-tier space for that block.

use super::super::crc::crc32c_raw;
use super::Geometry;
use super::geometry::Checksums;
use crate::bytes::{le16, le32};

/// Whether `block` (one file-system block, or empty) is metadata by its contents.
#[inline]
pub(super) fn is_metadata(geometry: &Geometry, number: u64, block: &[u8]) -> bool {
    let Some(head) = block.first_chunk::<12>() else {
        return false;
    };
    // EXT4_EXT_MAGIC, EXT4_XATTR_MAGIC
    if head[..2] == [0x0a, 0xf3] {
        return is_extent_node(geometry, block);
    }
    if head[..4] == [0, 0, 2, 0xea] {
        return is_attributes(geometry, number, block);
    }
    // "." is the first entry of a directory's first block; later blocks end in a checksum that is disguised as an
    // entry of no inode (ext4_dir_entry_tail), or begin with one entry that spans the block (hash tree nodes).
    let first_block =
        head[4..9] == [12, 0, 1, 2, b'.'] && block.get(18) == Some(&2) && block.get(20..22) == Some(b"..");
    let tail = block.last_chunk::<12>().is_some_and(|tail| tail[..8] == [0, 0, 0, 0, 12, 0, 0, 0xde]);
    if first_block || tail {
        return entries_add_up(geometry, block);
    }
    if head[..4] == [0; 4] && is_hash_node(block) {
        return true;
    }
    // Without checksums no tail identifies the block; entries whose lengths add up to exactly a block remain a strong
    // sign. The first length is a cheap test that most data fails.
    let length = usize::from(le16(head, 4));
    !matches!(geometry.checksums, Checksums::Crc32c(_))
        && length >= 12
        && length.is_multiple_of(4)
        && length <= block.len()
        && head[7] <= 7
        && entries_add_up(geometry, block)
}

/// `struct ext4_dir_entry_2` chained by length from one end of the block to the other.
fn entries_add_up(geometry: &Geometry, block: &[u8]) -> bool {
    let mut at = 0;
    while at < block.len() {
        let (inode, length) = (le32(block, at), usize::from(le16(block, at + 4)));
        let name = usize::from(block.get(at + 6).copied().unwrap_or_default());
        // In blocks of 64 KiB a length of 0 or 65535 stands for the whole block.
        let length = if block.len() == 65536 && matches!(length, 0 | 65535) { block.len() } else { length };
        if inode > geometry.inodes || length < 12 || !length.is_multiple_of(4) || name + 8 > length {
            return false;
        }
        at += length;
    }
    at == block.len()
}

/// An inner node of a directory's hash tree (`struct dx_node`).
fn is_hash_node(block: &[u8]) -> bool {
    let length = usize::from(le16(block, 4));
    let (limit, count) = (usize::from(le16(block, 8)), usize::from(le16(block, 10)));
    let most = (block.len() - 8) / 8;
    // A checksum occupies the place of one entry.
    length == block.len() && le16(block, 6) == 0 && (limit == most || limit + 1 == most) && (1..=limit).contains(&count)
}

fn is_extent_node(geometry: &Geometry, block: &[u8]) -> bool {
    let (entries, most, depth) = (usize::from(le16(block, 2)), usize::from(le16(block, 4)), le16(block, 6));
    if most != (block.len() - 12) / 12 || entries > most || depth > 5 {
        return false;
    }
    let mut last = None;
    block[12..].chunks_exact(12).take(entries).all(|entry| {
        let logical = le32(entry, 0);
        let (low, high) = if depth == 0 { (le32(entry, 8), le16(entry, 6)) } else { (le32(entry, 4), le16(entry, 8)) };
        let inside = u64::from(low) | u64::from(high) << 32;
        let ordered = last.is_none_or(|last| last < logical);
        last = Some(logical);
        ordered && inside < geometry.blocks
    })
}

/// `struct ext4_xattr_header`; its checksum is seeded with the block's number, so it can be verified.
fn is_attributes(geometry: &Geometry, number: u64, block: &[u8]) -> bool {
    let (references, blocks) = (le32(block, 4), le32(block, 8));
    if !(1..=1024).contains(&references) || blocks != 1 {
        return false;
    }
    match geometry.checksums {
        Checksums::Crc32c(seed) => {
            let parts = [&number.to_le_bytes()[..], &block[..16], &[0; 4], &block[20..]];
            parts.iter().fold(seed, |crc, part| crc32c_raw(crc, part)) == le32(block, 16)
        }
        // h_reserved, then the first entry's name index (up to 9 are assigned) or the end of the list.
        _ => block.get(20..32) == Some(&[0; 12]) && block.get(33).is_some_and(|&index| index < 16),
    }
}
