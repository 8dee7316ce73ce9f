//! Places of all structures on the devices of a pool, found as recovery finds them.

use forebay_block::DiskId;
use forebay_device::Image;
use forebay_device::instant::Store;
use forebay_volume::layout::band_summary::BandShape;
use forebay_volume::layout::batch::{BATCH_MAX_BYTES, decode_batch};
use forebay_volume::layout::page::{
    BLOCK_GRAINS, Entry, GRAIN_BYTES, INDEX_ENTRIES, LEAF_ENTRIES, PAGE_BYTES, PageName, SECTOR_GRAINS, Window,
    decode_index, leaf_entry,
};
use forebay_volume::layout::root::{BandState, HEADER_BYTES, RootBounds, RootHeader};
use forebay_volume::layout::root_blob;
use forebay_volume::layout::superblock::{Superblock, copy_offsets_bytes};
use forebay_volume::layout::watermark::OFFSETS_BYTES;
use std::collections::BTreeMap;
use std::ops::Range;

/// A structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Superblock,
    Watermark,
    RootHeader,
    RootBlob,
    /// The other root area, which is superseded.
    OldRoot,
    Batch,
    Index,
    Leaf,
    Slot,
    BandData,
    Summary,
}

/// Place of one instance of a structure.
#[derive(Clone, Debug)]
pub struct Place {
    pub part: Part,
    pub device: usize,
    pub bytes: Range<u64>,
}

pub struct Anatomy {
    pub header: RootHeader,
    pub places: Vec<Place>,
    /// Root areas, journal, slots; bands.
    pub regions: Vec<(&'static str, usize, Range<u64>)>,
    /// Device on which the data of each block lies that the last root maps: (disk, block).
    pub mapped: BTreeMap<(u16, u64), usize>,
}

pub fn bytes(image: &Image, range: &Range<u64>) -> Vec<u8> {
    let mut out = vec![0; (range.end - range.start) as usize];
    image.read(range.start, &mut out);
    out
}

impl Anatomy {
    pub fn of(images: &[Image]) -> Self {
        let superblock = Superblock::decode(&bytes(&images[0], &(0..4096))).unwrap();
        let mut places = Vec::new();
        let mut mapped = BTreeMap::new();
        let mut add = |part, device, at: u64, len: u64| places.push(Place { part, device, bytes: at..at + len });
        for (device, image) in images.iter().enumerate() {
            for at in copy_offsets_bytes(image.size_bytes()) {
                add(Part::Superblock, device, at, 4096);
            }
        }
        OFFSETS_BYTES.into_iter().for_each(|at| add(Part::Watermark, 0, at, 4096));
        let len = superblock.root_len_bytes;
        let header = superblock
            .root_offsets_bytes
            .iter()
            .flat_map(|area| [*area, area + len - 4096])
            .filter_map(|at| RootHeader::decode(&bytes(&images[0], &(at..at + HEADER_BYTES as u64)), &superblock.pool))
            .filter(|header| header.superseded_by == 0)
            .max_by_key(|header| header.checkpoint)
            .unwrap();
        let area = superblock.root_offsets_bytes[(header.checkpoint % 2) as usize];
        add(Part::RootHeader, 0, area, 4096);
        add(Part::RootHeader, 0, area + len - 4096, 4096);
        add(Part::RootBlob, 0, area + 4096, header.blob_len_bytes);
        let old = superblock.root_offsets_bytes[((header.checkpoint + 1) % 2) as usize];
        add(Part::OldRoot, 0, old, len);
        let blob = bytes(&images[0], &(area + 4096..area + 4096 + header.blob_len_bytes));
        let root = root_blob::decode(&blob, &RootBounds::of(&superblock)).unwrap();
        let shape = BandShape::new(superblock.band_bytes);

        let journal = superblock.journal_offset_bytes..superblock.journal_offset_bytes + superblock.journal_len_bytes;
        let ring = bytes(&images[0], &journal);
        let mut position = root.journal_position;
        while position < root.journal_position + superblock.journal_len_bytes {
            let at = (position % superblock.journal_len_bytes) as usize;
            let end = ring.len().min(at + BATCH_MAX_BYTES);
            match decode_batch(&ring[at..end], &superblock.pool) {
                Some((batch, _)) if batch.position == position && batch.epoch == header.epoch => {
                    add(Part::Batch, 0, journal.start + at as u64, u64::from(batch.len_bytes));
                    position += u64::from(batch.len_bytes);
                }
                _ => position += u64::from(superblock.journal_sector_bytes),
            }
        }
        let locate = |location: u64| {
            let fast = &superblock.members[0];
            let is_fast = location < fast.sectors * SECTOR_GRAINS;
            let member = &superblock.members[usize::from(!is_fast)];
            let first = if is_fast { BLOCK_GRAINS } else { member.first_sector * SECTOR_GRAINS };
            (usize::from(!is_fast), member.data_offset_bytes + (location - first) * GRAIN_BYTES as u64)
        };
        for disk in &root.disks {
            for (number, reference) in &disk.pages {
                let (_, at) = locate(reference.location);
                add(Part::Index, 0, at, 4096);
                let name =
                    PageName { disk: DiskId(disk.id), number: u64::from(*number), generation: reference.generation };
                let page = bytes(&images[0], &(at..at + PAGE_BYTES as u64));
                let references = decode_index(&page, name, reference.crc).unwrap();
                assert_eq!(references.len(), INDEX_ENTRIES);
                let leaves = (u64::from(*number) * INDEX_ENTRIES as u64..).zip(&references);
                for (leaf_number, reference) in leaves.filter(|(_, reference)| reference.location != 0) {
                    let (_, at) = locate(reference.location);
                    add(Part::Leaf, 0, at, 4096);
                    let leaf = bytes(&images[0], &(at..at + PAGE_BYTES as u64));
                    for i in 0..LEAF_ENTRIES {
                        if let (Entry::Data { span, .. }, _) = leaf_entry(&leaf, i) {
                            let around = Window::of(span, BLOCK_GRAINS);
                            let (device, at) = locate(around.first);
                            mapped.insert((disk.id, leaf_number * LEAF_ENTRIES as u64 + i as u64), device);
                            add(
                                if device == 0 { Part::Slot } else { Part::BandData },
                                device,
                                at,
                                around.len_bytes as u64,
                            );
                        }
                    }
                }
            }
        }
        let bands = superblock.members[1].data_offset_bytes;
        for (band, state) in root.bands.iter().enumerate() {
            let written = state.written / BLOCK_GRAINS as u32;
            let complete = if state.state == BandState::Closed { shape.blocks() } else { written };
            for group in (0..shape.groups()).filter(|&group| shape.summary_block(group) < complete) {
                let block = band as u64 * u64::from(shape.blocks()) + u64::from(shape.summary_block(group));
                add(Part::Summary, 1, bands + block * 4096, 4096);
            }
        }
        let slots = superblock.members[0].data_offset_bytes;
        let regions = vec![
            ("head", 0, 0..131_072),
            ("root A", 0, superblock.root_offsets_bytes[0]..superblock.root_offsets_bytes[0] + len),
            ("root B", 0, superblock.root_offsets_bytes[1]..superblock.root_offsets_bytes[1] + len),
            ("journal", 0, journal),
            ("slots", 0, slots..slots + superblock.slots * 4096),
            ("capacity head", 1, 0..131_072),
            ("bands", 1, bands..bands + superblock.members[1].sectors * 512),
        ];
        Self { header, places, regions, mapped }
    }

    pub fn of_part(&self, part: Part) -> Vec<&Place> {
        self.places.iter().filter(|place| place.part == part).collect()
    }
}
