//! Replaying the journal: the leaves that it names are brought into memory, then its records are applied in order.

use super::report::{OpenError, RecoveryReport};
use super::survey::Survey;
use super::written::{Arrived, Doubt, verified};
use crate::engine::{BATCH_ATTEMPTS_MAX, Engine, Freed, Leaves};
use crate::io::Devices;
use crate::journal::JournalGeometry;
use crate::journal::scan::scan;
use crate::layout::band_summary::SummaryEntry;
use crate::layout::moved::destinations;
use crate::layout::page::{
    BLOCK_GRAINS, Entry, LEAF_ENTRIES, PAGE_BYTES, PageName, is_leaf, leaf_entry, set_leaf_entry,
};
use crate::layout::record::Record;
use crate::layout::root::Root;
use crate::layout::stored::{Stored, places};
use crate::layout::stream::Stream;
use crate::map::change::Change;
use crate::map::index::NO_FRAME;
use crate::runs::Runs;
use forebay_block::{BLOCK_BYTES, Buf, DiskId, IoError, IoErrorKind, Op, Vectored};
use std::collections::BTreeSet;

const LEAVES_AT_ONCE: usize = 512;
/// Blocks read at once to be verified: 2 MiB.
const VERIFIED_AT_ONCE_BLOCKS: u64 = 512;

/// Applies the records in order.
pub(super) fn replay(
    devices: &mut Devices,
    geometry: JournalGeometry,
    root: &Root,
    survey: &Survey,
    engine: &mut Engine,
    report: &mut RecoveryReport,
) -> Result<(), OpenError> {
    let setup = engine.setup.clone();
    let setup = &*setup;
    let mut replay = Replay { leaves: engine.leaves() };
    // What replay would give up for good needs the operator's consent. An opening that only reads gives nothing up.
    let gives_up = setup.options.accepts_loss || setup.options.faults.checksums_ignored() || devices.is_read_only;
    replay.load_leaves(devices, survey, gives_up, report)?;
    let pool = setup.superblock.pool;
    report.batches = survey.batches;
    report.holes = survey.holes;
    // The device whose failure ends the scan: that of the journal (0), unless data could not be written again to another one.
    let (mut batches, mut failed_device, mut doubt) = (0, 0, Doubt::default());
    if let Some(array) = devices.array() {
        // No row counts as torn unless a record below shows that it may be.
        array.add_maybe_torn(Runs::default());
    }
    let end = scan(devices, geometry, &pool, survey.start, |devices, bytes, batch, records| {
        batches += 1;
        let verify = !survey.is_durable(batch.batch);
        if verify && setup.is_written_again(0) {
            // The batch must not lie in a volatile cache alone, or on one of several copies. The next root is written to space that its
            // records free, and until that root is durable the records must be found again.
            write_again(devices, geometry.offset_bytes + batch.position % geometry.len_bytes, bytes)?;
        }
        let numbered = records.into_iter().enumerate().map(|(i, record)| (batch.first_sequence + i as u64, record));
        let mut left = numbered
            .filter(|(sequence, _)| root.must_apply(*sequence) && !survey.cancelled.contains(sequence))
            .peekable();
        while left.peek().is_some() {
            let mut group = Vec::new();
            let mut blocks = 0;
            while blocks < VERIFIED_AT_ONCE_BLOCKS
                && let Some((sequence, record)) = left.next()
            {
                blocks += record.data().map_or(0, |(_, grains)| grains.div_ceil(BLOCK_GRAINS));
                group.push((sequence, record));
            }
            let mut arrived = Vec::new();
            if verify {
                let verified = verified(devices, setup, (survey, root), &group, &mut doubt, report);
                arrived = verified.map_err(|(device, error)| {
                    failed_device = device;
                    error
                })?;
            }
            let mut arrived = arrived.into_iter();
            for (sequence, record) in group {
                replay.record(&record, sequence, &arrived.next().unwrap_or_default(), &mut doubt);
                report.records += 1;
            }
        }
        Ok(())
    })
    .map_err(OpenError::of_device(devices, failed_device))?;
    if (batches, end.position, end.batch) != (survey.batches, survey.end.position, survey.end.batch) {
        // The scan differs from that of the survey: the device reads differently each time, and nothing may be decided by it. What was
        // written again until now had been there already.
        let source = IoError {
            kind: IoErrorKind::Medium,
            operation: "read of the journal, twice, with different results,",
            offset_bytes: geometry.offset_bytes,
            os_error: 0,
        };
        return Err(OpenError::of_device(devices, 0)(source));
    }
    replay.finish(devices.array().map_or(1, |array| array.shape().data as u32));
    if let Some(unread) = doubt.replacing(&engine.map) {
        if !gives_up {
            return Err(OpenError::of_unread(devices, &engine.map.disks, unread));
        }
        report.unread_blocks = unread.blocks as u64;
    }
    let lost = doubt.lost(&engine.map);
    engine.record_losses_before(lost);
    engine.watermark.resume(survey.watermark_serial);
    Ok(())
}

/// Writes the bytes of a batch to where they were read, with as many attempts as a new batch gets.
fn write_again(devices: &mut Devices, offset_bytes: u64, bytes: &[u8]) -> Result<(), IoError> {
    let mut attempts_left = BATCH_ATTEMPTS_MAX;
    loop {
        match devices.write(0, offset_bytes, bytes) {
            Err(error) if error.kind != IoErrorKind::Gone && attempts_left > 0 => attempts_left -= 1,
            Err(error) => return Err(IoError { operation: "write of the journal, which was read before,", ..error }),
            Ok(()) => return Ok(()),
        }
    }
}

/// The map as the journal changes it.
struct Replay<'a> {
    leaves: Leaves<'a>,
}

impl Replay<'_> {
    /// Brings all leaves that the journal touches into memory, in parallel.
    fn load_leaves(
        &mut self,
        devices: &mut Devices,
        survey: &Survey,
        gives_up: bool,
        report: &mut RecoveryReport,
    ) -> Result<(), OpenError> {
        let (needed, allowed) = (survey.leaves.len(), self.leaves.map.frames.limit());
        if needed > allowed {
            return Err(OpenError::Memory { needed, allowed });
        }
        let (mut unread, mut first) = (0, None);
        let all: Vec<(u16, u64)> = survey.leaves.iter().copied().collect();
        let clears = |id: u16, leaf| {
            self.leaves.map.disks.get(&id).is_some_and(|disk| survey.clears(disk.id, leaf, disk.blocks()))
        };
        // Leaves that a record clears as a whole, for example because somebody discarded what could not be read: their pages are not
        // needed.
        let cleared: BTreeSet<(u16, u64)> = all.iter().copied().filter(|&(id, leaf)| clears(id, leaf)).collect();
        for group in all.chunks(LEAVES_AT_ONCE) {
            let mut reads = Vec::new();
            let mut wanted = Vec::new();
            for &(disk, leaf) in group {
                let Some(entry) = self.leaves.map.disks.get(&disk) else {
                    continue;
                };
                let (reference, _) = entry.leaf(leaf);
                if let Some((device, offset_bytes)) =
                    self.leaves.setup.extents.place(reference.location).filter(|_| reference.location != 0)
                {
                    reads.push((device, offset_bytes, Op::read(Vectored::One(Buf::new(PAGE_BYTES)))));
                    wanted.push((DiskId(disk), leaf));
                }
            }
            for ((disk, leaf), completion) in wanted.into_iter().zip(devices.run(reads)) {
                report.leaves += 1;
                let page = match (completion.result, completion.bufs) {
                    (Ok(()), Some(Vectored::One(page))) if self.is_page_of(disk, leaf, &page) => Some(page),
                    _ => match self.read_leaf_again(devices, disk, leaf) {
                        Ok(page) => page,
                        Err(error) if error.kind == IoErrorKind::Medium && cleared.contains(&(disk.0, leaf)) => None,
                        Err(error) if error.kind == IoErrorKind::Medium => {
                            unread += 1;
                            first.get_or_insert((disk, leaf, error));
                            None
                        }
                        Err(error) => return Err(OpenError::of_device(devices, 0)(error)),
                    },
                };
                if !self.take_leaf(disk, leaf, page.as_deref()) && !cleared.contains(&(disk.0, leaf)) {
                    report.damaged_leaves += 1;
                }
            }
        }
        match first.filter(|_| !gives_up) {
            None => Ok(()),
            Some((disk, leaf, source)) => Err(OpenError::Unread {
                device: devices.list[0].name().to_owned(),
                leaves: unread,
                disk: self.leaves.map.disk(disk).map_or_else(String::new, |disk| disk.name.clone()),
                first_bytes: leaf * (LEAF_ENTRIES * BLOCK_BYTES) as u64,
                source,
            }),
        }
    }

    /// Reads a leaf again whose first read failed or returned something else; `None` where it can be read and is damaged.
    fn read_leaf_again(&self, devices: &mut Devices, disk: DiskId, leaf: u64) -> Result<Option<Buf>, IoError> {
        let Some((reference, _)) = self.leaves.map.disk(disk).map(|entry| entry.leaf(leaf)) else {
            return Ok(None);
        };
        let Some((device, offset_bytes)) = self.leaves.setup.extents.place(reference.location) else {
            return Ok(None);
        };
        let is_good = |page: &[u8]| self.is_page_of(disk, leaf, page);
        devices.read_good(device, offset_bytes, PAGE_BYTES, is_good)
    }

    /// Takes a leaf that was read for replay. A page that is not the one its parent names becomes all damaged; the result is false then.
    fn take_leaf(&mut self, disk: DiskId, leaf: u64, page: Option<&[u8]>) -> bool {
        let Some(frame) = self.frame(disk, leaf) else {
            return false;
        };
        let good = page.filter(|page| self.is_page_of(disk, leaf, page));
        let into = &mut self.leaves.map.frames.get_mut(frame).page;
        match good {
            Some(page) => into.copy_from_slice(page),
            None => {
                (0..LEAF_ENTRIES).for_each(|i| set_leaf_entry(into, i, Entry::Damaged, 0));
                self.leaves.dirty(frame);
            }
        }
        // The index page may be of a later state than the leaf: blocks that had left the fast tier by then may be on it again.
        self.leaves.arrived(disk, leaf, frame);
        good.is_some()
    }

    /// Whether a page is the one that the index names for a leaf.
    fn is_page_of(&self, disk: DiskId, leaf: u64, page: &[u8]) -> bool {
        let Some((reference, _)) = self.leaves.map.disk(disk).map(|d| d.leaf(leaf)) else { return false };
        let name = PageName { disk, number: leaf, generation: reference.generation };
        is_leaf(page, name, reference.crc) || self.leaves.setup.options.faults.checksums_ignored()
    }

    /// The frame of a leaf, made where there is none.
    fn frame(&mut self, disk: DiskId, leaf: u64) -> Option<u32> {
        let frame = self.leaves.map.disk(disk)?.frame(leaf);
        if frame != NO_FRAME {
            return Some(frame);
        }
        let frame = self.leaves.map.take_frame(disk, leaf)?;
        self.leaves.map.begin_leaf(frame);
        Some(frame)
    }

    /// Applies one record. `arrived` says which blocks have their data; empty: all.
    fn record(&mut self, record: &Record, sequence: u64, arrived: &[Arrived], doubt: &mut Doubt) {
        let arrived = |i: usize| arrived.get(i).copied().unwrap_or(Arrived::Yes);
        let kept = |i: usize| arrived(i) != Arrived::No;
        match record {
            Record::Write { disk, block, class, location, generation, lifetime, stored } => {
                let stream = Stream { is_collected: false, group: lifetime.group, class: *class };
                self.band(*location, record.data().map_or(0, |(_, grains)| grains), stream, *generation);
                for (block, (span, Stored { grains, checksum })) in (*block..).zip(places(*location, stored)) {
                    let (disk, class, note, origin) = (*disk, *class, lifetime.note, sequence);
                    self.note(
                        span.location,
                        SummaryEntry { disk, class, note, grains: grains.into(), checksum, block, origin },
                    );
                }
                for (i, (span, Stored { checksum, .. })) in
                    places(*location, stored).enumerate().filter(|(i, _)| kept(*i))
                {
                    if !self.is_known(*disk, block + i as u64) {
                        // Nobody would ever free its slot.
                        continue;
                    }
                    if arrived(i) == Arrived::Unread && self.has_content(*disk, block + i as u64) {
                        doubt.replaces(*disk, block + i as u64, span.location);
                    }
                    self.taken(span.location);
                    let entry = Entry::Data { span, class: *class };
                    self.block((*disk, block + i as u64), Change::Set { entry, checksum });
                    let is_fast = self.leaves.setup.extents.is_fast(span.location);
                    self.leaves.count_written(*class, is_fast, (1, span.grains.into()));
                }
            }
            Record::Zero { disk, block, blocks } => {
                let change = Change::Set { entry: Entry::Zero, checksum: 0 };
                (0..u64::from(*blocks)).for_each(|i| self.block((*disk, block + i), change));
            }
            Record::Discard { disk, block, blocks } => {
                let change = Change::Set { entry: Entry::Unmapped, checksum: 0 };
                (0..u64::from(*blocks)).for_each(|i| self.block((*disk, block + i), change));
            }
            Record::Damage { blocks } => {
                blocks.iter().for_each(|m| self.block((m.disk, m.block), Change::of_damage(m)));
            }
            Record::Move { stream, location, generation, moved } => {
                let grains = record.data().map_or(0, |(_, grains)| grains);
                self.band(*location, grains, *stream, *generation);
                destinations(*location, moved).for_each(|(at, m)| self.note(at, m.summary_entry()));
                for (_, (at, m)) in destinations(*location, moved).enumerate().filter(|(i, _)| kept(*i)) {
                    self.block((m.disk, m.block), Change::of_move(m, at));
                }
            }
            Record::Reclass { disk, block, blocks, class } => {
                let change = Change::Reclass { class: *class };
                (0..u64::from(*blocks)).for_each(|i| self.block((*disk, block + i), change));
            }
            Record::Cancel { .. } => {}
        }
    }

    fn band(&mut self, location: u64, grains: u64, stream: Stream, generation: u16) {
        if let Some((band, first)) = self.leaves.setup.extents.band_grain(location) {
            // Packed data begins and ends within blocks.
            let (first, end) = (first / BLOCK_GRAINS as u32, (first + grains as u32).div_ceil(BLOCK_GRAINS as u32));
            self.leaves.space.bands.replay_write(band, first, end - first, stream, generation);
        }
    }

    fn note(&mut self, location: u64, entry: SummaryEntry) {
        if let Some((band, grain)) = self.leaves.setup.extents.band_grain(location) {
            self.leaves.space.bands.replay_note(band, grain, entry);
        }
    }

    fn taken(&mut self, location: u64) {
        if self.leaves.setup.extents.is_fast(location) {
            let slot = self.leaves.setup.extents.slot(location);
            self.leaves.space.slots.set(slot);
        }
    }

    /// Whether the root that replay began with has a disk with such a block.
    fn is_known(&self, disk: DiskId, block: u64) -> bool {
        self.leaves.map.disk(disk).is_some_and(|found| block < found.blocks())
    }

    /// Whether the map has data or zeros of a block, or its disk's base has it.
    fn has_content(&mut self, disk: DiskId, block: u64) -> bool {
        let Some(frame) = self.frame(disk, block / LEAF_ENTRIES as u64) else { return false };
        let at = (block % LEAF_ENTRIES as u64) as usize;
        match leaf_entry(&self.leaves.map.frames.get(frame).page, at).0 {
            Entry::Data { .. } | Entry::Zero => true,
            Entry::Unmapped => self.leaves.map.disk(disk).is_some_and(|disk| block < disk.base_blocks()),
            Entry::Damaged => false,
        }
    }

    /// Applies a record's change to one entry; `who` is (disk, block address).
    fn block(&mut self, who: (DiskId, u64), change: Change) {
        let (disk, block) = who;
        let leaf = block / LEAF_ENTRIES as u64;
        if !self.is_known(disk, block) {
            return;
        }
        let Some(frame) = self.frame(disk, leaf) else {
            return;
        };
        let at = (block % LEAF_ENTRIES as u64) as usize;
        let old = leaf_entry(&self.leaves.map.frames.get(frame).page, at);
        if change.apply(old).is_none_or(|new| new == old) {
            return;
        }
        self.leaves.dirty(frame);
        let stageable = self.leaves.change_entry(frame, at, who, change, 0).unwrap_or(0);
        self.leaves.stays(frame, at, change);
        self.leaves.adjust_stageable(disk, leaf, stageable, None);
        // Later records may use the space again: it must be free before they are applied.
        self.free();
    }

    fn free(&mut self) {
        while let Some(freed) = self.leaves.space.freed.pop(u64::MAX) {
            match freed {
                Freed::Slots { first, count } => self.leaves.space.slots.clear_run(first, count),
                Freed::Band(band) => self.leaves.space.bands.release(band),
            }
        }
    }

    /// Ends replay: bands that nothing names any more become free, and open bands go on at the next row of `row_blocks` blocks.
    fn finish(self, row_blocks: u32) {
        self.leaves.space.bands.replay_finished(row_blocks);
        for band in self.leaves.space.bands.empty_closed() {
            self.leaves.space.bands.release(band);
        }
    }
}
