//! Future events of the drive: a heap, ordered by time, then by creation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Direction of a block's data over the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    /// To the controller.
    Read,
    /// To the controller, to be written back after part of it was replaced.
    ReadToModify,
    /// To the dies.
    Write,
}

impl Direction {
    pub(super) fn is_read(self) -> bool {
        self != Self::Write
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// A command arrives at the controller.
    Arrive { slot: u32 },
    /// A command is passed to the media.
    Hand { slot: u32 },
    /// A set has the data of a block in its registers.
    Sensed { slot: u32, set: u32, direction: Direction },
    /// A block is in the cells of its set.
    Written { slot: u32, set: u32 },
    /// A set can start another operation.
    SetFree { set: u32 },
    /// A block's data has crossed the bus.
    Moved { slot: u32, set: u32, direction: Direction },
    /// The host can see the end of a command.
    Complete { slot: u32 },
}

/// The future events.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, What)>>,
    made: u64,
}

impl Events {
    pub(super) fn push(&mut self, at_ns: u64, what: What) {
        self.heap.push(Reverse((at_ns, self.made, what)));
        self.made += 1;
    }

    /// Returns the next event, where it is not after `to_ns`.
    pub(super) fn pop(&mut self, to_ns: u64) -> Option<(u64, What)> {
        if self.next_ns() > to_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((at_ns, _, what))| (at_ns, what))
    }

    pub(super) fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns)
    }
}
