//! The last opening of a device, as its superblock names it. Copies of a pool that were opened equally often, or one of them once more,
//! differ only in the numbers of their openings.

use crate::layout::root::RootHeader;
use crate::layout::superblock::Superblock;
use thiserror::Error;

/// The last opening of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Its epoch.
    pub epoch: u64,
    /// The number that it drew; 0: there is none.
    number: u64,
    /// The number of the opening whose state this one found; 0: not known.
    before: u64,
    /// Whether the pool was served in it, not only opened.
    pub is_served: bool,
}

/// Two devices that no single opening of a pool can have left.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{device} and {other} were opened in epoch {epoch}, or one of them in that before it, but not together: one of them is of a copy of the pool"
)]
pub struct Apart {
    /// A device.
    pub device: String,
    /// The other one.
    pub other: String,
    /// The newest epoch of both.
    pub epoch: u64,
}

impl Opened {
    pub fn of(superblock: &Superblock) -> Self {
        Self {
            epoch: superblock.epoch,
            number: superblock.opening,
            before: superblock.opening_before,
            is_served: superblock.serving,
        }
    }

    /// Whether no opening can have left both devices. All devices have the number of an opening before any of them is served (those of the
    /// fast tier in the root). Openings that came to nothing may each have left a number of their own.
    fn is_apart_from(self, other: Self) -> bool {
        let (newer, older) = if self.epoch < other.epoch { (other, self) } else { (self, other) };
        match newer.epoch - older.epoch {
            0 => (newer.is_served || older.is_served) && are_apart(newer.number, older.number),
            // A device that was only opened may have been opened once more in the same epoch: then its number shows nothing.
            1 => older.is_served && are_apart(newer.before, older.number),
            _ => false,
        }
    }

    /// The same for a capacity device and the newest root, which is written between the two states of a superblock.
    pub fn is_apart_from_root(self, root: &RootHeader) -> bool {
        let is_of_same = self.epoch == root.epoch && self.is_served;
        let is_of_next = self.epoch == root.epoch + 1;
        is_of_same && are_apart(self.number, root.opening) || is_of_next && are_apart(self.before, root.opening)
    }
}

/// Whether two numbers of the same epoch are of two different openings.
pub(crate) fn are_apart(one: u64, other: u64) -> bool {
    one != other && one != 0 && other != 0
}

/// Refuses devices where no opening can have left two of them.
pub(crate) fn refuse_apart<'a>(devices: impl Iterator<Item = (&'a str, Opened)>) -> Result<(), Apart> {
    let all: Vec<(&str, Opened)> = devices.collect();
    for (at, &(device, opened)) in all.iter().enumerate() {
        if let Some((other, found)) = all[..at].iter().find(|(_, other)| opened.is_apart_from(*other)) {
            let epoch = opened.epoch.max(found.epoch);
            return Err(Apart { device: device.to_owned(), other: (*other).to_owned(), epoch });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_served_in_the_same_epoch_is_apart() {
        let opened = |epoch, number, is_served| Opened { epoch, number, before: number - 1, is_served };
        let of = |one, other| refuse_apart([("a", one), ("b", other)].into_iter()).is_err();
        assert!(of(opened(3, 7, true), opened(3, 8, true)));
        assert!(of(opened(3, 7, true), opened(3, 8, false)));
        assert!(!of(opened(3, 7, false), opened(3, 8, false)), "openings that were cut short");
        assert!(!of(opened(3, 7, true), opened(4, 8, true)), "the next one");
        assert!(of(opened(3, 6, true), opened(4, 8, true)) && of(opened(4, 8, false), opened(3, 6, true)));
        assert!(!of(opened(3, 6, false), opened(4, 8, true)), "opened once more in the same epoch");
        assert!(!of(opened(3, 6, true), opened(5, 8, true)), "the epoch tells");
        let of_before = Opened { epoch: 3, number: 0, before: 0, is_served: true };
        assert!(!of(opened(3, 7, true), of_before) && !of(opened(4, 7, true), of_before), "a program before wrote it");
        assert!(!of(opened(3, 7, true), opened(3, 7, false)));
    }
}
