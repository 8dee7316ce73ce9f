//! The root: everything a checkpoint fixes, and the header that makes it valid.

use super::Id;
use super::band_summary::PACKED_TIMES_MAX;
use super::band_summary::{BandShape, SummaryEntry, open_groups_bytes_max};
use super::base::Base;
use super::codec::COUNTER_LIMIT;
use super::codec::{Reader, Writer};
use super::page::{BLOCK_GRAINS, PageRef};
use super::scrub_record::ScrubRecord;
use super::seal;
use super::sections::KeptSection;
use super::stream::Stream;
use super::superblock::Superblock;
use forebay_block::DiskId;
use forebay_block::checksum::crc32c;
use forebay_prism::ClassStats;

const MAGIC: [u8; 4] = *b"FBRT";
/// Size of a header block in bytes.
pub const HEADER_BYTES: usize = 4096;

/// Header of a root area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootHeader {
    /// Checkpoint number, consecutive.
    pub checkpoint: u64,
    /// Epoch of the journal that follows.
    pub epoch: u64,
    /// Length of the blob in bytes.
    pub blob_len_bytes: u64,
    /// CRC of the blob.
    pub blob_crc: u32,
    /// 0, or the checkpoint that made this one invalid.
    pub superseded_by: u64,
    /// The counts in the index of blocks that may be destaged may be from before a class changed its place.
    pub counts_due: bool,
    /// Number of the opening that wrote it, 0 where it has none.
    pub opening: u64,
}

impl RootHeader {
    /// Encodes one header block.
    #[must_use]
    pub fn encode(&self, pool: &Id) -> Vec<u8> {
        let mut w = Writer::of_pool(MAGIC, pool);
        w.u64(self.checkpoint);
        w.u64(self.epoch);
        w.u64(self.blob_len_bytes);
        w.u32(self.blob_crc);
        w.u64(self.superseded_by);
        w.u8(u8::from(self.counts_due));
        w.u64(self.opening);
        w.bytes.resize(HEADER_BYTES, 0);
        seal(&mut w.bytes);
        w.bytes
    }

    /// Decodes a header of this pool.
    #[must_use]
    pub fn decode(bytes: &[u8], pool: &Id) -> Option<Self> {
        let mut r = Reader::of_pool(bytes, MAGIC, pool)?;
        let header = Self {
            checkpoint: r.u64()?,
            epoch: r.u64()?,
            blob_len_bytes: r.u64()?,
            blob_crc: r.u32()?,
            superseded_by: r.u64()?,
            counts_due: r.u8()? != 0,
            opening: r.u64()?,
        };
        let is_possible = [header.checkpoint, header.epoch, header.superseded_by].iter().all(|&n| n < COUNTER_LIMIT);
        is_possible.then_some(header)
    }
}

/// A disk as the root has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskRoot {
    /// Id.
    pub id: u16,
    /// Name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// What it lies over.
    pub base: Option<Base>,
    /// Index pages that exist, by number.
    pub pages: Vec<(u32, PageRef)>,
}

/// Bytes that the root has for an index page.
pub const INDEX_PAGE_BYTES: u64 = 20;

impl DiskRoot {
    /// Most bytes that a disk of this name takes beside its index pages, even while it lies over a base and is being removed.
    #[must_use]
    pub fn bytes_max(name: &str) -> u64 {
        const ID_AND_COUNTS: u64 = 18;
        const REMOVED: u64 = 14;
        ID_AND_COUNTS + name.len() as u64 + REMOVED + 2 + Base::BYTES
    }

    /// The disk's id.
    #[must_use]
    pub fn disk(&self) -> DiskId {
        DiskId(self.id)
    }
}

/// State of a band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BandState {
    /// May be opened.
    #[default]
    Free,
    /// Being written.
    Open,
    /// Nothing more is written into it.
    Closed,
}

/// A group can name one compressed block for so many of its grains.
const NAMED_GRAINS: u32 = (BLOCK_GRAINS / PACKED_TIMES_MAX) as u32;

/// A band as the root has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandRoot {
    /// State.
    pub state: BandState,
    /// Stream written into it.
    pub stream: Stream,
    /// Grains that the map still names.
    pub valid: u32,
    /// Blocks that the map names in it: compressed ones are more than would fit into `valid` grains as they are.
    pub blocks: u32,
    /// How far it is written, in grains from its start, summaries included.
    pub written: u32,
    /// Counts openings.
    pub generation: u32,
    /// Band clock when it was closed: its age in bands.
    pub closed_at: u64,
}

impl BandRoot {
    /// Limits what counts as living in it to so many grains, and to the blocks that these can name.
    pub fn limit(&mut self, grains: u32) {
        self.valid = self.valid.min(grains);
        self.blocks = self.blocks.min(grains / NAMED_GRAINS);
    }

    /// Grains that its living blocks take where they are moved: very small blocks take as many as a group needs to name them.
    #[must_use]
    pub fn moved_grains(&self) -> u32 {
        self.valid.max(self.blocks.saturating_mul(NAMED_GRAINS))
    }

    /// The block that its next data goes to.
    #[must_use]
    pub fn frontier(&self) -> u32 {
        self.written / BLOCK_GRAINS as u32
    }

    /// Groups, from its start, that nothing more is written into.
    #[must_use]
    pub fn complete_groups(&self, shape: BandShape) -> u32 {
        match self.state {
            BandState::Free => 0,
            BandState::Open => shape.group_of(self.frontier()),
            BandState::Closed => shape.groups(),
        }
    }
}

/// A complete group of a band whose summary is not in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwrittenGroup {
    /// The band.
    pub band: u32,
    /// Its generation: for another one the entries mean nothing.
    pub generation: u32,
    /// The group.
    pub group: u32,
    /// The blocks that were written into it.
    pub entries: Vec<SummaryEntry>,
}

/// Everything a checkpoint fixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// Position where the journal to replay starts.
    pub journal_position: u64,
    /// Number of the first batch expected there.
    pub journal_batch: u64,
    /// Sequences below this one are in the map, except `unapplied`.
    pub next_sequence: u64,
    /// Sequences below `next_sequence` that were in progress, in order.
    pub unapplied: Vec<u64>,
    /// Nothing follows in the journal: a clean stop.
    pub clean: bool,
    /// Checkpoint generation of the pages.
    pub generation: u32,
    /// Disks.
    pub disks: Vec<DiskRoot>,
    /// Next disk id to hand out.
    pub next_disk: u16,
    /// Encoded class table.
    pub classes: Vec<u8>,
    /// Statistics by class.
    pub stats: Vec<ClassStats>,
    /// Bytes that compression saved of what was written to bands, over the pool's life.
    pub saved_bytes: u64,
    /// Saved evidence of the classifier.
    pub evidence: Vec<u8>,
    /// Counts bands closed.
    pub band_clock: u64,
    /// Bands.
    pub bands: Vec<BandRoot>,
    /// Entries of the incomplete group of each open band: (band, group, entries).
    pub open_groups: Vec<(u32, u32, Vec<SummaryEntry>)>,
    /// Complete groups whose summary cannot be written to its place.
    pub unwritten_groups: Vec<UnwrittenGroup>,
    /// Slot bitmap, a set bit is in use.
    pub slots: Vec<u64>,
    /// How far a scrub is.
    pub scrub: ScrubRecord,
    /// Sections of newer programs that this one does not know and may keep.
    pub kept: Vec<KeptSection>,
}

impl Root {
    /// Upper bound of the encoded size in bytes.
    #[must_use]
    pub fn size_bound_bytes(slots: u64, bands: u64, shape: BandShape, index_pages: u64) -> u64 {
        // Fixed parts, class table (280 KiB at most), evidence (64 KiB), statistics; slots one bit; bands 28 bytes; entries of 24
        // bytes for what a group in each band that may be open can hold; directory 20 bytes.
        let open_groups = open_groups_bytes_max(bands, shape, 16);
        384 * 1024 + slots / 8 + 64 + bands * 28 + open_groups + index_pages * INDEX_PAGE_BYTES
    }

    /// Bytes that the root of a pool has for its disks and their index pages, with all else at its largest.
    #[must_use]
    pub fn bytes_for_disks(superblock: &Superblock) -> u64 {
        let RootBounds { slots, bands, shape, .. } = RootBounds::of(superblock);
        let others = 2 * HEADER_BYTES as u64 + Self::size_bound_bytes(slots, bands, shape, 0);
        superblock.root_len_bytes.saturating_sub(others)
    }

    /// Whether a record with this sequence is not in the root's map.
    #[must_use]
    pub fn must_apply(&self, sequence: u64) -> bool {
        sequence >= self.next_sequence || self.unapplied.binary_search(&sequence).is_ok()
    }

    /// Header for this root's encoded blob.
    #[must_use]
    pub fn header(blob: &[u8], checkpoint: u64, (epoch, opening): (u64, u64), counts_due: bool) -> RootHeader {
        let (blob_len_bytes, blob_crc) = (blob.len() as u64, crc32c(blob));
        RootHeader { checkpoint, epoch, blob_len_bytes, blob_crc, superseded_by: 0, counts_due, opening }
    }
}

/// What a root can name, according to the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootBounds {
    pub(super) shape: BandShape,
    pub(super) bands: u64,
    pub(super) slots: u64,
    pub(super) journal_sector_bytes: u64,
}

/// Bytes for sections of newer programs when a root is read.
const KEPT_BYTES_MAX: u64 = 16 << 20;

impl RootBounds {
    /// Largest blob that a root of the pool can have, in bytes.
    #[must_use]
    pub fn blob_bytes_max(&self) -> u64 {
        // Each index page lies in a slot.
        Root::size_bound_bytes(self.slots, self.bands, self.shape, self.slots) + KEPT_BYTES_MAX
    }

    /// Most blocks that a band can hold: of data that shrinks to a grain or two there are many in a block of the device.
    pub(super) fn band_blocks_max(&self) -> u64 {
        u64::from(self.shape.data_blocks()) * PACKED_TIMES_MAX
    }

    /// Of a pool.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Self {
        let band_sectors = superblock.band_bytes / 512;
        Self {
            shape: BandShape::new(superblock.band_bytes),
            bands: superblock.members[1..].iter().map(|member| member.sectors / band_sectors).sum(),
            slots: superblock.slots,
            journal_sector_bytes: u64::from(superblock.journal_sector_bytes),
        }
    }
}
