//! Writes: classify, take space, send data and record out in parallel, change the map when both have arrived.

use super::append::Append;
use super::clients::{Fill, PieceKind, Segment, Sweep, Waiting, Wants};
use super::map::Leaf;
use super::migrate::job_of_waiter;
use super::{Engine, Freed, Pending};
use crate::journal::Sealed;
use crate::layout::band_summary::SummaryEntry;
use crate::layout::batch::{Record, Target, put_write, write_bytes};
use crate::layout::page::{self, Entry};
use crate::request::RequestError;
use crate::space::bands::stream_hint;
use forebay_block::checksum::block_checksum;
use forebay_block::{Buf, IoError, Op, SharedBuf, Vectored};
use forebay_prism::Place;
use smallvec::SmallVec;

const BLOCK: usize = 4096;
/// Most bytes that the records of one block can take.
const RECORD_BYTES_PER_BLOCK: usize = 28;
/// Further attempts at writing a journal batch that failed.
const BATCH_ATTEMPTS_MAX: u8 = 3;

/// How long a write waits for space at least while migration achieves nothing.
const SPACE_PATIENCE_NS: u64 = 10_000_000_000;

/// Blocks of `data` that need space: those of zeros need none.
fn blocks_to_store(data: &[u8]) -> u64 {
    data.chunks_exact(BLOCK).filter(|block| !is_zero(block)).count() as u64
}

/// Whether a block holds only zeros. Data rarely starts with a zero word, so the first word decides most.
fn is_zero(block: &[u8]) -> bool {
    block[..8] == [0; 8] && block.iter().all(|&byte| byte == 0)
}

impl Engine {
    /// Goes on with a piece that changes the map. Its range is locked.
    pub(crate) fn change_piece(&mut self, id: u32) {
        let Some(piece) = self.requests.pieces.get(id as usize) else {
            return;
        };
        let (disk, leaf) = (piece.disk, piece.leaf);
        if let Some(reason) = &self.read_only {
            let reason = reason.clone();
            return self.fail_piece(id, RequestError::ReadOnly(reason));
        }
        let create = !matches!(piece.kind, PieceKind::Sweep(Sweep::Unmap | Sweep::Reclass));
        if self.is_full_of_changes() && self.map.is_absent(disk, leaf) {
            // Its leaf would be read to find that it may not be changed yet, and by then another's may be needed: while
            // a checkpoint takes its time, waiting pieces would read leaves in turns for ever.
            return self.stall(id, Wants::Checkpoint);
        }
        if piece.wants == Wants::Space && self.map.is_absent(disk, leaf) && self.is_too_large_now(id) {
            // The same for those that wait for space.
            return self.stall(id, Wants::Space);
        }
        let frame = match self.require_leaf(disk, leaf, id, create) {
            Leaf::Wait => return,
            // Nothing is mapped here: there is nothing to unmap.
            Leaf::Hole => return self.finish_piece(id),
            Leaf::Ready(frame) => frame,
        };
        match &self.requests.pieces[id as usize].kind {
            PieceKind::Merge { .. } | PieceKind::MergeZeros { .. } => self.start_merge(id, frame),
            PieceKind::Write { .. } => self.execute_write(id, frame),
            PieceKind::Sweep(_) => self.execute_sweep(id, frame),
            PieceKind::Read | PieceKind::Status => {}
        }
    }

    pub(crate) fn fail_piece(&mut self, id: u32, error: RequestError) {
        if let Some(piece) = self.requests.pieces.get_mut(id as usize) {
            piece.error = Some(error);
            self.finish_piece(id);
        }
    }

    /// Parks a piece until what it waits for comes.
    pub(crate) fn stall(&mut self, id: u32, wants: Wants) {
        self.stats.counters.stalls += 1;
        self.requests.pieces[id as usize].wants = wants;
        self.requests.waiting.queue(wants).push_back(id);
    }

    /// Whether a leaf may be changed now. A clean one only while few are dirty: what recovery has to read is bounded
    /// by the leaves dirtied before and during one checkpoint.
    pub(crate) fn may_dirty(&self, frame: u32) -> bool {
        self.map.frames.get(frame).dirty && !self.map.frames.get(frame).frozen || !self.is_full_of_changes()
    }

    /// Whether as many leaves are dirty, or about to be, as may be: since the last freeze, and since the last durable
    /// root, which is longer ago where checkpoints fail.
    fn is_full_of_changes(&self) -> bool {
        self.checkpoint.is_full(self.requests.executing, self.dirty_limit())
    }

    /// Blocks of the first who waits for space, rather than for a turn or a checkpoint.
    pub(crate) fn space_wanted(&self) -> u64 {
        let first = self.requests.waiting.first(Wants::Space).and_then(|id| self.requests.pieces.get(id as usize));
        first.map_or(0, |piece| u64::from(piece.blocks))
    }

    /// Whether there is no space for a write now, whatever its leaf says.
    fn is_too_large_now(&self, id: u32) -> bool {
        let Some(PieceKind::Write { data }) = self.requests.pieces.get(id as usize).map(|piece| &piece.kind) else {
            return false;
        };
        let room = self.space.room() + self.copies.len() as u64;
        room < (data.len() / BLOCK) as u64 && room < blocks_to_store(data)
    }

    /// Tries parked pieces again: those of each reason in order, as long as they get on.
    pub(crate) fn retry_waiting(&mut self) {
        for reason in Waiting::REASONS {
            // Nobody whose turn has come waits for it again; one that ends at once lets the next have its turn.
            let mut tries = if reason == Wants::Turn { usize::MAX } else { self.requests.waiting.queue(reason).len() };
            while tries > 0 {
                tries -= 1;
                let Some(id) = self.requests.waiting.queue(reason).pop_front() else { break };
                let before = self.requests.waiting.queue(reason).len();
                self.resume(id);
                let queue = self.requests.waiting.queue(reason);
                if queue.len() > before && queue.back() == Some(&id) {
                    // Still no room: it keeps its place, and the others of its reason wait behind it.
                    queue.pop_back();
                    queue.push_front(id);
                    self.make_room(reason, id);
                    break;
                }
            }
        }
    }

    /// Writes wait: start what frees what they wait for, or tell the first of them that nothing will.
    fn make_room(&mut self, wants: Wants, id: u32) {
        self.space.changed = true;
        if self.setup.volatile != 0 && (!self.space.freed.is_empty() || self.journal.unflushed_bytes() > 0) {
            self.flushes.want();
        }
        let hopeless = self.checkpoint_hopeless();
        let error = if self.flushes.has_failed() {
            // Nothing can be freed any more: neither journal nor space.
            RequestError::FlushFailed
        } else if matches!(wants, Wants::Journal | Wants::Checkpoint)
            && let Some(why) = hopeless
        {
            RequestError::ReadOnly(why)
        } else if wants == Wants::Space
            && !self.migrate_may_free()
            && (self.waited_too_long(id)
                || self.space.freed.is_empty()
                    && self.outbox.is_empty()
                    && !self.summaries.is_due()
                    && !self.journal.has_open()
                    && (!self.checkpoint_pending() || hopeless.is_some()))
        {
            RequestError::NoSpace
        } else {
            return;
        };
        self.requests.waiting.queue(wants).pop_front();
        self.fail_piece(id, error);
    }

    /// Whether a piece has waited for so long that what is under way cannot be for it: other writes and their flushes keep
    /// something under way for as long as hosts send them.
    fn waited_too_long(&self, id: u32) -> bool {
        let client =
            self.requests.pieces.get(id as usize).and_then(|piece| self.requests.clients.get(piece.client as usize));
        client.is_some_and(|client| self.clock.patience_ns().saturating_sub(client.waits_since_ns) > SPACE_PATIENCE_NS)
    }

    /// Keeps the leaf of a piece that will change it.
    pub(crate) fn pin(&mut self, id: u32, frame: u32) {
        self.requests.executing += 1;
        self.map.frames.get_mut(frame).pins += 1;
        self.requests.pieces[id as usize].frame = Some(frame);
    }

    /// Reads the block that is partly overwritten.
    fn start_merge(&mut self, id: u32, frame: u32) {
        let piece = &self.requests.pieces[id as usize];
        let at = usize::from(piece.first);
        let (entry, checksum) = page::leaf_entry(&self.map.frames.get(frame).page, at);
        match entry {
            Entry::Unmapped | Entry::Zero => self.merge(id, Buf::zeroed(BLOCK)),
            Entry::Damaged => {
                let (disk, offset_bytes) = (piece.disk, piece.block() * BLOCK as u64);
                self.fail_piece(id, RequestError::Damaged { disk, offset_bytes });
            }
            Entry::Data { location, .. } => {
                let Some((device, offset_bytes)) = self.setup.extents.place(location) else {
                    let (disk, offset_bytes) = (piece.disk, piece.block() * BLOCK as u64);
                    return self.fail_piece(id, RequestError::Damaged { disk, offset_bytes });
                };
                let piece = &mut self.requests.pieces[id as usize];
                let is_same = (piece.locations.first(), piece.checksums.first()) == (Some(&location), Some(&checksum));
                piece.failures_in_place = if is_same && piece.attempts > 0 { piece.failures_in_place + 1 } else { 0 };
                // Once more from the same place: one transfer may go wrong.
                if piece.failures_in_place > 1 {
                    let error = piece.error.take();
                    let damaged =
                        RequestError::Damaged { disk: piece.disk, offset_bytes: piece.block() * BLOCK as u64 };
                    return self.fail_piece(id, error.unwrap_or(damaged));
                }
                piece.locations = SmallVec::from_slice(&[location]);
                piece.checksums = SmallVec::from_slice(&[checksum]);
                let bufs = Vectored::One(Buf::new(BLOCK));
                self.outbox.send(device, offset_bytes, 0, Op::Read { bufs }, Pending::Merge { piece: id });
            }
        }
    }

    pub(crate) fn merge_read_done(
        &mut self,
        id: u32,
        device: usize,
        result: Result<(), IoError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        let error = result.err().map(|source| self.setup.device_error(device, source));
        let verify = !self.setup.options.faults.checksums_ignored();
        let Some(piece) = self.requests.pieces.get_mut(id as usize) else {
            return;
        };
        let expected = piece.checksums.first().copied().unwrap_or(0);
        let (disk, block) = (piece.disk, piece.block());
        match (error, Self::single(bufs)) {
            (None, Some(buf)) if !verify || block_checksum(disk, block, &buf) == expected => self.merge(id, buf),
            (error, _) => {
                // The block may have been moved while it was read: look again, once more at most for each move.
                let damaged = RequestError::Damaged { disk, offset_bytes: block * BLOCK as u64 };
                piece.error = Some(error.unwrap_or(damaged));
                piece.attempts = piece.attempts.saturating_add(1);
                self.change_piece(id);
            }
        }
    }

    /// Lays the new bytes over the old block; the piece becomes an ordinary write of it.
    fn merge(&mut self, id: u32, mut block: Buf) {
        let piece = &mut self.requests.pieces[id as usize];
        match &piece.kind {
            PieceKind::Merge { data, at } => block[*at..*at + data.len()].copy_from_slice(data),
            PieceKind::MergeZeros { at, len } => block[*at..*at + *len].fill(0),
            _ => {}
        }
        piece.kind = PieceKind::Write { data: block.freeze() };
        piece.error = None;
        piece.attempts = 0;
        piece.failures_in_place = 0;
        piece.locations.clear();
        piece.checksums.clear();
        self.change_piece(id);
    }

    fn execute_write(&mut self, id: u32, frame: u32) {
        let piece = &self.requests.pieces[id as usize];
        let PieceKind::Write { data } = &piece.kind else {
            return;
        };
        let data = data.clone();
        let (disk, first_block, client) = (piece.disk, piece.block(), piece.client);
        let record_bytes = usize::from(piece.blocks) * RECORD_BYTES_PER_BLOCK;
        if !self.journal.accepts(record_bytes, false) || self.space.freed.is_full() {
            return self.stall(id, Wants::Journal);
        }
        if !self.may_dirty(frame) {
            return self.stall(id, Wants::Checkpoint);
        }
        if self.lacks_page_slot(frame) {
            return self.stall(id, Wants::Space);
        }
        let mut runs = std::mem::take(&mut self.requests.runs);
        runs.clear();
        runs.extend_from_slice(&self.requests.pieces[id as usize].runs);
        if runs.is_empty() {
            self.classify(client, disk, first_block, &data, &mut runs);
        }
        let streams = self.requests.pieces[id as usize].streams;
        let segments = self.cut_segments(&data, &runs, streams);
        if segments.is_none() {
            self.requests.pieces[id as usize].runs = SmallVec::from_slice(&runs);
        }
        self.requests.runs = runs;
        let Some(segments) = segments else { return self.stall(id, Wants::Space) };
        self.pin(id, frame);
        let checksums: SmallVec<[u32; 4]> = data
            .chunks_exact(BLOCK)
            .enumerate()
            .map(|(i, block)| block_checksum(disk, first_block + i as u64, block))
            .collect();
        let piece = &mut self.requests.pieces[id as usize];
        piece.checksums = checksums;
        piece.segments = segments;
        self.issue_segments(id, Some(&data));
    }

    /// Cuts a write into runs of zeros and runs of one class with space for each. `None`: no space now.
    fn cut_segments(
        &mut self,
        data: &SharedBuf,
        runs: &[forebay_prism::Run],
        streams: bool,
    ) -> Option<SmallVec<[Segment; 2]>> {
        // All of it or nothing, also where it is of several classes. Zeros need no space; they are only counted where that
        // matters.
        if self.space.room() < (data.len() / BLOCK) as u64
            && !self.space.has_room(blocks_to_store(data), &mut self.copies)
        {
            return None;
        }
        let mut segments: SmallVec<[Segment; 2]> = SmallVec::new();
        let mut at = 0usize;
        for run in runs {
            let end = (at + run.blocks as usize).min(data.len() / BLOCK);
            while at < end {
                let zero = is_zero(&data[at * BLOCK..(at + 1) * BLOCK]);
                let mut len = 1;
                while at + len < end && is_zero(&data[(at + len) * BLOCK..(at + len + 1) * BLOCK]) == zero {
                    len += 1;
                }
                if zero {
                    segments.push(Segment { first: at as u16, blocks: len as u16, fill: Fill::Zero, sequence: 0 });
                } else {
                    let Some(space) = self.take_space(run.class, len as u32, streams) else {
                        for segment in &segments {
                            if let Fill::Data { location, .. } = segment.fill {
                                self.space
                                    .give_back(&[(location, u32::from(segment.blocks))], self.journal.last_recorded());
                            }
                        }
                        return None;
                    };
                    let mut first = at as u16;
                    for (location, blocks) in space {
                        let fill = Fill::Data { location, class: run.class };
                        segments.push(Segment { first, blocks: blocks as u16, fill, sequence: 0 });
                        first += blocks as u16;
                    }
                }
                at += len;
            }
        }
        Some(segments)
    }

    /// Appends the record of each segment and sends its data.
    pub(crate) fn issue_segments(&mut self, id: u32, data: Option<&SharedBuf>) {
        // One of each for the issuing itself, so that what completes at once does not end the piece early.
        self.requests.pieces[id as usize].outstanding = 1;
        self.requests.pieces[id as usize].data_outstanding = 1;
        let mut append: Option<Append> = None;
        for index in 0..self.requests.pieces[id as usize].segments.len() {
            let piece = &self.requests.pieces[id as usize];
            let segment = piece.segments[index];
            let (disk, block) = (piece.disk, piece.block() + u64::from(segment.first));
            let blocks = u32::from(segment.blocks);
            let range = usize::from(segment.first)..usize::from(segment.first) + usize::from(segment.blocks);
            let record_bytes = match segment.fill {
                Fill::Data { .. } => write_bytes(range.len()),
                _ => write_bytes(0),
            };
            if !self.journal.fits(record_bytes) {
                self.seal_batch(false);
            }
            let journal_at = self.journal.head();
            let mut target = None;
            let (batch, sequence) = match segment.fill {
                Fill::Data { location, class } => {
                    let checksums = &self.requests.pieces[id as usize].checksums[range.clone()];
                    target = self.setup.extents.place(location).map(|(device, offset)| (device, offset, class));
                    let to = Target { location, generation: self.space.record_generation(location) };
                    self.journal.append(|out| put_write(out, disk, block, class, to, checksums))
                }
                Fill::Zero => self.journal.append(|out| Record::Zero { disk, block, blocks }.put(out)),
                Fill::Unmapped => self.journal.append(|out| Record::Discard { disk, block, blocks }.put(out)),
                Fill::Reclass { class } => {
                    self.journal.append(|out| Record::Reclass { disk, block, blocks, class }.put(out))
                }
            };
            let piece = &mut self.requests.pieces[id as usize];
            piece.segments[index].sequence = sequence;
            piece.journal_at.get_or_insert(journal_at);
            let first = piece.batches.last() != Some(&batch);
            if first {
                piece.batches.push(batch);
                piece.outstanding += 1;
            }
            // Past the cache where there is one: a device without pays nothing for FUA, but may be asked in a dearer way.
            let fua = piece.fua;
            let cached = target.map_or(0, |(device, ..)| 1 << device);
            self.journal.join(id, if fua { 0 } else { cached }, first, fua && self.setup.volatile & 1 != 0);
            if let (Some((device, offset_bytes, class)), Some(data)) = (target, data) {
                let fua = fua && self.setup.volatile & 1 << device != 0;
                self.flushes.sent(if fua { 0 } else { (range.len() * BLOCK) as u64 });
                let hint = stream_hint(class.0);
                // Runs that follow each other in a band are one request, with the summaries between them.
                if let Some(before) = append.take_if(|a| device == 0 || !a.meets(device, offset_bytes, hint)) {
                    self.send_append(id, before);
                }
                let append = append.get_or_insert_with(|| Append::new(device, offset_bytes, hint, fua));
                append.push(data.slice(range.start * BLOCK, range.len() * BLOCK));
                if let Fill::Data { location, .. } = segment.fill {
                    self.note_written(id, segment, sequence);
                    self.summaries.append(append, &mut self.space.bands, location, blocks);
                }
                if device != 0 && self.prism.table().get(class).is_some_and(|spec| spec.place == Place::Both) {
                    let checksums = self.requests.pieces[id as usize].checksums[range.clone()].to_vec();
                    let slice = data.slice(range.start * BLOCK, range.len() * BLOCK);
                    let rooms = (&*self.setup, &mut self.space, &mut self.outbox);
                    self.copies.write((disk, block, class), &checksums, &slice, rooms);
                }
            }
        }
        if let Some(append) = append {
            self.send_append(id, append);
        }
        self.data_part_done(id);
        self.change_part_done(id);
    }

    /// Sends data of a piece.
    fn send_append(&mut self, id: u32, append: Append) {
        self.requests.pieces[id as usize].data_outstanding += 1;
        let Append { device, offset_bytes, hint, .. } = append;
        let (op, groups) = append.into_op();
        self.outbox.send(device, offset_bytes, hint, op, Pending::Write { piece: id, device, groups });
    }

    /// Notes for the summaries who is in a segment that goes to a band.
    fn note_written(&mut self, id: u32, segment: Segment, origin: u64) {
        let Fill::Data { location, class } = segment.fill else { return };
        if self.setup.extents.is_fast(location) {
            return;
        }
        let piece = &self.requests.pieces[id as usize];
        let (disk, first) = (piece.disk, piece.block());
        for i in 0..usize::from(segment.blocks) {
            let within = usize::from(segment.first) + i;
            let checksum = self.requests.pieces[id as usize].checksums[within];
            let block = first + within as u64;
            let entry = SummaryEntry { disk, class, checksum, block, origin, ..SummaryEntry::NONE };
            self.space.note(location + 8 * i as u64, entry);
        }
    }

    pub(crate) fn data_written(&mut self, id: u32, device: usize, result: Result<(), IoError>) {
        match result {
            Ok(()) if self.requests.pieces[id as usize].fua => {}
            Ok(()) => self.flushes.written(device),
            Err(source) => {
                let error = self.setup.device_error(device, source);
                self.requests.pieces[id as usize].error.get_or_insert(error);
            }
        }
        self.data_part_done(id);
        self.end_change(id);
    }

    /// One data write of a piece ended. After the last, its batches have all the data they name; where one failed,
    /// its records are cancelled first.
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
            // Without a cancellation nothing says that these records are void but their data, which is not what they
            // name: their batches never count as durable, and recovery looks at each block.
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
            let first = piece.cancels.last() != Some(&batch);
            if first {
                piece.cancels.push(batch);
                piece.outstanding += 1;
            }
            // Durable when it is written: where data and batch go past the caches, the batch counts as durable as soon as
            // this piece ends, and its records are not looked at any more.
            self.journal.join(id, 0, first, self.setup.volatile & 1 != 0);
        }
    }

    fn complete_parts(&mut self, id: u32) {
        let piece = &self.requests.pieces[id as usize];
        let batches: SmallVec<[u64; 4]> = piece.batches.iter().chain(&piece.cancels).copied().collect();
        for batch in batches {
            self.journal.part_complete(batch, self.flushes.submitted(), self.setup.volatile);
        }
    }

    /// A batch holding records of a piece was written, or the issuing ended.
    pub(crate) fn change_part_done(&mut self, id: u32) {
        self.requests.pieces[id as usize].outstanding -= 1;
        self.end_change(id);
    }

    /// After the last write of data and record, the map changes; or, where one failed, nothing does.
    fn end_change(&mut self, id: u32) {
        let piece = &self.requests.pieces[id as usize];
        if piece.outstanding > 0 || piece.data_outstanding > 0 {
            return;
        }
        if piece.error.is_none() {
            self.apply_piece(id);
        } else if !piece.journal_lost {
            self.complete_parts(id);
            self.free_cancelled(id);
            // Recovery reads the leaf of a cancelled record too: it learns of the cancel later.
            let frame = self.requests.pieces[id as usize].frame.map(|frame| self.map.frames.get(frame));
            if frame.is_some_and(|frame| !frame.dirty || frame.frozen) {
                self.checkpoint.count_dirtied();
            }
        } else {
            // Whether its records are on the device is not known, so neither may its space be used again nor may a root
            // that ends the journal before them take it for used.
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

    /// Seals the open batch and sends it.
    pub(crate) fn seal_batch(&mut self, force: bool) {
        if let Some(sealed) = self.journal.seal(force) {
            self.stats.counters.journal_bytes += sealed.bytes.len() as u64;
            self.send_batch(sealed, 0);
        }
    }

    fn send_batch(&mut self, sealed: Sealed, attempts: u8) {
        let (offset_bytes, fua) = (sealed.offset_bytes, sealed.fua);
        let op = Op::Write { bufs: Vectored::One(sealed.bytes.clone()), fua };
        self.outbox.send(0, offset_bytes, 0, op, Pending::Batch { sealed, attempts });
    }

    pub(crate) fn batch_written(&mut self, sealed: Sealed, attempts: u8, result: Result<(), IoError>) {
        let (batch, fua) = (sealed.batch, sealed.fua);
        let error = match result {
            Ok(()) => None,
            Err(_) if attempts < BATCH_ATTEMPTS_MAX => {
                // The same bytes to the same place: whatever of the first attempt arrived, the end is the same.
                return self.send_batch(sealed, attempts + 1);
            }
            Err(source) => Some(self.setup.device_error(0, source)),
        };
        let waiters = self.journal.written(batch);
        if let Some(error) = &error {
            self.set_read_only(&format!("the journal cannot be written: {error}"));
        } else {
            if !fua {
                self.flushes.written(0);
            }
            self.journal.part_complete(batch, self.flushes.submitted(), self.setup.volatile);
        }
        for waiter in waiters {
            if let Some(job) = job_of_waiter(waiter) {
                self.move_batch_written(job, error.is_none());
                continue;
            }
            let Some(piece) = self.requests.pieces.get_mut(waiter as usize) else {
                continue;
            };
            if let Some(error) = &error {
                piece.error.get_or_insert_with(|| error.clone());
                piece.journal_lost = true;
            }
            self.change_part_done(waiter);
        }
    }
}
