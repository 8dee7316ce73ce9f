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
const LOCATION_BITS: u32 = 38;
const LOCATION_MASK: u64 = (1 << LOCATION_BITS) - 1;
const CODE_SHIFT: u32 = 41;
const SPAN_MASK: u64 = (1 << CODE_SHIFT) - 1;
const ENTRY_MASK: u64 = (1 << 48) - 1;
const CODE_ZERO: u64 = 1;
const CODE_DAMAGED: u64 = 2;
const CODE_DATA: u64 = 8;
/// Most sectors a pool may have (38 bits).
pub const SECTORS_MAX: u64 = 1 << LOCATION_BITS;
/// Sectors of a block that is stored as it is.
pub const BLOCK_SECTORS: u64 = 8;

/// Where a block is stored: its first sector, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// First sector in the pool's linear space.
    pub location: u64,
    /// Stored length in sectors, 1 to 8.
    pub sectors: u8,
}

impl Span {
    /// A block stored as it is.
    #[must_use]
    pub const fn whole(location: u64) -> Self {
        Self { location, sectors: BLOCK_SECTORS as u8 }
    }

    /// Whether the block is stored as it is.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.sectors as u64 == BLOCK_SECTORS
    }

    /// Behind its last sector.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.location + self.sectors as u64
    }

    /// The location in the low bits, the length minus 1 above them.
    #[must_use]
    pub const fn pack(self) -> u64 {
        (self.location & LOCATION_MASK) | ((self.sectors.wrapping_sub(1) & 7) as u64) << LOCATION_BITS
    }

    /// What was packed; `None` where there are bits beyond it.
    #[must_use]
    pub const fn unpack(bits: u64) -> Option<Self> {
        if bits >> CODE_SHIFT != 0 {
            return None;
        }
        Some(Self { location: bits & LOCATION_MASK, sectors: (bits >> LOCATION_BITS) as u8 + 1 })
    }
}

/// What is read of a device for stored bytes: devices are read in whole units of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// First sector.
    pub first: u64,
    /// Length in bytes.
    pub len_bytes: usize,
}

impl Window {
    /// Around what lies from one block to the end of another, or the same, in units of so many sectors.
    #[must_use]
    pub fn around(first: Span, last: Span, unit_sectors: u64) -> Self {
        let begin = first.location / unit_sectors * unit_sectors;
        // What only damage can name may lie anywhere.
        let sectors = last.end().next_multiple_of(unit_sectors).saturating_sub(begin);
        Self { first: begin, len_bytes: sectors as usize * SECTOR_BYTES }
    }

    /// Around one block.
    #[must_use]
    pub fn of(span: Span, unit_sectors: u64) -> Self {
        Self::around(span, span, unit_sectors)
    }

    /// The stored bytes of a block within those of the window; `None` where it does not lie there.
    #[must_use]
    pub fn stored(self, span: Span, bytes: &[u8]) -> Option<&[u8]> {
        let begin = usize::try_from(span.location.checked_sub(self.first)?).ok()? * SECTOR_BYTES;
        bytes.get(begin..begin + usize::from(span.sectors) * SECTOR_BYTES)
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
    fn pack(self) -> u64 {
        match self {
            Self::Unmapped => 0,
            Self::Zero => CODE_ZERO << CODE_SHIFT,
            Self::Damaged => CODE_DAMAGED << CODE_SHIFT,
            Self::Data { span, class } => span.pack() | (CODE_DATA + u64::from(class.0)) << CODE_SHIFT,
        }
    }

    fn unpack(bits: u64) -> Self {
        match bits >> CODE_SHIFT {
            0 => Self::Unmapped,
            CODE_ZERO => Self::Zero,
            code @ CODE_DATA.. => match Span::unpack(bits & SPAN_MASK) {
                Some(span) => Self::Data { span, class: ClassId((code - CODE_DATA) as u8) },
                None => Self::Damaged,
            },
            // Codes 3..=7 are reserved: nothing this version may interpret as data.
            _ => Self::Damaged,
        }
    }
}

/// So many bytes of a page, in one load.
#[inline]
fn bytes_at<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    page[at..at + N].as_chunks().0[0]
}

/// Reads entry `i` of a leaf page with its block checksum.
#[inline]
#[must_use]
pub fn leaf_entry(page: &[u8], i: usize) -> (Entry, u32) {
    // One load of eight bytes, of which the last two are the next entry's, or a checksum's, instead of a copy of six.
    let bits = u64::from_le_bytes(bytes_at(page, HEADER_BYTES + i * 6));
    let crc = u32::from_le_bytes(bytes_at(page, CHECKSUMS_OFFSET + i * 4));
    (Entry::unpack(bits & ENTRY_MASK), crc)
}

/// Writes entry `i` of a leaf page.
pub fn set_leaf_entry(page: &mut [u8], i: usize, entry: Entry, checksum: u32) {
    let at = HEADER_BYTES + i * 6;
    page[at..at + 6].copy_from_slice(&entry.pack().to_le_bytes()[..6]);
    let at = CHECKSUMS_OFFSET + i * 4;
    page[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
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

/// The epoch in which block `i` of a leaf, with its neighbours, is due to leave the fast tier, as the last host's write of one
/// of them decided; of what is due more than 255 epochs before the last of the leaf, that.
#[inline]
#[must_use]
pub fn due_epoch(page: &[u8], i: usize) -> u32 {
    last_epoch(page).saturating_sub(u32::from(page[BEFORE_OFFSET + i / CLOCK_BLOCKS]))
}

/// Makes all blocks of a leaf due in this epoch, where its clock is later than it can be: it was kept by other rules, or another
/// pool's time.
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
    /// First sector in the pool; 0 is a hole.
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
        let bits = (reference.location & LOCATION_MASK) | u64::from(reference.stageable.min(511)) << LOCATION_BITS;
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
            location: bits & LOCATION_MASK,
            stageable: (bits >> LOCATION_BITS & 511) as u16,
            crc: r.u32()?,
            generation: r.u32()?,
        });
    }
    Some(references)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_at_the_edges() {
        let mut page = vec![0u8; PAGE_BYTES];
        let data = Entry::Data { span: Span { location: SECTORS_MAX - 3, sectors: 3 }, class: ClassId(119) };
        set_leaf_entry(&mut page, 0, data, 7);
        set_leaf_entry(&mut page, 399, Entry::Zero, 9);
        set_leaf_entry(&mut page, 398, Entry::Damaged, 0);
        assert_eq!(leaf_entry(&page, 0), (data, 7));
        assert_eq!(leaf_entry(&page, 1), (Entry::Unmapped, 0));
        assert_eq!(leaf_entry(&page, 398).0, Entry::Damaged);
        assert_eq!(leaf_entry(&page, 399), (Entry::Zero, 9));
        let name = PageName { disk: DiskId(3), number: 5, generation: 2 };
        let crc = seal_leaf(&mut page, name);
        assert!(is_leaf(&page, name, crc));
        assert!(!is_leaf(&page, PageName { number: 6, ..name }, crc));
        page[4095] ^= 1;
        assert!(!is_leaf(&page, name, crc));
        assert_eq!(leaf_entry(&page, 0), (data, 7), "the header does not overlap the entries");
    }

    #[test]
    fn spans_of_every_length_round_trip() {
        for sectors in 1..=8 {
            for location in [0, 1, 7, SECTORS_MAX - 1] {
                let span = Span { location, sectors };
                assert_eq!(Span::unpack(span.pack()), Some(span));
                assert_eq!(Window::of(span, 1), Window { first: location, len_bytes: usize::from(sectors) * 512 });
                let window = Window::of(span, 8);
                assert!(
                    window.first.is_multiple_of(8) && window.len_bytes.is_multiple_of(4096) && window.len_bytes <= 8192
                );
                let bytes: Vec<u8> = (0..16).flat_map(|sector| [sector; 512]).take(window.len_bytes).collect();
                let stored = window.stored(span, &bytes).unwrap();
                assert_eq!(stored.len(), usize::from(sectors) * 512);
                assert_eq!(window.first + u64::from(stored[0]), location);
            }
        }
        assert_eq!(Span::unpack(1 << CODE_SHIFT), None);
        assert_eq!(Span::whole(8), Span { location: 8, sectors: 8 });
    }

    #[test]
    fn clocks_tell_when_neighbours_are_due() {
        let mut page = vec![0u8; PAGE_BYTES];
        set_due(&mut page, 0, 10);
        set_due(&mut page, 399, 12);
        set_due(&mut page, 8, 100);
        let name = PageName { disk: DiskId(1), number: 0, generation: 9 };
        let crc = seal_leaf(&mut page, name);
        assert!(is_leaf(&page, name, crc));
        let epochs = [0, 7, 8, 16, 392, 399].map(|i| due_epoch(&page, i));
        assert_eq!(epochs, [10, 10, 100, 0, 12, 12]);
        set_due(&mut page, 16, 1000);
        assert_eq!([0, 8, 16].map(|i| due_epoch(&page, i)), [745, 745, 1000], "an age has one byte");
        set_due(&mut page, 16, 900);
        set_due(&mut page, 24, 10);
        let epochs = [8, 16, 24].map(|i| due_epoch(&page, i));
        assert_eq!(epochs, [745, 900, 745], "what is due before others need not be written before them");
        limit_due(&mut page, 1000);
        assert_eq!(due_epoch(&page, 16), 900);
        limit_due(&mut page, 999);
        assert_eq!([8, 16, 24].map(|i| due_epoch(&page, i)), [999; 3]);
        assert_eq!(leaf_entry(&page, 0), (Entry::Unmapped, 0), "the clocks do not overlap the entries");
    }

    #[test]
    fn index_pages_round_trip() {
        let name = PageName { disk: DiskId(1), number: 0, generation: 9 };
        let mut page = vec![0u8; PAGE_BYTES];
        let last = PageRef { location: 8, stageable: 400, crc: 3, generation: 4 };
        let all = (0..INDEX_ENTRIES).map(|i| if i == 249 { last } else { PageRef::default() });
        let crc = encode_index(name, all, &mut page);
        let decoded = decode_index(&page, name, crc).unwrap();
        assert_eq!((decoded[0], decoded[249]), (PageRef::default(), last));
        assert!(decode_index(&page, name, crc ^ 1).is_none());
    }
}
