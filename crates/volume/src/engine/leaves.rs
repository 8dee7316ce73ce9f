//! Leaves in memory: what follows when one has arrived, is dirtied or changed. Records of hosts and of jobs change leaves here in service; recovery does so,
//! too, when it replays those records.

use super::checkpoint::Checkpoint;
use super::copies::Copies;
use super::map::Map;
use super::migrate::{AgeQueue, END_EPOCHS, Together, epoch_of, waits};
use super::outbox::Outbox;
use super::requests::{Fill, Piece};
use super::setup::Setup;
use super::space::Space;
use super::statistics::Statistics;
use crate::layout::page::{self, Entry, Span};
use crate::layout::stored::Stored;
use crate::map::change::Change;
use forebay_block::{ClassId, DiskId};
use forebay_prism::{Place, Prism};
use std::ops::Range;

/// How long data that was written since the last checkpoint before a crash stays on the fast tier, in epochs: half a tier's worth of writes.
const REPLAYED_STAY_EPOCHS: u32 = 16;

/// Whether blocks of a class may leave the fast tier.
pub(crate) fn may_destage(prism: &Prism, space: &Space, class: ClassId) -> bool {
    !space.pins || prism.table().get(class).is_none_or(|spec| spec.place != Place::Fast)
}

/// Whether blocks of a class are staged: kept on the fast tier for a time.
pub(crate) fn is_staged(prism: &Prism, class: ClassId) -> bool {
    prism.table().get(class).is_none_or(|spec| spec.place == Place::Stage)
}

/// When blocks that share a clock are due: `written` blocks were written now and are due at `due`; `others` were there and are due at `before`. A block that is
/// written again stays as long as it should, whatever lies beside it. Where nothing was before (`is_new`), the data mostly belongs to another file than the
/// others, and the larger part decides.
fn due_together((written, due): (usize, u32), (others, before): (usize, u32), is_new: bool) -> u32 {
    match others {
        0 => due,
        _ if !is_new => due.max(before),
        _ if others > written => before,
        _ => due,
    }
}

/// The rooms that a leaf's change concerns.
pub(crate) struct Leaves<'a> {
    pub setup: &'a Setup,
    pub map: &'a mut Map,
    pub space: &'a mut Space,
    pub stats: &'a mut Statistics,
    pub prism: &'a Prism,
    pub copies: &'a mut Copies,
    pub checkpoint: &'a mut Checkpoint,
    pub ages: &'a mut AgeQueue,
    pub together: &'a mut Together,
    pub outbox: &'a mut Outbox,
    /// Last batch with a record.
    pub last_recorded: u64,
}

impl Leaves<'_> {
    /// A leaf was read into a frame. What its index says of it may be from before a class changed its place, so it is
    /// counted anew.
    pub fn arrived(&mut self, disk: DiskId, leaf: u64, frame: u32) {
        self.count_anew(disk, leaf, frame);
        self.enqueue(disk, leaf);
    }

    /// Counts anew how many blocks of a leaf may be destaged.
    pub fn count_anew(&mut self, disk: DiskId, leaf: u64, frame: u32) {
        let (prism, space) = (self.prism, &*self.space);
        self.map.count_anew(disk, leaf, frame, |class| may_destage(prism, space, class));
    }

    /// Puts a leaf with blocks to be destaged into the queue, if it is not there yet.
    fn enqueue(&mut self, disk: DiskId, leaf: u64) {
        self.ages.enqueue_unknown(epoch_of(self.stats, self.space), disk, leaf, self.map);
    }

    /// Prepares a frame for a change. A leaf that the checkpoint in progress has yet to write is written first, as it
    /// was when the checkpoint began.
    pub fn dirty(&mut self, frame: u32) {
        if self.map.frames.get(frame).frozen {
            self.checkpoint.write_frozen_leaf(frame, self.map, self.space, self.outbox);
        }
        if self.map.frames.set_dirty(frame, true) {
            self.checkpoint.count_dirtied();
            self.space.new_leaves += u64::from(self.map.is_new_leaf(frame));
        }
    }

    /// The records and data of a piece have arrived: its segments become the map's entries.
    pub fn apply(&mut self, piece: &Piece) {
        let Some(frame) = piece.frame else { return };
        let (disk, first, block) = (piece.disk, usize::from(piece.first), piece.block());
        let batch = piece.batches.last().copied().unwrap_or(0);
        self.dirty(frame);
        let now = epoch_of(self.stats, self.space);
        let (mut stageable, mut first_due) = (0i32, None::<u32>);
        for segment in &piece.segments {
            // Such data mostly belongs to another file than what lies beside it.
            let is_new = self.is_unmapped(frame, first + usize::from(segment.first), usize::from(segment.blocks));
            let (mut behind, stageable_before) = (0, stageable);
            for (i, Stored { grains, checksum }) in piece.stored(segment).enumerate() {
                let within = usize::from(segment.first) + i;
                let change = match segment.fill {
                    Fill::Data { location, class } => {
                        let span = Span { location: location + behind, grains };
                        behind += u64::from(grains);
                        Change::Set { entry: Entry::Data { span, class }, checksum }
                    }
                    Fill::Zero => Change::Set { entry: Entry::Zero, checksum: 0 },
                    Fill::Unmapped => Change::Set { entry: Entry::Unmapped, checksum: 0 },
                    Fill::Reclass { class } => Change::Reclass { class },
                };
                let who = (disk, block + within as u64);
                stageable += self.change_entry(frame, first + within, who, change, batch).unwrap_or(0);
            }
            if let Fill::Data { location, class } = segment.fill {
                let grains = piece.stored(segment).map(|stored| u64::from(stored.grains)).sum();
                let (is_fast, due) =
                    (self.setup.extents.is_fast(location), now.saturating_add(segment.stay.epochs.into()));
                if is_fast && may_destage(self.prism, self.space, class) {
                    let begin = first + usize::from(segment.first);
                    let blocks = begin..begin + usize::from(segment.blocks);
                    // Data that only waits for other data decides nothing for its neighbours.
                    let due = if waits(self.prism, class) { now } else { self.set_due(frame, (blocks, is_new), due) };
                    first_due = Some(first_due.map_or(due, |first| first.min(due)));
                }
                self.count_written(class, is_fast, (u64::from(segment.blocks), grains));
                if is_fast && waits(self.prism, class) {
                    // Blocks that it replaces there do not count: they waited already, or were staged.
                    let more = u32::try_from(stageable - stageable_before).unwrap_or(0);
                    self.together.add((disk, piece.leaf), more);
                }
                self.space.settle(location, u32::from(segment.blocks), self.last_recorded);
            }
        }
        self.adjust_stageable(disk, piece.leaf, stageable, first_due);
    }

    /// Counts blocks that hosts wrote to a tier, and the grains that they take.
    pub fn count_written(&mut self, class: ClassId, is_fast: bool, (blocks, grains): (u64, u64)) {
        self.stats.count_written(class, is_fast, (blocks, grains));
        if is_fast && !waits(self.prism, class) {
            self.stats.count_staged(blocks);
        }
    }

    /// Whether these blocks of a leaf hold no data.
    fn is_unmapped(&self, frame: u32, first: usize, blocks: usize) -> bool {
        let page = &self.map.frames.get(frame).page;
        (first..first + blocks).all(|at| matches!(page::leaf_entry(page, at).0, Entry::Unmapped | Entry::Zero))
    }

    /// The number of a leaf's blocks that may be destaged changes by `change`. `first_due`: when the first of those that were written is due.
    pub fn adjust_stageable(&mut self, disk: DiskId, leaf: u64, change: i32, first_due: Option<u32>) {
        if change != 0
            && let Some(entry) = self.map.disk_mut(disk)
        {
            let now = i32::from(entry.leaf(leaf).0.stageable) + change;
            entry.set_stageable(leaf, now.clamp(0, page::LEAF_ENTRIES as i32) as u16);
        }
        match first_due {
            Some(due) => self.ages.enqueue(due, disk, leaf, self.map),
            None if change != 0 => self.enqueue(disk, leaf),
            None => {}
        }
    }

    /// A change of an entry was replayed. Data that was written since the last checkpoint stays for a fixed time, for records do not say how long it was to
    /// stay.
    pub fn stays(&mut self, frame: u32, at: usize, change: Change) {
        if let Change::Set { entry: Entry::Data { span, .. }, .. } = change
            && self.setup.extents.is_fast(span.location)
        {
            let due = epoch_of(self.stats, self.space).saturating_add(REPLAYED_STAY_EPOCHS);
            self.set_due(frame, (at..at + 1, false), due);
        }
    }

    /// Makes blocks of a leaf that were written to the fast tier due in epoch `due`, unless others there that share a clock with them decide. Returns when the
    /// first is due.
    pub fn set_due(&mut self, frame: u32, (blocks, is_new): (Range<usize>, bool), due: u32) -> u32 {
        let (extents, now) = (&self.setup.extents, epoch_of(self.stats, self.space));
        let end_epoch = now.saturating_add(END_EPOCHS);
        let mut first_due = u32::MAX;
        let leaf = &mut self.map.frames.get_mut(frame).page;
        page::limit_due(leaf, end_epoch);
        for clock in (blocks.start / page::CLOCK_BLOCKS)..blocks.end.div_ceil(page::CLOCK_BLOCKS) {
            let (begin, end) = (clock * page::CLOCK_BLOCKS, (clock + 1) * page::CLOCK_BLOCKS);
            let is_fast = |at: &usize| match page::leaf_entry(leaf, *at).0 {
                Entry::Data { span, .. } => extents.is_fast(span.location),
                _ => false,
            };
            let before = page::due_epoch(leaf, begin);
            let others = (begin..end).filter(|at| !blocks.contains(at) && is_fast(at)).count();
            // A clock that has run out decides nothing any more.
            let others = if before > now { others } else { 0 };
            let written = blocks.end.min(end) - blocks.start.max(begin);
            let due = due_together((written, due), (others, before), is_new);
            page::set_due(leaf, begin, due);
            first_due = first_due.min(due);
        }
        first_due
    }

    /// Applies what a record says to one entry, in service and in replay alike. The old block's space is free once
    /// `batch` is durable. Returns the change in the number of blocks that may be destaged; `None` where the record
    /// does not concern what is there now. `who` is (disk, block address).
    pub fn change_entry(
        &mut self,
        frame: u32,
        at: usize,
        who: (DiskId, u64),
        change: Change,
        batch: u64,
    ) -> Option<i32> {
        let old = page::leaf_entry(&self.map.frames.get(frame).page, at);
        let (entry, checksum) = change.apply(old)?;
        match change {
            Change::Reclass { .. } => {
                let is_fast = matches!(entry, Entry::Data { span, .. } if self.setup.extents.is_fast(span.location));
                self.stats.count_reclassed(old.0, entry, is_fast);
            }
            Change::Move { source, .. } => {
                let is_destage = self.setup.extents.is_fast(source);
                self.stats.count_moved(entry, is_destage);
                if is_destage && !matches!(entry, Entry::Data { class, .. } if waits(self.prism, class)) {
                    self.stats.count_destaged();
                }
            }
            Change::Damage { .. } => {
                self.stats.counters.damaged_moves += 1;
                self.map.damaged.insert(who.0);
            }
            Change::Set { .. } => {}
        }
        let leaf = &mut self.map.frames.get_mut(frame).page;
        page::set_leaf_entry(leaf, at, entry, checksum);
        let change_of_stageable = self.stageable(entry) - self.stageable(old.0);
        if let Change::Reclass { .. } = change {
            return Some(change_of_stageable);
        }
        if entry == Entry::Unmapped {
            self.checkpoint.index_room.discarded();
        }
        let now_at = match entry {
            Entry::Data { span, .. } => Some(span.location),
            _ => None,
        };
        match (change, now_at) {
            (Change::Move { source, .. }, Some(to)) => self.copies.moved(who, (source, to), &mut self.space.slots),
            _ => self.copies.superseded(who.0, who.1, now_at, &mut self.space.slots),
        }
        if let Entry::Data { span, class } = entry {
            self.stats.block_came(class, span.grains, self.setup.extents.is_fast(span.location));
            self.space.gain(span);
        }
        if let Entry::Data { span, class } = old.0 {
            let is_fast = self.setup.extents.is_fast(span.location);
            self.stats.block_left(class, span.grains, is_fast);
            if let (Change::Set { .. }, Some(group)) = (change, self.space.group(span.location)) {
                self.space.lifetimes.died(group);
            }
            // Only a forged journal names the same slot again, which then is not free.
            if !(is_fast && now_at == Some(span.location)) {
                self.space.lose(span, batch, self.last_recorded);
            }
        }
        Some(change_of_stageable)
    }

    /// 1 for a block that may be destaged, else 0.
    fn stageable(&self, entry: Entry) -> i32 {
        match entry {
            Entry::Data { span, class } => {
                i32::from(self.setup.extents.is_fast(span.location) && may_destage(self.prism, self.space, class))
            }
            _ => 0,
        }
    }

    /// Gives back the space that was allocated for a write that failed.
    pub fn cancel(&mut self, piece: &Piece) {
        let batch = piece.cancels.last().copied().unwrap_or(0);
        let (block, blocks) = (piece.block(), u64::from(piece.blocks));
        self.copies.forget(piece.disk, block..block + blocks, &mut self.space.slots);
        for segment in &piece.segments {
            if let Fill::Data { location, .. } = segment.fill {
                self.space.cancel(location, u32::from(segment.blocks), batch, self.last_recorded);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::due_together;

    /// Where one file begins within the same eight blocks as another ends, they share a clock, and the longer stay decided: part of what was not worth keeping
    /// stayed with what was.
    #[test]
    fn regression_a_clock_is_of_the_file_that_has_most_of_its_blocks() {
        assert_eq!(due_together((3, 20), (5, 7), true), 7, "a few of a file that is due later");
        assert_eq!(due_together((3, 7), (5, 20), true), 20);
        assert_eq!(due_together((5, 7), (3, 20), true), 7, "most are due sooner");
        assert_eq!(due_together((4, 20), (4, 7), true), 20, "the newer one of two halves");
        assert_eq!(due_together((8, 7), (0, 20), true), 7, "nothing is there");
    }

    #[test]
    fn a_block_that_is_written_again_and_again_stays_among_many_that_are_not() {
        assert_eq!(due_together((1, 20), (7, 3), false), 20);
        assert_eq!(due_together((1, 3), (7, 20), false), 20);
    }
}
