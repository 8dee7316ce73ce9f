//! Changing the map: new entries in, old space out, books kept.

use super::clients::Fill;
use super::{Engine, Freed};
use crate::layout::band_summary::SummaryEntry;
use crate::layout::page::{self, Entry};
use forebay_block::{ClassId, DiskId};

const BLOCK: u64 = 4096;

impl Engine {
    /// Books of a class.
    pub(crate) fn books(&mut self, class: ClassId) -> &mut forebay_prism::ClassStats {
        let at = usize::from(class.0);
        if self.stats.len() <= at {
            self.stats.resize(at + 1, forebay_prism::ClassStats::default());
        }
        &mut self.stats[at]
    }

    /// The records and data of a piece have arrived: its segments become the map's entries.
    pub(crate) fn apply_piece(&mut self, id: u32) {
        let piece = &self.pieces[id as usize];
        let Some(frame) = piece.frame else { return };
        let (disk, leaf, first, block) = (piece.disk, piece.leaf, usize::from(piece.first), piece.block());
        let batch = piece.batches.last().copied().unwrap_or(0);
        self.dirty_frame(frame);
        let mut stageable = 0i32;
        for index in 0..self.pieces[id as usize].segments.len() {
            let segment = self.pieces[id as usize].segments[index];
            if let Fill::Reclass { class } = segment.fill {
                let from = first + usize::from(segment.first);
                for at in from..from + usize::from(segment.blocks) {
                    stageable += self.reclass_entry(frame, at, class);
                }
                continue;
            }
            for i in 0..usize::from(segment.blocks) {
                let within = usize::from(segment.first) + i;
                let (entry, checksum) = match segment.fill {
                    Fill::Data { location, class } => {
                        let location = location + 8 * i as u64;
                        (Entry::Data { location, class }, self.pieces[id as usize].checksums[within])
                    }
                    Fill::Zero => (Entry::Zero, 0),
                    Fill::Unmapped | Fill::Reclass { .. } => (Entry::Unmapped, 0),
                };
                let address = block + within as u64;
                let sequence = segment.sequence;
                stageable += self.replace(frame, first + within, (disk, address, sequence), entry, checksum, batch);
            }
            if let Fill::Data { location, class } = segment.fill {
                let bytes = u64::from(segment.blocks) * BLOCK;
                let fast = self.extents.is_fast(location);
                let books = self.books(class);
                books.host_written_bytes += bytes;
                books.bypassed_bytes += if fast { 0 } else { bytes };
                self.settle(location, u32::from(segment.blocks));
            }
        }
        self.adjust_stageable(disk, leaf, stageable);
    }

    pub(crate) fn adjust_stageable(&mut self, disk: DiskId, leaf: u64, change: i32) {
        if change != 0
            && let Some(entry) = self.disk_mut(disk)
        {
            let now = i32::from(entry.leaf(leaf).0.stageable) + change;
            entry.set_stageable(leaf, now.clamp(0, page::LEAF_ENTRIES as i32) as u16);
        }
    }

    /// Replaces one entry; the old block's space is free once `batch` is durable. Returns the change in blocks that
    /// may be destaged. `who` is (disk, block address, sequence).
    pub(crate) fn replace(
        &mut self,
        frame: u32,
        at: usize,
        who: (DiskId, u64, u64),
        entry: Entry,
        checksum: u32,
        batch: u64,
    ) -> i32 {
        let leaf = &mut self.frames.get_mut(frame).page;
        let (old, _) = page::leaf_entry(leaf, at);
        page::set_leaf_entry(leaf, at, entry, checksum);
        let mut change = 0;
        self.copy_superseded(who.0, who.1, entry, checksum);
        if let Entry::Data { location, class } = entry {
            if self.extents.is_fast(location) {
                self.books(class).fast_blocks += 1;
                change += i32::from(self.may_destage(class));
            } else {
                self.books(class).capacity_blocks += 1;
                if let Some((band, block)) = self.extents.band(location) {
                    let (disk, block_address, sequence) = who;
                    let note = SummaryEntry { disk, class, checksum, block: block_address, sequence };
                    self.bands.note(band, block, note);
                    self.bands.gain(band);
                }
            }
        }
        if let Entry::Data { location, class } = old {
            change -= self.release(location, class, batch);
        }
        change
    }

    /// Gives up a location that the map no longer names. Returns 1 where it was one that may be destaged.
    fn release(&mut self, location: u64, class: ClassId, batch: u64) -> i32 {
        if self.extents.is_fast(location) {
            let books = self.books(class);
            books.fast_blocks = books.fast_blocks.saturating_sub(1);
            let slot = self.extents.slot(location);
            self.freed.push(batch, Freed::Slots { first: slot, count: 1 });
            return i32::from(self.may_destage(class));
        }
        let books = self.books(class);
        books.capacity_blocks = books.capacity_blocks.saturating_sub(1);
        if let Some((band, _)) = self.extents.band(location)
            && self.bands.lose(band)
        {
            self.freed.push(batch, Freed::Band(band));
        }
        0
    }

    /// The fate of blocks granted in a band is known; where that leaves it empty, it is free once all that was recorded
    /// so far is durable.
    pub(crate) fn settle(&mut self, location: u64, blocks: u32) {
        if let Some((band, _)) = self.extents.band(location)
            && self.bands.settle(band, blocks)
        {
            let (_, open) = self.journal.head();
            let last = if self.journal.has_open() { open } else { open - 1 };
            self.freed.push(last, Freed::Band(band));
        }
    }

    /// Space taken for a write that failed.
    pub(crate) fn free_cancelled(&mut self, id: u32) {
        let piece = &self.pieces[id as usize];
        let batch = piece.cancels.last().copied().unwrap_or(0);
        let segments = piece.segments.clone();
        let (disk, block, blocks) = (piece.disk, piece.block(), u64::from(piece.blocks));
        (block..block + blocks).for_each(|block| self.forget_copy(disk, block));
        for segment in segments {
            let Fill::Data { location, .. } = segment.fill else {
                continue;
            };
            if self.extents.is_fast(location) {
                let first = self.extents.slot(location);
                self.freed.push(batch, Freed::Slots { first, count: u64::from(segment.blocks) });
            } else {
                self.settle(location, u32::from(segment.blocks));
            }
        }
    }

    /// Frees what became durable: slots at once, bands after their trim.
    pub(crate) fn release_durable(&mut self) {
        let durable = if self.options.faults.reuse_at_once() { u64::MAX } else { self.journal.durable() };
        while let Some(freed) = self.freed.pop(durable) {
            if self.mover_holds(freed) {
                continue;
            }
            match freed {
                Freed::Slots { first, count } => {
                    for slot in first..first + count {
                        self.slots.clear(slot);
                    }
                }
                Freed::Band(band) => self.trim_band(band),
            }
        }
    }

    fn trim_band(&mut self, band: u32) {
        let location = self.extents.band_location(band, 0);
        // The summary would be written into a band that is somebody else's by then.
        if self.bands.summary(band).is_some() {
            self.checkpoint.trims_waiting.push(band);
            return;
        }
        match self.extents.place(location) {
            Some((device, offset_bytes)) if self.discards & 1 << device != 0 => {
                let op = forebay_block::Op::Discard { len_bytes: self.superblock.band_bytes };
                self.command(device, offset_bytes, 0, op, super::Pending::Trim { band });
            }
            _ => self.bands.release(band),
        }
    }

    /// Trims that waited for a summary to be written.
    pub(crate) fn retry_trims(&mut self) {
        for band in std::mem::take(&mut self.checkpoint.trims_waiting) {
            self.trim_band(band);
        }
    }
}
