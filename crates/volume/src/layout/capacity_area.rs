//! The area on the first capacity device by which the capacity tier can be opened alone.

use super::band_summary::{BandShape, PACKED_TIMES_MAX, SUMMARY_PAGES_MAX, UNWRITTEN_MAX, open_groups_bytes_max};
use super::codec::{Reader, Writer};
use super::page::{LEAF_ENTRIES, SECTORS_MAX};
use super::tier_page::PAGE_LEAVES;
use forebay_block::BLOCK_BYTES_U64 as BLOCK;

/// The device that holds it: the first of the capacity tier.
pub const DEVICE: usize = 1;
/// Size of a header in bytes.
pub const HEADER_BYTES: usize = 4096;
/// Most sequences of records in flight that are kept.
pub const UNAPPLIED_MAX: usize = 256;
/// Bytes of a reference to a page.
pub const PAGE_REF_BYTES: u64 = 12;
/// Room for the table of disks, in bytes.
const DISKS_BYTES: u64 = 16 << 10;

/// Where the area lies on the first capacity device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapacityArea {
    /// Start in bytes; 0 where the pool has none.
    pub offset_bytes: u64,
    /// Length in bytes of each of the two roots, header included.
    pub root_len_bytes: u64,
    /// Most pages that are listed; there is room for twice as many.
    pub pages: u32,
}

impl CapacityArea {
    /// Plans the area for a pool of so many bytes and bands, from an offset on.
    #[must_use]
    pub fn plan(offset_bytes: u64, pool_bytes: u64, bands: u64, shape: BandShape) -> Self {
        let span = (PAGE_LEAVES * LEAF_ENTRIES) as u64 * BLOCK;
        // The pages of a pool full of compressed blocks, in disks without holes; the pages of a sparsely written disk describe less each.
        let full = pool_bytes.div_ceil(span);
        let pages = (PACKED_TIMES_MAX * full).max(2 * full + 8);
        let open = open_groups_bytes_max(bands, shape, 12);
        let blob = 64 + UNAPPLIED_MAX as u64 * 8 + DISKS_BYTES + pages * PAGE_REF_BYTES + bands * 8 + open;
        let root_len_bytes = HEADER_BYTES as u64 + blob.next_multiple_of(BLOCK);
        Self { offset_bytes, root_len_bytes, pages: pages.min(u64::from(u32::MAX / 2)) as u32 }
    }

    /// Appends it to a superblock.
    pub fn put(&self, w: &mut Writer) {
        w.u64(self.offset_bytes);
        w.u64(self.root_len_bytes);
        w.u32(self.pages);
    }

    /// Reads it.
    pub fn take(r: &mut Reader<'_>) -> Option<Self> {
        Some(Self { offset_bytes: r.u64()?, root_len_bytes: r.u64()?, pages: r.u32()? })
    }

    /// Bytes of all of it.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        2 * self.root_len_bytes + 2 * u64::from(self.pages) * BLOCK
    }

    /// Whether the pool has one.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.offset_bytes != 0
    }

    /// Whether it can lie between these offsets.
    #[must_use]
    pub fn is_possible(&self, start_bytes: u64, end_bytes: u64) -> bool {
        let end = self.offset_bytes.checked_add(self.root_len_bytes.saturating_mul(2));
        let end = end.and_then(|end| end.checked_add(2 * u64::from(self.pages) * BLOCK));
        self.offset_bytes >= start_bytes
            && self.offset_bytes.is_multiple_of(BLOCK)
            && self.root_len_bytes.is_multiple_of(BLOCK)
            && self.root_len_bytes > HEADER_BYTES as u64
            && self.pages > 0
            && end.is_some_and(|end| end <= end_bytes)
    }

    /// Whether a pool of devices of these sizes in bytes can need an area this large: whoever allocates memory for it need not check.
    #[must_use]
    pub fn is_needed(&self, mut sizes: impl Iterator<Item = u64>, band_bytes: u64) -> bool {
        let Some(all_bytes) = sizes.try_fold(0u64, u64::checked_add) else { return false };
        let shape = BandShape::new(band_bytes);
        let most = Self::plan(self.offset_bytes, all_bytes, all_bytes / band_bytes.max(1), shape);
        // Heads and ends of devices are not addressed by sectors.
        all_bytes <= 2 * 512 * SECTORS_MAX && self.root_len_bytes <= most.root_len_bytes && self.pages <= most.pages
    }

    /// Slots for pages.
    #[must_use]
    pub fn slots(&self) -> u64 {
        2 * u64::from(self.pages)
    }

    /// Where the header of a checkpoint lies; the blob follows it.
    #[must_use]
    pub fn header_offset_bytes(&self, checkpoint: u64) -> u64 {
        self.offset_bytes + checkpoint % 2 * self.root_len_bytes
    }

    /// Where a page lies.
    #[must_use]
    pub fn page_offset_bytes(&self, slot: u64) -> u64 {
        self.offset_bytes + 2 * self.root_len_bytes + slot * BLOCK
    }

    /// Where summaries that are not in their places lie, relative to an area, behind a blob of this length; and how many pages of them have room.
    #[must_use]
    pub fn summaries_beside(&self, blob_len_bytes: u64) -> (u64, u64) {
        let begin = HEADER_BYTES as u64 + blob_len_bytes.next_multiple_of(BLOCK);
        (
            begin,
            (self.root_len_bytes.saturating_sub(begin) / BLOCK)
                .min(UNWRITTEN_MAX as u64 * u64::from(SUMMARY_PAGES_MAX)),
        )
    }

    /// Largest blob in bytes.
    #[must_use]
    pub fn blob_bytes_max(&self) -> u64 {
        self.root_len_bytes - HEADER_BYTES as u64
    }
}
