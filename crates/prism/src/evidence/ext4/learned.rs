//! Learns from group descriptors and from the journal's block map.

use super::super::crc::{crc16, crc32c_raw};
use super::extents::EXTENTS_LIMIT;
use super::geometry::Checksums;
use super::{Ext4, JOURNAL_EXTENTS_LIMIT, JOURNAL_INDEX_LIMIT, JOURNAL_LIMIT_BLOCKS};
use crate::bytes::{le16, le32};

impl Ext4 {
    /// Reads the descriptors from a block of the overhead of `group`, once, in order.
    pub(super) fn learn_descriptors(&mut self, group: u32, within: u32, rest: &[u8]) {
        if self.learned_groups >= self.geometry.groups
            || self.geometry.described_by(group, within) != Some(self.learned_groups)
        {
            return;
        }
        let Some(block) = rest.get(..1 << self.geometry.block_log) else {
            return;
        };
        for descriptor in block.chunks_exact(self.geometry.descriptor_bytes as usize) {
            if self.learned_groups >= self.geometry.groups || !self.learn_descriptor(descriptor) {
                return;
            }
            self.learned_groups += 1;
        }
    }

    fn learn_descriptor(&mut self, descriptor: &[u8]) -> bool {
        if !self.descriptor_is_sound(descriptor) {
            return false;
        }
        let wide = descriptor.len() >= 64;
        let place = |low: usize, high: usize| {
            u64::from(le32(descriptor, low)) | if wide { u64::from(le32(descriptor, high)) << 32 } else { 0 }
        };
        let parts = [(place(0, 0x20), 1), (place(4, 0x24), 1), (place(8, 0x28), u64::from(self.geometry.table_blocks))];
        let inside = |(start, len): (u64, u64)| start > 0 && start.saturating_add(len) <= self.geometry.blocks;
        parts.iter().all(|&part| inside(part))
            && parts.iter().all(|&(start, len)| self.tables.add(start, start + len, EXTENTS_LIMIT))
    }

    fn descriptor_is_sound(&self, descriptor: &[u8]) -> bool {
        let stored = le16(descriptor, 0x1e);
        let group = self.learned_groups.to_le_bytes();
        // The checksum's own field counts as zero in CRC32C and is omitted in CRC16.
        let (before, after) = (descriptor.get(..0x1e).unwrap_or_default(), descriptor.get(0x20..).unwrap_or_default());
        match self.geometry.checksums {
            Checksums::None => true,
            Checksums::Crc32c(seed) => {
                let crc = [&group[..], before, &[0; 2], after].iter().fold(seed, |crc, part| crc32c_raw(crc, part));
                crc as u16 == stored
            }
            Checksums::Crc16 => {
                let parts = [&self.geometry.uuid[..], &group, before, after];
                parts.iter().fold(!0, |crc, part| crc16(crc, part)) == stored
            }
        }
    }

    /// Reads the journal's block map from the superblock's copy of its inode (`s_jnl_blocks`).
    pub(super) fn learn_journal(&mut self, first_block: &[u8]) {
        let sb = first_block.get(1024..2048).unwrap_or_default();
        // EXT3_JNL_BACKUP_BLOCKS
        if !self.geometry.has_journal || sb.get(0xfd) != Some(&1) {
            return;
        }
        let map = sb.get(0x10c..0x10c + 60).unwrap_or_default();
        if self.learn_extents(map) {
            return;
        }
        // ext3: direct and indirect blocks. mke2fs allocates them together, with the pointer blocks in between.
        let bytes = u64::from(le32(sb, 0x10c + 64)) | u64::from(le32(sb, 0x10c + 60)) << 32;
        let data_blocks = bytes >> self.geometry.block_log;
        let pointers = 1u64 << (self.geometry.block_log - 2);
        // One pointer block for each `pointers` blocks after the first twelve, and one above these for the double
        // indirect part.
        let behind = data_blocks.saturating_sub(12);
        let len = data_blocks + behind.div_ceil(pointers) + u64::from(behind > pointers);
        let start = u64::from(le32(map, 0));
        let direct_in_one_piece = (0..12).all(|i| u64::from(le32(map, i * 4)) == start + i as u64);
        if start > 0 && direct_in_one_piece && len < self.geometry.blocks.min(JOURNAL_LIMIT_BLOCKS) {
            self.lay_out_journal(start, len);
        }
    }

    /// Adds `len` journal blocks from `start` on, skipping the structures at the start of each further group.
    fn lay_out_journal(&mut self, mut start: u64, mut len: u64) {
        while len > 0 && start < self.geometry.blocks {
            let Some((group, _)) = self.geometry.group_of(start) else {
                return;
            };
            let next = self.geometry.group_start(group.saturating_add(1));
            let here = len.min(next - start);
            let end = (start + here).min(self.geometry.blocks);
            if !self.journal.add(start, end, JOURNAL_EXTENTS_LIMIT) {
                return;
            }
            len -= here;
            start = next + self.geometry.leading_blocks(group.saturating_add(1));
        }
    }

    /// Reads a block of the journal's extent tree, if it is one that has not been seen yet.
    pub(super) fn learn_journal_leaf(&mut self, number: u64, rest: &[u8]) {
        if let Some(i) = self.journal_index.iter().position(|&index| index == number)
            && rest.get(..1 << self.geometry.block_log).is_some_and(|block| self.learn_extents(block))
        {
            self.journal_index.remove(i);
        }
    }

    /// Reads an extent tree node (`struct ext4_extent_header` and its entries); returns whether it is one.
    fn learn_extents(&mut self, node: &[u8]) -> bool {
        let (magic, entries, depth) = (le16(node, 0), usize::from(le16(node, 2)), le16(node, 6));
        if magic != 0xf30a || depth > 5 {
            return false;
        }
        for entry in node.get(12..).unwrap_or_default().chunks_exact(12).take(entries) {
            if depth == 0 {
                // Lengths above 32768 mark extents that are allocated but not written.
                let len = match u64::from(le16(entry, 4)) {
                    len @ 0..=32768 => len,
                    len => len - 32768,
                };
                let start = u64::from(le32(entry, 8)) | u64::from(le16(entry, 6)) << 32;
                let inside = start > 0 && len > 0 && start.saturating_add(len) <= self.geometry.blocks;
                if inside && self.journal.blocks() + len <= JOURNAL_LIMIT_BLOCKS {
                    self.journal.add(start, start + len, JOURNAL_EXTENTS_LIMIT);
                }
            } else if self.journal_index.len() < JOURNAL_INDEX_LIMIT {
                self.journal_index.push(u64::from(le32(entry, 4)) | u64::from(le16(entry, 8)) << 32);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::evidence::ext4::Extents;

    #[test]
    fn extents_merge_and_keep_their_limit() {
        let mut extents = Extents::default();
        assert!(extents.add(10, 20, 2) && extents.add(30, 40, 2));
        assert!(!extents.add(50, 60, 2), "a third range passes the limit");
        assert!(extents.add(20, 30, 2), "a range that joins two does not");
        assert_eq!(extents.ranges, [(10, 40)]);
        assert!(extents.contains(10) && extents.contains(39) && !extents.contains(40) && !extents.contains(9));
        assert!(extents.add(0, 5, 2));
        assert_eq!(extents.ranges, [(0, 5), (10, 40)]);
    }
}
