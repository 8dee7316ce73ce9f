//! Copies what a disk has only in its base ([`crate::engine::adoption`]): the range is locked as for a change, blocks that the map does not name are read from
//! the base, and are written as a host would write them.

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
use crate::map::index::{Disk, NO_FRAME};
use crate::request::RequestError;
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, Buf, DiskId, IoError};
use std::ops::Range;

/// The first run of blocks, within one leaf and at most as long as one step, that the pool does not have; where the leaf is not in memory, that it may not
/// have. Damaged blocks count as missing: the base may have what was lost.
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
    /// The base over which a disk lies. The disk cannot be served before its base is attached.
    #[must_use]
    pub fn base_of(&self, disk: DiskId) -> Option<Base> {
        self.map.disk(disk).and_then(|disk| disk.base)
    }

    /// Serves disks without their bases, so that the rest of them can be read: blocks that only a base has cannot be read.
    pub fn serve_without_bases(&mut self) {
        self.bases.may_be_missing = true;
    }

    /// Attaches a device as the base of a disk. Its contents are copied from now on.
    pub(crate) fn attach_base(&mut self, disk: DiskId, device: usize, name: String) {
        self.bases.attach(disk, device, name);
        let (blocks, leaves) = self.map.disk(disk).map_or((0, 0), |disk| (disk.base_blocks(), disk.leaves()));
        self.adoption.begin(disk, blocks, leaves > 0);
    }

    /// Device and offset of a location, which may lie in the disk's base; `None` where it is on no device.
    pub(super) fn place_of(&self, disk: DiskId, location: u64) -> Option<(usize, u64)> {
        match is_in_base(location) {
            true => self.bases.place(disk, location),
            false => self.setup.extents.place(location),
        }
    }

    /// Where the base has a block that the map of its disk does not name; `None` where no base has it.
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

    /// Takes a device that was a base and is not needed any more.
    pub(crate) fn take_given_up_base(&mut self) -> Option<usize> {
        self.bases.take_given_up()
    }

    /// Sets the most bytes a second that are copied from bases.
    pub fn set_adoption_rate(&mut self, bytes_per_s: u64) {
        self.adoption.leisure.set_rate(bytes_per_s);
    }

    /// How far the copying of a disk's base has come; `None` where it has none.
    #[must_use]
    pub fn adoption(&self, disk: DiskId) -> Option<AdoptionStatus> {
        let found = self.map.disk(disk)?;
        let status = self.adoption.status(disk, found.base?.blocks);
        Some(AdoptionStatus { is_leaving: found.leaves_base, ..status })
    }

    /// Called as time passes: bases that a durable root does not name any more are given up.
    pub(crate) fn look_at_bases(&mut self) {
        let map = &self.map;
        let needs = |disk: u16| map.disk(DiskId(disk)).is_some_and(|disk| disk.base.is_some());
        self.bases.retain(needs);
        self.adoption.retain(needs);
    }

    /// Begins the next step of copying, where one is due.
    pub(crate) fn adopt_step(&mut self) {
        if self.adoption.is_empty() || self.refusal().is_some() {
            return;
        }
        self.look_at_damage();
        let map = &self.map;
        // What is copied for a disk that no durable root names would belong to nobody after a crash.
        let is_served = |disk: u16| map.disk(DiskId(disk)).is_some_and(|disk| disk.served_bytes() > 0);
        let to_copy = |blocks: &Blocks| first_missing(map, blocks);
        let next = self.adoption.begin_step(self.clock.now_ns(), is_served, to_copy);
        if let Some(Blocks { disk, range }) = next {
            self.adopt_blocks(disk, range.start, range.end - range.start);
        }
    }

    /// Handles damage that was found where the copying has already passed.
    pub(in crate::engine) fn look_at_damage(&mut self) {
        std::mem::take(&mut self.map.damaged).into_iter().for_each(|disk| self.keep_base(disk));
    }

    /// Some of what the pool has of a disk is lost or damaged: its base may have the only good copy, and stays.
    pub(in crate::engine) fn keep_base(&mut self, disk: DiskId) {
        let is_kept = |disk: &&mut Disk| disk.leaves_base && !disk.is_being_removed();
        if let Some(disk) = self.map.disk_mut(disk).filter(is_kept) {
            disk.leaves_base = false;
            // A checkpoint that leaves the base out may be in progress.
            self.checkpoint.keep_base();
            self.checkpoint.request(false);
        }
        self.adoption.doubt(disk);
    }

    fn adopt_blocks(&mut self, disk: DiskId, block: u64, blocks: u64) {
        self.adoption.transient.go_on(disk, block / LEAF_ENTRIES as u64, &mut self.map);
        let client = Client::without_host(ClientKind::Adopt { read_blocks: 0 }, disk, block, blocks, &self.clock);
        let id = self.requests.clients.insert(client) as u32;
        if self.requests.ranges.lock(disk.0, block, blocks, id | CLIENT) {
            self.begin_adopting(id);
        }
    }

    /// The range is locked: begins to read.
    pub(super) fn begin_adopting(&mut self, id: u32) {
        let Some(client) = self.requests.clients.get(id as usize) else { return };
        let (disk, block, blocks) = (client.disk, client.offset_bytes / BLOCK, client.len_bytes / BLOCK);
        if client.error.is_none() {
            let piece = self.add_piece(Piece::new(id, PieceKind::Adopt, disk, block, blocks, 0));
            self.read_piece(piece);
        }
        self.piece_of_client_done(id, None);
    }

    /// Blocks that the map does not name were read from the base: writes them.
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
        // Past the caches where possible: a flush that fails later must not lose what the base still had.
        let fua = self.setup.has_durable_writes();
        let mut at = 0;
        for run in spans.chunk_by(|a, b| is_in_base(a.location) == is_in_base(b.location)) {
            if run.first().is_some_and(|span| is_in_base(span.location)) {
                let bytes = data.slice(at * BLOCK as usize, run.len() * BLOCK as usize);
                let kind = PieceKind::Write { data: bytes };
                let write = Piece::new(client, kind, disk, first + at as u64, run.len() as u64, 0);
                // Marked as a stream, so that it goes past the fast tier.
                self.launch_in_range(Piece { streams: true, fua, ..write });
            }
            at += run.len();
        }
    }

    /// A step has ended.
    pub(super) fn adopted(&mut self, client: Client) {
        let ClientKind::Adopt { read_blocks } = client.kind else { return };
        self.adoption.transient.clear_referenced(&mut self.map);
        self.adoption.ended(self.clock.now_ns(), read_blocks, client.error);
    }
}
