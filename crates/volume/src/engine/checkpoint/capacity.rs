//! What a checkpoint writes to the capacity tier, so that it can be opened alone: the pages that say on which tier each
//! block lives, and a root that names them. All of it is durable before the root on the fast tier is: so where that says
//! checkpoint N, this side has N, too.

use super::pages::PageWriter;
use crate::engine::map::Map;
use crate::engine::outbox::{Outbox, Pending};
use crate::engine::rewrite::item::{Content, Item};
use crate::engine::setup::Setup;
use crate::layout::band_summary::{BandShape, SummaryEntry};
use crate::layout::capacity_root::{CapacityBand, CapacityHeader, CapacityRoot, DEVICE, UNAPPLIED_MAX};
use crate::layout::root::Root;
use crate::layout::tier_page::TierPage;
use crate::map::tiers::{PageKey, Tiers, Work};
use forebay_block::{Buf, DiskId, IoError, Op, SharedBuf, Vectored};
use std::sync::Arc;

/// Pages read and written at once.
const IN_FLIGHT_MAX: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;

/// State of writing it.
pub(crate) struct CapacityWriter {
    setup: Arc<Setup>,
    /// What the capacity tier knows of the map.
    tiers: Tiers,
    /// Header of the root that was written there.
    header: Option<CapacityHeader>,
}

impl CapacityWriter {
    /// Nothing is on the capacity tier yet.
    pub fn new(setup: Arc<Setup>) -> Self {
        let tiers = Tiers::new(setup.superblock.capacity_area);
        Self { setup, tiers, header: None }
    }

    /// What the capacity tier knows of the map.
    pub fn tiers(&mut self) -> &mut Tiers {
        &mut self.tiers
    }

    /// Bands that wait for a checkpoint.
    pub fn pinned(&self) -> usize {
        self.tiers.pinned()
    }

    /// A band holds nothing any more, and the journal says so durably. True where it waits for the next checkpoint: the
    /// last one on the capacity tier may still name what was there.
    pub fn pins(&mut self, band: u32) -> bool {
        let waits = self.tiers.area.exists();
        if waits {
            self.tiers.pin(band);
        }
        waits
    }

    /// Writes changed pages, some at once; true when all were sent and have arrived.
    pub fn write_pages(&mut self, map: &Map, pages: &mut PageWriter, outbox: &mut Outbox) -> bool {
        while pages.in_flight() < IN_FLIGHT_MAX {
            let Some(key) = self.tiers.next_changed(|disk| map.disks.contains_key(&disk)) else {
                return pages.in_flight() == 0;
            };
            match self.tiers.work(key) {
                Work::Read(slot) => self.read_page(key, slot, false, pages, outbox),
                Work::Make(page) => self.write_page(key, page, pages, outbox),
            }
        }
        false
    }

    fn read_page(&self, key: PageKey, slot: u64, is_again: bool, pages: &mut PageWriter, outbox: &mut Outbox) {
        pages.begins(0);
        let op = Op::Read { bufs: Vectored::One(Buf::new(4096)) };
        let pending = Pending::TierPageIn { key, slot, is_again };
        outbox.send(DEVICE, self.tiers.area.page_offset_bytes(slot), 0, op, pending);
    }

    /// A page was read to be changed. Where it cannot be, its other leaves are unknown from here on: they are only needed
    /// where the fast tier is lost, too, and that is no reason to give up a checkpoint.
    pub fn page_read(
        &mut self,
        (key, slot, is_again): (PageKey, u64, bool),
        bytes: Option<Buf>,
        pages: &mut PageWriter,
        outbox: &mut Outbox,
    ) {
        pages.ended(DEVICE, Ok(()));
        let page = bytes.and_then(|bytes| self.tiers.decode(key, &bytes));
        match page {
            Some(page) => self.write_page(key, page, pages, outbox),
            None if is_again => self.write_page(key, TierPage::unknown(), pages, outbox),
            // Once more: one transfer may go wrong.
            None => self.read_page(key, slot, true, pages, outbox),
        }
    }

    fn write_page(&mut self, key: PageKey, page: TierPage, pages: &mut PageWriter, outbox: &mut Outbox) {
        let Some((slot, page)) = self.tiers.place(key, page) else { return };
        let (bytes, crc) = page.encode(DiskId(key.0), key.1);
        let offset_bytes = self.tiers.area.page_offset_bytes(slot);
        let pending = Pending::TierPageOut { key, slot, crc };
        send(offset_bytes, Buf::copy_of(&bytes).freeze(), false, pending, (pages, outbox));
    }

    /// The write of a page ended.
    pub fn page_written(
        &mut self,
        (key, slot, crc): (PageKey, u64, u32),
        result: Result<(), IoError>,
        pages: &mut PageWriter,
    ) {
        self.tiers.page_written(key, slot, crc, result.is_ok());
        pages.ended(DEVICE, result);
    }

    /// Writes the root of the capacity tier, of the same moment as `frozen`; its header follows when all is durable.
    pub fn write_root(
        &mut self,
        frozen: &Root,
        (number, epoch): (u64, u64),
        (map, shape): (&Map, BandShape),
        (pages, outbox): (&mut PageWriter, &mut Outbox),
    ) {
        self.header = None;
        self.tiers.retain(|disk| map.disks.contains_key(&disk));
        let area = self.tiers.area;
        if !area.exists() {
            return;
        }
        let unapplied = &frozen.unapplied[frozen.unapplied.len().saturating_sub(UNAPPLIED_MAX)..];
        let mut bands: Vec<CapacityBand> = frozen.bands.iter().map(|band| CapacityBand::of(band, shape)).collect();
        // When this checkpoint is durable these are trimmed: it must not name them.
        for &band in self.tiers.freed_before() {
            if let Some(band) = bands.get_mut(band as usize) {
                (band.groups, band.is_free) = (0, true);
            }
        }
        let is_open = |&&(band, group, _): &&(u32, u32, Vec<SummaryEntry>)| {
            bands.get(band as usize).is_some_and(|band| !band.is_free && band.groups == group)
        };
        let open_groups: Vec<_> = frozen.open_groups.iter().filter(is_open).cloned().collect();
        let disks = map.disks.values().map(|disk| self.tiers.disk(disk.id.0, &disk.name, disk.size_bytes));
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
            // It was made for what the superblock says: this cannot be, and must not cost the pool its checkpoints.
            return;
        }
        self.header = Some(CapacityRoot::header(&blob, number, epoch));
        let mut offset_bytes = area.header_offset_bytes(number) + 4096;
        for chunk in blob.chunks(CHUNK_BYTES) {
            let mut buf = Buf::zeroed(chunk.len().next_multiple_of(4096));
            buf[..chunk.len()].copy_from_slice(chunk);
            let len = buf.len() as u64;
            send(offset_bytes, buf.freeze(), false, Pending::CapacityOut, (pages, outbox));
            offset_bytes += len;
        }
    }

    /// Writes the header of the capacity tier's root, past any cache: it is durable before the root on the fast tier is
    /// begun. False where there is none.
    pub fn write_header(&mut self, pages: &mut PageWriter, outbox: &mut Outbox) -> bool {
        let Some(header) = self.header.take() else { return false };
        let bytes = Buf::copy_of(&header.encode(&self.setup.superblock.pool)).freeze();
        let offset_bytes = self.tiers.area.header_offset_bytes(header.checkpoint);
        send(offset_bytes, bytes, true, Pending::CapacityOut, (pages, outbox));
        true
    }

    /// Pages of checkpoints that came to nothing, for writing them again: the next root names them where they are.
    pub fn to_rewrite(&self) -> impl Iterator<Item = Item> {
        self.tiers.undurable().map(|((disk, number), slot, crc)| {
            let content = Content::Tiers { disk: DiskId(disk), number, crc };
            Item::new(DEVICE, self.tiers.area.page_offset_bytes(slot), content)
        })
    }

    /// The checkpoint comes to nothing.
    pub fn abort(&mut self) {
        self.header = None;
    }
}

fn send(
    offset_bytes: u64,
    bytes: SharedBuf,
    fua: bool,
    pending: Pending,
    (pages, outbox): (&mut PageWriter, &mut Outbox),
) {
    pages.begins(bytes.len() as u64);
    outbox.send(DEVICE, offset_bytes, 0, Op::Write { bufs: Vectored::One(bytes), fua }, pending);
}
