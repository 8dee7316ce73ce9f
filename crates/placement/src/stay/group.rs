//! A group of writes: what it is known by, what was decided of it, and what is shown of it.

use super::costs::Costs;
use super::regions::History;
use super::share::Share;

/// What a group is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Traits {
    /// The class, by its number.
    pub class: u8,
    /// The host's hint of how long it lives, by its number.
    pub hint: u8,
    /// What the region says that is written to.
    pub history: History,
    /// Octaves of the ages of what was read last in two large requests, from 1, the younger first; 0: nothing was.
    pub read_ages: [u8; 2],
}

/// How long a write is to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// On the fast tier, for as long as so many blocks are written; then it may go, where room is needed.
    Blocks(u64),
    /// The same, but it is too early to know anything.
    Unknown(u64),
    /// It saves nothing there, or less than it costs.
    PassBy,
}

/// Whether a group is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is.
    Known,
    /// It was given up, and some of its blocks may still be followed.
    Leaving,
    /// Its number may be another group's.
    Gone,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub state: State,
    pub traits: Traits,
    /// Blocks written lately.
    pub written: f64,
    pub share: Share,
    /// Error diffusion instead of chance: what the part that stays long is owed.
    pub owed: f64,
    pub costs: Costs,
}

impl Group {
    /// One that nothing was written to.
    pub fn new(traits: Traits) -> Self {
        Self { state: State::Known, traits, written: 0.0, share: Share::default(), owed: 0.0, costs: Costs::default() }
    }
}

/// What is known of a group, for who looks at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupLook {
    /// What it is known by.
    pub traits: Traits,
    /// Its part of what was written lately.
    pub written_part: f64,
    /// Blocks that live, on both tiers, as far as a sample says.
    pub living_blocks: u64,
    /// Half of its blocks die by this age, in blocks written by hosts.
    pub median_life_blocks: Option<u64>,
    /// The share that dies before it has to go.
    pub saved_part: f64,
    /// How long it stays.
    pub share: Share,
    /// What its blocks cost the bands since the start.
    pub costs: Costs,
    /// Blocks written to the bands for each of its blocks that came there; `None` where hardly any did.
    pub write_amplification: Option<f64>,
}
