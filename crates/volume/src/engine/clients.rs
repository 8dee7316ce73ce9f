//! Host requests, and the pieces they are cut into: one piece lies within one map leaf.

use super::Engine;
use crate::layout::page::LEAF_ENTRIES;
use crate::map::index::Disk;
use crate::request::{Completion, Extent, Op, Outcome, Request, RequestError, ToldParts};
use forebay_block::{Buf, ClassId, DiskId, SharedBuf};
use forebay_prism::Run;
use smallvec::SmallVec;
use std::collections::VecDeque;

const BLOCK: u64 = 4096;
/// Marks the owner of a range that is a client (a discard or write-zeroes) and not a piece.
pub(crate) const CLIENT: u32 = 1 << 31;
/// Longest read or write in bytes.
pub const TRANSFER_MAX_BYTES: u64 = 64 << 20;

/// What a client waits for.
#[derive(Debug)]
pub(crate) enum ClientKind {
    /// A read: its parts in order.
    Read { parts: SmallVec<[Option<Buf>; 1]> },
    /// A write.
    Write,
    /// A discard, write-zeroes or change of class, done leaf by leaf.
    Sweep { next_block: u64, end_block: u64, what: Sweep },
    /// Block status, collected leaf by leaf.
    Status { next_block: u64, end_block: u64, extents: Vec<Extent>, max_extents: usize },
    /// A flush.
    Flush,
}

/// What is done to a range leaf by leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Blocks become unmapped.
    Unmap,
    /// Blocks become zeros.
    Zero,
    /// Blocks get the class that they are known to belong to now.
    Reclass,
}

/// A host request under way.
#[derive(Debug)]
pub(crate) struct Client {
    pub token: u64,
    pub kind: ClientKind,
    pub disk: DiskId,
    pub offset_bytes: u64,
    pub len_bytes: u64,
    pub fua: bool,
    pub export: u16,
    pub tag: Option<ClassId>,
    pub told: Option<Box<ToldParts>>,
    /// Pieces not yet finished.
    pub remaining: u32,
    pub error: Option<RequestError>,
    pub started_ns: u64,
    /// When it came, by the time in which it loses patience.
    pub waits_since_ns: u64,
}

/// What a piece does.
#[derive(Debug)]
pub(crate) enum PieceKind {
    /// Read into the parts.
    Read,
    /// Write whole blocks.
    Write { data: SharedBuf },
    /// Merge bytes into one block: read, then write.
    Merge { data: SharedBuf, at: usize },
    /// Zeros into part of one block: read, then write.
    MergeZeros { at: usize, len: usize },
    /// Zero, unmap or reclass whole blocks.
    Sweep(Sweep),
    /// Report.
    Status,
}

/// What a parked piece waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Its turn in its range.
    #[default]
    Turn,
    /// Room in the journal.
    Journal,
    /// A checkpoint: too many leaves are dirty.
    Checkpoint,
    /// Slots or bands.
    Space,
}

/// Pieces that cannot go on, a queue for each reason: who waits for space must not hold up the discard that would free it.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    queues: [VecDeque<u32>; 4],
}

impl Waiting {
    /// In the order in which they are tried again: those who only waited for their turn first.
    pub const REASONS: [Wants; 4] = [Wants::Turn, Wants::Journal, Wants::Checkpoint, Wants::Space];

    /// The queue of a reason.
    pub fn queue(&mut self, wants: Wants) -> &mut VecDeque<u32> {
        &mut self.queues[wants as usize]
    }

    /// The first who waits for a reason.
    pub fn first(&self, wants: Wants) -> Option<u32> {
        self.queues[wants as usize].front().copied()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }
}

/// One run of a piece that got one kind of new entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// First block within the piece.
    pub first: u16,
    pub blocks: u16,
    pub fill: Fill,
    /// The record's sequence, once there is one.
    pub sequence: u64,
}

/// What a segment becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Data {
        location: u64,
        class: ClassId,
    },
    Zero,
    Unmapped,
    /// The data stays, its class changes.
    Reclass {
        class: ClassId,
    },
}

/// A part of a host request within one leaf.
#[derive(Debug)]
pub(crate) struct Piece {
    pub client: u32,
    pub kind: PieceKind,
    pub disk: DiskId,
    pub leaf: u64,
    /// First block within the leaf.
    pub first: u16,
    pub blocks: u16,
    /// Which part of the client's read this is.
    pub index: u16,
    /// Device requests and batches under way.
    pub outstanding: u32,
    pub error: Option<RequestError>,
    pub frame: Option<u32>,
    pub locked: bool,
    /// Data and records go past volatile caches: it is durable when they have arrived.
    pub fua: bool,
    /// Part of a long sequential stream.
    pub streams: bool,
    pub segments: SmallVec<[Segment; 2]>,
    pub checksums: SmallVec<[u32; 4]>,
    /// Locations a read was sent to, one per block, to tell a move from damage.
    pub locations: SmallVec<[u64; 4]>,
    pub buf: Option<Buf>,
    pub parts: SmallVec<[(u16, Option<Buf>); 1]>,
    pub attempts: u8,
    /// How often in a row the same data at the same place could not be read.
    pub failures_in_place: u8,
    /// Batches that hold its records.
    pub batches: SmallVec<[u64; 2]>,
    /// Where recovery would have to start to see them.
    pub journal_at: Option<(u64, u64)>,
    /// Batches that cancel its records.
    pub cancels: SmallVec<[u64; 1]>,
    /// Data writes under way (its batches count it as a part until then).
    pub data_outstanding: u32,
    /// A batch of its records could not be written: whether they are on the device is unknown.
    pub journal_lost: bool,
    /// Why it is parked.
    pub wants: Wants,
    /// Classes of its blocks: a parked write is not classified again, it was seen once.
    pub runs: SmallVec<[Run; 1]>,
}

impl Piece {
    fn new(client: u32, kind: PieceKind, disk: DiskId, block: u64, blocks: u64, index: usize) -> Self {
        Self {
            client,
            kind,
            disk,
            leaf: block / LEAF_ENTRIES as u64,
            first: (block % LEAF_ENTRIES as u64) as u16,
            blocks: blocks as u16,
            index: index as u16,
            outstanding: 0,
            error: None,
            frame: None,
            locked: false,
            fua: false,
            streams: false,
            segments: SmallVec::new(),
            checksums: SmallVec::new(),
            locations: SmallVec::new(),
            buf: None,
            parts: SmallVec::new(),
            attempts: 0,
            failures_in_place: 0,
            batches: SmallVec::new(),
            journal_at: None,
            cancels: SmallVec::new(),
            data_outstanding: 0,
            journal_lost: false,
            wants: Wants::Turn,
            runs: SmallVec::new(),
        }
    }

    /// Address of its first block on the disk.
    pub fn block(&self) -> u64 {
        self.leaf * LEAF_ENTRIES as u64 + u64::from(self.first)
    }
}

/// Blocks from `block` to the end of its leaf, at most `left`.
fn within_leaf(block: u64, left: u64) -> u64 {
    left.min(LEAF_ENTRIES as u64 - block % LEAF_ENTRIES as u64)
}

impl Engine {
    /// Takes a host request. The completion comes out of `next_completion`, possibly before this returns.
    pub fn submit(&mut self, request: Request) {
        let Request { token, disk, offset_bytes, len_bytes, op, fua, export, tag, told } = request;
        let answer = |engine: &mut Self, result| engine.requests.completions.push_back(Completion { token, result });
        // A disk that no durable root knows of yet is not there: what is written to it could be lost with it.
        let Some(size_bytes) = self.map.disk(disk).map(Disk::served_bytes).filter(|&size_bytes| size_bytes > 0) else {
            return answer(self, Err(RequestError::NoDisk));
        };
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
        if changes && let Some(reason) = &self.read_only {
            let reason = reason.clone();
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
            // Nothing is cached on reads yet: the hint is taken and nothing is promised.
            Op::Cache => return answer(self, Ok(Outcome::Done)),
            Op::Discard | Op::WriteZeroes { may_unmap: true } => sweep(Sweep::Unmap),
            Op::WriteZeroes { may_unmap: false } => sweep(Sweep::Zero),
            Op::Reclass => sweep(Sweep::Reclass),
            Op::Status { max_extents } => {
                ClientKind::Status { next_block, end_block, extents: Vec::new(), max_extents: (*max_extents).max(1) }
            }
        };
        let started_ns = self.clock.now_ns();
        let client = Client {
            token,
            kind,
            disk,
            offset_bytes,
            len_bytes,
            fua,
            export,
            tag,
            told,
            // One for this function itself, so that pieces that finish at once do not end the request early.
            remaining: 1,
            error: None,
            started_ns,
            waits_since_ns: self.clock.patience_ns(),
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
        let fua = self.requests.clients.get(client as usize).is_some_and(|client| client.fua);
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
                // A host may write from an odd sector on: O_DIRECT needs the memory aligned as the device is.
                if !(slice.as_ptr() as usize).is_multiple_of(BLOCK as usize) {
                    slice = Buf::copy_of(&slice).freeze();
                }
                (PieceKind::Write { data: slice }, blocks, len)
            };
            self.launch_change(Piece { fua, streams, ..Piece::new(client, kind, disk, block, blocks, 0) });
            done += len;
        }
    }

    /// Adds a piece that changes the map and starts it when its range is free.
    pub(crate) fn launch_change(&mut self, piece: Piece) {
        let (disk, block, blocks) = (piece.disk.0, piece.block(), u64::from(piece.blocks));
        let id = self.add_piece(piece);
        if self.requests.ranges.lock(disk, block, blocks, id) {
            self.requests.pieces[id as usize].locked = true;
            self.change_piece(id);
        }
    }

    /// Adds a piece that changes the map within a range its client holds, and starts it.
    pub(crate) fn launch_in_range(&mut self, piece: Piece) {
        let id = self.add_piece(piece);
        self.change_piece(id);
    }

    /// Gives up a range; those whose turn has come are started at the next pump.
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

    /// Goes on with a piece whose turn has come: a leaf arrived, a range or space was freed.
    pub(crate) fn resume(&mut self, piece: u32) {
        if piece & CLIENT != 0 {
            return self.begin_sweep(piece & !CLIENT);
        }
        match self.requests.pieces.get(piece as usize).map(|p| &p.kind) {
            Some(PieceKind::Read) => self.read_piece(piece),
            Some(PieceKind::Status) => self.status_piece(piece),
            Some(_) => self.change_piece(piece),
            None => {}
        }
    }

    /// Removes a finished piece: gives up its range and leaf, and tells its client.
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
        self.piece_of_client_done(piece.client, piece.error);
    }

    /// A piece of a client ended; after the last, the client goes on or is answered.
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

    /// All pieces of a client are done: what must be durable is made so, then it is answered.
    pub(crate) fn end_client(&mut self, id: u32) {
        let Some(client) = self.requests.clients.get_mut(id as usize) else { return };
        if client.error.is_none() && client.fua {
            match client.kind {
                // Its pieces went past the caches. Not where a flush has failed meanwhile: the journal before them may
                // be lost then, and it is a restart that finds out.
                ClientKind::Write if self.flushes.has_failed() => client.error = Some(RequestError::FlushFailed),
                // What a sweep found cleared already may have been cleared a moment ago, and not durably.
                ClientKind::Sweep { .. } => {
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
        if matches!(client.kind, ClientKind::Sweep { .. }) {
            self.unlock(id | CLIENT);
        }
        let Client { token, kind, offset_bytes, len_bytes, error, started_ns, .. } = client;
        let result = match (error, kind) {
            (Some(error), _) => {
                self.stats.counters.request_errors += 1;
                Err(error)
            }
            (None, ClientKind::Read { parts }) => Ok(Outcome::Data(joined(parts, offset_bytes, len_bytes))),
            (None, ClientKind::Status { mut extents, max_extents, .. }) => {
                Self::trim_extents(&mut extents, offset_bytes, len_bytes, max_extents);
                Ok(Outcome::Extents(extents))
            }
            (None, _) => Ok(Outcome::Done),
        };
        self.stats.counters.latency_ns.record(self.clock.now_ns().saturating_sub(started_ns));
        self.requests.completions.push_back(Completion { token, result });
    }
}

/// Joins the parts of a read and cuts them to what was asked.
fn joined(parts: SmallVec<[Option<Buf>; 1]>, offset_bytes: u64, len_bytes: u64) -> Buf {
    let mut parts = parts.into_iter().flatten();
    let mut whole = parts.next().unwrap_or_else(|| Buf::new(0));
    for part in parts {
        if let Err(part) = whole.try_join(part) {
            // The parts were split from one allocation in order, so this only copies if that ever changes.
            let mut copy = Buf::new(whole.len() + part.len());
            copy[..whole.len()].copy_from_slice(&whole);
            copy[whole.len()..].copy_from_slice(&part);
            whole = copy;
        }
    }
    let head = (offset_bytes % BLOCK) as usize;
    let mut body = if head == 0 { whole } else { whole.split_off(head) };
    body.truncate(len_bytes as usize);
    body
}
