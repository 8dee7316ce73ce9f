//! Counts of a check of many blocks.

use crate::oracle::{Found, Objection};
use std::ops::AddAssign;

/// How many blocks held what in a check of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The only version that they could.
    pub certain: u64,
    /// The durable version, where there were newer ones.
    pub old: u64,
    /// The newest version, which was not durable.
    pub new: u64,
    /// A version between these two.
    pub between: u64,
    /// What they must not.
    pub wrong: u64,
}

impl Tally {
    /// Counts a block; gives the objection on.
    pub fn count(&mut self, outcome: Result<Found, Objection>) -> Option<Objection> {
        match &outcome {
            Ok(Found::Certain) => self.certain += 1,
            Ok(Found::Old) => self.old += 1,
            Ok(Found::New) => self.new += 1,
            Ok(Found::Between) => self.between += 1,
            Err(_) => self.wrong += 1,
        }
        outcome.err()
    }

    /// Blocks counted.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.certain + self.old + self.new + self.between + self.wrong
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.certain += other.certain;
        self.old += other.old;
        self.new += other.new;
        self.between += other.between;
        self.wrong += other.wrong;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_counts_once() {
        let mut tally = Tally::default();
        for found in [Found::Certain, Found::Old, Found::New, Found::Between] {
            assert_eq!(tally.count(Ok(found)), None);
        }
        assert_eq!(tally.count(Err("torn".into())), Some("torn".into()));
        tally += tally;
        assert_eq!((tally.old, tally.wrong, tally.blocks()), (2, 2, 10));
    }
}
