//! Which group a block is written into: one open band for each group.

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

/// A version of a block that hosts have overwritten, or that collection moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The group of the band that holds it.
    pub group: u8,
    /// Time since its host wrote it.
    pub age: u64,
    /// What the policy noted with it, where that is known.
    pub note: Option<u8>,
}

/// Where a block goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The group.
    pub group: u8,
    /// What the policy wants to know again of this version, below [`NOTES`].
    pub note: u8,
}

/// Values of a note: five bits beside each block.
pub const NOTES: u8 = 32;

impl Placed {
    /// In a group, nothing noted.
    #[must_use]
    pub fn group(group: u8) -> Self {
        Self { group, note: 0 }
    }
}

/// A write of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// What it overwrites, if anything.
    pub over: Option<Version>,
    /// What lies at the address below, if anything: a write in sequence finds it written just before.
    pub below: Option<Version>,
    /// When it will be overwritten, from now on, where somebody knows: only an oracle may look.
    pub dies_after: Option<u64>,
    /// Blocks that are valid in the log.
    pub valid_blocks: u64,
    /// Blocks that are written: one, or a run of which the same is known.
    pub blocks: u32,
}

/// A block that is moved out of a band which is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// What is moved.
    pub version: Version,
    /// When it will be overwritten, from now on, where somebody knows: only an oracle may look.
    pub dies_after: Option<u64>,
}

/// A band whose collection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Its group.
    pub group: u8,
    /// Time since it was opened.
    pub age: u64,
    /// Blocks of it that are valid: those that are moved.
    pub valid: u32,
}

/// Groups of any policy are below this.
pub const GROUPS_MAX: u8 = 16;

/// A policy of groups. It sees facts of one block at a time and keeps no table of blocks.
pub trait Grouping {
    /// How many groups there are.
    fn groups(&self) -> u8;
    /// Where a host's write goes.
    fn of_write(&mut self, write: &Write) -> Placed;
    /// Where a block goes that is moved.
    fn of_move(&mut self, moved: &Move) -> Placed;
    /// A host overwrites or discards a block of the log; what it writes instead comes to the log later, or never.
    fn died(&mut self, _version: &Version) {}
    /// A band is collected: its blocks are moved next.
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
