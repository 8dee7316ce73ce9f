//! Why devices cannot be used as a mirror.

use super::belief::Unproven;
use crate::recovery::opened::Apart;
use thiserror::Error;

/// Why the devices cannot be used as a mirror.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum JoinError {
    /// None of them carries a label.
    #[error("none of the fast devices is a member of a mirror{why}")]
    NoLabel {
        /// What each is instead.
        why: String,
    },
    /// Of another pool.
    #[error("{device} and {other} are members of the mirrors of two pools")]
    Foreign {
        /// A device.
        device: String,
        /// One of another pool.
        other: String,
    },
    /// The counters of a label cannot go on.
    #[error("the label of {device} counts up to {counter}, which is impossible")]
    Counter {
        /// The devices.
        device: String,
        /// What it counts up to.
        counter: u64,
    },
    /// No member that holds everything is among them.
    #[error(
        "{devices} cannot be used without the others: the mirror went on without them (their generation is {found}, the pool's is {expected}). \
         What was written since is on {missing}, which is not there"
    )]
    Stale {
        /// The devices.
        devices: String,
        /// Their generation.
        found: u64,
        /// That of the pool.
        expected: u64,
        /// Ids of members that are not there.
        missing: String,
    },
    /// A device that does not hold everything was opened later than those that do.
    #[error(
        "{device} was last opened in epoch {epoch}, but the members that hold everything by their labels in {expected}: one of these, or a capacity \
         device, is an old copy"
    )]
    Newer {
        /// The device.
        device: String,
        /// Its epoch.
        epoch: u64,
        /// The epoch of those that do.
        expected: u64,
    },
    /// Of two copies of the pool.
    #[error(transparent)]
    Apart(#[from] Apart),
    /// A device that is needed may be no member any more.
    #[error(transparent)]
    Unproven(#[from] Unproven),
    /// Members are to be dropped, and not all others are there.
    #[error("members are dropped only where all that are configured are there and are members: {devices}")]
    NotAll {
        /// Those that are not, and why.
        devices: String,
    },
    /// A capacity device cannot be read, and its label may know more.
    #[error("{device} cannot be read ({why}), and may say that {devices} were left behind")]
    Unread {
        /// The capacity device.
        device: String,
        /// Why.
        why: String,
        /// The fast devices.
        devices: String,
    },
    /// Twice the same member.
    #[error("{device} and {other} are the same member of the mirror: one is a copy")]
    Copy {
        /// A device.
        device: String,
        /// The other one.
        other: String,
    },
}
