//! Reads: look the blocks up, read the runs, verify every block, and look up again where a move came between.

use super::mend::{mend, mend_groups_of};
use super::parts::joined;
use super::piece::{IN_MEMORY, NOWHERE, PieceKind, first_bad, spoil};
use super::read_plan::{Place, PlannedRun, ReadPlan, Source};
use crate::engine::base::is_in_base;
use crate::engine::copies::Named;
use crate::engine::map::Leaf;
use crate::engine::{Engine, Pending};
use crate::layout::page::{self, BLOCK_GRAINS, Entry, Span};
use crate::request::RequestError;
use forebay_block::{BLOCK_BYTES as BLOCK, Buf, IoError, IoErrorKind, Op, Vectored};
use forebay_prism::{Direction, HostFacts, Intent};
use smallvec::SmallVec;

/// How often a read is looked up again because its data has moved, in addition to the readings at one place. For each move, space must have been freed, made
/// durable, reused and written during one device read: more than a few of these are no coincidence.
const MOVES_MAX: u8 = 16;
/// How often a scrub reads a copy again because the leaf had left memory when a block was to be mended.
const PUT_OFF_MAX: u8 = 16;

/// Splits so many blocks off the front of a buffer.
fn split_front(rest: &mut Buf, blocks: u16) -> Buf {
    let len_bytes = usize::from(blocks) * BLOCK;
    let tail = if len_bytes < rest.len() { rest.split_off(len_bytes) } else { Buf::empty() };
    std::mem::replace(rest, tail)
}

impl Engine {
    pub(crate) fn read_piece(&mut self, id: u32) {
        let Some(piece) = self.requests.pieces.get(id as usize) else {
            return;
        };
        let (disk, leaf) = (piece.disk, piece.leaf);
        let frame = match self.require_leaf(disk, leaf, id, false) {
            Leaf::Wait => return,
            Leaf::Hole => None,
            Leaf::Ready(frame) => Some(frame),
        };
        let piece = &self.requests.pieces[id as usize];
        let (first, blocks, block) = (usize::from(piece.first), usize::from(piece.blocks), piece.block());
        let is_scrub = matches!(piece.kind, PieceKind::Scrub);
        // A scrub does not read blocks that the map does not name.
        let is_adopted = matches!(piece.kind, PieceKind::Adopt);
        let is_host = !is_scrub && !is_adopted;
        let is_passed_over = is_adopted && !self.adoption.reads(disk);
        self.forget_sources(id);
        let mut spans: SmallVec<[Span; 4]> = SmallVec::with_capacity(blocks);
        let mut checksums: SmallVec<[u32; 4]> = SmallVec::with_capacity(blocks);
        for i in first..first + blocks {
            let (entry, mut checksum) =
                frame.map_or((Entry::Unmapped, 0), |frame| page::leaf_entry(&self.map.frames.get(frame).page, i));
            let address = block + (i - first) as u64;
            match entry {
                Entry::Unmapped if is_scrub => spans.push(NOWHERE),
                Entry::Unmapped => spans.push(self.span_in_base(disk, address).unwrap_or(NOWHERE)),
                Entry::Data { .. } if is_passed_over => spans.push(NOWHERE),
                Entry::Data { span, .. } if !is_host => spans.push(span),
                Entry::Data { span, class } => {
                    let source = self.source_of(id, (i - first) as u16, class, Named { span, checksum });
                    spans.push(source.span);
                    checksum = source.checksum;
                }
                Entry::Zero => spans.push(NOWHERE),
                Entry::Damaged => {
                    let offset_bytes = address * BLOCK as u64;
                    self.requests.pieces[id as usize].error = Some(RequestError::Damaged { disk, offset_bytes });
                    self.stats.counters.damaged_reads += u64::from(is_host);
                    self.stats.counters.lost_reads += u64::from(is_host);
                    return self.finish_piece(id);
                }
            }
            checksums.push(checksum);
        }
        let piece = &mut self.requests.pieces[id as usize];
        if piece.attempts > 0 {
            // A lookup after a failure. Where the map still names the same data it is read once more, for one transfer
            // may go wrong; after that the failure is real.
            let is_same = spans == piece.spans && checksums == piece.checksums;
            // A read that included a summary, or used data that was read ahead, is no attempt at the data.
            let counts = u8::from(!std::mem::take(&mut piece.is_no_attempt));
            piece.failures_in_place = if is_same { piece.failures_in_place + counts } else { 0 };
            // Where the blocks lie on both tiers, all are read as often as the tier with the most readings allows.
            let is_on_device = |span: &&Span| ![NOWHERE, IN_MEMORY].contains(span);
            let each = spans.iter().filter(is_on_device).map(|span| self.setup.read_attempts_at(span.location));
            let readings = each.max().unwrap_or(2);
            if piece.failures_in_place >= readings || piece.attempts > readings.saturating_add(MOVES_MAX) {
                if matches!(piece.error, Some(RequestError::Damaged { .. })) && is_host {
                    self.stats.counters.damaged_reads += 1;
                }
                mend_groups_of(piece, &self.setup, &self.space.bands, &mut self.outbox);
                return self.finish_piece(id);
            }
            piece.error = None;
        }
        piece.spans = spans;
        piece.checksums = checksums;
        if is_adopted && piece.buf.is_none() {
            if piece.spans.iter().all(|span| *span == NOWHERE) {
                // The pool has all of it.
                return self.finish_piece(id);
            }
            piece.buf = Some(Buf::new(blocks * BLOCK));
        }
        self.issue_reads(id);
    }

    /// Whether only a summary lies between `end` and `next`, and `next` is not served by what was read ahead.
    fn is_behind_summary(&self, end: u64, next: u64) -> bool {
        let shape = self.space.bands.shape();
        next == end + BLOCK_GRAINS
            && self.setup.extents.band(end).is_some_and(|(band, block)| {
                shape.summary_block(shape.group_of(block)) == block
                    && self.setup.extents.band(next).is_some_and(|(other, _)| other == band)
            })
            && !self.is_ahead(next)
    }

    /// Reads a piece whose blocks have been looked up.
    fn issue_reads(&mut self, id: u32) {
        let piece = &mut self.requests.pieces[id as usize];
        let Some(buf) = piece.buf.take() else {
            return;
        };
        piece.parts.clear();
        // One is for this function: devices that complete at once must not end the piece.
        piece.outstanding = 1;
        let plan = ReadPlan::of(piece, &buf, &self.setup, &self.bases);
        let wrong_packed = std::mem::take(&mut piece.wrong_packed);
        if let Some(wrong) = &plan.first_wrong {
            (piece.wrong, piece.wrong_groups) = (wrong.clone(), wrong_packed);
        }
        self.send_reads(id, &plan, buf);
        self.read_part_done(id);
    }

    /// Cuts the buffer of a piece into the runs of a plan and reads each.
    fn send_reads(&mut self, id: u32, plan: &ReadPlan, mut rest: Buf) {
        let mut runs = &plan.runs[..];
        while let Some((run, behind)) = runs.split_first() {
            runs = behind;
            let buf = split_front(&mut rest, run.blocks);
            let parts = &mut self.requests.pieces[id as usize].parts;
            let part = parts.len() as u16;
            match run.source {
                Source::Kept => parts.push((run.first, Some(buf))),
                Source::InMemory => self.recall(id, run.first, buf),
                Source::Hole => self.read_hole(id, run.first, buf),
                Source::Impossible => self.read_impossible(id, run.first, buf),
                Source::Packed { place, len_bytes } => {
                    parts.push((run.first, Some(buf)));
                    self.send_read(id, part, place, Vectored::One(Buf::new(len_bytes)));
                }
                Source::Whole { place, .. } if !plan.joins => {
                    parts.push((run.first, None));
                    self.send_read(id, part, place, Vectored::One(buf));
                }
                Source::Whole { place, location } => {
                    parts.push((run.first, None));
                    let Some(buf) = self.take_ahead(id, part, location, buf) else { continue };
                    let end = location + BLOCK_GRAINS * u64::from(run.blocks);
                    let (joined, others) = behind.split_at(self.count_joined(end, behind));
                    let bufs = self.join_reads(id, buf, joined, &mut rest);
                    self.send_read(id, part, place, bufs);
                    runs = others;
                }
            }
        }
    }

    /// How many runs can be read in one request with the run before them, which ends at `end`: those with only a summary between them. So a
    /// drive that reads ahead sees one sequence.
    fn count_joined(&self, mut end: u64, behind: &[PlannedRun]) -> usize {
        let mut count = 0;
        while let Some(PlannedRun { blocks, source: Source::Whole { location, .. }, .. }) = behind.get(count)
            && self.is_behind_summary(end, *location)
        {
            end += BLOCK_GRAINS * (1 + u64::from(*blocks));
            count += 1;
        }
        count
    }

    /// The buffers for one request that reads a run into `buf`, and then others, each behind a summary.
    fn join_reads(&mut self, id: u32, buf: Buf, joined: &[PlannedRun], rest: &mut Buf) -> Vectored<Buf> {
        if joined.is_empty() {
            return Vectored::One(buf);
        }
        let piece = &mut self.requests.pieces[id as usize];
        piece.is_no_attempt = true;
        let mut bufs = vec![buf];
        for run in joined {
            piece.parts.push((run.first, None));
            bufs.extend([Buf::new(BLOCK), split_front(rest, run.blocks)]);
        }
        Vectored::Many(bufs)
    }

    fn send_read(&mut self, id: u32, part: u16, place: Place, bufs: Vectored<Buf>) {
        let Place { device, offset_bytes, attempt } = place;
        self.requests.pieces[id as usize].outstanding += 1;
        self.outbox.send(device, offset_bytes, 0, Op::Read { bufs, attempt }, Pending::Read { piece: id, part });
    }

    /// A part that is on no device is zeros.
    fn read_hole(&mut self, id: u32, first: u16, mut buf: Buf) {
        buf.fill(0);
        self.requests.pieces[id as usize].parts.push((first, Some(buf)));
    }

    /// A part at a location that only damage can have put there cannot be read.
    fn read_impossible(&mut self, id: u32, first: u16, buf: Buf) {
        let piece = &mut self.requests.pieces[id as usize];
        let (disk, offset_bytes) = (piece.disk, (piece.block() + u64::from(first)) * BLOCK as u64);
        piece.error = Some(RequestError::Damaged { disk, offset_bytes });
        piece.wrong_packed.push(first);
        piece.parts.push((first, Some(buf)));
    }

    pub(crate) fn read_done(
        &mut self,
        id: u32,
        part: u16,
        device: usize,
        result: Result<(), IoError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        let short = IoError { kind: IoErrorKind::Short, operation: "read", offset_bytes: 0, os_error: 0 };
        let failure = result.err().or_else(|| bufs.is_none().then_some(short));
        let error = failure.map(|source| self.device_error(device, source));
        let verify = !self.setup.options.faults.checksums_ignored();
        let Some(piece) = self.requests.pieces.get_mut(id as usize) else {
            return;
        };
        let first = piece.parts.get(usize::from(part)).map_or(0, |(first, _)| usize::from(*first));
        if piece.spans.get(first).is_some_and(|span| !span.is_whole()) {
            return self.packed_read_done((id, part), error, bufs);
        }
        let base = piece.block();
        let disk = piece.disk;
        let bufs: SmallVec<[Buf; 1]> = match bufs {
            Some(Vectored::One(buf)) => SmallVec::from_buf([buf]),
            // Every second buffer is a summary that lay between two runs.
            Some(Vectored::Many(many)) => many.into_iter().step_by(2).collect(),
            None => SmallVec::new(),
        };
        // The buffer may still hold what a scrub read from another copy, which says nothing of this one.
        let is_of_one = matches!(piece.kind, PieceKind::Scrub) && piece.failures_in_place == 0 && self.setup.copies > 1;
        let is_fast = piece.spans.get(first).is_some_and(|span| self.setup.extents.is_fast(span.location));
        let is_unread = error.is_some() && is_of_one && is_fast;
        let mut bad = error;
        for (mut buf, (first, slot)) in bufs.into_iter().zip(piece.parts.iter_mut().skip(usize::from(part))) {
            let first = usize::from(*first);
            if is_unread {
                spoil(disk, base + first as u64, &mut buf, &piece.checksums[first..]);
            }
            // There are no checksums for data in a base.
            let is_ours = piece.spans.get(first).is_none_or(|span| !is_in_base(span.location));
            if bad.is_none() && verify && is_ours {
                let address = first_bad(disk, base + first as u64, &buf, &piece.checksums[first..]);
                bad = address.map(|block| RequestError::Damaged { disk, offset_bytes: block * BLOCK as u64 });
            }
            *slot = Some(buf);
        }
        if bad.is_some() {
            piece.error = bad;
        }
        self.read_part_done(id);
    }

    /// A piece was read well, and a device may have other readings of it. Mends what was wrong at a first reading, and returns whether a scrub has to read
    /// another copy, or this one again.
    fn looks_at_copies(&mut self, id: u32) -> bool {
        let piece = &mut self.requests.pieces[id as usize];
        let is_known = self.map.in_memory(piece.disk, piece.leaf).is_some();
        if piece.failures_in_place > 0
            && !is_known
            && piece.put_off < PUT_OFF_MAX
            && matches!(piece.kind, PieceKind::Scrub)
        {
            // The leaf has left memory, so it is unknown what the map names now: the copy is read again, and the leaf with it.
            piece.put_off += 1;
            (piece.attempts, piece.failures_in_place) = (0, 0);
            piece.wrong.clear();
            piece.wrong_groups.clear();
            return true;
        }
        if piece.failures_in_place > 0 {
            mend(piece, &self.map, &self.setup, &self.space.bands, &mut self.outbox);
        }
        let is_on_fast = |span: &Span| *span != NOWHERE && self.setup.extents.is_fast(span.location);
        let may_be_another = matches!(piece.kind, PieceKind::Scrub) && piece.copy + 1 < self.setup.copies;
        let is_another = may_be_another && piece.spans.iter().any(is_on_fast);
        if is_another {
            // Starts as if nothing had been read: what was wrong in one copy says nothing of another.
            piece.copy += 1;
            (piece.attempts, piece.failures_in_place) = (0, 0);
            piece.wrong.clear();
            piece.wrong_groups.clear();
        }
        is_another
    }

    pub(super) fn read_part_done(&mut self, id: u32) {
        let piece = &mut self.requests.pieces[id as usize];
        piece.outstanding -= 1;
        if piece.outstanding > 0 {
            return;
        }
        let parts = std::mem::take(&mut piece.parts);
        let there = parts.into_iter().filter_map(|(first, buf)| Some((usize::from(first) * BLOCK, buf?)));
        piece.buf = Some(joined(there, usize::from(piece.blocks) * BLOCK));
        if piece.error.is_none() {
            let (disk, first) = (piece.disk, piece.block());
            piece.unproven.iter().for_each(|&at| self.copies.proved(disk, first + u64::from(at)));
        }
        if piece.error.is_some() {
            piece.attempts += 1;
            let (disk, first, blocks) = (piece.disk, piece.block(), u64::from(piece.blocks));
            if !piece.is_no_attempt && !matches!(piece.kind, PieceKind::Scrub) {
                self.copies.forget(disk, first..first + blocks, &mut self.space.slots);
            }
            return self.read_piece(id);
        }
        if piece.error.is_none() && self.setup.mends() && self.looks_at_copies(id) {
            return self.read_piece(id);
        }
        let piece = &mut self.requests.pieces[id as usize];
        if piece.error.is_none() && matches!(piece.kind, PieceKind::Adopt) {
            self.write_adopted(id);
            return self.finish_piece(id);
        }
        if piece.error.is_none() && !matches!(piece.kind, PieceKind::Scrub) {
            let (client, disk, offset_bytes) = (piece.client, piece.disk, piece.block() * BLOCK as u64);
            let export = self.requests.clients.get(client as usize).map_or(0, |c| c.export);
            let disk_size_bytes = self.map.disks.get(&disk.0).map_or(0, |d| d.size_bytes);
            if let Some(data) = piece.buf.as_deref() {
                let intent = Intent {
                    disk,
                    disk_size_bytes,
                    offset_bytes,
                    direction: Direction::Read,
                    len_bytes: data.len() as u64,
                    request_bytes: data.len() as u64,
                    rest_bytes: 0,
                    data,
                    export,
                    tag: None,
                    host: HostFacts::default(),
                };
                self.prism.observe_read(&intent);
            }
            self.keep_what_was_read(id);
            self.copy_what_was_read(id);
        }
        self.finish_piece(id);
    }
}
