//! How the blocks of a piece are read: computed from what the lookup found and from what earlier readings gave, before anything is sent.

use super::mend::wrong_of;
use super::piece::{IN_MEMORY, NOWHERE, Piece, PieceKind};
use crate::engine::Setup;
use crate::engine::base::{Bases, is_in_base};
use crate::layout::page::{Span, Window};
use forebay_block::checksum::block_checksum;
use forebay_block::{BLOCK_BYTES as BLOCK, Op};
use smallvec::SmallVec;

/// How the blocks of a piece are read at its next reading.
pub(super) struct ReadPlan {
    /// Runs of blocks that lie together, which cover the piece.
    pub runs: SmallVec<[PlannedRun; 4]>,
    /// Runs with a summary between them are one request, and what was read ahead is used. Not after a failure, as either may have been the
    /// cause; nor by a scrub, which reads what lies on the device and never includes summaries.
    pub joins: bool,
    /// What was wrong where it lies: known after the first reading that failed, where there are other readings.
    pub first_wrong: Option<SmallVec<[u16; 4]>>,
}

/// Blocks of a piece that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedRun {
    /// First block within the piece.
    pub first: u16,
    pub blocks: u16,
    pub source: Source,
}

/// From where a run is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// From nowhere: what the buffer has of it is right already, or is not looked at with this copy.
    Kept,
    InMemory,
    /// It is on no device, and reads as zeros.
    Hole,
    /// A location that only damage can have put there, unnoticed by a checksum.
    Impossible,
    /// Compressed blocks, of which a whole number of units of the device is read.
    Packed {
        place: Place,
        len_bytes: usize,
    },
    /// Blocks as they are, from this location on.
    Whole {
        place: Place,
        location: u64,
    },
}

/// A place of a device, and which reading of it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub device: usize,
    pub offset_bytes: u64,
    pub attempt: u8,
}

impl ReadPlan {
    /// The plan for a piece whose blocks have been looked up. `before`: what its buffer holds, which is what the reading before this one gave.
    pub fn of(piece: &Piece, before: &[u8], setup: &Setup, bases: &Bases) -> Self {
        // Each copy may have a different block wrong. So blocks that were right are kept, and the rest is read block by block.
        let is_piecemeal = piece.failures_in_place > 0 && setup.mends();
        let mut planner = Planner { piece, setup, bases, is_piecemeal, right: SmallVec::new() };
        if is_piecemeal {
            planner.right = planner.right_in(before);
        }
        let is_first_failure = is_piecemeal && piece.failures_in_place == 1;
        Self {
            runs: planner.runs(),
            joins: piece.attempts == 0 && !planner.is_scrub(),
            first_wrong: is_first_failure.then(|| wrong_of(&planner.right, &piece.spans)),
        }
    }
}

struct Planner<'a> {
    piece: &'a Piece,
    setup: &'a Setup,
    bases: &'a Bases,
    is_piecemeal: bool,
    /// Of each block whether it need not be read again; empty where all are read.
    right: SmallVec<[bool; 4]>,
}

impl Planner<'_> {
    /// Cuts the piece into runs.
    fn runs(&self) -> SmallVec<[PlannedRun; 4]> {
        let (mut runs, mut at) = (SmallVec::new(), 0);
        while at < self.piece.spans.len() {
            let blocks = if self.is_alone(at) { 1 } else { self.run_from(at) };
            runs.push(PlannedRun { first: at as u16, blocks: blocks as u16, source: self.source(at, blocks) });
            at += blocks;
        }
        runs
    }

    fn is_scrub(&self) -> bool {
        matches!(self.piece.kind, PieceKind::Scrub)
    }

    fn is_fast(&self, at: usize) -> bool {
        self.piece.spans.get(at).is_some_and(|span| self.setup.extents.is_fast(span.location))
    }

    /// Whether a block is on no mirror, and was read with the first copy of what is on one. A host may have written it anew since, so it is
    /// neither compared nor written.
    fn is_passed(&self, at: usize) -> bool {
        self.piece.copy > 0 && !self.is_fast(at)
    }

    /// Of each block that was read before whether it is what the map named, or is passed.
    fn right_in(&self, before: &[u8]) -> SmallVec<[bool; 4]> {
        let is_right = |at: usize, bytes: &[u8]| {
            let named = self.piece.checksums.get(at).copied();
            Some(block_checksum(self.piece.disk, self.piece.block() + at as u64, bytes)) == named
        };
        before.chunks_exact(BLOCK).enumerate().map(|(at, bytes)| self.is_passed(at) || is_right(at, bytes)).collect()
    }

    /// Whether a block is read by itself. After a failure compressed blocks are, so that a bad block does not make the others fail.
    fn is_alone(&self, at: usize) -> bool {
        self.is_piecemeal || !self.piece.spans[at].is_whole() && self.piece.attempts > 0
    }

    /// Number of blocks from `at` on that lie together, all of them compressed or none.
    fn run_from(&self, at: usize) -> usize {
        let spans = &self.piece.spans[at..];
        let start = spans[0];
        let follows = |pair: &&[Span]| {
            let [before, next] = **pair else { return false };
            if [start, next].iter().any(|span| [NOWHERE, IN_MEMORY].contains(span)) {
                return start == next;
            }
            // The extents end between the tiers: a run never crosses from one device to the next.
            next.location == before.end()
                && next.is_whole() == start.is_whole()
                && self.setup.extents.is_fast(start.location) == self.setup.extents.is_fast(next.location)
        };
        1 + spans.windows(2).take_while(follows).count()
    }

    /// From where the run of so many blocks is read that begins at `at`.
    fn source(&self, at: usize, blocks: usize) -> Source {
        let (start, last) = (self.piece.spans[at], self.piece.spans[at + blocks - 1]);
        if self.is_kept(at) {
            return Source::Kept;
        }
        match start {
            IN_MEMORY => return Source::InMemory,
            NOWHERE => return Source::Hole,
            _ => {}
        }
        let around = Window::around(start, last, self.setup.unit_grains);
        let on_device = match is_in_base(around.first) {
            true => self.bases.place(self.piece.disk, around.first),
            false => self.setup.extents.place(around.first),
        };
        let Some((device, offset_bytes)) = on_device else { return Source::Impossible };
        let place = Place { device, offset_bytes, attempt: self.attempt(at) };
        if start.is_whole() {
            Source::Whole { place, location: start.location }
        } else {
            Source::Packed { place, len_bytes: around.len_bytes }
        }
    }

    /// Whether a block is not read again. There are no checksums for data in a base. A compressed block is kept where it was not wrong at the
    /// last reading: no single reading need be right for all of them.
    fn is_kept(&self, at: usize) -> bool {
        let start = self.piece.spans[at];
        let is_ours = start.is_whole() && !is_in_base(start.location);
        let is_unpacked = self.is_piecemeal && !start.is_whole() && !self.piece.wrong_packed.contains(&(at as u16));
        self.is_passed(at) || is_ours && self.right.get(at).copied().unwrap_or(false) || is_unpacked
    }

    /// Which reading of a block is wanted. Only the fast tier has copies. A further attempt makes a capacity device restore data from other
    /// devices, which says nothing of what lies there.
    fn attempt(&self, at: usize) -> u8 {
        let (copy, failures) = (self.piece.copy, self.piece.failures_in_place);
        // One copy alone: where a block of it cannot be read, another copy would answer for the whole read, and hide what is wrong beside that
        // block.
        let of_one = if self.is_scrub() && failures == 0 && self.setup.copies > 1 { Op::ALONE } else { 0 };
        if self.is_fast(at) { (copy + failures) | of_one } else { failures }
    }
}
