//! What the journal holds: how far it goes, how far it was durable, what was cancelled, and which leaves it needs.

use super::report::OpenError;
use super::torn::Recorded;
use crate::io::Devices;
use crate::journal::JournalGeometry;
use crate::journal::scan::{ScanEnd, ScanStart, scan};
use crate::layout::band_summary::BandShape;
use crate::layout::batch::EXCEPTIONS;
use crate::layout::page::LEAF_ENTRIES;
use crate::layout::record::Record;
use crate::layout::root::{Root, RootHeader};
use crate::layout::superblock::Superblock;
use crate::layout::watermark::{OFFSETS_BYTES, Watermark};
use crate::space::extents::Extents;
use forebay_block::DiskId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How often something is read before it counts as lost or damaged: decisions of recovery are final.
const READINGS: u8 = 2;

/// What to do about journal batches that were durable and are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingBatches {
    /// Do not open: which blocks they changed is unknown.
    Refuse,
    /// Do not open where batches are known to be gone, but go on where a part of the journal cannot be read: the operator gives up what may
    /// be there.
    RefuseKnown,
    /// Go on without them, for salvage.
    Skip,
}

impl MissingBatches {
    /// Whether batches that are known to be gone keep the pool from being opened.
    pub fn are_refused(self) -> bool {
        self != Self::Skip
    }
}

/// What the journal holds.
pub(super) struct Survey {
    pub start: ScanStart,
    pub end: ScanEnd,
    pub next_sequence: u64,
    /// Batches up to this one were durable.
    durable: u64,
    /// Batches above it that were durable as well.
    exceptions: BTreeSet<u64>,
    pub cancelled: BTreeSet<u64>,
    /// Leaves that records name.
    pub leaves: BTreeSet<(u16, u64)>,
    /// By leaf: the most blocks, from the first of the leaf on, that one record clears, and the sequence of that record.
    cleared: BTreeMap<(u16, u64), (u64, u64)>,
    /// Sources of moves in batches not known durable: (location, disk, block, checksum, sequence of the move).
    moved: BTreeSet<(u64, u16, u64, u32, u64)>,
    /// What records say of bands of a tier with parity; empty where there is no parity.
    pub recorded: Recorded,
    pub batches: u64,
    pub holes: u64,
    pub watermark_serial: u64,
    /// A part of the journal that may hold durable batches could not be read.
    pub is_unread: bool,
}

impl Survey {
    /// Whether a later move took this block from this place.
    pub fn was_moved_on(&self, location: u64, disk: DiskId, block: u64, crc: u32, sequence: u64) -> bool {
        let later = |sequence| (location, disk.0, block, crc, sequence);
        self.moved.range(later(sequence)..=later(u64::MAX)).next().is_some()
    }

    /// Whether a record clears all of a leaf, on a disk of `disk_blocks` blocks: then the page of the leaf is not needed.
    pub fn clears(&self, disk: DiskId, leaf: u64, disk_blocks: u64) -> bool {
        let blocks = disk_blocks.saturating_sub(leaf * LEAF_ENTRIES as u64).min(LEAF_ENTRIES as u64);
        self.cleared
            .get(&(disk.0, leaf))
            .is_some_and(|&(cleared, sequence)| cleared >= blocks && !self.cancelled.contains(&sequence))
    }

    pub fn is_durable(&self, batch: u64) -> bool {
        batch <= self.durable || self.exceptions.contains(&batch)
    }
}

/// Leaves that a run of blocks touches.
fn leaves_of(disk: DiskId, block: u64, blocks: u64, leaves: &mut BTreeSet<(u16, u64)>) {
    let (first, last) = (block / LEAF_ENTRIES as u64, (block + blocks.max(1) - 1) / LEAF_ENTRIES as u64);
    leaves.extend((first..=last).map(|leaf| (disk.0, leaf)));
}

/// Writes each batch that any copy of the journal has to all copies, at its place: what recovery decides by a batch then holds whatever
/// becomes of one copy.
pub(super) fn write_to_all(
    devices: &mut Devices,
    geometry: JournalGeometry,
    superblock: &Superblock,
    header: &RootHeader,
    root: &Root,
) -> Result<(), OpenError> {
    let start = ScanStart { position: root.journal_position, batch: root.journal_batch, epoch: header.epoch };
    scan(devices, geometry, &superblock.pool, start, |devices, bytes, batch, _| {
        devices.write(0, geometry.offset_bytes + batch.position % geometry.len_bytes, bytes)
    })
    .map_err(OpenError::of_device(devices, 0))?;
    devices.flush(0).map_err(OpenError::of_device(devices, 0))
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
        cleared: BTreeMap::new(),
        moved: BTreeSet::new(),
        recorded: Recorded::default(),
        batches: 0,
        holes: 0,
        watermark_serial: 0,
        is_unread: false,
    };
    let (mut is_any_read, mut unread) = (false, None);
    for offset_bytes in OFFSETS_BYTES {
        // What does not decode as a watermark is read once more: one bad transfer must not make durable batches doubtful. One of the two
        // watermarks may be unreadable, just as it may be damaged.
        let mut mark = None;
        for attempt in 0..READINGS.max(devices.copies()) {
            match devices.read_one_of(0, offset_bytes, 4096, attempt).map_err(OpenError::of_device(devices, 0))? {
                Ok(bytes) => {
                    is_any_read = true;
                    let other = Watermark::decode(&bytes, &superblock.pool);
                    mark = mark.into_iter().chain(other).max_by_key(|mark: &Watermark| mark.serial);
                }
                Err(error) => unread = Some(error),
            }
        }
        if let Some(mark) = mark {
            survey.watermark_serial = survey.watermark_serial.max(mark.serial);
            if mark.epoch == header.epoch {
                survey.durable = survey.durable.max(mark.batch);
                survey.exceptions.extend(mark.durable_beyond());
            }
        }
    }
    let extents = Extents::new(&superblock.members, superblock.band_bytes);
    let mut impossible = None;
    let mut missing = Vec::new();
    // By batch, so that moves can be dropped once a later header proves them durable: bounded by the unflushed window.
    let mut moves = VecDeque::new();
    let mut expected = start.batch;
    let mut newest_checkpoint = 0;
    let has_parity = devices.array().is_some();
    let end = scan(devices, geometry, &superblock.pool, start, |_, _, batch, records| {
        missing.extend(expected..batch.batch);
        expected = batch.batch + 1;
        newest_checkpoint = newest_checkpoint.max(batch.checkpoint);
        survey.batches += 1;
        survey.durable = survey.durable.max(batch.durable);
        while moves.front().is_some_and(|(number, _)| *number <= survey.durable) {
            moves.pop_front();
        }
        survey.recorded.is_durable_to(survey.durable);
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
            if let Some((location, grains)) = record.data()
                && (!extents.holds_data(location, grains)
                    || !record.is_aligned()
                    || record.is_packed() && extents.is_fast(location))
            {
                impossible.get_or_insert(batch.batch);
            }
            if let Some(data) = record.data().filter(|(at, _)| has_parity && !extents.is_fast(*at)) {
                survey.recorded.add(batch.batch, data);
            }
            match record {
                Record::Write { disk, block, stored, .. } => {
                    leaves_of(*disk, *block, stored.len() as u64, &mut survey.leaves);
                }
                Record::Zero { disk, block, blocks } | Record::Discard { disk, block, blocks } => {
                    leaves_of(*disk, *block, u64::from(*blocks), &mut survey.leaves);
                    if block.is_multiple_of(LEAF_ENTRIES as u64) {
                        let cleared = survey.cleared.entry((disk.0, block / LEAF_ENTRIES as u64)).or_default();
                        *cleared = (*cleared).max((u64::from(*blocks), sequence));
                    }
                }
                Record::Reclass { disk, block, blocks, .. } => {
                    leaves_of(*disk, *block, u64::from(*blocks), &mut survey.leaves);
                }
                Record::Move { moved, .. } => {
                    moved.iter().for_each(|m| leaves_of(m.disk, m.block, 1, &mut survey.leaves));
                    moves.extend(
                        moved
                            .iter()
                            .map(|m| (batch.batch, (m.source.location, m.disk.0, m.block, m.checksum, sequence))),
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
    .map_err(OpenError::of_device(devices, 0))?;
    // Behind the root of a clean stop there are no batches.
    let is_empty = root.clean && survey.batches == 0;
    // Where no watermark can be read, nobody knows whether the journal that was found is all of it.
    let unread = unread.filter(|_| !is_any_read).or_else(|| end.unread.clone());
    survey.is_unread = unread.is_some() && !is_empty;
    let refused = unread.filter(|_| missing_batches == MissingBatches::Refuse);
    let unread = refused.map(|source| OpenError::UnreadJournal { device: devices.list[0].name().to_owned(), source });
    if let (Some(error), false) = (unread.clone(), is_empty) {
        return Err(error);
    }
    if newest_checkpoint > header.checkpoint {
        return Err(OpenError::Root {
            checkpoint: newest_checkpoint,
            what: format!("the journal proves that it existed, the newest root found is {}", header.checkpoint),
        });
    }
    if let Some(batch) = impossible {
        return Err(OpenError::Record { batch });
    }
    // Where batches beyond the last one found are known to have been durable, the end of the journal itself is gone.
    let exceptions = survey.exceptions.range(end.batch.max(survey.durable + 1)..);
    let holes_behind = (survey.durable + 1).saturating_sub(end.batch) + exceptions.clone().count() as u64;
    let lost_end = if survey.durable >= end.batch { Some(end.batch) } else { exceptions.min().copied() };
    let lost = missing.iter().copied().find(|&batch| survey.is_durable(batch)).or(lost_end);
    if let Some(batch) = lost.filter(|_| missing_batches.are_refused()) {
        // The batch may be there but unreadable.
        return Err(unread.unwrap_or(OpenError::Journal { batch, durable: survey.durable.max(batch) }));
    }
    let durable = survey.durable;
    survey.moved.extend(moves.into_iter().filter(|(batch, _)| *batch > durable).map(|(_, source)| source));
    let mut recorded = std::mem::take(&mut survey.recorded);
    recorded.end(|batch| survey.is_durable(batch), root, &extents, BandShape::new(superblock.band_bytes));
    survey.recorded = recorded;
    survey.holes = missing.len() as u64 + holes_behind;
    survey.end = end;
    Ok(survey)
}
