//! Work that an array does by itself.

use super::found::FoundRows;
use super::mends::Mends;
use super::pause::Pause;
use crate::layout::array_shape::MEMBERS_MAX;
use crate::mirror::numbers_in;
use forebay_block::IoError;
use std::collections::VecDeque;

/// Places of the log that are read at once.
const SLOTS_AT_ONCE: u32 = 128;

/// How often in a row each member has answered, by its number.
#[derive(Debug, Default)]
pub(super) struct Answers([u8; MEMBERS_MAX]);

impl Answers {
    /// Notes which of the members that were asked have answered; one bit for each.
    pub fn note(&mut self, asked: u32, answered: u32) {
        for (number, count) in self.0.iter_mut().enumerate().filter(|(number, _)| asked & 1 << number != 0) {
            *count = if answered & 1 << number != 0 { count.saturating_add(1) } else { 0 };
        }
    }

    /// Whether each of these members has answered so often in a row.
    pub fn are(&self, most: u8, members: u32) -> bool {
        numbers_in(members).all(|number| self.0.get(number).is_some_and(|&count| count >= most))
    }
}

/// A rebuild.
#[derive(Debug)]
pub(super) struct Rebuild {
    pub member: usize,
    /// The next byte to be copied, of the part that all members have alike.
    pub next_bytes: u64,
    /// Below this byte it is copied block by block, as a larger piece could not be read.
    pub copy_singly_until: u64,
    pub next_row: u64,
    pub noted_rows: u64,
    /// The row behind those in flight.
    pub upto_row: u64,
    /// How many places could not be made in this pass. After a first pass with such places there is another one.
    pub gaps: u32,
    pub is_second: bool,
    /// The first such place: of the rows, and of the part that all members have alike.
    pub first_gap_row: u64,
    pub first_gap_bytes: u64,
    /// How often in succession it has waited for a member that is away.
    pub away_tries: u8,
    /// How often in a row members that could not read what is next have read something else since.
    pub answers: Answers,
    /// How often in this pass it has waited although the members answered such reads.
    pub waits: u32,
    /// When it last asked the others for something.
    pub asked_ns: u64,
    /// One bit for each member that does not answer, and for which it waits.
    pub waits_for: u32,
}

impl Rebuild {
    /// Goes on: what was next could be made, so the counters start again.
    pub fn goes_on(&mut self) {
        (self.away_tries, self.answers, self.waits_for) = (0, Answers::default(), 0);
    }

    /// Leaves out what is next, as it cannot be made.
    pub fn leaves_out(&mut self) {
        self.gaps = self.gaps.saturating_add(1);
        self.goes_on();
    }
}

/// How far the log has been read anew after a flush that failed.
#[derive(Debug)]
pub(super) struct Doubt {
    pub error: IoError,
    pub found: FoundRows,
    /// Members whose logs are still to be read, the first one next; and one bit for each member whose log was read.
    pub members: VecDeque<usize>,
    pub done: u32,
    /// What is still to be read of the first member's log: first place and number of places.
    pub to_read: VecDeque<(u32, u32)>,
    /// Places of that log that could not be read, and how often all of them were tried again.
    pub unread: Vec<u32>,
    pub looks: u8,
    /// How often a member could not be read at all.
    pub restarts: u8,
    pub is_reading: bool,
    /// The read in flight was begun before another flush failed: its result does not count.
    pub is_vain: bool,
}

impl Doubt {
    /// Begins to read the log of the next member, from its first place on.
    pub fn begin_member(&mut self, slots: u32) {
        let first = (0..slots).step_by(SLOTS_AT_ONCE as usize);
        self.to_read = first.map(|first| (first, SLOTS_AT_ONCE.min(slots - first))).collect();
        self.unread.clear();
        self.looks = 0;
    }

    /// The places that were to be read together could not be: they are read one by one, as one bad place must not hide the others. False
    /// where it was a single place.
    pub fn one_by_one(&mut self) -> bool {
        let Some((first, count)) = self.to_read.pop_front_if(|(_, count)| *count > 1) else { return false };
        (first..first + count).rev().for_each(|place| self.to_read.push_front((place, 1)));
        true
    }
}

/// Most readings of a row until two in succession agree.
const READINGS_MAX: u8 = 4;

/// What the last reading of a row has given, where nothing else shows what it should be.
#[derive(Debug, Default)]
pub(super) struct Readings {
    row: u64,
    last: Vec<Option<Vec<u8>>>,
    count: u8,
}

impl Readings {
    /// Whether what was read may be written: the reading before gave the same, as one transfer may go wrong, or the row was read
    /// `READINGS_MAX` times.
    pub fn are_enough(&mut self, row: u64, read: &[Option<Vec<u8>>]) -> bool {
        let before = if self.row == row { self.count } else { 0 };
        let is_enough = before > 0 && self.last == read || before + 1 >= READINGS_MAX;
        *self = if is_enough { Self::default() } else { Self { row, last: read.to_vec(), count: before + 1 } };
        is_enough
    }
}

/// State of the upkeep.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    pub rebuild: Option<Rebuild>,
    /// Blocks that members could not read.
    pub mends: Mends,
    /// A row is being settled or mended, or some are rebuilt.
    pub is_busy: bool,
    pub is_filling: bool,
    /// No change begins before the rows that were found open are whole and the log has nothing left of them.
    pub is_settling: bool,
    pub is_flushing: bool,
    /// Of the copy in flight: its offset on the device, and its lock.
    pub copies: Option<(u64, u64)>,
    pub not_before_ns: u64,
    /// The wait after work of its own has failed; the reads of a rebuild wait by `not_before_ns` instead.
    pub pause: Pause,
    /// How often the row that is to be settled could not be read.
    pub unread_tries: u8,
    /// What was last read of that row.
    pub readings: Readings,
    /// Rows below this one are rebuilt one by one, as reading several at once failed.
    pub singles_until: u64,
    /// Rows are settled while the array is served: the clock goes on, and there is time for more attempts.
    pub is_served: bool,
    /// A flush has failed, and the log is being read anew.
    pub doubt: Option<Doubt>,
}

impl Upkeep {
    /// Begins to rebuild a member of which `rows` rows are good.
    pub fn begin_rebuild(&mut self, member: usize, rows: u64) {
        self.singles_until = 0;
        self.rebuild = Some(Rebuild {
            member,
            next_bytes: 0,
            copy_singly_until: 0,
            next_row: rows,
            noted_rows: rows,
            upto_row: rows,
            gaps: 0,
            is_second: false,
            first_gap_row: u64::MAX,
            first_gap_bytes: u64::MAX,
            away_tries: 0,
            answers: Answers::default(),
            waits: 0,
            asked_ns: 0,
            waits_for: 0,
        });
    }

    /// Ends all work for a member that gets no more writes.
    pub fn give_up(&mut self, member: usize) {
        self.mends.give_up(member);
        self.rebuild.take_if(|rebuild| rebuild.member == member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They were counted for all together: what one member had answered spoke for another, and one that did not answer for none.
    #[test]
    fn regression_answers_are_counted_by_member() {
        let mut answers = Answers::default();
        answers.note(0b011, 0b011);
        answers.note(0b110, 0b110);
        assert!(answers.are(1, 0b111) && answers.are(2, 0b010) && !answers.are(2, 0b011) && answers.are(9, 0));
        answers.note(0b011, 0b001);
        assert!(answers.are(2, 0b001) && !answers.are(1, 0b010) && answers.are(1, 0b100));
    }
}
