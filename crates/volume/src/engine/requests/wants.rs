//! What pieces that cannot go on wait for.

use std::collections::VecDeque;

/// What a parked piece waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Its turn in its range.
    #[default]
    Turn,
    /// A flush that makes up for one that failed.
    Flush,
    /// Room in the journal.
    Journal,
    /// A checkpoint: too many leaves are dirty.
    Checkpoint,
    /// Slots or bands.
    Space,
}

/// Pieces that cannot go on, in a queue per reason: a piece that waits for space must not hold up the discard that would free it.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    queues: [VecDeque<u32>; 5],
}

impl Waiting {
    /// In the order in which they are tried again: pieces that waited only for their turn come first.
    pub const REASONS: [Wants; 5] = [Wants::Turn, Wants::Flush, Wants::Journal, Wants::Checkpoint, Wants::Space];

    /// The queue of a reason.
    pub fn queue(&mut self, wants: Wants) -> &mut VecDeque<u32> {
        &mut self.queues[wants as usize]
    }

    /// The first piece that waits for a reason.
    pub fn first(&self, wants: Wants) -> Option<u32> {
        self.queues[wants as usize].front().copied()
    }

    /// How many pieces wait.
    pub fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }
}
