//! What a checkpoint leaves on the capacity tier, so that this can be opened without the fast one: disks, how far bands were written, and where the
//! tier pages lie, which say on which tier each block lives.

use super::Id;
use super::band_summary::{BandShape, SummaryEntry, take_entries};
use super::base::Base;
use super::capacity_area::PAGE_REF_BYTES;
pub use super::capacity_area::{CapacityArea, DEVICE, HEADER_BYTES, UNAPPLIED_MAX};
use super::codec::COUNTER_LIMIT;
use super::codec::{Reader, Writer};
use super::page::LEAF_ENTRIES;
use super::root::{BandRoot, BandState};
use super::superblock::Superblock;
use super::tier_page::PAGE_LEAVES;
use super::{is_sealed, seal};
use forebay_block::BLOCK_BYTES_U64 as BLOCK;
use forebay_block::checksum::crc32c;
use std::collections::BTreeSet;

/// No page of the disk is missing from the list.
pub const ALL_LISTED: u32 = u32::MAX;
const HEADER_MAGIC: [u8; 4] = *b"FBCH";
const MAGIC: [u8; 4] = *b"FBCR";
const FREE: u32 = 1 << 31;
const DISK_BYTES_MAX: u64 = 1 << 58;
/// Flag in the size of a disk that lies over a base, whose fields follow: for a program without bases no disk is that large.
const HAS_BASE: u64 = 1 << 63;

/// The header before a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityHeader {
    /// Checkpoint.
    pub checkpoint: u64,
    /// Epoch in which it was written.
    pub epoch: u64,
    /// Length of the blob in bytes.
    pub blob_len_bytes: u64,
    /// CRC of the blob.
    pub blob_crc: u32,
    /// Generation of the map pages of the same attempt: an attempt that came to nothing has the same checkpoint number.
    pub generation: u32,
}

impl CapacityHeader {
    /// Encodes the header block.
    #[must_use]
    pub fn encode(&self, pool: &Id) -> Vec<u8> {
        let mut w = Writer::of_pool(HEADER_MAGIC, pool);
        w.u64(self.checkpoint);
        w.u64(self.epoch);
        w.u64(self.blob_len_bytes);
        w.u32(self.blob_crc);
        w.u32(self.generation);
        w.bytes.resize(HEADER_BYTES, 0);
        seal(&mut w.bytes);
        w.bytes
    }

    /// Decodes a header block of the pool.
    #[must_use]
    pub fn decode(bytes: &[u8], pool: &Id) -> Option<Self> {
        let mut r = Reader::of_pool(bytes, HEADER_MAGIC, pool)?;
        let header = Self {
            checkpoint: r.u64()?,
            epoch: r.u64()?,
            blob_len_bytes: r.u64()?,
            blob_crc: r.u32()?,
            generation: r.u32()?,
        };
        (header.checkpoint < COUNTER_LIMIT && header.epoch < COUNTER_LIMIT).then_some(header)
    }
}

/// Where a page lies, and which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierPageRef {
    /// Number of the page on its disk.
    pub number: u32,
    /// Slot that it lies in.
    pub slot: u32,
    /// CRC in its header.
    pub crc: u32,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityDisk {
    /// Id.
    pub id: u16,
    /// Name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// What it lies over.
    pub base: Option<Base>,
    /// Nothing is known of unlisted pages from this number on; unlisted pages below it map nothing.
    pub unlisted_from: u32,
    /// Pages, in the order of their numbers.
    pub pages: Vec<TierPageRef>,
}

/// How far a band was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityBand {
    /// Generation.
    pub generation: u32,
    /// Groups whose summaries are on the device.
    pub groups: u32,
    /// It holds nothing.
    pub is_free: bool,
}

impl CapacityBand {
    /// From a band's entry in the root.
    #[must_use]
    pub fn of(band: &BandRoot, shape: BandShape) -> Self {
        let complete = band.complete_groups(shape);
        // Recovery closes bands that are not full: groups beyond what was written do not count.
        let groups = match band.state {
            BandState::Closed => band.frontier().div_ceil(super::band_summary::GROUP_BLOCKS).min(complete),
            BandState::Free | BandState::Open => complete,
        };
        Self { generation: band.generation, groups, is_free: band.state == BandState::Free }
    }
}

/// The blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapacityRoot {
    /// Changes with lower sequences are in it, except `unapplied`.
    pub next_sequence: u64,
    /// Sequences of records that were in flight, the newest, in order.
    pub unapplied: Vec<u64>,
    /// Disks that there was no room for.
    pub disks_missing: u16,
    /// Disks.
    pub disks: Vec<CapacityDisk>,
    /// Bands.
    pub bands: Vec<CapacityBand>,
    /// Entries of groups that were not complete: (band, group, entries).
    pub open_groups: Vec<(u32, u32, Vec<SummaryEntry>)>,
}

impl CapacityRoot {
    /// Encodes the blob for an area of this size. Pages that do not fit are not listed, nor are those that follow on their disk; disks that do not fit
    /// are only counted.
    #[must_use]
    pub fn encode(&self, area: &CapacityArea) -> Vec<u8> {
        let mut w = Writer::default();
        w.bytes.extend_from_slice(&MAGIC);
        w.u32(0);
        w.u64(self.next_sequence);
        let unapplied = &self.unapplied[self.unapplied.len().saturating_sub(UNAPPLIED_MAX)..];
        w.u32(unapplied.len() as u32);
        unapplied.iter().for_each(|sequence| w.u64(*sequence));
        w.u32(self.bands.len() as u32);
        for band in &self.bands {
            w.u32(band.generation);
            w.u32(band.groups | if band.is_free { FREE } else { 0 });
        }
        w.u32(self.open_groups.len() as u32);
        for (band, group, entries) in &self.open_groups {
            w.u32(*band);
            w.u32(*group);
            w.u32(entries.len() as u32);
            entries.iter().for_each(|entry| entry.put(&mut w));
        }
        let mut room = area.blob_bytes_max().saturating_sub(w.bytes.len() as u64 + 4);
        let of_base = |disk: &CapacityDisk| if disk.base.is_some() { Base::BYTES } else { 0 };
        let head = |disk: &CapacityDisk| 22 + of_base(disk) + disk.name.len() as u64;
        // Where there is room for all disks, the pages of one must not take the room of the others.
        let heads = self.disks.iter().map(head).sum();
        let mut pages_left = room.checked_sub(heads).map_or(u64::MAX, |left| left / PAGE_REF_BYTES);
        let is_for_all = heads <= room;
        let size =
            |disk: &CapacityDisk| head(disk) + if is_for_all { 0 } else { disk.pages.len() as u64 * PAGE_REF_BYTES };
        let fits = |disk: &&CapacityDisk| {
            let fits = size(disk) <= room;
            room = room.saturating_sub(size(disk));
            fits
        };
        let listed: Vec<&CapacityDisk> = self.disks.iter().take_while(fits).collect();
        w.u16(listed.len() as u16);
        w.u16(self.disks_missing.saturating_add((self.disks.len() - listed.len()) as u16));
        for disk in listed {
            let pages = &disk.pages[..disk.pages.len().min(pages_left as usize)];
            pages_left -= pages.len() as u64;
            let first_missing = disk.pages.get(pages.len()).map_or(ALL_LISTED, |page| page.number);
            w.u16(disk.id);
            w.blob(disk.name.as_bytes());
            w.u64(disk.size_bytes | if disk.base.is_some() { HAS_BASE } else { 0 });
            disk.base.iter().for_each(|base| base.put(&mut w));
            w.u32(disk.unlisted_from.min(first_missing));
            w.u32(pages.len() as u32);
            for page in pages {
                w.u32(page.number);
                w.u32(page.slot);
                w.u32(page.crc);
            }
        }
        seal(&mut w.bytes);
        w.bytes
    }

    /// Header for an encoded blob.
    #[must_use]
    pub fn header(blob: &[u8], checkpoint: u64, epoch: u64, generation: u32) -> CapacityHeader {
        CapacityHeader { checkpoint, epoch, blob_len_bytes: blob.len() as u64, blob_crc: crc32c(blob), generation }
    }

    /// Decodes a blob; `None` where it holds what the pool of this superblock cannot have.
    #[must_use]
    pub fn decode(bytes: &[u8], superblock: &Superblock) -> Option<Self> {
        if !is_sealed(bytes, MAGIC) {
            return None;
        }
        let shape = BandShape::new(superblock.band_bytes);
        let mut r = Reader::new(&bytes[8..]);
        let mut root = Self { next_sequence: r.u64()?, ..Self::default() };
        let unapplied = r.u32()? as usize;
        if root.next_sequence >= COUNTER_LIMIT || unapplied > UNAPPLIED_MAX {
            return None;
        }
        root.unapplied = (0..unapplied).map(|_| r.u64()).collect::<Option<_>>()?;
        let is_past = root.unapplied.last().is_none_or(|&last| last < root.next_sequence);
        if !root.unapplied.is_sorted_by(|a, b| a < b) || !is_past {
            return None;
        }
        let band_sectors = superblock.band_bytes / 512;
        let bands: u64 = superblock.members.iter().skip(1).map(|member| member.sectors / band_sectors).sum();
        if u64::from(r.u32()?) != bands || (r.remaining() as u64) < bands * 8 {
            return None;
        }
        for _ in 0..bands {
            let (generation, groups) = (r.u32()?, r.u32()?);
            let band = CapacityBand { generation, groups: groups & !FREE, is_free: groups & FREE != 0 };
            if band.groups > shape.groups() || band.is_free && band.groups > 0 {
                return None;
            }
            root.bands.push(band);
        }
        root.take_open_groups(&mut r, shape)?;
        root.take_disks(&mut r, &superblock.capacity_area)?;
        (r.remaining() == 0).then_some(root)
    }

    fn take_open_groups(&mut self, r: &mut Reader<'_>, shape: BandShape) -> Option<()> {
        let mut seen = BTreeSet::new();
        for _ in 0..r.u32()? {
            let (number, group, entries) = (r.u32()?, r.u32()?, r.u32()? as usize);
            let band = self.bands.get(number as usize)?;
            // One for each band: the group that its data had come to.
            if band.is_free || group != band.groups || group >= shape.groups() || !seen.insert(number) {
                return None;
            }
            self.open_groups.push((number, group, take_entries(r, entries, shape.group_grains(group))?));
        }
        Some(())
    }

    fn take_disks(&mut self, r: &mut Reader<'_>, area: &CapacityArea) -> Option<()> {
        let (mut ids, mut slots) = (BTreeSet::new(), BTreeSet::new());
        let disks = r.u16()?;
        self.disks_missing = r.u16()?;
        for _ in 0..disks {
            let id = r.u16()?;
            let name = std::str::from_utf8(r.blob()?).ok()?.to_owned();
            let size = r.u64()?;
            let (size_bytes, has_base) = (size & !HAS_BASE, size & HAS_BASE != 0);
            let base = if has_base { Some(Base::take(r)?) } else { None };
            let (unlisted_from, count) = (r.u32()?, r.u32()?);
            if base.is_some_and(|base| !base.is_possible(size_bytes)) {
                return None;
            }
            if id == 0 || !ids.insert(id) || size_bytes > DISK_BYTES_MAX || name.len() > 255 {
                return None;
            }
            let numbers = pages_of_disk(size_bytes);
            let mut pages: Vec<TierPageRef> = Vec::new();
            for _ in 0..count {
                let page = TierPageRef { number: r.u32()?, slot: r.u32()?, crc: r.u32()? };
                let is_next = pages.last().is_none_or(|before| before.number < page.number);
                if !is_next
                    || u64::from(page.number) >= numbers
                    || u64::from(page.slot) >= area.slots()
                    || !slots.insert(page.slot)
                {
                    return None;
                }
                pages.push(page);
            }
            self.disks.push(CapacityDisk { id, name, size_bytes, base, unlisted_from, pages });
        }
        Some(())
    }
}

/// Pages that a disk of this size has at most.
#[must_use]
pub fn pages_of_disk(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(BLOCK).div_ceil((LEAF_ENTRIES * PAGE_LEAVES) as u64)
}

#[cfg(test)]
#[path = "capacity_root_tests.rs"]
mod tests;
