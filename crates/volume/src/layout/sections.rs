//! The blob of a root: a row of tagged sections, each with its own checksum, bounded by the geometry that the superblock
//! tells.

use super::band_summary::{BandShape, SummaryEntry, take_entries};
use super::codec::COUNTER_LIMIT;
use super::codec::{Reader, Writer};
use super::page::{BLOCK_SECTORS, INDEX_ENTRIES, LEAF_ENTRIES, PageRef};
use super::root::{BandRoot, BandState, DiskRoot, KeptSection, Root};
use super::superblock::Superblock;
use super::{is_sealed, seal};
use forebay_block::ClassId;
use forebay_prism::ClassStats;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

type Tag = [u8; 4];

const SHARD: Tag = *b"SHRD";
const POOL: Tag = *b"POOL";
const DISKS: Tag = *b"DISK";
const CLASSES: Tag = *b"CLAS";
const STATISTICS: Tag = *b"BOOK";
const EVIDENCE: Tag = *b"EVID";
const BANDS: Tag = *b"BAND";
const OPEN: Tag = *b"OPEN";
const SLOTS: Tag = *b"SLOT";
const KNOWN: [Tag; 9] = [SHARD, POOL, DISKS, CLASSES, STATISTICS, EVIDENCE, BANDS, OPEN, SLOTS];
/// A program that does not know the section may keep it.
const COMPATIBLE: u8 = 1;
const HEADER_BYTES: usize = 16;
/// Largest size of a disk in bytes.
const DISK_BYTES_MAX: u64 = 1 << 58;
/// Generations of pages stay below this.
const GENERATION_LIMIT: u32 = 1 << 31;

/// Why a blob is not a root.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("section {section} of it: {what}")]
pub struct RootError {
    /// The section.
    pub section: String,
    /// What is wrong.
    pub what: &'static str,
}

fn error(tag: Tag, what: &'static str) -> RootError {
    let section = tag.iter().map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '?' }).collect();
    RootError { section, what }
}

/// What a root can name, by the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootBounds {
    shape: BandShape,
    bands: u64,
    slots: u64,
    /// Sectors of the whole pool.
    sectors: u64,
    journal_sector_bytes: u64,
}

/// Room for sections of newer programs in what is read of a root, in bytes.
const KEPT_BYTES_MAX: u64 = 16 << 20;

impl RootBounds {
    /// Largest blob that a root of the pool can have, in bytes.
    #[must_use]
    pub fn blob_bytes_max(&self) -> u64 {
        // Each index page lies in a slot.
        Root::size_bound_bytes(self.slots, self.bands, self.slots) + KEPT_BYTES_MAX
    }

    /// Of a pool.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Self {
        let band_sectors = superblock.band_bytes / 512;
        Self {
            shape: BandShape::new(superblock.band_bytes),
            bands: superblock.members[1..].iter().map(|member| member.sectors / band_sectors).sum(),
            slots: superblock.slots,
            sectors: superblock.members.iter().map(|member| member.sectors).sum(),
            journal_sector_bytes: u64::from(superblock.journal_sector_bytes),
        }
    }
}

/// Appends a section.
fn put_section(w: &mut Writer, (tag, shard, flags): (Tag, u16, u8), put: impl FnOnce(&mut Writer)) {
    let start = w.bytes.len();
    w.bytes.extend_from_slice(&tag);
    w.u32(0);
    w.u32(0);
    w.u16(shard);
    w.u8(flags);
    w.u8(0);
    put(w);
    let len = (w.bytes.len() - start - HEADER_BYTES) as u32;
    w.bytes[start + 8..start + 12].copy_from_slice(&len.to_le_bytes());
    seal(&mut w.bytes[start..]);
}

fn put_disk(w: &mut Writer, disk: &DiskRoot) {
    w.u16(disk.id);
    w.blob(disk.name.as_bytes());
    w.u64(disk.size_bytes);
    w.u32(disk.pages.len() as u32);
    for (number, reference) in &disk.pages {
        w.u32(*number);
        w.u64(reference.location);
        w.u32(reference.crc);
        w.u32(reference.generation);
    }
}

fn put_statistics(w: &mut Writer, class: &ClassStats) {
    for value in [
        class.host_written_bytes,
        class.bypassed_bytes,
        class.destaged_bytes,
        class.collected_bytes,
        class.host_read_bytes,
        class.fast_read_bytes,
        class.fast_blocks,
        class.capacity_blocks,
        class.reclassed_in_bytes,
        class.reclassed_out_bytes,
    ] {
        w.u64(value);
    }
}

fn put_band(w: &mut Writer, band: &BandRoot) {
    w.u8(band.state as u8);
    w.u8(band.stream);
    w.u16(0);
    w.u32(band.valid);
    w.u32(band.written);
    w.u32(band.generation);
    w.u64(band.closed_at);
}

impl Root {
    /// Encodes the blob.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.bytes.reserve(self.slots.len() * 8 + self.bands.len() * 24 + 65536);
        let mut section = |tag: Tag, put: &dyn Fn(&mut Writer)| put_section(&mut w, (tag, 0, 0), put);
        section(SHARD, &|w| {
            w.u64(self.journal_position);
            w.u64(self.journal_batch);
            w.u64(self.next_sequence);
            w.u32(self.unapplied.len() as u32);
            self.unapplied.iter().for_each(|sequence| w.u64(*sequence));
        });
        section(POOL, &|w| {
            w.u8(u8::from(self.clean));
            w.u32(self.generation);
            w.u16(self.next_disk);
        });
        section(DISKS, &|w| {
            w.u16(self.disks.len() as u16);
            self.disks.iter().for_each(|disk| put_disk(w, disk));
        });
        section(CLASSES, &|w| w.bytes.extend_from_slice(&self.classes));
        section(STATISTICS, &|w| {
            w.u16(self.stats.len() as u16);
            self.stats.iter().for_each(|class| put_statistics(w, class));
        });
        section(EVIDENCE, &|w| w.bytes.extend_from_slice(&self.evidence));
        section(BANDS, &|w| {
            w.u64(self.band_clock);
            w.u32(self.bands.len() as u32);
            self.bands.iter().for_each(|band| put_band(w, band));
        });
        section(OPEN, &|w| {
            w.u32(self.open_groups.len() as u32);
            for (band, group, entries) in &self.open_groups {
                w.u32(*band);
                w.u32(*group);
                w.u32(entries.len() as u32);
                entries.iter().for_each(|entry| entry.put(w));
            }
        });
        section(SLOTS, &|w| {
            w.u32(self.slots.len() as u32);
            self.slots.iter().for_each(|word| w.u64(*word));
        });
        for kept in &self.kept {
            put_section(&mut w, (kept.tag, kept.shard, COMPATIBLE), |w| w.bytes.extend_from_slice(&kept.payload));
        }
        w.bytes
    }

    /// Decodes a blob.
    ///
    /// # Errors
    /// Names the first section that is not as it can be in a pool of these bounds.
    pub fn decode(bytes: &[u8], bounds: &RootBounds) -> Result<Self, RootError> {
        let (mut sections, kept) = split(bytes)?;
        let mut root = Self { kept, ..Self::default() };
        // Bands come before the groups that lie in them.
        for tag in KNOWN {
            let payload = sections.remove(&tag).ok_or_else(|| error(tag, "it is missing"))?;
            let mut r = Reader::new(payload);
            root.take(tag, &mut r, bounds).ok_or_else(|| error(tag, "it is cut short"))?.map_err(|w| error(tag, w))?;
            if r.remaining() > 0 {
                return Err(error(tag, "it is longer than what is in it"));
            }
        }
        Ok(root)
    }

    /// Takes one section; `None` where it ends too early.
    fn take(&mut self, tag: Tag, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
        match tag {
            SHARD => self.take_shard(r, bounds),
            POOL => {
                (self.clean, self.generation, self.next_disk) = (r.u8()? != 0, r.u32()?, r.u16()?);
                Some(if self.generation < GENERATION_LIMIT { Ok(()) } else { Err("an impossible generation") })
            }
            DISKS => self.take_disks(r, bounds),
            STATISTICS => self.take_statistics(r, bounds),
            BANDS => self.take_bands(r, bounds),
            OPEN => self.take_open_groups(r, bounds),
            SLOTS => {
                if u64::from(r.u32()?) != bounds.slots.div_ceil(64) {
                    return Some(Err("another number of slots than the pool has"));
                }
                self.slots = (0..bounds.slots.div_ceil(64)).map_while(|_| r.u64()).collect();
                (self.slots.len() as u64 == bounds.slots.div_ceil(64)).then_some(Ok(()))
            }
            _ => {
                let rest = r.take(r.remaining())?.to_vec();
                *(if tag == CLASSES { &mut self.classes } else { &mut self.evidence }) = rest;
                Some(Ok(()))
            }
        }
    }

    fn take_shard(&mut self, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
        (self.journal_position, self.journal_batch, self.next_sequence) = (r.u64()?, r.u64()?, r.u64()?);
        for _ in 0..r.u32()? {
            self.unapplied.push(r.u64()?);
        }
        if [self.journal_position, self.journal_batch, self.next_sequence].iter().any(|&n| n >= COUNTER_LIMIT)
            || !self.journal_position.is_multiple_of(bounds.journal_sector_bytes)
        {
            return Some(Err("an impossible start of the journal"));
        }
        let is_sorted = self.unapplied.is_sorted_by(|a, b| a < b);
        if !is_sorted || self.unapplied.last().is_some_and(|&last| last >= self.next_sequence) {
            return Some(Err("impossible sequences"));
        }
        Some(Ok(()))
    }

    fn take_disks(&mut self, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
        let (mut ids, mut pages) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..r.u16()? {
            let mut disk = DiskRoot { id: r.u16()?, ..DiskRoot::default() };
            let Ok(name) = String::from_utf8(r.blob()?.to_vec()) else { return Some(Err("a name that is no text")) };
            disk.name = name;
            disk.size_bytes = r.u64()?;
            if disk.id == 0 || disk.id >= self.next_disk || !ids.insert(disk.id) || disk.size_bytes > DISK_BYTES_MAX {
                return Some(Err("an impossible disk"));
            }
            let numbers = disk.size_bytes.div_ceil((LEAF_ENTRIES * INDEX_ENTRIES * 4096) as u64);
            for _ in 0..r.u32()? {
                let number = r.u32()?;
                let reference = PageRef { location: r.u64()?, stageable: 0, crc: r.u32()?, generation: r.u32()? };
                let slot = (reference.location / BLOCK_SECTORS).checked_sub(1);
                let is_slot =
                    reference.location.is_multiple_of(BLOCK_SECTORS) && slot.is_some_and(|s| s < bounds.slots);
                let is_next = disk.pages.last().is_none_or(|(before, _)| *before < number);
                if !is_slot || !is_next || u64::from(number) >= numbers || !pages.insert(reference.location) {
                    return Some(Err("an index page where none can be"));
                }
                disk.pages.push((number, reference));
            }
            self.disks.push(disk);
        }
        Some(Ok(()))
    }

    fn take_statistics(&mut self, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
        let classes = usize::from(r.u16()?);
        if classes > ClassId::LIMIT {
            return Some(Err("more classes than there can be"));
        }
        for _ in 0..classes {
            let class = ClassStats {
                host_written_bytes: r.u64()?,
                bypassed_bytes: r.u64()?,
                destaged_bytes: r.u64()?,
                collected_bytes: r.u64()?,
                host_read_bytes: r.u64()?,
                fast_read_bytes: r.u64()?,
                fast_blocks: r.u64()?,
                capacity_blocks: r.u64()?,
                reclassed_in_bytes: r.u64()?,
                reclassed_out_bytes: r.u64()?,
            };
            let counts = [
                class.host_written_bytes,
                class.bypassed_bytes,
                class.destaged_bytes,
                class.collected_bytes,
                class.host_read_bytes,
                class.fast_read_bytes,
                class.reclassed_in_bytes,
                class.reclassed_out_bytes,
            ];
            if counts.iter().any(|&count| count >= COUNTER_LIMIT)
                || class.fast_blocks > bounds.slots
                || class.capacity_blocks > bounds.sectors
            {
                return Some(Err("an impossible count"));
            }
            self.stats.push(class);
        }
        Some(Ok(()))
    }

    fn take_bands(&mut self, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
        self.band_clock = r.u64()?;
        if u64::from(r.u32()?) != bounds.bands || self.band_clock >= COUNTER_LIMIT {
            return Some(Err("another number of bands than the pool has"));
        }
        let mut streams = BTreeSet::new();
        for _ in 0..bounds.bands {
            let state = match r.u8()? {
                0 => BandState::Free,
                1 => BandState::Open,
                2 => BandState::Closed,
                _ => return Some(Err("a band in no known state")),
            };
            let stream = r.u8()?;
            r.u16()?;
            let band = BandRoot {
                state,
                stream,
                valid: r.u32()?,
                written: r.u32()?,
                generation: r.u32()?,
                closed_at: r.u64()?,
            };
            let block = band.written / BLOCK_SECTORS as u32;
            if band.valid > bounds.shape.data_blocks() * BLOCK_SECTORS as u32
                || band.written > bounds.shape.sectors()
                || !band.written.is_multiple_of(BLOCK_SECTORS as u32)
                || bounds.shape.skip_summary(block) != block
                || band.closed_at > self.band_clock
            {
                return Some(Err("a band holds more than it can"));
            }
            if state == BandState::Open && (band.written == bounds.shape.sectors() || !streams.insert(stream)) {
                return Some(Err("an open band is full, or its stream has another"));
            }
            self.bands.push(band);
        }
        Some(Ok(()))
    }

    fn take_open_groups(&mut self, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
        let mut seen = BTreeSet::new();
        for _ in 0..r.u32()? {
            let (band, group, count) = (r.u32()?, r.u32()?, r.u32()? as usize);
            let open = self.bands.get(band as usize).filter(|band| band.state == BandState::Open);
            let filling = open.map(|band| bounds.shape.group_of(band.written / BLOCK_SECTORS as u32));
            if filling != Some(group) || !seen.insert(band) {
                return Some(Err("a group that is not the incomplete one of an open band"));
            }
            if r.remaining() < count.saturating_mul(SummaryEntry::BYTES) {
                return None;
            }
            let Some(entries) = take_entries(r, count, bounds.shape.group_sectors(group)) else {
                return Some(Err("entries that a group cannot have"));
            };
            self.open_groups.push((band, group, entries));
        }
        Some(Ok(()))
    }
}

/// Cuts a blob into the payloads of known sections, by tag, and unknown ones that may be kept.
#[expect(clippy::type_complexity, reason = "named nowhere else")]
fn split(bytes: &[u8]) -> Result<(BTreeMap<Tag, &[u8]>, Vec<KeptSection>), RootError> {
    let (mut known, mut kept) = (BTreeMap::new(), Vec::<KeptSection>::new());
    let mut rest = bytes;
    while !rest.is_empty() {
        let tag: Tag = rest.first_chunk().copied().unwrap_or_default();
        let (len, shard, flags) = header(rest).ok_or_else(|| error(tag, "it is cut short"))?;
        let end = HEADER_BYTES.checked_add(len).ok_or_else(|| error(tag, "it is cut short"))?;
        let (section, after) = rest.split_at_checked(end).ok_or_else(|| error(tag, "it is cut short"))?;
        rest = after;
        if !is_sealed(section, tag) {
            return Err(error(tag, "its checksum does not match"));
        }
        let payload = &section[HEADER_BYTES..];
        if KNOWN.contains(&tag) {
            if shard != 0 || flags != 0 || known.insert(tag, payload).is_some() {
                return Err(error(tag, "it is there twice, or of a shard that is not there"));
            }
        } else if flags != COMPATIBLE {
            return Err(error(tag, "it needs a newer program"));
        } else if kept.iter().any(|other| (other.tag, other.shard) == (tag, shard)) {
            return Err(error(tag, "it is there twice"));
        } else {
            kept.push(KeptSection { tag, shard, payload: payload.to_vec() });
        }
    }
    Ok((known, kept))
}

/// Length of the payload, shard and flags of the section that begins here.
fn header(bytes: &[u8]) -> Option<(usize, u16, u8)> {
    let mut r = Reader::new(bytes.get(8..HEADER_BYTES)?);
    Some((r.u32()? as usize, r.u16()?, r.u8()?))
}

#[cfg(test)]
#[path = "sections_tests.rs"]
mod tests;
