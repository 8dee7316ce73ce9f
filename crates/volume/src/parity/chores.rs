//! What there is to be done by an array itself.

use super::doubt::Doubt;
use std::collections::VecDeque;

/// Blocks to be mended that are remembered; what is forgotten is found again when it is read again.
const MENDS_MAX: usize = 64;

/// A rebuild.
#[derive(Debug)]
pub(super) struct Rebuild {
    pub member: usize,
    /// What is copied next of what all have alike.
    pub next_bytes: u64,
    pub next_row: u64,
    pub noted_rows: u64,
    /// Beyond what is in flight.
    pub upto_row: u64,
    /// Rows could not be made in this pass; there is another one then.
    pub has_gaps: bool,
    pub is_second: bool,
}

/// State of it.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    pub rebuild: Option<Rebuild>,
    /// Member and row of blocks that could not be read.
    pub mends: VecDeque<(usize, u64)>,
    /// A row is being settled or mended, or some are rebuilt.
    pub is_busy: bool,
    pub is_filling: bool,
    /// Nothing is written before rows that were found open are whole, and nothing is left of them in the log.
    pub is_settling: bool,
    pub is_flushing: bool,
    /// Where on the device that lies which is copied, and its lock.
    pub copies: Option<(u64, u64)>,
    pub not_before_ns: u64,
    /// When something last failed that it is to do, but for a rebuild.
    pub failed_ns: Option<u64>,
    /// Rows that are still to be rebuilt one by one: what was read of more failed.
    pub singles_until: u64,
    /// A flush has failed: the log is being read anew.
    pub doubt: Option<Doubt>,
    /// Reads of the log that were begun before that.
    pub reads_in_vain: u32,
}

impl Upkeep {
    /// Rebuilds a member, of which so many rows are good.
    pub fn begin_rebuild(&mut self, member: usize, rows: u64) {
        self.rebuild = Some(Rebuild {
            member,
            next_bytes: 0,
            next_row: rows,
            noted_rows: rows,
            upto_row: rows,
            has_gaps: false,
            is_second: false,
        });
    }

    /// Nothing more is written to a member.
    pub fn give_up(&mut self, member: usize) {
        self.mends.retain(|&(to, _)| to != member);
        self.rebuild.take_if(|rebuild| rebuild.member == member);
    }

    /// A block that could not be read is written again later.
    pub fn mend_later(&mut self, member: usize, row: u64) {
        if self.mends.len() < MENDS_MAX && !self.mends.contains(&(member, row)) {
            self.mends.push_back((member, row));
        }
    }
}
