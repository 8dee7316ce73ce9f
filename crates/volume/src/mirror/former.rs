//! What a device that returns was before.

use crate::layout::Id;
use crate::layout::codec::COUNTER_LIMIT;

/// A device that was a member of a pool, by its newest label. This label stays on the device until that of its new place is durable: a
/// start in between recognises the device by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Former {
    /// The id that it had.
    pub id: Id,
    /// The generation of its label: labels that follow count up from that, so that nothing that is left on the device is newer than they
    /// are.
    pub generation: u64,
    /// The serial of its label, likewise.
    pub serial: u64,
    /// Its newest label is the second copy: the next label goes over the first.
    pub is_second: bool,
}

impl Former {
    /// `None` where nothing could count up from these numbers: the label is forged or damaged.
    pub(crate) fn checked(self) -> Option<Self> {
        (self.generation.max(self.serial) < COUNTER_LIMIT / 2).then_some(self)
    }
}
