//! What is remembered of each block: when it was accessed, who wrote it, whether it lives.

use super::distances::Distances;
use super::groups::GROUPS;
use super::sampling::{Sample, address};
use super::stack::{LIVE_MAX, Place, Stack};
use crate::hash::Seed;
use std::collections::HashMap;

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;
/// Blocks of a volume that can be distinguished: 64 PiB.
pub const VOLUME_BLOCKS: u64 = 1 << 44;
/// Memory of a block that is followed, in bytes, about: its entry at the table's worst load, and its marks.
pub const FOLLOWED_BYTES: u64 = 112;
/// Not in the stack of writes.
const NOWHERE: Place = Place::MAX;

/// By address.
type Table = HashMap<u64, Block, Seed>;

#[derive(Clone, Copy, Debug)]
struct Block {
    accessed: Place,
    /// Where it is among the blocks written and not discarded since.
    written: Place,
    /// When it was last read; valid where it was.
    read_at: u64,
    /// When it was last written; valid where it was.
    written_at: u64,
    /// Bytes that the trace had written when it was written.
    clock_bytes: u64,
    row: u16,
    was_read: bool,
}

impl Block {
    /// What was known of it before an access.
    fn seen(&self) -> Seen {
        let is_written = self.written != NOWHERE;
        Seen {
            read_at: self.was_read.then_some(self.read_at),
            written_at: is_written.then_some(self.written_at),
            writer: is_written.then_some(self.row),
            since_write: None,
        }
    }
}

/// What an access to a followed block was, for those who keep statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// When it was read before.
    pub read_at: Option<u64>,
    /// When it was written before.
    pub written_at: Option<u64>,
    /// Row that last wrote it, where it lives.
    pub writer: Option<u16>,
    /// What a write or a discard ends: the row, time and bytes written since its write.
    pub since_write: Option<(u16, u64, u64)>,
}

impl Seen {
    /// When it was accessed before. Time does not go back: the later of the two was the last.
    pub fn accessed_at(&self) -> Option<u64> {
        self.read_at.max(self.written_at)
    }
}

/// The blocks of a trace.
#[derive(Default)]
pub struct Blocks {
    table: Table,
    sample: Sample,
    limit: usize,
    accessed: Stack,
    written: Stack,
    /// Live blocks of each row.
    live: Vec<u64>,
    peak_bytes: Vec<u64>,
    peak_all_bytes: u64,
    peak_accessed_bytes: u64,
    /// Of all accesses, of the reads among them, and of writes among writes.
    pub all: Distances,
    /// The reads among them.
    pub reads: Distances,
    /// Writes, by the blocks written since.
    pub writes: Distances,
}

impl Blocks {
    /// Follows at most so many blocks, of them one in 2^`halvings` from the first on.
    pub fn new(limit: usize, halvings: u32) -> Self {
        let limit = limit.clamp(1024, LIVE_MAX);
        let mut blocks = Self { limit, sample: Sample::one_in_power(halvings), ..Self::default() };
        if halvings > 0 {
            blocks.start_sampling();
        }
        blocks
    }

    /// Blocks that each followed one stands for; 1: all are followed.
    pub fn weight(&self) -> u64 {
        self.sample.weight()
    }

    /// Most bytes that a row occupied at a time.
    pub fn peak_bytes(&self, row: u16) -> u64 {
        self.peak_bytes.get(usize::from(row)).copied().unwrap_or(0)
    }

    /// Most bytes written and not discarded at a time.
    pub fn peak_all_bytes(&self) -> u64 {
        self.peak_all_bytes
    }

    /// Most bytes known to have been accessed, and not discarded.
    pub fn peak_accessed_bytes(&self) -> u64 {
        self.peak_accessed_bytes
    }

    /// Reads, or accesses of unknown kind, of `count` blocks from `first`; tells of each that is followed. Returns how many
    /// blocks the first one stands for, where it is followed. Times never go back.
    pub fn read(
        &mut self,
        volume: u32,
        first: u64,
        count: u64,
        now: u64,
        is_read: bool,
        mut tell: impl FnMut(Seen, u64),
    ) -> Option<u64> {
        let mut first_weight = None;
        self.all.count(count);
        if is_read {
            self.reads.count(count);
        }
        let sample = self.sample;
        sample.each(volume, first, count, |key| {
            if !self.sample.keeps(key, sample) {
                return;
            }
            let (seen, distance) = self.touch(key);
            let weight = self.sample.weight();
            if let Some(block) = self.table.get_mut(&key) {
                (block.read_at, block.was_read) = (now, true);
            }
            if key == address(volume, first) {
                first_weight = Some(weight);
            }
            if is_read {
                note(&mut self.reads, distance, weight, self.sample.group(key, GROUPS));
            }
            tell(seen, weight);
            self.keep_within_limit();
        });
        first_weight
    }

    /// Writes of `count` blocks from `first` by a row, when the trace had written `clock_bytes`; tells of each that is
    /// followed.
    pub fn write(
        &mut self,
        volume: u32,
        first: u64,
        count: u64,
        at: (u64, u64),
        row: u16,
        mut tell: impl FnMut(Seen, u64),
    ) {
        let (now, clock_bytes) = at;
        self.all.count(count);
        self.writes.count(count);
        let places = usize::from(row) + 1;
        if self.live.len() < places {
            self.live.resize(places, 0);
            self.peak_bytes.resize(places, 0);
        }
        let sample = self.sample;
        sample.each(volume, first, count, |key| {
            if !self.sample.keeps(key, sample) {
                return;
            }
            let (mut seen, _) = self.touch(key);
            let weight = self.sample.weight();
            if self.written.is_full() {
                self.written
                    .pack(self.table.values_mut().map(|block| &mut block.written).filter(|place| **place != NOWHERE));
            }
            let Some(block) = self.table.get_mut(&key) else { return };
            let distance = (block.written != NOWHERE).then(|| self.written.above(block.written));
            note(&mut self.writes, distance, weight, self.sample.group(key, GROUPS));
            block.written = if block.written == NOWHERE {
                self.written.push()
            } else {
                self.live[usize::from(block.row)] -= 1;
                seen.since_write =
                    Some((block.row, now.saturating_sub(block.written_at), clock_bytes - block.clock_bytes));
                self.written.raise(block.written)
            };
            (block.written_at, block.clock_bytes, block.row) = (now, clock_bytes, row);
            let live = &mut self.live[usize::from(row)];
            *live += 1;
            let peak = &mut self.peak_bytes[usize::from(row)];
            *peak = (*peak).max(bytes_of(*live, weight));
            self.peak_all_bytes = self.peak_all_bytes.max(bytes_of(self.written.live() as u64, weight));
            tell(seen, weight);
            self.keep_within_limit();
        });
    }

    /// `count` blocks from `first` are no longer needed, when the trace had written `clock_bytes`; tells of each followed
    /// one that lived.
    pub fn discard(&mut self, volume: u32, first: u64, count: u64, at: (u64, u64), mut tell: impl FnMut(Seen, u64)) {
        let (now, clock_bytes) = at;
        let keys = self.sample.among(volume, first, count, self.table.keys().copied());
        let weight = self.sample.weight();
        for key in keys {
            let Some(block) = self.table.remove(&key) else { continue };
            self.accessed.remove(block.accessed);
            let mut seen = block.seen();
            if block.written != NOWHERE {
                // What is discarded while it is staged never gets to the capacity tier. The gap that it leaves counts as it
                // did, so it is all the same in which order the blocks of a discard go.
                self.writes.discarded(self.written.above(block.written), weight, self.sample.group(key, GROUPS));
                self.written.remove(block.written);
                self.live[usize::from(block.row)] -= 1;
                seen.since_write =
                    Some((block.row, now.saturating_sub(block.written_at), clock_bytes - block.clock_bytes));
            }
            tell(seen, weight);
        }
    }

    /// Puts a block on top of the stack of accesses; what it was before, and how many others were accessed since.
    fn touch(&mut self, key: u64) -> (Seen, Option<usize>) {
        if self.accessed.is_full() {
            self.accessed.pack(self.table.values_mut().map(|block| &mut block.accessed));
        }
        let weight = self.sample.weight();
        match self.table.entry(key) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(Block {
                    accessed: self.accessed.push(),
                    written: NOWHERE,
                    read_at: 0,
                    written_at: 0,
                    clock_bytes: 0,
                    row: 0,
                    was_read: false,
                });
                note(&mut self.all, None, weight, self.sample.group(key, GROUPS));
                let bytes = bytes_of(self.accessed.live() as u64, weight);
                self.peak_accessed_bytes = self.peak_accessed_bytes.max(bytes);
                (Seen::default(), None)
            }
            std::collections::hash_map::Entry::Occupied(mut entry) => {
                let block = entry.get_mut();
                let distance = self.accessed.above(block.accessed);
                let seen = block.seen();
                block.accessed = self.accessed.raise(block.accessed);
                note(&mut self.all, Some(distance), weight, self.sample.group(key, GROUPS));
                (seen, Some(distance))
            }
        }
    }

    fn keep_within_limit(&mut self) {
        while self.table.len() > self.limit {
            self.start_sampling();
            self.sample.halve();
            let sample = self.sample;
            let (accessed, written, live) = (&mut self.accessed, &mut self.written, &mut self.live);
            self.table.retain(|&key, block| {
                let stays = sample.has(key);
                if !stays {
                    accessed.forget(block.accessed);
                    if block.written != NOWHERE {
                        written.forget(block.written);
                        live[usize::from(block.row)] -= 1;
                    }
                }
                stays
            });
            [accessed, written].into_iter().for_each(Stack::forget_half_of_gaps);
        }
    }

    fn start_sampling(&mut self) {
        [&mut self.all, &mut self.reads, &mut self.writes].into_iter().for_each(Distances::sample);
    }
}

/// Bytes that blocks of a sample stand for; a trace may have chosen blocks that are followed to the last.
fn bytes_of(blocks: u64, weight: u64) -> u64 {
    blocks.saturating_mul(weight).saturating_mul(BLOCK_BYTES)
}

fn note(distances: &mut Distances, distance: Option<usize>, weight: u64, group: usize) {
    match distance {
        Some(others) => distances.again(others, weight, group),
        None => distances.first(weight, group),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sampling::tests::followed_of;
    use super::*;

    #[test]
    fn who_is_forgotten_in_the_middle_of_a_request_does_not_come_back() {
        let mut blocks = Blocks::new(1024, 0);
        blocks.write(0, 0, 100_000, (0, 0), 0, |_, _| {});
        blocks.read(1, 0, 200_000, 0, true, |_, _| {});
        assert!(blocks.table.keys().all(|&key| blocks.sample.has(key)));
        assert!(blocks.table.len() > 500, "and those who stay are there");
    }

    #[test]
    fn regression_addresses_that_are_always_followed_do_not_halve_for_ever() {
        let mut blocks = Blocks::new(1024, 0);
        for address in (1..5000).chain(1..5000).map(followed_of) {
            let (volume, block) = ((address >> 44) as u32, address & (VOLUME_BLOCKS - 1));
            blocks.write(volume, block, 1, (0, 0), 0, |_, _| {});
            blocks.read(volume, block, 1, 0, true, |_, _| {});
        }
        assert!(blocks.table.len() <= 1024);
        assert!(blocks.table.keys().all(|&key| blocks.sample.has(key)));
        assert_eq!(blocks.peak_all_bytes(), u64::MAX);
    }
}
