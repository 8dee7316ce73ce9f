//! The disks that a root names, and where their leaves are: all index pages are read.

use super::report::OpenError;
use super::survey::MissingBatches;
use crate::io::Devices;
use crate::layout::page::{self, BLOCK_GRAINS, INDEX_ENTRIES, PAGE_BYTES, PageName, PageRef};
use crate::layout::root::Root;
use crate::layout::superblock::Superblock;
use crate::map::index::{Disk, IndexPage};
use crate::readings::Reading;
use crate::space::extents::Extents;
use forebay_block::{DiskId, IoErrorKind};
use std::collections::BTreeMap;

const INDEX_READS_AT_ONCE: usize = 256;

/// The disks.
pub(super) struct LoadedDisks {
    pub disks: BTreeMap<u16, Disk>,
    /// Lost index pages: name of the disk, and number of the page.
    pub lost_pages: Vec<(String, u32)>,
}

/// Reads all index pages. In salvage a lost index page costs only what it mapped.
pub(super) fn load_disks(
    devices: &mut Devices,
    superblock: &Superblock,
    root: &Root,
    missing: MissingBatches,
) -> Result<LoadedDisks, OpenError> {
    let extents = Extents::new(&superblock.members, superblock.band_bytes);
    let mut loaded = LoadedDisks { disks: BTreeMap::new(), lost_pages: Vec::new() };
    for entry in &root.disks {
        let mut disk = Disk::new(DiskId(entry.id), entry.name.clone(), entry.size_bytes);
        disk.durable_bytes = entry.size_bytes;
        disk.base = entry.base;
        let damaged = |page| OpenError::Index { disk: entry.name.clone(), page };
        for group in entry.pages.chunks(INDEX_READS_AT_ONCE) {
            let mut places = Vec::new();
            for (number, reference) in group {
                let place = extents.place(reference.location).filter(|(device, _)| *device == 0);
                let (device, offset_bytes) = place.ok_or_else(|| damaged(*number))?;
                places.push((device, offset_bytes, PAGE_BYTES));
            }
            let decode = |number: usize, bytes: &[u8]| {
                let (page, reference) = &group[number];
                let name = PageName { disk: disk.id, number: u64::from(*page), generation: reference.generation };
                page::decode_index(bytes, name, reference.crc).filter(|references| are_leaves(references, &extents))
            };
            let read = devices.read_each_good(&places, |number, bytes| decode(number, bytes).is_some());
            let decoded = read.into_iter().enumerate().map(|(number, reading)| match reading {
                Reading::Good(bytes) => Ok(decode(number, &bytes)),
                Reading::Bad(_) => Ok(None),
                Reading::Failed(error) => Err(error),
            });
            let decoded: Vec<_> = decoded.collect();
            for ((number, reference), decoded) in group.iter().zip(decoded) {
                let references = match decoded {
                    Ok(Some(references)) => references,
                    Err(error) if missing.are_refused() || error.kind != IoErrorKind::Medium => {
                        return Err(OpenError::of_device(devices, 0)(error));
                    }
                    Ok(None) if missing.are_refused() => return Err(damaged(*number)),
                    Ok(None) | Err(_) => {
                        loaded.lost_pages.push((entry.name.clone(), *number));
                        lost_leaves(*reference)
                    }
                };
                let slot = disk.pages.get_mut(*number as usize).ok_or_else(|| damaged(*number))?;
                *slot = Some(Box::new(IndexPage::new(references, PageRef { stageable: 0, ..*reference })));
            }
        }
        loaded.disks.insert(entry.id, disk);
    }
    Ok(loaded)
}

/// Whether all references name places where leaves can be.
fn are_leaves(references: &[PageRef], extents: &Extents) -> bool {
    let is_slot = |at: u64| extents.is_fast(at) && at.is_multiple_of(BLOCK_GRAINS);
    let is_page = |at| at == 0 || is_slot(at) && extents.holds_data(at, BLOCK_GRAINS);
    references.iter().all(|reference| is_page(reference.location))
}

/// References to the leaves of a lost index page. They name that page's own place, where no leaf is: so each leaf is found damaged or
/// unreadable, and is served as such.
fn lost_leaves(page: PageRef) -> Vec<PageRef> {
    vec![PageRef { stageable: 0, ..page }; INDEX_ENTRIES]
}
