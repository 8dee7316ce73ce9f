//! What was acknowledged before which flush, over all connections: a completed FLUSH covers every write acknowledged
//! before it was sent, on any connection.

use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
struct Entries {
    /// (block, version) in the order of acknowledgement.
    acknowledged: Vec<(u32, u32)>,
    /// How many of them completed flushes cover.
    covered: usize,
    /// Durable by themselves.
    forced: Vec<(u32, u32)>,
    flushes: u64,
}

/// The ledger of one run of the server.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Entries>);

impl Ledger {
    fn entries(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes were acknowledged; with `forced` they were to be durable by then.
    pub fn acknowledge(&self, changes: impl Iterator<Item = (u32, u32)>, forced: bool) {
        let mut entries = self.entries();
        for change in changes {
            entries.acknowledged.push(change);
            if forced {
                entries.forced.push(change);
            }
        }
    }

    /// A flush is about to be sent: what it covers.
    pub fn mark(&self) -> usize {
        self.entries().acknowledged.len()
    }

    /// The flush with this mark has completed.
    pub fn flushed(&self, mark: usize) {
        let mut entries = self.entries();
        entries.covered = entries.covered.max(mark);
        entries.flushes += 1;
    }

    /// Completed flushes.
    pub fn flushes(&self) -> u64 {
        self.entries().flushes
    }

    /// Everything durable: (block, version).
    pub fn into_durable(self) -> Vec<(u32, u32)> {
        let mut entries = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        entries.acknowledged.truncate(entries.covered);
        entries.acknowledged.append(&mut entries.forced);
        entries.acknowledged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_was_acknowledged_before_it_was_sent() {
        let ledger = Ledger::default();
        ledger.acknowledge([(1, 1)].into_iter(), false);
        let mark = ledger.mark();
        ledger.acknowledge([(2, 1)].into_iter(), false);
        ledger.acknowledge([(3, 1)].into_iter(), true);
        ledger.mark();
        ledger.flushed(mark);
        assert_eq!(ledger.into_durable(), [(1, 1), (3, 1)]);
    }
}
