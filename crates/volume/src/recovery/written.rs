//! Whether the data of a record reached the device. Recovery looks at each block whose batch is not known to be durable, and writes again
//! what it finds. Data that can be read need not be durable: where a flush failed and the power was not cut since, the device may have
//! given up writing the data, and shows it only as long as its cache does.

use super::report::{RecoveryReport, Unread};
use super::survey::Survey;
use super::torn;
use crate::engine::{Lost, Map, Setup};
use crate::io::Devices;
use crate::layout::moved::{Moved, destinations};
use crate::layout::packed::is_stored;
use crate::layout::page::{BLOCK_GRAINS, GRAIN_BYTES, Span, Window};
use crate::layout::record::Record;
use crate::layout::root::Root;
use crate::layout::stored::{Stored, places};
use crate::runs::Runs;
use crate::space::extents::Extents;
use forebay_block::{Buf, DiskId, IoError, IoErrorKind, Op, SharedBuf, Vectored};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A block that was found, and could not be written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unwritten {
    disk: DiskId,
    block: u64,
    location: u64,
}

/// What may not be durable in spite of all that recovery does.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    unwritten: BTreeSet<Unwritten>,
    /// Blocks whose data cannot be read at the place that a record names.
    unseen: BTreeSet<(DiskId, u64)>,
    /// Those that a later read may find, with the device and the reason why they cannot be read.
    unread: BTreeMap<Unwritten, (usize, IoError)>,
    /// Those of `unread` that took the place of something else in the map.
    replacing: BTreeSet<Unwritten>,
}

/// Whether a block of a record has its data on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// Its data is there, or was there once.
    Yes,
    /// Its data is not there: what the map had before stays.
    No,
    /// Its data cannot be read now, but a later read may find it.
    Unread,
}

impl Doubt {
    /// A block that cannot be read has taken the place of something else in the map.
    pub fn replaces(&mut self, disk: DiskId, block: u64, location: u64) {
        self.replacing.insert(Unwritten { disk, block, location });
    }

    /// The blocks for which the opening would give up what the map had before, although they may not have arrived. To be called when all
    /// records are applied.
    pub fn replacing(&self, map: &Map) -> Option<Unread> {
        let is_needed = |found: &Unwritten| {
            self.replacing.contains(found) && !map.has_left(found.disk, found.block, found.location)
        };
        self.unread_where(is_needed)
    }

    /// Reads the data that a record names, and notes the blocks that cannot be read and may have arrived.
    pub fn look(&mut self, devices: &mut Devices, extents: &Extents, survey: &Survey, numbered: (u64, Record)) {
        let unit_grains = devices.unit_grains();
        let numbered = [numbered];
        let data = read_data(devices, extents, &numbered).pop().flatten();
        let [(sequence, record)] = numbered;
        let begin = record.data().map_or(0, |(location, _)| location / BLOCK_GRAINS * BLOCK_GRAINS);
        for Name { span, disk, block, crc } in names(&record) {
            let location = span.location;
            let is_block = |bytes: &[u8]| is_stored(disk, block, bytes, crc);
            let read = data.as_ref().and_then(|data| data.get(bytes_of(span, begin)));
            if read.is_none_or(|read| !is_block(read))
                && !survey.was_moved_on(location, disk, block, crc, sequence)
                && let Err((device, error)) = read_block(devices, (extents, unit_grains), span, is_block)
                && error.kind != IoErrorKind::Missing
            {
                self.unread.insert(Unwritten { disk, block, location }, (device, error));
            }
        }
    }

    /// All that cannot be read and may have arrived.
    pub fn unread(&self) -> Option<Unread> {
        self.unread_where(|_| true)
    }

    fn unread_where(&self, is_needed: impl Fn(&Unwritten) -> bool) -> Option<Unread> {
        let mut needed = self.unread.iter().filter(|(found, _)| is_needed(found));
        let (first, error) = needed.next()?;
        Some(Unread { blocks: 1 + needed.count(), first: (first.disk, first.block), error: error.clone() })
    }

    /// What counts as lost once all records are applied: a block that could not be written again, unless later records put it elsewhere or
    /// nowhere. Then its new state has to be durable; where this could not be read, it is not known to be, and the block counts as lost as
    /// well.
    pub fn lost(self, map: &Map) -> Lost {
        let mut lost = Lost::default();
        for Unwritten { disk, block, location } in self.unwritten {
            let has_left = map.has_left(disk, block, location) && !self.unseen.contains(&(disk, block));
            lost.add(disk, u64::from(!has_left));
        }
        lost
    }
}

/// The bytes of a span within a buffer that was read from location `begin` on.
fn bytes_of(span: Span, begin: u64) -> Range<usize> {
    let from = (span.location - begin) as usize * GRAIN_BYTES;
    from..from + usize::from(span.grains) * GRAIN_BYTES
}

/// Which blocks of each record have their data on the device; empty where there is nothing to verify. Whether data that cannot be read
/// arrived is unknown. Such a block does not count as lost, as an older version would then be shown silently: whoever opens the pool
/// decides ([`Doubt::replacing`]). Data that was found is written again, without a flush, to devices with a volatile cache and to those
/// that consist of several; blocks that cannot be written go into `doubt`.
///
/// A block that was moved on is kept even where its place was reused since: the move, whose data was durable before it was recorded,
/// applies only while the map names its source.
///
/// # Errors
/// The device that takes no writes at all, and its failure.
pub(super) fn verified(
    devices: &mut Devices,
    setup: &Setup,
    (survey, root): (&Survey, &Root),
    records: &[(u64, Record)],
    doubt: &mut Doubt,
    report: &mut RecoveryReport,
) -> Result<Vec<Vec<Arrived>>, (usize, IoError)> {
    let mut again = Vec::new();
    let mut verified = Vec::with_capacity(records.len());
    for ((sequence, record), data) in records.iter().zip(read_data(devices, &setup.extents, records)) {
        let names = names(record);
        let begin = record.data().map_or(0, |(location, _)| location / BLOCK_GRAINS * BLOCK_GRAINS);
        let mut arrived = vec![Arrived::Yes; names.len()];
        let mut run = PackedRun::of(record, data.as_deref());
        for (&Name { span, disk, block, crc }, arrived) in names.iter().zip(&mut arrived) {
            let at = span.location;
            let is_block = |bytes: &[u8]| is_stored(disk, block, bytes, crc);
            let Range { start: from, .. } = bytes_of(span, begin);
            let read = data.as_ref().and_then(|data| data.get(bytes_of(span, begin)));
            let is_again = setup.extents.place(at).is_some_and(|(device, _)| setup.is_written_again(device));
            // Compressed blocks share blocks of the device. Where they were moved, they were durable before the record. Where they were
            // written, all that share a block are of this record, and `run` writes them again together.
            let may_be_lost = span.is_whole() && is_again && run.is_none();
            if let Some(read) = read.filter(|read| is_block(read)) {
                run.iter_mut().for_each(|run| run.has(from, read));
                if may_be_lost {
                    again.push((at, smallvec![Unwritten { disk, block, location: at }], Buf::copy_of(read)));
                }
            } else if !survey.was_moved_on(at, disk, block, crc, *sequence) {
                // One unreadable sector says nothing of the other blocks of the request, and one misread shows nothing at all.
                match read_block(devices, (&setup.extents, setup.unit_grains), span, is_block) {
                    Ok(bytes) if is_block(&bytes) && may_be_lost => {
                        again.push((at, smallvec![Unwritten { disk, block, location: at }], bytes))
                    }
                    Ok(bytes) if is_block(&bytes) => run.iter_mut().for_each(|run| run.has(from, &bytes)),
                    _ if setup.options.faults.checksums_ignored() => {}
                    Ok(_) => *arrived = Arrived::No,
                    Err((_, error)) if error.kind == IoErrorKind::Missing => *arrived = Arrived::No,
                    Err(error) => {
                        *arrived = Arrived::Unread;
                        doubt.unseen.insert((disk, block));
                        doubt.unread.insert(Unwritten { disk, block, location: at }, error);
                    }
                }
            }
        }
        if let Some(run) = run
            && setup.extents.place(begin).is_some_and(|(device, _)| setup.is_written_again(device))
        {
            match run.into_bytes(names.len()) {
                Some(bytes) => {
                    let blocks = (begin..).step_by(BLOCK_GRAINS as usize).zip(bytes.chunks_exact(4096));
                    again.extend(blocks.map(|(at, block)| (at, within(&names, at), Buf::copy_of(block))));
                }
                None => {
                    let there = names.iter().zip(&arrived).filter(|(_, arrived)| **arrived != Arrived::No);
                    doubt.unwritten.extend(there.map(|(name, _)| name.unwritten()));
                }
            }
        }
        report.dropped_blocks += arrived.iter().filter(|&&arrived| arrived == Arrived::No).count() as u64;
        verified.push(arrived);
    }
    if let Some(array) = devices.array() {
        let mut rows = Runs::default();
        for (_, record) in records {
            torn::rows(array.shape(), setup, (&survey.recorded, root), record, &mut rows);
        }
        array.add_maybe_torn(rows);
    }
    write_again(devices, setup, again, doubt)?;
    Ok(verified)
}

/// The bytes of a write of which some blocks are compressed. The device's blocks that it fills hold nothing else.
struct PackedRun {
    bytes: Vec<u8>,
    /// All bytes were read in one piece.
    is_read: bool,
    /// How many of its blocks were found good.
    good: usize,
}

impl PackedRun {
    /// `None` where the record is no such write.
    fn of(record: &Record, data: Option<&[u8]>) -> Option<Self> {
        let Record::Write { stored, .. } = record else { return None };
        stored.iter().find(|stored| !stored.is_whole())?;
        let (_, grains) = record.data()?;
        let unread = || vec![0; grains.div_ceil(BLOCK_GRAINS) as usize * 4096];
        Some(Self { bytes: data.map_or_else(unread, <[u8]>::to_vec), is_read: data.is_some(), good: 0 })
    }

    /// Notes that a block of it is good, with its bytes.
    fn has(&mut self, from: usize, block: &[u8]) {
        self.good += 1;
        if let Some(place) = self.bytes.get_mut(from..from + block.len()) {
            place.copy_from_slice(block);
        }
    }

    /// The bytes of the write, which has so many blocks; `None` where not all are known. A block that is not good is written again as it
    /// lies.
    fn into_bytes(self, blocks: usize) -> Option<Vec<u8>> {
        (self.is_read || self.good == blocks).then_some(self.bytes)
    }
}

/// A block that a record says was written.
struct Name {
    span: Span,
    disk: DiskId,
    block: u64,
    crc: u32,
}

impl Name {
    fn unwritten(&self) -> Unwritten {
        Unwritten { disk: self.disk, block: self.block, location: self.span.location }
    }
}

/// The blocks of which a part or all lies in the device's block at a location.
fn within(names: &[Name], at: u64) -> SmallVec<[Unwritten; 1]> {
    let meets = |name: &&Name| {
        let Span { location, grains } = name.span;
        location < at + BLOCK_GRAINS && location + u64::from(grains) > at
    };
    names.iter().filter(meets).map(Name::unwritten).collect()
}

/// The blocks that a record says were written.
fn names(record: &Record) -> Vec<Name> {
    match record {
        Record::Write { disk, block, location, stored, .. } => {
            let each = (*block..).zip(places(*location, stored));
            each.map(|(block, (span, stored))| Name { span, disk: *disk, block, crc: stored.checksum }).collect()
        }
        Record::Move { location, moved, .. } => destinations(*location, moved)
            .map(|(location, &Moved { disk, block, stored: Stored { grains, checksum: crc }, .. })| Name {
                span: Span { location, grains },
                disk,
                block,
                crc,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Reads the data of these records, in parallel: one by one, each would cost a latency of the device. `None` where a
/// record has none, and where it cannot be read.
fn read_data(devices: &mut Devices, extents: &Extents, records: &[(u64, Record)]) -> Vec<Option<Buf>> {
    let mut data: Vec<Option<Buf>> = records.iter().map(|_| None).collect();
    let (mut reads, mut wanted) = (Vec::new(), Vec::new());
    for (i, (_, record)) in records.iter().enumerate() {
        if let Some((location, grains)) = record.data()
            && let first = location / BLOCK_GRAINS
            && let Some((device, offset_bytes)) = extents.place(first * BLOCK_GRAINS)
        {
            let blocks = ((location + grains).div_ceil(BLOCK_GRAINS) - first) as usize;
            let bufs = Vectored::One(Buf::new(blocks * 4096));
            reads.push((device, offset_bytes, Op::Read { bufs, attempt: devices.of_one_copy(device) }));
            wanted.push((i, (device, offset_bytes, blocks * 4096)));
        }
    }
    for ((i, (device, offset_bytes, len_bytes)), completion) in wanted.into_iter().zip(devices.run(reads)) {
        data[i] = match (completion.result, completion.bufs) {
            (Ok(()), Some(Vectored::One(buf))) => Some(buf),
            // What is decided here is final: one failed read is not enough.
            _ => devices.read_copy(device, offset_bytes, len_bytes, devices.of_one_copy(device)).ok(),
        };
    }
    data
}

/// Neighbours to be written in one request: device, offset, and the blocks with what lies in each.
type Run = (usize, u64, Vec<(SmallVec<[Unwritten; 1]>, SharedBuf)>);

/// Writes blocks to where they were read, in the order of their locations, neighbours in one request. The same data lies there already, so
/// nothing changes wherever this is interrupted.
fn write_again(
    devices: &mut Devices,
    setup: &Setup,
    blocks: Vec<(u64, SmallVec<[Unwritten; 1]>, Buf)>,
    doubt: &mut Doubt,
) -> Result<(), (usize, IoError)> {
    let mut runs: Vec<Run> = Vec::new();
    // Two records of one place both found the same data there.
    let blocks: BTreeMap<u64, (SmallVec<[Unwritten; 1]>, Buf)> =
        blocks.into_iter().map(|(location, holds, block)| (location, (holds, block))).collect();
    for (location, (holds, block)) in blocks {
        let Some((device, offset_bytes)) = setup.extents.place(location) else { continue };
        match runs.last_mut() {
            Some((on, at, blocks)) if (*on, *at + 4096 * blocks.len() as u64) == (device, offset_bytes) => {
                blocks.push((holds, block.freeze()));
            }
            _ => runs.push((device, offset_bytes, vec![(holds, block.freeze())])),
        }
    }
    let bad = write_runs(devices, runs);
    // One sector that cannot be written says nothing of its neighbours.
    let single = |(device, at, blocks): Run| {
        (at..).step_by(4096).zip(blocks).map(move |(at, block)| (device, at, vec![block])).collect::<Vec<Run>>()
    };
    for ((device, _, blocks), error) in write_runs(devices, bad.into_iter().flat_map(|(run, _)| single(run)).collect())
    {
        if error.kind == IoErrorKind::Gone {
            return Err((device, error));
        }
        doubt.unwritten.extend(blocks.into_iter().flat_map(|(holds, _)| holds));
    }
    Ok(())
}

/// Writes runs, and returns those that could not be written.
fn write_runs(devices: &mut Devices, runs: Vec<Run>) -> Vec<(Run, IoError)> {
    let write = |(device, at, blocks): &Run| {
        let bufs = blocks.iter().map(|(_, block)| block.clone()).collect();
        (*device, *at, Op::Write { bufs: Vectored::Many(bufs), fua: false })
    };
    let ended = devices.run(runs.iter().map(write).collect());
    runs.into_iter().zip(ended).filter_map(|(run, ended)| Some((run, ended.result.err()?))).collect()
}

/// The stored bytes of one block: of the first copy that is good, otherwise of any copy that can be read. A readable copy with other
/// content counts for more than an unreadable one: the power may have gone while it was written, which may also be why the other cannot be
/// read.
///
/// # Errors
/// The device, and why none of its copies can be read.
fn read_block(
    devices: &mut Devices,
    (extents, unit_grains): (&Extents, u64),
    span: Span,
    is_good: impl Fn(&[u8]) -> bool,
) -> Result<Buf, (usize, IoError)> {
    let window = Window::of(span, unit_grains);
    let nowhere = IoError { kind: IoErrorKind::Missing, operation: "read", offset_bytes: 0, os_error: 0 };
    let (device, offset_bytes) = extents.place(window.first).ok_or((0, nowhere))?;
    let of_one_copy = devices.of_one_copy(device);
    // The block was read once already, together with its neighbours.
    let attempts = if of_one_copy == 0 { 1..devices.readings(device) } else { 0..devices.copies() };
    let (mut first, mut failure) = (None, None);
    for attempt in attempts {
        match devices.read_copy(device, offset_bytes, window.len_bytes, attempt | of_one_copy) {
            Ok(bytes) => match window.stored(span, &bytes).map(Buf::copy_of) {
                Some(stored) if is_good(&stored) => return Ok(stored),
                stored => first = first.or(stored),
            },
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let short = IoError { kind: IoErrorKind::Short, operation: "read", offset_bytes, os_error: 0 };
    first.ok_or_else(|| (device, failure.unwrap_or(short)))
}
