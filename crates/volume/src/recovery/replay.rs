//! Replaying the journal: the leaves that it names are brought into memory, then its records are applied in order.

use super::report::{OpenError, RecoveryReport};
use super::survey::Survey;
use super::written::{read_data, verified};
use crate::engine::Engine;
use crate::io::Devices;
use crate::journal::JournalGeometry;
use crate::journal::scan::scan;
use crate::layout::band_summary::SummaryEntry;
use crate::layout::page::{Entry, LEAF_ENTRIES, PAGE_BYTES, PageName, is_leaf, leaf_entry};
use crate::layout::record::{Moved, Record};
use crate::layout::root::Root;
use crate::map::change::Change;
use forebay_block::{Buf, DiskId, IoError, IoErrorKind, Op, Vectored};

const LEAVES_AT_ONCE: usize = 512;
/// Blocks read at once to be verified: 2 MiB.
const VERIFIED_AT_ONCE_BLOCKS: usize = 512;

/// Applies the records in order.
pub(super) fn replay(
    devices: &mut Devices,
    geometry: JournalGeometry,
    root: &Root,
    survey: &Survey,
    engine: &mut Engine,
    report: &mut RecoveryReport,
) -> Result<(), OpenError> {
    load_leaves(devices, survey, engine, report)?;
    let pool = engine.setup.superblock.pool;
    report.batches = survey.batches;
    report.holes = survey.holes;
    let mut batches = 0;
    let end = scan(devices, geometry, &pool, survey.start, |devices, batch, records| {
        batches += 1;
        let verify = !survey.is_durable(batch.batch);
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
                blocks += record.data().map_or(0, |(_, blocks)| blocks);
                group.push((sequence, record));
            }
            let mut data = if verify { read_data(devices, engine, &group) } else { Vec::new() }.into_iter();
            for (sequence, record) in group {
                let keep = if verify {
                    verified(devices, engine, survey, (&record, sequence), data.next().flatten(), report)
                } else {
                    Vec::new()
                };
                engine.replay_record(&record, sequence, &keep);
                report.records += 1;
            }
        }
        Ok(())
    })
    .map_err(OpenError::of_device(devices, 0))?;
    if (batches, end) != (survey.batches, survey.end) {
        // A device that reads differently each time: nothing was written yet, and nothing may be decided by it.
        let source = IoError {
            kind: IoErrorKind::Medium,
            operation: "read of the journal, twice, with different results,",
            offset_bytes: geometry.offset_bytes,
            os_error: 0,
        };
        return Err(OpenError::of_device(devices, 0)(source));
    }
    engine.replay_finished(survey.watermark_serial);
    Ok(())
}

/// Brings all leaves that the journal touches into memory, in parallel.
fn load_leaves(
    devices: &mut Devices,
    survey: &Survey,
    engine: &mut Engine,
    report: &mut RecoveryReport,
) -> Result<(), OpenError> {
    if survey.leaves.len() > engine.map.frames.limit() {
        return Err(OpenError::Memory { needed: survey.leaves.len(), allowed: engine.map.frames.limit() });
    }
    let all: Vec<(u16, u64)> = survey.leaves.iter().copied().collect();
    for group in all.chunks(LEAVES_AT_ONCE) {
        let mut reads = Vec::new();
        let mut wanted = Vec::new();
        for &(disk, leaf) in group {
            let Some(entry) = engine.map.disks.get(&disk) else {
                continue;
            };
            let (reference, _) = entry.leaf(leaf);
            if let Some((device, offset_bytes)) =
                engine.setup.extents.place(reference.location).filter(|_| reference.location != 0)
            {
                reads.push((device, offset_bytes, Op::Read { bufs: Vectored::One(Buf::new(PAGE_BYTES)) }));
                wanted.push((DiskId(disk), leaf));
            }
        }
        for ((disk, leaf), completion) in wanted.into_iter().zip(devices.run(reads)) {
            report.leaves += 1;
            let page = match (completion.result, completion.bufs) {
                (Ok(()), Some(Vectored::One(page))) if engine.is_page_of(disk, leaf, &page) => Some(page),
                _ => read_leaf_again(devices, engine, disk, leaf).map_err(OpenError::of_device(devices, 0))?,
            };
            if !engine.replay_leaf(disk, leaf, page.as_deref()) {
                report.damaged_leaves += 1;
            }
        }
    }
    Ok(())
}

/// Reads a leaf whose first read failed. What cannot be read is replayed as damaged, which is for good: so only where
/// the medium fails again, and not where the device has gone.
fn read_leaf_again(devices: &mut Devices, engine: &Engine, disk: DiskId, leaf: u64) -> Result<Option<Buf>, IoError> {
    let Some((reference, _)) = engine.map.disk(disk).map(|entry| entry.leaf(leaf)) else {
        return Ok(None);
    };
    let Some((device, offset_bytes)) = engine.setup.extents.place(reference.location) else {
        return Ok(None);
    };
    match devices.read(device, offset_bytes, PAGE_BYTES) {
        Ok(page) => Ok(Some(page)),
        Err(error) if error.kind == IoErrorKind::Medium => Ok(None),
        Err(error) => Err(error),
    }
}

impl Engine {
    /// Takes a leaf read for replay; one that is not what its parent names becomes all damaged. False then.
    fn replay_leaf(&mut self, disk: DiskId, leaf: u64, page: Option<&[u8]>) -> bool {
        use crate::layout::page::set_leaf_entry;
        let Some(frame) = self.replay_frame(disk, leaf) else {
            return false;
        };
        let good = page.filter(|page| self.is_page_of(disk, leaf, page));
        let into = &mut self.map.frames.get_mut(frame).page;
        match good {
            Some(page) => into.copy_from_slice(page),
            None => {
                (0..LEAF_ENTRIES).for_each(|i| set_leaf_entry(into, i, Entry::Damaged, 0));
                self.dirty_frame(frame);
            }
        }
        let stageable = self.count_stageable(frame);
        if let Some(entry) = self.map.disk_mut(disk) {
            entry.set_stageable(leaf, stageable);
        }
        good.is_some()
    }

    /// Whether a page is the one that the index names for a leaf.
    fn is_page_of(&self, disk: DiskId, leaf: u64, page: &[u8]) -> bool {
        let Some((reference, _)) = self.map.disk(disk).map(|d| d.leaf(leaf)) else { return false };
        let name = PageName { disk, number: leaf, generation: reference.generation };
        is_leaf(page, name, reference.crc) || self.setup.options.faults.checksums_ignored()
    }

    /// The frame of a leaf, made where there is none.
    fn replay_frame(&mut self, disk: DiskId, leaf: u64) -> Option<u32> {
        let frame = self.map.disk(disk)?.frame(leaf);
        if frame != crate::map::index::NO_FRAME {
            return Some(frame);
        }
        let frame = self.map.take_frame(disk, leaf)?;
        self.map.begin_leaf(frame);
        Some(frame)
    }

    /// Applies one record. `keep` tells which blocks have their data; empty: all.
    fn replay_record(&mut self, record: &Record, sequence: u64, keep: &[bool]) {
        let kept = |i: usize| keep.get(i).copied().unwrap_or(true);
        match record {
            Record::Write { disk, block, class, location, generation, checksums } => {
                self.replay_band(*location, checksums.len() as u32, class.0, *generation);
                for (i, &checksum) in checksums.iter().enumerate() {
                    let (disk, class, block) = (*disk, *class, block + i as u64);
                    let entry = SummaryEntry { disk, class, checksum, block, origin: sequence, ..SummaryEntry::NONE };
                    self.replay_note(location + 8 * i as u64, entry);
                }
                for (i, &checksum) in checksums.iter().enumerate().filter(|(i, _)| kept(*i)) {
                    let location = location + 8 * i as u64;
                    self.replay_taken(location);
                    let entry = Entry::Data { location, class: *class };
                    self.replay_block((*disk, block + i as u64), Change::Set { entry, checksum });
                    self.stats.count_written(*class, self.setup.extents.is_fast(location), 1);
                }
            }
            Record::Zero { disk, block, blocks } => {
                let change = Change::Set { entry: Entry::Zero, checksum: 0 };
                (0..u64::from(*blocks)).for_each(|i| self.replay_block((*disk, block + i), change));
            }
            Record::Discard { disk, block, blocks } => {
                let change = Change::Set { entry: Entry::Unmapped, checksum: 0 };
                (0..u64::from(*blocks)).for_each(|i| self.replay_block((*disk, block + i), change));
            }
            Record::Damage { blocks } => {
                for m in blocks {
                    let change = Change::Damage { source: m.source, checksum: m.checksum };
                    self.replay_block((m.disk, m.block), change);
                }
            }
            Record::Move { stream, location, generation, moved } => {
                self.replay_band(*location, moved.len() as u32, *stream, *generation);
                for (i, m) in moved.iter().enumerate() {
                    let Moved { disk, block, sectors, origin, checksum, class, group, .. } = *m;
                    let entry = SummaryEntry { disk, class, group, sectors, checksum, block, origin };
                    self.replay_note(location + 8 * i as u64, entry);
                }
                for (i, m) in moved.iter().enumerate().filter(|(i, _)| kept(*i)) {
                    let destination = location + 8 * i as u64;
                    let change = Change::Move { source: m.source, checksum: m.checksum, destination };
                    self.replay_block((m.disk, m.block), change);
                }
            }
            Record::Reclass { disk, block, blocks, class } => {
                let change = Change::Reclass { class: *class };
                (0..u64::from(*blocks)).for_each(|i| self.replay_block((*disk, block + i), change));
            }
            Record::Cancel { .. } => {}
        }
    }

    fn replay_band(&mut self, location: u64, blocks: u32, stream: u8, generation: u16) {
        if let Some((band, first)) = self.setup.extents.band(location) {
            self.space.bands.replay_write(band, first, blocks, stream, generation);
        }
    }

    fn replay_note(&mut self, location: u64, entry: SummaryEntry) {
        if let Some((band, block)) = self.setup.extents.band(location) {
            self.space.bands.replay_note(band, block, entry);
        }
    }

    fn replay_taken(&mut self, location: u64) {
        if self.setup.extents.is_fast(location) {
            let slot = self.setup.extents.slot(location);
            self.space.slots.set(slot);
        }
    }

    /// Does to one entry what a record says; `who` is (disk, block address).
    fn replay_block(&mut self, who: (DiskId, u64), change: Change) {
        let (disk, block) = who;
        let leaf = block / LEAF_ENTRIES as u64;
        if self.map.disk(disk).is_none_or(|d| block >= d.blocks()) {
            return;
        }
        let Some(frame) = self.replay_frame(disk, leaf) else {
            return;
        };
        let at = (block % LEAF_ENTRIES as u64) as usize;
        let old = leaf_entry(&self.map.frames.get(frame).page, at);
        if change.apply(old).is_none_or(|new| new == old) {
            return;
        }
        self.dirty_frame(frame);
        let stageable = self.change_entry(frame, at, who, change, 0).unwrap_or(0);
        self.adjust_stageable(disk, leaf, stageable);
        // Later records may use the space again: it must be free before they are applied.
        self.replay_free();
    }

    fn replay_free(&mut self) {
        while let Some(freed) = self.space.freed.pop(u64::MAX) {
            match freed {
                crate::engine::Freed::Slots { first, count } => self.space.slots.clear_run(first, count),
                crate::engine::Freed::Band(band) => self.space.bands.release(band),
            }
        }
    }

    /// Ends replay: bands that nothing names any more are free.
    fn replay_finished(&mut self, watermark_serial: u64) {
        self.space.bands.replay_finished();
        for band in self.space.bands.empty_closed() {
            self.space.bands.release(band);
        }
        self.watermark.resume(watermark_serial);
    }
}
