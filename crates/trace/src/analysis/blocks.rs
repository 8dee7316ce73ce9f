//! What is remembered of each block: when it was accessed, who wrote it, whether it lives.

use super::distances::Distances;
use super::fetching::{Fetching, NEAR_BLOCKS};
use super::groups::GROUPS;
use super::hot::{Finder, Hot};
use super::sampling::{Sample, address};
use super::slots::{Extent, NEIGHBOURS, Slot, Slots};
use super::stack::{LIVE_MAX, Place, Stack};
use std::hint::black_box;

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;
/// Blocks of a volume that can be distinguished: 64 PiB.
pub const VOLUME_BLOCKS: u64 = 1 << 44;
/// Memory of a block that is followed, in bytes, about: what is known of it (40), its marks (2), and its number, which alone takes up
/// to 94 where no neighbour is followed and the table is at its worst load. Neighbours that are alike have all but the marks once.
pub const FOLLOWED_BYTES: u64 = 136;
/// Not in the stack.
const NOWHERE: Place = Place::MAX;
/// Who finds hot blocks: by all accesses, by reads, by writes.
const ALL: usize = 0;
const READS: usize = 1;
const WRITES: usize = 2;

/// What is known of a block, or of the first of an extent: the places of those behind it are the next ones, and all else is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// What is known of a block that nothing is known of, or that is followed no longer.
const UNKNOWN: Block =
    Block { accessed: NOWHERE, written: NOWHERE, read_at: 0, written_at: 0, clock_bytes: 0, row: 0, was_read: false };

impl Block {
    /// What is known of the block so many behind this one in its extent.
    fn ahead(self, blocks: Place) -> Self {
        let written = if self.written == NOWHERE { NOWHERE } else { self.written + blocks };
        Self { accessed: self.accessed + blocks, written, ..self }
    }

    /// Who wrote it last, how long ago and how many bytes of the trace, when that had written `clock_bytes`.
    fn since_write(&self, now: u64, clock_bytes: u64) -> (u16, u64, u64) {
        (self.row, now.saturating_sub(self.written_at), clock_bytes - self.clock_bytes)
    }

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
    slots: Slots,
    /// By the numbers of their extents.
    blocks: Vec<Block>,
    sample: Sample,
    limit: usize,
    accessed: Stack,
    written: Stack,
    /// Hot blocks, by accesses and by writes, and how they are found.
    hot_accessed: Hot,
    hot_written: Hot,
    find: [Finder; 3],
    fetching: Fetching,
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

    /// Has what is known of the blocks of the next requests at hand; these are given by volume, first block, number of blocks, and whether
    /// they write.
    pub fn fetch(&mut self, requests: impl Iterator<Item = (u32, u64, u64, bool)>) {
        if self.sample.weight() > 1 || self.slots.len() < NEAR_BLOCKS {
            return;
        }
        let Self { fetching, slots, blocks, accessed, written, .. } = self;
        let found = fetching.entries(slots, requests);
        let block = |slot: Slot| blocks.get(slot as usize).unwrap_or(&UNKNOWN);
        // Both ends of what is known, which may lie in two lines of the cache.
        black_box(found.iter().fold(0, |sum, &(slot, _)| sum ^ block(slot).read_at ^ u64::from(block(slot).row)));
        let looked = found.iter().fold(0, |sum, &(slot, is_write)| {
            let of_written = if is_write { written.look(block(slot).written) } else { 0 };
            sum ^ accessed.look(block(slot).accessed) ^ of_written
        });
        black_box(looked);
    }

    /// Reads, or accesses of unknown kind, of `count` blocks from `first`; tells of each that is followed, how many blocks it stands
    /// for, and of how many neighbours the same is to be said. Returns how many blocks the first one stands for, where it is
    /// followed. Times never go back.
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

    /// Writes of `count` blocks from `first` by a row, when the trace had written `clock_bytes`; tells of each that is
    /// followed, as [reads](Self::read) do.
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
            self.has_live(row, 1, weight);
            tell(seen, weight, 1);
            self.keep_within_limit();
        });
        self.find_hot(volume, first, count, Some(WRITES));
    }

    /// As long as all blocks are followed, and there is room for more: puts those of `count` from an address on top of the stack of
    /// accesses, all at once that are of one extent, and notes how far they were from there. Calls `take` with what is known of the first
    /// of them from now on, how many they are, and what it was and that distance, if they were followed before. Returns for how
    /// many it has done so; the others are for [one by one](Self::touch).
    ///
    /// A request is mostly of neighbours that were last accessed by one request, too. So it costs about as much as one of a single
    /// block: what is known of all is known of the first, and their distances are the same.
    fn alike(
        &mut self,
        begin: u64,
        count: u64,
        mut take: impl FnMut(&mut Self, &mut Block, u64, Option<(Block, u64)>),
    ) -> u64 {
        let mut done = 0;
        // The extent before, and how many blocks it has.
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

    /// Whether blocks that are alike have one number: until a table without any that are may be full.
    fn has_extents(&mut self) -> bool {
        let may_be_full = self.sample.weight() > 1 || self.slots.len() + NEIGHBOURS as usize > self.limit;
        let Self { slots, blocks, .. } = self;
        slots.has_extents(may_be_full, |part| _ = part_of(blocks, &part))
    }

    /// Whether a block that is raised fills a gap: then those behind it have other distances.
    fn fills_gaps(&mut self, address: u64) -> bool {
        if !self.accessed.has_gaps() && !self.written.has_gaps() {
            return false;
        }
        let Some((number, ahead)) = self.slots.extent(address) else { return false };
        let first = self.blocks[number as usize].ahead(ahead);
        self.accessed.has_gap_above(first.accessed)
            || first.written != NOWHERE && self.written.has_gap_above(first.written)
    }

    /// So many blocks that are alike are written; what they were. `block` is the first of them.
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
        self.has_live(row, times, 1);
        seen
    }

    /// So many blocks more are a row's, each of which stands for `weight`.
    fn has_live(&mut self, row: u16, times: u64, weight: u64) {
        let live = &mut self.live[usize::from(row)];
        *live += times;
        let peak = &mut self.peak_bytes[usize::from(row)];
        *peak = (*peak).max(bytes_of(*live, weight));
        self.peak_all_bytes = self.peak_all_bytes.max(bytes_of(self.written.live() as u64, weight));
    }

    /// Accesses of the hot ones among `count` blocks from `first`.
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

    /// Counts accesses of `count` blocks from `first`, so that hot ones are found; also as those of one kind.
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

    /// `count` blocks from `first` are no longer needed, when the trace had written `clock_bytes`; tells of each followed
    /// one that lived.
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
            // A hot one's mark stands for nothing, and so would its gap.
            leave(&mut self.accessed, block.accessed, self.hot_accessed.has(key));
            let mut seen = block.seen();
            if block.written != NOWHERE {
                // What is discarded while it is staged never gets to the capacity tier. The gap that it leaves counts as it
                // did, so it is all the same in which order the blocks of a discard go.
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

    /// Puts a block on top of the stack of accesses; its number, what it was before, and the distance to its last access, which is
    /// noted. No distance of a hot one, which has been noted.
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

/// Bytes that blocks of a sample stand for; a trace may have chosen blocks that are followed to the last.
fn bytes_of(blocks: u64, weight: u64) -> u64 {
    blocks.saturating_mul(weight).saturating_mul(BLOCK_BYTES)
}

/// An extent was cut: each part has what is known of its first block. That of its first block, if it was followed.
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

/// Takes a block out of a stack, which has a gap from then on; where it is hot, as if it had never been there.
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
