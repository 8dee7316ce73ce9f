//! Reads for a scrub ([`crate::engine::scrub`]): as for a host, but nobody gets the data, it counts as no host's read, and the caches stay as they are.

use super::client::{Client, ClientKind};
use super::piece::{Piece, PieceKind, within_leaf};
use crate::engine::map::Map;
use crate::engine::outbox::PageCopies;
use crate::engine::scrub::{Blocks, Compared, ScrubStatus};
use crate::engine::setup::Setup;
use crate::engine::{Engine, Pending, mend_groups, scrub_pages};
use crate::layout::page::{BLOCK_GRAINS, INDEX_ENTRIES, LEAF_ENTRIES};
use crate::layout::root::{BandRoot, BandState};
use crate::layout::scrub_record::PARITY;
use crate::space::bands::Bands;
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, Buf, DiskId, IoError, IoErrorKind, Op, Vectored};
use std::ops::Range;

/// Blocks that an index page maps.
const PAGE_BLOCKS: u64 = (LEAF_ENTRIES * INDEX_ENTRIES) as u64;

/// The first blocks, from a block of a disk on, that lie in a leaf with something in it; or the first block of an index page without leaves, where one comes
/// before them.
fn next_stored(map: &Map, disk: DiskId, block: u64) -> Option<Blocks> {
    map.disks.range(disk.0..).find_map(|(&id, found)| {
        let from = if id == disk.0 { block } else { 0 };
        let leaf = found.next_leaf(from / LEAF_ENTRIES as u64);
        // An opening reads such a page too.
        if let Some(page) = found.next_bare_page(from.div_ceil(PAGE_BLOCKS) as usize, leaf) {
            let begin = page as u64 * PAGE_BLOCKS;
            return Some(Blocks { disk: DiskId(id), range: begin..begin + 1 });
        }
        let leaf = leaf?;
        let begin = from.max(leaf * LEAF_ENTRIES as u64);
        let left = found.blocks().saturating_sub(begin);
        (left > 0).then(|| Blocks { disk: DiskId(id), range: begin..begin + within_leaf(begin, left) })
    })
}

/// Whether no leaf maps a block.
fn is_bare(map: &Map, disk: DiskId, block: u64) -> bool {
    let leaf = block / LEAF_ENTRIES as u64;
    map.disk(disk).is_none_or(|disk| disk.next_leaf(leaf) != Some(leaf))
}

/// The first blocks of the bands, from `from` on, whose parity can be compared: those of a band with valid data. The device itself skips what was not written
/// yet in an open band.
fn next_compared(setup: &Setup, bands: &Bands, from: u64) -> Option<Blocks> {
    if setup.variants == 0 {
        return None;
    }
    let blocks = u64::from(bands.shape().blocks());
    let first = u32::try_from(from / blocks).ok()?;
    (first..bands.count() as u32).find_map(|number| {
        let band = bands.get(number);
        let begin = u64::from(number) * blocks;
        let range = from.max(begin)..begin + u64::from(band.written) / BLOCK_GRAINS;
        let lives = band.state != BandState::Free && band.valid > 0;
        (lives && !range.is_empty()).then_some(Blocks { disk: DiskId(PARITY), range })
    })
}

impl Engine {
    /// Starts reading everything that is stored, or resumes that.
    pub fn start_scrub(&mut self) {
        self.scrub.start(self.clock.unix_s());
        self.keep_scrub();
    }

    /// Requests a checkpoint, which saves how far a scrub is.
    fn keep_scrub(&mut self) {
        if self.refusal().is_none() && self.scrub.take_changed() {
            self.checkpoint.request(false);
        }
    }

    /// Sets the most bytes a second that a scrub reads.
    pub fn set_scrub_rate(&mut self, bytes_per_s: u64) {
        self.scrub.leisure.set_rate(bytes_per_s);
    }

    /// Stops reading for a scrub until it is started again. Returns whether one was going on.
    pub fn pause_scrub(&mut self) -> bool {
        let was_going_on = self.scrub.pause();
        self.keep_scrub();
        was_going_on
    }

    /// How far a scrub has come, and what it has found.
    #[must_use]
    pub fn scrub(&self) -> ScrubStatus {
        self.scrub.status()
    }

    /// Begins the next reads of a scrub, where they are due.
    pub(crate) fn scrub_step(&mut self) {
        let (now_ns, unix_s) = (self.clock.now_ns(), self.clock.unix_s());
        while self.scrub.is_due(now_ns) && !mend_groups::are_enough(&self.outbox) {
            let (map, setup, bands) = (&self.map, &self.setup, &self.space.bands);
            let has_suspects = self.scrub.has_suspects(self.migrate.has_suspects(bands), now_ns);
            let is_mending = || has_suspects || self.outbox.is_mending();
            // Not during a checkpoint: the root with which an opening would begin still names index pages that the checkpoint has
            // written elsewhere, and nobody looks at the old ones any more.
            let end_unix_s = Some(unix_s).filter(|_| !self.checkpoint.is_active());
            let next = self.scrub.begin_step(now_ns, end_unix_s, is_mending, |disk, block| {
                let from = if disk.0 == PARITY { block } else { 0 };
                next_stored(map, disk, block).or_else(|| next_compared(setup, bands, from))
            });
            let Some(Blocks { disk, range }) = next else { break };
            if disk.0 == PARITY {
                self.compare(range);
                continue;
            }
            if range.start.is_multiple_of(LEAF_ENTRIES as u64) {
                scrub_pages::begin(disk, range.start / LEAF_ENTRIES as u64, &self.map, &mut self.outbox);
            }
            if is_bare(&self.map, disk, range.start) {
                self.scrub.passed_over();
                continue;
            }
            self.scrub_blocks(disk, range.start, range.end - range.start);
        }
        // Where nothing may be written, the progress is not saved for the next start.
        self.keep_scrub();
    }

    /// A copy of a page of the map was read. Where no reading gives the page but it is in memory, it is written elsewhere: the next opening, or the next read
    /// after it has left memory, would miss it.
    pub(crate) fn scrub_page_read(
        &mut self,
        copies: Box<PageCopies>,
        read: (Result<(), IoError>, Option<Vectored<Buf>>),
    ) {
        let unreadable = scrub_pages::read(copies, read, &self.map, &mut self.outbox);
        let Some(page) = unreadable.filter(|_| self.refusal().is_none()) else { return };
        if page.is_index {
            self.map.disk_mut(page.disk).into_iter().for_each(|disk| disk.write_page_anew(page.number as usize));
        } else {
            let held = self.map.in_memory(page.disk, page.number);
            // A page that is dirty or being written goes elsewhere in any case.
            let is_at_rest = held.is_some_and(|held| !held.dirty && !held.writing && page.is_in(&held.page));
            let Some(frame) = self.map.disk(page.disk).map(|disk| disk.frame(page.number)) else { return };
            if !is_at_rest || !self.may_dirty(frame) {
                return;
            }
            self.leaves().dirty(frame);
        }
        self.stats.counters.mended_blocks += 1;
        self.checkpoint.want_another();
    }

    fn scrub_blocks(&mut self, disk: DiskId, block: u64, blocks: u64) {
        self.scrub.transient.go_on(disk, block / LEAF_ENTRIES as u64, &mut self.map);
        let client = Client::without_host(ClientKind::Scrub { stored_blocks: 0 }, disk, block, blocks, &self.clock);
        let client = self.requests.clients.insert(client) as u32;
        let mut piece = Piece::new(client, PieceKind::Scrub, disk, block, blocks, 0);
        piece.buf = Some(Buf::new((blocks * BLOCK) as usize));
        let piece = self.add_piece(piece);
        self.read_piece(piece);
        self.piece_of_client_done(client, None);
    }

    /// Reads blocks of a band together with their parity.
    fn compare(&mut self, range: Range<u64>) {
        let blocks = u64::from(self.space.bands.shape().blocks());
        let (band, block) = ((range.start / blocks) as u32, (range.start % blocks) as u32);
        let location = self.setup.extents.band_location(band, block);
        let Some((device, offset_bytes)) = self.setup.extents.place(location) else { return self.scrub.passed_over() };
        let bufs = Vectored::One(Buf::new((range.end - range.start) as usize * BLOCK as usize));
        let op = Op::Read { bufs, attempt: Op::COMPARE };
        let generation = self.space.bands.get(band).generation;
        self.outbox.send(device, offset_bytes, 0, op, Pending::Compare { band, generation });
    }

    /// Blocks of a band were compared with their parity. Where the parity does not match, the valid data of the band was read by this pass and is right, or is
    /// known to be damaged: the data is moved to a place where it has parity of its own.
    pub(crate) fn compared(&mut self, band: u32, generation: u32, result: Result<(), IoError>) {
        let BandRoot { generation: now, valid, .. } = self.space.bands.get(band);
        // The data may have been moved, or overwritten, while it was read. A band that is to be emptied in any case needs no comparison.
        let lives = now == generation && valid > 0 && !self.migrate.is_suspect(band, generation);
        let compared = match result.err().filter(|_| lives).map(|error| error.kind) {
            None => Compared::Well,
            // Where a block that parity needs cannot be read, parity cannot be compared: for all that is known, the data has none.
            Some(IoErrorKind::Mismatch) => Compared::Unfit { is_read: true },
            Some(IoErrorKind::Medium) => Compared::Unfit { is_read: false },
            Some(IoErrorKind::Unsupported) => Compared::WithNothing,
            Some(_) => Compared::NotAtAll,
        };
        if self.scrub.compared(compared, self.clock.now_ns()) && self.migrate.suspect(band, generation) {
            self.stats.counters.unfit_bands += 1;
            // An open band might stay open for long.
            self.space.bands.end_early(band);
            self.space.free_emptied(self.journal.last_recorded());
            self.summaries.granted(&self.space.bands);
            self.space.changed = true;
        }
    }

    /// A step of the scrub has ended.
    pub(super) fn scrub_ended(&mut self, client: Client) {
        let Client { kind: ClientKind::Scrub { stored_blocks }, disk, error, .. } = client else { return };
        self.scrub.transient.clear_referenced(&mut self.map);
        if self.scrub.ended(stored_blocks, error) {
            self.stats.counters.scrub_damaged_blocks += 1;
            self.map.damaged.insert(disk);
        }
    }
}
