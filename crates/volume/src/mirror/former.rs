//! What a device was that returns.

use crate::layout::Id;
use crate::layout::codec::COUNTER_LIMIT;

/// A device that was a member of a pool, by its newest label. That stays on it until the label of its new place is durable: a start in between knows
/// the device by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Former {
    /// The id that it had.
    pub id: Id,
    /// What its label had counted to: labels that follow count up from that, so that nothing which is left on it is newer than they are.
    pub generation: u64,
    /// The same of its writes.
    pub serial: u64,
    /// The newest label is the second copy; the next is written over the first.
    pub is_second: bool,
}

impl Former {
    /// None where nothing could be counted up from it: it is forged, or damaged.
    pub(crate) fn checked(self) -> Option<Self> {
        (self.generation.max(self.serial) < COUNTER_LIMIT / 2).then_some(self)
    }
}
