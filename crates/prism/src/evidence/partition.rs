//! MBR and GPT: where the file systems of a disk start.
//!
//! GPT from the UEFI specification 2.10, chapter 5.3 (header, entry array); MBR from chapter 5.2.1. Only partitions
//! that start on a 4 KiB boundary are supported (older tools began at sector 63); logical partitions inside an
//! extended one are not.

use super::crc::crc32_ieee;
use super::kind::BLOCK;
use crate::bytes::{le16, le32, le64};

/// A partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    /// Index in the table.
    pub index: u16,
    /// First byte on the disk.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
}

/// The partition table of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Zero for an MBR.
    pub entries_offset: u64,
    pub entry_bytes: u32,
    pub entries: u32,
    /// Unit of addresses in bytes; zero while the GPT header is expected in the next block.
    pub sector: u32,
}

/// Most entries of a GPT that are read: the number that every tool writes.
const ENTRIES_LIMIT: u32 = 128;

/// The entries follow the header, before the first partition; a table with a greater offset is not accepted, or a
/// whole disk could claim to be a table.
pub(super) const ENTRIES_OFFSET_LIMIT: u64 = 1 << 20;

/// Recognises a table in the first 4 KiB of a disk.
pub(super) fn recognise(block: &[u8], disk_size: u64) -> Option<Table> {
    if let Some(table) = gpt_header(block.get(512..1024)?, 512) {
        return Some(table);
    }
    if le16(block, 510) != 0xaa55 {
        return None;
    }
    let mbr = Table { entries_offset: 0, entry_bytes: 16, entries: 4, sector: 512 };
    if (0..4).any(|i| block.get(446 + i * 16 + 4) == Some(&0xee)) {
        // Protective: with sectors of 4 KiB the header follows in the next block.
        return Some(Table { sector: 0, ..mbr });
    }
    // The boot sector of a FAT or NTFS ends in the same two bytes; its "entries" are invalid.
    let sane = (0..4).all(|i| block.get(446 + i * 16).is_some_and(|status| status & 0x7f == 0));
    (sane && !mbr.mbr_partitions(block, disk_size).is_empty()).then_some(mbr)
}

fn gpt_header(header: &[u8], sector: u32) -> Option<Table> {
    if header.get(..8)? != b"EFI PART" {
        return None;
    }
    let len = le32(header, 12) as usize;
    let mut bare = header.get(..len).filter(|_| (92..=512).contains(&len))?.to_vec();
    bare[16..20].fill(0);
    if crc32_ieee(&bare) != le32(header, 16) {
        return None;
    }
    let entry_bytes = le32(header, 84);
    // Entries of 128 bytes times a power of two: they never straddle a block.
    if !entry_bytes.is_power_of_two() || !(128..=4096).contains(&entry_bytes) {
        return None;
    }
    let entries_offset = le64(header, 72).checked_mul(u64::from(sector)).filter(|&at| at <= ENTRIES_OFFSET_LIMIT)?;
    let entries = le32(header, 80).min(ENTRIES_LIMIT);
    Some(Table { entries_offset, entry_bytes, entries, sector })
}

impl Table {
    pub fn is_gpt(&self) -> bool {
        self.entries_offset > 0 || self.sector == 0
    }

    /// Whether the block at `at` is part of the table.
    pub fn covers(&self, at: u64) -> bool {
        let end = self.entries_offset + u64::from(self.entry_bytes) * u64::from(self.entries);
        at == 0 || (self.is_gpt() && at < end.max(2 * BLOCK))
    }

    pub fn mbr_partitions(&self, block: &[u8], disk_size: u64) -> Vec<Partition> {
        if self.is_gpt() {
            return Vec::new();
        }
        let mut partitions: Vec<Partition> = (0..4u16)
            .filter_map(|index| {
                let entry = block.get(446 + usize::from(index) * 16..)?.get(..16)?;
                // Zero is no partition; 5, 0xf and 0x85 are extended ones, which contain others.
                if matches!(entry[4], 0 | 0x05 | 0x0f | 0x85) {
                    return None;
                }
                let start = u64::from(le32(entry, 8)) * 512;
                partition(index, start, start + u64::from(le32(entry, 12)) * 512, disk_size)
            })
            .collect();
        tidy(&mut partitions);
        partitions
    }

    /// Reads GPT header and entries from `data`; returns whether the partitions changed.
    pub fn learn_entries(&mut self, offset: u64, data: &[u8], disk_size: u64, known: &mut Vec<Partition>) -> bool {
        if !self.is_gpt() {
            return false;
        }
        if self.sector == 0 {
            let header = BLOCK.checked_sub(offset).and_then(|skip| data.get(skip as usize..)?.get(..512));
            match header.and_then(|header| gpt_header(header, 4096)) {
                Some(table) => *self = table,
                None => return false,
            }
        }
        let before = known.clone();
        for index in 0..self.entries.min(ENTRIES_LIMIT) {
            let at = self.entries_offset + u64::from(index) * u64::from(self.entry_bytes);
            let entry = at.checked_sub(offset).and_then(|skip| data.get(usize::try_from(skip).ok()?..)?.get(..128));
            let Some(entry) = entry else { continue };
            let index = index as u16;
            known.retain(|partition| partition.index != index);
            if entry[..16] == [0; 16] {
                continue;
            }
            let sector = u64::from(self.sector);
            let start = le64(entry, 32).checked_mul(sector);
            let end = le64(entry, 40).checked_add(1).and_then(|end| end.checked_mul(sector));
            known.extend(start.zip(end).and_then(|(start, end)| partition(index, start, end, disk_size)));
        }
        tidy(known);
        *known != before
    }
}

fn partition(index: u16, start: u64, end: u64, disk_size: u64) -> Option<Partition> {
    let right = start > 0 && start.is_multiple_of(BLOCK) && start < end && end <= disk_size;
    right.then_some(Partition { index, start, end })
}

/// Sorts the partitions and makes them disjoint: of two that overlap, the one that starts first stays.
fn tidy(partitions: &mut Vec<Partition>) {
    partitions.sort_by_key(|partition| (partition.start, partition.index));
    let mut free_from = 0;
    partitions.retain(|partition| {
        let keep = partition.start >= free_from;
        if keep {
            free_from = partition.end;
        }
        keep
    });
}
