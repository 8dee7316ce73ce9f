//! The stored form of the learned facts, for convenience only: whatever does not fit or cannot be parsed is learned
//! again.
//!
//! ```text
//! "FBEV" | version u16 = 1 | disks u16 | disk... | CRC32C of all before u32          integers little-endian
//! disk:      id u16 | table u8 [entries offset u64, entry bytes u32, entries u32, sector u32]
//!            | partitions u16 | partition (index u16, start u64, end u64)... | systems u8 | system...
//! system:    base u64 | end u64 | kind u8 | by kind
//! ```

use super::btrfs::Btrfs;
use super::disk::{Disk, Kind, Known};
use super::ext4::geometry_codec;
use super::ext4::{EXTENTS_LIMIT, Ext4, Extents, JOURNAL_EXTENTS_LIMIT, JOURNAL_INDEX_LIMIT};
use super::partition::{ENTRIES_OFFSET_LIMIT, Partition, Table};
use super::xfs::Xfs;
use super::{Learned, PARTITIONS_LIMIT, SYSTEMS_LIMIT};
use crate::bytes::{Reader, Writer};
use forebay_block::{DiskId, checksum::crc32c};
use std::collections::BTreeMap;

const MAGIC: &[u8; 4] = b"FBEV";
const VERSION: u16 = 1;
/// Largest stored form.
pub(crate) const LIMIT_BYTES: usize = 64 << 10;
/// Largest size of a disk in bytes, so that sums of addresses stay far from overflow.
const ADDRESS_LIMIT: u64 = 1 << 62;
/// Encoded size of one extent of bitmaps and inode tables. Extents use the space that everything else leaves: 64 file
/// systems of at most 400 bytes with 16 journal extents each, and 512 partitions of 18 bytes.
const EXTENT_BYTES: usize = 16;

impl Learned {
    pub fn save(&self) -> Vec<u8> {
        // First encodes without the extents of tables to determine the remaining space, then with as many extents as
        // fit.
        let bare = self.encode(0).len();
        let budget = LIMIT_BYTES.saturating_sub(bare) / EXTENT_BYTES;
        self.encode(budget)
    }

    fn encode(&self, mut extents_left: usize) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(MAGIC);
        out.u16(VERSION);
        out.u16(self.disks.len() as u16);
        for (id, disk) in &self.disks {
            out.u16(id.0);
            out.u8(u8::from(disk.table.is_some()));
            if let Some(table) = &disk.table {
                out.u64(table.entries_offset);
                out.u32(table.entry_bytes);
                out.u32(table.entries);
                out.u32(table.sector);
            }
            out.u16(disk.partitions.len() as u16);
            for partition in &disk.partitions {
                out.u16(partition.index);
                out.u64(partition.start);
                out.u64(partition.end);
            }
            out.u8(disk.systems.len() as u8);
            for known in &disk.systems {
                out.u64(known.base);
                out.u64(known.end);
                encode_kind(&mut out, &known.kind, &mut extents_left);
            }
        }
        out.sealed()
    }

    /// Replaces all learned facts by those in `bytes`; changes nothing if these are damaged.
    pub fn restore(&mut self, bytes: &[u8]) {
        if let Some(disks) = decode(bytes) {
            self.disks = disks;
        }
    }
}

fn encode_kind(out: &mut Writer, kind: &Kind, extents_left: &mut usize) {
    match kind {
        Kind::Xfs(xfs) => {
            out.u8(1);
            out.bytes(&xfs.uuid);
            out.bytes(&xfs.meta_uuid);
            out.u64(xfs.size);
            for value in [xfs.block, xfs.sector, xfs.inode, xfs.directory_block] {
                out.u32(value);
            }
            out.u64(xfs.log_start);
            out.u64(xfs.log_end);
        }
        Kind::Ext4(ext4) => {
            out.u8(2);
            geometry_codec::encode(out, &ext4.geometry);
            // Journals come first and are short; 16 extents cover 2 GiB of journal.
            let journal = &ext4.journal.ranges[..ext4.journal.ranges.len().min(16)];
            encode_ranges(out, journal);
            out.u8(ext4.journal_index.len() as u8);
            for index in &ext4.journal_index {
                out.u64(*index);
            }
            let ranges = &ext4.tables.ranges;
            let fits = ranges.len() <= *extents_left;
            out.u32(if fits { ext4.learned_groups } else { 0 });
            encode_ranges(out, if fits { ranges } else { &[] });
            *extents_left -= if fits { ranges.len() } else { 0 };
        }
        Kind::Btrfs(btrfs) => {
            out.u8(3);
            out.bytes(&btrfs.fsid);
            out.bytes(&btrfs.node_fsid);
            out.u64(btrfs.size);
            out.u32(btrfs.node);
            out.u16(btrfs.checksum_type);
        }
        Kind::Swap => out.u8(4),
    }
}

fn encode_ranges(out: &mut Writer, ranges: &[(u64, u64)]) {
    out.u16(ranges.len() as u16);
    for (start, end) in ranges {
        out.u64(*start);
        out.u64(*end);
    }
}

fn decode(bytes: &[u8]) -> Option<BTreeMap<DiskId, Disk>> {
    if bytes.len() > LIMIT_BYTES {
        return None;
    }
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if crc32c(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let mut input = Reader::new(body);
    if input.take(4)? != MAGIC || input.u16()? != VERSION {
        return None;
    }
    let (mut systems_total, mut partitions_total) = (0, 0);
    let mut disks = BTreeMap::new();
    for _ in 0..input.u16()? {
        let id = DiskId(input.u16()?);
        let mut disk = Disk::default();
        if input.u8()? == 1 {
            let (entries_offset, entry_bytes, entries, sector) =
                (input.u64()?, input.u32()?, input.u32()?, input.u32()?);
            // The limits of `partition::recognise`.
            if entries > 128 || entry_bytes > 4096 || entries_offset > ENTRIES_OFFSET_LIMIT || sector > 4096 {
                return None;
            }
            disk.table = Some(Table { entries_offset, entry_bytes, entries, sector });
        }
        for _ in 0..input.u16()? {
            partitions_total += 1;
            let (index, start, end) = (input.u16()?, input.u64()?, input.u64()?);
            if start >= end || end > ADDRESS_LIMIT || partitions_total > PARTITIONS_LIMIT {
                return None;
            }
            disk.partitions.push(Partition { index, start, end });
        }
        for _ in 0..input.u8()? {
            systems_total += 1;
            let (base, end) = (input.u64()?, input.u64()?);
            let after_last = disk.systems.last().is_none_or(|last| last.end <= base);
            if base >= end || end > ADDRESS_LIMIT || systems_total > SYSTEMS_LIMIT || !after_last {
                return None;
            }
            let kind = decode_kind(&mut input)?;
            disk.systems.push(Known { base, end, kind, confirmed: 0 });
        }
        disks.insert(id, disk);
    }
    input.is_empty().then_some(disks)
}

fn decode_kind(input: &mut Reader<'_>) -> Option<Kind> {
    Some(match input.u8()? {
        1 => Kind::Xfs(Xfs {
            uuid: input.uuid()?,
            meta_uuid: input.uuid()?,
            size: input.u64()?,
            block: input.u32().filter(|size| size.is_power_of_two() && *size >= 1024)?,
            sector: input.u32()?,
            inode: input.u32()?,
            directory_block: input.u32()?,
            log_start: input.u64()?,
            log_end: input.u64()?,
        }),
        2 => {
            let mut ext4 = Ext4::bare(geometry_codec::decode(input)?);
            ext4.journal = decode_ranges(input, JOURNAL_EXTENTS_LIMIT)?;
            let indexes = usize::from(input.u8()?);
            if indexes > JOURNAL_INDEX_LIMIT {
                return None;
            }
            ext4.journal_index = (0..indexes).map(|_| input.u64()).collect::<Option<_>>()?;
            ext4.learned_groups = input.u32()?;
            ext4.tables = decode_ranges(input, EXTENTS_LIMIT)?;
            Kind::Ext4(Box::new(ext4))
        }
        3 => Kind::Btrfs(Btrfs {
            fsid: input.uuid()?,
            node_fsid: input.uuid()?,
            size: input.u64()?,
            node: input.u32().filter(|size| size.is_power_of_two() && (4096..=65536).contains(size))?,
            checksum_type: input.u16()?,
        }),
        4 => Kind::Swap,
        _ => return None,
    })
}

fn decode_ranges(input: &mut Reader<'_>, limit: usize) -> Option<Extents> {
    let count = usize::from(input.u16()?);
    if count > limit {
        return None;
    }
    let mut extents = Extents::default();
    for _ in 0..count {
        let (start, end) = (input.u64()?, input.u64()?);
        if start >= end || extents.ranges.last().is_some_and(|last| last.1 > start) {
            return None;
        }
        extents.ranges.push((start, end));
    }
    Some(extents)
}
