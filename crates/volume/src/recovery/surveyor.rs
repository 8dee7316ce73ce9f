//! Reads the journal once, before anything is decided, and judges whether a pool may be opened with what was found.

use super::durable::Watermarks;
use super::report::OpenError;
use super::survey::{MissingBatches, MovedFrom, Survey};
use crate::io::Devices;
use crate::journal::JournalGeometry;
use crate::journal::scan::{ScanEnd, ScanStart, scan};
use crate::layout::band_summary::BandShape;
use crate::layout::batch::BatchHeader;
use crate::layout::moved::Moved;
use crate::layout::record::Record;
use crate::layout::root::{Root, RootHeader};
use crate::layout::superblock::Superblock;
use crate::space::extents::Extents;
use forebay_block::IoError;
use std::collections::VecDeque;

/// Where the journal of a root starts.
fn start_of(header: &RootHeader, root: &Root) -> ScanStart {
    ScanStart { position: root.journal_position, batch: root.journal_batch, epoch: header.epoch }
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
    scan(devices, geometry, &superblock.pool, start_of(header, root), |devices, bytes, batch, _| {
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
    let start = start_of(header, root);
    let mut marks = Watermarks::read(devices, &superblock.pool, header.epoch)?;
    // Where no watermark can be read, nobody knows whether the journal that was found is all of it.
    let unread_marks = marks.unread.take();
    let mut surveyor = Surveyor::new(devices, superblock, root, Survey::new(start, marks, root.next_sequence));
    let end = scan(devices, geometry, &superblock.pool, start, |_, _, batch, records| {
        surveyor.batch(&batch, &records);
        Ok(())
    })
    .map_err(OpenError::of_device(devices, 0))?;
    let unread = unread_marks.or_else(|| end.unread.clone());
    surveyor.survey.is_unread = unread.is_some() && !surveyor.is_empty();
    let refused = unread.filter(|_| missing_batches == MissingBatches::Refuse);
    surveyor.refuse_unread(devices, refused.as_ref())?;
    surveyor.refuse_older_root(header)?;
    surveyor.refuse_impossible()?;
    if missing_batches.are_refused() {
        surveyor.refuse_lost(devices, &end, refused)?;
    }
    Ok(surveyor.finish(end, BandShape::new(superblock.band_bytes)))
}

/// Takes in the journal of a root, batch by batch.
struct Surveyor<'a> {
    root: &'a Root,
    extents: Extents,
    /// The capacity tier has parity.
    has_parity: bool,
    survey: Survey,
    /// Number after the last batch.
    next_batch: u64,
    /// Batches that were not found, though later ones were.
    missing: Vec<u64>,
    /// The newest checkpoint that a batch names.
    newest_checkpoint: u64,
    /// The first batch with a record that names a place where no data can be.
    impossible: Option<u64>,
    /// By batch, so that moves can be dropped once a later header proves them durable: bounded by the unflushed window.
    moves: VecDeque<(u64, MovedFrom)>,
}

impl<'a> Surveyor<'a> {
    fn new(devices: &Devices, superblock: &Superblock, root: &'a Root, survey: Survey) -> Self {
        Self {
            root,
            extents: Extents::new(&superblock.members, superblock.band_bytes),
            has_parity: devices.array().is_some(),
            next_batch: survey.start.batch,
            survey,
            missing: Vec::new(),
            newest_checkpoint: 0,
            impossible: None,
            moves: VecDeque::new(),
        }
    }

    /// Takes in the next batch that was found.
    fn batch(&mut self, batch: &BatchHeader, records: &[Record]) {
        self.missing.extend(self.next_batch..batch.batch);
        self.next_batch = batch.batch + 1;
        self.newest_checkpoint = self.newest_checkpoint.max(batch.checkpoint);
        self.survey.batches += 1;
        self.survey.durable.take_header(batch);
        let durable = self.survey.durable.to();
        while self.moves.pop_front_if(|(number, _)| *number <= durable).is_some() {}
        self.survey.recorded.mark_durable_to(durable);
        self.survey.next_sequence = self.survey.next_sequence.max(batch.first_sequence + records.len() as u64);
        for (i, record) in records.iter().enumerate() {
            let sequence = batch.first_sequence + i as u64;
            if let Record::Cancel { sequence } = record {
                self.survey.cancelled.insert(*sequence);
            }
            if self.root.must_apply(sequence) {
                self.survey.recorded.found(sequence, self.root);
                self.record(batch.batch, sequence, record);
            }
        }
    }

    /// Takes in a record that is to be applied.
    fn record(&mut self, batch: u64, sequence: u64, record: &Record) {
        if !self.is_possible(record) {
            self.impossible.get_or_insert(batch);
        }
        if let Some(data) = record.data().filter(|(at, _)| self.has_parity && !self.extents.is_fast(*at)) {
            self.survey.recorded.add(batch, data);
        }
        match record {
            Record::Write { disk, block, stored, .. } => self.survey.needs(*disk, *block, stored.len() as u64),
            Record::Zero { disk, block, blocks } | Record::Discard { disk, block, blocks } => {
                self.survey.needs(*disk, *block, u64::from(*blocks));
                self.survey.clear(*disk, *block, u64::from(*blocks), sequence);
            }
            Record::Reclass { disk, block, blocks, .. } => self.survey.needs(*disk, *block, u64::from(*blocks)),
            Record::Move { moved, .. } => {
                for moved in moved {
                    self.survey.needs(moved.disk, moved.block, 1);
                    self.moves.push_back((batch, source_of(moved, sequence)));
                }
            }
            Record::Damage { blocks } => blocks.iter().for_each(|it| self.survey.needs(it.disk, it.block, 1)),
            Record::Cancel { .. } => {}
        }
    }

    /// Whether data can be where a record says that it was written.
    fn is_possible(&self, record: &Record) -> bool {
        record.data().is_none_or(|(location, grains)| {
            self.extents.holds_data(location, grains)
                && record.is_aligned()
                && !(record.is_packed() && self.extents.is_fast(location))
        })
    }

    /// Whether there is nothing behind the root of a clean stop, as it should be.
    fn is_empty(&self) -> bool {
        self.root.clean && self.survey.batches == 0
    }

    /// Refuses a journal of which a part could not be read that may hold durable batches.
    fn refuse_unread(&self, devices: &Devices, unread: Option<&IoError>) -> Result<(), OpenError> {
        match unread {
            Some(error) if !self.is_empty() => Err(unread_journal(devices, error.clone())),
            _ => Ok(()),
        }
    }

    /// Refuses a root that the journal proves not to be the newest one.
    fn refuse_older_root(&self, header: &RootHeader) -> Result<(), OpenError> {
        if self.newest_checkpoint <= header.checkpoint {
            return Ok(());
        }
        let what = format!("the journal proves that it existed, the newest root found is {}", header.checkpoint);
        Err(OpenError::Root { checkpoint: self.newest_checkpoint, what })
    }

    /// Refuses records that name places where no data can be.
    fn refuse_impossible(&self) -> Result<(), OpenError> {
        self.impossible.map_or(Ok(()), |batch| Err(OpenError::Record { batch }))
    }

    /// Refuses a journal without a batch that is known to have been durable. `unread`: why it may be there all the same.
    fn refuse_lost(&self, devices: &Devices, end: &ScanEnd, unread: Option<IoError>) -> Result<(), OpenError> {
        let durable = &self.survey.durable;
        let lost = self.missing.iter().copied().find(|&batch| durable.is_durable(batch));
        // Where batches beyond the last one found are known to have been durable, the end of the journal itself is gone.
        let Some(batch) = lost.or_else(|| durable.first_from(end.batch)) else { return Ok(()) };
        let lost = OpenError::Journal { batch, durable: durable.to().max(batch) };
        Err(unread.map_or(lost, |error| unread_journal(devices, error)))
    }

    /// What the journal holds, after all of it was taken in.
    fn finish(mut self, end: ScanEnd, shape: BandShape) -> Survey {
        let Survey { durable, moved, recorded, .. } = &mut self.survey;
        moved.extend(self.moves.into_iter().filter(|(batch, _)| *batch > durable.to()).map(|(_, source)| source));
        recorded.end(|batch| durable.is_durable(batch), self.root, &self.extents, shape);
        self.survey.holes = self.missing.len() as u64 + durable.count_from(end.batch);
        self.survey.end = end;
        self.survey
    }
}

fn unread_journal(devices: &Devices, source: IoError) -> OpenError {
    OpenError::UnreadJournal { device: devices.list[0].name().to_owned(), source }
}

/// What a move took from where.
fn source_of(moved: &Moved, sequence: u64) -> MovedFrom {
    let Moved { disk, block, checksum, source, .. } = moved;
    MovedFrom { location: source.location, disk: disk.0, block: *block, checksum: *checksum, sequence }
}
