//! What a checkpoint writes to the capacity tier, so that it can be opened alone: the tier pages, which say on which
//! tier each block lives, and a root that names them. All of it is durable before the root on the fast tier is: where
//! that root is of checkpoint N, this side has N, too.

use super::pages::PageWriter;
use crate::engine::map::Map;
use crate::engine::outbox::{Outbox, Pending};
use crate::engine::rewrite::item::{Content, Item};
use crate::engine::setup::Setup;
use crate::layout::band_summary::{self, BandShape, SummaryEntry, SummaryName};
use crate::layout::capacity_root::{CapacityBand, CapacityHeader, CapacityRoot, DEVICE, UNAPPLIED_MAX};
use crate::layout::root::Root;
use crate::layout::tier_page::TierPage;
use crate::map::tiers::{PageKey, Tiers, Work};
use forebay_block::{BLOCK_BYTES as BLOCK, Buf, DiskId, IoError, Op, SharedBuf, Vectored};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pages read and written at once.
const IN_FLIGHT_MAX: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;

/// After this many failed attempts in a row on this side checkpoints go on without it.
const FAILURES_MAX: u32 = 3;
/// From then on, checkpoints from one failed attempt to the next.
const AGAIN_AFTER: u64 = 16;
/// A band that has waited for a checkpoint for this long, in nanoseconds, is reason enough for one.
const PINNED_NS: u64 = 600_000_000_000;

/// A checkpoint, by its number and the epoch that makes it.
#[derive(Clone, Copy)]
pub(crate) struct CheckpointName {
    pub number: u64,
    pub epoch: u64,
}

/// State of writing it.
///
/// **Where it cannot be written** checkpoints are made without it: the pool must not stop serving because of a sector that is needed only if the fast tier is
/// lost. The newest whole root there, M, stays as it is: its area, its pages, and the leaves that have changed since wait for the next attempt, which goes to
/// the other area. The bands that M names are *not* kept, as that would take all space in the end: they are freed with the checkpoints of the fast tier. M gets
/// no mark that says so, and none could be relied upon on a device that refuses writes: whoever opens it alone sees by the generation of a band that it was
/// used again, takes what is there for later than M, and knows by the sum of each leaf whether what M named is still there.
pub(crate) struct CapacityWriter {
    setup: Arc<Setup>,
    /// What the capacity tier knows of the map.
    tiers: Tiers,
    /// Header of the root that the checkpoint in progress has written there.
    header: Option<CapacityHeader>,
    /// Number of the newest whole root there. Its area is not written.
    newest: Option<u64>,
    /// The checkpoint in progress does without this side.
    is_left_out: bool,
    /// Why the attempt in progress fails on this side.
    error: Option<String>,
    /// Why the last attempt failed, where none has succeeded since.
    last_error: Option<String>,
    /// Attempts in a row that failed on this side.
    failures: u32,
    /// Number of the first checkpoint that tries again after too many failures.
    again_at: u64,
    /// Bands have waited for a checkpoint since this time, or for longer.
    pinned_since_ns: Option<u64>,
    written_bytes: u64,
}

impl CapacityWriter {
    /// Nothing is on the capacity tier yet.
    pub fn new(setup: Arc<Setup>) -> Self {
        let tiers = Tiers::new(setup.superblock.capacity_area);
        Self {
            setup,
            tiers,
            header: None,
            newest: None,
            is_left_out: false,
            error: None,
            last_error: None,
            failures: 0,
            again_at: 0,
            pinned_since_ns: None,
            written_bytes: 0,
        }
    }

    /// Sets the number of the newest whole root on the capacity tier, as an opening finds it.
    pub fn found(&mut self, newest: Option<u64>) {
        self.newest = newest;
    }

    /// Whether the capacity tier lacks checkpoint `number`, the last one, and could have the next.
    pub fn is_behind(&self, number: u64) -> bool {
        self.tiers.area.exists() && self.newest != Some(number) && self.failures == 0
    }

    /// Number of the newest whole root there, as far as it is known.
    pub fn newest(&self) -> Option<u64> {
        self.newest.filter(|_| self.tiers.area.exists())
    }

    /// Why this side cannot be written, in words, where the last attempt failed.
    pub fn describe_error(&self) -> Option<String> {
        let error = self.last_error.as_ref()?;
        let left = match self.newest {
            Some(newest) => format!(
                "what can be read is that of checkpoint {newest}, and of later writes what reached the capacity tier"
            ),
            None => "nothing can be read".to_owned(),
        };
        Some(format!("the capacity-side checkpoint cannot be written: {error}; should the fast tier be lost {left}"))
    }

    /// Bytes of pages and roots sent since the start.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Checkpoint `number` begins; these bands are being trimmed.
    pub fn begin(&mut self, number: u64, trimming: &BTreeSet<u32>) {
        self.tiers.freeze(trimming);
        self.error = None;
        // The area of the newest whole root stays until there is a newer one.
        let has_area = self.newest.is_none_or(|newest| newest % 2 != number % 2);
        let is_due = self.failures < FAILURES_MAX || number >= self.again_at;
        self.is_left_out = self.tiers.area.exists() && !(has_area && is_due);
    }

    /// Whether the attempt in progress fails on this side.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// A request of this side ended.
    pub fn ended(&mut self, result: Result<(), IoError>, pages: &mut PageWriter) {
        pages.ended(DEVICE, Ok(()));
        if let Err(error) = result {
            let device = &self.setup.names[DEVICE];
            self.error.get_or_insert_with(|| format!("{device}: {error}"));
        }
    }

    /// What the capacity tier knows of the map.
    pub fn tiers(&mut self) -> &mut Tiers {
        &mut self.tiers
    }

    /// Bands that wait for a checkpoint.
    pub fn pinned(&self) -> usize {
        self.tiers.pinned()
    }

    /// A band holds nothing any more, and the journal says so durably. True where the band waits for the next
    /// checkpoint, as the last one on the capacity tier may still name what was there.
    pub fn pins(&mut self, band: u32, now_ns: u64) -> bool {
        let waits = self.tiers.area.exists();
        if waits {
            self.tiers.pin(band);
            self.pinned_since_ns.get_or_insert(now_ns);
        }
        waits
    }

    /// Whether a band has waited for a checkpoint for long.
    pub fn has_pinned_for_long(&self, now_ns: u64) -> bool {
        self.pinned_since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= PINNED_NS)
    }

    /// Writes changed pages, some at once; true when all were sent and have arrived.
    pub fn write_pages(&mut self, map: &Map, pages: &mut PageWriter, outbox: &mut Outbox) -> bool {
        while pages.in_flight() < IN_FLIGHT_MAX {
            if self.is_left_out || self.has_failed() {
                return pages.in_flight() == 0;
            }
            let Some(key) = self.tiers.next_changed(|disk| map.disks.contains_key(&disk)) else {
                return pages.in_flight() == 0;
            };
            match self.tiers.work(key) {
                Work::Read(slot) => self.read_page(key, slot, 0, pages, outbox),
                Work::Make(page) => self.write_page(key, page, pages, outbox),
            }
        }
        false
    }

    fn read_page(&self, key: PageKey, slot: u64, attempt: u8, pages: &mut PageWriter, outbox: &mut Outbox) {
        pages.begins(0);
        let op = Op::Read { bufs: Vectored::One(Buf::new(4096)), attempt };
        let pending = Pending::TierPageIn { key, slot, attempt };
        outbox.send(DEVICE, self.tiers.area.page_offset_bytes(slot), 0, op, pending);
    }

    /// A page was read to be changed. Where it cannot be read, its other leaves are unknown from here on: they are
    /// needed only if the fast tier is lost, too, which is no reason to give up a checkpoint.
    pub fn page_read(
        &mut self,
        (key, slot, attempt): (PageKey, u64, u8),
        bytes: Option<Buf>,
        pages: &mut PageWriter,
        outbox: &mut Outbox,
    ) {
        pages.ended(DEVICE, Ok(()));
        let page = bytes.and_then(|bytes| self.tiers.decode(key, &bytes));
        match page {
            Some(page) => self.write_page(key, page, pages, outbox),
            // Read again: one transfer may go wrong, and another member may have it right.
            None if attempt + 1 < self.setup.read_attempts(DEVICE) => {
                self.read_page(key, slot, attempt + 1, pages, outbox);
            }
            None => self.write_page(key, TierPage::unknown(), pages, outbox),
        }
    }

    fn write_page(&mut self, key: PageKey, page: TierPage, pages: &mut PageWriter, outbox: &mut Outbox) {
        let Some((slot, page)) = self.tiers.place(key, page) else { return };
        let (bytes, crc) = page.encode(DiskId(key.0), key.1);
        let offset_bytes = self.tiers.area.page_offset_bytes(slot);
        let pending = Pending::TierPageOut { key, slot, crc };
        self.send(offset_bytes, Buf::copy_of(&bytes).freeze(), pending, pages, outbox);
    }

    /// The write of a page ended.
    pub fn page_written(
        &mut self,
        (key, slot, crc): (PageKey, u64, u32),
        result: Result<(), IoError>,
        pages: &mut PageWriter,
    ) {
        self.tiers.page_written(key, slot, crc, result.is_ok());
        self.ended(result, pages);
    }

    /// Writes the root of the capacity tier, of the same moment as `frozen`. Its header follows when all of it is
    /// durable.
    pub fn write_root(
        &mut self,
        frozen: &Root,
        name: CheckpointName,
        map: &Map,
        shape: BandShape,
        pages: &mut PageWriter,
        outbox: &mut Outbox,
    ) {
        self.header = None;
        self.tiers.retain(|disk| map.disks.contains_key(&disk));
        let area = self.tiers.area;
        if !area.exists() || self.is_left_out {
            return;
        }
        let unapplied = &frozen.unapplied[frozen.unapplied.len().saturating_sub(UNAPPLIED_MAX)..];
        let mut bands: Vec<CapacityBand> = frozen.bands.iter().map(|band| CapacityBand::of(band, shape)).collect();
        // These are trimmed, or will be when this checkpoint is durable: the root must not name them.
        for band in self.tiers.not_named() {
            if let Some(band) = bands.get_mut(band as usize) {
                (band.groups, band.is_free) = (0, true);
            }
        }
        let is_open = |&&(band, group, _): &&(u32, u32, Vec<SummaryEntry>)| {
            bands.get(band as usize).is_some_and(|band| !band.is_free && band.groups == group)
        };
        let open_groups: Vec<_> = frozen.open_groups.iter().filter(is_open).cloned().collect();
        // The bases of disks when the checkpoint began, as the root on the fast tier has them.
        let base_of = |id: u16| frozen.disks.iter().find(|disk| disk.id == id).and_then(|disk| disk.base);
        let disks = map
            .disks
            .values()
            .map(|disk| self.tiers.disk((disk.id.0, &disk.name, disk.size_bytes), base_of(disk.id.0)));
        let root = CapacityRoot {
            next_sequence: frozen.next_sequence,
            unapplied: unapplied.to_vec(),
            disks_missing: 0,
            disks: disks.collect(),
            bands,
            open_groups,
        };
        let blob = root.encode(&area);
        if blob.len() as u64 > area.blob_bytes_max() {
            // The area was made for what the superblock says, so this cannot be; it must not cost the pool its
            // checkpoints.
            self.is_left_out = true;
            return;
        }
        self.header = Some(CapacityRoot::header(&blob, name.number, name.epoch, frozen.generation));
        let mut offset_bytes = area.header_offset_bytes(name.number) + 4096;
        for chunk in blob.chunks(CHUNK_BYTES) {
            let mut buf = Buf::zeroed(chunk.len().next_multiple_of(4096));
            buf[..chunk.len()].copy_from_slice(chunk);
            let len = buf.len() as u64;
            self.send(offset_bytes, buf.freeze(), Pending::CapacityOut, pages, outbox);
            offset_bytes += len;
        }
        self.write_beside(frozen, name, blob.len() as u64, shape, pages, outbox);
    }

    /// Writes summaries that their own places do not take behind the blob, where there is room.
    fn write_beside(
        &mut self,
        frozen: &Root,
        CheckpointName { number, epoch }: CheckpointName,
        blob_len_bytes: u64,
        shape: BandShape,
        pages: &mut PageWriter,
        outbox: &mut Outbox,
    ) {
        let area = self.tiers.area;
        let (begin, room) = area.summaries_beside(blob_len_bytes);
        let mut at = 0;
        for group in frozen.unwritten_groups.iter().filter(|group| group.group < shape.groups()) {
            let name = SummaryName { band: group.band, group: group.group, generation: group.generation };
            let bytes = band_summary::encode(&self.setup.superblock.pool, name, epoch, &group.entries);
            let end = at + (bytes.len() / BLOCK) as u64;
            if end > room {
                // A later one may have fewer pages.
                continue;
            }
            let offset_bytes = area.header_offset_bytes(number) + begin + at * BLOCK as u64;
            self.send(offset_bytes, Buf::copy_of(&bytes).freeze(), Pending::CapacityBeside, pages, outbox);
            at = end;
        }
    }

    /// Writes the header of the capacity tier's root, past any cache: it is durable before the headers on the fast tier
    /// are written. False where there is none.
    pub fn write_header(&mut self, pages: &mut PageWriter, outbox: &mut Outbox) -> bool {
        let Some(header) = self.header.take() else { return false };
        let bytes = Buf::copy_of(&header.encode(&self.setup.superblock.pool)).freeze();
        let offset_bytes = self.tiers.area.header_offset_bytes(header.checkpoint);
        self.written_bytes += bytes.len() as u64;
        pages.begins(0);
        let op = Op::Write { bufs: Vectored::One(bytes), fua: true };
        outbox.send(DEVICE, offset_bytes, 0, op, Pending::CapacityOut);
        true
    }

    /// Pages of checkpoints that were given up, to be written again: the next root names them where they are. None where this side cannot be written: the
    /// rewrite for the fast tier does not wait for that.
    pub fn to_rewrite(&self) -> impl Iterator<Item = Item> {
        let pages = self.tiers.undurable().filter(|_| self.failures < FAILURES_MAX);
        pages.map(|((disk, number), slot, crc)| {
            let content = Content::Tiers { disk: DiskId(disk), number, crc };
            Item::new(DEVICE, self.tiers.area.page_offset_bytes(slot), content)
        })
    }

    /// A flush has failed that may have covered pages: those that are not written again with it are by the next checkpoint.
    pub fn flush_failed(&mut self) {
        if self.to_rewrite().next().is_none() {
            self.tiers.doubt_undurable();
        }
    }

    /// Checkpoint `number` is durable: returns the bands that wait for it no more. Where this side was left out, at most `leaves_max` leaves are remembered
    /// that wait for their page.
    pub fn durable(&mut self, number: u64, now_ns: u64, leaves_max: usize) -> Vec<u32> {
        let freed = if self.is_left_out {
            self.tiers.durable_without(leaves_max)
        } else {
            (self.newest, self.failures, self.last_error) = (Some(number), 0, None);
            self.tiers.durable()
        };
        self.pinned_since_ns = (self.tiers.pinned() > 0).then_some(now_ns);
        freed
    }

    /// Checkpoint `number` is given up. Returns why, where this side was the cause.
    pub fn abort(&mut self, number: u64) -> Option<String> {
        self.header = None;
        let error = self.error.take()?;
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_MAX {
            self.again_at = number + AGAIN_AFTER;
        }
        self.last_error = Some(error.clone());
        Some(error)
    }

    fn send(
        &mut self,
        offset_bytes: u64,
        bytes: SharedBuf,
        pending: Pending,
        pages: &mut PageWriter,
        outbox: &mut Outbox,
    ) {
        self.written_bytes += bytes.len() as u64;
        pages.begins(0);
        outbox.send(DEVICE, offset_bytes, 0, Op::Write { bufs: Vectored::One(bytes), fua: false }, pending);
    }
}
