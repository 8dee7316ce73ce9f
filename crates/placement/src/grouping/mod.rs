//! Which group a block is written into; each group has one open band.

mod age_chain;
mod by_origin;
mod by_rate;
mod dac;
mod future;
mod kind;
mod no_separation;
mod open_bands;
mod partition;
mod sepbit;

pub use age_chain::AgeChain;
pub use by_origin::ByOrigin;
pub use by_rate::ByRate;
pub use dac::Dac;
pub use future::Future;
pub use kind::Kind;
pub use no_separation::NoSeparation;
pub use sepbit::SepBit;

/// A version of a block that a host overwrites or collection moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The group of the band that contains the version.
    pub group: u8,
    /// Time since a host wrote the version, in blocks written by hosts.
    pub age: u64,
    /// The policy's note on the version; `None` if it is not known.
    pub note: Option<u8>,
}

/// A decision of the policy where a block goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The group.
    pub group: u8,
    /// The policy's note on this version, below [`NOTES`].
    pub note: u8,
}

/// Number of values of a note: five bits beside each block.
pub const NOTES: u8 = 32;

impl Placed {
    /// A decision for a group, with note 0.
    #[must_use]
    pub fn group(group: u8) -> Self {
        Self { group, note: 0 }
    }
}

/// A write by a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The version that the write replaces, if any.
    pub over: Option<Version>,
    /// The version at the address below, if any: for a sequential write it is very young.
    pub below: Option<Version>,
    /// Time until the block will be overwritten, if known: only an oracle may use this.
    pub dies_after: Option<u64>,
    /// Number of valid blocks in the log.
    pub valid_blocks: u64,
    /// Number of blocks written: one, or a run of blocks with the same properties.
    pub blocks: u32,
}

/// A block that is moved out of a band being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The version that is moved.
    pub version: Version,
    /// Time until the block will be overwritten, if known: only an oracle may use this.
    pub dies_after: Option<u64>,
}

/// A band whose collection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Its group.
    pub group: u8,
    /// Time since the band was opened, in blocks written by hosts.
    pub age: u64,
    /// Number of valid blocks in the band, which are moved.
    pub valid: u32,
}

/// The groups of every policy are below this.
pub const GROUPS_MAX: u8 = 16;

/// A grouping policy. It sees facts about one block at a time and keeps no table of blocks.
pub trait Grouping {
    /// Number of groups.
    fn groups(&self) -> u8;
    /// Decides where a host's write goes.
    fn of_write(&mut self, write: &Write) -> Placed;
    /// Decides where a moved block goes.
    fn of_move(&mut self, moved: &Move) -> Placed;
    /// A host overwrites or discards a block of the log; the new version reaches the log later, or never.
    fn died(&mut self, _version: &Version) {}
    /// A band is being collected: its blocks are moved next.
    fn collected(&mut self, _band: &Collected) {}
}

impl<G: Grouping + ?Sized> Grouping for Box<G> {
    fn groups(&self) -> u8 {
        (**self).groups()
    }

    fn of_write(&mut self, write: &Write) -> Placed {
        (**self).of_write(write)
    }

    fn of_move(&mut self, moved: &Move) -> Placed {
        (**self).of_move(moved)
    }

    fn died(&mut self, version: &Version) {
        (**self).died(version);
    }

    fn collected(&mut self, band: &Collected) {
        (**self).collected(band);
    }
}
