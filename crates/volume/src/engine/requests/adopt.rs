//! Copying what a disk still has in its base ([`crate::engine::adoption`]): the range is locked as for a change, what the map does not name
//! there is read of the base, and written as a host would write it.

use super::CLIENT;
use super::client::{Client, ClientKind};
use super::piece::{NOWHERE, Piece, PieceKind};
use crate::engine::Engine;
use crate::engine::adoption::{AdoptionStatus, STEP_BLOCKS};
use crate::engine::base::{is_in_base, span_of};
use crate::engine::map::Map;
use crate::engine::scrub::Blocks;
use crate::layout::base::Base;
use crate::layout::page::{self, Entry, LEAF_ENTRIES, Span};
use crate::map::index::NO_FRAME;
use crate::request::RequestError;
use forebay_block::{Buf, DiskId, IoError};
use std::ops::Range;

const BLOCK: u64 = 4096;
/// No export: these are nobody's writes.
const NO_EXPORT: u16 = u16::MAX;

/// The first of some blocks of one leaf, as many as are copied at once, that the pool does not have; where the leaf is not in memory, that it may
/// not have. Damage counts as missing: the base may have what was lost.
fn first_missing(map: &Map, Blocks { disk, range }: &Blocks) -> Range<u64> {
    let most = |start: u64| start..range.end.min(start + STEP_BLOCKS);
    let Some(disk) = map.disk(*disk) else { return range.end..range.end };
    let frame = disk.frame(range.start / LEAF_ENTRIES as u64);
    if frame == NO_FRAME || map.frames.get(frame).loading {
        return most(range.start);
    }
    let leaf = &map.frames.get(frame).page;
    let is_there = |block: &u64| {
        let (entry, _) = page::leaf_entry(leaf, (block % LEAF_ENTRIES as u64) as usize);
        matches!(entry, Entry::Data { .. } | Entry::Zero)
    };
    let missing = most(range.clone().find(|block| !is_there(block)).unwrap_or(range.end));
    missing.start..missing.clone().find(is_there).unwrap_or(missing.end)
}

impl Engine {
    /// The base that a disk lies over and was not attached yet, without which it cannot be served.
    #[must_use]
    pub fn base_of(&self, disk: DiskId) -> Option<Base> {
        self.map.disk(disk).and_then(|disk| disk.base)
    }

    /// Disks are served without their bases, for reading what else there is of them: what is in a base alone cannot be read.
    pub fn serve_without_bases(&mut self) {
        self.bases.may_be_missing = true;
    }

    /// A disk's base is this device; what is in it is copied from now on.
    pub(crate) fn attach_base(&mut self, disk: DiskId, device: usize, name: String) {
        self.bases.attach(disk, device, name);
        let (blocks, leaves) = self.map.disk(disk).map_or((0, 0), |disk| (disk.base_blocks(), disk.leaves()));
        self.adoption.begin(disk, blocks, leaves > 0);
    }

    /// Device and offset of a location of a disk, which may lie in its base; `None` where that is on no device.
    pub(super) fn place_of(&self, disk: DiskId, location: u64) -> Option<(usize, u64)> {
        match is_in_base(location) {
            true => self.bases.place(disk, location),
            false => self.setup.extents.place(location),
        }
    }

    /// Where a block is that the map of its disk does not name, where that is in a base.
    pub(super) fn span_in_base(&self, disk: DiskId, block: u64) -> Option<Span> {
        self.map.disk(disk).filter(|disk| block < disk.base_blocks()).map(|_| span_of(block))
    }

    /// The failure of a device, which may be a base, as the host sees it.
    pub(super) fn device_error(&self, device: usize, source: IoError) -> RequestError {
        if device < self.setup.names.len() {
            return self.setup.device_error(device, source);
        }
        let name = self.bases.name(device).unwrap_or("a base that was detached");
        RequestError::Device { device: name.to_owned(), source }
    }

    /// A device that was a base and is not needed any more.
    pub(crate) fn take_given_up_base(&mut self) -> Option<usize> {
        self.bases.take_given_up()
    }

    /// Most bytes a second that are copied of bases from now on.
    pub fn set_adoption_rate(&mut self, bytes_per_s: u64) {
        self.adoption.leisure.set_rate(bytes_per_s);
    }

    /// How far the copying of a disk's base is; `None` where it has none.
    #[must_use]
    pub fn adoption(&self, disk: DiskId) -> Option<AdoptionStatus> {
        let found = self.map.disk(disk)?;
        let status = self.adoption.status(disk, found.base?.blocks);
        Some(AdoptionStatus { is_leaving: found.leaves_base, ..status })
    }

    /// Time passes: bases that a durable root does not name any more are given up.
    pub(crate) fn look_at_bases(&mut self) {
        let map = &self.map;
        let needs = |disk: u16| map.disk(DiskId(disk)).is_some_and(|disk| disk.base.is_some());
        self.bases.retain(needs);
        self.adoption.retain(needs);
    }

    /// Goes on with what is due.
    pub(crate) fn adopt_step(&mut self) {
        if self.adoption.is_empty() || self.refusal().is_some() {
            return;
        }
        self.look_at_damage();
        let map = &self.map;
        // What is copied of a disk that no durable root knows would be nobody's after a crash.
        let is_served = |disk: u16| map.disk(DiskId(disk)).is_some_and(|disk| disk.served_bytes() > 0);
        let to_copy = |blocks: &Blocks| first_missing(map, blocks);
        let next = self.adoption.begin_step(self.clock.now_ns(), is_served, to_copy);
        if let Some(Blocks { disk, range }) = next {
            self.adopt_blocks(disk, range.start, range.end - range.start);
        }
    }

    /// Damage that was found behind where the copying has come.
    pub(in crate::engine) fn look_at_damage(&mut self) {
        std::mem::take(&mut self.map.damaged).into_iter().for_each(|disk| self.needs_base(disk));
    }

    /// Some of what the pool has of a disk was lost, or is damaged: its base may have the only good copy, and stays.
    pub(in crate::engine) fn needs_base(&mut self, disk: DiskId) {
        if let Some(disk) = self.map.disk_mut(disk).filter(|disk| disk.leaves_base) {
            disk.leaves_base = false;
            // One without it may be on its way.
            self.checkpoint.request(false);
        }
        self.adoption.doubt(disk);
    }

    fn adopt_blocks(&mut self, disk: DiskId, block: u64, blocks: u64) {
        self.adoption.brought.go_on(disk, block / LEAF_ENTRIES as u64, &mut self.map);
        let client = Client {
            token: 0,
            kind: ClientKind::Adopt { read_blocks: 0 },
            disk,
            offset_bytes: block * BLOCK,
            len_bytes: blocks * BLOCK,
            fua: false,
            export: NO_EXPORT,
            session: 0,
            tag: None,
            hints: None,
            // One until its range is locked.
            remaining: 1,
            error: None,
            started_ns: self.clock.now_ns(),
            waits_since_ns: self.clock.waiting_ns(),
        };
        let id = self.requests.clients.insert(client) as u32;
        if self.requests.ranges.lock(disk.0, block, blocks, id | CLIENT) {
            self.begin_adopting(id);
        }
    }

    /// The range is locked.
    pub(super) fn begin_adopting(&mut self, id: u32) {
        let Some(client) = self.requests.clients.get(id as usize) else { return };
        let (disk, block, blocks) = (client.disk, client.offset_bytes / BLOCK, client.len_bytes / BLOCK);
        if client.error.is_none() {
            let piece = self.add_piece(Piece::new(id, PieceKind::Adopt, disk, block, blocks, 0));
            self.read_piece(piece);
        }
        self.piece_of_client_done(id, None);
    }

    /// What the map does not name was read of the base: it is written.
    pub(super) fn write_adopted(&mut self, id: u32) {
        let piece = &mut self.requests.pieces[id as usize];
        let Some(data) = piece.buf.take().map(Buf::freeze) else { return };
        let (client, disk, first) = (piece.client, piece.disk, piece.block());
        let spans = std::mem::take(&mut piece.spans);
        if let Some(Client { kind: ClientKind::Adopt { read_blocks }, .. }) =
            self.requests.clients.get_mut(client as usize)
        {
            *read_blocks = spans.iter().filter(|span| **span != NOWHERE).count() as u64;
        }
        // Past the caches where that can be: a flush that fails later must not take what the base would still have had.
        let fua = self.setup.has_durable_writes();
        let mut at = 0;
        for run in spans.chunk_by(|a, b| is_in_base(a.location) == is_in_base(b.location)) {
            if run.first().is_some_and(|span| is_in_base(span.location)) {
                let bytes = data.slice(at * BLOCK as usize, run.len() * BLOCK as usize);
                let kind = PieceKind::Write { data: bytes };
                let write = Piece::new(client, kind, disk, first + at as u64, run.len() as u64, 0);
                // A stream goes past the fast tier.
                self.launch_in_range(Piece { streams: true, fua, ..write });
            }
            at += run.len();
        }
    }

    /// A step has ended.
    pub(super) fn adopted(&mut self, client: Client) {
        let ClientKind::Adopt { read_blocks } = client.kind else { return };
        self.adoption.brought.was_looked_at(&mut self.map);
        self.adoption.ended(self.clock.now_ns(), read_blocks, client.error);
    }
}
