//! Ranges of blocks being changed: overlapping changes take effect in the order they came.

use std::collections::VecDeque;

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

/// Exclusive ranges, first come first served.
#[derive(Debug, Default)]
pub struct Ranges {
    active: Vec<Range>,
    waiting: VecDeque<Range>,
}

/// One number for a disk and a block: 16 bits of disk, 48 of block.
fn key(disk: u16, block: u64) -> u64 {
    u64::from(disk) << 48 | block
}

impl Ranges {
    /// Takes the range for `owner`, or queues it behind what overlaps; true where it was taken at once.
    pub fn lock(&mut self, disk: u16, block: u64, blocks: u64, owner: u32) -> bool {
        let range = Range { start: key(disk, block), end: key(disk, block + blocks), owner };
        if self.active.iter().chain(&self.waiting).any(|other| other.overlaps(&range)) {
            self.waiting.push_back(range);
            return false;
        }
        self.active.push(range);
        true
    }

    /// Gives up the range of `owner`; the owners whose turn has come are appended to `woken`.
    pub fn unlock(&mut self, owner: u32, woken: &mut Vec<u32>) {
        if let Some(at) = self.active.iter().position(|range| range.owner == owner) {
            self.active.swap_remove(at);
        }
        let mut i = 0;
        while i < self.waiting.len() {
            let candidate = self.waiting[i];
            let blocked = self.active.iter().any(|range| range.overlaps(&candidate))
                || self.waiting.iter().take(i).any(|range| range.overlaps(&candidate));
            if blocked {
                i += 1;
            } else {
                self.waiting.remove(i);
                self.active.push(candidate);
                woken.push(candidate.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
