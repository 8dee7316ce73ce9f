//! Which group each block belongs to, for a sample of all living blocks: collection also moves blocks that were
//! written long ago, and this table shows what each group costs the bands.

use super::costs::Costs;
use super::group::{Group, State};
use super::sample::hash;
use std::collections::BTreeMap;
use std::ops::Range;

/// Memory of a block whose group is known, in bytes: key and value in a B-tree whose nodes are two thirds full.
const BYTES_PER_BLOCK: u64 = 40;
/// This table uses one part in this many, in addition to the memory budget.
const MEMORY_PART: u64 = 16;

/// Memory of this table besides a budget, in bytes.
pub(super) fn memory_bytes(budget_bytes: u64) -> u64 {
    budget_bytes / MEMORY_PART
}

/// The groups of a sample of blocks, which is chosen by address and has a bounded size, and the costs of blocks
/// without a group.
#[derive(Clone, Debug)]
pub(super) struct Owners {
    groups: BTreeMap<(u16, u64), u16>,
    blocks_max: usize,
    /// Blocks whose hash ends in at least this many zeros are in the sample.
    zeros: u32,
    pub costs_of_others: Costs,
}

/// Whether a sample of blocks whose hashes end in `zeros` zeros contains this block.
fn has(zeros: u32, disk: u16, block: u64) -> bool {
    hash(disk, block).trailing_zeros() >= zeros
}

impl Owners {
    /// An empty table in addition to a memory budget.
    pub fn new(budget_bytes: u64) -> Self {
        let blocks_max = (memory_bytes(budget_bytes) / BYTES_PER_BLOCK).max(16) as usize;
        Self { groups: BTreeMap::new(), blocks_max, zeros: 0, costs_of_others: Costs::default() }
    }

    /// One in this many blocks is in the sample.
    pub fn one_of(&self) -> u64 {
        1 << self.zeros
    }

    /// These blocks now belong to a group, or to none. Allocates for one in [`Self::one_of`] blocks.
    pub fn written(&mut self, disk: u16, blocks: Range<u64>, group: Option<u16>) {
        for block in blocks {
            if has(self.zeros, disk, block) {
                match group {
                    Some(group) => self.groups.insert((disk, block), group),
                    None => self.groups.remove(&(disk, block)),
                };
            }
        }
        while self.groups.len() > self.blocks_max {
            self.zeros += 1;
            self.groups.retain(|&(disk, block), _| has(self.zeros, disk, block));
        }
    }

    /// A block reached a band, or collection moved it: counts it for its group.
    pub fn count(&mut self, disk: u16, block: u64, is_collection: bool, groups: &mut [Group]) {
        if has(self.zeros, disk, block) {
            let number = self.groups.get(&(disk, block)).map(|&number| usize::from(number));
            let group = number.and_then(|number| groups.get_mut(number));
            let one_of = self.one_of();
            group.map_or(&mut self.costs_of_others, |group| &mut group.costs).count(one_of, is_collection);
        }
    }

    /// Forgets the owners of blocks whose groups are given up, since their numbers will be reused. Their costs count
    /// as those of blocks without a group from now on.
    pub fn give_up(&mut self, groups: &mut [Group]) {
        for group in groups.iter_mut().filter(|group| group.state == State::Leaving) {
            let costs = std::mem::take(&mut group.costs);
            self.costs_of_others.count(costs.came_blocks, false);
            self.costs_of_others.count(costs.collected_blocks, true);
        }
        self.groups
            .retain(|_, number| groups.get(usize::from(*number)).is_some_and(|group| group.state != State::Leaving));
    }
}
