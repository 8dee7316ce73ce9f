//! Reading what the bands say of themselves.

use super::choice::Candidate;
use super::error::AloneError;
use super::leaves::{LeafKey, Leaves};
use crate::io::Devices;
use crate::layout::band_summary::{BandShape, SummaryEntry, SummaryName, decode, decode_any, placed};
use crate::layout::capacity_root::{CapacityBand, CapacityRoot, DEVICE};
use crate::layout::page::{BLOCK_SECTORS, LEAF_ENTRIES};
use crate::layout::superblock::Superblock;
use crate::layout::tier_page::TierPage;
use crate::space::extents::Extents;
use forebay_block::checksum::block_checksum;
use forebay_block::{Buf, DiskId, Op, Vectored};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks read at once.
const AT_ONCE: usize = 256;
/// Groups in a row without a summary of the newest epoch after which the rest of a free band is not looked at.
const MISSES_MAX: u32 = 8;
/// Most copies that are looked at to put doubtful leaves right.
const COPIES_MAX: usize = 1 << 20;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub summaries: u64,
    pub summaries_absent: u64,
    pub pages_damaged: u64,
}

pub(super) struct Scan<'a> {
    pub devices: &'a mut Devices,
    pub superblock: &'a Superblock,
    pub extents: Extents,
    pub root: &'a CapacityRoot,
    /// Epoch of the root.
    pub epoch: u64,
    pub progress: &'a mut dyn FnMut(u64, u64),
    pub counts: Counts,
}

impl Scan<'_> {
    fn shape(&self) -> BandShape {
        BandShape::new(self.superblock.band_bytes)
    }

    /// Reads blocks of 4 KiB at these locations; what cannot be read is read once more.
    fn read(&mut self, locations: &[u64]) -> Vec<Option<Buf>> {
        let mut found: Vec<Option<Buf>> = locations.iter().map(|_| None).collect();
        for _ in 0..2 {
            let missing: Vec<usize> = (0..locations.len()).filter(|&i| found[i].is_none()).collect();
            let places = missing.iter().filter_map(|&i| Some((i, self.extents.place(locations[i])?)));
            let (numbers, reads): (Vec<usize>, Vec<_>) = places
                .map(|(i, (device, at))| (i, (device, at, Op::Read { bufs: Vectored::One(Buf::new(4096)) })))
                .unzip();
            for (i, completion) in numbers.into_iter().zip(self.devices.run(reads)) {
                if let (Ok(()), Some(Vectored::One(buf))) = (completion.result, completion.bufs) {
                    found[i] = Some(buf);
                }
            }
        }
        found
    }

    /// Takes the pages that say where blocks lived.
    pub fn pages(&mut self, leaves: &mut Leaves) -> Result<(), AloneError> {
        let area = self.superblock.capacity_area;
        for disk in &self.root.disks {
            for page in &disk.pages {
                let offset_bytes = area.page_offset_bytes(u64::from(page.slot));
                let mut found = None;
                for _ in 0..2 {
                    let bytes = self.devices.read(DEVICE, offset_bytes, 4096).ok();
                    let decode = |bytes: Buf| TierPage::decode(&bytes, DiskId(disk.id), page.number, page.crc);
                    found = found.or_else(|| bytes.and_then(decode));
                }
                self.counts.pages_damaged += u64::from(found.is_none());
                leaves.take_page(disk.id, page.number, found.map(|page| page.leaves))?;
            }
        }
        Ok(())
    }

    /// Offers every copy that a summary names.
    pub fn bands(&mut self, leaves: &mut Leaves) -> Result<(), AloneError> {
        let shape = self.shape();
        for (band, group, entries) in &self.root.open_groups {
            let start = self.extents.band_location(*band, shape.first_block(*group));
            for (disk, block, candidate) in candidates(start, entries) {
                leaves.offer(disk, block, candidate)?;
            }
        }
        let all = self.root.bands.len() as u64;
        for number in 0..self.root.bands.len() as u32 {
            (self.progress)(u64::from(number), all);
            let band = self.root.bands[number as usize];
            self.complete_groups(number, band, &mut |disk, block, candidate| leaves.offer(disk, block, candidate))?;
            self.later_groups(number, band, leaves)?;
        }
        (self.progress)(all, all);
        Ok(())
    }

    /// Groups with data, of some in a row.
    fn with_data(shape: BandShape, groups: std::ops::Range<u32>) -> Vec<u32> {
        groups.filter(|&group| shape.group_sectors(group) > 0).collect()
    }

    /// What lies in groups that were complete at the checkpoint.
    fn complete_groups(
        &mut self,
        number: u32,
        band: CapacityBand,
        take: &mut dyn FnMut(u16, u64, Candidate) -> Result<(), AloneError>,
    ) -> Result<(), AloneError> {
        let shape = self.shape();
        for groups in Self::with_data(shape, 0..band.groups).chunks(AT_ONCE) {
            let summary = |&group: &u32| self.extents.band_location(number, shape.summary_block(group));
            let locations: Vec<u64> = groups.iter().map(summary).collect();
            for (&group, page) in groups.iter().zip(self.read(&locations)) {
                self.counts.summaries += 1;
                let name = SummaryName { band: number, group, generation: band.generation };
                let entries =
                    page.and_then(|page| decode(&self.superblock.pool, name, shape.group_sectors(group), &page));
                let Some(entries) = entries else {
                    self.counts.summaries_absent += 1;
                    continue;
                };
                let start = self.extents.band_location(number, shape.first_block(group));
                for (disk, block, candidate) in candidates(start, &entries) {
                    take(disk, block, candidate)?;
                }
            }
        }
        Ok(())
    }

    /// What was written into a band after the checkpoint.
    fn later_groups(&mut self, number: u32, band: CapacityBand, leaves: &mut Leaves) -> Result<(), AloneError> {
        let shape = self.shape();
        let mut misses = 0;
        for groups in Self::with_data(shape, band.groups..shape.groups()).chunks(MISSES_MAX as usize) {
            let summary = |&group: &u32| self.extents.band_location(number, shape.summary_block(group));
            let locations: Vec<u64> = groups.iter().map(summary).collect();
            for (&group, page) in groups.iter().zip(self.read(&locations)) {
                let sectors = shape.group_sectors(group);
                let found = page.and_then(|page| decode_any(&self.superblock.pool, (number, group), sectors, &page));
                let is_later = |generation: u32, epoch: u64| {
                    let ahead = generation.wrapping_sub(band.generation);
                    let is_this_life = if band.is_free { (1..1 << 31).contains(&ahead) } else { ahead == 0 };
                    is_this_life && epoch >= self.epoch
                };
                let Some((_, _, entries)) = found.filter(|found| is_later(found.0, found.1)) else {
                    misses += 1;
                    continue;
                };
                misses = 0;
                self.counts.summaries += 1;
                let start = self.extents.band_location(number, shape.first_block(group));
                for (disk, block, candidate) in candidates(start, &entries) {
                    leaves.offer_later(disk, block, candidate)?;
                }
            }
            if misses >= MISSES_MAX {
                break;
            }
        }
        Ok(())
    }

    /// All copies of the blocks of some leaves in groups that were complete at the checkpoint.
    pub fn copies(&mut self, wanted: &BTreeSet<LeafKey>) -> Result<BTreeMap<(u16, u64), Vec<Candidate>>, AloneError> {
        let mut copies: BTreeMap<(u16, u64), Vec<Candidate>> = BTreeMap::new();
        let mut count = 0;
        let mut take = |disk: u16, block: u64, candidate: Candidate| {
            if wanted.contains(&(disk, block / LEAF_ENTRIES as u64)) && count < COPIES_MAX {
                count += 1;
                copies.entry((disk, block)).or_default().push(candidate);
            }
            Ok(())
        };
        let shape = self.shape();
        for (band, group, entries) in &self.root.open_groups {
            let start = self.extents.band_location(*band, shape.first_block(*group));
            candidates(start, entries).try_for_each(|(disk, block, candidate)| take(disk, block, candidate))?;
        }
        for number in 0..self.root.bands.len() as u32 {
            let band = self.root.bands[number as usize];
            self.complete_groups(number, band, &mut take)?;
        }
        self.drop_absent(&mut copies);
        Ok(copies)
    }

    /// Of blocks with several copies, drops those whose data is not there: recovery keeps of a record that was not durable
    /// just the blocks whose data arrived. Where none is there the block was damaged later, and all stay.
    fn drop_absent(&mut self, copies: &mut BTreeMap<(u16, u64), Vec<Candidate>>) {
        let mut several: Vec<_> = copies.iter_mut().filter(|(_, list)| list.len() > 1).collect();
        for group in several.chunks_mut(AT_ONCE / 2) {
            let locations: Vec<u64> = group.iter().flat_map(|(_, list)| list.iter().map(|c| c.location)).collect();
            let mut data = Vec::with_capacity(locations.len());
            for part in locations.chunks(AT_ONCE) {
                data.extend(self.read(part));
            }
            let mut data = data.into_iter();
            for (who, list) in group {
                let is_there = |(candidate, data): (&Candidate, Option<Buf>)| {
                    let sum = data.map(|data| block_checksum(DiskId(who.0), who.1, &data));
                    (sum == Some(candidate.checksum)).then_some(*candidate)
                };
                let there: Vec<Candidate> =
                    list.iter().zip(data.by_ref().take(list.len())).filter_map(is_there).collect();
                if !there.is_empty() {
                    **list = there;
                }
            }
        }
    }

    /// Of the copies that may have come after the checkpoint, those whose data is there: the newest of each block.
    pub fn later(&mut self, leaves: &mut Leaves) -> Result<(), AloneError> {
        let waiting = leaves.take_later().into_iter().map(|(who, list)| (who, list.into_iter().rev().collect()));
        for (who, candidate) in self.last_that_is_there(waiting.collect()) {
            leaves.set_later(who.0, who.1, candidate)?;
        }
        Ok(())
    }

    /// Of several copies of the same data one that is there.
    pub fn twins(&mut self, leaves: &mut Leaves) {
        let twins = leaves.take_twins();
        for (who, candidate) in self.last_that_is_there(twins) {
            leaves.choose(who.0, who.1, candidate);
        }
    }

    /// Of the copies of each block the last whose data is there.
    fn last_that_is_there(&mut self, mut waiting: Vec<(Who, Vec<Candidate>)>) -> Vec<(Who, Candidate)> {
        let mut found = Vec::new();
        while !waiting.is_empty() {
            let mut next = Vec::new();
            for group in waiting.chunks_mut(AT_ONCE) {
                let locations: Vec<u64> =
                    group.iter().filter_map(|(_, list)| list.last()).map(|c| c.location).collect();
                for ((who, list), data) in group.iter_mut().zip(self.read(&locations)) {
                    let Some(candidate) = list.pop() else { continue };
                    let sum = data.map(|data| block_checksum(DiskId(who.0), who.1, &data));
                    if sum == Some(candidate.checksum) {
                        found.push((*who, candidate));
                    } else if !list.is_empty() {
                        next.push((*who, std::mem::take(list)));
                    }
                }
            }
            waiting = next;
        }
        found
    }
}

/// Disk and block.
type Who = (u16, u64);

/// The copies that a summary names: disk, block, and where it lies.
fn candidates(start: u64, entries: &[SummaryEntry]) -> impl Iterator<Item = (u16, u64, Candidate)> {
    // Compressed blocks are not written by this version, and could not be read.
    let whole = placed(entries)
        .filter(|(at, entry)| u64::from(entry.sectors) == BLOCK_SECTORS && u64::from(*at) % BLOCK_SECTORS == 0);
    whole.map(move |(at, entry)| {
        let SummaryEntry { disk, block, origin, checksum, class, .. } = *entry;
        (disk.0, block, Candidate { origin, location: start + u64::from(at), checksum, class })
    })
}
