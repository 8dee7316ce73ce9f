//! Reads what the summaries of bands say.

use super::choice::{Candidate, Who, candidates, holds};
use super::error::AloneError;
use super::leaves::{LeafKey, Leaves};
use crate::io::Devices;
use crate::layout::band_summary::{BandShape, Summary, SummaryEntry, decode_any};
use crate::layout::capacity_root::{CapacityRoot, DEVICE};
use crate::layout::page::{LEAF_ENTRIES, PAGE_BYTES, Span, Window};
use crate::layout::superblock::Superblock;
use crate::layout::tier_page::TierPage;
use crate::readings::Reading;
use crate::space::extents::Extents;
use crate::space::groups::GroupKey;
use forebay_block::{Buf, DiskId};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks read at once.
const AT_ONCE: usize = 256;
/// After so many groups in a row without a summary of the newest epoch the rest of a band is not looked at.
const MISSES_MAX: u32 = 8;
/// Most copies of one block, the newest ones, that are considered to resolve its leaf.
const COPIES_MAX: usize = 64;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub summaries: u64,
    pub summaries_absent: u64,
    /// Places that cannot be read and in which a summary from after the checkpoint may lie.
    pub later_unreadable: u64,
    pub pages_damaged: u64,
    /// Bands that the checkpoint names and that were written again since.
    pub bands_reused: u64,
}

impl Counts {
    /// Whether more is left of this checkpoint than of another. Once the successor of a checkpoint is durable, bands that the older one
    /// names are freed and used again.
    pub fn is_better_than(&self, other: &Self) -> bool {
        self.pages_damaged < other.pages_damaged
            && self.bands_reused == 0
            && self.summaries_absent <= other.summaries_absent
    }
}

/// What the place of a summary holds.
enum Group {
    /// What the checkpoint names, or had been written into the band by then.
    Then(Vec<SummaryEntry>),
    /// What was written after the checkpoint; `true`: into a band that the checkpoint names, and that was used again since.
    Later(Vec<SummaryEntry>, bool),
    /// Neither.
    Absent,
    Unreadable,
}

pub(super) struct Scan<'a> {
    pub devices: &'a mut Devices,
    pub superblock: &'a Superblock,
    pub extents: Extents,
    pub root: &'a CapacityRoot,
    /// Summaries that the root carries beside it, as their places in the bands took no writes.
    pub beside: BTreeMap<GroupKey, Vec<SummaryEntry>>,
    /// Epoch of the root.
    pub epoch: u64,
    /// Devices that are not there.
    pub missing: &'a [usize],
    pub progress: &'a mut dyn FnMut(u64, u64),
    pub counts: Counts,
}

impl Scan<'_> {
    fn shape(&self) -> BandShape {
        BandShape::new(self.superblock.band_bytes)
    }

    /// Reads what is stored at these places, and again in every other way where `is_good`, which gets the number of the place, says no.
    /// `None`: the place cannot be read.
    fn read(&mut self, spans: &[Span], is_good: impl Fn(usize, &[u8]) -> bool) -> Vec<Option<Buf>> {
        let unit_grains = self.devices.unit_grains();
        let around: Vec<Window> = spans.iter().map(|&span| Window::of(span, unit_grains)).collect();
        let mut found: Vec<Option<Buf>> = spans.iter().map(|_| None).collect();
        let (mut numbers, mut places) = (Vec::new(), Vec::new());
        for (number, around) in around.iter().enumerate() {
            if let Some((device, offset_bytes)) = self.extents.place(around.first) {
                numbers.push(number);
                places.push((device, offset_bytes, around.len_bytes));
            }
        }
        let is_good = |at: usize, bytes: &[u8]| {
            let number = numbers[at];
            around[number].stored(spans[number], bytes).is_some_and(|stored| is_good(number, stored))
        };
        let read = self.devices.read_each_good(&places, is_good);
        for (&number, reading) in numbers.iter().zip(read) {
            let (span, around) = (spans[number], around[number]);
            found[number] = reading.any().and_then(|bytes| match span.is_whole() {
                true => Some(bytes),
                false => around.stored(span, &bytes).map(Buf::copy_of),
            });
        }
        found
    }

    /// Takes the tier pages: they say on which tier blocks lived.
    pub fn pages(&mut self, leaves: &mut Leaves) -> Result<(), AloneError> {
        let area = self.superblock.capacity_area;
        for disk in &self.root.disks {
            for page in &disk.pages {
                let offset_bytes = area.page_offset_bytes(u64::from(page.slot));
                let decode = |bytes: &[u8]| TierPage::decode(bytes, DiskId(disk.id), page.number, page.crc);
                let read = self.devices.read_good(DEVICE, offset_bytes, 4096, |bytes| decode(bytes).is_some());
                let found = read.ok().flatten().and_then(|bytes| decode(&bytes));
                self.counts.pages_damaged += u64::from(found.is_none());
                leaves.take_page(disk.id, page.number, found.map(|page| page.leaves));
            }
        }
        leaves.memory.check()
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
            let counts = self.walk(number, &mut |is_later, disk, block, candidate| match is_later {
                true => leaves.offer_later(disk, block, candidate),
                false => leaves.offer(disk, block, candidate),
            })?;
            self.counts.summaries += counts.summaries;
            self.counts.summaries_absent += counts.summaries_absent;
            self.counts.later_unreadable += counts.later_unreadable;
            self.counts.bands_reused += counts.bands_reused;
        }
        if self.counts.bands_reused > 0 {
            // Bands were used again after the checkpoint, which happens only where the capacity-side checkpoint could not be written any
            // more. The blocks that lived there were moved to where later data is, so copies among later data are offered as well.
            for number in 0..self.root.bands.len() as u32 {
                self.walk(number, &mut |is_later, disk, block, candidate| match is_later {
                    true => leaves.offer(disk, block, candidate),
                    false => Ok(()),
                })?;
            }
        }
        (self.progress)(all, all);
        Ok(())
    }

    /// The groups of a range that hold data.
    fn with_data(shape: BandShape, groups: std::ops::Range<u32>) -> Vec<u32> {
        groups.filter(|&group| shape.group_grains(group) > 0).collect()
    }

    /// What lies in the place of a summary.
    fn judge(&self, number: u32, group: u32, page: Option<Buf>) -> Group {
        let band = self.root.bands[number as usize];
        let Some(page) = page else { return Group::Unreadable };
        let grains = self.shape().group_grains(group);
        let found = decode_any(&self.superblock.pool, (number, group), grains, &page);
        let Some(Summary::Whole(entries, generation, epoch)) = found else { return Group::Absent };
        let is_later = epoch >= self.epoch;
        match generation.wrapping_sub(band.generation) {
            0 if !band.is_free && group < band.groups => Group::Then(entries),
            0 if !band.is_free && is_later => Group::Later(entries, false),
            1..0x8000_0000 if is_later => Group::Later(entries, !band.is_free),
            _ => Group::Absent,
        }
    }

    /// The summaries of some groups of a band. `pages` has the page at the summary block of each group; further pages of a longer summary
    /// lie before it, and are read here. `None` where these cannot be read.
    fn with_pages_before(&mut self, number: u32, groups: &[u32], mut pages: Vec<Option<Buf>>) -> Vec<Option<Buf>> {
        let (shape, pool) = (self.shape(), &self.superblock.pool);
        let decode = |group: u32, bytes: &[u8]| decode_any(pool, (number, group), shape.group_grains(group), bytes);
        let (mut longer, mut places) = (Vec::new(), Vec::new());
        for (at, (&group, page)) in groups.iter().zip(&pages).enumerate() {
            if let Some(Summary::Longer { pages, .. }) = page.as_ref().and_then(|page| decode(group, page))
                && let location = self.extents.band_location(number, shape.summary_begin(group, pages))
                && let Some((device, offset_bytes)) = self.extents.place(location)
            {
                longer.push((at, group));
                places.push((device, offset_bytes, pages as usize * PAGE_BYTES));
            }
        }
        let is_good = |at: usize, bytes: &[u8]| decode(longer[at].1, bytes).is_some();
        for (&(at, _), reading) in longer.iter().zip(self.devices.read_each_good(&places, is_good)) {
            match reading {
                Reading::Good(bytes) => pages[at] = Some(bytes),
                // The pages do not make one summary: the first page alone says nothing.
                Reading::Bad(_) => {}
                Reading::Failed(_) => pages[at] = None,
            }
        }
        pages
    }

    /// Passes on what the summaries of a band name: those of the checkpoint (false), and later ones (true).
    fn walk(
        &mut self,
        number: u32,
        take: &mut dyn FnMut(bool, u16, u64, Candidate) -> Result<(), AloneError>,
    ) -> Result<Counts, AloneError> {
        let (shape, band) = (self.shape(), self.root.bands[number as usize]);
        let mut counts = Counts::default();
        let device = self.extents.place(self.extents.band_location(number, 0)).map(|(device, _)| device);
        let is_missing = device.is_none_or(|device| self.missing.contains(&device));
        if is_missing {
            counts.summaries_absent = u64::from(band.groups);
            return Ok(counts);
        }
        let mut misses = 0;
        let then = Self::with_data(shape, 0..band.groups);
        let later = Self::with_data(shape, band.groups..shape.groups());
        for groups in then.chunks(AT_ONCE).chain(later.chunks(MISSES_MAX as usize)) {
            let summary = |&group: &u32| Span::whole(self.extents.band_location(number, shape.summary_block(group)));
            let locations: Vec<Span> = groups.iter().map(summary).collect();
            let superblock = self.superblock;
            let is_good = |at: usize, page: &[u8]| {
                let group = groups[at];
                let found = decode_any(&superblock.pool, (number, group), shape.group_grains(group), page);
                match found.map(|found| found.generation()) {
                    Some(generation) if group < band.groups => generation.wrapping_sub(band.generation) < 0x8000_0000,
                    // Most places behind the groups that the checkpoint names are blank or hold an old summary. These are not read again.
                    found => found.is_some() || group >= band.groups && page.iter().all(|&byte| byte == 0),
                }
            };
            let pages = self.read(&locations, is_good);
            let pages = self.with_pages_before(number, groups, pages);
            for (&group, page) in groups.iter().zip(pages) {
                let was_complete = group < band.groups;
                let found = match (self.judge(number, group, page), self.beside.get(&(number, group))) {
                    (Group::Absent | Group::Unreadable, Some(entries)) => Group::Then(entries.clone()),
                    (found, _) => found,
                };
                let is_there = matches!(found, Group::Then(_) | Group::Later(..));
                counts.summaries += u64::from(was_complete || is_there);
                counts.summaries_absent += u64::from(was_complete && !matches!(found, Group::Then(_)));
                misses = if is_there { 0 } else { misses + u32::from(!was_complete) };
                let (is_later, entries) = match found {
                    Group::Then(entries) => (false, entries),
                    Group::Later(entries, is_reused) => {
                        counts.bands_reused |= u64::from(is_reused);
                        (true, entries)
                    }
                    Group::Unreadable => {
                        counts.later_unreadable += 1;
                        continue;
                    }
                    Group::Absent => continue,
                };
                let start = self.extents.band_location(number, shape.first_block(group));
                for (disk, block, candidate) in candidates(start, &entries) {
                    take(is_later, disk, block, candidate)?;
                }
            }
            if misses >= MISSES_MAX {
                break;
            }
        }
        Ok(counts)
    }

    /// All copies that the map may have named, of the blocks of some leaves.
    pub fn copies(
        &mut self,
        wanted: &BTreeSet<LeafKey>,
        leaves: &mut Leaves,
    ) -> Result<BTreeMap<Who, Vec<Candidate>>, AloneError> {
        let mut copies: BTreeMap<Who, Vec<Candidate>> = BTreeMap::new();
        let mut take = |disk: u16, block: u64, candidate: Candidate| {
            if !wanted.contains(&(disk, block / LEAF_ENTRIES as u64)) || !leaves.memory.take_copy() {
                return;
            }
            let list = copies.entry((disk, block)).or_default();
            if list.len() < COPIES_MAX {
                list.push(candidate);
            } else if let Some(oldest) = list.iter_mut().min().filter(|oldest| **oldest < candidate) {
                *oldest = candidate;
            }
        };
        let shape = self.shape();
        for (band, group, entries) in &self.root.open_groups {
            let start = self.extents.band_location(*band, shape.first_block(*group));
            candidates(start, entries).for_each(|(disk, block, candidate)| take(disk, block, candidate));
        }
        let with_later = self.counts.bands_reused > 0;
        for number in 0..self.root.bands.len() as u32 {
            self.walk(number, &mut |is_later, disk, block, candidate| {
                if with_later || !is_later {
                    take(disk, block, candidate);
                }
                Ok(())
            })?;
        }
        self.drop_absent(&mut copies);
        Ok(copies)
    }

    /// Drops, of blocks with several copies, those copies whose data is not there: of a record that was not durable recovery keeps only the
    /// blocks whose data arrived. Where no copy of a block is there, the block was damaged later, and all its copies stay. So do copies
    /// that cannot be read.
    fn drop_absent(&mut self, copies: &mut BTreeMap<Who, Vec<Candidate>>) {
        let mut several: Vec<_> = copies.iter_mut().filter(|(_, list)| list.len() > 1).collect();
        let mut rest = &mut several[..];
        while !rest.is_empty() {
            let (mut blocks, mut count) = (0, 0);
            while let Some((_, list)) = rest.get(blocks)
                && (blocks == 0 || count + list.len() <= AT_ONCE)
            {
                (blocks, count) = (blocks + 1, count + list.len());
            }
            let (group, others) = std::mem::take(&mut rest).split_at_mut(blocks);
            rest = others;
            let spans: Vec<Span> = group.iter().flat_map(|(_, list)| list.iter().map(|c| c.span)).collect();
            let named: Vec<(Who, Candidate)> =
                group.iter().flat_map(|(who, list)| list.iter().map(|candidate| (**who, *candidate))).collect();
            let is_good = |at: usize, data: &[u8]| holds(named[at].0, &named[at].1, data);
            let mut data = self.read(&spans, is_good).into_iter();
            for (who, list) in group {
                let mut is_any_there = false;
                let mut there = Vec::new();
                for (candidate, data) in list.iter().zip(data.by_ref().take(list.len())) {
                    let is_there = data.as_ref().map(|data| holds(**who, candidate, data));
                    is_any_there |= is_there == Some(true);
                    if is_there != Some(false) {
                        there.push(*candidate);
                    }
                }
                if is_any_there {
                    **list = there;
                }
            }
        }
    }

    /// Takes, of the copies that may have come after the checkpoint, the newest of each block whose data is there.
    pub fn later(&mut self, leaves: &mut Leaves) -> Result<(), AloneError> {
        let waiting = leaves.take_later().into_iter().map(|(who, list)| (who, list.into_iter().rev().collect()));
        let (found, unread) = self.last_that_is_there(waiting.collect());
        for (who, candidate) in found {
            leaves.set_later(who.0, who.1, candidate)?;
        }
        // The copy that cannot be read may have been the newest, so an older one must not be shown as if there were no newer one.
        unread.into_iter().try_for_each(|who| leaves.set_unread(who.0, who.1))
    }

    /// Chooses, of several copies of the same data, one that is there.
    pub fn twins(&mut self, leaves: &mut Leaves) {
        let twins = leaves.take_twins();
        for (who, candidate) in self.last_that_is_there(twins).0 {
            leaves.choose(who.0, who.1, candidate);
        }
    }

    /// For each block the last copy of its list whose data is there; and the blocks of which a copy behind that one cannot be read.
    fn last_that_is_there(&mut self, mut waiting: Vec<(Who, Vec<Candidate>)>) -> (Vec<(Who, Candidate)>, Vec<Who>) {
        let (mut found, mut unread) = (Vec::new(), Vec::new());
        while !waiting.is_empty() {
            let mut next = Vec::new();
            for group in waiting.chunks_mut(AT_ONCE) {
                let spans: Vec<Span> = group.iter().filter_map(|(_, list)| list.last()).map(|c| c.span).collect();
                let last = |at: usize| group.get(at).and_then(|(who, list)| Some((*who, *list.last()?)));
                let is_good =
                    |at: usize, data: &[u8]| last(at).is_some_and(|(who, candidate)| holds(who, &candidate, data));
                let read = self.read(&spans, is_good);
                for ((who, list), data) in group.iter_mut().zip(read) {
                    let Some(candidate) = list.pop() else { continue };
                    if data.as_ref().is_some_and(|data| holds(*who, &candidate, data)) {
                        found.push((*who, candidate));
                        continue;
                    }
                    if data.is_none() {
                        unread.push(*who);
                    }
                    if !list.is_empty() {
                        next.push((*who, std::mem::take(list)));
                    }
                }
            }
            waiting = next;
        }
        (found, unread)
    }
}
