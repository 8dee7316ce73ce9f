//! Discard, write-zeroes and changes of class, leaf by leaf: the cost depends on what is mapped, not on the size of the
//! range.

use super::CLIENT;
use super::client::{ClientKind, Sweep};
use super::piece::{Fill, PieceKind, Segment};
use super::wants::Wants;
use crate::engine::Engine;
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use crate::layout::record::write_bytes;
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, DiskId};
use smallvec::smallvec;

/// Leaves of one sweep that are changed at once.
const SWEEP_PIECES_MAX: usize = 64;

impl Engine {
    /// Locks the whole range of a sweep, so that later requests take effect after it, and starts once the range is
    /// locked.
    pub(crate) fn start_sweep(&mut self, id: u32) {
        let Some(client) = self.requests.clients.get_mut(id as usize) else { return };
        let (first, end) = (client.offset_bytes / BLOCK, (client.offset_bytes + client.len_bytes).div_ceil(BLOCK));
        client.remaining += 1;
        if self.requests.ranges.lock(client.disk.0, first, end - first, id | CLIENT) {
            self.begin_sweep(id);
        }
    }

    /// Partial blocks at the ends are merged, the whole ones between follow leaf by leaf.
    pub(crate) fn begin_sweep(&mut self, id: u32) {
        self.clear_ends(id);
        self.piece_of_client_done(id, None);
    }

    fn clear_ends(&mut self, id: u32) {
        let Some(client) = self.requests.clients.get_mut(id as usize) else { return };
        let (start, end) = (client.offset_bytes, client.offset_bytes + client.len_bytes);
        let (first_whole, end_whole) = (start.div_ceil(BLOCK), end / BLOCK);
        if let ClientKind::Sweep { next_block, end_block, .. } = &mut client.kind {
            (*next_block, *end_block) = (first_whole, end_whole);
        }
        let disk = client.disk;
        let mut merge = |block: u64, at: u64, len: u64| {
            let kind = PieceKind::MergeZeros { at: at as usize, len: len as usize };
            self.launch_in_range(Self::piece_within_leaf(id, kind, disk, block, 1));
        };
        if first_whole > end_whole {
            merge(start / BLOCK, start % BLOCK, end - start);
            return;
        }
        if start % BLOCK != 0 {
            merge(start / BLOCK, start % BLOCK, BLOCK - start % BLOCK);
        }
        if end % BLOCK != 0 {
            merge(end_whole, 0, end % BLOCK);
        }
    }

    /// Starts the next leaves of a sweep, several at once so that their records share a batch. Called when all earlier
    /// pieces are done.
    pub(crate) fn next_sweep_pieces(&mut self, id: u32) {
        let at_once = (self.map.frames.limit() / 8).clamp(1, SWEEP_PIECES_MAX);
        loop {
            // One is for this loop: pieces that end at once must not call this function again.
            match self.requests.clients.get_mut(id as usize) {
                Some(client) => client.remaining = 1,
                None => return,
            }
            let mut launched = 0;
            while launched < at_once && self.launch_next_sweep_piece(id) {
                launched += 1;
            }
            let Some(client) = self.requests.clients.get_mut(id as usize) else { return };
            client.remaining -= 1;
            if client.remaining > 0 {
                return;
            }
            if client.error.is_some() || launched == 0 {
                return self.end_client(id);
            }
        }
    }

    /// Starts the next leaf of a sweep; false where there is none.
    fn launch_next_sweep_piece(&mut self, id: u32) -> bool {
        let Some(client) = self.requests.clients.get_mut(id as usize) else { return false };
        let disk_id = client.disk;
        let ClientKind::Sweep { next_block, end_block, what } = &mut client.kind else { return false };
        let what = *what;
        if what != Sweep::Zero
            && let Some(disk) = self.map.disks.get(&disk_id.0)
        {
            // Skip what is not mapped at all.
            let leaf = *next_block / LEAF_ENTRIES as u64;
            match disk.next_leaf(leaf) {
                Some(next) if next > leaf => *next_block = (next * LEAF_ENTRIES as u64).min(*end_block),
                Some(_) => {}
                None => *next_block = *end_block,
            }
        }
        if *next_block >= *end_block || client.error.is_some() {
            return false;
        }
        let (block, left) = (*next_block, *end_block - *next_block);
        let piece = Self::piece_within_leaf(id, PieceKind::Sweep(what), disk_id, block, left);
        *next_block += u64::from(piece.blocks);
        self.launch_in_range(piece);
        true
    }

    /// Called where the leaf of a piece cannot be read. If that has been so for a while, and the piece clears all of the leaf, nothing that the leaf named is
    /// needed any more: the piece goes on without the leaf, or waits, and the result is true. The space that the leaf named is unknown, and is not given back.
    /// Writes do not get this help: their data may fail, and then the leaf would be needed again.
    pub(crate) fn sweeps_without_leaf(&mut self, id: u32, disk: DiskId, leaf: u64) -> bool {
        let first = leaf * LEAF_ENTRIES as u64;
        let Some(blocks) = self.map.disk(disk).map(|disk| disk.blocks().saturating_sub(first)) else { return false };
        let covers = self.requests.pieces.get(id as usize).is_some_and(|piece| {
            matches!(piece.kind, PieceKind::Sweep(Sweep::Unmap | Sweep::Zero))
                && piece.block() == first
                && u64::from(piece.blocks) == blocks.min(LEAF_ENTRIES as u64)
        });
        if !covers || !self.map.is_unreadable_for_long(disk, leaf, self.clock.now_ns()) {
            return false;
        }
        let Some(frame) = self.map.do_without(disk, leaf) else { return false };
        self.stats.counters.damaged_pages += 1;
        self.leaves().arrived(disk, leaf, frame);
        self.resume(id);
        // Where the piece has to wait, the leaf is read again when it goes on. No other request may see the empty leaf: changing it would make the loss
        // permanent.
        let entry = self.map.frames.get(frame);
        let is_there = self.map.disk(disk).is_some_and(|disk| disk.frame(leaf) == frame);
        if is_there && entry.pins == 0 && !entry.dirty {
            self.map.drop_frame(frame);
        } else {
            self.map.forget_unreadable(disk, leaf);
        }
        true
    }

    /// Applies a sweep to the blocks of one leaf. Only runs that change get a record.
    pub(crate) fn execute_sweep(&mut self, id: u32, frame: u32) {
        let piece = &self.requests.pieces[id as usize];
        let PieceKind::Sweep(what) = piece.kind else {
            return;
        };
        let (first, blocks) = (usize::from(piece.first), usize::from(piece.blocks));
        let (disk, block) = (piece.disk, piece.block());
        // At most every second block starts a run. Every block may start one where neighbours may get different
        // classes.
        let runs = if what == Sweep::Reclass { blocks } else { blocks.div_ceil(2) };
        if !self.journal.accepts(write_bytes(0) * runs, false) || self.space.freed.is_full() {
            return self.stall(id, Wants::Journal);
        }
        if !self.may_dirty(frame) {
            return self.stall(id, Wants::Checkpoint);
        }
        let mut segments: smallvec::SmallVec<[Segment; 2]> = smallvec![];
        let mut reclass = (what == Sweep::Reclass).then(|| self.reclass_of(id));
        for i in 0..blocks {
            let (entry, _) = page::leaf_entry(&self.map.frames.get(frame).page, first + i);
            let fill = match (what, entry) {
                (Sweep::Unmap, Entry::Unmapped) | (Sweep::Zero, Entry::Zero) => None,
                (Sweep::Unmap, _) => Some(Fill::Unmapped),
                (Sweep::Zero, _) => Some(Fill::Zero),
                (Sweep::Reclass, _) => reclass.as_mut().and_then(|reclass| reclass.fill(self, block + i as u64, entry)),
            };
            let Some(fill) = fill else { continue };
            match segments.last_mut() {
                Some(last) if usize::from(last.first + last.blocks) == i && last.fill == fill => last.blocks += 1,
                _ => segments.push(Segment::without_data(i as u16, 1, fill)),
            }
        }
        if segments.is_empty() {
            return self.finish_piece(id);
        }
        if self.lacks_page_slot(frame) {
            return self.stall(id, Wants::Space);
        }
        if what != Sweep::Reclass {
            self.prism.observe_discard(disk, block * BLOCK, blocks as u64 * BLOCK);
            self.staying.died(disk, block..block + blocks as u64, self.stats.written_blocks());
        }
        self.pin(id, frame);
        self.requests.pieces[id as usize].segments = segments;
        self.issue_segments(id, None);
    }
}
