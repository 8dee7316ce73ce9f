//! btrfs. Offsets from the Linux kernel, `include/uapi/linux/btrfs_tree.h` (`struct btrfs_super_block`,
//! `struct btrfs_header`).
//!
//! Tree nodes are recognised by the file system's id in their header and by their checksum, without the chunk map:
//! their own address field is logical and does not relate to the disk. Nodes of log trees (which fsync writes) are
//! journal.

use super::kind::{BLOCK, Found, Role};
use crate::bytes::{le16, le32, le64, uuid};
use forebay_block::checksum::crc32c;

/// Offset of the first superblock.
pub(super) const SUPERBLOCK_OFFSET: u64 = 64 << 10;
/// `BTRFS_TREE_LOG_OBJECTID`.
const TREE_LOG: u64 = 6u64.wrapping_neg();
const INCOMPAT_METADATA_UUID: u64 = 1 << 10;
const CSUM_CRC32C: u16 = 0;

/// Facts from the superblock. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Btrfs {
    pub fsid: [u8; 16],
    /// The id in node headers; differs from the UUID after `btrfstune -m`.
    pub node_fsid: [u8; 16],
    /// Size of the file system's part on this device.
    pub size: u64,
    pub node: u32,
    pub checksum_type: u16,
}

impl Btrfs {
    /// Parses a superblock expected at `address` of a device of at most `room` bytes.
    pub fn parse(block: &[u8], address: u64, room: u64) -> Option<Self> {
        if block.get(0x40..0x48)? != b"_BHRfS_M" || le64(block, 0x30) != address {
            return None;
        }
        let checksum_type = le16(block, 0xc4);
        // Other checksums (xxhash64, sha256 and blake2b) are not verified: file data cannot reach an anchor.
        if checksum_type > 3 || (checksum_type == CSUM_CRC32C && crc32c(block.get(0x20..4096)?) != le32(block, 0)) {
            return None;
        }
        let node = le32(block, 0x94);
        // `dev_item.total_bytes`: this device's size; `total_bytes` is the sum over all devices.
        let size = le64(block, 0xd1);
        if !node.is_power_of_two() || !(4096..=65536).contains(&node) || size == 0 || size > room {
            return None;
        }
        let fsid = uuid(block, 0x20);
        let renamed = le64(block, 0xbc) & INCOMPAT_METADATA_UUID != 0;
        let node_fsid = if renamed { uuid(block, 0x23b) } else { fsid };
        Some(Self { fsid, node_fsid, size, node, checksum_type })
    }

    /// The role of the block at `at` (relative to the file system).
    #[inline]
    pub fn judge(&self, at: u64, rest: &[u8]) -> Found {
        let id = uuid(rest, 0x20);
        if id == self.node_fsid && self.is_node(rest) {
            let role = if le64(rest, 0x58) == TREE_LOG { Role::Journal } else { Role::Metadata };
            return (role, u64::from(self.node));
        }
        if id == self.fsid && rest.get(..BLOCK as usize).is_some_and(|block| Self::parse(block, at, u64::MAX).is_some())
        {
            return (Role::Superblock, BLOCK);
        }
        (Role::Data, BLOCK)
    }

    fn is_node(&self, rest: &[u8]) -> bool {
        // Level 0 to 7; more items than fit are invalid (an item needs 25 bytes, a key pointer 33).
        if rest.get(0x64).is_none_or(|&level| level > 7) || le32(rest, 0x60) > self.node / 25 {
            return false;
        }
        match rest.get(0x20..self.node as usize) {
            Some(body) if self.checksum_type == CSUM_CRC32C => crc32c(body) == le32(rest, 0),
            // Another checksum, or cut off by the end of the request: id and plausibility must suffice.
            _ => rest.get(0x40..0x44) != Some(b"_BHR"),
        }
    }
}
