//! Writes: classify, allocate, cut into segments.

use super::client::Sweep;
use super::piece::{Fill, PieceKind, Segment};
use super::wants::Wants;
use crate::engine::Engine;
use crate::engine::admission::{Behaviour, Source};
use crate::engine::leaves::{is_staged, may_destage};
use crate::engine::lifetimes::Arrival;
use crate::engine::map::Leaf;
use crate::engine::place::LARGE_BLOCKS;
use crate::engine::space::Run;
use crate::engine::staying::{Decision, Kind};
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use crate::map::frames::Frame;
use crate::request::RequestError;
use forebay_block::{BLOCK_BYTES as BLOCK, ClassId, DiskId, SharedBuf};
use smallvec::SmallVec;
use std::ops::Range;

/// Most bytes that the records of one block can take.
const RECORD_BYTES_PER_BLOCK: usize = 32;

/// Blocks of `data` that need space: those of zeros need none.
fn blocks_to_store(data: &[u8]) -> u64 {
    data.chunks_exact(BLOCK).filter(|block| !is_zero(block)).count() as u64
}

/// Whether a block holds only zeros. Data rarely starts with a zero word, so the first word decides most.
fn is_zero(block: &[u8]) -> bool {
    let (lines, rest) = block.as_chunks::<64>();
    block[..8] == [0; 8] && lines.iter().all(|line| *line == [0; 64]) && rest.iter().all(|&byte| byte == 0)
}

/// A write that is being cut into segments.
struct Cut<'a> {
    id: u32,
    /// Of its leaf.
    frame: u32,
    data: &'a SharedBuf,
    /// Asked once for the whole write: otherwise a write larger than what collection has gained would be refused midway and would give back
    /// what it has.
    may_use_bands: bool,
    /// Blocks that hosts had written before it.
    now: u64,
    /// Blocks that the capacity tier held before it.
    valid_blocks: u64,
    segments: SmallVec<[Segment; 2]>,
}

impl Cut<'_> {
    fn blocks(&self) -> usize {
        self.data.len() / BLOCK
    }

    fn is_large(&self) -> bool {
        self.blocks() >= LARGE_BLOCKS as usize
    }

    fn bytes(&self, blocks: Range<usize>) -> &[u8] {
        &self.data[blocks.start * BLOCK..blocks.end * BLOCK]
    }

    fn is_zero(&self, at: usize) -> bool {
        is_zero(self.bytes(at..at + 1))
    }
}

impl Engine {
    /// Resumes a piece that changes the map. Its range is locked.
    pub(crate) fn change_piece(&mut self, id: u32) {
        let Some(piece) = self.requests.pieces.get(id as usize) else {
            return;
        };
        let (disk, leaf) = (piece.disk, piece.leaf);
        if self.holds_changes() {
            return self.stall(id, Wants::Flush);
        }
        if let Some(reason) = self.refusal() {
            let reason = reason.to_owned();
            return self.fail_piece(id, RequestError::ReadOnly(reason));
        }
        let create = !matches!(piece.kind, PieceKind::Sweep(Sweep::Unmap | Sweep::Reclass));
        if self.is_full_of_changes() && self.map.is_absent(disk, leaf) {
            // The piece would read its leaf only to find that it may not change it yet, and by then the frame may be
            // needed for another leaf: during a long checkpoint waiting pieces would read leaves in turn for ever.
            return self.stall(id, Wants::Checkpoint);
        }
        if piece.wants == Wants::Space && self.map.is_absent(disk, leaf) && self.is_too_large_now(id) {
            // The same holds for pieces that wait for space.
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
            PieceKind::Read | PieceKind::Scrub | PieceKind::Adopt | PieceKind::Status => {}
        }
    }

    pub(crate) fn fail_piece(&mut self, id: u32, error: RequestError) {
        if let Some(piece) = self.requests.pieces.get_mut(id as usize) {
            piece.error = Some(error);
            self.finish_piece(id);
        }
    }

    /// Whether a leaf may be changed now. A clean leaf may be changed only while few are dirty: recovery has to read
    /// the leaves that were dirtied before and during one checkpoint, and their number is bounded.
    pub(crate) fn may_dirty(&self, frame: u32) -> bool {
        self.checkpoint.may_dirty(self.map.frames.get(frame), self.requests.executing)
    }

    /// Whether the number of leaves that are dirty, or about to be, has reached its limit.
    fn is_full_of_changes(&self) -> bool {
        self.checkpoint.is_full_for_hosts(self.requests.executing)
    }

    /// Whether a write is too large for the space that there is now, whatever its leaf names.
    fn is_too_large_now(&self, id: u32) -> bool {
        let Some(PieceKind::Write { data }) = self.requests.pieces.get(id as usize).map(|piece| &piece.kind) else {
            return false;
        };
        let copies = if self.space.pace.is_closed() { 0 } else { self.copies.slots_held() };
        let room = self.space.room(copies, None);
        room < (data.len() / BLOCK) as u64 && room < blocks_to_store(data)
    }

    /// Pins the leaf that a piece is going to change.
    pub(crate) fn pin(&mut self, id: u32, frame: u32) {
        self.requests.executing += 1;
        let &Frame { dirty, disk, leaf, .. } = self.map.frames.get(frame);
        if !dirty {
            self.checkpoint.index_room.take(&mut self.map, disk, leaf);
        }
        self.map.frames.get_mut(frame).pins += 1;
        self.requests.pieces[id as usize].frame = Some(frame);
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
        let segments = self.cut_segments(id, frame, &data, &runs);
        if segments.is_none() {
            self.requests.pieces[id as usize].runs = SmallVec::from_slice(&runs);
        }
        self.requests.runs = runs;
        let Some(segments) = segments else { return self.stall(id, Wants::Space) };
        self.note_lives(disk, first_block, &segments);
        self.pin(id, frame);
        let piece = &mut self.requests.pieces[id as usize];
        piece.checksums = piece.checksums_of(&segments, &data);
        piece.segments = segments;
        self.issue_segments(id, Some(&data));
    }

    /// Decides how long the blocks of one class in a write stay on the fast tier; `at` is the first of them. There is one decision for each kind of data in the
    /// piece, however the kinds are mixed and however often the piece waits for space.
    fn stay(&mut self, id: u32, class: ClassId, at: usize) -> Decision {
        if !is_staged(&self.prism, class) {
            return Decision::NONE;
        }
        let piece = &self.requests.pieces[id as usize];
        let (disk, first_block, blocks) = (piece.disk, piece.block(), u64::from(piece.blocks));
        let kind = Kind::new(&self.prism, class, self.lifetime_hint(piece.client, first_block + at as u64));
        if let Some((_, stay)) = piece.decided.iter().find(|(known, _)| *known == kind) {
            return *stay;
        }
        let now = (self.stats.written_blocks(), &self.space);
        let stay = self.staying.stay(kind, disk, &(first_block..first_block + blocks), now);
        self.requests.pieces[id as usize].decided.push((kind, stay));
        stay
    }

    /// The group and the age of the block that a write replaces, where that block lies in a band.
    fn replaced(&self, frame: u32, block: u64) -> Option<(u8, u64)> {
        let at = (block % LEAF_ENTRIES as u64) as usize;
        match page::leaf_entry(&self.map.frames.get(frame).page, at).0 {
            Entry::Data { span, .. } => self.space.lifetime(span.location, self.stats.written_blocks()),
            _ => None,
        }
    }

    /// Notes what a write says of lifetimes: of the data that it replaces, and of the data that it stores.
    fn note_lives(&mut self, disk: DiskId, first_block: u64, segments: &[Segment]) {
        let now = self.stats.written_blocks();
        for segment in segments {
            let begin = first_block + u64::from(segment.first);
            let blocks = begin..begin + u64::from(segment.blocks);
            match segment.fill {
                Fill::Data { location, .. } => {
                    self.staying.written(segment.stay, disk, blocks.clone(), (now, segment.replaced));
                    if !self.setup.extents.is_fast(location) {
                        blocks.for_each(|block| self.staying.came_to_band(disk, block, false));
                    }
                }
                _ => self.staying.died(disk, blocks, now),
            }
        }
    }

    /// Cuts a write into runs of zeros and runs of one class, and allocates space for the latter. `None`: there is no
    /// space now.
    fn cut_segments(
        &mut self,
        id: u32,
        frame: u32,
        data: &SharedBuf,
        runs: &[forebay_prism::Run],
    ) -> Option<SmallVec<[Segment; 2]>> {
        if !self.has_room_for(data, runs) {
            return None;
        }
        let mut cut = Cut {
            id,
            frame,
            data,
            may_use_bands: !self.space.pace.is_closed(),
            now: self.stats.written_blocks(),
            valid_blocks: self.stats.capacity_blocks(),
            segments: SmallVec::new(),
        };
        let mut at = 0usize;
        for run in runs {
            let end = (at + run.blocks as usize).min(cut.blocks());
            while at < end {
                let is_zero = cut.is_zero(at);
                let blocks = at..(at + 1..end).find(|&at| cut.is_zero(at) != is_zero).unwrap_or(end);
                at = blocks.end;
                if is_zero {
                    let (first, len) = (blocks.start as u16, blocks.len() as u16);
                    cut.segments.push(Segment::without_data(first, len, Fill::Zero));
                } else if !self.store(&mut cut, run.class, blocks) {
                    self.give_back(&cut.segments);
                    return None;
                }
            }
        }
        Some(cut.segments)
    }

    /// Whether there is room for a whole write, also where it has several classes. Zeros need no space; they are counted only where that makes
    /// a difference.
    fn has_room_for(&mut self, data: &SharedBuf, runs: &[forebay_prism::Run]) -> bool {
        let stays = |run: &forebay_prism::Run| !may_destage(&self.prism, &self.space, run.class);
        let may_leave = runs.iter().any(stays).then(|| self.blocks_that_may_leave());
        let blocks = ((data.len() / BLOCK) as u64, || blocks_to_store(data));
        self.space.has_room(blocks, may_leave, &mut self.copies)
    }

    /// Allocates space for blocks of one class in a write; false where there is none now.
    fn store(&mut self, cut: &mut Cut, class: ClassId, blocks: Range<usize>) -> bool {
        let piece = &self.requests.pieces[cut.id as usize];
        let (disk, block, streams) = (piece.disk, piece.block() + blocks.start as u64, piece.streams);
        let stay = self.stay(cut.id, class, blocks.start);
        let behaviour = Behaviour { past: streams || stay.passes_by && cut.is_large(), keeps: stay.keeps };
        let replaced = self.replaced(cut.frame, block);
        let of_region = || self.staying.replaces(disk, block..block + blocks.len() as u64, cut.now);
        let arrival = Arrival {
            replaced: replaced.or_else(of_region),
            valid_blocks: cut.valid_blocks,
            blocks: blocks.len() as u32,
        };
        let source = Source { piece: cut.id, at: blocks.start, data: cut.bytes(blocks.clone()) };
        let Some((space, lifetime)) = self.allocate(source, class, arrival, behaviour, cut.may_use_bands) else {
            return false;
        };
        let mut first = blocks.start as u16;
        for Run { location, blocks, device_blocks } in space {
            cut.segments.push(Segment {
                first,
                blocks: blocks as u16,
                fill: Fill::Data { location, class },
                device_blocks: device_blocks as u16,
                stay,
                replaced,
                lifetime,
                sequence: 0,
            });
            first += blocks as u16;
        }
        true
    }

    /// Gives back the space of segments that come to nothing.
    fn give_back(&mut self, segments: &[Segment]) {
        for segment in segments {
            if let Some(location) = segment.location() {
                let (blocks, device_blocks) = (segment.blocks.into(), segment.device_blocks.into());
                self.space.give_back(&[Run { location, blocks, device_blocks }], self.journal.last_recorded());
            }
        }
    }
}
