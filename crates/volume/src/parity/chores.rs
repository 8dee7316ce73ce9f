//! What there is to be done by an array itself.

use super::found::FoundRows;
use super::mends::Mends;
use super::pause::Pause;
use crate::layout::array_shape::MEMBERS_MAX;
use crate::mirror::numbers_in;
use forebay_block::IoError;
use std::collections::VecDeque;

/// Places of the log that are read at once.
const SLOTS_AT_ONCE: u32 = 128;

/// How often each member has answered in a row, by its number.
#[derive(Debug, Default)]
pub(super) struct Answers([u8; MEMBERS_MAX]);

impl Answers {
    /// Of those that were asked these have answered, one bit each.
    pub fn note(&mut self, asked: u32, answered: u32) {
        for (number, count) in self.0.iter_mut().enumerate().filter(|(number, _)| asked & 1 << number != 0) {
            *count = if answered & 1 << number != 0 { count.saturating_add(1) } else { 0 };
        }
    }

    /// Whether each of these has so often.
    pub fn are(&self, most: u8, members: u32) -> bool {
        numbers_in(members).all(|number| self.0.get(number).is_some_and(|&count| count >= most))
    }
}

/// A rebuild.
#[derive(Debug)]
pub(super) struct Rebuild {
    pub member: usize,
    /// What is copied next of what all have alike.
    pub next_bytes: u64,
    /// Up to here block by block: a larger piece could not be read.
    pub copy_singly_until: u64,
    pub next_row: u64,
    pub noted_rows: u64,
    /// Beyond what is in flight.
    pub upto_row: u64,
    /// How many places could not be made in this pass; there is another one then.
    pub gaps: u32,
    pub is_second: bool,
    /// The first of these rows, and of what all have alike.
    pub first_gap_row: u64,
    pub first_gap_bytes: u64,
    /// How often in succession it has waited for a member that is away.
    pub away_tries: u8,
    /// How often members that could not read what is next have read something else since.
    pub answers: Answers,
    /// How often in this pass it has waited between such reads.
    pub waits: u32,
    /// When it asked the others for something last.
    pub asked_ns: u64,
    /// One bit for each member that answers nothing, and without which it does not go on.
    pub waits_for: u32,
}

impl Rebuild {
    /// It goes on with what comes next.
    pub fn goes_on(&mut self) {
        (self.away_tries, self.answers, self.waits_for) = (0, Answers::default(), 0);
    }

    /// What is next cannot be made, and is left out.
    pub fn leaves_out(&mut self) {
        self.gaps = self.gaps.saturating_add(1);
        self.goes_on();
    }
}

/// What is known of the log again after a flush that failed.
#[derive(Debug)]
pub(super) struct Doubt {
    pub error: IoError,
    pub found: FoundRows,
    /// Members whose logs are to be read; the first is begun with. One bit for each whose log was.
    pub members: VecDeque<usize>,
    pub done: u32,
    /// What is still to be read of the first: first places, and how many.
    pub to_read: VecDeque<(u32, u32)>,
    /// Places of it that could not be read, and how often all of these were tried again.
    pub unread: Vec<u32>,
    pub looks: u8,
    /// How often a member could not be read of.
    pub restarts: u8,
    pub is_reading: bool,
    /// What is being read was begun before another flush failed.
    pub is_vain: bool,
}

impl Doubt {
    /// The log of a member is read from its first place on.
    pub fn begin_member(&mut self, slots: u32) {
        let first = (0..slots).step_by(SLOTS_AT_ONCE as usize);
        self.to_read = first.map(|first| (first, SLOTS_AT_ONCE.min(slots - first))).collect();
        self.unread.clear();
        self.looks = 0;
    }

    /// What is read now cannot be: place by place, for one bad place hides no other. False where it is one place.
    pub fn one_by_one(&mut self) -> bool {
        let Some((first, count)) = self.to_read.pop_front_if(|(_, count)| *count > 1) else { return false };
        (first..first + count).rev().for_each(|place| self.to_read.push_front((place, 1)));
        true
    }
}

/// How often a row is read at most until it is the same twice.
const READINGS_MAX: u8 = 4;

/// What was read of a row last, where nothing but that says what it is.
#[derive(Debug, Default)]
pub(super) struct Readings {
    row: u64,
    last: Vec<Option<Vec<u8>>>,
    count: u8,
}

impl Readings {
    /// Whether what was read now may be written: it was the same before, for one transfer may go wrong.
    pub fn are_enough(&mut self, row: u64, read: &[Option<Vec<u8>>]) -> bool {
        let before = if self.row == row { self.count } else { 0 };
        let is_enough = before > 0 && self.last == read || before + 1 >= READINGS_MAX;
        *self = if is_enough { Self::default() } else { Self { row, last: read.to_vec(), count: before + 1 } };
        is_enough
    }
}

/// State of it.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    pub rebuild: Option<Rebuild>,
    /// Blocks that could not be read.
    pub mends: Mends,
    /// A row is being settled or mended, or some are rebuilt.
    pub is_busy: bool,
    pub is_filling: bool,
    /// Nothing is written before rows that were found open are whole, and nothing is left of them in the log.
    pub is_settling: bool,
    pub is_flushing: bool,
    /// Where on the device that lies which is copied, and its lock.
    pub copies: Option<(u64, u64)>,
    pub not_before_ns: u64,
    /// Something failed that it is to do, but for a rebuild.
    pub pause: Pause,
    /// How often a row could not be read that is to be settled.
    pub unread_tries: u8,
    /// And what was read of it last.
    pub readings: Readings,
    /// Rows that are still to be rebuilt one by one: what was read of more failed.
    pub singles_until: u64,
    /// Rows are settled while the array is served, after a flush that failed: there is a clock, and time.
    pub is_served: bool,
    /// A flush has failed: the log is being read anew.
    pub doubt: Option<Doubt>,
}

impl Upkeep {
    /// Rebuilds a member, of which so many rows are good.
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

    /// Nothing more is written to a member.
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
