//! Counts the results of a check of many blocks.

use crate::oracle::{Found, Objection};
use std::ops::AddAssign;

/// The number of blocks with each result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Blocks with the only possible version.
    pub certain: u64,
    /// Blocks with the durable version, where newer ones existed.
    pub old: u64,
    /// Blocks with the newest version, which was not durable.
    pub new: u64,
    /// Blocks with a version between these two.
    pub between: u64,
    /// Blocks with a content that is not permitted.
    pub wrong: u64,
}

impl Tally {
    /// Counts a block; returns the objection, if any.
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

    /// Number of blocks counted.
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
