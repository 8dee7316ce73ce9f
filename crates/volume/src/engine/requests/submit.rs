//! Accepts host requests: refuses what cannot be done, and cuts the rest into pieces.

use super::client::{Client, ClientKind, Sweep};
use super::piece::{Piece, PieceKind, within_leaf};
use crate::engine::Engine;
use crate::request::{Completion, Op, Outcome, Request, RequestError};
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, Buf, DiskId};
use smallvec::SmallVec;

/// Longest read or write in bytes.
pub const TRANSFER_MAX_BYTES: u64 = 64 << 20;

impl Engine {
    /// Accepts a host request. Its completion comes from `next_completion`, and may be there before this returns.
    pub fn submit(&mut self, request: Request) {
        let Request { token, disk, offset_bytes, len_bytes, op, fua, export, session, tag, hints } = request;
        let answer = |engine: &mut Self, result| engine.requests.completions.push_back(Completion { token, result });
        // A disk that no durable root names yet is not served: a crash would lose the disk with all that was written to
        // it.
        let known = self.map.disk(disk).map(|disk| (disk.served_bytes(), disk.base_blocks() * BLOCK));
        let Some((size_bytes, base_bytes)) = known.filter(|&(size_bytes, _)| size_bytes > 0) else {
            return answer(self, Err(RequestError::NoDisk));
        };
        if base_bytes > 0 && !self.bases.is_served(disk) {
            return answer(self, Err(RequestError::NoBase));
        }
        let is_flush = matches!(op, Op::Flush);
        let bad_range = offset_bytes.checked_add(len_bytes).is_none_or(|end| end > size_bytes)
            || offset_bytes % 512 != 0
            || len_bytes % 512 != 0;
        if !is_flush && bad_range {
            return answer(self, Err(RequestError::OutOfRange));
        }
        if matches!(op, Op::Reclass) && !(offset_bytes | len_bytes).is_multiple_of(BLOCK) {
            return answer(self, Err(RequestError::OutOfRange));
        }
        let changes = matches!(op, Op::Write(_) | Op::Discard | Op::WriteZeroes { .. } | Op::Reclass);
        if changes
            && let Some(reason) = self.refusal()
            && !self.holds_changes()
        {
            let reason = reason.to_owned();
            return answer(self, Err(RequestError::ReadOnly(reason)));
        }
        if !is_flush && len_bytes == 0 {
            let empty = if matches!(op, Op::Read) { Outcome::Data(Buf::new(0)) } else { Outcome::Done };
            return answer(self, Ok(empty));
        }
        let transfers = matches!(op, Op::Read | Op::Write(_));
        if transfers && len_bytes > TRANSFER_MAX_BYTES {
            return answer(self, Err(RequestError::OutOfRange));
        }
        let (next_block, end_block) = (offset_bytes / BLOCK, (offset_bytes + len_bytes).div_ceil(BLOCK));
        let sweep = |what| ClientKind::Sweep { next_block: 0, end_block: 0, what };
        let kind = match &op {
            Op::Read => ClientKind::Read { parts: SmallVec::new() },
            Op::Write(data) if data.len() as u64 != len_bytes => {
                return answer(self, Err(RequestError::OutOfRange));
            }
            Op::Write(_) => ClientKind::Write,
            Op::Flush => ClientKind::Flush,
            // NBD's CACHE is a hint that promises nothing: it is answered, and nothing is done.
            Op::Cache => return answer(self, Ok(Outcome::Done)),
            // Over a base, an unmapped block would show the base's data again: it gets zeros instead.
            Op::Discard | Op::WriteZeroes { may_unmap: true } if offset_bytes < base_bytes => sweep(Sweep::Zero),
            Op::Discard | Op::WriteZeroes { may_unmap: true } => sweep(Sweep::Unmap),
            Op::WriteZeroes { may_unmap: false } => sweep(Sweep::Zero),
            Op::Reclass => sweep(Sweep::Reclass),
            Op::Status { max_extents } => {
                ClientKind::Status { next_block, end_block, extents: Vec::new(), max_extents: (*max_extents).max(1) }
            }
        };
        let started_ns = self.clock.now_ns();
        self.scrub.leisure.asked(started_ns);
        self.adoption.leisure.asked(started_ns);
        let client = Client {
            token,
            kind,
            disk,
            offset_bytes,
            len_bytes,
            fua,
            export,
            session,
            tag,
            hints,
            // One is for this function itself: pieces that finish at once must not end the request early.
            remaining: 1,
            error: None,
            started_ns,
            waits_since_ns: self.clock.waiting_ns(),
        };
        let id = self.requests.clients.insert(client) as u32;
        match op {
            Op::Read => self.start_read(id, disk, next_block, end_block),
            Op::Write(data) => self.start_write(id, disk, offset_bytes, data),
            Op::Discard | Op::WriteZeroes { .. } | Op::Reclass => self.start_sweep(id),
            Op::Status { .. } => self.next_status_piece(id),
            Op::Flush => return self.client_flush(id),
            Op::Cache => {}
        }
        self.piece_of_client_done(id, None);
    }

    fn start_read(&mut self, client: u32, disk: DiskId, mut block: u64, end: u64) {
        self.read_ahead(disk, block, end);
        self.staying.read(disk, block..end, self.stats.written_blocks());
        let mut rest = Buf::new(((end - block) * BLOCK) as usize);
        let mut index = 0;
        while block < end {
            let blocks = within_leaf(block, end - block);
            let mut piece = Piece::new(client, PieceKind::Read, disk, block, blocks, index);
            let tail = if block + blocks < end { rest.split_off((blocks * BLOCK) as usize) } else { Buf::empty() };
            piece.buf = Some(std::mem::replace(&mut rest, tail));
            let id = self.add_piece(piece);
            if let Some(Client { kind: ClientKind::Read { parts }, .. }) =
                self.requests.clients.get_mut(client as usize)
            {
                parts.push(None);
            }
            self.read_piece(id);
            block += blocks;
            index += 1;
        }
    }

    fn start_write(&mut self, client: u32, disk: DiskId, offset_bytes: u64, data: Buf) {
        let data = data.freeze();
        let is_durable = self.requests.clients.get(client as usize).is_some_and(|client| client.fua);
        let fua = is_durable && self.setup.has_durable_writes();
        let blocks = (data.len() / BLOCK as usize) as u64;
        let streams = self.requests.streams.write(disk.0, offset_bytes / BLOCK, blocks) >= self.stream_min_blocks();
        let mut done = 0;
        while done < data.len() {
            let offset = offset_bytes + done as u64;
            let (block, at) = (offset / BLOCK, (offset % BLOCK) as usize);
            let left = data.len() - done;
            let (kind, blocks, len) = if at != 0 || left < BLOCK as usize {
                let len = left.min(BLOCK as usize - at);
                (PieceKind::Merge { data: data.slice(done, len), at }, 1, len)
            } else {
                let blocks = within_leaf(block, (left as u64) / BLOCK);
                let len = (blocks * BLOCK) as usize;
                let mut slice = data.slice(done, len);
                // After a partial first block the slice is not aligned in memory, as O_DIRECT needs it.
                if !(slice.as_ptr() as usize).is_multiple_of(BLOCK as usize) {
                    slice = Buf::copy_of(&slice).freeze();
                }
                (PieceKind::Write { data: slice }, blocks, len)
            };
            self.launch_change(Piece { fua, streams, ..Piece::new(client, kind, disk, block, blocks, 0) });
            done += len;
        }
        self.staying.requested(blocks);
    }
}
