//! Block status, leaf by leaf.

use super::client::{Client, ClientKind};
use super::piece::{Piece, PieceKind};
use crate::engine::Engine;
use crate::engine::map::Leaf;
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use crate::map::index::Disk;
use crate::request::{Extent, ExtentState};
use forebay_block::BLOCK_BYTES_U64 as BLOCK;

impl Engine {
    /// Starts the first or next piece of a block-status request. The caller keeps the request from ending meanwhile.
    pub(crate) fn next_status_piece(&mut self, id: u32) {
        let Some(Client { kind: ClientKind::Status { next_block, end_block, extents, .. }, disk, .. }) =
            self.requests.clients.get_mut(id as usize)
        else {
            return;
        };
        let disk = *disk;
        // A range in which no leaf exists is one long hole, or lies in the base.
        let leaf = *next_block / LEAF_ENTRIES as u64;
        let next = self.map.disks.get(&disk.0).and_then(|d| d.next_leaf(leaf));
        let mapped_from = next.map_or(*end_block, |next| (next * LEAF_ENTRIES as u64).min(*end_block));
        let base_end = self.map.disk(disk).map_or(0, Disk::base_blocks);
        for (end, state) in [(mapped_from.min(base_end), ExtentState::Base), (mapped_from, ExtentState::Hole)] {
            if end > *next_block {
                push_extent(extents, (end - *next_block) * BLOCK, state);
                *next_block = end;
            }
        }
        if *next_block < *end_block {
            let piece = Self::piece_within_leaf(id, PieceKind::Status, disk, *next_block, *end_block - *next_block);
            let piece = self.add_piece(piece);
            self.status_piece(piece);
        }
    }

    /// Goes on with the next leaves when all earlier pieces are done, until a piece has to wait. A loop, because a
    /// range of one state may have any number of leaves.
    pub(crate) fn next_status_pieces(&mut self, id: u32) {
        loop {
            let Some(client) = self.requests.clients.get_mut(id as usize) else { return };
            let ClientKind::Status { next_block, end_block, extents, max_extents } = &client.kind else { return };
            if client.error.is_some() || next_block >= end_block || extents.len() > *max_extents {
                return self.end_client(id);
            }
            // One is for this loop: a piece that ends at once must not call this function again.
            client.remaining = 1;
            self.next_status_piece(id);
            let Some(client) = self.requests.clients.get_mut(id as usize) else { return };
            client.remaining -= 1;
            if client.remaining > 0 {
                return;
            }
        }
    }

    pub(crate) fn status_piece(&mut self, id: u32) {
        let Some(piece) = self.requests.pieces.get(id as usize) else {
            return;
        };
        let Piece { client, disk, leaf, first, blocks, .. } = *piece;
        let frame = match self.require_leaf(disk, leaf, id, false) {
            Leaf::Wait => return,
            Leaf::Hole => None,
            Leaf::Ready(frame) => Some(frame),
        };
        let (begin, base_end) = (leaf * LEAF_ENTRIES as u64, self.map.disk(disk).map_or(0, Disk::base_blocks));
        let entries: Vec<ExtentState> = (usize::from(first)..usize::from(first + blocks))
            .map(|i| {
                let entry = frame.map_or(Entry::Unmapped, |f| page::leaf_entry(&self.map.frames.get(f).page, i).0);
                match entry {
                    Entry::Unmapped if begin + (i as u64) < base_end => ExtentState::Base,
                    Entry::Unmapped => ExtentState::Hole,
                    Entry::Zero => ExtentState::Zero,
                    Entry::Damaged => ExtentState::Damaged,
                    Entry::Data { span, class } => {
                        ExtentState::Data { class, fast: self.setup.extents.is_fast(span.location) }
                    }
                }
            })
            .collect();
        if let Some(Client { kind: ClientKind::Status { next_block, extents, .. }, .. }) =
            self.requests.clients.get_mut(client as usize)
        {
            *next_block += entries.len() as u64;
            entries.into_iter().for_each(|state| push_extent(extents, BLOCK, state));
        }
        self.finish_piece(id);
    }

    /// Cuts the collected extents to the bytes and the number asked for.
    pub(crate) fn trim_extents(extents: &mut Vec<Extent>, offset_bytes: u64, len_bytes: u64, max_extents: usize) {
        if let Some(head) = extents.first_mut() {
            head.len_bytes -= (offset_bytes % BLOCK).min(head.len_bytes);
        }
        extents.retain(|extent| extent.len_bytes > 0);
        extents.truncate(max_extents);
        let mut left = len_bytes;
        for extent in extents.iter_mut() {
            extent.len_bytes = extent.len_bytes.min(left);
            left -= extent.len_bytes;
        }
        extents.retain(|extent| extent.len_bytes > 0);
    }
}

fn push_extent(extents: &mut Vec<Extent>, len_bytes: u64, state: ExtentState) {
    match extents.last_mut() {
        Some(last) if last.state == state => last.len_bytes += len_bytes,
        _ => extents.push(Extent { len_bytes, state }),
    }
}
