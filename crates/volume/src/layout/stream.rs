//! Streams: data that is expected to die together, and has open bands of its own.

use forebay_block::ClassId;
use forebay_placement::grouping::{GROUPS_MAX, NOTES, Placed};

/// What is known of how long data in a band will live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// Its group.
    pub group: u8,
    /// What the policy noted, plus 1; 0: nothing.
    pub note: u8,
}

impl From<Placed> for Lifetime {
    fn from(placed: Placed) -> Self {
        Self { group: placed.group.min(GROUPS_MAX - 1), note: placed.note.min(NOTES - 1) + 1 }
    }
}

impl Lifetime {
    /// As it is stored.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 2] {
        [self.group, self.note]
    }

    /// From how it is stored; `None` where this format has no such lifetime.
    #[must_use]
    pub fn from_bytes([group, note]: [u8; 2]) -> Option<Self> {
        (group < GROUPS_MAX && note <= NOTES).then_some(Self { group, note })
    }
}

/// What is written into one open band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream {
    /// Moved by garbage collection, not written or destaged for a host.
    pub is_collected: bool,
    /// Lifetime group.
    pub group: u8,
    /// Class.
    pub class: ClassId,
}

impl Default for Stream {
    fn default() -> Self {
        Self { is_collected: false, group: 0, class: ClassId(0) }
    }
}

impl Stream {
    /// The bit of the first byte that says that garbage collection moved it.
    const COLLECTED: u8 = 0x80;

    /// As it is stored: class and origin, then the group.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 2] {
        [self.class.0 | if self.is_collected { Self::COLLECTED } else { 0 }, self.group]
    }

    /// From how it is stored; `None` where this format has no such stream.
    #[must_use]
    pub fn from_bytes([first, group]: [u8; 2]) -> Option<Self> {
        let class = ClassId(first & !Self::COLLECTED);
        let is_possible = usize::from(class.0) < ClassId::LIMIT && group < GROUPS_MAX;
        is_possible.then_some(Self { is_collected: first & Self::COLLECTED != 0, group, class })
    }

    /// The hint to a device: data that is expected to die together has the same number, whatever its class. 0 would be no hint.
    #[must_use]
    pub fn hint(self) -> u8 {
        self.group + 1
    }
}

/// The hint to the fast device for data of a class; 0 would be no hint.
#[must_use]
pub fn class_hint(class: ClassId) -> u8 {
    class.0 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_stored_and_what_is_none_is_refused() {
        for stream in [
            Stream::default(),
            Stream { is_collected: true, group: GROUPS_MAX - 1, class: ClassId(119) },
            Stream { is_collected: false, group: 3, class: ClassId(7) },
        ] {
            assert_eq!(Stream::from_bytes(stream.to_bytes()), Some(stream));
            assert_ne!(stream.hint(), 0);
        }
        assert_eq!(Stream::from_bytes([120, 0]), None, "a class that no entry can hold");
        assert_eq!(Stream::from_bytes([0, GROUPS_MAX]), None);
        let lifetime = Lifetime::from(Placed { group: 15, note: NOTES - 1 });
        assert_eq!(Lifetime::from_bytes(lifetime.to_bytes()), Some(lifetime));
        assert_eq!(Lifetime::from_bytes([0, NOTES + 1]), None);
    }
}
