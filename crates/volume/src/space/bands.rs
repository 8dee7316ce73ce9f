//! Bands of the capacity tier: which are free, which are written by which stream, how much of each still lives.

use super::extents::Extents;
use crate::layout::band_summary::{self, SummaryEntry};
use crate::layout::root::{BandRoot, BandState};
use std::collections::{BTreeMap, BTreeSet};

/// Most bands that may be open or waiting for their summary to reach the device.
pub const UNSUMMARISED_MAX: usize = 12;
/// Bands that replay may leave open.
const OPEN_AFTER_REPLAY_MAX: usize = 6;
/// Streams with this bit are written by garbage collection.
pub const COLLECTED: u8 = 0x80;

/// What a device is told of a stream, so that data which dies together carries the same number whether hosts or moves
/// write it; 0 would be no hint.
#[must_use]
pub fn stream_hint(stream: u8) -> u8 {
    (stream & COLLECTED) | ((stream & !COLLECTED) + 1)
}

/// A run granted for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The band.
    pub band: u32,
    /// First block in the band.
    pub first: u32,
    /// Blocks.
    pub blocks: u32,
}

/// The band table.
#[derive(Clone, Debug)]
pub struct Bands {
    table: Vec<BandRoot>,
    /// Blocks of a band that hold data.
    data_blocks: u32,
    free: BTreeSet<u32>,
    /// Open band of each stream.
    open: BTreeMap<u8, u32>,
    /// Summaries of bands that are open or closing.
    summaries: BTreeMap<u32, Vec<SummaryEntry>>,
    clock: u64,
    /// Bands kept back for garbage collection.
    reserve: usize,
    /// Blocks granted whose fate is not yet noted, per band.
    unsettled: BTreeMap<u32, u32>,
}

impl Bands {
    /// From the root's tables. Bands that were open stay open with the summary the root carries.
    #[must_use]
    pub fn new(
        mut table: Vec<BandRoot>,
        summaries: Vec<(u32, Vec<SummaryEntry>)>,
        clock: u64,
        band_bytes: u64,
        extents: &Extents,
    ) -> Self {
        let (data_blocks, _) = band_summary::split(band_bytes / 4096);
        table.resize(extents.bands() as usize, BandRoot::default());
        let mut bands = Self {
            table,
            data_blocks: data_blocks as u32,
            free: BTreeSet::new(),
            open: BTreeMap::new(),
            summaries: summaries.into_iter().collect(),
            clock,
            reserve: 1,
            unsettled: BTreeMap::new(),
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

    /// Summaries not yet on the device, for the root.
    pub fn summaries(&self) -> impl Iterator<Item = (&u32, &Vec<SummaryEntry>)> {
        self.summaries.iter()
    }

    /// Bands closed so far.
    #[must_use]
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Data blocks of a band.
    #[must_use]
    pub fn data_blocks(&self) -> u32 {
        self.data_blocks
    }

    /// Bands that may be opened.
    #[must_use]
    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Number of bands.
    #[must_use]
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// Blocks named by the map, over all bands.
    #[must_use]
    pub fn valid_blocks(&self) -> u64 {
        self.table.iter().map(|band| u64::from(band.valid)).sum()
    }

    /// A band.
    #[must_use]
    pub fn get(&self, band: u32) -> BandRoot {
        self.table[band as usize]
    }

    /// Grants up to `wanted` blocks to `stream`, opening a band where needed. Streams share what is open when bands
    /// are scarce: data of mixed lifetimes costs garbage collection, no space costs the write.
    pub fn grant(&mut self, stream: u8, wanted: u32) -> Option<Grant> {
        let collecting = stream & COLLECTED != 0;
        let band = match self.open.get(&stream) {
            Some(&band) => band,
            None => match self.open_for(stream, collecting) {
                Some(band) => band,
                None => *self.open.iter().find(|(other, _)| (**other & COLLECTED != 0) == collecting)?.1,
            },
        };
        let entry = &mut self.table[band as usize];
        let first = entry.written;
        let blocks = wanted.min(self.data_blocks - first);
        entry.written += blocks;
        *self.unsettled.entry(band).or_default() += blocks;
        if self.table[band as usize].written == self.data_blocks {
            self.close(band);
        }
        Some(Grant { band, first, blocks })
    }

    /// Blocks that streams of one kind could be granted now, all together.
    #[must_use]
    pub fn room(&self, collecting: bool) -> u64 {
        let same_kind = self.open.iter().filter(|(stream, _)| (**stream & COLLECTED != 0) == collecting);
        let left: u64 =
            same_kind.map(|(_, &band)| u64::from(self.data_blocks - self.table[band as usize].written)).sum();
        let keep = if collecting { 0 } else { self.reserve };
        // No more can be opened until summaries of full ones are written.
        let may_open = UNSUMMARISED_MAX.saturating_sub(self.summaries.len());
        let free = self.free.len().saturating_sub(keep).min(may_open);
        left + free as u64 * u64::from(self.data_blocks)
    }

    fn open_for(&mut self, stream: u8, collecting: bool) -> Option<u32> {
        let same_kind = self.open.keys().filter(|&&other| (other & COLLECTED != 0) == collecting).count();
        // Each open band is space that others cannot use: few bands, few streams.
        let (divisor, most) = if collecting { (16, 3) } else { (8, 6) };
        if same_kind >= (self.table.len() / divisor).clamp(1, most) {
            return None;
        }
        // Beyond the first, a band for a new stream must leave room for the others to continue.
        let keep = if collecting { 0 } else { self.reserve + usize::from(same_kind > 0) };
        if self.free.len() <= keep || self.summaries.len() >= UNSUMMARISED_MAX {
            return None;
        }
        let band = self.free.pop_first()?;
        self.mark_open(band, stream);
        Some(band)
    }

    fn mark_open(&mut self, band: u32, stream: u8) {
        let generation = self.table[band as usize].generation + 1;
        self.table[band as usize] = BandRoot { state: BandState::Open, stream, generation, ..BandRoot::default() };
        self.open.insert(stream, band);
        self.summaries.insert(band, vec![SummaryEntry::NONE; self.data_blocks as usize]);
    }

    fn close(&mut self, band: u32) {
        self.clock += 1;
        let clock = self.clock;
        let entry = &mut self.table[band as usize];
        entry.state = BandState::Closed;
        entry.closed_at = clock;
        if self.open.get(&entry.stream) == Some(&band) {
            self.open.remove(&entry.stream);
        }
    }

    /// Bands that are full and whose summary is not yet on the device.
    #[must_use]
    pub fn closing(&self) -> Vec<u32> {
        self.summaries.keys().copied().filter(|&b| self.table[b as usize].state == BandState::Closed).collect()
    }

    /// Closed bands that the map does not name any more.
    #[must_use]
    pub fn empty_closed(&self) -> Vec<u32> {
        let is_empty = |band: &BandRoot| band.state == BandState::Closed && band.valid == 0;
        (0u32..).zip(&self.table).filter(|(_, band)| is_empty(band)).map(|(i, _)| i).collect()
    }

    /// Whether any band is.
    #[must_use]
    pub fn has_closing(&self) -> bool {
        self.summaries.keys().any(|&band| self.table[band as usize].state == BandState::Closed)
    }

    /// The summary of an open or closing band.
    #[must_use]
    pub fn summary(&self, band: u32) -> Option<&[SummaryEntry]> {
        self.summaries.get(&band).map(Vec::as_slice)
    }

    /// The summary of `band` is on the device (or the band is gone).
    pub fn drop_summary(&mut self, band: u32) {
        self.summaries.remove(&band);
    }

    /// Notes who was written into a block.
    pub fn note(&mut self, band: u32, block: u32, entry: SummaryEntry) {
        if let Some(slot) = self.summaries.get_mut(&band).and_then(|s| s.get_mut(block as usize)) {
            *slot = entry;
        }
    }

    /// The fate of granted blocks is known: they are in the map, or never will be. True where the band is empty now
    /// and may be freed.
    pub fn settle(&mut self, band: u32, blocks: u32) -> bool {
        let Some(left) = self.unsettled.get_mut(&band) else { return false };
        *left = left.saturating_sub(blocks);
        if *left > 0 {
            return false;
        }
        self.unsettled.remove(&band);
        let entry = &self.table[band as usize];
        entry.valid == 0 && entry.state == BandState::Closed
    }

    /// Granted blocks whose fate is not yet known.
    #[must_use]
    pub fn unsettled(&self, band: u32) -> u32 {
        self.unsettled.get(&band).copied().unwrap_or(0)
    }

    /// The map now names one more block of the band.
    pub fn gain(&mut self, band: u32) {
        self.table[band as usize].valid += 1;
    }

    /// The map names one block less; true where that was the last, the band is closed, and nothing is still being
    /// written into it: it may be freed.
    pub fn lose(&mut self, band: u32) -> bool {
        let busy = self.unsettled.contains_key(&band);
        let entry = &mut self.table[band as usize];
        entry.valid = entry.valid.saturating_sub(1);
        entry.valid == 0 && entry.state == BandState::Closed && !busy
    }

    /// The band may be opened again.
    pub fn release(&mut self, band: u32) {
        let generation = self.table[band as usize].generation;
        self.table[band as usize] = BandRoot { generation, ..BandRoot::default() };
        self.summaries.remove(&band);
        self.free.insert(band);
    }

    /// Replay: a record names blocks of this band, so it was open when it was written.
    pub fn replay_write(&mut self, band: u32, first: u32, blocks: u32, stream: u8) {
        let full = self.data_blocks;
        if self.table[band as usize].state == BandState::Free {
            self.free.remove(&band);
            // Two bands of a stream may have been open one after the other: the older one is full by then.
            if let Some(&older) = self.open.get(&stream) {
                self.close(older);
            }
            self.mark_open(band, stream);
        }
        if self.table[band as usize].state == BandState::Closed && !self.summaries.contains_key(&band) {
            // It was emptied, freed and opened again, but replay could not see that: a record that moved its last data
            // away was dropped because what it moved to had been reused too. A new summary begins; old data that the
            // map still names here is superseded further on in the journal.
            self.table[band as usize].generation += 1;
            self.summaries.insert(band, vec![SummaryEntry::NONE; full as usize]);
        }
        let end = first + blocks;
        let entry = &mut self.table[band as usize];
        entry.written = entry.written.max(end.min(full));
        if entry.state == BandState::Open && entry.written == full {
            self.close(band);
        }
    }

    /// Ends replay: of the bands left open only as many stay so as streams may have; the rest are closed half full.
    pub fn replay_finished(&mut self) {
        while self.open.len() > OPEN_AFTER_REPLAY_MAX {
            let Some((_, band)) = self.open.pop_last() else { return };
            self.close(band);
        }
    }

    /// The closed band whose collection pays best: (1 - u) / 2u times its age in bands, u the share still valid
    /// (Rosenblum and Ousterhout, 1992, section 3.5). Bands still waiting for their summary are passed over.
    #[must_use]
    pub fn victim(&self, excluded: impl Fn(u32) -> bool) -> Option<u32> {
        let mut best: Option<(f64, u32)> = None;
        for (i, band) in self.table.iter().enumerate() {
            let i = i as u32;
            if band.state != BandState::Closed || band.valid >= self.data_blocks || band.valid == 0 || excluded(i) {
                continue;
            }
            if self.summaries.contains_key(&i) {
                continue;
            }
            let u = f64::from(band.valid) / f64::from(self.data_blocks);
            let age = (self.clock.saturating_sub(band.closed_at) + 1) as f64;
            let score = (1.0 - u) / (2.0 * u) * age;
            if best.is_none_or(|(other, _)| score > other) {
                best = Some((score, i));
            }
        }
        best.map(|(_, band)| band)
    }
}
