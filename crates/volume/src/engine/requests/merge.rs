//! Writes of less than a block: the rest of the block is read first.

use super::piece::PieceKind;
use crate::engine::base::is_in_base;
use crate::engine::copies::Named;
use crate::engine::{Engine, Pending};
use crate::layout::packed::is_stored;
use crate::layout::page::{self, Entry, Span, Window};
use crate::readings::single;
use crate::request::RequestError;
use forebay_block::{BLOCK_BYTES as BLOCK, Buf, ClassId, IoError, Op, Vectored};
use smallvec::SmallVec;

/// The device with the copies.
const FAST: usize = 0;

impl Engine {
    /// Reads the block that is partly overwritten.
    pub(super) fn start_merge(&mut self, id: u32, frame: u32) {
        let piece = &self.requests.pieces[id as usize];
        let at = usize::from(piece.first);
        let (entry, checksum) = page::leaf_entry(&self.map.frames.get(frame).page, at);
        let in_base = match entry {
            Entry::Unmapped => self.span_in_base(piece.disk, piece.block()),
            _ => None,
        };
        // The class does not matter: the block is read, and is classified anew when it is written.
        match in_base.map_or(entry, |span| Entry::Data { span, class: ClassId(0) }) {
            Entry::Unmapped | Entry::Zero => self.merge(id, Buf::zeroed(BLOCK)),
            Entry::Damaged => {
                let (disk, offset_bytes) = (piece.disk, piece.block() * BLOCK as u64);
                self.fail_piece(id, RequestError::Damaged { disk, offset_bytes });
            }
            Entry::Data { span, .. } => {
                let Named { span, checksum } = self.place_of_rest(id, Named { span, checksum });
                let around = Window::of(span, self.setup.unit_grains);
                let Some((device, offset_bytes)) = self.place_of(piece.disk, around.first) else {
                    let (disk, offset_bytes) = (piece.disk, piece.block() * BLOCK as u64);
                    return self.fail_piece(id, RequestError::Damaged { disk, offset_bytes });
                };
                let piece = &mut self.requests.pieces[id as usize];
                let is_same = (piece.spans.first(), piece.checksums.first()) == (Some(&span), Some(&checksum));
                piece.failures_in_place = if is_same && piece.attempts > 0 { piece.failures_in_place + 1 } else { 0 };
                // Reads once more from the same place, or another copy of it: one transfer may go wrong.
                let attempt = piece.failures_in_place;
                if attempt >= self.setup.read_attempts(device) {
                    let error = piece.error.take();
                    let damaged =
                        RequestError::Damaged { disk: piece.disk, offset_bytes: piece.block() * BLOCK as u64 };
                    return self.fail_piece(id, error.unwrap_or(damaged));
                }
                piece.spans = SmallVec::from_slice(&[span]);
                piece.checksums = SmallVec::from_slice(&[checksum]);
                let bufs = Vectored::One(Buf::new(around.len_bytes));
                self.outbox.send(device, offset_bytes, 0, Op::Read { bufs, attempt }, Pending::Merge { piece: id });
            }
        }
    }

    /// From where the rest of a block is read: first its copy on the fast tier, of each member, where there is one. That may be the last good one.
    fn place_of_rest(&self, id: u32, named: Named) -> Named {
        let piece = &self.requests.pieces[id as usize];
        if piece.attempts >= self.setup.read_attempts(FAST) || self.setup.extents.is_fast(named.span.location) {
            return named;
        }
        let copy = self.copies.find(piece.disk, piece.block(), named.span.location);
        let copy = copy.filter(|copy| !named.span.is_whole() || copy.own == named.checksum);
        let place = |slot| Span::whole(self.setup.extents.slot_location(slot));
        copy.map_or(named, |copy| Named { span: place(copy.slot), checksum: copy.own })
    }

    pub(crate) fn merge_read_done(
        &mut self,
        id: u32,
        device: usize,
        result: Result<(), IoError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        let error = result.err().map(|source| self.device_error(device, source));
        let verify = !self.setup.options.faults.checksums_ignored();
        let Some(piece) = self.requests.pieces.get_mut(id as usize) else {
            return;
        };
        let expected = piece.checksums.first().copied().unwrap_or(0);
        let (disk, block) = (piece.disk, piece.block());
        let span = piece.spans.first().copied();
        let is_ours = span.is_none_or(|span| !is_in_base(span.location));
        let is_good = |stored: &[u8]| !verify || !is_ours || is_stored(disk, block, stored, expected);
        let old = match (single(bufs), span) {
            (Some(buf), Some(span)) if span.is_whole() => Some(buf).filter(|buf| is_good(buf)),
            (Some(buf), Some(span)) => {
                let mut block = Buf::zeroed(BLOCK);
                let stored =
                    Window::of(span, self.setup.unit_grains).stored(span, &buf).filter(|stored| is_good(stored));
                stored.is_some_and(|stored| self.packing.unpack(stored, &mut block)).then_some(block)
            }
            _ => None,
        };
        match (error, old) {
            (None, Some(block)) => self.merge(id, block),
            (error, _) => {
                // The block may have been moved while it was read, so it is looked up again. Where it was not,
                // `failures_in_place` bounds the attempts.
                let damaged = RequestError::Damaged { disk, offset_bytes: block * BLOCK as u64 };
                piece.error = Some(error.unwrap_or(damaged));
                piece.attempts = piece.attempts.saturating_add(1);
                self.change_piece(id);
            }
        }
    }

    /// Lays the new bytes over the old block; the piece becomes an ordinary write of that block.
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
        piece.spans.clear();
        piece.checksums.clear();
        self.change_piece(id);
    }
}
