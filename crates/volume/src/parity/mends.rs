//! Blocks that a member could not read and that are written again; and comparisons whose answers wait for that.
//!
//! A block that is computed from the other blocks of a row is wrong where one of these has rotten, and a member that cannot read a block
//! now may be able to later. So the computed block is written only where parity that was not needed for it agrees, or where somebody read
//! it and did not ask for another reading. A reader that knows what the block should be asks at once.

use crate::mirror::gone;
use forebay_block::{Completion, IoError};
use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// Most blocks that are remembered from reads of hosts; a forgotten one is found again when its row is compared with parity.
const FOUND_MAX: usize = 4096;
/// How long the reader of a block may take to ask for it again: other parts of its read may be slow.
const ACCEPTED_NS: u64 = 10_000_000_000;
/// Most that counts of the time between two looks at the clock: while a clock jumps, nobody could ask for anything.
const LOOK_NS: u64 = 100_000_000;
/// Whoever stops a pool does not advance the clock: after so many looks at a clock that stands still nobody asks for a block any more.
const LOOKS_MAX: u32 = 100_000;

/// A block that is to be written again.
#[derive(Clone, Copy, Debug)]
struct ToMend {
    member: usize,
    row: u64,
    /// When the computed block counts as right, as nobody has asked for it again. `None`: parity alone can decide.
    accepted_at_ns: Option<u64>,
}

/// What is to be mended.
#[derive(Debug, Default)]
pub(super) struct Mends {
    list: VecDeque<ToMend>,
    /// The one that is in progress.
    active: Option<ToMend>,
    /// Answers to comparisons, with the rows that were compared.
    waiting: Vec<(RangeInclusive<u64>, Completion)>,
    /// How long readers could have asked, in all, and the clock at the last look.
    now_ns: u64,
    looked_ns: u64,
    /// Looks at the clock since it stands still.
    looks: u32,
    /// Rows that were reported as impossible to mend: a row is compared more than once.
    reported: BTreeSet<u64>,
}

impl Mends {
    /// Looks at the clock.
    pub fn look(&mut self, clock_ns: u64) {
        self.looks = if clock_ns == self.looked_ns { self.looks + 1 } else { 0 };
        if self.looks >= LOOKS_MAX {
            (self.now_ns, self.looks) = (self.now_ns + ACCEPTED_NS, 0);
        }
        self.now_ns += clock_ns.saturating_sub(self.looked_ns).min(LOOK_NS);
        self.looked_ns = clock_ns;
    }

    /// A block could not be read and was computed from the others. It is written again later, as its reader knows whether it is right.
    pub fn add_read(&mut self, member: usize, row: u64) {
        let accepted_at_ns = Some(self.now_ns + ACCEPTED_NS);
        let has_room = self.list.len() < FOUND_MAX;
        match self.list.iter_mut().find(|known| (known.member, known.row) == (member, row)) {
            Some(known) => known.accepted_at_ns = known.accepted_at_ns.or(accepted_at_ns),
            None if has_room => self.list.push_back(ToMend { member, row, accepted_at_ns }),
            None => {}
        }
    }

    /// A block could not be compared. It is written again where parity shows what it is. A scrub asks only for so many at once, which
    /// bounds the list.
    pub fn add_compared(&mut self, member: usize, row: u64) {
        let is_it = |known: &ToMend| (known.member, known.row) == (member, row);
        if !self.active.iter().chain(&self.list).any(is_it) {
            self.list.push_back(ToMend { member, row, accepted_at_ns: None });
        }
    }

    /// What was read of these rows was wrong, and is asked for again: whatever of them was not yet written does not count as right any
    /// more.
    pub fn doubt(&mut self, rows: RangeInclusive<u64>) {
        let doubted = self.active.iter_mut().chain(&mut self.list).filter(|to_mend| rows.contains(&to_mend.row));
        doubted.for_each(|to_mend| to_mend.accepted_at_ns = None);
    }

    /// Begins the first due block whose row is free. `is_idle`: the pool waits for nothing, so that nobody is about to ask for a block
    /// again.
    pub fn begin(&mut self, is_idle: bool, is_free: impl Fn(u64) -> bool) -> Option<(usize, u64)> {
        let is_due = |to_mend: &ToMend| is_idle || to_mend.accepted_at_ns.is_none_or(|at_ns| at_ns <= self.now_ns);
        let at = self.list.iter().position(|to_mend| is_due(to_mend) && is_free(to_mend.row))?;
        self.active = self.list.remove(at);
        self.active.map(|ToMend { member, row, .. }| (member, row))
    }

    /// Whether the computed block counts as right, for the one in progress.
    pub fn is_accepted(&self) -> bool {
        self.active.is_some_and(|active| active.accepted_at_ns.is_some())
    }

    /// The block in progress has ended. Where it `failed`, comparisons that wait for its row fail as well.
    pub fn ended(&mut self, failed: Option<IoError>) {
        let (Some(active), Some(error)) = (self.active.take(), failed) else { return };
        let of_row = self.waiting.iter_mut().filter(|(rows, _)| rows.contains(&active.row));
        of_row.filter(|(_, answer)| answer.result.is_ok()).for_each(|(_, answer)| answer.result = Err(error.clone()));
    }

    /// Whether it was not reported yet that this row cannot be mended.
    pub fn is_news(&mut self, row: u64) -> bool {
        let is_news = !self.reported.contains(&row);
        if self.reported.len() < FOUND_MAX {
            self.reported.insert(row);
        }
        is_news
    }

    /// Forgets the blocks of a member that gets no more writes.
    pub fn give_up(&mut self, member: usize) {
        self.list.retain(|to_mend| to_mend.member != member);
    }

    /// Keeps the answer to a comparison of rows until nothing in them is to be mended any more.
    pub fn answer_later(&mut self, rows: RangeInclusive<u64>, completion: Completion) {
        self.waiting.push((rows, completion));
    }

    /// Answers that wait for nothing any more. With `all` also those that still wait, as nothing is mended: these fail.
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

    /// Lets time pass until what was read counts as right.
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

    /// A block that was restored beside a rotten one was written over a block that its member could not read for a moment, before the
    /// reader could say that it was wrong.
    #[test]
    fn regression_what_is_read_again_is_not_mended_by_what_was_read_before() {
        let mut mends = Mends::default();
        mends.add_read(0, 3);
        mends.add_read(0, 4);
        // However far the clock jumps, there is time to ask.
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
