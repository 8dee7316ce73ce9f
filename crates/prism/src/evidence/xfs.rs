//! XFS version 5. Offsets from the Linux kernel, `fs/xfs/libxfs/xfs_format.h`, `xfs_da_format.h`, `xfs_log_format.h`.
//!
//! Every metadata structure of version 5 has the file system's UUID, its own address if it has room for one, and a
//! CRC32C (computed with the CRC field as zero, stored little-endian): all three must agree. The log is recognised by
//! its address, because most of its sectors contain nothing that identifies them.

use super::kind::{BLOCK, Found, Role};
use crate::bytes::{be16, be32, be64, uuid};
use forebay_block::checksum::crc32c;

/// Facts from the superblock. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Xfs {
    /// The UUID that users see.
    pub uuid: [u8; 16],
    /// The UUID in metadata blocks; differs after `xfs_admin -U`.
    pub meta_uuid: [u8; 16],
    pub size: u64,
    pub block: u32,
    pub sector: u32,
    pub inode: u32,
    pub directory_block: u32,
    /// The internal log, relative to the file system; empty if the log is external.
    pub log_start: u64,
    pub log_end: u64,
}

const INCOMPAT_META_UUID: u32 = 1 << 2;

/// `XFS_MAX_LOG_BYTES`.
const LOG_LIMIT_BYTES: u64 = 1 << 31;

/// Where a kind of structure has the fields that identify it.
struct Layout {
    uuid: usize,
    crc: usize,
    /// Offset of its own address, in 512-byte units relative to the file system.
    address: Option<usize>,
    len: u32,
}

impl Xfs {
    /// Parses a superblock from the first 4 KiB of a file system that may occupy `room` bytes.
    pub fn parse(block: &[u8], room: u64) -> Option<Self> {
        if be32(block, 0) != u32::from_be_bytes(*b"XFSB") || be16(block, 100) & 0xf != 5 {
            return None;
        }
        let sector = u32::from(be16(block, 102));
        let block_bytes = be32(block, 4);
        let inode = u32::from(be16(block, 104));
        let power = |value: u32, low, high| value.is_power_of_two() && (low..=high).contains(&value);
        // Sectors of 8 KiB and more do not occur in practice.
        if !power(sector, 512, 4096) || !power(block_bytes, 1024, 65536) || !power(inode, 256, 2048) {
            return None;
        }
        let sector_data = block.get(..sector as usize)?;
        if !checksum_matches(sector_data, 224, &mut Vec::new()) {
            return None;
        }
        let size = be64(block, 8).checked_mul(u64::from(block_bytes)).filter(|&size| size > 0 && size <= room)?;
        let directory_log = u32::from(block[192]);
        let directory_block =
            block_bytes.checked_shl(directory_log).filter(|&size| directory_log < 7 && size <= 65536)?;
        let ag_blocks = u64::from(be32(block, 84));
        let ag_block_log = u32::from(block[124]);
        let (log_start, log_end) = match be64(block, 48) {
            0 => (0, 0),
            log_start => {
                // File-system block numbers contain the group above sb_agblklog bits.
                let group = log_start.checked_shr(ag_block_log)?;
                let within = log_start & 1u64.checked_shl(ag_block_log)?.wrapping_sub(1);
                let first = group.checked_mul(ag_blocks)?.checked_add(within)?;
                let start = first.checked_mul(u64::from(block_bytes))?;
                let end = start.checked_add(u64::from(be32(block, 96)) * u64::from(block_bytes))?;
                if end > size || end - start > LOG_LIMIT_BYTES {
                    return None;
                }
                (start, end)
            }
        };
        let own = uuid(block, 32);
        let meta_uuid = if be32(block, 216) & INCOMPAT_META_UUID != 0 { uuid(block, 248) } else { own };
        Some(Self {
            uuid: own,
            meta_uuid,
            size,
            block: block_bytes,
            sector,
            inode,
            directory_block,
            log_start,
            log_end,
        })
    }

    /// The role of the block at `at` (relative to the file system). `rest` is the data from there to the end of the
    /// request.
    #[inline]
    pub fn judge(&self, at: u64, rest: &[u8], scratch: &mut Vec<u8>) -> Found {
        if at < self.log_end && at + BLOCK > self.log_start {
            return (Role::Journal, BLOCK);
        }
        let step = self.block.min(BLOCK as u32) as usize;
        for sub in (0..BLOCK as usize).step_by(step) {
            if let Some((role, len)) = rest.get(sub..).and_then(|rest| self.structure(at + sub as u64, rest, scratch)) {
                return (role, (sub as u64 + u64::from(len)).next_multiple_of(BLOCK));
            }
        }
        (Role::Data, BLOCK)
    }

    #[inline]
    fn structure(&self, at: u64, rest: &[u8], scratch: &mut Vec<u8>) -> Option<(Role, u32)> {
        let layout = |uuid, crc, address, len| Layout { uuid, crc, address, len };
        let (sector, block, directory) = (self.sector, self.block, self.directory_block);
        let proof = match &be32(rest, 0).to_be_bytes() {
            b"XFSB" => {
                // Copies are not updated with the first one, so that their own checksum must match.
                let proof = layout(32, 224, None, sector);
                let right = uuid(rest, 32) == self.uuid && self.proven(&proof, at, rest, scratch, self.uuid);
                return right.then_some((Role::Superblock, block));
            }
            b"XAGF" => layout(64, 216, None, sector),
            b"XAGI" => layout(296, 312, None, sector),
            b"XAFL" => layout(8, 32, None, sector),
            // Free space by address and by size, inodes, free inodes, reverse map, reference counts.
            b"AB3B" | b"AB3C" | b"IAB3" | b"FIB3" | b"RMB3" | b"R3FC" => layout(32, 52, Some(16), block),
            // Extent map of a file; reverse map and reference counts of the real-time volume.
            b"BMA3" | b"MAPR" | b"RCNT" => layout(40, 64, Some(24), block),
            b"XDB3" | b"XDD3" | b"XDF3" => layout(24, 4, Some(8), directory),
            // Remote symbolic link, remote attribute value.
            b"XSLM" | b"XARM" => layout(16, 12, Some(40), block),
            [b'I', b'N', _, _] if rest.get(4) == Some(&3) => layout(160, 100, None, self.inode),
            [b'D', b'Q', 1, _] => layout(120, 108, None, 136),
            _ => match be16(rest, 8) {
                // Node of a directory or attribute tree, attribute leaf, directory leaves.
                0x3ebe | 0x3bee | 0x3df1 | 0x3dff => {
                    let mut proof = layout(32, 12, Some(16), directory);
                    if directory != block && self.proven(&proof, at, rest, scratch, self.meta_uuid) {
                        return Some((Role::Metadata, directory));
                    }
                    proof.len = block;
                    proof
                }
                _ => return None,
            },
        };
        let right = uuid(rest, proof.uuid) == self.meta_uuid && self.proven(&proof, at, rest, scratch, self.meta_uuid);
        right.then_some((Role::Metadata, proof.len))
    }

    fn proven(&self, proof: &Layout, at: u64, rest: &[u8], scratch: &mut Vec<u8>, wanted: [u8; 16]) -> bool {
        if uuid(rest, proof.uuid) != wanted {
            return false;
        }
        if proof.address.is_some_and(|field| be64(rest, field).checked_mul(512) != Some(at)) {
            return false;
        }
        match rest.get(..proof.len as usize) {
            Some(structure) => checksum_matches(structure, proof.crc, scratch),
            // Cut off by the end of the request: UUID and address must suffice.
            None => proof.address.is_some(),
        }
    }
}

/// CRC32C over `structure` with its own field as zero.
fn checksum_matches(structure: &[u8], field: usize, scratch: &mut Vec<u8>) -> bool {
    scratch.clear();
    scratch.extend_from_slice(structure);
    let Some(stored) = scratch.get_mut(field..field + 4) else {
        return false;
    };
    let expected = u32::from_le_bytes([stored[0], stored[1], stored[2], stored[3]]);
    stored.fill(0);
    crc32c(scratch) == expected
}
