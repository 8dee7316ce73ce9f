//! Host requests, from submission to completion.

mod adopt;
mod ahead;
mod change;
mod client;
mod mend;
mod merge;
mod pack;
mod parts;
mod piece;
mod ranges;
mod read;
mod read_ahead;
mod read_plan;
mod readers;
mod reclass;
mod scrub;
mod sequences;
mod state;
mod status;
mod streams;
mod submit;
mod sweep;
mod unpack;
mod waiting;
mod wants;
mod write;

pub(crate) use ahead::Ahead;
pub(crate) use client::{Client, ClientKind, Sweep};
pub(crate) use pack::sizes as packed_sizes;
pub(crate) use piece::{Fill, IN_MEMORY, Piece};
pub(crate) use state::Requests;
pub(crate) use wants::Wants;

use super::Engine;
use super::served::RequestKind;
use crate::request::{Completion, Outcome, RequestError};
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, Buf, DiskId};
use parts::joined;
use piece::{PieceKind, within_leaf};
use smallvec::SmallVec;

/// Bit that marks the owner of a range as a client (a sweep or a step of adoption) rather than a piece.
const CLIENT: u32 = 1 << 31;

impl Engine {
    /// Adds a piece that changes the map and starts it when its range is free.
    pub(crate) fn launch_change(&mut self, piece: Piece) {
        let (disk, block, blocks) = (piece.disk.0, piece.block(), u64::from(piece.blocks));
        let id = self.add_piece(piece);
        if self.requests.ranges.lock(disk, block, blocks, id) {
            self.requests.pieces[id as usize].locked = true;
            self.change_piece(id);
        }
    }

    /// Adds a piece that changes the map within a range that its client has locked, and starts it.
    pub(crate) fn launch_in_range(&mut self, piece: Piece) {
        let id = self.add_piece(piece);
        self.change_piece(id);
    }

    /// Releases a range. Owners that get their range by this are resumed at the next pump.
    fn unlock(&mut self, owner: u32) {
        let mut woken = std::mem::take(&mut self.requests.woken);
        self.requests.ranges.unlock(owner, &mut woken);
        for other in woken.drain(..) {
            if let Some(piece) = self.requests.pieces.get_mut(other as usize) {
                piece.locked = true;
            }
            self.requests.waiting.queue(Wants::Turn).push_back(other);
        }
        self.requests.woken = woken;
    }

    /// A piece of `blocks` blocks, cut to its leaf, for the leaf-by-leaf operations.
    pub(crate) fn piece_within_leaf(client: u32, kind: PieceKind, disk: DiskId, block: u64, left: u64) -> Piece {
        Piece::new(client, kind, disk, block, within_leaf(block, left), 0)
    }

    pub(crate) fn add_piece(&mut self, piece: Piece) -> u32 {
        if let Some(client) = self.requests.clients.get_mut(piece.client as usize) {
            client.remaining += 1;
        }
        self.requests.pieces.insert(piece) as u32
    }

    /// Resumes a piece whose leaf has arrived, or whose range or space is free; or a client whose range is locked.
    pub(crate) fn resume(&mut self, piece: u32) {
        if piece & CLIENT != 0 {
            return self.begin_locked(piece & !CLIENT);
        }
        match self.requests.pieces.get(piece as usize).map(|p| &p.kind) {
            Some(PieceKind::Read | PieceKind::Scrub | PieceKind::Adopt) => self.read_piece(piece),
            Some(PieceKind::Status) => self.status_piece(piece),
            Some(_) => self.change_piece(piece),
            None => {}
        }
    }

    /// Starts a client whose range is locked.
    fn begin_locked(&mut self, id: u32) {
        match self.requests.clients.get(id as usize).map(|client| &client.kind) {
            Some(ClientKind::Adopt { .. }) => self.begin_adopting(id),
            Some(_) => self.begin_sweep(id),
            None => {}
        }
    }

    /// Removes a finished piece: releases its range and its leaf, and reports to its client.
    pub(crate) fn finish_piece(&mut self, id: u32) {
        let Some(mut piece) = self.requests.pieces.try_remove(id as usize) else {
            return;
        };
        if let Some(frame) = piece.frame.take() {
            self.map.frames.get_mut(frame).pins -= 1;
            self.requests.executing -= 1;
        }
        if piece.locked {
            self.unlock(id);
        }
        if let (PieceKind::Read, Some(buf)) = (&piece.kind, piece.buf.take())
            && let Some(Client { kind: ClientKind::Read { parts }, .. }) =
                self.requests.clients.get_mut(piece.client as usize)
            && let Some(part) = parts.get_mut(usize::from(piece.index))
        {
            *part = Some(buf);
        }
        if matches!(piece.kind, PieceKind::Scrub)
            && let Some(Client { kind: ClientKind::Scrub { stored_blocks }, .. }) =
                self.requests.clients.get_mut(piece.client as usize)
        {
            *stored_blocks += piece.stored_blocks();
        }
        self.piece_of_client_done(piece.client, piece.error);
    }

    /// A piece of a client has ended. After the last one the client starts its next pieces or is answered.
    pub(crate) fn piece_of_client_done(&mut self, id: u32, error: Option<RequestError>) {
        let Some(client) = self.requests.clients.get_mut(id as usize) else { return };
        client.remaining -= 1;
        if client.error.is_none() {
            client.error = error;
        }
        if client.remaining > 0 {
            return;
        }
        if client.error.is_none() {
            match &client.kind {
                ClientKind::Sweep { next_block, end_block, .. } if next_block < end_block => {
                    return self.next_sweep_pieces(id);
                }
                ClientKind::Status { .. } => return self.next_status_pieces(id),
                _ => {}
            }
        }
        self.end_client(id);
    }

    /// All pieces of a client are done. Where FUA was asked for, the changes are made durable first; then the client is
    /// answered.
    pub(crate) fn end_client(&mut self, id: u32) {
        let Some(client) = self.requests.clients.get_mut(id as usize) else { return };
        if client.error.is_none() && client.fua {
            match client.kind {
                // Its pieces were written past the caches.
                ClientKind::Write if self.setup.has_durable_writes() && !self.flushes.has_failed() => {}
                // Its pieces were not written past the caches; or a flush has failed meanwhile, and the journal before them may be lost. A sweep needs a flush
                // in any case: a block that it found cleared may have been cleared a moment before, by a change that is not durable yet.
                ClientKind::Write | ClientKind::Sweep { .. } => {
                    client.fua = false;
                    return self.client_flush(id);
                }
                _ => {}
            }
        }
        self.answer(id);
    }

    /// Answers a host request.
    pub(crate) fn answer(&mut self, id: u32) {
        let Some(client) = self.requests.clients.try_remove(id as usize) else {
            return;
        };
        match client.kind {
            ClientKind::Sweep { .. } => self.unlock(id | CLIENT),
            ClientKind::Scrub { .. } => return self.scrub_ended(client),
            ClientKind::Adopt { .. } => {
                self.unlock(id | CLIENT);
                return self.adopted(client);
            }
            _ => {}
        }
        let Client { token, kind, disk, offset_bytes, len_bytes, error, started_ns, .. } = client;
        let counted_as = RequestKind::of(&kind);
        if error.is_none() {
            self.stats.disks.entry(disk.0).or_default().count(counted_as, len_bytes);
        }
        let result = match (error, kind) {
            (Some(error), _) => {
                self.stats.counters.request_errors += 1;
                Err(error)
            }
            (None, ClientKind::Read { parts }) => Ok(Outcome::Data(cut_out(parts, offset_bytes, len_bytes))),
            (None, ClientKind::Status { mut extents, max_extents, .. }) => {
                Self::trim_extents(&mut extents, offset_bytes, len_bytes, max_extents);
                Ok(Outcome::Extents(extents))
            }
            (None, _) => Ok(Outcome::Done),
        };
        self.stats.counters.latency_ns.record(counted_as, self.clock.now_ns().saturating_sub(started_ns));
        self.requests.completions.push_back(Completion { token, result });
    }
}

/// Joins the parts of a read and cuts them to the bytes that were asked for.
fn cut_out(parts: SmallVec<[Option<Buf>; 1]>, offset_bytes: u64, len_bytes: u64) -> Buf {
    let all_bytes = parts.iter().flatten().map(|part| part.len()).sum();
    let mut end = 0;
    let placed = parts.into_iter().flatten().map(|part| {
        let begin = end;
        end += part.len();
        (begin, part)
    });
    let mut whole = joined(placed, all_bytes);
    let head = (offset_bytes % BLOCK) as usize;
    let mut body = if head == 0 { whole } else { whole.split_off(head) };
    body.truncate(len_bytes as usize);
    body
}
