//! Rows that were written whole and that no good flush has covered. The log has nothing of them, so a flush that fails may leave them torn:
//! data that survived in one member's cache, beside old parity on another.

use crate::runs::Runs;
use std::ops::Range;

/// Most runs of torn rows that are kept apart; beyond that any row may be torn.
const RUNS_MAX: usize = 4096;

/// The rows, by the flush that covers them.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    /// Written since the last flush began.
    since: Runs,
    /// Written before that.
    before: Runs,
    /// Rows that a flush was to cover which failed, since the array was put together.
    torn: Runs,
}

impl Unflushed {
    /// Notes rows that were written whole.
    pub fn written(&mut self, rows: Range<u64>) {
        self.since.add(rows);
    }

    /// A flush begins: one is in flight at a time.
    pub fn flush_begins(&mut self) {
        self.before.add_all(std::mem::take(&mut self.since));
    }

    /// The flush has ended. One that failed says nothing of rows that were written meanwhile either.
    pub fn flush_ended(&mut self, is_good: bool) {
        let before = std::mem::take(&mut self.before);
        if !is_good {
            self.torn.add_all(before);
            self.torn.add_all(std::mem::take(&mut self.since));
            if self.torn.count() > RUNS_MAX {
                self.torn.add(0..u64::MAX);
            }
        }
    }

    /// Whether the parity of a row may belong to something else than lies there.
    pub fn may_be_torn(&self, row: u64) -> bool {
        self.torn.meets(row..row + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_torn_where_the_flush_behind_them_failed() {
        let mut rows = Unflushed::default();
        rows.written(0..2);
        rows.flush_begins();
        rows.written(5..6);
        rows.flush_ended(true);
        assert!(![0, 1, 5].into_iter().any(|row| rows.may_be_torn(row)));
        rows.flush_begins();
        rows.written(9..10);
        rows.flush_ended(false);
        assert_eq!([0, 1, 5, 9].map(|row| rows.may_be_torn(row)), [false, false, true, true]);
        (0..=RUNS_MAX as u64).for_each(|at| rows.written(100 + 2 * at..101 + 2 * at));
        rows.flush_begins();
        rows.flush_ended(false);
        assert!(rows.may_be_torn(0), "too many to know them all");
    }
}
