//! Rows that are not whole yet, and the log that keeps their parity. Each row has a place in the log until its own parity is durable. Then
//! the entry is erased, and once the erasure is durable the place is free: no entry is left that describes an old state of a row.

use crate::layout::array_shape::Shape;
use forebay_block::SharedBuf;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Most rows that are open at once; beyond that the oldest are filled up with zeros.
const OPEN_MAX: usize = 256;

/// A row of which some blocks of data were written. Nobody needs what the others hold.
#[derive(Debug)]
pub(super) struct OpenRow {
    /// Blocks that were written, by their number in the row.
    pub blocks: Vec<Option<SharedBuf>>,
    /// Blocks that live in it and whose write failed, with the intended contents. No entry covers them, as it is unknown what lies there
    /// now.
    pub failed: BTreeMap<usize, SharedBuf>,
    /// Its place in the log.
    slot: Option<u32>,
    /// Number of its last change: the row with the lowest one was changed the longest ago.
    touched: u64,
}

/// A place of the log, and the row that its entry is of.
pub(super) type Place = (u32, u64);

/// Stands for the row of a place whose contents are unknown.
pub(super) const NO_ROW: u64 = u64::MAX;

/// The open rows, and the places of the log.
pub(super) struct OpenRows {
    rows: BTreeMap<u64, OpenRow>,
    free: Vec<u32>,
    /// Places whose successors are written, each with the first flush that makes its successor durable.
    retired: VecDeque<(u64, Place)>,
    /// Places whose entries are being erased; and, once they are, the first flush that makes the erasure durable.
    erasing: Vec<Place>,
    erased_flush: Option<u64>,
    /// The highest flush that has ended.
    flushed: u64,
    /// How many places of a batch that could not be erased as a whole are still to be tried again: at most half of them at once, until one
    /// is alone.
    suspects: usize,
    /// Places that cannot be erased: a newer entry supersedes theirs, and they are never used again.
    stuck: BTreeSet<u32>,
    /// The place of these that was tried again last.
    tried_again: u32,
    /// Places of which it is not known what lies there, on any member.
    unsure: BTreeSet<u32>,
    /// Until this flush has ended, what was read of the log may lie in caches alone.
    awaited_flush: Option<u64>,
    is_free: Vec<bool>,
    touches: u64,
    /// A flush has failed: it is not known what is durable.
    is_in_doubt: bool,
}

impl OpenRows {
    /// No open rows, with these places of the log in use, and these of unknown contents. `is_volatile`: what was written is not durable
    /// before a flush.
    pub fn new(shape: &Shape, used: impl Iterator<Item = u32>, unsure: BTreeSet<u32>, is_volatile: bool) -> Self {
        let mut is_free = vec![true; shape.log_slots as usize];
        used.chain(unsure.iter().copied()).for_each(|slot| is_free[slot as usize] = false);
        let free = (0..shape.log_slots).rev().filter(|&slot| is_free[slot as usize]).collect();
        Self {
            rows: BTreeMap::new(),
            free,
            retired: VecDeque::new(),
            erasing: Vec::new(),
            erased_flush: None,
            suspects: 0,
            stuck: BTreeSet::new(),
            tried_again: 0,
            unsure,
            flushed: if is_volatile { 0 } else { u64::MAX },
            awaited_flush: None,
            is_free,
            touches: 0,
            is_in_doubt: false,
        }
    }

    pub fn get(&self, row: u64) -> Option<&OpenRow> {
        self.rows.get(&row)
    }

    /// The first open row of a range.
    pub fn first_in(&self, rows: Range<u64>) -> Option<u64> {
        self.rows.range(rows).next().map(|(&row, _)| row)
    }

    /// Open rows of a range.
    pub fn in_range(&self, rows: Range<u64>) -> Vec<u64> {
        self.rows.range(rows).map(|(&row, _)| row).collect()
    }

    /// A place of the log; `None` where all are in use.
    pub fn take_slot(&mut self) -> Option<u32> {
        let slot = self.free.pop()?;
        self.is_free[slot as usize] = false;
        Some(slot)
    }

    /// Whether a place is free.
    pub fn has_slot(&self) -> bool {
        !self.free.is_empty()
    }

    /// Retires a place of a row whose successor is written, and durable when a flush from this number on has ended.
    pub fn retire(&mut self, slot: u32, row: u64, flush: u64) {
        self.retired.push_back((flush, (slot, row)));
    }

    /// A flush has failed: from now on no flush says what is durable, so that nothing is erased or becomes free.
    pub fn doubt(&mut self) {
        self.is_in_doubt = true;
    }

    /// The log is not clean before this flush has ended.
    pub fn await_flush(&mut self, flush: u64) {
        self.awaited_flush = Some(flush).filter(|&flush| flush > self.flushed);
    }

    /// Whether a single entry is being erased: if that fails, its place is to blame.
    pub fn is_erasing_one(&self) -> bool {
        self.erasing.len() == 1
    }

    /// Open rows of which an older entry could not be erased.
    pub fn rows_of_stuck(&self) -> impl Iterator<Item = u64> {
        let stuck = self.retired.iter().map(|(_, place)| place).filter(|(slot, _)| self.stuck.contains(slot));
        stuck.map(|(_, row)| *row).filter(|row| self.rows.contains_key(row))
    }

    /// Whether entries are being erased at this moment.
    pub fn is_erasing(&self) -> bool {
        !self.erasing.is_empty() && self.erased_flush.is_none()
    }

    /// A flush has made durable what was written before it.
    pub fn flushed(&mut self, number: u64) {
        if self.is_in_doubt {
            return;
        }
        self.flushed = self.flushed.max(number);
        self.awaited_flush.take_if(|flush| *flush <= number);
        if self.erased_flush.is_some_and(|flush| flush <= self.flushed) {
            self.erased_flush = None;
            // A place may have been of several rows, and on other members of rows that nobody knows.
            let held: BTreeSet<u32> = self.retired.iter().map(|(_, (slot, _))| *slot).collect();
            for (slot, _) in self.erasing.drain(..) {
                let is_held = [&self.stuck, &self.unsure, &held].iter().any(|held| held.contains(&slot));
                if !is_held && !std::mem::replace(&mut self.is_free[slot as usize], true) {
                    self.free.push(slot);
                }
            }
        }
    }

    /// Retires the places of unknown contents: they are erased when a flush from this number on has ended. A place that is known to have an
    /// entry of a row is left out: that entry is erased first, in the order of its row.
    pub fn retire_unsure(&mut self, flush: u64) {
        let held: BTreeSet<u32> =
            self.retired.iter().map(|(_, place)| place).chain(&self.erasing).map(|(slot, _)| *slot).collect();
        let stuck = &self.stuck;
        let places = self.unsure.extract_if(.., |slot| !held.contains(slot)).filter(|slot| !stuck.contains(slot));
        self.retired.extend(places.map(|slot| (flush, (slot, NO_ROW))));
    }

    /// The entries to be erased next: one batch at a time, so that an older entry of a row never outlives a newer one. `may_supersede`:
    /// whether no work is in progress in a row.
    pub fn next_to_erase(&mut self, may_supersede: impl Fn(u64) -> bool) -> Option<Vec<Place>> {
        if !self.erasing.is_empty() || self.is_in_doubt {
            return None;
        }
        let flushed = self.flushed;
        if self.retired.front().is_none_or(|&(flush, _)| flush > flushed) {
            return None;
        }
        // Of each row only the oldest entry.
        let mut rows = BTreeSet::new();
        // An entry that cannot be erased goes alone. It waits for a free place for the entry that supersedes it, and until no entry of its
        // row is of use any more: for an open row the log has all that is left of the block of a member that is out.
        let has_slot = self.has_slot();
        let is_needed = |(flush, _): &&(u64, Place)| !self.stuck.is_empty() && *flush > flushed;
        let needed: BTreeSet<u64> = self.retired.iter().filter(is_needed).map(|(_, (_, row))| *row).collect();
        let may_go = |&(slot, row): &Place| {
            let is_of_use = || self.rows.contains_key(&row) || needed.contains(&row) || !may_supersede(row);
            self.stuck.contains(&slot) && (row == NO_ROW || !is_of_use())
        };
        let goes: BTreeSet<Place> = self.retired.iter().map(|(_, place)| *place).filter(may_go).collect();
        let is_stuck = !goes.is_empty();
        let mut left = match self.suspects {
            _ if is_stuck && has_slot => 1,
            0 => usize::MAX,
            suspects => suspects.div_ceil(2),
        };
        let stuck = &self.stuck;
        let is_next = |&(flush, (slot, row)): &(u64, Place)| {
            let may = if has_slot && is_stuck { goes.contains(&(slot, row)) } else { !stuck.contains(&slot) };
            let is_next = left > 0 && flush <= flushed && (row == NO_ROW || rows.insert(row)) && may;
            left -= usize::from(is_next);
            is_next
        };
        let (ready, left) = self.retired.drain(..).partition::<VecDeque<_>, _>(is_next);
        self.retired = left;
        self.erasing = ready.into_iter().map(|(_, place)| place).collect();
        if self.erasing.is_empty() && !has_slot {
            self.erasing = self.next_stuck().into_iter().collect();
        }
        (!self.erasing.is_empty()).then(|| self.erasing.clone())
    }

    /// Where no place is free for a newer entry, and all that is ready waits for entries that could not be erased, one of these is tried
    /// again, in turn. Its member may have failed only for a while, and nothing else would ever make a place free.
    fn next_stuck(&mut self) -> Option<Place> {
        let mut rows = BTreeSet::new();
        let is_ready = |&(flush, (_, row)): &(u64, Place)| (row == NO_ROW || rows.insert(row)) && flush <= self.flushed;
        let oldest: Vec<Place> = self.retired.iter().copied().filter(is_ready).map(|(_, place)| place).collect();
        let stuck = || oldest.iter().copied().filter(|(slot, _)| self.stuck.contains(slot));
        let place = stuck().filter(|(slot, _)| *slot > self.tried_again).min().or_else(|| stuck().min())?;
        self.tried_again = place.0;
        self.stuck.remove(&place.0);
        self.retired.retain(|(_, other)| *other != place);
        Some(place)
    }

    /// Places whose erasure is not known to be durable: it was tried, or is to be tried as the contents are unknown. Places where it was
    /// never tried read as they are.
    pub fn unproven(&self) -> impl Iterator<Item = u32> {
        let tried = self.retired.iter().filter(|(flush, (_, row))| *flush == 0 || *row == NO_ROW);
        let places = tried.map(|(_, place)| place).chain(&self.erasing).map(|(slot, _)| *slot);
        places.chain(self.unsure.iter().copied())
    }

    /// Whether what is being erased cannot be, and is to be superseded by a newer entry.
    pub fn is_stuck(&self) -> bool {
        self.erasing.iter().any(|(slot, _)| self.stuck.contains(slot))
    }

    /// Erasing has ended: the entries were erased, or a newer one was written instead, durable when a flush from this number on has ended;
    /// or it failed.
    pub fn erased(&mut self, flush: u64, is_good: bool) {
        if is_good {
            self.suspects -= if self.is_stuck() { 0 } else { self.suspects.min(self.erasing.len()) };
            self.erased_flush = Some(flush);
            self.flushed(0);
            return;
        }
        match &self.erasing[..] {
            // An entry that cannot be superseded may be erased after all.
            &[(slot, _)] if !self.stuck.remove(&slot) => {
                self.stuck.insert(slot);
                // The next one is tried alone, too: bad places lie side by side, and halving would have to find each of them.
                self.suspects = 1;
            }
            several => self.suspects = several.len(),
        }
        // To the front: the older entry of a row is erased before the newer one.
        let again = self.erasing.drain(..).map(|place| (0, place));
        again.rev().for_each(|place| self.retired.push_front(place));
    }

    /// Whether only open rows have places in the log.
    pub fn is_clean(&self) -> bool {
        self.retired.is_empty() && self.erasing.is_empty() && self.unsure.is_empty() && self.awaited_flush.is_none()
    }

    /// Whether the log still has an entry, not needed any more, of a row in this range.
    pub fn is_left_in(&self, rows: &Range<u64>) -> bool {
        let erasing = self.erasing.iter();
        self.retired.iter().map(|(_, place)| place).chain(erasing).any(|(_, row)| rows.contains(row))
    }

    /// Whether a flush would let places become free, and few are. `is_urgent`: somebody waits for that.
    pub fn wants_flush(&self, is_urgent: bool) -> bool {
        let waits = self.erased_flush.or(self.awaited_flush).is_some()
            || self.retired.iter().any(|&(flush, _)| flush > self.flushed);
        waits && (is_urgent || self.free.len() <= self.is_free.len() / 4)
    }

    /// Puts blocks into a row, which has this place of the log from now on. Returns the place that it had before, if any.
    pub fn put(&mut self, row: u64, data: usize, blocks: Vec<(usize, SharedBuf)>, slot: u32) -> Option<u32> {
        self.touches += 1;
        let open = self.rows.entry(row).or_insert_with(|| OpenRow {
            blocks: (0..data).map(|_| None).collect(),
            failed: BTreeMap::new(),
            slot: None,
            touched: 0,
        });
        for (at, block) in blocks {
            open.blocks[at] = Some(block);
            open.failed.remove(&at);
        }
        open.touched = self.touches;
        open.slot.replace(slot)
    }

    /// Blocks that live in a row could not be written.
    pub fn failed(&mut self, row: u64, blocks: Vec<(usize, SharedBuf)>) {
        if let Some(open) = self.rows.get_mut(&row) {
            let lacking = blocks.into_iter().filter(|(at, _)| open.blocks[*at].is_none());
            open.failed.extend(lacking.collect::<Vec<_>>());
        }
    }

    /// Closes a row that is whole, or that nobody needs any more. Returns its place in the log.
    pub fn close(&mut self, row: u64) -> Option<u32> {
        self.rows.remove(&row)?.slot
    }

    /// The row that was changed the longest ago, of those for which `may` holds; `None` unless too many are open.
    pub fn to_fill(&self, may: impl Fn(u64) -> bool) -> Option<u64> {
        let is_crowded = self.rows.len() > OPEN_MAX.min(self.is_free.len() / 2) || self.free.is_empty();
        let rows = self.rows.iter().filter(|_| is_crowded).filter(|(row, _)| may(**row));
        rows.min_by_key(|(_, open)| open.touched).map(|(&row, _)| row)
    }
}
