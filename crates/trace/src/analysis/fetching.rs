//! Prefetches the entries and blocks that are needed next.

use super::sampling::address;
use super::slots::{NEIGHBOURS, Slot, Slots};

/// Most groups of neighbours that are prefetched at a time, and most of one request.
const FETCHED_MAX: usize = 128;
const FETCHED_OF_REQUEST_MAX: usize = 4;
/// With fewer blocks than this, nothing is prefetched: they fit into the processor's cache.
pub const NEAR_BLOCKS: usize = 4096;

/// Prefetches the blocks of the next requests before the first of them is handled, so that the cache misses overlap. Otherwise each request
/// would wait for an entry, then for a block, then for its places in the stacks.
#[derive(Default)]
pub struct Fetching {
    groups: Vec<u64>,
    /// For each group, the first and last block of a request, and whether the request writes.
    ends: Vec<(u64, u64, bool)>,
    entries: Vec<usize>,
    /// The numbers found in the entries, and whether the request writes.
    slots: Vec<(Slot, bool)>,
}

impl Fetching {
    /// Prefetches the entries of the first of these requests, given by volume, first block, number of blocks, and whether they write;
    /// returns the numbers found.
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
