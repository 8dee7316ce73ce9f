//! The blob of a root: its sections, bounded by the geometry in the superblock.

use super::band_summary::{SummaryEntry, take_entries};
use super::base::Base;
use super::codec::{COUNTER_LIMIT, Reader, Writer};
use super::page::{BLOCK_GRAINS, INDEX_ENTRIES, LEAF_ENTRIES, PAGE_BYTES, PageRef};
use super::root::{BandRoot, BandState, DiskRoot, Root, RootBounds};
use super::scrub_record::ScrubRecord;
use super::sections::{COMPATIBLE, RootError, Tag, error, put_section, split};
use super::stream::Stream;
use super::unwritten_groups;
use forebay_block::ClassId;
use forebay_prism::ClassStats;
use std::collections::BTreeSet;

const SHARD: Tag = *b"SHRD";
const POOL: Tag = *b"POOL";
const DISKS: Tag = *b"DISK";
const CLASSES: Tag = *b"CLAS";
const STATISTICS: Tag = *b"BOOK";
const EVIDENCE: Tag = *b"EVID";
const BANDS: Tag = *b"BAND";
const OPEN: Tag = *b"OPEN";
const SLOTS: Tag = *b"SLOT";
/// How far a scrub is; programs without scrubs keep this section.
const SCRUB: Tag = *b"SCRB";
/// Entries of complete groups whose summary cannot be written, where there are any.
const UNWRITTEN: Tag = *b"UNWR";
/// Bytes that the blocks of each class take in bands, where some are compressed.
const PACKED: Tag = *b"PACK";
/// Bytes that compression saved of what was written to bands, over the pool's life, where it saved any.
const SAVED: Tag = *b"SAVE";
/// Bases of disks, where there are any. A program without bases must refuse it: it would read zeros where a base has data.
const BASES: Tag = *b"BASE";
const KNOWN: [Tag; 9] = [SHARD, POOL, DISKS, CLASSES, STATISTICS, EVIDENCE, BANDS, OPEN, SLOTS];
/// Largest size of a disk in bytes.
const DISK_BYTES_MAX: u64 = 1 << 58;

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

/// Counts that would be refused as impossible stay where they are: a pool that has moved four exabytes is none the worse.
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
        w.u64(value.min(COUNTER_LIMIT - 1));
    }
}

fn put_band(w: &mut Writer, band: &BandRoot) {
    w.u8(band.state as u8);
    w.bytes.extend_from_slice(&band.stream.to_bytes());
    w.u8(0);
    w.u32(band.valid);
    w.u32(band.blocks);
    w.u32(band.written);
    w.u32(band.generation);
    w.u64(band.closed_at);
}

/// Bytes that the blocks of a class take in bands where none is compressed.
fn as_if_whole(class: &ClassStats) -> u64 {
    class.capacity_blocks.saturating_mul(PAGE_BYTES as u64)
}

/// Encodes the blob.
#[must_use]
pub fn encode(root: &Root) -> Vec<u8> {
    let mut w = Writer::default();
    w.bytes.reserve(root.slots.len() * 8 + root.bands.len() * 24 + 65536);
    let mut section = |tag: Tag, put: &dyn Fn(&mut Writer)| put_section(&mut w, (tag, 0, 0), put);
    section(SHARD, &|w| {
        w.u64(root.journal_position);
        w.u64(root.journal_batch);
        w.u64(root.next_sequence);
        w.u32(root.unapplied.len() as u32);
        root.unapplied.iter().for_each(|sequence| w.u64(*sequence));
    });
    section(POOL, &|w| {
        w.u8(u8::from(root.clean));
        w.u32(root.generation);
        w.u16(root.next_disk);
    });
    section(DISKS, &|w| {
        w.u16(root.disks.len() as u16);
        root.disks.iter().for_each(|disk| put_disk(w, disk));
    });
    let bases: Vec<(u16, Base)> = root.disks.iter().filter_map(|disk| Some((disk.id, disk.base?))).collect();
    if !bases.is_empty() {
        section(BASES, &|w| {
            w.u16(bases.len() as u16);
            bases.iter().for_each(|(id, base)| {
                w.u16(*id);
                base.put(w);
            });
        });
    }
    section(CLASSES, &|w| w.bytes.extend_from_slice(&root.classes));
    section(STATISTICS, &|w| {
        w.u16(root.stats.len() as u16);
        root.stats.iter().for_each(|class| put_statistics(w, class));
    });
    section(EVIDENCE, &|w| w.bytes.extend_from_slice(&root.evidence));
    section(BANDS, &|w| {
        w.u64(root.band_clock);
        w.u32(root.bands.len() as u32);
        root.bands.iter().for_each(|band| put_band(w, band));
    });
    section(OPEN, &|w| {
        w.u32(root.open_groups.len() as u32);
        for (band, group, entries) in &root.open_groups {
            w.u32(*band);
            w.u32(*group);
            w.u32(entries.len() as u32);
            entries.iter().for_each(|entry| entry.put(w));
        }
    });
    section(SLOTS, &|w| {
        w.u32(root.slots.len() as u32);
        root.slots.iter().for_each(|word| w.u64(*word));
    });
    if root.scrub != ScrubRecord::default() {
        put_section(&mut w, (SCRUB, 0, COMPATIBLE), |w| root.scrub.put(w));
    }
    if root.stats.iter().any(|class| class.stored_bytes != as_if_whole(class)) {
        put_section(&mut w, (PACKED, 0, COMPATIBLE), |w| root.stats.iter().for_each(|class| w.u64(class.stored_bytes)));
    }
    if root.saved_bytes > 0 {
        put_section(&mut w, (SAVED, 0, COMPATIBLE), |w| w.u64(root.saved_bytes));
    }
    if !root.unwritten_groups.is_empty() {
        put_section(&mut w, (UNWRITTEN, 0, COMPATIBLE), |w| unwritten_groups::put(&root.unwritten_groups, w));
    }
    for kept in &root.kept {
        put_section(&mut w, (kept.tag, kept.shard, COMPATIBLE), |w| w.bytes.extend_from_slice(&kept.payload));
    }
    w.bytes
}

/// Encodes the blob within so many bytes. Where they are too few, it leaves out what the classifier has learned, which it learns again, and then the
/// entries of groups whose summary cannot be written, as if these were damaged: there must be a root. `None`: they are too few for the rest.
#[must_use]
pub fn encode_within(root: &Root, bytes_max: u64) -> Option<Vec<u8>> {
    let fits = |blob: &Vec<u8>| blob.len() as u64 <= bytes_max;
    let less = || Root { evidence: Vec::new(), ..root.clone() };
    let least = || Root { unwritten_groups: Vec::new(), ..less() };
    let or = |root: &dyn Fn() -> Root| Some(encode(&root())).filter(fits);
    Some(encode(root)).filter(fits).or_else(|| or(&less)).or_else(|| or(&least))
}

/// Decodes a blob.
///
/// # Errors
/// Names the first section that is not as it can be in a pool of these bounds.
pub fn decode(bytes: &[u8], bounds: &RootBounds) -> Result<Root, RootError> {
    let known: Vec<Tag> = KNOWN.into_iter().chain([BASES]).collect();
    let (mut sections, mut kept) = split(bytes, &known)?;
    let bases = sections.remove(&BASES);
    let mut optional = |tag: Tag| {
        let at = kept.iter().position(|section| (section.tag, section.shard) == (tag, 0));
        at.map(|at| kept.remove(at))
    };
    let (scrub, packed, unwritten) = (optional(SCRUB), optional(PACKED), optional(UNWRITTEN));
    // It is only about wear: where it is impossible, nothing was saved.
    let saved = optional(SAVED).and_then(|section| Reader::new(&section.payload).u64());
    let saved_bytes = saved.filter(|&bytes| bytes < COUNTER_LIMIT).unwrap_or_default();
    // Nothing depends on it: where it is impossible, there was no scrub.
    let scrub = scrub.and_then(|section| ScrubRecord::take(&mut Reader::new(&section.payload))).unwrap_or_default();
    let mut root = Root { kept, scrub, saved_bytes, ..Root::default() };
    // Bands come before the groups that lie in them.
    for tag in KNOWN {
        let payload = sections.remove(&tag).ok_or_else(|| error(tag, "it is missing"))?;
        let mut r = Reader::new(payload);
        take(&mut root, tag, &mut r, bounds)
            .ok_or_else(|| error(tag, "it is cut short"))?
            .map_err(|w| error(tag, w))?;
        if r.remaining() > 0 {
            return Err(error(tag, "it is longer than what is in it"));
        }
    }
    if let Some(payload) = bases {
        take_bases(&mut root, &mut Reader::new(payload)).ok_or_else(|| error(BASES, "a base that cannot be"))?;
    }
    // Where they are impossible, the bands count as bands with a damaged summary.
    let unwritten = unwritten.and_then(|section| unwritten_groups::take(&section.payload, &root.bands, bounds));
    root.unwritten_groups = unwritten.unwrap_or_default();
    let packed = packed.map_or_else(Vec::new, |section| section.payload);
    let mut r = Reader::new(&packed);
    for class in &mut root.stats {
        // Where it is impossible, the blocks count as whole ones: only policies and people use it.
        let stored = r.u64().filter(|&bytes| bytes <= as_if_whole(class));
        class.stored_bytes = stored.unwrap_or_else(|| as_if_whole(class));
    }
    Ok(root)
}

/// Takes one section; `None` where it ends too early.
fn take(root: &mut Root, tag: Tag, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
    match tag {
        SHARD => take_shard(root, r, bounds),
        POOL => {
            (root.clean, root.generation, root.next_disk) = (r.u8()? != 0, r.u32()?, r.u16()?);
            Some(Ok(()))
        }
        DISKS => take_disks(root, r, bounds),
        STATISTICS => take_statistics(root, r, bounds),
        BANDS => take_bands(root, r, bounds),
        OPEN => take_open_groups(root, r, bounds),
        SLOTS => {
            if u64::from(r.u32()?) != bounds.slots.div_ceil(64) {
                return Some(Err("another number of slots than the pool has"));
            }
            root.slots = (0..bounds.slots.div_ceil(64)).map_while(|_| r.u64()).collect();
            (root.slots.len() as u64 == bounds.slots.div_ceil(64)).then_some(Ok(()))
        }
        _ => {
            let rest = r.take(r.remaining())?.to_vec();
            *(if tag == CLASSES { &mut root.classes } else { &mut root.evidence }) = rest;
            Some(Ok(()))
        }
    }
}

fn take_shard(root: &mut Root, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
    (root.journal_position, root.journal_batch, root.next_sequence) = (r.u64()?, r.u64()?, r.u64()?);
    for _ in 0..r.u32()? {
        root.unapplied.push(r.u64()?);
    }
    if [root.journal_position, root.journal_batch, root.next_sequence].iter().any(|&n| n >= COUNTER_LIMIT)
        || !root.journal_position.is_multiple_of(bounds.journal_sector_bytes)
    {
        return Some(Err("an impossible start of the journal"));
    }
    let is_sorted = root.unapplied.is_sorted_by(|a, b| a < b);
    if !is_sorted || root.unapplied.last().is_some_and(|&last| last >= root.next_sequence) {
        return Some(Err("impossible sequences"));
    }
    Some(Ok(()))
}

fn take_disks(root: &mut Root, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
    let (mut ids, mut pages) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..r.u16()? {
        let mut disk = DiskRoot { id: r.u16()?, ..DiskRoot::default() };
        let Ok(name) = String::from_utf8(r.blob()?.to_vec()) else { return Some(Err("a name that is no text")) };
        disk.name = name;
        disk.size_bytes = r.u64()?;
        if disk.id == 0 || disk.id >= root.next_disk || !ids.insert(disk.id) || disk.size_bytes > DISK_BYTES_MAX {
            return Some(Err("an impossible disk"));
        }
        let numbers = disk.size_bytes.div_ceil((LEAF_ENTRIES * INDEX_ENTRIES * 4096) as u64);
        for _ in 0..r.u32()? {
            let number = r.u32()?;
            let reference = PageRef { location: r.u64()?, stageable: 0, crc: r.u32()?, generation: r.u32()? };
            let slot = (reference.location / BLOCK_GRAINS).checked_sub(1);
            let is_slot = reference.location.is_multiple_of(BLOCK_GRAINS) && slot.is_some_and(|s| s < bounds.slots);
            let is_next = disk.pages.last().is_none_or(|(before, _)| *before < number);
            if !is_slot || !is_next || u64::from(number) >= numbers || !pages.insert(reference.location) {
                return Some(Err("an index page where none can be"));
            }
            disk.pages.push((number, reference));
        }
        root.disks.push(disk);
    }
    Some(Ok(()))
}

/// `None` where a base has no disk, or is impossible.
fn take_bases(root: &mut Root, r: &mut Reader<'_>) -> Option<()> {
    for _ in 0..r.u16()? {
        let (id, base) = (r.u16()?, Base::take(r)?);
        let disk = root.disks.iter_mut().find(|disk| disk.id == id)?;
        if !base.is_possible(disk.size_bytes) || disk.base.replace(base).is_some() {
            return None;
        }
    }
    (r.remaining() == 0).then_some(())
}

fn take_statistics(root: &mut Root, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
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
            stored_bytes: 0,
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
            || class.capacity_blocks > bounds.bands.saturating_mul(bounds.band_blocks_max())
        {
            return Some(Err("an impossible count"));
        }
        root.stats.push(class);
    }
    Some(Ok(()))
}

fn take_bands(root: &mut Root, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
    root.band_clock = r.u64()?;
    if u64::from(r.u32()?) != bounds.bands || root.band_clock >= COUNTER_LIMIT {
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
        let stream = Stream::from_bytes([r.u8()?, r.u8()?]);
        r.u8()?;
        let Some(stream) = stream else { return Some(Err("a band of a stream that cannot be")) };
        let (valid, blocks, written) = (r.u32()?, r.u32()?, r.u32()?);
        let band = BandRoot { state, stream, valid, blocks, written, generation: r.u32()?, closed_at: r.u64()? };
        let block = band.frontier();
        if band.valid > bounds.shape.data_blocks() * BLOCK_GRAINS as u32
            || u64::from(band.blocks) > bounds.band_blocks_max()
            || band.written > bounds.shape.grains()
            || !band.written.is_multiple_of(BLOCK_GRAINS as u32)
            || bounds.shape.skip_summary(block) != block
            || band.closed_at > root.band_clock
        {
            return Some(Err("a band holds more than it can"));
        }
        if state == BandState::Open && (band.written == bounds.shape.grains() || !streams.insert(stream)) {
            return Some(Err("an open band is full, or its stream has another"));
        }
        root.bands.push(band);
    }
    Some(Ok(()))
}

fn take_open_groups(root: &mut Root, r: &mut Reader<'_>, bounds: &RootBounds) -> Option<Result<(), &'static str>> {
    let mut seen = BTreeSet::new();
    for _ in 0..r.u32()? {
        let (band, group, count) = (r.u32()?, r.u32()?, r.u32()? as usize);
        let open = root.bands.get(band as usize).filter(|band| band.state == BandState::Open);
        let filling = open.map(|band| bounds.shape.group_of(band.frontier()));
        if filling != Some(group) || !seen.insert(band) {
            return Some(Err("a group that is not the incomplete one of an open band"));
        }
        if r.remaining() < count.saturating_mul(SummaryEntry::BYTES) {
            return None;
        }
        let Some(entries) = take_entries(r, count, bounds.shape.group_grains(group)) else {
            return Some(Err("entries that a group cannot have"));
        };
        root.open_groups.push((band, group, entries));
    }
    Some(Ok(()))
}

#[cfg(test)]
#[path = "root_blob_tests.rs"]
mod tests;
