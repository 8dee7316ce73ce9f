//! A round: from switching on to the end of power.

use super::member::{Beyond, MemberRound};
use super::step::Step;
use crate::device::AfterDiscard;
use crate::fault::{Fault, FaultKind};
use crate::order::Hold;

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The power fails after the devices have carried out so many requests more.
    PowerCut {
        /// Requests after the last step was submitted.
        effects: u32,
    },
    /// A clean stop.
    Stop,
    /// Everything is flushed, nobody asks for anything for some seconds, and then the power fails.
    Rest,
    /// The power fails within a clean stop.
    PowerCutInStop {
        /// Requests after it was asked for.
        effects: u32,
    },
}

/// Sectors of hosts' blocks that are damaged at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wound {
    /// Device, from 0: the fast one.
    pub device: usize,
    /// How: [`FaultKind::Rot`] or [`FaultKind::DeadSector`].
    pub kind: FaultKind,
    /// How many.
    pub count: usize,
}

/// From switching on to the end of power.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// For the devices' own choices.
    pub seed: u64,
    /// Power cuts within recovery, before the one that succeeds: each after so many requests.
    pub recovery_cuts: Vec<u32>,
    /// Least and most nanoseconds that a request takes, of the fast and of the capacity devices.
    pub timing_ns: [(u64, u64); 2],
    /// Chance in 256 of a cached sector to survive.
    pub keep: u64,
    /// What discarded ranges read as.
    pub after_discard: AfterDiscard,
    /// What goes wrong while the pool is opened; where that fails it is opened again without.
    pub opening_faults: Vec<Fault>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Requests in flight at most.
    pub depth: usize,
    /// What happens.
    pub steps: Vec<Step>,
    /// How it ends.
    pub end: End,
    /// Requests that devices hold back.
    pub holds: Vec<Hold>,
    /// Connections that requests come over.
    pub connections: u8,
    /// What is damaged afterwards, without power.
    pub wounds: Vec<Wound>,
    /// A bit rots afterwards, without power.
    pub rots: bool,
    /// What is left is verified offline.
    pub verify: bool,
    /// What members of a mirrored fast tier, or of a capacity tier with parity, do: each of those that may do wrong.
    pub members: Vec<MemberRound>,
    /// What goes beyond that.
    pub beyond: Option<Beyond>,
    /// The server crashes where otherwise the power fails: devices keep their power, and what their caches hold.
    pub stays_on: bool,
}

impl Round {
    /// Whether devices lie.
    #[must_use]
    pub fn is_silently_faulty(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind.is_silent())
    }

    /// Whether devices lie so that nothing which follows can be judged: more than one lie, or one after which a lost
    /// write is no different from one that was never flushed.
    #[must_use]
    pub fn is_beyond_judgement(&self) -> bool {
        self.is_silently_faulty() && self.end != End::Rest
    }
}

impl Default for End {
    fn default() -> Self {
        Self::PowerCut { effects: 0 }
    }
}
