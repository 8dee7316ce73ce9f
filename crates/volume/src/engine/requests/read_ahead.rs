//! Read-ahead for sequential readers. Whole groups of bands are read, as they lie, so that a drive reads each row of its flash once.
//!
//! A group holds 63 blocks and their summary, so requests whose size is a power of two are not aligned to a drive's rows. Only complete groups are read:
//! nothing more is written there until their band is freed and opened again, in another generation.

use super::ahead::{Taken, Waiter};
use super::piece::first_bad;
use crate::engine::{Engine, Pending};
use crate::layout::page::{self, BLOCK_GRAINS, Entry, LEAF_ENTRIES};
use crate::map::index::NO_FRAME;
use crate::readings::good;
use crate::request::RequestError;
use crate::space::groups::GroupKey;
use forebay_block::{BLOCK_BYTES as BLOCK, Buf, DiskId, IoError, Op, Vectored};

/// Blocks of a disk among which those of a group are counted. Where they are at least half of the group, the whole
/// group is read.
const LOOK_BLOCKS: u64 = 128;
/// Where more reads of hosts than this are in flight on the capacity tier, not counting those that are served from here, only what was asked for is read.
const OTHERS_MAX: u32 = 16;

impl Engine {
    /// A host reads blocks of a disk. Where it reads in sequence, the groups in which they lie are read, and the next groups.
    pub(super) fn read_ahead(&mut self, disk: DiskId, block: u64, end: u64) {
        let Some(reach) = self.requests.readers.read(disk.0, block, end - block) else { return };
        let is_busy = self.outbox.capacity_reads() > OTHERS_MAX;
        let to = if is_busy { reach.asked_end } else { reach.ahead_end };
        let mut at = reach.from;
        while at < to {
            let Some(next) = self.read_group_at(disk, at, reach.reader) else { break };
            at = next;
        }
        self.requests.readers.planned(reach.reader, at);
    }

    /// Reads the group in which a block lies, where that pays, and returns the next block to look at. `None`: nothing can be read now.
    fn read_group_at(&mut self, disk: DiskId, block: u64, reader: u32) -> Option<u64> {
        let location = match self.entry_in_memory(disk, block)? {
            // Compressed blocks are read by themselves; blocks in memory or with copies are not read from the capacity
            // tier at all.
            Entry::Data { span, .. } if span.is_whole() && self.is_read_of_capacity(disk, block, span) => span.location,
            _ => return Some(block + 1),
        };
        let Some((key, generation, at)) = self.group_at(location) else { return Some(block + 1) };
        let shape = self.space.bands.shape();
        let blocks = shape.summary_block(key.1) + 1 - shape.first_block(key.1);
        let first = location - u64::from(at) * BLOCK_GRAINS;
        let group = first..first + u64::from(blocks) * BLOCK_GRAINS;
        let lies_there = |entry: Entry| matches!(entry, Entry::Data { span, .. } if span.is_whole() && group.contains(&span.location));
        let found = |&next: &u64| self.entry_in_memory(disk, next).is_some_and(lies_there);
        // The blocks that follow most often lie in the same group.
        let next = (block + 1..block + LOOK_BLOCKS).find(|next| !found(next)).unwrap_or(block + LOOK_BLOCKS);
        if self.requests.ahead.holds(key, generation) || !self.is_complete(key) {
            return Some(next);
        }
        let wanted = (next - block) as u32 + (next..block + LOOK_BLOCKS).filter(found).count() as u32;
        if 2 * wanted < blocks || !self.requests.ahead.lacks(key, generation) {
            return Some(next);
        }
        let (device, offset_bytes) = self.setup.extents.place(first)?;
        let readers = &mut self.requests.readers;
        if !self.requests.ahead.make_room(|wasted| readers.restart(wasted)) {
            return None;
        }
        self.requests.ahead.begin(key, generation, reader, wanted);
        let bytes = blocks as usize * BLOCK;
        self.stats.counters.ahead_read_bytes += bytes as u64;
        let bufs = Vectored::One(Buf::new(bytes));
        self.outbox.send(device, offset_bytes, 0, Op::read(bufs), Pending::Ahead { key });
        Some(next)
    }

    /// What the map names for a block. `None`: its leaf is not in memory (it is not read for this), or there is no such block.
    fn entry_in_memory(&self, disk: DiskId, block: u64) -> Option<Entry> {
        let disk = self.map.disk(disk).filter(|disk| block < disk.blocks())?;
        let leaf = block / LEAF_ENTRIES as u64;
        let frame = disk.frame(leaf);
        if frame == NO_FRAME {
            let is_hole = disk.leaf(leaf).0.location == 0;
            return is_hole.then_some(Entry::Unmapped);
        }
        let frame = self.map.frames.get(frame);
        (!frame.loading).then(|| page::leaf_entry(&frame.page, (block % LEAF_ENTRIES as u64) as usize).0)
    }

    /// The group in which a location lies, the generation of its band, and the block of the group that it is.
    fn group_at(&self, location: u64) -> Option<(GroupKey, u32, u32)> {
        let (band, block) = self.setup.extents.band(location)?;
        let shape = self.space.bands.shape();
        let group = shape.group_of(block);
        Some(((band, group), self.space.bands.get(band).generation, block - shape.first_block(group)))
    }

    /// Whether all of a group, its summary too, is on the device: nothing more is written there in this generation.
    fn is_complete(&self, (band, group): GroupKey) -> bool {
        let (bands, shape) = (&self.space.bands, self.space.bands.shape());
        let written = u64::from(bands.get(band).written) / BLOCK_GRAINS;
        u64::from(shape.summary_block(group)) < written && bands.groups().entries((band, group)).is_none()
    }

    /// Whether what lies at a location was read ahead, or is on its way.
    pub(super) fn is_ahead(&self, location: u64) -> bool {
        !self.requests.ahead.is_empty()
            && self.group_at(location).is_some_and(|(key, generation, _)| self.requests.ahead.holds(key, generation))
    }

    /// Serves a part of a read from what was read ahead, at once or when the group arrives: then the result is `None`. Otherwise the buffer is returned, and
    /// the part is read from the device.
    pub(super) fn take_ahead(&mut self, piece: u32, part: u16, location: u64, buf: Buf) -> Option<Buf> {
        if self.requests.ahead.is_empty() {
            return Some(buf);
        }
        let Some((key, generation, at)) = self.group_at(location) else { return Some(buf) };
        match self.requests.ahead.take(key, generation, Waiter { piece, part, at, buf }) {
            Taken::Not(buf) => return Some(buf),
            Taken::Waits => {
                if let Some(piece) = self.requests.pieces.get_mut(piece as usize) {
                    piece.outstanding += 1;
                }
            }
            Taken::Filled(buf) => self.part_from_ahead(key, (piece, part), buf, true),
        }
        None
    }

    /// The read of a group has ended: the parts that wait for it are served.
    pub(crate) fn ahead_done(&mut self, key: GroupKey, result: Result<(), IoError>, bufs: Option<Vectored<Buf>>) {
        let bytes = good(result, bufs);
        let readers = &mut self.requests.readers;
        let (waiters, is_good) = self.requests.ahead.arrived(key, bytes, |failed| readers.restart(failed));
        for Waiter { piece, part, buf, .. } in waiters {
            self.part_from_ahead(key, (piece, part), buf, is_good);
            self.read_part_done(piece);
        }
    }

    /// A part of a read gets bytes that were read ahead, or none. Bytes that are not what the map named at the lookup are no failure: the read looks its blocks
    /// up again, and reads for itself.
    fn part_from_ahead(&mut self, key: GroupKey, (id, part): (u32, u16), buf: Buf, is_filled: bool) {
        let verify = !self.setup.options.faults.checksums_ignored();
        let Some(piece) = self.requests.pieces.get_mut(id as usize) else { return };
        let Some(&(first, _)) = piece.parts.get(usize::from(part)) else { return };
        let (disk, block) = (piece.disk, piece.block() + u64::from(first));
        let named = piece.checksums.get(usize::from(first)..).unwrap_or_default();
        let is_same = is_filled && (!verify || first_bad(disk, block, &buf, named).is_none());
        if is_same {
            self.stats.counters.ahead_used_bytes += buf.len() as u64;
        } else {
            // An error until the blocks are looked up again: what the buffer has now must not be an answer.
            piece.error = Some(RequestError::Damaged { disk, offset_bytes: block * BLOCK as u64 });
            piece.is_no_attempt = true;
        }
        piece.parts[usize::from(part)].1 = Some(buf);
        if !is_same && let Some(reader) = self.requests.ahead.forget(key) {
            self.requests.readers.restart(reader);
        }
    }
}
