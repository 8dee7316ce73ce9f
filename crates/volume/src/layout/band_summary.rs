//! Bands describe themselves: each is cut into groups of blocks, and the last block of a group says who was written into
//! the others.

use super::Id;
use super::codec::COUNTER_LIMIT;
use super::codec::{Reader, Writer};
use super::page::BLOCK_SECTORS;
use super::seal;
use forebay_block::{ClassId, DiskId};

/// Blocks of a group, its summary among them.
pub const GROUP_BLOCKS: u32 = 64;
/// Most entries of a summary.
pub const ENTRIES_MAX: usize = (4096 - HEADER_BYTES) / SummaryEntry::BYTES;
/// Most groups of which a root has what their summaries would say, as these cannot be written to their places.
pub const UNWRITTEN_MAX: usize = 16;
const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 4] = *b"FBBS";

/// How a band is cut into groups. Blocks are counted from the start of the band, summaries among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandShape {
    blocks: u32,
}

impl BandShape {
    /// Of bands of this size in bytes.
    #[must_use]
    pub fn new(band_bytes: u64) -> Self {
        Self { blocks: (band_bytes / 4096) as u32 }
    }

    /// Blocks of the band, summaries among them.
    #[must_use]
    pub fn blocks(self) -> u32 {
        self.blocks
    }

    /// Sectors of the band, summaries among them.
    #[must_use]
    pub fn sectors(self) -> u32 {
        self.blocks * BLOCK_SECTORS as u32
    }

    /// Groups of the band.
    #[must_use]
    pub fn groups(self) -> u32 {
        self.blocks.div_ceil(GROUP_BLOCKS)
    }

    /// Blocks of the band that hold data.
    #[must_use]
    pub fn data_blocks(self) -> u32 {
        self.blocks - self.groups()
    }

    /// The group that a block lies in.
    #[must_use]
    pub fn group_of(self, block: u32) -> u32 {
        block / GROUP_BLOCKS
    }

    /// First block of a group.
    #[must_use]
    pub fn first_block(self, group: u32) -> u32 {
        group * GROUP_BLOCKS
    }

    /// The summary of a group: the block behind its data.
    #[must_use]
    pub fn summary_block(self, group: u32) -> u32 {
        self.blocks.min((group + 1) * GROUP_BLOCKS) - 1
    }

    /// Sectors of data that a group holds.
    #[must_use]
    pub fn group_sectors(self, group: u32) -> u32 {
        (self.summary_block(group) - self.first_block(group)) * BLOCK_SECTORS as u32
    }

    /// Where data goes on that has come as far as this: a summary is stepped over.
    #[must_use]
    pub fn skip_summary(self, mut block: u32) -> u32 {
        while block < self.blocks && self.summary_block(self.group_of(block)) == block {
            block += 1;
        }
        block
    }

    /// Where data that has come as far as this block goes on after a start, over a device that protects rows of so many blocks together: at the next row, so
    /// that nothing is written beside what nobody has looked at since. In the row that the group's summary lies in that is written in any case.
    #[must_use]
    pub fn next_row(self, block: u32, row_blocks: u32) -> u32 {
        let next = block.next_multiple_of(row_blocks.max(1));
        if next < self.summary_block(self.group_of(block)) { next } else { block }
    }

    /// Blocks of data from a block on to the end of the band.
    #[must_use]
    pub fn data_left(self, block: u32) -> u32 {
        let block = self.skip_summary(block);
        if block >= self.blocks {
            return 0;
        }
        self.blocks - block - (self.groups() - self.group_of(block))
    }
}

/// Who was written into one place of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryEntry {
    /// Disk; 0 means that nothing known was written here.
    pub disk: DiskId,
    /// Class.
    pub class: ClassId,
    /// What the policy of lifetime groups noted, plus 1; 0: nothing.
    pub note: u8,
    /// Stored length in sectors.
    pub sectors: u8,
    /// Block checksum.
    pub checksum: u32,
    /// Block address.
    pub block: u64,
    /// Orders it among all copies of the block (docs/format.md, "Origins").
    pub origin: u64,
}

impl SummaryEntry {
    /// Nothing known was written into these sectors.
    #[must_use]
    pub const fn none(sectors: u8) -> Self {
        Self { disk: DiskId(0), class: ClassId(0), note: 0, sectors, checksum: 0, block: 0, origin: 0 }
    }

    /// Whether something was written there.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.disk.0 != 0
    }

    /// Bytes of one.
    pub const BYTES: usize = 24;

    /// Appends the entry.
    pub fn put(&self, w: &mut Writer) {
        w.u16(self.disk.0);
        w.u8(self.class.0);
        w.u8(self.note);
        w.u32(self.checksum);
        w.u64(self.block & ((1 << 48) - 1) | u64::from(self.sectors) << 48);
        w.u64(self.origin);
    }

    /// Reads an entry; `None` where it is none that this format has.
    pub fn take(r: &mut Reader<'_>) -> Option<Self> {
        let (disk, class, note, checksum) = (DiskId(r.u16()?), ClassId(r.u8()?), r.u8()?, r.u32()?);
        let (place, origin) = (r.u64()?, r.u64()?);
        let (block, sectors) = (place & ((1 << 48) - 1), (place >> 48) as u8);
        // What is between blocks may be longer than one.
        let most = if disk.0 == 0 { u8::MAX } else { BLOCK_SECTORS as u8 };
        let is_possible = usize::from(class.0) < ClassId::LIMIT
            && (1..=most).contains(&sectors)
            && place >> 56 == 0
            && origin < COUNTER_LIMIT;
        is_possible.then_some(Self { disk, class, note, sectors, checksum, block, origin })
    }
}

/// Most open bands of what hosts write or destages move, and of what collection moves, which is parted further.
const OPEN_MAX: [u64; 2] = [6, 8];
/// Most open bands, of both kinds.
pub const OPEN_ALL_MAX: u64 = OPEN_MAX[0] + OPEN_MAX[1];

/// Most bands that streams of one kind have open, of a pool of so many. Each open band is space that others cannot use: few
/// bands, few streams.
#[must_use]
pub fn open_max(bands: u64, collecting: bool) -> u64 {
    (bands / if collecting { 16 } else { 8 }).clamp(1, OPEN_MAX[usize::from(collecting)])
}

/// Most bytes that the entries of groups that are not complete take in a root, with so many more for each, of a pool of so many
/// bands of this shape.
#[must_use]
pub fn open_groups_bytes_max(bands: u64, shape: BandShape, more_bytes: u64) -> u64 {
    let open = open_max(bands, false) + open_max(bands, true);
    let data_blocks = u64::from(shape.blocks().min(GROUP_BLOCKS)).saturating_sub(1);
    // As many as a full one has for each block, and what is not known behind them.
    let entries = data_blocks * ENTRIES_MAX as u64 / (u64::from(GROUP_BLOCKS) - 1) + 1;
    open * (entries.min(ENTRIES_MAX as u64) * SummaryEntry::BYTES as u64 + more_bytes)
}

/// Which summary this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryName {
    /// The band.
    pub band: u32,
    /// The group in it.
    pub group: u32,
    /// Generation of the band.
    pub generation: u32,
}

/// Encodes the summary of a group, written in `epoch`.
pub fn encode(pool: &Id, name: SummaryName, epoch: u64, entries: &[SummaryEntry], page: &mut [u8]) {
    let entries = &entries[..entries.len().min(ENTRIES_MAX)];
    let mut w = Writer::of_pool(MAGIC, pool);
    w.bytes.reserve_exact(4096);
    w.u32(name.band);
    w.u32(name.group);
    w.u32(name.generation);
    w.u16(entries.len() as u16);
    w.u16(0);
    w.u64(epoch);
    w.bytes.resize(HEADER_BYTES, 0);
    for entry in entries {
        entry.put(&mut w);
    }
    w.bytes.resize(4096, 0);
    page.copy_from_slice(&w.bytes);
    seal(page);
}

/// Decodes the summary of a group in whatever generation its band has; with the generation, and the epoch in which it was
/// written.
#[must_use]
pub fn decode_any(
    pool: &Id,
    (band, group): (u32, u32),
    group_sectors: u32,
    page: &[u8],
) -> Option<(u32, u64, Vec<SummaryEntry>)> {
    let mut r = Reader::new(page.get(32..)?);
    let (generation, _entries, _pad, epoch) = (r.u32()?, r.u16()?, r.u16()?, r.u64()?);
    let entries = decode(pool, SummaryName { band, group, generation }, group_sectors, page)?;
    Some((generation, epoch, entries))
}

/// Decodes a summary; `None` where it is not that of this group in this generation, or has entries for more than
/// `group_sectors`.
#[must_use]
pub fn decode(pool: &Id, name: SummaryName, group_sectors: u32, page: &[u8]) -> Option<Vec<SummaryEntry>> {
    let mut r = Reader::of_pool(page, MAGIC, pool).filter(|_| page.len() == 4096)?;
    let found = SummaryName { band: r.u32()?, group: r.u32()?, generation: r.u32()? };
    let count = usize::from(r.u16()?);
    if found != name {
        return None;
    }
    take_entries(&mut Reader::new(page.get(HEADER_BYTES..)?), count, group_sectors)
}

/// Decodes the summary of whatever group a page says it is of; with the epoch in which it was written.
#[must_use]
pub fn decode_named(pool: &Id, shape: BandShape, page: &[u8]) -> Option<(SummaryName, u64, Vec<SummaryEntry>)> {
    let mut r = Reader::new(page.get(24..)?);
    let (band, group) = (r.u32()?, r.u32()?);
    let sectors = (group < shape.groups()).then(|| shape.group_sectors(group))?;
    let (generation, epoch, entries) = decode_any(pool, (band, group), sectors, page)?;
    Some((SummaryName { band, group, generation }, epoch, entries))
}

/// Reads `count` entries of a group that holds `group_sectors`.
pub fn take_entries(r: &mut Reader<'_>, count: usize, group_sectors: u32) -> Option<Vec<SummaryEntry>> {
    if count > ENTRIES_MAX {
        return None;
    }
    let mut entries = Vec::with_capacity(count);
    let mut sectors = 0;
    for _ in 0..count {
        let entry = SummaryEntry::take(r)?;
        sectors += u32::from(entry.sectors);
        entries.push(entry);
    }
    (sectors <= group_sectors).then_some(entries)
}

/// The entries of known data, each with its first sector counted from the start of the group.
pub fn placed(entries: &[SummaryEntry]) -> impl Iterator<Item = (u32, &SummaryEntry)> {
    let places = entries.iter().scan(0, |next, entry| {
        let at = *next;
        *next += u32::from(entry.sectors);
        Some((at, entry))
    });
    places.filter(|(_, entry)| entry.is_known())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(sectors: u8, block: u64) -> SummaryEntry {
        let (disk, class) = (DiskId(1), ClassId(119));
        SummaryEntry { disk, class, note: 7, sectors, checksum: 1, block, origin: COUNTER_LIMIT - 1 }
    }

    const NAME: SummaryName = SummaryName { band: 5, group: 3, generation: 2 };

    fn round_trip(entries: &[SummaryEntry], group_sectors: u32) -> Option<Vec<SummaryEntry>> {
        let mut page = vec![0; 4096];
        encode(&[1; 16], NAME, 9, entries, &mut page);
        decode(&[1; 16], NAME, group_sectors, &page)
    }

    proptest! {
        #[test]
        fn summaries_of_any_lengths_round_trip(lengths in proptest::collection::vec(1u8..=8, 0..=ENTRIES_MAX)) {
            let entries: Vec<_> = lengths.iter().map(|&sectors| entry(sectors, (1 << 48) - 1)).collect();
            let sectors: u32 = lengths.iter().map(|&sectors| u32::from(sectors)).sum();
            prop_assert_eq!(round_trip(&entries, sectors), Some(entries.clone()));
            let mut next = 0;
            for (at, entry) in placed(&entries) {
                prop_assert_eq!(at, next);
                next += u32::from(entry.sectors);
            }
            if sectors > 0 {
                prop_assert_eq!(round_trip(&entries, sectors - 1), None, "more than the group holds");
            }
        }

        #[test]
        fn every_block_of_a_band_is_data_or_one_summary(blocks in 2u32..400, row in 2u32..=16) {
            let shape = BandShape::new(u64::from(blocks) * 4096);
            let is_summary = |block: u32| shape.summary_block(shape.group_of(block)) == block;
            let data = (0..blocks).filter(|&block| !is_summary(block)).count() as u32;
            prop_assert_eq!(data, shape.data_blocks());
            prop_assert_eq!(data, blocks - blocks.div_ceil(64));
            for block in 0..=blocks {
                let left = (block..blocks).filter(|&block| !is_summary(block)).count() as u32;
                prop_assert_eq!(shape.data_left(block), left);
                let next = (block..blocks).find(|&block| !is_summary(block)).unwrap_or(blocks);
                prop_assert_eq!(shape.skip_summary(block), next);
            }
            for block in (0..blocks).filter(|&block| !is_summary(block)) {
                prop_assert_eq!(shape.next_row(block, 1), block);
                let next = shape.next_row(block, row);
                prop_assert!(!(block..=next).any(is_summary) && (next == block || next.is_multiple_of(row)));
                let is_passed = |at: u32| at.is_multiple_of(row) || is_summary(at);
                prop_assert!((block + 1..next).all(|at| !is_passed(at)));
            }
            let sum: u32 = (0..shape.groups()).map(|group| shape.group_sectors(group)).sum();
            prop_assert_eq!(sum, data * 8);
        }
    }

    #[test]
    fn summaries_of_others_and_impossible_entries_are_refused() {
        let mut page = vec![0; 4096];
        encode(&[1; 16], NAME, 9, &[entry(8, 1)], &mut page);
        for other in
            [SummaryName { band: 4, ..NAME }, SummaryName { group: 4, ..NAME }, SummaryName { generation: 3, ..NAME }]
        {
            assert!(decode(&[1; 16], other, 504, &page).is_none());
        }
        assert!(decode(&[2; 16], NAME, 504, &page).is_none());
        for bad in [
            entry(0, 1),
            entry(9, 1),
            SummaryEntry { class: ClassId(120), ..entry(8, 1) },
            SummaryEntry { origin: COUNTER_LIMIT, ..entry(8, 1) },
        ] {
            assert_eq!(round_trip(&[bad], 504), None, "{bad:?}");
        }
    }
}
