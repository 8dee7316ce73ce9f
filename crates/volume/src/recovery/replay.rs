//! Replaying the journal: first a survey (what is there, how far it was durable), then the records in order.

use super::report::{OpenError, RecoveryReport};
use crate::engine::Engine;
use crate::io::Devices;
use crate::journal::JournalGeometry;
use crate::journal::scan::{ScanEnd, ScanStart, scan};
use crate::layout::band_summary::SummaryEntry;
use crate::layout::batch::{EXCEPTIONS, Moved, Record};
use crate::layout::page::{Entry, LEAF_ENTRIES, PAGE_BYTES, PageName, is_leaf, leaf_entry};
use crate::layout::root::{Root, RootHeader};
use crate::layout::superblock::Superblock;
use crate::layout::watermark::{OFFSETS_BYTES, Watermark};
use crate::map::change::Change;
use crate::space::extents::Extents;
use forebay_block::checksum::block_checksum;
use forebay_block::{Buf, DiskId, IoError, IoErrorKind, Op, Vectored};
use std::collections::{BTreeSet, VecDeque};

const LEAVES_AT_ONCE: usize = 512;
/// How often something is read before it is taken for lost or damaged: what recovery decides is for good.
const READINGS: usize = 2;
/// Blocks read at once to be verified: 2 MiB.
const VERIFIED_AT_ONCE_BLOCKS: usize = 512;

/// What to do about journal batches that were durable and are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingBatches {
    /// Do not open: which blocks they changed is unknown.
    Refuse,
    /// Go on without them, for salvage.
    Skip,
}

/// What the journal holds.
pub(super) struct Survey {
    pub start: ScanStart,
    pub end: ScanEnd,
    pub next_sequence: u64,
    /// Batches up to this one were durable.
    durable: u64,
    /// So were these above it.
    exceptions: BTreeSet<u64>,
    cancelled: BTreeSet<u64>,
    /// Leaves that records name.
    leaves: BTreeSet<(u16, u64)>,
    /// Sources of moves in batches not known durable: (location, disk, block, checksum, sequence of the move).
    moved: BTreeSet<(u64, u16, u64, u32, u64)>,
    batches: u64,
    holes: u64,
    watermark_serial: u64,
}

impl Survey {
    /// Whether a later move took this block from this place.
    fn was_moved_on(&self, location: u64, disk: DiskId, block: u64, crc: u32, sequence: u64) -> bool {
        let later = |sequence| (location, disk.0, block, crc, sequence);
        self.moved.range(later(sequence)..=later(u64::MAX)).next().is_some()
    }

    fn is_durable(&self, batch: u64) -> bool {
        batch <= self.durable || self.exceptions.contains(&batch)
    }
}

fn wrap(devices: &Devices) -> impl FnOnce(IoError) -> OpenError {
    let device = devices.list[0].name().to_owned();
    move |source| OpenError::Io { device, source }
}

/// Leaves that a run of blocks touches.
fn leaves_of(disk: DiskId, block: u64, blocks: u64, leaves: &mut BTreeSet<(u16, u64)>) {
    let (first, last) = (block / LEAF_ENTRIES as u64, (block + blocks.max(1) - 1) / LEAF_ENTRIES as u64);
    leaves.extend((first..=last).map(|leaf| (disk.0, leaf)));
}

/// Reads the journal once: how far it goes, how far it was durable, what was cancelled, which leaves it needs.
pub(super) fn survey(
    devices: &mut Devices,
    geometry: JournalGeometry,
    superblock: &Superblock,
    header: &RootHeader,
    root: &Root,
    missing_batches: MissingBatches,
) -> Result<Survey, OpenError> {
    let start = ScanStart { position: root.journal_position, batch: root.journal_batch, epoch: header.epoch };
    let mut survey = Survey {
        start,
        end: ScanEnd::default(),
        next_sequence: root.next_sequence,
        durable: 0,
        exceptions: BTreeSet::new(),
        cancelled: BTreeSet::new(),
        leaves: BTreeSet::new(),
        moved: BTreeSet::new(),
        batches: 0,
        holes: 0,
        watermark_serial: 0,
    };
    for offset_bytes in OFFSETS_BYTES {
        // What is not a watermark is read once more: one bad transfer must not turn what was durable into a guess.
        let mut mark = None;
        for _ in 0..READINGS {
            let bytes = devices.read(0, offset_bytes, 4096).map_err(wrap(devices))?;
            mark = mark.or_else(|| Watermark::decode(&bytes, &superblock.pool));
        }
        if let Some(mark) = mark {
            survey.watermark_serial = survey.watermark_serial.max(mark.serial);
            if mark.epoch == header.epoch {
                survey.durable = survey.durable.max(mark.batch);
                let durable = (0..EXCEPTIONS).filter(|i| mark.exceptions >> i & 1 == 1);
                survey.exceptions.extend(durable.map(|i| mark.batch + 2 + i));
            }
        }
    }
    let extents = Extents::new(&superblock.members, superblock.band_bytes);
    let mut impossible = None;
    let mut missing = Vec::new();
    // By batch, so that what a later header proves durable can be dropped: bounded by the unflushed window.
    let mut moves = VecDeque::new();
    let mut expected = start.batch;
    let mut newest_checkpoint = 0;
    let end = scan(devices, geometry, &superblock.pool, start, |_, batch, records| {
        missing.extend(expected..batch.batch);
        expected = batch.batch + 1;
        newest_checkpoint = newest_checkpoint.max(batch.checkpoint);
        survey.batches += 1;
        survey.durable = survey.durable.max(batch.durable);
        while moves.front().is_some_and(|(number, _)| *number <= survey.durable) {
            moves.pop_front();
        }
        for i in (0..EXCEPTIONS).filter(|i| batch.exceptions >> i & 1 == 1) {
            survey.exceptions.insert(batch.durable + 2 + i);
        }
        survey.next_sequence = survey.next_sequence.max(batch.first_sequence + records.len() as u64);
        for (i, record) in records.iter().enumerate() {
            if let Record::Cancel { sequence } = record {
                survey.cancelled.insert(*sequence);
            }
            let sequence = batch.first_sequence + i as u64;
            if !root.must_apply(sequence) {
                continue;
            }
            if let Some((location, blocks)) = data_of(record)
                && !extents.holds_data(location, blocks as u32)
            {
                impossible.get_or_insert(batch.batch);
            }
            match record {
                Record::Write { disk, block, checksums, .. } => {
                    leaves_of(*disk, *block, checksums.len() as u64, &mut survey.leaves);
                }
                Record::Zero { disk, block, blocks }
                | Record::Discard { disk, block, blocks }
                | Record::Reclass { disk, block, blocks, .. } => {
                    leaves_of(*disk, *block, u64::from(*blocks), &mut survey.leaves);
                }
                Record::Move { moved, .. } => {
                    moved.iter().for_each(|m| leaves_of(m.disk, m.block, 1, &mut survey.leaves));
                    moves.extend(
                        moved.iter().map(|m| (batch.batch, (m.source, m.disk.0, m.block, m.checksum, sequence))),
                    );
                }
                Record::Damage { blocks } => {
                    blocks.iter().for_each(|m| leaves_of(m.disk, m.block, 1, &mut survey.leaves));
                }
                Record::Cancel { .. } => {}
            }
        }
        Ok(())
    })
    .map_err(wrap(devices))?;
    if newest_checkpoint > header.checkpoint {
        return Err(OpenError::Root {
            checkpoint: newest_checkpoint,
            what: format!("the journal proves that it existed, the newest root found is {}", header.checkpoint),
        });
    }
    if let Some(batch) = impossible {
        return Err(OpenError::Record { batch });
    }
    // A watermark beyond the last batch found: the end of the journal itself is gone.
    let lost_end = (survey.durable >= end.batch).then_some(end.batch);
    let lost = missing.iter().copied().find(|&batch| survey.is_durable(batch)).or(lost_end);
    if let (Some(batch), MissingBatches::Refuse) = (lost, missing_batches) {
        return Err(OpenError::Journal { batch, durable: survey.durable });
    }
    let durable = survey.durable;
    survey.moved.extend(moves.into_iter().filter(|(batch, _)| *batch > durable).map(|(_, source)| source));
    survey.holes = missing.len() as u64 + lost_end.map_or(0, |first| durable - first + 1);
    survey.end = end;
    Ok(survey)
}

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
                blocks += data_of(&record).map_or(0, |(_, blocks)| blocks);
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
    .map_err(wrap(devices))?;
    if (batches, end) != (survey.batches, survey.end) {
        // A device that reads differently each time: nothing was written yet, and nothing may be decided by it.
        let source = IoError {
            kind: IoErrorKind::Medium,
            operation: "read of the journal, twice, with different results,",
            offset_bytes: geometry.offset_bytes,
            os_error: 0,
        };
        return Err(wrap(devices)(source));
    }
    engine.replay_finished(survey.watermark_serial);
    Ok(())
}

/// Location and number of the blocks that a record says were written.
fn data_of(record: &Record) -> Option<(u64, usize)> {
    match record {
        Record::Write { location, checksums, .. } => Some((*location, checksums.len())),
        Record::Move { location, moved, .. } => Some((*location, moved.len())),
        _ => None,
    }
}

/// Reads the data of these records, in parallel: one by one, each would cost a latency of the device. `None` where a
/// record has none, and where it cannot be read.
fn read_data(devices: &mut Devices, engine: &Engine, records: &[(u64, Record)]) -> Vec<Option<Buf>> {
    let mut data: Vec<Option<Buf>> = records.iter().map(|_| None).collect();
    let (mut reads, mut wanted) = (Vec::new(), Vec::new());
    for (i, (_, record)) in records.iter().enumerate() {
        if let Some((location, blocks)) = data_of(record)
            && let Some((device, offset_bytes)) = engine.setup.extents.place(location)
        {
            reads.push((device, offset_bytes, Op::Read { bufs: Vectored::One(Buf::new(blocks * 4096)) }));
            wanted.push((i, (device, offset_bytes, blocks * 4096)));
        }
    }
    for ((i, (device, offset_bytes, len_bytes)), completion) in wanted.into_iter().zip(devices.run(reads)) {
        data[i] = match (completion.result, completion.bufs) {
            (Ok(()), Some(Vectored::One(buf))) => Some(buf),
            // What is decided here is for good: one failed read is not enough.
            _ => devices.read(device, offset_bytes, len_bytes).ok(),
        };
    }
    data
}

/// Which blocks of a record have their data on the device; empty where there is nothing to verify. Data that cannot be
/// read at all is kept: a device that fails to read says nothing of whether the write arrived, and reads of it failing
/// is better than an older version in silence.
///
/// A block that was moved on is kept even where its place was reused since: the move, whose data was durable before it
/// was recorded, applies only while the map names its source.
fn verified(
    devices: &mut Devices,
    engine: &Engine,
    survey: &Survey,
    (record, sequence): (&Record, u64),
    data: Option<Buf>,
    report: &mut RecoveryReport,
) -> Vec<bool> {
    let location = data_of(record).map_or(0, |(location, _)| location);
    let names: Vec<(DiskId, u64, u32)> = match record {
        Record::Write { disk, block, checksums, .. } => {
            checksums.iter().enumerate().map(|(i, &crc)| (*disk, block + i as u64, crc)).collect()
        }
        Record::Move { moved, .. } => moved.iter().map(|m| (m.disk, m.block, m.checksum)).collect(),
        _ => return Vec::new(),
    };
    let ignored = engine.setup.options.faults.checksums_ignored();
    let is_block = |(disk, block, crc): (DiskId, u64, u32), bytes: &[u8]| block_checksum(disk, block, bytes) == crc;
    let mut keep = vec![true; names.len()];
    if data.is_none() {
        // One sector that cannot be read says nothing of the other blocks.
        for (i, keep) in keep.iter_mut().enumerate() {
            let (disk, block, crc) = names[i];
            let at = location + 8 * i as u64;
            *keep = ignored
                || survey.was_moved_on(at, disk, block, crc, sequence)
                || read_block(devices, engine, at).is_none_or(|bytes| is_block(names[i], &bytes));
        }
    }
    for (i, bytes) in data.iter().flat_map(|data| data.chunks_exact(4096)).enumerate().take(names.len()) {
        let (disk, block, crc) = names[i];
        let at = location + 8 * i as u64;
        keep[i] = ignored
            || is_block(names[i], bytes)
            || survey.was_moved_on(at, disk, block, crc, sequence)
            || read_block(devices, engine, at).is_some_and(|again| is_block(names[i], &again));
    }
    report.dropped_blocks += keep.iter().filter(|&&kept| !kept).count() as u64;
    keep
}

/// One block; `None` where it cannot be read.
fn read_block(devices: &mut Devices, engine: &Engine, location: u64) -> Option<Buf> {
    let (device, offset_bytes) = engine.setup.extents.place(location)?;
    devices.read(device, offset_bytes, 4096).ok()
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
                _ => read_leaf_again(devices, engine, disk, leaf).map_err(wrap(devices))?,
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
