//! The state of each followed block: when it was accessed, which row wrote it, and whether its data is live.

use super::distances::Distances;
use super::fetching::{Fetching, NEAR_BLOCKS};
use super::groups::GROUPS;
use super::hot::{Finder, Hot};
use super::sampling::{Sample, address};
use super::slots::{Extent, NEIGHBOURS, Slot, Slots};
use super::stack::{LIVE_MAX, Place, Stack};
use std::hint::black_box;

/// Bytes in a block.
pub const BLOCK_BYTES: u64 = forebay_block::BLOCK_BYTES_U64;
/// Most blocks of a volume that can be distinguished: 64 PiB.
pub const VOLUME_BLOCKS: u64 = 1 << 44;
/// Approximate memory of a followed block in bytes: its state (40), its marks (2), and its number, which takes up to 94 if no neighbour is
/// followed and the table has its worst load. Similar neighbours share everything but the marks.
pub const FOLLOWED_BYTES: u64 = 136;
/// The place of a block that is not in the stack.
const NOWHERE: Place = Place::MAX;
/// Indices of the finders of hot blocks: by all accesses, by reads, by writes.
const ALL: usize = 0;
const READS: usize = 1;
const WRITES: usize = 2;

/// The state of a block, or of an extent by its first block: the other blocks have the following places, and everything else is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    accessed: Place,
    /// Place among the blocks that were written and not discarded since.
    written: Place,
    /// Time of the last read; valid if `was_read`.
    read_at: u64,
    /// Time of the last write; valid if the block was written.
    written_at: u64,
    /// Bytes that the whole trace had written at the time of that write.
    clock_bytes: u64,
    row: u16,
    was_read: bool,
}

/// The state of a block without a known past, or one that is no longer followed.
const UNKNOWN: Block =
    Block { accessed: NOWHERE, written: NOWHERE, read_at: 0, written_at: 0, clock_bytes: 0, row: 0, was_read: false };

impl Block {
    /// The state of the block at distance `blocks` behind this one in its extent.
    fn ahead(self, blocks: Place) -> Self {
        let written = if self.written == NOWHERE { NOWHERE } else { self.written + blocks };
        Self { accessed: self.accessed + blocks, written, ..self }
    }

    /// The row that wrote the block last, and the time and the bytes of the trace since then, when the trace has written `clock_bytes`.
    fn since_write(&self, now: u64, clock_bytes: u64) -> (u16, u64, u64) {
        (self.row, now.saturating_sub(self.written_at), clock_bytes - self.clock_bytes)
    }

    /// The state before an access, for statistics.
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

/// The state of a followed block before an access, for statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Time of the last read; `None` if there was none.
    pub read_at: Option<u64>,
    /// Time of the last write; `None` if there was none.
    pub written_at: Option<u64>,
    /// Row that last wrote the block; `None` if it holds no live data.
    pub writer: Option<u16>,
    /// For a write or discard that ends a version: the version's row, and the time and bytes written since it was written.
    pub since_write: Option<(u16, u64, u64)>,
}

impl Seen {
    /// Time of the last access. Time does not go back, so it is the later of read and write.
    pub fn accessed_at(&self) -> Option<u64> {
        self.read_at.max(self.written_at)
    }
}

/// The followed blocks of a trace.
#[derive(Default)]
pub struct Blocks {
    slots: Slots,
    /// The states by the numbers of their extents.
    blocks: Vec<Block>,
    sample: Sample,
    limit: usize,
    accessed: Stack,
    written: Stack,
    /// Hot blocks by accesses and by writes, and the finders that detect them.
    hot_accessed: Hot,
    hot_written: Hot,
    find: [Finder; 3],
    fetching: Fetching,
    /// Number of live blocks of each row.
    live: Vec<u64>,
    peak_bytes: Vec<u64>,
    peak_all_bytes: u64,
    peak_accessed_bytes: u64,
    /// Distances of all accesses.
    pub all: Distances,
    /// Distances of reads among all accesses.
    pub reads: Distances,
    /// Distances of writes, in blocks written since.
    pub writes: Distances,
}

impl Blocks {
    /// Follows at most `limit` blocks, and from the beginning only one in 2^`halvings`.
    pub fn new(limit: usize, halvings: u32) -> Self {
        let limit = limit.clamp(1024, LIVE_MAX);
        let mut blocks = Self { limit, sample: Sample::one_in_power(halvings), ..Self::default() };
        if halvings > 0 {
            blocks.start_sampling();
        }
        blocks
    }

    /// Number of blocks that each followed one stands for; 1 if all are followed.
    pub fn weight(&self) -> u64 {
        self.sample.weight()
    }

    /// Most bytes that a row occupied at any time.
    pub fn peak_bytes(&self, row: u16) -> u64 {
        self.peak_bytes.get(usize::from(row)).copied().unwrap_or(0)
    }

    /// Most bytes that were written and not discarded at any time.
    pub fn peak_all_bytes(&self) -> u64 {
        self.peak_all_bytes
    }

    /// Most bytes that were accessed and not discarded at any time.
    pub fn peak_accessed_bytes(&self) -> u64 {
        self.peak_accessed_bytes
    }

    /// Prefetches the states of the blocks of the next requests, given by volume, first block, number of blocks, and whether they write.
    pub fn fetch(&mut self, requests: impl Iterator<Item = (u32, u64, u64, bool)>) {
        if self.sample.weight() > 1 || self.slots.len() < NEAR_BLOCKS {
            return;
        }
        let Self { fetching, slots, blocks, accessed, written, .. } = self;
        let found = fetching.entries(slots, requests);
        let block = |slot: Slot| blocks.get(slot as usize).unwrap_or(&UNKNOWN);
        // Both ends of a state, which may lie in two cache lines.
        black_box(found.iter().fold(0, |sum, &(slot, _)| sum ^ block(slot).read_at ^ u64::from(block(slot).row)));
        let looked = found.iter().fold(0, |sum, &(slot, is_write)| {
            let of_written = if is_write { written.look(block(slot).written) } else { 0 };
            sum ^ accessed.look(block(slot).accessed) ^ of_written
        });
        black_box(looked);
    }

    /// Handles reads, or accesses of unknown kind, of `count` blocks from `first`. Calls `tell` for each followed block with its state, the
    /// number of blocks it stands for, and the number of neighbours with the same state. Returns the number of blocks that the first block
    /// stands for, if it is followed. Times must not go back.
    pub fn read(
        &mut self,
        volume: u32,
        first: u64,
        count: u64,
        now: u64,
        is_read: bool,
        mut tell: impl FnMut(Seen, u64, u64),
    ) -> Option<u64> {
        self.all.count(count);
        if is_read {
            self.reads.count(count);
        }
        self.access_hot(volume, first, count, is_read);
        let done = self.alike(address(volume, first), count, |blocks, block, times, before| {
            (block.read_at, block.was_read) = (now, true);
            if is_read {
                blocks.reads.access_all(before.map(|(_, distance)| distance), times);
            }
            tell(before.map_or(Seen::default(), |(block, _)| block.seen()), 1, times);
        });
        let mut first_weight = (done > 0).then_some(1);
        let sample = self.sample;
        sample.each(volume, first + done, count - done, |key| {
            if !self.sample.keeps(key, sample) {
                return;
            }
            let (slot, seen, noted) = self.touch(key);
            let weight = self.sample.weight();
            let block = &mut self.blocks[slot as usize];
            (block.read_at, block.was_read) = (now, true);
            if key == address(volume, first) {
                first_weight = Some(weight);
            }
            if let (true, Some(distance)) = (is_read, noted) {
                self.reads.access(distance, weight, Some(self.sample.group(key, GROUPS)));
            }
            tell(seen, weight, 1);
            self.keep_within_limit();
        });
        self.find_hot(volume, first, count, is_read.then_some(READS));
        first_weight
    }

    /// Handles writes of `count` blocks from `first` by a row, when the trace has written `clock_bytes`. Calls `tell` as [`Self::read`]
    /// does.
    pub fn write(
        &mut self,
        volume: u32,
        first: u64,
        count: u64,
        at: (u64, u64),
        row: u16,
        mut tell: impl FnMut(Seen, u64, u64),
    ) {
        let (now, clock_bytes) = at;
        self.all.count(count);
        self.writes.count(count);
        let places = usize::from(row) + 1;
        if self.live.len() < places {
            self.live.resize(places, 0);
            self.peak_bytes.resize(places, 0);
        }
        self.access_hot(volume, first, count, false);
        let weight = self.sample.weight();
        for key in self.hot_written.among(address(volume, first), count) {
            let distance = self.hot_written.take(key, &self.written, weight);
            self.hot_written.put(key, &self.written, self.sample.has(key));
            self.writes.access(distance, 1, None);
        }
        let done = self.alike(address(volume, first), count, |blocks, block, times, before| {
            let seen = blocks.write_alike(block, times, before.map(|(block, _)| block), at, row);
            tell(seen, 1, times);
        });
        let sample = self.sample;
        sample.each(volume, first + done, count - done, |key| {
            if !self.sample.keeps(key, sample) {
                return;
            }
            let (slot, mut seen, _) = self.touch(key);
            let weight = self.sample.weight();
            if self.written.is_full() {
                let places = self.blocks.iter_mut().map(|block| &mut block.written);
                self.written.pack(places.filter(|place| **place != NOWHERE).chain(self.hot_written.places()));
            }
            let block = &mut self.blocks[slot as usize];
            if !self.hot_written.has(key) {
                let distance =
                    (block.written != NOWHERE).then(|| self.hot_written.distance(block.written, &self.written, weight));
                self.writes.access(distance, weight, Some(self.sample.group(key, GROUPS)));
            }
            block.written = if block.written == NOWHERE {
                self.written.push()
            } else {
                self.live[usize::from(block.row)] -= 1;
                seen.since_write = Some(block.since_write(now, clock_bytes));
                self.written.raise(block.written)
            };
            (block.written_at, block.clock_bytes, block.row) = (now, clock_bytes, row);
            self.add_live(row, 1, weight);
            tell(seen, weight, 1);
            self.keep_within_limit();
        });
        self.find_hot(volume, first, count, Some(WRITES));
    }

    /// While all blocks are followed and there is room for more: moves `count` blocks from an address to the top of the access stack, a
    /// whole extent at a time, and counts their distances. Calls `take` with the new state of the extent's first block, the number of
    /// blocks, and, if they were followed before, the old state and the distance. Returns the number of blocks done; the others are left to
    /// [`Self::touch`], one by one.
    ///
    /// The blocks of a request were mostly last accessed by one request too. So the request costs about as much as one of a single block:
    /// one state represents all of them, and their distances are equal.
    fn alike(
        &mut self,
        begin: u64,
        count: u64,
        mut take: impl FnMut(&mut Self, &mut Block, u64, Option<(Block, u64)>),
    ) -> u64 {
        let mut done = 0;
        // The previous extent, and its number of blocks.
        let mut last: Option<(Slot, u64)> = None;
        while done < count && self.has_extents() {
            if self.accessed.has_no_room_for(NEIGHBOURS as usize) {
                let places = self.blocks.iter_mut().map(|block| &mut block.accessed);
                self.accessed.pack(places.filter(|place| **place != NOWHERE));
            }
            if self.written.has_no_room_for(NEIGHBOURS as usize) {
                let places = self.blocks.iter_mut().map(|block| &mut block.written);
                self.written.pack(places.filter(|place| **place != NOWHERE));
            }
            let address = begin + done;
            let most = if self.fills_gaps(address) { 1 } else { count - done };
            let part = self.slots.cut(address, most);
            let was = part_of(&mut self.blocks, &part);
            let len = part.len as usize;
            let (place, before) = match was {
                Some(first) => {
                    let distance = self.accessed.above(first.accessed) as u64;
                    let place = match len {
                        1 => self.accessed.raise(first.accessed),
                        _ => self.accessed.raise_all(first.accessed, len),
                    };
                    (place, Some((first, distance)))
                }
                None => {
                    let place = self.accessed.push_all(len);
                    let bytes = bytes_of(self.accessed.live() as u64, 1);
                    self.peak_accessed_bytes = self.peak_accessed_bytes.max(bytes);
                    (place, None)
                }
            };
            self.all.access_all(before.map(|(_, distance)| distance), part.len);
            let mut block = Block { accessed: place, ..was.unwrap_or(UNKNOWN) };
            take(self, &mut block, part.len, before);
            match &mut last {
                Some((number, blocks))
                    if !address.is_multiple_of(NEIGHBOURS)
                        && self.blocks[*number as usize].ahead(*blocks as Place) == block =>
                {
                    self.slots.join(address, part.len, *number);
                    self.blocks[part.number as usize] = UNKNOWN;
                    *blocks += part.len;
                }
                _ => {
                    self.blocks[part.number as usize] = block;
                    last = Some((part.number, part.len));
                }
            }
            done += part.len;
        }
        done
    }

    /// Whether similar neighbours share one number. This ends when the table, which may then be full, is converted to single blocks.
    fn has_extents(&mut self) -> bool {
        let may_be_full = self.sample.weight() > 1 || self.slots.len() + NEIGHBOURS as usize > self.limit;
        let Self { slots, blocks, .. } = self;
        slots.has_extents(may_be_full, |part| _ = part_of(blocks, &part))
    }

    /// Whether raising the block fills a gap; the blocks behind it then have other distances.
    fn fills_gaps(&mut self, address: u64) -> bool {
        if !self.accessed.has_gaps() && !self.written.has_gaps() {
            return false;
        }
        let Some((number, ahead)) = self.slots.extent(address) else { return false };
        let first = self.blocks[number as usize].ahead(ahead);
        self.accessed.has_gap_above(first.accessed)
            || first.written != NOWHERE && self.written.has_gap_above(first.written)
    }

    /// Handles a write of `times` similar blocks, and returns their state before. `block` is the state of the first of them.
    fn write_alike(&mut self, block: &mut Block, times: u64, before: Option<Block>, at: (u64, u64), row: u16) -> Seen {
        let ((now, clock_bytes), len) = (at, times as usize);
        let mut seen = before.map_or(Seen::default(), |before| before.seen());
        let written = before.filter(|before| before.written != NOWHERE);
        self.writes.access_all(written.map(|before| self.written.above(before.written) as u64), times);
        block.written = match written {
            Some(before) => {
                self.live[usize::from(before.row)] -= times;
                seen.since_write = Some(before.since_write(now, clock_bytes));
                match len {
                    1 => self.written.raise(before.written),
                    _ => self.written.raise_all(before.written, len),
                }
            }
            None => self.written.push_all(len),
        };
        (block.written_at, block.clock_bytes, block.row) = (now, clock_bytes, row);
        self.add_live(row, times, 1);
        seen
    }

    /// Adds `times` live blocks to a row, each of which stands for `weight`.
    fn add_live(&mut self, row: u16, times: u64, weight: u64) {
        let live = &mut self.live[usize::from(row)];
        *live += times;
        let peak = &mut self.peak_bytes[usize::from(row)];
        *peak = (*peak).max(bytes_of(*live, weight));
        self.peak_all_bytes = self.peak_all_bytes.max(bytes_of(self.written.live() as u64, weight));
    }

    /// Handles accesses of the hot blocks among `count` blocks from `first`.
    fn access_hot(&mut self, volume: u32, first: u64, count: u64, is_read: bool) {
        let weight = self.sample.weight();
        for key in self.hot_accessed.among(address(volume, first), count) {
            let distance = self.hot_accessed.take(key, &self.accessed, weight);
            self.hot_accessed.put(key, &self.accessed, self.sample.has(key));
            self.all.access(distance, 1, None);
            if is_read {
                self.reads.access(distance, 1, None);
            }
        }
    }

    /// Counts accesses of `count` blocks from `first` to find hot blocks; if `kind` is given, for that kind too.
    fn find_hot(&mut self, volume: u32, first: u64, count: u64, kind: Option<usize>) {
        if count == 0 || self.sample.weight() == 1 {
            return;
        }
        let Self { find, slots, blocks, sample, hot_accessed, hot_written, accessed, written, .. } = self;
        for kind in [Some(ALL), kind].into_iter().flatten() {
            let enough = find[kind].enough();
            find[kind].count(volume, first, count, |key| {
                let slot = slots.get(key).filter(|_| sample.has(key));
                let block = slot.and_then(|slot| blocks.get(slot as usize));
                if kind == WRITES {
                    hot_written.add(key, written, block.map(|block| block.written), enough);
                } else {
                    hot_accessed.add(key, accessed, block.map(|block| block.accessed), enough);
                }
            });
        }
    }

    /// Handles a discard of `count` blocks from `first`, when the trace has written `clock_bytes`. Calls `tell` for each followed block.
    pub fn discard(&mut self, volume: u32, first: u64, count: u64, at: (u64, u64), mut tell: impl FnMut(Seen, u64)) {
        let (now, clock_bytes) = at;
        let keys = self.sample.among(volume, first, count, (self.slots.len(), self.slots.addresses()));
        let weight = self.sample.weight();
        for key in self.hot_accessed.among(address(volume, first), count) {
            self.hot_accessed.take(key, &self.accessed, weight);
        }
        for key in self.hot_written.among(address(volume, first), count) {
            if let Some(distance) = self.hot_written.take(key, &self.written, weight) {
                self.writes.discarded(distance, 1, None);
            }
        }
        for key in keys {
            if let Some(part) = self.slots.part(key) {
                part_of(&mut self.blocks, &part);
            }
            let Some(slot) = self.slots.remove(key) else { continue };
            let block = std::mem::replace(&mut self.blocks[slot as usize], UNKNOWN);
            // The mark of a hot block does not count, so its gap must not either.
            leave(&mut self.accessed, block.accessed, self.hot_accessed.has(key));
            let mut seen = block.seen();
            if block.written != NOWHERE {
                // A block that is discarded while it is staged never reaches the capacity tier. The gap that it leaves counts like the
                // block, so the order of the blocks in a discard does not matter.
                let is_hot = self.hot_written.has(key);
                if !is_hot {
                    let distance = self.hot_written.distance(block.written, &self.written, weight);
                    self.writes.discarded(distance, weight, Some(self.sample.group(key, GROUPS)));
                }
                leave(&mut self.written, block.written, is_hot);
                self.live[usize::from(block.row)] -= 1;
                seen.since_write = Some(block.since_write(now, clock_bytes));
            }
            tell(seen, weight);
        }
    }

    /// Moves a block to the top of the access stack and counts its distance. Returns its number, its state before, and the distance; no
    /// distance for a hot block, whose distance has been counted elsewhere.
    fn touch(&mut self, key: u64) -> (Slot, Seen, Option<Option<u64>>) {
        if self.accessed.is_full() {
            let places = self.blocks.iter_mut().map(|block| &mut block.accessed);
            self.accessed.pack(places.filter(|place| **place != NOWHERE).chain(self.hot_accessed.places()));
        }
        let is_hot = self.hot_accessed.has(key);
        let weight = self.sample.weight();
        let (slot, was_followed) = self.slots.follow(key);
        if !was_followed {
            if self.blocks.len() <= slot as usize {
                self.blocks.resize(slot as usize + 1, UNKNOWN);
            }
            self.blocks[slot as usize].accessed = self.accessed.push();
            if !is_hot {
                self.all.access(None, weight, Some(self.sample.group(key, GROUPS)));
            }
            let bytes = bytes_of(self.accessed.live() as u64, weight);
            self.peak_accessed_bytes = self.peak_accessed_bytes.max(bytes);
            return (slot, Seen::default(), (!is_hot).then_some(None));
        }
        let block = &mut self.blocks[slot as usize];
        let distance = (!is_hot).then(|| Some(self.hot_accessed.distance(block.accessed, &self.accessed, weight)));
        let seen = block.seen();
        block.accessed = self.accessed.raise(block.accessed);
        if let Some(distance) = distance {
            self.all.access(distance, weight, Some(self.sample.group(key, GROUPS)));
        }
        (slot, seen, distance)
    }

    fn keep_within_limit(&mut self) {
        while self.slots.len() > self.limit {
            self.start_sampling();
            self.sample.halve();
            let sample = self.sample;
            let (accessed, written, live) = (&mut self.accessed, &mut self.written, &mut self.live);
            let blocks = &mut self.blocks;
            self.slots.retain(|key, slot| {
                let stays = sample.has(key);
                if !stays {
                    let block = std::mem::replace(&mut blocks[slot as usize], UNKNOWN);
                    accessed.forget(block.accessed);
                    if block.written != NOWHERE {
                        written.forget(block.written);
                        live[usize::from(block.row)] -= 1;
                    }
                }
                stays
            });
            [&mut self.hot_accessed, &mut self.hot_written]
                .into_iter()
                .for_each(|hot| hot.retain_sampled(|key| sample.has(key)));
            [accessed, written].into_iter().for_each(Stack::forget_half_of_gaps);
        }
    }

    fn start_sampling(&mut self) {
        [&mut self.all, &mut self.reads, &mut self.writes].into_iter().for_each(Distances::sample);
    }
}

/// Bytes that sampled blocks stand for. Saturates, because a trace may consist of blocks that are followed at any sampling rate.
fn bytes_of(blocks: u64, weight: u64) -> u64 {
    blocks.saturating_mul(weight).saturating_mul(BLOCK_BYTES)
}

/// Copies states after an extent was cut: each part gets the state of its own first block. Returns the state of the part's first block, if
/// it was followed.
fn part_of(blocks: &mut Vec<Block>, part: &Extent) -> Option<Block> {
    if blocks.len() < part.end() {
        blocks.resize(part.end(), UNKNOWN);
    }
    let (all, ahead) = part.of.map(|(number, ahead)| (blocks[number as usize], ahead))?;
    if let Some((tail, ahead)) = part.tail {
        blocks[tail as usize] = all.ahead(ahead);
    }
    let first = all.ahead(ahead);
    blocks[part.number as usize] = first;
    Some(first)
}

/// Takes a block out of a stack, which leaves a gap; a hot block leaves none.
fn leave(stack: &mut Stack, place: Place, is_hot: bool) {
    if is_hot { stack.forget(place) } else { stack.remove(place) }
}

#[cfg(test)]
mod tests {
    use super::super::sampling::tests::followed_of;
    use super::*;

    #[test]
    fn who_is_forgotten_in_the_middle_of_a_request_does_not_come_back() {
        let mut blocks = Blocks::new(1024, 0);
        blocks.write(0, 0, 100_000, (0, 0), 0, |_, _, _| {});
        blocks.read(1, 0, 200_000, 0, true, |_, _, _| {});
        let sample = blocks.sample;
        assert!(blocks.slots.addresses().all(|key| sample.has(key)));
        assert!(blocks.slots.len() > 500, "and those who stay are there");
    }

    #[test]
    fn regression_addresses_that_are_always_followed_do_not_halve_for_ever() {
        let mut blocks = Blocks::new(1024, 0);
        for address in (1..5000).chain(1..5000).map(followed_of) {
            let (volume, block) = ((address >> 44) as u32, address & (VOLUME_BLOCKS - 1));
            blocks.write(volume, block, 1, (0, 0), 0, |_, _, _| {});
            blocks.read(volume, block, 1, 0, true, |_, _, _| {});
        }
        assert!(blocks.slots.len() <= 1024);
        let sample = blocks.sample;
        assert!(blocks.slots.addresses().all(|key| sample.has(key)));
        assert_eq!(blocks.peak_all_bytes(), u64::MAX);
    }
}
