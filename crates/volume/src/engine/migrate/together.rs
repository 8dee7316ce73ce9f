//! Data of classes on the capacity tier that waits on the fast one. These are mostly short writes, each of which would not shrink by itself. They leave once
//! there are enough of them to be compressed together, or once they have waited for long.

use crate::layout::page::LEAF_ENTRIES;
use forebay_block::{ClassId, DiskId};
use forebay_prism::{Place, Prism};
use std::collections::BTreeMap;

/// How long such data waits at most, in nanoseconds, where the capacity tier has room.
const WAITS_MAX_NS: u64 = 30_000_000_000;
/// Most leaves that are known to have such data. In other leaves it leaves with what is staged, as that does.
const LEAVES_MAX: usize = 4096;

/// Whether data of a class only waits on the fast tier.
pub(crate) fn waits(prism: &Prism, class: ClassId) -> bool {
    prism.table().get(class).is_some_and(|spec| spec.place == Place::Capacity)
}

/// A leaf, and how many of its blocks wait.
pub(super) type Waiting = ((DiskId, u64), u32);

/// What waits.
#[derive(Debug)]
pub(crate) struct Together {
    /// Blocks of each leaf that wait and were written since it was looked at.
    leaves: BTreeMap<(DiskId, u64), u32>,
    blocks: u64,
    /// The first leaf of the next job: no leaf waits longer than others because of its place.
    next: (DiskId, u64),
    /// Since when blocks have waited, as far as ticks show.
    since_ns: Option<u64>,
}

impl Default for Together {
    fn default() -> Self {
        Self { leaves: BTreeMap::new(), blocks: 0, next: (DiskId(0), 0), since_ns: None }
    }
}

impl Together {
    /// So many blocks of a leaf begin to wait.
    pub fn add(&mut self, leaf: (DiskId, u64), blocks: u32) {
        if self.leaves.len() < LEAVES_MAX || self.leaves.contains_key(&leaf) {
            let known = self.leaves.entry(leaf).or_default();
            let more = blocks.min(LEAF_ENTRIES as u32 - *known);
            *known += more;
            self.blocks += u64::from(more);
        }
    }

    /// Time passes.
    pub fn tick(&mut self, now_ns: u64) {
        self.since_ns = (self.blocks > 0).then(|| self.since_ns.unwrap_or(now_ns));
    }

    /// Whether at least so many blocks wait, or some have waited for long.
    pub fn is_due(&self, blocks: u64, now_ns: u64) -> bool {
        let is_old = self.since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= WAITS_MAX_NS);
        self.blocks >= blocks || is_old && self.blocks > 0
    }

    /// Takes leaves with so many waiting blocks, in reverse order.
    pub fn take(&mut self, blocks: u64) -> Vec<Waiting> {
        let (mut leaves, mut taken) = (Vec::new(), 0);
        while taken < blocks
            && let Some((&leaf, &more)) =
                self.leaves.range(self.next..).next().or_else(|| self.leaves.first_key_value())
        {
            self.leaves.remove(&leaf);
            self.next = leaf;
            leaves.push((leaf, more));
            taken += u64::from(more);
        }
        self.blocks = self.blocks.saturating_sub(taken);
        self.since_ns = self.since_ns.filter(|_| self.blocks > 0);
        leaves.reverse();
        leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DiskId = DiskId(1);

    #[test]
    fn what_waits_is_due_when_there_is_enough_or_when_it_is_old() {
        let mut together = Together::default();
        together.tick(5);
        assert!(!together.is_due(64, u64::MAX), "nothing waits");
        together.add((DISK, 3), 40);
        together.add((DISK, 9), 23);
        assert!(!together.is_due(64, 0), "63 blocks");
        together.tick(1000);
        together.tick(2000);
        assert!(!together.is_due(64, 999 + WAITS_MAX_NS) && together.is_due(64, 1000 + WAITS_MAX_NS));
        together.add((DISK, 3), 1);
        assert!(together.is_due(64, 0));
        assert_eq!(together.take(1), [((DISK, 3), 41)]);
        together.add((DISK, 4), 0);
        together.add((DISK, 1), 7);
        assert_eq!(
            together.take(24),
            [((DISK, 1), 7), ((DISK, 9), 23), ((DISK, 4), 0)],
            "from where the one before ended"
        );
        together.tick(3000);
        assert!(!together.is_due(1, u64::MAX), "all was taken");
    }

    #[test]
    fn no_more_is_known_than_there_is_room_for() {
        let mut together = Together::default();
        (0..2 * LEAVES_MAX as u64).for_each(|leaf| together.add((DISK, leaf), 1000));
        assert_eq!((together.leaves.len(), together.blocks), (LEAVES_MAX, (LEAVES_MAX * LEAF_ENTRIES) as u64));
        assert_eq!(together.take(u64::MAX).len(), LEAVES_MAX);
        assert_eq!(together.blocks, 0);
    }
}
