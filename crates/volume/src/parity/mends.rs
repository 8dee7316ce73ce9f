//! Blocks that a member could not read and that are written again, and comparisons whose answers wait for that.

use forebay_block::Completion;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Most that are remembered of what hosts read; what is forgotten is found again when it is compared with its parity.
const FOUND_MAX: usize = 64;

/// What is to be mended.
#[derive(Debug, Default)]
pub(super) struct Mends {
    /// Member and row.
    list: VecDeque<(usize, u64)>,
    /// The one that is in progress.
    active: Option<(usize, u64)>,
    /// Answers, by the rows that they are of.
    waiting: Vec<(RangeInclusive<u64>, Completion)>,
}

impl Mends {
    /// Whether what hosts find is remembered. What comparisons find is in any case: no more of these are in flight than a scrub asks for at once.
    pub fn has_room(&self) -> bool {
        self.list.len() < FOUND_MAX
    }

    /// A block that could not be read is written again later.
    pub fn add(&mut self, member: usize, row: u64) {
        if self.active != Some((member, row)) && !self.list.contains(&(member, row)) {
            self.list.push_back((member, row));
        }
    }

    /// The first of a row in which nothing goes on, which begins now.
    pub fn begin(&mut self, is_free: impl Fn(u64) -> bool) -> Option<(usize, u64)> {
        let at = self.list.iter().position(|(_, row)| is_free(*row))?;
        self.active = self.list.remove(at);
        self.active
    }

    /// The one that was in progress has ended, well or not.
    pub fn ended(&mut self) {
        self.active = None;
    }

    /// Nothing more is written to a member.
    pub fn give_up(&mut self, member: usize) {
        self.list.retain(|&(to, _)| to != member);
    }

    /// An answer to a comparison of rows is given when nothing of them is to be mended any more.
    pub fn answer_later(&mut self, rows: RangeInclusive<u64>, completion: Completion) {
        self.waiting.push((rows, completion));
    }

    /// Answers that wait for nothing any more; with `all` those that do, too, as nothing is mended.
    pub fn answers(&mut self, all: bool) -> impl Iterator<Item = Completion> + '_ {
        let Self { list, active, waiting } = self;
        let is_left = |rows: &RangeInclusive<u64>| list.iter().chain(&*active).any(|(_, row)| rows.contains(row));
        waiting.extract_if(.., move |(rows, _)| all || !is_left(rows)).map(|(_, completion)| completion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(mends: &mut Mends, all: bool) -> Vec<u64> {
        mends.answers(all).map(|completion| completion.tag).collect()
    }

    #[test]
    fn a_comparison_is_answered_when_its_rows_are_mended() {
        let mut mends = Mends::default();
        let completion = |tag| Completion { tag, result: Ok(()), bufs: None };
        for row in 0..FOUND_MAX as u64 {
            assert!(mends.has_room());
            mends.add(0, row);
        }
        assert!(!mends.has_room());
        mends.add(1, 200);
        mends.answer_later(195..=205, completion(1));
        mends.answer_later(300..=400, completion(2));
        assert_eq!(answered(&mut mends, false), [2]);
        assert_eq!(mends.begin(|row| row == 200), Some((1, 200)));
        mends.add(1, 200);
        assert_eq!(answered(&mut mends, false), []);
        mends.ended();
        assert_eq!(answered(&mut mends, false), [1]);
        mends.answer_later(0..=5, completion(3));
        mends.give_up(1);
        assert_eq!((answered(&mut mends, false), answered(&mut mends, true)), (vec![], vec![3]));
        mends.give_up(0);
        assert_eq!(mends.begin(|_| true), None);
    }
}
