//! Reading the root that checkpoints leave on the capacity tier.

use super::leaves::{next_leaves, read_leaves};
use crate::engine::Engine;
use crate::io::Devices;
use crate::layout::band_summary::{BandShape, SUMMARY_PAGES_MAX, SummaryEntry, decode_named};
use crate::layout::capacity_root::{ALL_LISTED, CapacityBand, CapacityHeader, CapacityRoot, DEVICE, HEADER_BYTES};
use crate::layout::page::PAGE_BYTES;
use crate::layout::root::{Root, RootHeader};
use crate::layout::superblock::Superblock;
use crate::layout::tier_page::{LeafTiers, PAGE_LEAVES};
use crate::space::groups::GroupKey;
use forebay_block::DiskId;
use forebay_block::checksum::crc32c;
use std::collections::BTreeMap;

/// What an area holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No header: never written, or damaged.
    Nothing,
    /// A header whose blob is damaged, or holds impossible values.
    Damaged(CapacityHeader),
    /// A root.
    Root(CapacityHeader, CapacityRoot),
}

/// Reads both areas, from the device at `device` of the list. Damaged data is read again: one transfer may go wrong, and another member of
/// several may hold it whole.
pub fn read_capacity_roots(devices: &mut Devices, device: usize, superblock: &Superblock) -> [Found; 2] {
    [0, 1].map(|parity| {
        let mut found = Found::Nothing;
        for attempt in 0..devices.readings(device) {
            match read_area(devices, device, superblock, (parity, attempt)) {
                root @ Found::Root(..) => return root,
                // A header with a damaged root says more than no header.
                other if found == Found::Nothing => found = other,
                _ => {}
            }
        }
        found
    })
}

fn read_area(devices: &mut Devices, device: usize, superblock: &Superblock, (parity, attempt): (u64, u8)) -> Found {
    let area = superblock.capacity_area;
    if !area.exists() {
        return Found::Nothing;
    }
    let offset_bytes = area.header_offset_bytes(parity);
    let bytes = devices.read_copy(device, offset_bytes, HEADER_BYTES, attempt);
    let header = bytes.ok().and_then(|bytes| CapacityHeader::decode(&bytes, &superblock.pool));
    let Some(header) = header.filter(|header| header.checkpoint % 2 == parity) else { return Found::Nothing };
    if header.blob_len_bytes > area.blob_bytes_max() {
        return Found::Damaged(header);
    }
    let blob_offset_bytes = offset_bytes + HEADER_BYTES as u64;
    let padded = header.blob_len_bytes.next_multiple_of(4096);
    // The superblock may claim a device of any size: memory is taken only for what can be there.
    if blob_offset_bytes.checked_add(padded).is_none_or(|end| end > devices.list[device].geometry().size_bytes) {
        return Found::Damaged(header);
    }
    let Ok(mut blob) = devices.read_copy(device, blob_offset_bytes, padded as usize, attempt) else {
        return Found::Damaged(header);
    };
    blob.truncate(header.blob_len_bytes as usize);
    if crc32c(&blob) != header.blob_crc {
        return Found::Damaged(header);
    }
    match CapacityRoot::decode(&blob, superblock) {
        Some(root) => Found::Root(header, root),
        None => Found::Damaged(header),
    }
}

/// The summaries beside a root, of groups that are complete in it, and whose places took no writes.
pub(super) fn summaries_beside(
    devices: &mut Devices,
    superblock: &Superblock,
    header: &CapacityHeader,
    root: &CapacityRoot,
) -> BTreeMap<GroupKey, Vec<SummaryEntry>> {
    let (area, shape) = (superblock.capacity_area, BandShape::new(superblock.band_bytes));
    let (begin, room) = area.summaries_beside(header.blob_len_bytes);
    let start = area.header_offset_bytes(header.checkpoint) + begin;
    let mut found = BTreeMap::new();
    // A summary may end at any of these pages, and begin some pages before.
    for end in 1..=room {
        let first = end.saturating_sub(SUMMARY_PAGES_MAX.into());
        let decode = |bytes: &[u8]| decode_named(&superblock.pool, shape, bytes);
        // Usually there is no summary, and the place is blank: that is not read again.
        let is_good = |bytes: &[u8]| decode(bytes).is_some() || bytes.iter().all(|&byte| byte == 0);
        let len_bytes = (end - first) as usize * PAGE_BYTES;
        let read = devices.read_good(DEVICE, start + first * PAGE_BYTES as u64, len_bytes, is_good).ok().flatten();
        let Some((name, epoch, entries)) = read.and_then(|bytes| decode(&bytes)) else { continue };
        // A summary that an earlier root of the same epoch left there is just as true, as long as the band has the same generation.
        let is_of_root = |band: &CapacityBand| {
            !band.is_free && band.generation == name.generation && name.group < band.groups && epoch == header.epoch
        };
        if root.bands.get(name.band as usize).is_some_and(is_of_root) {
            found.insert((name.band, name.group), entries);
        }
    }
    found
}

/// Loads what the capacity tier knows of the map, as of a checkpoint of the fast tier; false where this cannot be read.
pub(super) fn load_capacity_side(
    devices: &mut Devices,
    superblock: &Superblock,
    header: &RootHeader,
    root: &Root,
    engine: &mut Engine,
) -> bool {
    let of_then = |found: &CapacityHeader| {
        (found.checkpoint, found.epoch, found.generation) == (header.checkpoint, header.epoch, root.generation)
    };
    let (mut loaded, mut others) = (None, Vec::new());
    for found in read_capacity_roots(devices, DEVICE, superblock) {
        match found {
            Found::Root(header, capacity_root) if of_then(&header) => loaded = Some((header, capacity_root)),
            Found::Root(header, capacity_root) => others.push((header, capacity_root)),
            Found::Damaged(_) | Found::Nothing => {}
        }
    }
    let capacity = &mut engine.checkpoint.capacity;
    let newest = others.iter().map(|(header, _)| header.checkpoint).max();
    capacity.found(loaded.as_ref().map(|(header, _)| header.checkpoint).or(newest));
    let tiers = capacity.tiers();
    tiers.load(loaded.as_ref().map(|(_, root)| root), root.disks.iter().map(|disk| disk.id));
    // Until the next checkpoint is durable, one of these roots may be the one that is opened if the fast tier is lost.
    let may_be_opened = |other: u64| loaded.as_ref().is_none_or(|(header, _)| other > header.checkpoint);
    others.iter().filter(|(header, _)| may_be_opened(header.checkpoint)).for_each(|(_, root)| tiers.guard(root));
    loaded.is_some()
}

/// Makes anew what the capacity tier has to know of the map, where it cannot be read there; the next checkpoint writes it. False where
/// there are more leaves than may be dirty at once: nothing is known of the other leaves until they are written again.
pub(super) fn make_anew(devices: &mut Devices, engine: &mut Engine) -> bool {
    let mut left = engine.checkpoint.dirty_leaves_max();
    let mut is_whole = true;
    let disks: Vec<DiskId> = engine.disks().map(|disk| disk.id).collect();
    for id in disks {
        let mut next = engine.map.disk(id).and_then(|disk| disk.next_leaf(0));
        while let Some(first) = next.filter(|_| left > 0) {
            let mut leaves = engine.map.disk(id).map(|disk| next_leaves(disk, first)).unwrap_or_default();
            leaves.truncate(left);
            left -= leaves.len();
            for (&leaf, page) in leaves.iter().zip(read_leaves(devices, engine, id, &leaves)) {
                let known = page.map(|page| LeafTiers::of(&page, |location| engine.setup.extents.is_fast(location)));
                let tiers = engine.checkpoint.capacity.tiers();
                match known {
                    Some(known) => tiers.leaf_written(id.0, leaf, known),
                    None => tiers.forget(id.0, leaf),
                }
            }
            let last = leaves.last().copied();
            next = last.and_then(|last| engine.map.disk(id).and_then(|disk| disk.next_leaf(last + 1)));
        }
        // From the leaf on at which the loop stopped nothing is known, the rest of its tier page included.
        let known_below = next.map_or(ALL_LISTED, |leaf| (leaf / PAGE_LEAVES as u64) as u32);
        is_whole &= next.is_none();
        engine.checkpoint.capacity.tiers().set_unlisted_from(id.0, known_below);
    }
    is_whole
}
