//! Rows that are not whole yet, and the log that keeps the parity of what they hold: each has a place there until its own parity is durable. Then the entry
//! is erased, and the place is free when that is durable, too: no entry is left that says of a row what was true once.

use crate::layout::array_shape::Shape;
use forebay_block::SharedBuf;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Most rows that are open at once; of more than these the oldest are filled up with zeros.
const OPEN_MAX: usize = 256;

/// A row of which some blocks of data were written. The others hold nothing that anybody needs.
#[derive(Debug)]
pub(super) struct OpenRow {
    /// Blocks that were written, by their number in the row.
    pub blocks: Vec<Option<SharedBuf>>,
    /// Those that live in it of which a write has failed, as they were to be: no entry covers them, since nobody knows what lies there now.
    pub failed: BTreeMap<usize, SharedBuf>,
    /// Its place in the log.
    slot: Option<u32>,
    /// Counts up with each change of an open row: the lowest was changed the longest ago.
    touched: u64,
}

/// A place of the log, and the row that its entry is of.
pub(super) type Place = (u32, u64);

/// What a place of which nothing could be read is of.
pub(super) const NO_ROW: u64 = u64::MAX;

/// The open rows, and the places of the log.
pub(super) struct OpenRows {
    rows: BTreeMap<u64, OpenRow>,
    free: Vec<u32>,
    /// Places whose successors are written, with the number of the first flush that makes these durable.
    retired: VecDeque<(u64, Place)>,
    /// Places whose entries are being erased, and the first flush that makes that durable where they have been.
    erasing: Vec<Place>,
    erased_flush: Option<u64>,
    /// The highest flush that has ended.
    flushed: u64,
    /// Of a batch that could not be erased, or not all of it, so many places are still to be tried again; at once at most half of them, until one is alone.
    suspects: usize,
    /// Places that cannot be erased: something newer takes their place, and they are never used again.
    stuck: BTreeSet<u32>,
    /// The last of them that was tried again.
    tried_again: u32,
    /// Places of which it is not known what lies there, on any member.
    unsure: BTreeSet<u32>,
    /// Before this one has, what was read of the log may lie in caches alone.
    awaited_flush: Option<u64>,
    is_free: Vec<bool>,
    touches: u64,
    /// A flush has failed: what is durable is not known.
    is_in_doubt: bool,
}

impl OpenRows {
    /// With these places of the log in use by rows, and these of which nobody knows what lies there. `is_volatile`: what was written is not durable before a
    /// flush.
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

    /// A place of a row whose successor is written: durable when a flush from this number on has ended.
    pub fn retire(&mut self, slot: u32, row: u64, flush: u64) {
        self.retired.push_back((flush, (slot, row)));
    }

    /// A flush has failed: no flush says from now on what is durable, so nothing is erased or free any more.
    pub fn doubt(&mut self) {
        self.is_in_doubt = true;
    }

    /// It is clean when this flush has ended, and not before.
    pub fn await_flush(&mut self, flush: u64) {
        self.awaited_flush = Some(flush).filter(|&flush| flush > self.flushed);
    }

    /// Whether one entry alone is being erased: where that fails it is the place that takes nothing.
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
            // It may have been of several rows, and of some that nobody knows on other members.
            let held: BTreeSet<u32> = self.retired.iter().map(|(_, (slot, _))| *slot).collect();
            for (slot, _) in self.erasing.drain(..) {
                let is_held = [&self.stuck, &self.unsure, &held].iter().any(|held| held.contains(&slot));
                if !is_held && !std::mem::replace(&mut self.is_free[slot as usize], true) {
                    self.free.push(slot);
                }
            }
        }
    }

    /// Places of which it is not known what lies there are to be erased when a flush from this number on has ended: but for those that a row's entry is
    /// known to be in, which goes in the order of its row first.
    pub fn retire_unsure(&mut self, flush: u64) {
        let held: BTreeSet<u32> =
            self.retired.iter().map(|(_, place)| place).chain(&self.erasing).map(|(slot, _)| *slot).collect();
        let stuck = &self.stuck;
        let places = self.unsure.extract_if(.., |slot| !held.contains(slot)).filter(|slot| !stuck.contains(slot));
        self.retired.extend(places.map(|slot| (flush, (slot, NO_ROW))));
    }

    /// Entries to be erased next: one batch at a time, so that an older entry of a row never outlives a newer one. `may_supersede`: whether nothing goes on in
    /// a row.
    pub fn next_to_erase(&mut self, may_supersede: impl Fn(u64) -> bool) -> Option<Vec<Place>> {
        if !self.erasing.is_empty() || self.is_in_doubt {
            return None;
        }
        let flushed = self.flushed;
        if self.retired.front().is_none_or(|&(flush, _)| flush > flushed) {
            return None;
        }
        // The oldest of each row alone.
        let mut rows = BTreeSet::new();
        // One that cannot be erased goes alone, and waits for a place of something newer: and until all that the log has of the row is of no use any more. Of
        // an open row that is all that there is of what a member has that is out.
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

    /// Where no place is free for something newer, and all that is ready waits for one that could not be erased: one of these in turn, which is tried again. It may
    /// be that its member only failed for a while, and nothing else would ever make a place free.
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

    /// Places of which it is not known to be durable that they are erased: it was tried, or is to be where nobody knows what lies there. What was never tried
    /// is shown as it is.
    pub fn unproven(&self) -> impl Iterator<Item = u32> {
        let tried = self.retired.iter().filter(|(flush, (_, row))| *flush == 0 || *row == NO_ROW);
        let places = tried.map(|(_, place)| place).chain(&self.erasing).map(|(slot, _)| *slot);
        places.chain(self.unsure.iter().copied())
    }

    /// Whether something newer is to take the place of what is being erased, as it cannot be.
    pub fn is_stuck(&self) -> bool {
        self.erasing.iter().any(|(slot, _)| self.stuck.contains(slot))
    }

    /// They were erased, or something newer has taken their place, which is durable when a flush from this number on has ended; or they were not.
    pub fn erased(&mut self, flush: u64, is_good: bool) {
        if is_good {
            self.suspects -= if self.is_stuck() { 0 } else { self.suspects.min(self.erasing.len()) };
            self.erased_flush = Some(flush);
            self.flushed(0);
            return;
        }
        match &self.erasing[..] {
            // What cannot be written instead may be erased after all.
            &[(slot, _)] if !self.stuck.remove(&slot) => {
                self.stuck.insert(slot);
                // The next one alone, too: bad places lie side by side, and each would be found by halves again.
                self.suspects = 1;
            }
            several => self.suspects = several.len(),
        }
        // In front: of a row the older entry is erased before the newer one.
        let again = self.erasing.drain(..).map(|place| (0, place));
        again.rev().for_each(|place| self.retired.push_front(place));
    }

    /// Whether nothing but open rows has a place in the log.
    pub fn is_clean(&self) -> bool {
        self.retired.is_empty() && self.erasing.is_empty() && self.unsure.is_empty() && self.awaited_flush.is_none()
    }

    /// Whether an entry is left of a row of a range that is not open any more.
    pub fn is_left_in(&self, rows: &Range<u64>) -> bool {
        let erasing = self.erasing.iter();
        self.retired.iter().map(|(_, place)| place).chain(erasing).any(|(_, row)| rows.contains(row))
    }

    /// Whether a flush would let it go on, and there are few places. `is_urgent`: somebody waits for that.
    pub fn wants_flush(&self, is_urgent: bool) -> bool {
        let waits = self.erased_flush.or(self.awaited_flush).is_some()
            || self.retired.iter().any(|&(flush, _)| flush > self.flushed);
        waits && (is_urgent || self.free.len() <= self.is_free.len() / 4)
    }

    /// Puts blocks into a row, which has a place of the log from now on; the one that it had, if any.
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

    /// The row is whole, or nobody needs it any more. Its place in the log.
    pub fn close(&mut self, row: u64) -> Option<u32> {
        self.rows.remove(&row)?.slot
    }

    /// The row that was changed the longest ago, of those for which `may` holds, where there are more than there should be.
    pub fn to_fill(&self, may: impl Fn(u64) -> bool) -> Option<u64> {
        let is_crowded = self.rows.len() > OPEN_MAX.min(self.is_free.len() / 2) || self.free.is_empty();
        let rows = self.rows.iter().filter(|_| is_crowded).filter(|(row, _)| may(**row));
        rows.min_by_key(|(_, open)| open.touched).map(|(&row, _)| row)
    }
}
