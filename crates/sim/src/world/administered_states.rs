//! What the administered disk, and those that had its name before, were made, and the jobs that change it.

use crate::oracle::{Made, Oracle};
use crate::scenario::ADMINISTERED_RANGES;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Name of the administered disk.
pub const ADMINISTERED: &str = "three";

/// A disk as a root may have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its number.
    pub id: u16,
    /// Its size in blocks.
    pub blocks: u64,
    /// Its removal has begun: it has the name no more, and what is left of it is nobody's.
    pub is_leaving: bool,
    /// Blocks of the base that it lies over; 0: none.
    pub base_blocks: u64,
}

/// What the disks were made.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// A checkpoint with at least this number holds it.
    pub number: u64,
    /// The disks.
    pub disks: Vec<Known>,
    /// What became zeros with it, as it lay beyond a new end.
    pub cut: Made,
}

/// What is known of these disks.
#[derive(Debug, Default)]
pub struct AdministeredDisk {
    /// From the one that is durable for sure to the newest.
    pub states: VecDeque<State>,
    /// Disks that were served, or will be found: what they hold is known.
    pub begun: BTreeSet<u16>,
    /// There was a disk of the name before.
    pub is_used_name: bool,
}

/// Blocks of one disk that are written.
pub fn places() -> impl Iterator<Item = u64> {
    ADMINISTERED_RANGES.into_iter().flatten()
}

/// Zeros in those of the blocks that are ever written.
pub fn zeros(oracle: &mut Oracle, disk: u16, blocks: Range<u64>) -> Made {
    let zeros = |block| oracle.change(disk, block * 8, &[0; 8]);
    places().filter(|block| blocks.contains(block)).flat_map(zeros).collect()
}

impl AdministeredDisk {
    /// Nothing, durably.
    pub fn new() -> Self {
        Self { states: VecDeque::from([State::default()]), ..Self::default() }
    }

    /// The newest.
    pub fn newest(&self) -> &[Known] {
        self.states.back().map_or(&[], |state| &state.disks)
    }

    /// Whether a change is not known to be durable.
    pub fn is_open(&self) -> bool {
        self.states.len() > 1
    }

    /// Whether this is one of these disks.
    pub fn has(&self, disk: u16) -> bool {
        self.newest().iter().any(|known| known.id == disk)
    }
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// That the disk is being removed is to be durable.
    Leaves { number: u64 },
    /// All of the disk is being discarded.
    Discard { token: u64 },
    /// The disk is empty when a checkpoint has let go of its map.
    Remove,
    /// The leaf in which a disk is to end is being read.
    Shrink { token: u64, old: u64, blocks: u64, tries: u32, back: u64 },
    /// It has become smaller, and is to be larger again as soon as a checkpoint is in progress.
    Back { blocks: u64 },
}

/// A job.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The disk's number.
    pub disk: u16,
    /// Where the job stands.
    pub stage: Stage,
    /// When the job is given up.
    pub deadline_ns: u64,
    /// Nobody looks at it before that.
    pub rests_until_ns: u64,
}
