//! Fetching ahead what is looked at next.

use super::sampling::address;
use super::slots::{NEIGHBOURS, Slot, Slots};

/// Groups of neighbours whose entries and blocks are fetched at a time, and how many of one request.
const FETCHED_MAX: usize = 128;
const FETCHED_OF_REQUEST_MAX: usize = 4;
/// Blocks of which nothing is to be fetched: the processor has them at hand.
pub const NEAR_BLOCKS: usize = 4096;

/// The blocks that the next requests ask for, fetched before the first of them is looked at: so the processor waits for all of them
/// at once. Each request alone would have it wait for an entry, then for a block, then for its places in the stacks.
#[derive(Default)]
pub struct Fetching {
    groups: Vec<u64>,
    /// Of each group the first and the last block that a request is of, and whether it writes.
    ends: Vec<(u64, u64, bool)>,
    entries: Vec<usize>,
    /// The numbers that they lead to, and whether it is for a write.
    slots: Vec<(Slot, bool)>,
}

impl Fetching {
    /// Fetches entries of the first of these requests, given by volume, first block, number of blocks, and whether they write; the
    /// numbers that they lead to.
    pub fn entries(&mut self, slots: &Slots, requests: impl Iterator<Item = (u32, u64, u64, bool)>) -> &[(Slot, bool)] {
        self.groups.clear();
        self.ends.clear();
        for (volume, first, count, is_write) in requests {
            let begin = address(volume, first);
            let last = begin + count.saturating_sub(1);
            for group in (begin / NEIGHBOURS..=last / NEIGHBOURS).take(FETCHED_OF_REQUEST_MAX) {
                let (low, high) = (begin.max(group * NEIGHBOURS), last.min(group * NEIGHBOURS + (NEIGHBOURS - 1)));
                self.groups.push(group);
                self.ends.push((low, high, is_write));
            }
            if self.groups.len() >= FETCHED_MAX {
                break;
            }
        }
        slots.fetch_keys(&self.groups, &mut self.entries);
        slots.fetch_groups(&self.groups, &mut self.entries);
        self.slots.clear();
        for (&entry, &(low, high, is_write)) in self.entries.iter().zip(&self.ends) {
            let (first, last) = slots.ends_of(entry, low, high);
            self.slots.push((first, is_write));
            if first != last {
                self.slots.push((last, is_write));
            }
        }
        &self.slots
    }
}
