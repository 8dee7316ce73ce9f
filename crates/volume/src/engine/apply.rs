//! Changing the map: new entries in, old space out, statistics kept.

use super::clients::Fill;
use super::{Engine, Freed};
use crate::layout::page::{self, Entry};
use crate::map::change::Change;
use forebay_block::{ClassId, DiskId};

const BLOCK: u64 = 4096;

impl Engine {
    /// Statistics of a class.
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
            for i in 0..usize::from(segment.blocks) {
                let within = usize::from(segment.first) + i;
                let change = match segment.fill {
                    Fill::Data { location, class } => Change::Set {
                        entry: Entry::Data { location: location + 8 * i as u64, class },
                        checksum: self.pieces[id as usize].checksums[within],
                    },
                    Fill::Zero => Change::Set { entry: Entry::Zero, checksum: 0 },
                    Fill::Unmapped => Change::Set { entry: Entry::Unmapped, checksum: 0 },
                    Fill::Reclass { class } => Change::Reclass { class },
                };
                let who = (disk, block + within as u64);
                stageable += self.change_entry(frame, first + within, who, change, batch).unwrap_or(0);
            }
            if let Fill::Data { location, class } = segment.fill {
                self.count_written(class, location, u64::from(segment.blocks));
                self.settle(location, u32::from(segment.blocks));
            }
        }
        self.adjust_stageable(disk, leaf, stageable);
    }

    /// Counts blocks that hosts wrote at a location.
    pub(crate) fn count_written(&mut self, class: ClassId, location: u64, blocks: u64) {
        let bytes = blocks * BLOCK;
        self.written_blocks += blocks;
        let is_fast = self.extents.is_fast(location);
        let statistics = self.books(class);
        statistics.host_written_bytes += bytes;
        statistics.bypassed_bytes += if is_fast { 0 } else { bytes };
    }

    pub(crate) fn adjust_stageable(&mut self, disk: DiskId, leaf: u64, change: i32) {
        if change != 0
            && let Some(entry) = self.disk_mut(disk)
        {
            let now = i32::from(entry.leaf(leaf).0.stageable) + change;
            entry.set_stageable(leaf, now.clamp(0, page::LEAF_ENTRIES as i32) as u16);
            self.enqueue_leaf(disk, leaf);
        }
    }

    /// Does to one entry what a record says, in service and in replay alike; the old block's space is free once `batch`
    /// is durable. Returns the change in blocks that may be destaged; `None` where the record does not concern what is
    /// there now. `who` is (disk, block address).
    pub(crate) fn change_entry(
        &mut self,
        frame: u32,
        at: usize,
        who: (DiskId, u64),
        change: Change,
        batch: u64,
    ) -> Option<i32> {
        let old = page::leaf_entry(&self.frames.get(frame).page, at);
        let (entry, checksum) = change.apply(old)?;
        let epoch = self.epoch_now();
        match change {
            Change::Reclass { .. } => self.count_reclassed(old.0, entry),
            Change::Move { source, .. } => self.count_moved(entry, source),
            Change::Damage { .. } => self.counters.damaged_moves += 1,
            Change::Set { .. } => {}
        }
        let leaf = &mut self.frames.get_mut(frame).page;
        page::set_leaf_entry(leaf, at, entry, checksum);
        if let (Change::Set { .. }, Entry::Data { .. }) = (change, entry) {
            page::set_written(leaf, at, epoch);
        }
        let change_of_stageable = self.stageable(entry) - self.stageable(old.0);
        if let Change::Reclass { .. } = change {
            return Some(change_of_stageable);
        }
        self.copy_superseded(who.0, who.1, entry, checksum);
        if let Entry::Data { location, class } = entry {
            if self.extents.is_fast(location) {
                self.books(class).fast_blocks += 1;
            } else {
                self.books(class).capacity_blocks += 1;
                if let Some((band, _)) = self.extents.band(location) {
                    self.bands.gain(band, page::BLOCK_SECTORS as u8);
                }
            }
        }
        if let Entry::Data { location, class } = old.0 {
            let stays = matches!(entry, Entry::Data { location: new, .. } if new == location);
            self.release(location, class, batch, stays);
        }
        Some(change_of_stageable)
    }

    /// 1 for a block that may be destaged.
    fn stageable(&self, entry: Entry) -> i32 {
        match entry {
            Entry::Data { location, class } => i32::from(self.extents.is_fast(location) && self.may_destage(class)),
            _ => 0,
        }
    }

    fn count_moved(&mut self, entry: Entry, source: u64) {
        let Entry::Data { class, .. } = entry else { return };
        let is_destage = self.extents.is_fast(source);
        let statistics = self.books(class);
        if is_destage {
            statistics.destaged_bytes += BLOCK;
        } else {
            statistics.collected_bytes += BLOCK;
        }
    }

    fn count_reclassed(&mut self, old: Entry, new: Entry) {
        let (Entry::Data { location, class: before }, Entry::Data { class: after, .. }) = (old, new) else { return };
        let is_fast = self.extents.is_fast(location);
        let (fast, capacity) = (u64::from(is_fast), u64::from(!is_fast));
        let statistics = self.books(before);
        statistics.fast_blocks = statistics.fast_blocks.saturating_sub(fast);
        statistics.capacity_blocks = statistics.capacity_blocks.saturating_sub(capacity);
        statistics.reclassed_out_bytes += BLOCK;
        let statistics = self.books(after);
        statistics.fast_blocks += fast;
        statistics.capacity_blocks += capacity;
        statistics.reclassed_in_bytes += BLOCK;
    }

    /// Gives up a location that an entry no longer names; `stays`: its new one is the same, which only a journal that
    /// nobody wrote can make so.
    fn release(&mut self, location: u64, class: ClassId, batch: u64, stays: bool) {
        if self.extents.is_fast(location) {
            let statistics = self.books(class);
            statistics.fast_blocks = statistics.fast_blocks.saturating_sub(1);
            if !stays {
                let slot = self.extents.slot(location);
                self.freed.push(batch, Freed::Slots { first: slot, count: 1 });
            }
            return;
        }
        let statistics = self.books(class);
        statistics.capacity_blocks = statistics.capacity_blocks.saturating_sub(1);
        if let Some((band, _)) = self.extents.band(location)
            && self.bands.lose(band, page::BLOCK_SECTORS as u8)
        {
            // Batches end in any order: one after `batch` may have taken blocks from this band before it did, and is
            // not durable when `batch` is.
            self.freed.push(self.last_recorded_batch(), Freed::Band(band));
        }
    }

    /// The newest batch that holds a record.
    fn last_recorded_batch(&self) -> u64 {
        let (_, open) = self.journal.head();
        if self.journal.has_open() { open } else { open - 1 }
    }

    /// The fate of blocks granted in a band is known; where that leaves it empty, it is free once all that was recorded
    /// so far is durable.
    pub(crate) fn settle(&mut self, location: u64, blocks: u32) {
        if let Some((band, _)) = self.extents.band(location)
            && self.bands.settle(band, blocks)
        {
            self.freed.push(self.last_recorded_batch(), Freed::Band(band));
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
            self.space_changed = true;
            if self.migrate_holds(freed) {
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
        // A summary would be written into a band that is somebody else's by then.
        self.bands.forget_groups(band);
        if self.bands.is_summary_in_flight(band) {
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
