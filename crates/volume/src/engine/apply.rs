//! Changing the map: new entries in, old space out, statistics kept.

use super::requests::Fill;
use super::{Engine, Freed};
use crate::layout::page::{self, Entry};
use crate::map::change::Change;
use forebay_block::DiskId;

impl Engine {
    /// The records and data of a piece have arrived: its segments become the map's entries.
    pub(crate) fn apply_piece(&mut self, id: u32) {
        let piece = &self.requests.pieces[id as usize];
        let Some(frame) = piece.frame else { return };
        let (disk, leaf, first, block) = (piece.disk, piece.leaf, usize::from(piece.first), piece.block());
        let batch = piece.batches.last().copied().unwrap_or(0);
        self.dirty_frame(frame);
        let mut stageable = 0i32;
        for index in 0..self.requests.pieces[id as usize].segments.len() {
            let segment = self.requests.pieces[id as usize].segments[index];
            for i in 0..usize::from(segment.blocks) {
                let within = usize::from(segment.first) + i;
                let change = match segment.fill {
                    Fill::Data { location, class } => Change::Set {
                        entry: Entry::Data { location: location + 8 * i as u64, class },
                        checksum: self.requests.pieces[id as usize].checksums[within],
                    },
                    Fill::Zero => Change::Set { entry: Entry::Zero, checksum: 0 },
                    Fill::Unmapped => Change::Set { entry: Entry::Unmapped, checksum: 0 },
                    Fill::Reclass { class } => Change::Reclass { class },
                };
                let who = (disk, block + within as u64);
                stageable += self.change_entry(frame, first + within, who, change, batch).unwrap_or(0);
            }
            if let Fill::Data { location, class } = segment.fill {
                self.stats.count_written(class, self.setup.extents.is_fast(location), u64::from(segment.blocks));
                self.space.settle(location, u32::from(segment.blocks), self.journal.last_recorded());
            }
        }
        self.adjust_stageable(disk, leaf, stageable);
    }

    pub(crate) fn adjust_stageable(&mut self, disk: DiskId, leaf: u64, change: i32) {
        if change != 0
            && let Some(entry) = self.map.disk_mut(disk)
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
        let old = page::leaf_entry(&self.map.frames.get(frame).page, at);
        let (entry, checksum) = change.apply(old)?;
        let epoch = self.epoch_now();
        match change {
            Change::Reclass { .. } => {
                let is_fast = matches!(entry, Entry::Data { location, .. } if self.setup.extents.is_fast(location));
                self.stats.count_reclassed(old.0, entry, is_fast);
            }
            Change::Move { source, .. } => self.stats.count_moved(entry, self.setup.extents.is_fast(source)),
            Change::Damage { .. } => self.stats.counters.damaged_moves += 1,
            Change::Set { .. } => {}
        }
        let leaf = &mut self.map.frames.get_mut(frame).page;
        page::set_leaf_entry(leaf, at, entry, checksum);
        if let (Change::Set { .. }, Entry::Data { .. }) = (change, entry) {
            page::set_written(leaf, at, epoch);
        }
        let change_of_stageable = self.stageable(entry) - self.stageable(old.0);
        if let Change::Reclass { .. } = change {
            return Some(change_of_stageable);
        }
        self.copies.superseded(who.0, who.1, entry, checksum, &mut self.space.slots);
        if let Entry::Data { location, class } = entry {
            self.stats.count_block(class, self.setup.extents.is_fast(location), true);
            self.space.gain(location);
        }
        if let Entry::Data { location, class } = old.0 {
            let stays = matches!(entry, Entry::Data { location: new, .. } if new == location);
            self.stats.count_block(class, self.setup.extents.is_fast(location), false);
            self.space.lose(location, batch, self.journal.last_recorded(), stays);
        }
        Some(change_of_stageable)
    }

    /// 1 for a block that may be destaged.
    fn stageable(&self, entry: Entry) -> i32 {
        match entry {
            Entry::Data { location, class } => {
                i32::from(self.setup.extents.is_fast(location) && self.may_destage(class))
            }
            _ => 0,
        }
    }

    /// Space taken for a write that failed.
    pub(crate) fn free_cancelled(&mut self, id: u32) {
        let piece = &self.requests.pieces[id as usize];
        let batch = piece.cancels.last().copied().unwrap_or(0);
        let segments = piece.segments.clone();
        let (disk, block, blocks) = (piece.disk, piece.block(), u64::from(piece.blocks));
        self.copies.forget(disk, block..block + blocks, &mut self.space.slots);
        for segment in segments {
            let Fill::Data { location, .. } = segment.fill else {
                continue;
            };
            self.space.cancel(location, u32::from(segment.blocks), batch, self.journal.last_recorded());
        }
    }

    /// Frees what became durable: slots at once, bands after their trim.
    pub(crate) fn release_durable(&mut self) {
        let durable = if self.setup.options.faults.reuse_at_once() { u64::MAX } else { self.journal.durable() };
        while let Some(freed) = self.space.freed.pop(durable) {
            self.space.changed = true;
            if self.migrate.holds(freed, &self.setup.extents) {
                continue;
            }
            match freed {
                Freed::Slots { first, count } => self.space.slots.clear_run(first, count),
                // What the last checkpoint on the capacity tier names waits for the next one.
                Freed::Band(band) if self.checkpoint.capacity.pins(band, self.clock.now_ns()) => {}
                Freed::Band(band) => self.summaries.trim(band, &mut self.space.bands, &mut self.outbox),
            }
        }
    }
}
