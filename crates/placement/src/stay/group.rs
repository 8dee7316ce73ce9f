//! A group of writes: the traits that identify it, the decision about it, and the statistics that are shown of it.

use super::costs::Costs;
use super::regions::History;
use super::share::Share;

/// The properties that identify a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Traits {
    /// Number of the class.
    pub class: u8,
    /// Number of the host's hint about the lifetime.
    pub hint: u8,
    /// What is known about the region that is written to.
    pub history: History,
    /// Octaves of the ages of the blocks that the last two large requests read, plus 1, the younger first; 0 where
    /// there was no such request.
    pub read_ages: [u8; 2],
}

/// How long a write should stay on the fast tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// On the fast tier until this many further blocks are written; then it may be destaged when room is needed.
    Blocks(u64),
    /// The same, but it is too early to know anything about its group.
    Unknown(u64),
    /// Not on the fast tier: it saves nothing there, or less than it costs.
    PassBy,
}

/// The state of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The group is in use.
    Known,
    /// The group was given up, and some of its blocks may still be followed.
    Leaving,
    /// The group's number may be given to another group.
    Gone,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub state: State,
    pub traits: Traits,
    /// Blocks written lately.
    pub written: f64,
    pub share: Share,
    /// Error diffusion in place of chance: how much is owed to the part that stays long.
    pub owed: f64,
    pub costs: Costs,
}

impl Group {
    /// A group to which nothing was written.
    pub fn new(traits: Traits) -> Self {
        Self { state: State::Known, traits, written: 0.0, share: Share::default(), owed: 0.0, costs: Costs::default() }
    }
}

/// Statistics of a group, for display.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupLook {
    /// The properties that identify the group.
    pub traits: Traits,
    /// Its part of the blocks written lately, from 0 to 1.
    pub written_part: f64,
    /// Number of its living blocks, on both tiers, as estimated from a sample.
    pub living_blocks: u64,
    /// The age by which half of its blocks die, in blocks written by hosts; `None` if it is not known.
    pub median_life_blocks: Option<u64>,
    /// The share of its blocks that dies before they must be destaged, from 0 to 1.
    pub saved_part: f64,
    /// How long its blocks stay on the fast tier.
    pub share: Share,
    /// What its blocks cost the bands since the start.
    pub costs: Costs,
    /// Blocks written to the bands for each of its blocks that reached them; `None` for too few blocks.
    pub write_amplification: Option<f64>,
}
