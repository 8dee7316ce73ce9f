//! Space that the map no longer names. It is free once the record that says so is durable.

use std::collections::VecDeque;

/// Most runs of freed space that wait, apart from those of changes in progress: 2 MiB.
const ENTRIES_MAX: usize = 65_536;

/// Space that is free once a batch is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// A run of slots.
    Slots { first: u64, count: u64 },
    /// A band.
    Band(u32),
}

/// Freed space in the order of batches, with its totals, which are read at every iteration.
#[derive(Debug, Default)]
pub(crate) struct FreedQueue {
    queue: VecDeque<(u64, Freed)>,
    slots: u64,
    bands: usize,
}

impl FreedQueue {
    /// Slots waiting.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Bands waiting.
    pub fn bands(&self) -> usize {
        self.bands
    }

    /// Whether changes have to wait until some of it is free: discards of single blocks free one slot each, and would
    /// make the queue outgrow the memory limit.
    pub fn is_full(&self) -> bool {
        self.queue.len() >= ENTRIES_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// All that waits.
    pub fn iter(&self) -> impl Iterator<Item = Freed> + '_ {
        self.queue.iter().map(|&(_, freed)| freed)
    }

    fn count(&mut self, freed: Freed) {
        match freed {
            Freed::Slots { count, .. } => self.slots += count,
            Freed::Band(_) => self.bands += 1,
        }
    }

    /// Space becomes free when `batch` is durable.
    pub fn push(&mut self, batch: u64, freed: Freed) {
        self.count(freed);
        // Batches may be applied out of order; waiting for the later one is always safe and keeps the queue sorted.
        let batch = self.queue.back().map_or(batch, |&(last, _)| batch.max(last));
        if let (Some((last, Freed::Slots { first, count })), Freed::Slots { first: next, count: more }) =
            (self.queue.back_mut(), freed)
            && *last == batch
            && *first + *count == next
        {
            *count += more;
            return;
        }
        self.queue.push_back((batch, freed));
    }

    /// Space whose record is durable already: it goes to the front.
    pub fn push_durable(&mut self, freed: Freed) {
        self.count(freed);
        self.queue.push_front((0, freed));
    }

    /// The next space that is free when all batches up to `durable` are durable.
    pub fn pop(&mut self, durable: u64) -> Option<Freed> {
        let (_, freed) = self.queue.pop_front_if(|(batch, _)| *batch <= durable)?;
        match freed {
            Freed::Slots { count, .. } => self.slots -= count,
            Freed::Band(_) => self.bands -= 1,
        }
        Some(freed)
    }
}
