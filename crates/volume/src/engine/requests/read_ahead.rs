//! Reading ahead of sequential readers: whole groups of bands, as they lie, so that a drive reads each row of its flash once.
//!
//! A group holds 63 blocks and their summary, and so requests of a power of two in size lie askew to a drive's rows. Groups are
//! read only when they are complete: until their band is freed and opened again, in another generation, nothing is written there.

use super::ahead::{Taken, Waiter};
use super::piece::first_bad;
use crate::engine::{Engine, Pending};
use crate::layout::page::{self, BLOCK_GRAINS, Entry, LEAF_ENTRIES};
use crate::map::index::NO_FRAME;
use crate::readings::good;
use crate::request::RequestError;
use crate::space::groups::GroupKey;
use forebay_block::{Buf, DiskId, IoError, Op, Vectored};

const BLOCK: usize = 4096;
/// Blocks of a disk in which those of a group are looked for: where they are half of it, it is read whole.
const LOOK_BLOCKS: u64 = 128;
/// Reads of hosts in flight on the capacity tier, others than those that are served from here, from which on nothing is read
/// that was not asked for.
const OTHERS_MAX: u32 = 16;

impl Engine {
    /// A host reads blocks of a disk: where it reads in sequence, the groups in which they lie are read, and the next ones.
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

    /// Reads the group that a block lies in, where that pays, and returns the next block to be looked at. `None`: nothing can
    /// be read now.
    fn read_group_at(&mut self, disk: DiskId, block: u64, reader: u32) -> Option<u64> {
        let location = match self.entry_in_memory(disk, block)? {
            // Compressed ones are read by themselves, and those that are in memory or have copies not at all.
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
        // The next blocks most often lie there, too.
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

    /// What the map names for a block. `None`: its leaf is not in memory, or there is no such block; nothing is read for that.
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

    /// The group that a place lies in, the generation of its band, and which block of it that is.
    fn group_at(&self, location: u64) -> Option<(GroupKey, u32, u32)> {
        let (band, block) = self.setup.extents.band(location)?;
        let shape = self.space.bands.shape();
        let group = shape.group_of(block);
        Some(((band, group), self.space.bands.get(band).generation, block - shape.first_block(group)))
    }

    /// Whether all of a group is on the device, its summary too: nothing will be written there in this generation.
    fn is_complete(&self, (band, group): GroupKey) -> bool {
        let (bands, shape) = (&self.space.bands, self.space.bands.shape());
        let written = u64::from(bands.get(band).written) / BLOCK_GRAINS;
        u64::from(shape.summary_block(group)) < written && bands.groups().entries((band, group)).is_none()
    }

    /// Whether what lies at a place was read ahead, or is about to be.
    pub(super) fn is_ahead(&self, location: u64) -> bool {
        !self.requests.ahead.is_empty()
            && self.group_at(location).is_some_and(|(key, generation, _)| self.requests.ahead.holds(key, generation))
    }

    /// Serves a part of a read from what was read ahead, now or when that has come. `None` where it is served; else it gets its
    /// buffer back, and reads for itself.
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

    /// The read of a group ended: those who waited for it are served.
    pub(crate) fn ahead_done(&mut self, key: GroupKey, result: Result<(), IoError>, bufs: Option<Vectored<Buf>>) {
        let bytes = good(result, bufs);
        let readers = &mut self.requests.readers;
        let (waiters, is_good) = self.requests.ahead.arrived(key, bytes, |failed| readers.restart(failed));
        for Waiter { piece, part, buf, .. } in waiters {
            self.part_from_ahead(key, (piece, part), buf, is_good);
            self.read_part_done(piece);
        }
    }

    /// A part of a read has bytes that were read ahead, or none. Where they are not what the map named when the read looked
    /// there, that is nobody's failure: the read looks again, and reads for itself.
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
            // An error until it has looked again: what it has now can be nobody's answer.
            piece.error = Some(RequestError::Damaged { disk, offset_bytes: block * BLOCK as u64 });
            piece.is_no_attempt = true;
        }
        piece.parts[usize::from(part)].1 = Some(buf);
        if !is_same && let Some(reader) = self.requests.ahead.forget(key) {
            self.requests.readers.restart(reader);
        }
    }
}
