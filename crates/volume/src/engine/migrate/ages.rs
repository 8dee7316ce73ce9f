//! Leaves that hold blocks to be destaged, by when the first of these is due: blocks that are due first leave the fast tier first.
//!
//! Time is counted in epochs: [`EPOCHS`] of them to as many written blocks as the fast tier has slots. A leaf takes one byte: its epoch, counted from that of
//! the index page to which it belongs. The pages are sorted, leaves within one are not.

use crate::engine::map::Map;
use crate::engine::space::Space;
use crate::engine::statistics::Statistics;
use crate::layout::page::INDEX_ENTRIES;
use forebay_block::DiskId;
use std::collections::{BTreeMap, BTreeSet};

/// Epochs in a fast tier's worth of writes.
const EPOCHS: u64 = 32;
/// Stands for a leaf that is not in the queue.
const ABSENT: u8 = u8::MAX;
/// Most by which a leaf may be newer than its page's base, in epochs.
const NEWER_MAX: u32 = ABSENT as u32 - 1;
/// Memory for the leaves of one index page and for the tables that lead to them, in bytes.
pub(crate) const BYTES_PER_PAGE: u64 = size_of::<PageAges>() as u64 + 112;

/// The pool's time, in epochs: it goes by what hosts write, and survives restarts because the statistics do.
pub(crate) fn epoch_of(stats: &Statistics, space: &Space) -> u32 {
    epoch_at(stats.written_blocks(), epoch_blocks(space))
}

/// Epochs in so many blocks. Only a forged root has more than half of what the type holds; with this limit, what is due later has room in it as well.
fn epoch_at(written_blocks: u64, epoch_blocks: u64) -> u32 {
    (written_blocks / epoch_blocks).min(u64::from(u32::MAX / 2)) as u32
}

/// Blocks that hosts write in an epoch.
pub(crate) fn epoch_blocks(space: &Space) -> u64 {
    (space.slots.total() / EPOCHS).max(1)
}

/// Most epochs that a block stays: a clock cannot tell more than 255 of them apart, and blocks that were due long ago
/// lie beside new ones.
pub(crate) const STAY_MAX_EPOCHS: u64 = 6 * EPOCHS;
/// Epochs from now on to the end of the queue: nothing is due later.
pub(crate) const END_EPOCHS: u32 = STAY_MAX_EPOCHS as u32 + 1;

/// The leaves of one index page.
#[derive(Debug)]
struct PageAges {
    base: u32,
    newer: [u8; INDEX_ENTRIES],
}

impl PageAges {
    /// The oldest epoch and its leaf's place in the page.
    fn oldest(&self) -> Option<(u32, usize)> {
        let newer = *self.newer.iter().min()?;
        let at = self.newer.iter().position(|&other| other == newer)?;
        (newer != ABSENT).then_some((self.base + u32::from(newer), at))
    }

    /// Moves the base; leaves older than it count as old as it.
    fn set_base(&mut self, base: u32) {
        for newer in self.newer.iter_mut().filter(|newer| **newer != ABSENT) {
            *newer = (self.base + u32::from(*newer)).saturating_sub(base).min(NEWER_MAX) as u8;
        }
        self.base = base;
    }

    fn put(&mut self, at: usize, epoch: u32) {
        self.newer[at] = ABSENT;
        let newest = self.newer.iter().filter(|&&newer| newer != ABSENT).max();
        let newest = newest.map_or(epoch, |&newer| epoch.max(self.base + u32::from(newer)));
        // Where a page's leaves are further apart than a byte can tell, the oldest look newer than they are, never the
        // reverse: a leaf that comes first has blocks of its epoch or older ones.
        let base = self.base.min(epoch).max(newest.saturating_sub(NEWER_MAX));
        if base != self.base {
            self.set_base(base);
        }
        self.newer[at] = epoch.saturating_sub(base) as u8;
    }
}

/// The queue. A leaf is in it once at most.
#[derive(Debug, Default)]
pub(crate) struct AgeQueue {
    /// By disk and page: looked up with every write that is staged.
    pages: BTreeMap<u16, Vec<Option<Box<PageAges>>>>,
    /// Every page with leaves in the queue, by the epoch of its oldest leaf.
    by_epoch: BTreeSet<(u32, u16, usize)>,
}

/// Index page of a leaf, and the leaf's place there.
fn split(leaf: u64) -> (usize, usize) {
    ((leaf / INDEX_ENTRIES as u64) as usize, (leaf % INDEX_ENTRIES as u64) as usize)
}

impl AgeQueue {
    /// Queues a leaf under the epoch in which its first block is due, unless it is queued under an earlier one.
    pub fn push(&mut self, epoch: u32, disk: DiskId, leaf: u64) {
        let (number, at) = split(leaf);
        let pages = self.pages.entry(disk.0).or_default();
        if pages.len() <= number {
            pages.resize_with(number + 1, || None);
        }
        let page =
            pages[number].get_or_insert_with(|| Box::new(PageAges { base: epoch, newer: [ABSENT; INDEX_ENTRIES] }));
        if page.newer[at] != ABSENT && page.base + u32::from(page.newer[at]) <= epoch {
            return;
        }
        let before = page.oldest();
        page.put(at, epoch);
        let after = page.oldest();
        if before.map(|(epoch, _)| epoch) != after.map(|(epoch, _)| epoch) {
            before.map(|(epoch, _)| self.by_epoch.remove(&(epoch, disk.0, number)));
            after.map(|(epoch, _)| self.by_epoch.insert((epoch, disk.0, number)));
        }
    }

    /// A leaf of the oldest epoch; it stays in the queue.
    pub fn first(&self) -> Option<(u32, DiskId, u64)> {
        let &(epoch, disk, number) = self.by_epoch.first()?;
        let (_, at) = self.pages.get(&disk)?.get(number)?.as_ref()?.oldest()?;
        Some((epoch, DiskId(disk), (number * INDEX_ENTRIES + at) as u64))
    }

    /// Takes the leaf that [`AgeQueue::first`] returns out of the queue.
    pub fn pop_first(&mut self) -> Option<(u32, DiskId, u64)> {
        let first = self.first()?;
        let (epoch, disk, number) = self.by_epoch.pop_first()?;
        let place = self.pages.get_mut(&disk)?.get_mut(number)?;
        let page = place.as_mut()?;
        debug_assert_eq!(page.oldest().map(|(oldest, _)| oldest), Some(epoch));
        page.newer[split(first.2).1] = ABSENT;
        match page.oldest() {
            Some((oldest, _)) => {
                self.by_epoch.insert((oldest, disk, number));
            }
            None => *place = None,
        }
        Some(first)
    }

    /// Queues a leaf under an epoch in which a block of it is due, if it has blocks to be destaged.
    pub fn enqueue(&mut self, epoch: u32, disk: DiskId, leaf: u64, map: &Map) {
        if map.disk(disk).is_some_and(|entry| entry.leaf(leaf).0.stageable > 0) {
            self.push(epoch, disk, leaf);
        }
    }

    /// The same for a leaf of which it is not known when a block is due, unless it is in the queue.
    pub fn enqueue_unknown(&mut self, epoch: u32, disk: DiskId, leaf: u64, map: &Map) {
        if !self.contains(disk, leaf) {
            self.enqueue(epoch, disk, leaf, map);
        }
    }

    /// Whether a leaf is in the queue.
    pub fn contains(&self, disk: DiskId, leaf: u64) -> bool {
        let (number, at) = split(leaf);
        let page = self.pages.get(&disk.0).and_then(|pages| pages.get(number)).and_then(Option::as_ref);
        page.is_some_and(|page| page.newer[at] != ABSENT)
    }

    /// Queues all leaves that hold something to destage, as the index says. When that is due shows when they are read.
    pub fn enqueue_all(&mut self, map: &Map) {
        for disk in map.disks.values() {
            let mut next = disk.next_stageable(0);
            while let Some(leaf) = next {
                self.push(0, disk.id, leaf);
                next = disk.next_stageable(leaf + 1);
            }
        }
    }

    /// Whether no leaf is in the queue.
    pub fn is_empty(&self) -> bool {
        self.by_epoch.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By a forged root hosts had written more than there is time for: the epoch of what is due later overflowed.
    #[test]
    fn regression_what_is_due_behind_the_end_of_time_has_a_place() {
        let mut queue = AgeQueue::default();
        let now = epoch_at(u64::MAX, 1);
        queue.push(now + END_EPOCHS, DiskId(1), 0);
        queue.push(now, DiskId(1), 1);
        assert_eq!(queue.pop_first(), Some((now, DiskId(1), 1)));
        assert_eq!(queue.pop_first(), Some((now + END_EPOCHS, DiskId(1), 0)));
    }

    fn drain(queue: &mut AgeQueue) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| queue.pop_first()).map(|(epoch, _, leaf)| (epoch, leaf)).collect()
    }

    #[test]
    fn the_oldest_epoch_comes_first() {
        let mut queue = AgeQueue::default();
        for (epoch, leaf) in [(5, 50), (3, 30), (5, 51), (9, 1 << 20), (4, 30), (8, 51)] {
            queue.push(epoch, DiskId(7), leaf);
        }
        assert_eq!(queue.first(), Some((3, DiskId(7), 30)));
        assert_eq!(drain(&mut queue), [(3, 30), (5, 50), (5, 51), (9, 1 << 20)]);
        assert!(queue.is_empty());
    }

    #[test]
    fn leaves_of_a_page_that_are_ages_apart_look_newer_never_older() {
        let mut queue = AgeQueue::default();
        for (epoch, leaf) in [(0, 1), (10, 2), (1000, 3), (900, 4)] {
            queue.push(epoch, DiskId(1), leaf);
        }
        assert_eq!(drain(&mut queue), [(746, 1), (746, 2), (900, 4), (1000, 3)]);
    }

    proptest! {
        /// Against a sorted list, with epochs no further apart than a byte can tell.
        #[test]
        fn it_is_a_queue_by_age(steps in prop::collection::vec((0_u32..250, 0_u64..600, any::<bool>()), 1..300)) {
            let (mut queue, mut model) = (AgeQueue::default(), BTreeMap::new());
            for (epoch, leaf, push) in steps {
                if push {
                    queue.push(epoch, DiskId(1), leaf);
                    model.entry(leaf).and_modify(|known: &mut u32| *known = epoch.min(*known)).or_insert(epoch);
                } else if let Some((epoch, _, leaf)) = queue.pop_first() {
                    prop_assert_eq!(model.values().min(), Some(&epoch));
                    prop_assert_eq!(model.remove(&leaf), Some(epoch));
                } else {
                    prop_assert!(model.is_empty());
                }
            }
            prop_assert_eq!(queue.is_empty(), model.is_empty());
        }
    }
}
