//! Bands of the capacity tier: which are free, which stream writes into which, and how much lives in each.

use super::extents::Extents;
use super::fitting::{Fit, Frontier, GROUPS_TRIED, Wanted, fit};
pub use super::granted::Grant;
use super::granted::Unsettled;
use super::groups::{GroupKey, Groups};
use super::kept::Kept;
use super::open_bands::OpenBands;
use super::victim::best;
use crate::layout::band_summary::{BandShape, GROUP_BLOCKS, SummaryEntry, SummaryName, open_max};
use crate::layout::page::BLOCK_GRAINS;
use crate::layout::root::{BandRoot, BandState};
use crate::layout::stream::Stream;
use std::collections::BTreeSet;

/// The band table.
#[derive(Clone, Debug)]
pub struct Bands {
    table: Vec<BandRoot>,
    shape: BandShape,
    free: BTreeSet<u32>,
    open: OpenBands,
    /// Groups whose summary is not on the device.
    groups: Groups,
    /// Until replay ends: complete groups of each band in the root. Their summaries are on the device, and replay does not see all that was written into them.
    complete: Vec<u32>,
    clock: u64,
    /// Free bands that hosts do not get.
    pub kept: Kept,
    unsettled: Unsettled,
    /// Bands that were closed because nothing fitted into them any more, and in which nothing lives.
    emptied: Vec<u32>,
}

impl Bands {
    /// From the root's tables. Bands that were open stay open, with the entries that the root carries.
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
            kept: Kept::default(),
            unsettled: Unsettled::default(),
            emptied: Vec::new(),
            table,
        };
        for (number, band) in (0_u32..).zip(&bands.table) {
            match band.state {
                BandState::Free => _ = bands.free.insert(number),
                BandState::Open => bands.open.insert(band.stream, number),
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

    /// Grains named by the map, over all bands.
    #[must_use]
    pub fn valid_grains(&self) -> u64 {
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

    /// Grants room in one group to `stream`, for as much of what is wanted as fits; opens a band where needed. When bands are scarce streams share what
    /// is open: mixed lifetimes cost garbage collection, but without space the write fails.
    pub fn grant(&mut self, stream: Stream, wanted: Wanted<'_>) -> Option<Grant> {
        for _ in 0..GROUPS_TRIED {
            let band = match self.open.of(stream).or_else(|| self.open_for(stream)) {
                Some(band) => band,
                None => self.open.nearest(stream)?,
            };
            let at = self.frontier(band);
            let found = fit(self.shape, at, wanted);
            if self.go_on_at(band, found.map_or(at.end(self.shape), |fit| at.behind(fit))) {
                self.groups.end_at((band, at.group), at.block + found.map_or(0, |fit| fit.blocks));
            }
            if let Some(Fit { blocks, count, .. }) = found {
                self.unsettled.granted(band, count);
                return Some(Grant { band, first: at.block, blocks, count });
            }
            self.note_emptied(band);
        }
        None
    }

    /// Takes the bands that a grant has closed and in which nothing lives: they may be freed.
    pub fn take_emptied(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.emptied)
    }

    /// Where writing into an open band goes on.
    fn frontier(&self, band: u32) -> Frontier {
        let block = self.table[band as usize].frontier();
        let group = self.shape.group_of(block);
        // Of a band that was open before the start only the noted entries are known, and one more entry may stand for what is passed over.
        let noted = || self.groups.entries((band, group)).map_or(0, |entries| entries.len() + 1);
        Frontier { group, block, entries: self.open.promised(band).unwrap_or_else(noted) }
    }

    /// Has writing into a band go on from there; true where the group has no room for one more block, so that it is complete.
    fn go_on_at(&mut self, band: u32, at: Frontier) -> bool {
        let is_complete = fit(self.shape, at, Wanted::Whole(1)).is_none();
        let next = if is_complete { self.shape.skip_summary(self.shape.summary_block(at.group)) } else { at.block };
        self.table[band as usize].written = next * BLOCK_GRAINS as u32;
        self.open.promise(band, if is_complete { 0 } else { at.entries });
        if next == self.shape.blocks() {
            self.close(band);
        }
        is_complete
    }

    /// Blocks that could be granted now to all streams of one kind together.
    pub fn room(&self, collecting: bool) -> u64 {
        let left = self.left_in_open(collecting);
        let keep = if collecting { 0 } else { self.kept_for_collection() };
        if self.groups.is_crowded() {
            return 0;
        }
        left + self.free.len().saturating_sub(keep) as u64 * u64::from(self.data_blocks())
    }

    /// Blocks that still fit into the open bands of one kind.
    fn left_in_open(&self, collecting: bool) -> u64 {
        let open = self.open.of_kind(collecting);
        open.map(|band| u64::from(self.shape.data_left(self.table[band as usize].frontier()))).sum()
    }

    /// Free bands that are kept for garbage collection.
    fn kept_for_collection(&self) -> usize {
        self.kept.bands(self.left_in_open(true), self.data_blocks())
    }

    fn open_for(&mut self, stream: Stream) -> Option<u32> {
        let collecting = stream.is_collected;
        let same_kind = self.open.of_kind(collecting).count();
        if same_kind >= open_max(self.table.len() as u64, collecting) as usize {
            return None;
        }
        // Beyond the first, a band for a new stream must leave room for the others to continue. What garbage collection moves is divided only while
        // there are bands for hosts, too.
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
        // In replay the map may still name old data here, which the journal supersedes further on.
        let BandRoot { valid, blocks, .. } = self.table[band as usize];
        self.table[band as usize] =
            BandRoot { state: BandState::Open, stream, generation, valid, blocks, ..BandRoot::default() };
        self.open.insert(stream, band);
        self.open.promise(band, 0);
        self.groups.forget(band);
        self.complete.get_mut(band as usize).into_iter().for_each(|complete| *complete = 0);
    }

    fn close(&mut self, band: u32) {
        self.clock += 1;
        let clock = self.clock;
        let entry = &mut self.table[band as usize];
        entry.state = BandState::Closed;
        entry.closed_at = clock;
        self.open.remove(entry.stream, band);
    }

    /// Closes a band before it is full, so that what lives there can be collected. A band that is closed already stays as it is: if nothing lives in
    /// it, it is on its way to be free.
    pub fn end_early(&mut self, band: u32) {
        let is_open = |bands: &Self| bands.get(band).state == BandState::Open;
        if !is_open(self) {
            return;
        }
        let at = self.frontier(band);
        // A group that was begun has its summary in the usual place.
        if at.block > self.shape.first_block(at.group) && self.go_on_at(band, at.end(self.shape)) {
            self.groups.end_at((band, at.group), at.block);
        }
        if is_open(self) {
            self.close(band);
        }
        self.note_emptied(band);
    }

    /// Notes a band that was closed just now and in which nothing lives: no release of a block will free it.
    fn note_emptied(&mut self, band: u32) {
        self.emptied.extend(Some(band).filter(|_| self.is_empty_closed(band)));
    }

    /// Whether a band is closed, nothing lives in it, and nothing is being written into it.
    pub fn is_empty_closed(&self, band: u32) -> bool {
        let BandRoot { valid, state, .. } = self.get(band);
        state == BandState::Closed && valid == 0 && !self.unsettled.has(band)
    }

    /// Closed bands that the map does not name any more.
    pub fn empty_closed(&self) -> Vec<u32> {
        (0..self.table.len() as u32).filter(|&band| self.is_empty_closed(band)).collect()
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

    /// The same, to note what became of their summaries.
    pub fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
    }

    /// Notes the entry of data from a grain of a band on: when the data is sent, not when the map changes.
    pub fn note(&mut self, band: u32, grain: u32, entry: SummaryEntry) {
        self.groups.note(self.shape, band, grain, entry);
    }

    /// The same in replay: groups that are complete in the root have their summaries on the device.
    pub fn replay_note(&mut self, band: u32, grain: u32, entry: SummaryEntry) {
        let complete = self.complete.get(band as usize).copied().unwrap_or(0);
        if self.shape.group_of(grain / BLOCK_GRAINS as u32) >= complete {
            self.note(band, grain, entry);
        }
    }

    /// Granted blocks are in the map, or never will be. True where the band is empty now and may be freed.
    pub fn settle(&mut self, band: u32, blocks: u32) -> bool {
        self.unsettled.settle(band, blocks) && self.is_empty_closed(band)
    }

    /// The map now names `grains` more grains of the band.
    pub fn gain(&mut self, band: u32, grains: u8) {
        let most = self.data_blocks() * BLOCK_GRAINS as u32;
        let entry = &mut self.table[band as usize];
        entry.valid = entry.valid.saturating_add(u32::from(grains));
        entry.blocks = entry.blocks.saturating_add(1);
        if self.complete.is_empty() {
            // The count would be too high where a damaged leaf hid what was released. In replay it is not limited, as the map may name what was there
            // before and what is there now.
            entry.limit(most);
        }
    }

    /// The map names so many grains and blocks fewer. True where these were the last, the band is closed, and nothing is being written into it: it may be freed.
    pub fn lose(&mut self, band: u32, grains: u32, blocks: u32) -> bool {
        let entry = &mut self.table[band as usize];
        entry.valid = entry.valid.saturating_sub(grains);
        entry.blocks = entry.blocks.saturating_sub(blocks);
        self.is_empty_closed(band)
    }

    /// The band may be opened again.
    pub fn release(&mut self, band: u32) {
        let generation = self.table[band as usize].generation;
        self.table[band as usize] = BandRoot { generation, ..BandRoot::default() };
        self.groups.forget(band);
        self.free.insert(band);
    }

    /// In replay: a record names blocks of this band in a generation, of which it has the low bits, so the band was open then.
    pub fn replay_write(&mut self, band: u32, first: u32, blocks: u32, stream: Stream, generation: u16) {
        let entry = self.table[band as usize];
        if entry.state == BandState::Free || entry.generation as u16 != generation {
            // It was opened, or emptied, freed and opened again, and replay need not have seen that.
            self.free.remove(&band);
            self.open.remove(entry.stream, band);
            // A stream may have had two bands open one after the other: the older one is full by then.
            if let Some(older) = self.open.of(stream) {
                self.close(older);
            }
            let ahead = match generation.wrapping_sub(entry.generation as u16) {
                0 => 1 << 16,
                ahead => u32::from(ahead),
            };
            self.mark_open(band, stream, entry.generation.wrapping_add(ahead));
        }
        let next = self.shape.skip_summary((first + blocks).min(self.shape.blocks()));
        let entry = &mut self.table[band as usize];
        entry.written = entry.written.max(next * BLOCK_GRAINS as u32);
        if entry.state == BandState::Open && entry.written == self.shape.grains() {
            self.close(band);
        }
    }

    /// Ends replay: only as many bands stay open as streams may have, and they go on at the next row of `row_blocks` blocks. Summaries of groups that
    /// are complete now are due.
    pub fn replay_finished(&mut self, row_blocks: u32) {
        for collecting in [false, true] {
            while self.open.of_kind(collecting).count() > open_max(self.table.len() as u64, collecting) as usize {
                let Some(band) = self.open.of_kind(collecting).last() else { break };
                self.close(band);
            }
        }
        let complete_in_root = std::mem::take(&mut self.complete);
        let most = self.data_blocks() * BLOCK_GRAINS as u32;
        self.table.iter_mut().for_each(|band| band.limit(most));
        self.open.forget_promised();
        for band in self.open.all() {
            let at = self.frontier(band);
            self.go_on_at(band, Frontier { block: self.shape.next_row(at.block, row_blocks), ..at });
        }
        for ((number, band), from) in (0u32..).zip(&self.table).zip(complete_in_root) {
            let written = band.frontier().div_ceil(GROUP_BLOCKS);
            self.groups.complete(number, from, band.complete_groups(self.shape).min(written));
        }
    }

    /// Whether a band may be collected at all: it is closed, no data is on its way to it, and its summaries are on the device, or in memory where their
    /// places take no writes.
    pub fn may_collect(&self, number: u32) -> bool {
        self.get(number).state == BandState::Closed && !self.unsettled.has(number) && !self.groups.has_awaited(number)
    }

    /// The best victim by cost and benefit, of the bands that may be collected.
    pub fn victim(&self, excluded: impl Fn(u32) -> bool) -> Option<u32> {
        let may = |number: u32| !excluded(number) && self.may_collect(number);
        best(&self.table, (self.data_blocks(), self.clock), self.kept.packed, may)
    }
}

#[cfg(test)]
#[path = "bands_tests.rs"]
mod tests;
