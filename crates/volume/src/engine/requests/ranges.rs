//! Ranges of blocks being changed: overlapping changes take effect in the order they came.

use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    owner: u32,
}

impl Range {
    fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Exclusive ranges, first come first served. While no range waits, locking and unlocking cost the logarithm of their
/// number.
#[derive(Debug, Default)]
pub struct Ranges {
    /// By their first block; they do not overlap.
    active: BTreeMap<u64, Range>,
    /// First block of each owner's range.
    starts: BTreeMap<u32, u64>,
    waiting: VecDeque<Range>,
}

/// One number for a disk and a block: 16 bits of disk, 48 of block.
fn key(disk: u16, block: u64) -> u64 {
    u64::from(disk) << 48 | block
}

impl Ranges {
    /// Locks the range for `owner`, or queues it behind what overlaps it; true where it was locked at once.
    pub fn lock(&mut self, disk: u16, block: u64, blocks: u64, owner: u32) -> bool {
        let range = Range { start: key(disk, block), end: key(disk, block + blocks), owner };
        if self.is_taken(&range) || self.waiting.iter().any(|other| other.overlaps(&range)) {
            self.waiting.push_back(range);
            return false;
        }
        self.take(range);
        true
    }

    /// Whether a part of the range is locked. Locked ranges do not overlap, so the last one that begins before its end
    /// decides.
    fn is_taken(&self, range: &Range) -> bool {
        self.active.range(..range.end).next_back().is_some_and(|(_, other)| other.overlaps(range))
    }

    fn take(&mut self, range: Range) {
        self.starts.insert(range.owner, range.start);
        self.active.insert(range.start, range);
    }

    /// Releases the range of `owner`. Owners that get their range by this are appended to `woken`.
    pub fn unlock(&mut self, owner: u32, woken: &mut Vec<u32>) {
        let Some(range) = self.starts.remove(&owner).and_then(|start| self.active.remove(&start)) else { return };
        let mut i = 0;
        while i < self.waiting.len() {
            let candidate = self.waiting[i];
            // Candidates that did not wait for this range still wait for another.
            let goes_on = candidate.overlaps(&range)
                && !self.is_taken(&candidate)
                && !self.waiting.iter().take(i).any(|earlier| earlier.overlaps(&candidate));
            if goes_on {
                self.waiting.remove(i);
                self.take(candidate);
                woken.push(candidate.owner);
            } else {
                i += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overlapping_owners_go_in_order_and_strangers_pass() {
        let mut ranges = Ranges::default();
        assert!(ranges.lock(1, 0, 10, 1));
        assert!(!ranges.lock(1, 5, 10, 2));
        assert!(!ranges.lock(1, 12, 10, 3), "waits behind 2, which is waiting itself");
        assert!(ranges.lock(1, 30, 10, 4));
        assert!(ranges.lock(2, 0, 10, 5), "another disk");
        let mut woken = Vec::new();
        ranges.unlock(1, &mut woken);
        assert_eq!(woken, [2]);
        woken.clear();
        ranges.unlock(2, &mut woken);
        assert_eq!(woken, [3]);
    }

    proptest! {
        /// Against a list in the order of arrival: a range is held when nothing before it in the list overlaps it.
        #[test]
        fn behaves_like_a_list(steps in proptest::collection::vec((any::<bool>(), 0u64..40, 1u64..12), 1..80)) {
            let (mut ranges, mut list, mut held) = (Ranges::default(), Vec::<Range>::new(), Vec::<u32>::new());
            for (owner, (locks, start, len)) in (0u32..).zip(steps) {
                let mut woken = Vec::new();
                if locks || held.is_empty() {
                    let taken = ranges.lock(0, start, len, owner);
                    list.push(Range { start, end: start + len, owner });
                    woken.extend(taken.then_some(owner));
                } else {
                    let released = held.remove(start as usize % held.len());
                    ranges.unlock(released, &mut woken);
                    list.retain(|range| range.owner != released);
                }
                held.extend(woken);
                held.sort_unstable();
                let mut expected: Vec<u32> = (0..list.len())
                    .filter(|&i| !list[..i].iter().any(|earlier| earlier.overlaps(&list[i])))
                    .map(|i| list[i].owner)
                    .collect();
                expected.sort_unstable();
                prop_assert_eq!(&held, &expected);
            }
        }
    }
}
