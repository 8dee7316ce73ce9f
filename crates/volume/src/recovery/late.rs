//! What an opening would give up for good although a missing member of the mirror, or a later attempt at reading, may still have it.

use super::report::OpenError;
use super::survey::Survey;
use super::written::Doubt;
use crate::io::Devices;
use crate::journal::JournalGeometry;
use crate::journal::scan::scan;
use crate::layout::page::{LEAF_ENTRIES, PAGE_BYTES, PageName, is_leaf};
use crate::layout::record::Record;
use crate::layout::root::Root;
use crate::layout::superblock::Superblock;
use crate::map::index::Disk;
use crate::readings::Reading;
use crate::space::extents::Extents;
use forebay_block::{BLOCK_BYTES, DiskId, IoErrorKind};
use std::collections::BTreeMap;

const LEAVES_AT_ONCE: usize = 512;

/// Refuses an opening in which replay would make a leaf damaged for good: where the leaf cannot be read, or where it is damaged and a
/// member is missing that held everything. It comes before labels say that the pool went on without the missing members.
pub(super) fn refuse_loss(
    devices: &mut Devices,
    superblock: &Superblock,
    disks: &BTreeMap<u16, Disk>,
    survey: &Survey,
) -> Result<(), OpenError> {
    if devices.is_read_only {
        return Ok(());
    }
    let missing = devices.mirror().map(|view| view.missing()).filter(|missing| !missing.is_empty());
    let mut unread = None;
    let extents = Extents::new(&superblock.members, superblock.band_bytes);
    let mut lost = Vec::new();
    let all: Vec<(u16, u64)> = survey.leaves.iter().copied().collect();
    for group in all.chunks(LEAVES_AT_ONCE) {
        let (mut places, mut wanted) = (Vec::new(), Vec::new());
        for &(id, leaf) in group {
            let Some(disk) = disks.get(&id).filter(|disk| leaf * (LEAF_ENTRIES as u64) < disk.blocks()) else {
                continue;
            };
            let (reference, _) = disk.leaf(leaf);
            let place = extents.place(reference.location).filter(|_| reference.location != 0);
            if let Some((device, offset_bytes)) = place {
                places.push((device, offset_bytes, PAGE_BYTES));
                let name = PageName { disk: DiskId(id), number: leaf, generation: reference.generation };
                wanted.push((disk, leaf, name, reference.crc));
            }
        }
        let read = devices.read_each_good(&places, |number, bytes| {
            let (.., name, crc) = wanted[number];
            is_leaf(bytes, name, crc)
        });
        for ((disk, leaf, name, _), reading) in wanted.into_iter().zip(read) {
            match reading {
                Reading::Good(_) => {}
                Reading::Failed(error) if error.kind != IoErrorKind::Medium => {
                    return Err(OpenError::of_device(devices, 0)(error));
                }
                Reading::Bad(_) | Reading::Failed(_) if survey.clears(name.disk, leaf, disk.blocks()) => {}
                Reading::Failed(error) => {
                    unread.get_or_insert(error);
                    lost.push((disk, leaf));
                }
                // No member is missing that may have it.
                Reading::Bad(_) if missing.is_none() => {}
                Reading::Bad(_) => lost.push((disk, leaf)),
            }
        }
    }
    let Some((disk, leaf)) = lost.first() else { return Ok(()) };
    let first_bytes = leaf * LEAF_ENTRIES as u64 * BLOCK_BYTES as u64;
    let (leaves, disk) = (lost.len(), disk.name.clone());
    match (missing, unread) {
        (None, Some(source)) => {
            let device = devices.list[0].name().to_owned();
            Err(OpenError::Unread { device, leaves, disk, first_bytes, source })
        }
        (missing, _) => Err(OpenError::Late { members: missing.unwrap_or_default(), leaves, disk, first_bytes }),
    }
}

/// Refuses an opening while a mirror member is missing that held everything, where data that was written last to the fast tier can be read
/// from none of the members that are there: the missing one may have it. (Where older data would be given up, replay refuses in any case.)
/// Data on a capacity tier with parity is not looked at: the rows that its log names are made whole only after the array is begun, and
/// before that their blocks may not be computable.
pub(super) fn refuse_unread(
    devices: &mut Devices,
    (superblock, geometry): (&Superblock, JournalGeometry),
    disks: &BTreeMap<u16, Disk>,
    (root, survey): (&Root, &Survey),
) -> Result<(), OpenError> {
    if devices.is_read_only || devices.mirror().is_none_or(|view| view.missing().is_empty()) {
        return Ok(());
    }
    let extents = Extents::new(&superblock.members, superblock.band_bytes);
    let mut doubt = Doubt::default();
    scan(devices, geometry, &superblock.pool, survey.start, |devices, _, batch, records| {
        let numbered = records.into_iter().enumerate().map(|(i, record)| (batch.first_sequence + i as u64, record));
        let is_wanted = |(sequence, record): &(u64, Record)| {
            matches!(record, Record::Write { location, .. } if extents.is_fast(*location))
                && root.must_apply(*sequence)
                && !survey.cancelled.contains(sequence)
        };
        if !survey.is_durable(batch.batch) {
            numbered.filter(is_wanted).for_each(|numbered| doubt.look(devices, &extents, survey, numbered));
        }
        Ok(())
    })
    .map_err(OpenError::of_device(devices, 0))?;
    doubt.unread().map_or(Ok(()), |unread| Err(OpenError::of_unread(devices, disks, unread)))
}
