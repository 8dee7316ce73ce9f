//! Bands of the capacity tier: which are free, which are written by which stream, how much of each still lives.

use super::extents::Extents;
pub use super::granted::Grant;
use super::granted::Unsettled;
pub use super::groups::ENTRIES_MEMORY_BYTES;
use super::groups::{GroupKey, Groups};
use super::open_bands::OpenBands;
use super::spare::Spare;
use crate::layout::band_summary::{BandShape, SummaryEntry, SummaryName, open_max};
use crate::layout::page::BLOCK_SECTORS;
use crate::layout::root::{BandRoot, BandState};
use crate::layout::stream::Stream;
use forebay_placement::victim::{Candidate, Choice};
use std::collections::BTreeSet;

/// No band is taken to be older: a damaged clock must not overflow.
const AGE_MAX_BANDS: u64 = 1 << 24;

/// The band table.
#[derive(Clone, Debug)]
pub struct Bands {
    table: Vec<BandRoot>,
    shape: BandShape,
    free: BTreeSet<u32>,
    open: OpenBands,
    /// Groups whose summary is not on the device.
    groups: Groups,
    /// Until replay ends: groups of each band that the root tells are complete. Their summaries are on the device, and replay
    /// does not see all that was written into them.
    complete: Vec<u32>,
    clock: u64,
    /// Blocks that live in the bands in collection: were their space taken, none of these bands might ever be empty.
    in_collection_blocks: u64,
    unsettled: Unsettled,
    packed_spare: Option<Spare>,
}

impl Bands {
    /// From the root's tables. Bands that were open stay open with the entries the root carries.
    #[must_use]
    pub fn new(
        mut table: Vec<BandRoot>,
        open_groups: Vec<(u32, u32, Vec<SummaryEntry>)>,
        clock: u64,
        band_bytes: u64,
        extents: &Extents,
    ) -> Self {
        let shape = BandShape::new(band_bytes);
        table.resize(extents.bands() as usize, BandRoot::default());
        let mut bands = Self {
            shape,
            free: BTreeSet::new(),
            open: OpenBands::default(),
            groups: Groups::new(open_groups),
            complete: table.iter().map(|band| band.complete_groups(shape)).collect(),
            clock,
            in_collection_blocks: 0,
            unsettled: Unsettled::default(),
            packed_spare: None,
            table,
        };
        for (i, band) in bands.table.iter().enumerate() {
            match band.state {
                BandState::Free => {
                    bands.free.insert(i as u32);
                }
                BandState::Open => {
                    bands.open.insert(band.stream, i as u32);
                }
                BandState::Closed => {}
            }
        }
        bands
    }

    /// The table, for the root.
    #[must_use]
    pub fn table(&self) -> &[BandRoot] {
        &self.table
    }

    /// Entries of groups that are not complete, for the root.
    pub fn open_groups(&self) -> impl Iterator<Item = (u32, u32, &[SummaryEntry])> {
        self.groups.filling()
    }

    /// How bands are cut into groups.
    #[must_use]
    pub fn shape(&self) -> BandShape {
        self.shape
    }

    /// Bands closed so far.
    #[must_use]
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Data blocks of a band.
    #[must_use]
    pub fn data_blocks(&self) -> u32 {
        self.shape.data_blocks()
    }

    /// Bands that may be opened.
    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Number of bands.
    #[must_use]
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// Sectors named by the map, over all bands.
    #[must_use]
    pub fn valid_sectors(&self) -> u64 {
        self.table.iter().map(|band| u64::from(band.valid)).sum()
    }

    /// A band.
    #[must_use]
    pub fn get(&self, band: u32) -> BandRoot {
        self.table[band as usize]
    }

    /// Low bits of the generation of a band, as records have them.
    #[must_use]
    pub fn record_generation(&self, band: u32) -> u16 {
        self.table[band as usize].generation as u16
    }

    /// Grants up to `wanted` blocks of one group to `stream`, opening a band where needed. Streams share what is open when bands are
    /// scarce: data of mixed lifetimes costs garbage collection, no space costs the write.
    pub fn grant(&mut self, stream: Stream, wanted: u32) -> Option<Grant> {
        let band = match self.open.of(stream).or_else(|| self.open_for(stream)) {
            Some(band) => band,
            None => self.open.nearest(stream)?,
        };
        let first = self.table[band as usize].frontier();
        let group = self.shape.group_of(first);
        let end = self.shape.summary_block(group);
        let blocks = wanted.min(end - first);
        let next = self.shape.skip_summary(first + blocks);
        self.table[band as usize].written = next * BLOCK_SECTORS as u32;
        self.unsettled.granted(band, blocks);
        if first + blocks == end {
            self.groups.make_due((band, group));
        }
        if next == self.shape.blocks() {
            self.close(band);
        }
        Some(Grant { band, first, blocks })
    }

    /// Blocks that streams of one kind could be granted now, all together.
    pub fn room(&self, collecting: bool) -> u64 {
        let left = self.left_in_open(collecting);
        let keep = if collecting { 0 } else { self.kept_for_collection() };
        if self.groups.is_crowded() {
            return 0;
        }
        left + self.free.len().saturating_sub(keep) as u64 * u64::from(self.data_blocks())
    }

    /// Blocks that go into the open bands of one kind.
    fn left_in_open(&self, collecting: bool) -> u64 {
        let open = self.open.of_kind(collecting);
        open.map(|band| u64::from(self.shape.data_left(self.table[band as usize].frontier()))).sum()
    }

    /// Free bands that are kept for garbage collection: one at least, and enough for all that is in progress.
    fn kept_for_collection(&self) -> usize {
        let missing = self.in_collection_blocks.saturating_sub(self.left_in_open(true));
        let least = if self.packed_spare.is_some() { 2 } else { 1 };
        usize::try_from(missing.div_ceil(u64::from(self.data_blocks()))).unwrap_or(usize::MAX).max(least)
    }

    /// Some blocks are compressed, and what is moved may take so much more; `None`: none is.
    pub fn spare_for_packed(&mut self, spare: Option<Spare>) {
        self.packed_spare = spare;
    }

    /// So many blocks live in the bands that are in collection.
    pub fn keep_for_collection(&mut self, blocks: u64) {
        self.in_collection_blocks = blocks;
    }

    fn open_max(&self, collecting: bool) -> usize {
        open_max(self.table.len() as u64, collecting) as usize
    }

    fn open_for(&mut self, stream: Stream) -> Option<u32> {
        let collecting = stream.is_collected;
        let same_kind = self.open.of_kind(collecting).count();
        if same_kind >= self.open_max(collecting) {
            return None;
        }
        // Beyond the first, a band for a new stream must leave room for the others to continue.
        // What collection moves is parted only while there are bands for hosts, too.
        let others = usize::from(same_kind > 0);
        let keep = if collecting { 2 * others } else { self.kept_for_collection() + others };
        if self.free.len() <= keep {
            return None;
        }
        let band = self.free.pop_first()?;
        let generation = self.table[band as usize].generation.wrapping_add(1);
        self.mark_open(band, stream, generation);
        Some(band)
    }

    fn mark_open(&mut self, band: u32, stream: Stream, generation: u32) {
        // In replay the map may name old data here still, which is superseded further on in the journal.
        let valid = self.table[band as usize].valid;
        self.table[band as usize] =
            BandRoot { state: BandState::Open, stream, generation, valid, ..BandRoot::default() };
        self.open.insert(stream, band);
        self.forget_groups(band);
        if let Some(complete) = self.complete.get_mut(band as usize) {
            *complete = 0;
        }
    }

    fn close(&mut self, band: u32) {
        self.clock += 1;
        let clock = self.clock;
        let entry = &mut self.table[band as usize];
        entry.state = BandState::Closed;
        entry.closed_at = clock;
        self.open.remove(entry.stream, band);
    }

    /// Closed bands that the map does not name any more.
    pub fn empty_closed(&self) -> Vec<u32> {
        let is_empty = |band: &BandRoot| band.state == BandState::Closed && band.valid == 0;
        (0u32..).zip(&self.table).filter(|(_, band)| is_empty(band)).map(|(i, _)| i).collect()
    }

    /// Whether there are summaries to be written.
    pub fn has_due(&self) -> bool {
        self.groups.due_count() > 0
    }

    /// Groups whose summary is not on the device.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The summary of a group that is due: from now on it counts as being on its way.
    pub fn begin_summary(&mut self, key: GroupKey) -> Option<(SummaryName, &[SummaryEntry])> {
        let generation = self.table.get(key.0 as usize)?.generation;
        let entries = self.groups.begin(key)?;
        Some((SummaryName { band: key.0, group: key.1, generation }, entries))
    }

    /// The same, to note what became of summaries.
    pub fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
    }

    /// Forgets entries of a band that is to be trimmed or opened again, except those on their way.
    pub fn forget_groups(&mut self, band: u32) {
        self.groups.forget(band);
    }

    /// Notes who is written from a sector of a band on: when its data is sent, not when the map changes.
    pub fn note(&mut self, band: u32, sector: u32, entry: SummaryEntry) {
        self.groups.note(self.shape, band, sector, entry);
    }

    /// The same in replay: groups that are complete in the root have their summary on the device.
    pub fn replay_note(&mut self, band: u32, sector: u32, entry: SummaryEntry) {
        let complete = self.complete.get(band as usize).copied().unwrap_or(0);
        if self.shape.group_of(sector / BLOCK_SECTORS as u32) >= complete {
            self.note(band, sector, entry);
        }
    }

    /// What was granted holds so many blocks, which are settled one by one: they are packed, so that it is not as many as it is long.
    pub fn packed(&mut self, grant: Grant, blocks: u32) {
        self.unsettled.packed(grant.band, grant.blocks, blocks);
    }

    /// The fate of granted blocks is known: they are in the map, or never will be. True where the band is empty now
    /// and may be freed.
    pub fn settle(&mut self, band: u32, blocks: u32) -> bool {
        let BandRoot { valid, state, .. } = self.table[band as usize];
        self.unsettled.settle(band, blocks) && valid == 0 && state == BandState::Closed
    }

    /// The map now names so many more sectors of the band.
    pub fn gain(&mut self, band: u32, sectors: u8) {
        let most = self.data_blocks() * BLOCK_SECTORS as u32;
        let entry = &mut self.table[band as usize];
        entry.valid = entry.valid.saturating_add(u32::from(sectors));
        if self.complete.is_empty() {
            // More than lives there is counted where a damaged leaf hid what was given up. In replay the map may name what
            // was there before and what is there now.
            entry.valid = entry.valid.min(most);
        }
    }

    /// The map names so many sectors less; true where these were the last, the band is closed, and nothing is still being
    /// written into it: it may be freed.
    pub fn lose(&mut self, band: u32, sectors: u8) -> bool {
        let busy = self.unsettled.has(band);
        let entry = &mut self.table[band as usize];
        entry.valid = entry.valid.saturating_sub(u32::from(sectors));
        entry.valid == 0 && entry.state == BandState::Closed && !busy
    }

    /// The band may be opened again.
    pub fn release(&mut self, band: u32) {
        let generation = self.table[band as usize].generation;
        self.table[band as usize] = BandRoot { generation, ..BandRoot::default() };
        self.forget_groups(band);
        self.free.insert(band);
    }

    /// Replay: a record names blocks of this band in a generation, whose low bits it has, so the band was open then.
    pub fn replay_write(&mut self, band: u32, first: u32, blocks: u32, stream: Stream, generation: u16) {
        let entry = self.table[band as usize];
        if entry.state == BandState::Free || entry.generation as u16 != generation {
            // It was opened, or emptied, freed and opened again: replay need not have seen how.
            self.free.remove(&band);
            self.open.remove(entry.stream, band);
            // Two bands of a stream may have been open one after the other: the older one is full by then.
            if let Some(older) = self.open.of(stream) {
                self.close(older);
            }
            let ahead = match generation.wrapping_sub(entry.generation as u16) {
                0 => 1 << 16,
                ahead => u32::from(ahead),
            };
            self.mark_open(band, stream, entry.generation.wrapping_add(ahead));
        }
        let next = self.shape.skip_summary((first + blocks).min(self.shape.blocks())) * BLOCK_SECTORS as u32;
        let entry = &mut self.table[band as usize];
        entry.written = entry.written.max(next);
        if entry.state == BandState::Open && entry.written == self.shape.sectors() {
            self.close(band);
        }
    }

    /// Ends replay: only as many bands stay open as streams may have, and they go on at the next row of so many blocks. The summaries of groups that are
    /// complete now are due.
    pub fn replay_finished(&mut self, row_blocks: u32) {
        for collecting in [false, true] {
            while self.open.of_kind(collecting).count() > self.open_max(collecting) {
                let Some(band) = self.open.of_kind(collecting).last() else { break };
                self.close(band);
            }
        }
        self.complete = Vec::new();
        let most = self.data_blocks() * BLOCK_SECTORS as u32;
        self.table.iter_mut().for_each(|band| band.valid = band.valid.min(most));
        for band in self.table.iter_mut().filter(|band| band.state == BandState::Open) {
            band.written = self.shape.next_row(band.frontier(), row_blocks) * BLOCK_SECTORS as u32;
        }
        for key in self.groups.keys() {
            if key.1 < self.table[key.0 as usize].complete_groups(self.shape) {
                self.groups.make_due(key);
            }
        }
    }

    /// Whether a band may be collected at all: it is closed, no data is on its way to it, and its summaries are on the device, or in memory as their places
    /// take no writes.
    pub fn may_collect(&self, number: u32) -> bool {
        self.get(number).state == BandState::Closed && !self.unsettled.has(number) && !self.groups.has_awaited(number)
    }

    /// The band whose collection pays best, by cost and benefit, of those that may be collected.
    pub fn victim(&self, excluded: impl Fn(u32) -> bool) -> Option<u32> {
        let data_sectors = self.data_blocks() * BLOCK_SECTORS as u32;
        let has_garbage = |band: &BandRoot| {
            // What is moved may take more than it did: else a full pool would copy itself.
            (1..data_sectors).contains(&band.valid)
                && self.packed_spare.is_none_or(|spare| spare.leaves_some(band.valid, self.data_blocks()))
        };
        let may = |number: u32| !excluded(number) && self.may_collect(number);
        let candidates = (0u32..).zip(&self.table).filter(|(number, band)| has_garbage(band) && may(*number));
        let log_valid = self.valid_sectors() / BLOCK_SECTORS;
        Choice::CostBenefit.best(candidates.map(|(number, band)| Candidate {
            band: number,
            group: band.stream.group,
            valid: band.valid,
            blocks: data_sectors,
            // As if each that was closed since had been full, and this one when it was opened.
            age: (self.clock.saturating_sub(band.closed_at).min(AGE_MAX_BANDS) + 1) * u64::from(self.data_blocks()),
            log_valid,
        }))
    }
}

#[cfg(test)]
#[path = "bands_tests.rs"]
mod tests;
