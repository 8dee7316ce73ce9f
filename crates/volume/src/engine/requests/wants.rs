//! What pieces wait for that cannot go on.

use std::collections::VecDeque;

/// What a parked piece waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Its turn in its range.
    #[default]
    Turn,
    /// A flush that makes one good which failed.
    Flush,
    /// Room in the journal.
    Journal,
    /// A checkpoint: too many leaves are dirty.
    Checkpoint,
    /// Slots or bands.
    Space,
}

/// Pieces that cannot go on, a queue for each reason: who waits for space must not hold up the discard that would free it.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    queues: [VecDeque<u32>; 5],
}

impl Waiting {
    /// In the order in which they are tried again: those who only waited for their turn first.
    pub const REASONS: [Wants; 5] = [Wants::Turn, Wants::Flush, Wants::Journal, Wants::Checkpoint, Wants::Space];

    /// The queue of a reason.
    pub fn queue(&mut self, wants: Wants) -> &mut VecDeque<u32> {
        &mut self.queues[wants as usize]
    }

    /// The first who waits for a reason.
    pub fn first(&self, wants: Wants) -> Option<u32> {
        self.queues[wants as usize].front().copied()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }
}
