//! Map pages: the packed entry, leaves and index pages.

use super::{is_sealed, seal};
use forebay_block::{ClassId, DiskId, SECTOR_BYTES};

/// Size of a page in bytes.
pub const PAGE_BYTES: usize = 4096;
/// Entries of a leaf: 10 bytes each, so that a mapped block costs 10.24 bytes.
pub const LEAF_ENTRIES: usize = 400;
/// References of an index page.
pub const INDEX_ENTRIES: usize = 250;
const HEADER_BYTES: usize = 96;
const CHECKSUMS_OFFSET: usize = HEADER_BYTES + LEAF_ENTRIES * 6;
const LEAF_MAGIC: [u8; 4] = *b"FBML";
const INDEX_MAGIC: [u8; 4] = *b"FBMI";
const LOCATION_BITS: u32 = 42;
const LOCATION_MASK: u64 = (1 << LOCATION_BITS) - 1;
const SPAN_BITS: u32 = LOCATION_BITS + 7;
const CODE_SHIFT: u32 = 41;
const PACKED_BIT: u64 = 1 << 40;
const PLACE_MASK: u64 = PACKED_BIT - 1;
const ENTRY_MASK: u64 = (1 << 48) - 1;
/// Bits of a compressed block's checksum in a leaf, which has no room for more beside its place and length.
pub const CHECKSUM_BITS: u32 = 23;
/// Bits of a compressed block's location that lie beside its checksum.
const LOW_LOCATION_BITS: u32 = LOCATION_BITS - 40;
const LOW_LOCATION_SHIFT: u32 = 32 - LOW_LOCATION_BITS;
/// Bits of a block's number in a reference to a page.
const REFERENCE_BITS: u32 = 38;
const REFERENCE_MASK: u64 = (1 << REFERENCE_BITS) - 1;
const CODE_ZERO: u64 = 1;
const CODE_DAMAGED: u64 = 2;
const CODE_DATA: u64 = 8;
/// Most sectors a pool may have (38 bits): 128 TiB.
pub const SECTORS_MAX: u64 = 1 << 38;
/// The unit of places and stored lengths, in bytes.
pub const GRAIN_BYTES: usize = 32;
/// Grains of a sector.
pub const SECTOR_GRAINS: u64 = (SECTOR_BYTES / GRAIN_BYTES) as u64;
/// Most grains a pool may have (42 bits).
pub const GRAINS_MAX: u64 = SECTORS_MAX * SECTOR_GRAINS;
/// Grains of a block that is stored as it is.
pub const BLOCK_GRAINS: u64 = (PAGE_BYTES / GRAIN_BYTES) as u64;

/// Where a block is stored: its first grain, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// First grain in the pool's linear space.
    pub location: u64,
    /// Stored length in grains, 1 to 128.
    pub grains: u8,
}

impl Span {
    /// A block stored as it is.
    #[must_use]
    pub const fn whole(location: u64) -> Self {
        Self { location, grains: BLOCK_GRAINS as u8 }
    }

    /// Whether the block is stored as it is.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.grains as u64 == BLOCK_GRAINS
    }

    /// The grain behind its last one.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.location + self.grains as u64
    }

    /// The location in the low bits, the length minus 1 above them.
    #[must_use]
    pub const fn pack(self) -> u64 {
        (self.location & LOCATION_MASK) | ((self.grains.wrapping_sub(1) & 127) as u64) << LOCATION_BITS
    }

    /// Unpacks a span; `None` where bits beyond it are set.
    #[must_use]
    pub const fn unpack(bits: u64) -> Option<Self> {
        if bits >> SPAN_BITS != 0 {
            return None;
        }
        Some(Self { location: bits & LOCATION_MASK, grains: (bits >> LOCATION_BITS) as u8 + 1 })
    }
}

/// What is read of a device to get stored bytes, as devices are read in whole units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// First grain.
    pub first: u64,
    /// Length in bytes.
    pub len_bytes: usize,
}

impl Window {
    /// The window from one block to the end of another, or the same, in units of so many grains.
    #[must_use]
    pub fn around(first: Span, last: Span, unit_grains: u64) -> Self {
        let begin = first.location / unit_grains * unit_grains;
        // A span that only damage can name may lie anywhere.
        let grains = last.end().next_multiple_of(unit_grains).saturating_sub(begin);
        Self { first: begin, len_bytes: grains as usize * GRAIN_BYTES }
    }

    /// Around one block.
    #[must_use]
    pub fn of(span: Span, unit_grains: u64) -> Self {
        Self::around(span, span, unit_grains)
    }

    /// The stored bytes of a block within those of the window; `None` where it does not lie there.
    #[must_use]
    pub fn stored(self, span: Span, bytes: &[u8]) -> Option<&[u8]> {
        let begin = usize::try_from(span.location.checked_sub(self.first)?).ok()? * GRAIN_BYTES;
        bytes.get(begin..begin + usize::from(span.grains) * GRAIN_BYTES)
    }
}

/// State of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Never written, or discarded.
    Unmapped,
    /// Reads as zeros, allocated.
    Zero,
    /// Reads fail until overwritten.
    Damaged,
    /// Data.
    Data {
        /// Where it is stored.
        span: Span,
        /// Class.
        class: ClassId,
    },
}

impl Entry {
    /// The entry as a leaf has it: 48 bits, and 32 beside them. For a block that is stored as it is these 32 are its checksum; a compressed block has a
    /// shorter checksum there, beside its length and the rest of its place.
    fn pack(self, checksum: u32) -> (u64, u32) {
        match self {
            Self::Unmapped => (0, checksum),
            Self::Zero => (CODE_ZERO << CODE_SHIFT, checksum),
            Self::Damaged => (CODE_DAMAGED << CODE_SHIFT, checksum),
            Self::Data { span, class } => {
                let code = (CODE_DATA + u64::from(class.0)) << CODE_SHIFT;
                if span.is_whole() {
                    return (code | (span.location / BLOCK_GRAINS) & PLACE_MASK, checksum);
                }
                let low = (span.location as u32 & ((1 << LOW_LOCATION_BITS) - 1)) << LOW_LOCATION_SHIFT;
                let beside =
                    low | u32::from(span.grains & 127) << CHECKSUM_BITS | checksum & ((1 << CHECKSUM_BITS) - 1);
                (code | PACKED_BIT | span.location >> LOW_LOCATION_BITS & PLACE_MASK, beside)
            }
        }
    }

    fn unpack(bits: u64, beside: u32) -> (Self, u32) {
        let code = match bits >> CODE_SHIFT {
            0 => return (Self::Unmapped, beside),
            CODE_ZERO => return (Self::Zero, beside),
            code @ CODE_DATA.. => code,
            // Codes 3..=7 are reserved: nothing this version may interpret as data.
            _ => return (Self::Damaged, beside),
        };
        let class = ClassId((code - CODE_DATA) as u8);
        let place = bits & PLACE_MASK;
        if bits & PACKED_BIT == 0 {
            let location = place * BLOCK_GRAINS;
            let entry =
                if location < GRAINS_MAX { Self::Data { span: Span::whole(location), class } } else { Self::Damaged };
            return (entry, beside);
        }
        let grains = (beside >> CHECKSUM_BITS & 127) as u8;
        let location = place << LOW_LOCATION_BITS | u64::from(beside >> LOW_LOCATION_SHIFT);
        let entry = if grains > 0 { Self::Data { span: Span { location, grains }, class } } else { Self::Damaged };
        (entry, beside & ((1 << CHECKSUM_BITS) - 1))
    }
}

/// `N` bytes of a page, in one load.
#[inline]
fn bytes_at<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    page[at..at + N].as_chunks().0[0]
}

/// Reads entry `i` of a leaf page with its block checksum.
#[inline]
#[must_use]
pub fn leaf_entry(page: &[u8], i: usize) -> (Entry, u32) {
    // One load of eight bytes instead of a copy of six: the last two are the next entry's, or a checksum's.
    let bits = u64::from_le_bytes(bytes_at(page, HEADER_BYTES + i * 6));
    let beside = u32::from_le_bytes(bytes_at(page, CHECKSUMS_OFFSET + i * 4));
    Entry::unpack(bits & ENTRY_MASK, beside)
}

/// Writes entry `i` of a leaf page.
pub fn set_leaf_entry(page: &mut [u8], i: usize, entry: Entry, checksum: u32) {
    let (bits, beside) = entry.pack(checksum);
    let at = HEADER_BYTES + i * 6;
    page[at..at + 6].copy_from_slice(&bits.to_le_bytes()[..6]);
    let at = CHECKSUMS_OFFSET + i * 4;
    page[at..at + 4].copy_from_slice(&beside.to_le_bytes());
}

/// Which page this is; stored in the page and repeated by its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageName {
    /// The disk mapped.
    pub disk: DiskId,
    /// Number of the leaf or index page on the disk.
    pub number: u64,
    /// Checkpoint generation in which the page was written.
    pub generation: u32,
}

fn stamp(page: &mut [u8], magic: [u8; 4], name: PageName) -> u32 {
    page[..4].copy_from_slice(&magic);
    page[8..10].copy_from_slice(&name.disk.0.to_le_bytes());
    page[10..16].fill(0);
    page[16..24].copy_from_slice(&name.number.to_le_bytes());
    page[24..28].copy_from_slice(&name.generation.to_le_bytes());
    seal(page)
}

fn is_named(page: &[u8], magic: [u8; 4], name: PageName) -> bool {
    page[8..10] == name.disk.0.to_le_bytes()
        && page[16..24] == name.number.to_le_bytes()
        && page[24..28] == name.generation.to_le_bytes()
        && is_sealed(page, magic)
}

/// Blocks of a leaf that share a clock.
pub const CLOCK_BLOCKS: usize = 8;
const CLOCKS: usize = LEAF_ENTRIES / CLOCK_BLOCKS;
const LAST_EPOCH_OFFSET: usize = 28;
const BEFORE_OFFSET: usize = 32;
const CLOCK_END: usize = BEFORE_OFFSET + CLOCKS;

fn last_epoch(page: &[u8]) -> u32 {
    u32::from_le_bytes(bytes_at(page, LAST_EPOCH_OFFSET))
}

/// The epoch in which block `i` of a leaf, with its neighbours, is due to leave the fast tier, as the last write of a host to one of them decided. At
/// the earliest it is 255 epochs before the latest of the leaf.
#[inline]
#[must_use]
pub fn due_epoch(page: &[u8], i: usize) -> u32 {
    last_epoch(page).saturating_sub(u32::from(page[BEFORE_OFFSET + i / CLOCK_BLOCKS]))
}

/// Makes all blocks of a leaf due in this epoch, where its clock is later than it can be: it was kept by other rules, or in the time of another pool.
pub fn limit_due(page: &mut [u8], epoch: u32) {
    if last_epoch(page) > epoch {
        page[BEFORE_OFFSET..CLOCK_END].fill(0);
        page[LAST_EPOCH_OFFSET..BEFORE_OFFSET].copy_from_slice(&epoch.to_le_bytes());
    }
}

/// Notes that block `i` of a leaf, with its neighbours, is due in this epoch.
pub fn set_due(page: &mut [u8], i: usize, epoch: u32) {
    let last = last_epoch(page);
    if epoch > last {
        let passed = u8::try_from(epoch - last).unwrap_or(u8::MAX);
        page[BEFORE_OFFSET..CLOCK_END].iter_mut().for_each(|before| *before = before.saturating_add(passed));
        page[LAST_EPOCH_OFFSET..BEFORE_OFFSET].copy_from_slice(&epoch.to_le_bytes());
    }
    page[BEFORE_OFFSET + i / CLOCK_BLOCKS] = u8::try_from(last.max(epoch) - epoch).unwrap_or(u8::MAX);
}

/// Completes a leaf for writing; returns its CRC for the parent.
pub fn seal_leaf(page: &mut [u8], name: PageName) -> u32 {
    page[CLOCK_END..HEADER_BYTES].fill(0);
    stamp(page, LEAF_MAGIC, name)
}

/// Whether a page read from a device is the leaf its parent names.
#[must_use]
pub fn is_leaf(page: &[u8], name: PageName, crc: u32) -> bool {
    page[4..8] == crc.to_le_bytes() && is_named(page, LEAF_MAGIC, name)
}

/// A parent's reference to a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRef {
    /// First grain in the pool; 0 is a hole.
    pub location: u64,
    /// Blocks of the leaf on the fast tier that may be destaged (a hint).
    pub stageable: u16,
    /// CRC of the page.
    pub crc: u32,
    /// Generation of the page.
    pub generation: u32,
}

/// Encodes an index page; returns the page and its CRC.
pub fn encode_index(name: PageName, references: impl Iterator<Item = PageRef>, page: &mut [u8]) -> u32 {
    page.fill(0);
    for (i, reference) in references.take(INDEX_ENTRIES).enumerate() {
        let at = HEADER_BYTES + i * 16;
        let block = (reference.location / BLOCK_GRAINS) & REFERENCE_MASK;
        let bits = block | u64::from(reference.stageable.min(511)) << REFERENCE_BITS;
        page[at..at + 8].copy_from_slice(&bits.to_le_bytes());
        page[at + 8..at + 12].copy_from_slice(&reference.crc.to_le_bytes());
        page[at + 12..at + 16].copy_from_slice(&reference.generation.to_le_bytes());
    }
    stamp(page, INDEX_MAGIC, name)
}

/// Decodes an index page that its parent names with this CRC; `None` where it is not that page.
#[must_use]
pub fn decode_index(page: &[u8], name: PageName, crc: u32) -> Option<Vec<PageRef>> {
    if page.len() < PAGE_BYTES || page[4..8] != crc.to_le_bytes() || !is_named(page, INDEX_MAGIC, name) {
        return None;
    }
    let mut r = super::codec::Reader::new(&page[HEADER_BYTES..PAGE_BYTES]);
    let mut references = Vec::with_capacity(INDEX_ENTRIES);
    for _ in 0..INDEX_ENTRIES {
        let bits = r.u64()?;
        references.push(PageRef {
            location: (bits & REFERENCE_MASK) * BLOCK_GRAINS,
            stageable: (bits >> REFERENCE_BITS & 511) as u16,
            crc: r.u32()?,
            generation: r.u32()?,
        });
    }
    Some(references)
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
