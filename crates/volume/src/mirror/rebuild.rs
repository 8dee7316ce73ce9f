//! How far the rebuild of a member is: what is to be copied to it next, and what no other member could read.

use crate::layout::member_label::{LABEL_BYTES, OFFSETS_BYTES};
use std::collections::VecDeque;
use std::ops::Range;

/// Smallest unit in bytes: where more cannot be read at once, each unit is read by itself.
pub(super) const UNIT_BYTES: u64 = 4096;
/// What is copied at once, in bytes.
const CHUNK_BYTES: u64 = 256 << 10;
/// How much is copied before it is made durable and noted, at least, in bytes; a crash loses no more of the work.
const NOTE_BYTES: u64 = 64 << 20;
/// Most ranges that are remembered of what could not be read; beyond that the last one grows, and some data is copied twice.
const GAPS_MAX: usize = 64;

/// What a flush of the member has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// The rebuild goes on, and no more is durable before the first gap.
    GoesOn,
    /// Everything below this offset is durable, and the rebuild goes on.
    Noted(u64),
    /// The rebuild has ended.
    Complete(Rebuilt),
}

/// A member holds everything from now on, except for so many blocks that no other member can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rebuilt {
    pub member: usize,
    pub missing_blocks: u64,
}

/// The rebuild of a member. What cannot be read is tried again when the rest is copied, as long as each pass gives more of it.
pub(super) struct Rebuild {
    pub member: usize,
    /// What is copied now, and what after that.
    now: Range<u64>,
    then: VecDeque<Range<u64>>,
    /// What no member could read since it was last tried, in order.
    gaps: Vec<Range<u64>>,
    /// How many units these are, and how many they were in the pass before.
    unreadable: u64,
    unreadable_before: u64,
    noted_bytes: u64,
    /// Bytes copied since the last flush.
    unnoted_bytes: u64,
    /// Below this offset it is copied in the smallest units.
    fine_until_bytes: u64,
    /// A flush is in flight: what it covers is good up to this offset; and whether everything had been tried then.
    flush: Option<(u64, bool)>,
}

impl Rebuild {
    /// A rebuild of everything from an offset on.
    pub fn new(member: usize, from_bytes: u64) -> Self {
        Self {
            member,
            now: from_bytes / UNIT_BYTES * UNIT_BYTES..u64::MAX,
            then: VecDeque::new(),
            gaps: Vec::new(),
            unreadable: 0,
            unreadable_before: u64::MAX,
            noted_bytes: from_bytes,
            unnoted_bytes: 0,
            fine_until_bytes: 0,
            flush: None,
        }
    }

    /// Offset and length of what is to be copied next, of members of this size. `None` while a flush is due or in flight.
    pub fn next_piece(&mut self, size_bytes: u64) -> Option<(u64, u64)> {
        if self.flush.is_some() || self.unnoted_bytes >= NOTE_BYTES {
            return None;
        }
        // Each member has labels of its own: they are not copied.
        let [label_bytes, other_bytes] = OFFSETS_BYTES;
        let labels = label_bytes..other_bytes + LABEL_BYTES as u64;
        let end_bytes = loop {
            if labels.contains(&self.now.start) {
                self.now.start = labels.end;
            }
            let end_bytes = self.now.end.min(size_bytes);
            if self.now.start < end_bytes {
                break if self.now.start < labels.start { labels.start.min(end_bytes) } else { end_bytes };
            }
            self.now = self.then.pop_front()?;
        };
        let most = if self.now.start < self.fine_until_bytes { UNIT_BYTES } else { CHUNK_BYTES };
        Some((self.now.start, most.min(end_bytes - self.now.start)))
    }

    /// Everything up to here was copied.
    pub fn copied(&mut self, end_bytes: u64) {
        self.unnoted_bytes += end_bytes - self.now.start.min(end_bytes);
        self.now.start = end_bytes;
    }

    /// A piece that ends here could not be read at once: it is read in the smallest units.
    pub fn goes_finer(&mut self, end_bytes: u64) {
        self.fine_until_bytes = end_bytes;
    }

    /// No member can read a unit.
    pub fn skip_unreadable(&mut self, unit: Range<u64>) {
        self.now.start = unit.end;
        self.unreadable += 1;
        let is_full = self.gaps.len() >= GAPS_MAX;
        match self.gaps.last_mut() {
            Some(last) if is_full || last.end == unit.start => last.end = unit.end,
            _ => self.gaps.push(unit),
        }
    }

    fn is_at_end(&self, size_bytes: u64) -> bool {
        self.now.start >= self.now.end.min(size_bytes) && self.then.is_empty()
    }

    /// Everything below this was copied.
    fn good_until(&self, size_bytes: u64) -> u64 {
        let begun = Some(&self.now).filter(|now| now.start < now.end);
        let left = begun.into_iter().chain(self.then.front()).chain(self.gaps.first());
        left.map(|range| range.start).fold(size_bytes, u64::min)
    }

    /// Whether a flush is to be sent to the member; from then on it is in flight.
    pub fn begin_flush(&mut self, size_bytes: u64) -> bool {
        let is_at_end = self.is_at_end(size_bytes);
        let is_due = self.flush.is_none() && (is_at_end || self.unnoted_bytes >= NOTE_BYTES);
        if is_due {
            self.flush = Some((self.good_until(size_bytes), is_at_end));
        }
        is_due
    }

    /// The flush has ended well.
    pub fn flushed(&mut self) -> Option<Flushed> {
        let (good_until_bytes, is_at_end) = self.flush.take()?;
        self.unnoted_bytes = 0;
        if is_at_end && (self.unreadable == 0 || self.unreadable >= self.unreadable_before) {
            return Some(Flushed::Complete(Rebuilt { member: self.member, missing_blocks: self.unreadable }));
        }
        if is_at_end {
            (self.unreadable_before, self.unreadable) = (self.unreadable, 0);
            self.then = std::mem::take(&mut self.gaps).into();
            self.fine_until_bytes = 0;
        }
        let is_news = std::mem::replace(&mut self.noted_bytes, good_until_bytes) < good_until_bytes;
        Some(if is_news { Flushed::Noted(good_until_bytes) } else { Flushed::GoesOn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 200 * UNIT_BYTES;

    proptest! {
        /// Compared with a model of which units can be read in which pass: what can be read in one of two passes is copied, nothing is
        /// noted beyond what was not copied, and the rebuild ends.
        #[test]
        fn everything_that_can_be_read_is_copied(
            never in prop::collection::btree_set(0u64..200, 0..40),
            not_at_first in prop::collection::btree_set(0u64..200, 0..150),
            from in 0u64..200,
        ) {
            let mut rebuild = Rebuild::new(1, from * UNIT_BYTES);
            let labels = OFFSETS_BYTES[0] / UNIT_BYTES..(OFFSETS_BYTES[1] + LABEL_BYTES as u64) / UNIT_BYTES;
            let mut copied: Vec<bool> = (0..200).map(|unit| unit < from || labels.contains(&unit)).collect();
            let mut tries = vec![0; 200];
            let missing = (0..20_000).find_map(|_| {
                if let Some((offset_bytes, len_bytes)) = rebuild.next_piece(SIZE) {
                    let end_bytes = offset_bytes + len_bytes;
                    let units = offset_bytes / UNIT_BYTES..end_bytes.div_ceil(UNIT_BYTES);
                    assert!(end_bytes <= SIZE && units.clone().all(|unit| !labels.contains(&unit)));
                    let is_unit = len_bytes <= UNIT_BYTES;
                    units.clone().for_each(|unit| tries[unit as usize] += u32::from(is_unit));
                    let can = |unit: u64| !never.contains(&unit) && (!not_at_first.contains(&unit) || tries[unit as usize] > 1);
                    if units.clone().all(can) {
                        units.for_each(|unit| copied[unit as usize] = true);
                        rebuild.copied(end_bytes);
                    } else if is_unit {
                        rebuild.skip_unreadable(offset_bytes..end_bytes);
                    } else {
                        rebuild.goes_finer(end_bytes);
                    }
                    return None;
                }
                assert!(rebuild.begin_flush(SIZE) && !rebuild.begin_flush(SIZE), "one flush at a time");
                match rebuild.flushed().unwrap() {
                    Flushed::Noted(until_bytes) => {
                        assert!(copied[..(until_bytes / UNIT_BYTES) as usize].iter().all(|is_copied| *is_copied));
                        None
                    }
                    Flushed::GoesOn => None,
                    Flushed::Complete(rebuilt) => Some(rebuilt.missing_blocks),
                }
            });
            let left = copied.iter().filter(|is_copied| !**is_copied).count() as u64;
            let lost = never.iter().filter(|unit| **unit >= from && !labels.contains(unit)).count() as u64;
            prop_assert_eq!(left, lost);
            prop_assert_eq!(missing, Some(lost));
        }
    }
}
