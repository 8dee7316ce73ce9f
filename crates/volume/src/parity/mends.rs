//! Blocks that a member could not read and that are written again, and comparisons whose answers wait for that.
//!
//! What is computed of the other blocks of a row is wrong where one of these has rotten, and a member that cannot read a block now may be able to later. So it
//! is written where parity that was not needed for it agrees; or else where somebody read it and did not ask for another reading, as whoever knows what it should
//! be does at once.

use crate::mirror::gone;
use forebay_block::{Completion, IoError};
use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// Most that are remembered of what hosts read; what is forgotten is found again when it is compared with its parity.
const FOUND_MAX: usize = 4096;
/// How long somebody who has read a block may take to ask for it again: other parts of what he reads may be slow.
const ACCEPTED_NS: u64 = 10_000_000_000;
/// What counts at most of the time between two looks at the clock: in one that jumps nobody could ask for anything.
const LOOK_NS: u64 = 100_000_000;
/// Whoever stops a pool never says what time it is: after so many looks at a clock that stands still nobody asks any more.
const LOOKS_MAX: u32 = 100_000;

/// A block that is to be written again.
#[derive(Clone, Copy, Debug)]
struct ToMend {
    member: usize,
    row: u64,
    /// When what was read of the others is taken for right, as nobody has asked for it again. `None`: parity alone can tell.
    accepted_at_ns: Option<u64>,
}

/// What is to be mended.
#[derive(Debug, Default)]
pub(super) struct Mends {
    list: VecDeque<ToMend>,
    /// The one that is in progress.
    active: Option<ToMend>,
    /// Answers, by the rows that they are of.
    waiting: Vec<(RangeInclusive<u64>, Completion)>,
    /// The time in which somebody could ask, and the clock at the last look.
    now_ns: u64,
    looked_ns: u64,
    /// Looks at the clock since it stands still.
    looks: u32,
    /// Rows that were reported as ones that cannot be mended: each is compared more than once.
    reported: BTreeSet<u64>,
}

impl Mends {
    /// Time passes.
    pub fn look(&mut self, clock_ns: u64) {
        self.looks = if clock_ns == self.looked_ns { self.looks + 1 } else { 0 };
        if self.looks >= LOOKS_MAX {
            (self.now_ns, self.looks) = (self.now_ns + ACCEPTED_NS, 0);
        }
        self.now_ns += clock_ns.saturating_sub(self.looked_ns).min(LOOK_NS);
        self.looked_ns = clock_ns;
    }

    /// A block that could not be read, and was computed of the others, is written again later: whoever got it knows whether it is right.
    pub fn add_read(&mut self, member: usize, row: u64) {
        let accepted_at_ns = Some(self.now_ns + ACCEPTED_NS);
        let has_room = self.list.len() < FOUND_MAX;
        match self.list.iter_mut().find(|known| (known.member, known.row) == (member, row)) {
            Some(known) => known.accepted_at_ns = known.accepted_at_ns.or(accepted_at_ns),
            None if has_room => self.list.push_back(ToMend { member, row, accepted_at_ns }),
            None => {}
        }
    }

    /// A block that could not be compared is written again, where parity says what it is. No more of these are remembered than a scrub asks for at once.
    pub fn add_compared(&mut self, member: usize, row: u64) {
        let is_it = |known: &ToMend| (known.member, known.row) == (member, row);
        if !self.active.iter().chain(&self.list).any(is_it) {
            self.list.push_back(ToMend { member, row, accepted_at_ns: None });
        }
    }

    /// What was read of these rows was not what it should be, and is asked for again: nothing of it is taken for right that was not sent yet.
    pub fn doubt(&mut self, rows: RangeInclusive<u64>) {
        let doubted = self.active.iter_mut().chain(&mut self.list).filter(|to_mend| rows.contains(&to_mend.row));
        doubted.for_each(|to_mend| to_mend.accepted_at_ns = None);
    }

    /// The first of a row in which nothing goes on, which begins now. `is_idle`: the pool waits for nothing, and so nobody is about to ask for anything again.
    pub fn begin(&mut self, is_idle: bool, is_free: impl Fn(u64) -> bool) -> Option<(usize, u64)> {
        let is_due = |to_mend: &ToMend| is_idle || to_mend.accepted_at_ns.is_none_or(|at_ns| at_ns <= self.now_ns);
        let at = self.list.iter().position(|to_mend| is_due(to_mend) && is_free(to_mend.row))?;
        self.active = self.list.remove(at);
        self.active.map(|ToMend { member, row, .. }| (member, row))
    }

    /// Whether what is computed of the others is taken for right, of the one that is in progress.
    pub fn is_accepted(&self) -> bool {
        self.active.is_some_and(|active| active.accepted_at_ns.is_some())
    }

    /// The one that was in progress has ended. Where it `failed`, no comparison of its row ends well that waits for it.
    pub fn ended(&mut self, failed: Option<IoError>) {
        let (Some(active), Some(error)) = (self.active.take(), failed) else { return };
        let of_row = self.waiting.iter_mut().filter(|(rows, _)| rows.contains(&active.row));
        of_row.filter(|(_, answer)| answer.result.is_ok()).for_each(|(_, answer)| answer.result = Err(error.clone()));
    }

    /// Whether it is to be reported of a row that it cannot be mended.
    pub fn is_news(&mut self, row: u64) -> bool {
        let is_news = !self.reported.contains(&row);
        if self.reported.len() < FOUND_MAX {
            self.reported.insert(row);
        }
        is_news
    }

    /// Nothing more is written to a member.
    pub fn give_up(&mut self, member: usize) {
        self.list.retain(|to_mend| to_mend.member != member);
    }

    /// An answer to a comparison of rows is given when nothing of them is to be mended any more.
    pub fn answer_later(&mut self, rows: RangeInclusive<u64>, completion: Completion) {
        self.waiting.push((rows, completion));
    }

    /// Answers that wait for nothing any more; with `all` those that do, too, as nothing is mended: they do not end well.
    pub fn answers(&mut self, all: bool) -> impl Iterator<Item = Completion> + '_ {
        let Self { list, active, waiting, .. } = self;
        let (list, active) = (&*list, &*active);
        let is_left = move |rows: &RangeInclusive<u64>| list.iter().chain(active).any(|left| rows.contains(&left.row));
        let answered = waiting.extract_if(.., move |(rows, _)| all || !is_left(rows));
        answered.map(move |(rows, completion)| match completion.result {
            Ok(()) if is_left(&rows) => Completion { result: Err(gone("read")), ..completion },
            _ => completion,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(mends: &mut Mends, all: bool) -> Vec<u64> {
        mends.answers(all).map(|completion| completion.tag).collect()
    }

    fn completion(tag: u64) -> Completion {
        Completion { tag, result: Ok(()), bufs: None }
    }

    /// Time passes, until what was read is taken for right.
    fn wait(mends: &mut Mends) {
        (0..=ACCEPTED_NS / LOOK_NS).for_each(|_| mends.look(mends.looked_ns + LOOK_NS));
    }

    #[test]
    fn a_comparison_is_answered_when_its_rows_are_mended() {
        let mut mends = Mends::default();
        (0..=FOUND_MAX as u64).for_each(|row| mends.add_read(0, row));
        assert_eq!(mends.list.len(), FOUND_MAX);
        mends.add_compared(1, 20_000);
        mends.answer_later(19_995..=20_005, completion(1));
        mends.answer_later(30_000..=40_000, completion(2));
        assert_eq!(answered(&mut mends, false), [2]);
        assert_eq!(mends.begin(false, |_| true), Some((1, 20_000)));
        mends.add_compared(1, 20_000);
        assert_eq!(answered(&mut mends, false), []);
        mends.ended(None);
        assert_eq!(answered(&mut mends, false), [1]);
        mends.answer_later(0..=5, completion(3));
        mends.give_up(1);
        assert_eq!(answered(&mut mends, false), []);
        let in_vain: Vec<_> = mends.answers(true).map(|answer| (answer.tag, answer.result.is_ok())).collect();
        assert_eq!(in_vain, [(3, false)], "nothing of it was written again");
        mends.give_up(0);
        wait(&mut mends);
        assert_eq!(mends.begin(false, |_| true), None);
    }

    #[test]
    fn a_comparison_fails_whose_rows_cannot_be_mended() {
        let mut mends = Mends::default();
        mends.add_compared(1, 7);
        mends.answer_later(5..=7, completion(1));
        mends.answer_later(8..=9, completion(2));
        assert_eq!((mends.begin(false, |_| true), mends.is_accepted()), (Some((1, 7)), false));
        mends.ended(Some(gone("read")));
        let answers: Vec<_> = mends.answers(false).map(|answer| (answer.tag, answer.result.is_ok())).collect();
        assert_eq!(answers, [(1, false), (2, true)]);
    }

    /// What was restored beside a block that had rotten went over what a member could not read for a moment: whoever had read it could not say so.
    #[test]
    fn regression_what_is_read_again_is_not_mended_by_what_was_read_before() {
        let mut mends = Mends::default();
        mends.add_read(0, 3);
        mends.add_read(0, 4);
        // However far a clock jumps, there is time to ask.
        mends.look(1 << 60);
        assert_eq!(mends.begin(false, |_| true), None);
        mends.doubt(4..=9);
        assert_eq!((mends.begin(false, |_| true), mends.is_accepted()), (Some((0, 4)), false));
        mends.ended(None);
        wait(&mut mends);
        assert_eq!((mends.begin(false, |_| true), mends.is_accepted()), (Some((0, 3)), true));
        mends.doubt(0..=3);
        assert!(!mends.is_accepted(), "it was not sent yet");
        mends.ended(None);
        assert_eq!(mends.begin(false, |_| true), None);
    }
}
