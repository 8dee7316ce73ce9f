//! The facts in the superblock, and where mke2fs places structures according to them.

use super::super::crc::crc32c_raw;
use crate::bytes::{le16, le32, uuid};

const COMPAT_HAS_JOURNAL: u32 = 0x4;
const COMPAT_SPARSE_SUPER2: u32 = 0x200;
const INCOMPAT_JOURNAL_DEV: u32 = 0x8;
const INCOMPAT_META_BG: u32 = 0x10;
const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_FLEX_BG: u32 = 0x200;
const INCOMPAT_CSUM_SEED: u32 = 0x2000;
const RO_SPARSE_SUPER: u32 = 0x1;
const RO_GDT_CSUM: u32 = 0x10;
const RO_METADATA_CSUM: u32 = 0x400;

/// How descriptors and blocks are checksummed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Checksums {
    None,
    /// CRC16 of descriptors (`uninit_bg`).
    Crc16,
    /// CRC32C of everything, seeded.
    Crc32c(u32),
}

/// Which groups contain a copy of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Copies {
    All,
    /// Groups 0, 1 and the powers of 3, 5 and 7.
    Sparse,
    /// Group 0 and these two.
    Two([u32; 2]),
}

/// The geometry. All fields except `*_bytes` and `block_log` count file-system blocks or groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Geometry {
    pub uuid: [u8; 16],
    /// Block size is 1 << this.
    pub block_log: u32,
    pub blocks: u64,
    pub first_block: u32,
    pub group_blocks: u32,
    pub groups: u32,
    pub inodes: u32,
    pub descriptor_bytes: u32,
    pub table_blocks: u32,
    pub reserved_descriptors: u32,
    /// Number of groups whose descriptors follow the superblock; fewer than all with meta_bg.
    pub first_meta_bg: Option<u32>,
    /// Number of groups whose tables are placed together; 1 without flex_bg.
    pub flex: u32,
    pub checksums: Checksums,
    pub copies: Copies,
    pub has_journal: bool,
    /// Whether the whole device is a journal.
    pub external_journal: bool,
    /// Longest overhead of any group, for a cheap first test.
    pub widest_overhead: u32,
}

impl Geometry {
    /// Parses the first 4 KiB of the file system, which contain the superblock at 1024.
    pub fn parse(block: &[u8], room: u64) -> Option<Self> {
        let sb = block.get(1024..2048)?;
        if le16(sb, 0x38) != 0xef53 {
            return None;
        }
        let revision = le32(sb, 0x4c);
        let (compat, incompat, ro) =
            if revision == 0 { (0, 0, 0) } else { (le32(sb, 0x5c), le32(sb, 0x60), le32(sb, 0x64)) };
        let id = uuid(sb, 0x68);
        let checksums = if ro & RO_METADATA_CSUM != 0 {
            // Stored without the final inversion, since ext4 chains its checksums.
            if crc32c_raw(!0, &sb[..0x3fc]) != le32(sb, 0x3fc) {
                return None;
            }
            Checksums::Crc32c(if incompat & INCOMPAT_CSUM_SEED != 0 { le32(sb, 0x270) } else { crc32c_raw(!0, &id) })
        } else if ro & RO_GDT_CSUM != 0 {
            Checksums::Crc16
        } else {
            Checksums::None
        };
        let block_log = le32(sb, 0x18).checked_add(10).filter(|&log| log <= 16)?;
        let wide = incompat & INCOMPAT_64BIT != 0;
        let high = if wide { u64::from(le32(sb, 0x150)) } else { 0 };
        let blocks = u64::from(le32(sb, 4)) | high << 32;
        if blocks == 0 || blocks.checked_mul(1 << block_log)? > room {
            return None;
        }
        let external_journal = incompat & INCOMPAT_JOURNAL_DEV != 0;
        let (first_block, group_blocks, group_inodes) = (le32(sb, 0x14), le32(sb, 0x20), le32(sb, 0x28));
        let descriptor_bytes = if wide { u32::from(le16(sb, 0xfe)) } else { 32 };
        let inode_bytes = if revision == 0 { 128 } else { u32::from(le16(sb, 0x58)) };
        let block_bytes = 1u32 << block_log;
        if !external_journal {
            // One bitmap block describes a group, so it has at most eight blocks per byte.
            let sane = first_block <= 1
                && (1..=block_bytes * 8).contains(&group_blocks)
                && (1..=block_bytes * 8).contains(&group_inodes)
                && descriptor_bytes.is_power_of_two()
                && (32..=1024).contains(&descriptor_bytes)
                && inode_bytes.is_power_of_two()
                && (128..=block_bytes).contains(&inode_bytes);
            if !sane {
                return None;
            }
        }
        // In an external journal these fields mean nothing, and may have any value.
        let (first_block, group_inodes, descriptor_bytes) =
            if external_journal { (first_block.min(1), 0, 32) } else { (first_block, group_inodes, descriptor_bytes) };
        let groups = (blocks - u64::from(first_block).min(blocks)).div_ceil(u64::from(group_blocks.max(1)));
        let flex_log = u32::from(sb[0x174]);
        let copies = if compat & COMPAT_SPARSE_SUPER2 != 0 {
            Copies::Two([le32(sb, 0x24c), le32(sb, 0x250)])
        } else if ro & RO_SPARSE_SUPER != 0 {
            Copies::Sparse
        } else {
            Copies::All
        };
        let mut geometry = Self {
            uuid: id,
            block_log,
            blocks,
            first_block,
            group_blocks: group_blocks.max(1),
            groups: u32::try_from(groups).ok()?,
            inodes: le32(sb, 0),
            descriptor_bytes: descriptor_bytes.max(32),
            table_blocks: (u64::from(group_inodes) * u64::from(inode_bytes)).div_ceil(u64::from(block_bytes)) as u32,
            reserved_descriptors: u32::from(le16(sb, 0xce)),
            first_meta_bg: (incompat & INCOMPAT_META_BG != 0).then(|| le32(sb, 0x104)),
            flex: if incompat & INCOMPAT_FLEX_BG != 0 { 1u32.checked_shl(flex_log).unwrap_or(1 << 31) } else { 1 },
            checksums,
            copies,
            has_journal: compat & COMPAT_HAS_JOURNAL != 0,
            external_journal,
            widest_overhead: 0,
        };
        geometry.derive();
        // A table larger than its group would cover everything.
        (external_journal || geometry.table_blocks <= geometry.group_blocks).then_some(geometry)
    }

    /// Computes the derived fields.
    pub fn derive(&mut self) {
        self.widest_overhead = self.overhead_behind_superblock().max(2);
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.blocks << self.block_log
    }

    /// Group of a block and its index within the group; `None` for the boot block before the first group.
    pub fn group_of(&self, block: u64) -> Option<(u32, u32)> {
        let from = block.checked_sub(u64::from(self.first_block))?;
        let size = u64::from(self.group_blocks);
        // Nearly always a power of two; a division for each block would be most of the cost.
        if size.is_power_of_two() {
            let (group, within) = (from >> size.trailing_zeros(), from & (size - 1));
            return Some((group as u32, within as u32));
        }
        Some(((from / size) as u32, (from % size) as u32))
    }

    pub fn group_start(&self, group: u32) -> u64 {
        u64::from(self.first_block) + u64::from(group) * u64::from(self.group_blocks)
    }

    pub fn has_superblock(&self, group: u32) -> bool {
        let power_of = |base: u32| {
            let mut power = u64::from(base);
            while power < u64::from(group) {
                power *= u64::from(base);
            }
            power == u64::from(group)
        };
        match self.copies {
            Copies::All => true,
            Copies::Sparse => group <= 1 || power_of(3) || power_of(5) || power_of(7),
            Copies::Two(groups) => group == 0 || groups.contains(&group),
        }
    }

    pub fn descriptors_per_block(&self) -> u32 {
        ((1u32 << self.block_log) / self.descriptor_bytes).max(1)
    }

    /// Number of descriptor blocks after each superblock.
    fn leading_descriptor_blocks(&self) -> u32 {
        let all = self.groups.div_ceil(self.descriptors_per_block());
        self.first_meta_bg.map_or(all, |first| first.min(all))
    }

    /// Blocks of a superblock, the descriptors after it, and the blocks reserved for more descriptors.
    fn overhead_behind_superblock(&self) -> u32 {
        self.leading_descriptor_blocks().saturating_add(self.reserved_descriptors).saturating_add(1)
    }

    /// Blocks of superblock, descriptors and reserve at the start of a group.
    pub fn overhead(&self, group: u32) -> u32 {
        let superblock = u32::from(self.has_superblock(group));
        if self.is_meta_bg(group) {
            let place = group % self.descriptors_per_block();
            let last = self.descriptors_per_block() - 1;
            return superblock + u32::from(place <= 1 || place == last);
        }
        superblock * self.overhead_behind_superblock()
    }

    fn is_meta_bg(&self, group: u32) -> bool {
        self.first_meta_bg.is_some_and(|first| group / self.descriptors_per_block() >= first)
    }

    /// First of the groups whose descriptors are in block `within` of `group`; `None` for other blocks.
    pub fn described_by(&self, group: u32, within: u32) -> Option<u32> {
        let per_block = self.descriptors_per_block();
        if self.is_meta_bg(group) {
            let descriptor = within == u32::from(self.has_superblock(group));
            return (descriptor && group.is_multiple_of(per_block)).then_some(group);
        }
        // Copies in other groups are not kept up to date.
        let index = within.checked_sub(1).filter(|&index| group == 0 && index < self.leading_descriptor_blocks())?;
        index.checked_mul(per_block)
    }

    /// Whether mke2fs places a bitmap or an inode table at `block` of `group`.
    pub fn expects_tables_at(&self, group: u32, block: u64) -> bool {
        if self.first_meta_bg.is_some() {
            return false;
        }
        // A power of two.
        let first = group & !(self.flex - 1);
        let start = self.group_start(first);
        // Most blocks lie beyond any table; testing whether the group has a superblock takes longer.
        if block.saturating_sub(start) >= u64::from(self.widest_overhead) + self.tables_len(first) {
            return false;
        }
        (start + u64::from(self.overhead(first))..start + self.leading_blocks(first)).contains(&block)
    }

    /// Number of blocks at the start of a group that mke2fs uses for copies of the superblock and for tables. The
    /// tables of a flex group are placed together in its first group, after the overhead: room for all block bitmaps,
    /// then all inode bitmaps, then the inode tables (e2fsprogs `lib/ext2fs/alloc_tables.c`).
    pub fn leading_blocks(&self, group: u32) -> u64 {
        let overhead = u64::from(self.overhead(group));
        if group & (self.flex - 1) != 0 {
            return overhead;
        }
        overhead + self.tables_len(group)
    }

    /// Number of blocks of bitmaps and inode tables of the flex group that begins with `group`.
    fn tables_len(&self, group: u32) -> u64 {
        let members = u64::from(self.flex.min(self.groups - group.min(self.groups)));
        let bitmaps = 2 * if self.flex > self.groups { members } else { u64::from(self.flex) };
        bitmaps + members * u64::from(self.table_blocks)
    }
}
