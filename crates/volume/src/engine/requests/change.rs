//! From segments to the map: data and records are written in parallel. The map changes when both have arrived; where
//! one failed it does not change.

use super::piece::{Fill, Segment};
use crate::engine::append::Append;
use crate::engine::copies::Originals;
use crate::engine::{Engine, Freed, Pending};
use crate::layout::band_summary::SummaryEntry;
use crate::layout::page::BLOCK_GRAINS;
use crate::layout::record::{Record, Target, packed_write_bytes, put_write, write_bytes};
use crate::layout::stored::Stored;
use crate::layout::stream::{Lifetime, Stream, class_hint};
use crate::request::RequestError;
use forebay_block::{BLOCK_BYTES as BLOCK, IoError, IoErrorKind, SharedBuf};
use forebay_prism::Place;
use smallvec::SmallVec;

impl Engine {
    /// Sets whether writes that bypass the fast tier are durable when they are answered. This is for devices whose caches are this process's memory, below
    /// clients that outlive the process and go on with its successor: such clients have no reason to write answered data again.
    pub fn write_through(&mut self, is_on: bool) {
        self.bypass.is_written_through = is_on;
    }

    /// Appends the record of each segment and sends its data.
    pub(crate) fn issue_segments(&mut self, id: u32, data: Option<&SharedBuf>) {
        // One of each is for this function: what completes at once must not end the piece early.
        self.requests.pieces[id as usize].outstanding = 1;
        self.requests.pieces[id as usize].data_outstanding = 1;
        let mut append: Option<Append> = None;
        for index in 0..self.requests.pieces[id as usize].segments.len() {
            self.record_segment(id, index);
            if let Some(data) = data {
                self.send_segment(id, index, data, &mut append);
            }
        }
        if let Some(append) = append {
            self.send_append(id, append);
        }
        // The sizes are needed until the map has changed; the bytes are on their way already.
        self.requests.pieces[id as usize].packed = Vec::new();
        self.data_part_done(id);
        self.change_part_done(id);
    }

    /// Appends the record of a segment to the journal. The piece joins the batch that has it.
    fn record_segment(&mut self, id: u32, index: usize) {
        let segment = self.requests.pieces[id as usize].segments[index];
        let record_bytes = match segment.fill {
            Fill::Data { .. } if segment.is_packed() => packed_write_bytes(segment.blocks.into()),
            Fill::Data { .. } => write_bytes(segment.blocks.into()),
            _ => write_bytes(0),
        };
        if !self.journal.fits(record_bytes) {
            self.seal_batch(false);
        }
        let journal_at = self.journal.head();
        let (batch, sequence) = self.append_record(id, &segment);
        let piece = &mut self.requests.pieces[id as usize];
        piece.segments[index].sequence = sequence;
        piece.journal_at.get_or_insert(journal_at);
        if piece.batches.last() != Some(&batch) {
            piece.batches.push(batch);
            piece.outstanding += 1;
            self.journal.join(id);
        }
        if !piece.fua {
            let place = segment.location().and_then(|at| self.setup.extents.place(at));
            self.journal.add_devices(place.map_or(0, |(device, _)| 1 << device));
        } else if self.setup.volatile & 1 != 0 {
            // Past the cache only where there is one: a device without a volatile cache gains nothing by FUA, and may
            // be asked in a dearer way.
            self.journal.make_durable();
        }
    }

    /// Appends the record of a segment; returns its batch and its sequence.
    fn append_record(&mut self, id: u32, segment: &Segment) -> (u64, u64) {
        let piece = &self.requests.pieces[id as usize];
        let (disk, block, blocks) = (piece.disk, piece.block() + u64::from(segment.first), u32::from(segment.blocks));
        match segment.fill {
            Fill::Data { location, class } => {
                let is_fast = self.setup.extents.is_fast(location);
                let lifetime = if is_fast { Lifetime::default() } else { segment.lifetime };
                let to = Target { location, generation: self.space.record_generation(location), lifetime };
                self.journal.append(|out| put_write(out, (disk, block, class), to, piece.stored(segment)))
            }
            Fill::Zero => self.journal.append(|out| Record::Zero { disk, block, blocks }.put(out)),
            Fill::Unmapped => self.journal.append(|out| Record::Discard { disk, block, blocks }.put(out)),
            Fill::Reclass { class } => {
                self.journal.append(|out| Record::Reclass { disk, block, blocks, class }.put(out))
            }
        }
    }

    /// Sends the data of a segment, where it has some. Runs that follow each other in a band are one request, with the summaries between them:
    /// what is before this segment is sent where the two are none.
    fn send_segment(&mut self, id: u32, index: usize, data: &SharedBuf, append: &mut Option<Append>) {
        let piece = &self.requests.pieces[id as usize];
        let (segment, is_fua) = (piece.segments[index], piece.fua);
        let Fill::Data { location, class } = segment.fill else { return };
        let Some((device, offset_bytes)) = self.setup.extents.place(location) else { return };
        let bytes = piece.bytes_of(&segment, data);
        self.flushes.sent(if is_fua { 0 } else { bytes.len() as u64 });
        let hint = match device {
            0 => class_hint(class),
            _ => Stream { is_collected: false, group: segment.lifetime.group, class }.hint(),
        };
        if let Some(before) = append.take_if(|a| device == 0 || !a.meets(device, offset_bytes, hint)) {
            self.send_append(id, before);
        }
        let fua = self.goes_past_cache(device, is_fua);
        let append = append.get_or_insert_with(|| Append::new(device, offset_bytes, hint, fua));
        append.push(bytes);
        self.note_written(id, segment);
        self.summaries.append(append, &mut self.space.bands, location, segment.device_blocks.into());
        let is_of_both = self.prism.table().get(class).is_some_and(|spec| spec.place == Place::Both);
        if device != 0 && !segment.is_packed() && is_of_both {
            self.copy_segment(id, &segment, data);
        }
    }

    /// Whether data is written past the cache of a device. Data that is written through is counted as if it needed a flush, so that one covers
    /// it once more. Nothing is written through where the system implements FUA by a flush: what that cache holds outlives this process.
    fn goes_past_cache(&self, device: usize, is_fua: bool) -> bool {
        let is_flushed = self.setup.flushed_behind & 1 << device != 0;
        let is_through = is_fua || device != 0 && self.bypass.is_written_through && !is_flushed;
        is_through && self.setup.volatile & 1 << device != 0
    }

    /// Makes copies on the fast tier of a segment that goes to the capacity tier. Data comes first: copies get only what is well above the
    /// threshold at which writes go past the tier.
    fn copy_segment(&mut self, id: u32, segment: &Segment, data: &SharedBuf) {
        let Fill::Data { location, class } = segment.fill else { return };
        let piece = &self.requests.pieces[id as usize];
        let range = usize::from(segment.first)..usize::from(segment.first) + usize::from(segment.blocks);
        let originals = Originals {
            disk: piece.disk,
            first: piece.block() + u64::from(segment.first),
            class,
            data: &data.slice(range.start * BLOCK, range.len() * BLOCK),
            named: &piece.checksums[range],
            is_packed: false,
        };
        let kept = self.space.slots.total() * self.setup.options.bypass_below_percent / 100;
        let spare = self.space.data_slots_free().saturating_sub(kept);
        let location = |at: usize| location + BLOCK_GRAINS * at as u64;
        let rooms = (&*self.setup, &mut self.space.slots, &mut self.outbox);
        self.copies.write(&originals, location, spare, rooms);
    }

    /// Sends data of a piece.
    fn send_append(&mut self, id: u32, append: Append) {
        self.requests.pieces[id as usize].data_outstanding += 1;
        let Append { device, offset_bytes, hint, .. } = append;
        let (op, groups) = append.into_op();
        self.outbox.send(device, offset_bytes, hint, op, Pending::Write { piece: id, device, groups });
    }

    /// Notes for the summaries which blocks of a segment go to which place of a band.
    fn note_written(&mut self, id: u32, segment: Segment) {
        let Fill::Data { location, class } = segment.fill else { return };
        if self.setup.extents.is_fast(location) {
            return;
        }
        let piece = &self.requests.pieces[id as usize];
        let (disk, note, origin, mut at) = (piece.disk, segment.lifetime.note, segment.sequence, location);
        for (block, Stored { grains, checksum }) in
            (piece.block() + u64::from(segment.first)..).zip(piece.stored(&segment))
        {
            self.space.note(at, SummaryEntry { disk, class, note, grains: grains.into(), checksum, block, origin });
            at += u64::from(grains);
        }
    }

    pub(crate) fn data_written(&mut self, id: u32, device: usize, result: Result<(), IoError>) {
        match result {
            Ok(()) if self.requests.pieces[id as usize].fua => {}
            Ok(()) => self.flushes.written(device),
            Err(source) => {
                if device > 0 && source.kind == IoErrorKind::NoSpace {
                    self.bypass.note_refusal(self.clock.now_ns());
                }
                let error = self.setup.device_error(device, source);
                self.requests.pieces[id as usize].error.get_or_insert(error);
            }
        }
        self.data_part_done(id);
        self.end_change(id);
    }

    /// A data write of a piece has ended. After the last one the piece's batches have all the data that they name;
    /// where a write failed, the records are cancelled first.
    fn data_part_done(&mut self, id: u32) {
        let piece = &mut self.requests.pieces[id as usize];
        piece.data_outstanding -= 1;
        if piece.data_outstanding > 0 {
            return;
        }
        if piece.error.is_none() {
            return self.complete_parts(id);
        }
        if piece.journal_lost {
            return;
        }
        if !self.journal.accepts(write_bytes(0) * piece.segments.len(), true) {
            // Without a cancel record only the data, which does not match them, shows that these records are void. So
            // their batches never count as durable, and recovery checks each block.
            let why = piece.error.as_ref().map(ToString::to_string).unwrap_or_default();
            self.requests.pieces[id as usize].journal_lost = true;
            self.set_read_only(&format!("data could not be written while the journal was full: {why}"));
            return;
        }
        let sequences: SmallVec<[u64; 4]> = piece.segments.iter().map(|segment| segment.sequence).collect();
        for sequence in sequences {
            if !self.journal.fits(write_bytes(0)) {
                self.seal_batch(false);
            }
            let (batch, _) = self.journal.append(|out| Record::Cancel { sequence }.put(out));
            let piece = &mut self.requests.pieces[id as usize];
            if piece.cancels.last() != Some(&batch) {
                piece.cancels.push(batch);
                piece.outstanding += 1;
                self.journal.join(id);
            }
            // The cancel record is written durably: where data and batch go past the caches, the batch counts as
            // durable as soon as this piece ends, and recovery does not check its records any more.
            if self.setup.volatile & 1 != 0 && self.setup.has_durable_writes() {
                self.journal.make_durable();
            }
        }
    }

    fn complete_parts(&mut self, id: u32) {
        let piece = &self.requests.pieces[id as usize];
        let batches: SmallVec<[u64; 4]> = piece.batches.iter().chain(&piece.cancels).copied().collect();
        for batch in batches {
            self.journal.part_complete(batch, self.flushes.submitted(), self.setup.volatile);
        }
    }

    /// A batch holding records of a piece was written, or could not be.
    pub(crate) fn batch_of_piece_written(&mut self, id: u32, error: Option<&RequestError>) {
        let Some(piece) = self.requests.pieces.get_mut(id as usize) else { return };
        if let Some(error) = error {
            piece.error.get_or_insert_with(|| error.clone());
            piece.journal_lost = true;
        }
        self.change_part_done(id);
    }

    /// A batch with records of a piece was written, or the issuing has ended.
    fn change_part_done(&mut self, id: u32) {
        self.requests.pieces[id as usize].outstanding -= 1;
        self.end_change(id);
    }

    /// After the last write of data and records the map changes; where one failed it does not.
    fn end_change(&mut self, id: u32) {
        let piece = &self.requests.pieces[id as usize];
        if piece.outstanding > 0 || piece.data_outstanding > 0 {
            return;
        }
        if piece.error.is_none() {
            let (mut leaves, requests) = self.leaves_and_requests();
            leaves.apply(&requests.pieces[id as usize]);
        } else if !piece.journal_lost {
            self.complete_parts(id);
            let (mut leaves, requests) = self.leaves_and_requests();
            leaves.cancel(&requests.pieces[id as usize]);
            // Recovery reads the leaf of a cancelled record too: it meets the record before the cancel.
            let frame = self.requests.pieces[id as usize].frame.map(|frame| self.map.frames.get(frame));
            if frame.is_some_and(|frame| !frame.dirty || frame.frozen) {
                self.checkpoint.count_dirtied();
            }
        } else {
            // If the records are on the device, recovery reads the leaf.
            self.checkpoint.count_dirtied();
            // Whether its records are on the device is unknown. So its space may not be used again, and no root may have it as
            // used: once the journal starts behind the records nothing would free it.
            let fast = piece.segments.iter().filter_map(|segment| match segment.fill {
                Fill::Data { location, .. } if self.setup.extents.is_fast(location) => {
                    Some(Freed::Slots { first: self.setup.extents.slot(location), count: u64::from(segment.blocks) })
                }
                _ => None,
            });
            self.space.lost.extend(fast);
        }
        self.finish_piece(id);
    }
}
