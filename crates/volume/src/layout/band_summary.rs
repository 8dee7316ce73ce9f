//! Bands describe themselves: each is cut into groups of blocks, and the last block of a group names the blocks that were written into the others.
//! Where these are many, as compressed blocks are, the last two to six blocks do.

use super::Id;
use super::codec::COUNTER_LIMIT;
use super::codec::{Reader, Writer};
use super::page::{BLOCK_GRAINS, CHECKSUM_BITS, PAGE_BYTES, Span};
use super::seal;
use forebay_block::{ClassId, DiskId};

/// Blocks of a group, its summary among them.
pub const GROUP_BLOCKS: u32 = 64;
/// Entries that a page of a summary has room for.
pub const PAGE_ENTRIES: usize = (PAGE_BYTES - HEADER_BYTES) / SummaryEntry::BYTES;
/// Most pages of a summary: for a group of compressed blocks that are as small as there is room to name.
pub const SUMMARY_PAGES_MAX: u32 = 6;
/// Most entries of a summary.
pub const ENTRIES_MAX: usize = PAGE_ENTRIES * SUMMARY_PAGES_MAX as usize;
/// A group has room for the names of at most so many blocks for each of its own, however small they are: a tier of compressed blocks holds at most so
/// many times as much.
pub const PACKED_TIMES_MAX: u64 = ENTRIES_MAX as u64 / (GROUP_BLOCKS as u64 - 1);
/// Most groups whose entries a root carries because their summaries cannot be written to their places.
pub const UNWRITTEN_MAX: usize = 16;
const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 4] = *b"FBBS";

/// How a band is cut into groups. Blocks are counted from the start of the band, summaries among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandShape {
    blocks: u32,
}

impl BandShape {
    /// For bands of this size in bytes.
    #[must_use]
    pub fn new(band_bytes: u64) -> Self {
        Self::of_blocks((band_bytes / PAGE_BYTES as u64) as u32)
    }

    /// For bands of so many blocks.
    #[must_use]
    pub const fn of_blocks(blocks: u32) -> Self {
        Self { blocks }
    }

    /// Blocks of the band, summaries among them.
    #[must_use]
    pub fn blocks(self) -> u32 {
        self.blocks
    }

    /// Grains of the band, summaries among them.
    #[must_use]
    pub fn grains(self) -> u32 {
        self.blocks * BLOCK_GRAINS as u32
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

    /// The last block of a group: its summary, or the first page of that.
    #[must_use]
    pub fn summary_block(self, group: u32) -> u32 {
        self.blocks.min((group + 1) * GROUP_BLOCKS) - 1
    }

    /// Where a summary of `pages` pages begins.
    #[must_use]
    pub fn summary_begin(self, group: u32, pages: u32) -> u32 {
        (self.summary_block(group) + 1).saturating_sub(pages).max(self.first_block(group))
    }

    /// Where the data of a group with so many entries ends at the latest, and its summary begins.
    #[must_use]
    pub fn data_end(self, group: u32, entries: usize) -> u32 {
        self.summary_begin(group, summary_pages(entries))
    }

    /// Grains of data that a group holds at most.
    #[must_use]
    pub fn group_grains(self, group: u32) -> u32 {
        (self.summary_block(group) - self.first_block(group)) * BLOCK_GRAINS as u32
    }

    /// Entries that the summary of a group has at most.
    #[must_use]
    pub fn entries_max(self, group: u32) -> usize {
        ENTRIES_MAX.min((self.summary_block(group) - self.first_block(group)) as usize * PACKED_TIMES_MAX as usize)
    }

    /// Where data that has come to this block goes on: summaries are stepped over.
    #[must_use]
    pub fn skip_summary(self, mut block: u32) -> u32 {
        while block < self.blocks && self.summary_block(self.group_of(block)) == block {
            block += 1;
        }
        block
    }

    /// Where data that has come to this block goes on after a start, on a device that protects rows of `row_blocks` blocks together: at the next row,
    /// so that nothing is written beside data that nobody has looked at since. Not so in the row of the summary's first page, which is written in any
    /// case.
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

/// The block that was written into one place of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryEntry {
    /// Disk; 0 means that nothing known was written here.
    pub disk: DiskId,
    /// Class.
    pub class: ClassId,
    /// What the policy of lifetime groups noted, plus 1; 0: nothing.
    pub note: u8,
    /// Stored length in grains; where the contents are unknown it may be more than a block's.
    pub grains: u16,
    /// Block checksum.
    pub checksum: u32,
    /// Block address.
    pub block: u64,
    /// Orders it among all copies of the block (docs/format.md, "Origins").
    pub origin: u64,
}

impl SummaryEntry {
    /// An entry for grains into which nothing known was written.
    #[must_use]
    pub const fn none(grains: u16) -> Self {
        Self { disk: DiskId(0), class: ClassId(0), note: 0, grains, checksum: 0, block: 0, origin: 0 }
    }

    /// Whether something was written there.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.disk.0 != 0
    }

    /// Where its data lies, from a grain on; an entry without known data has no place.
    #[must_use]
    pub fn span(&self, location: u64) -> Span {
        // An entry longer than a block is no data, and is read as none.
        Span { location, grains: self.grains.min(BLOCK_GRAINS as u16) as u8 }
    }

    /// Bytes of one.
    pub const BYTES: usize = 24;

    /// Appends the entry.
    pub fn put(&self, w: &mut Writer) {
        w.u16(self.disk.0);
        w.u8(self.class.0);
        w.u8(self.note);
        w.u32(self.checksum);
        w.u64(self.block & ((1 << 48) - 1) | u64::from(self.grains) << 48);
        w.u64(self.origin);
    }

    /// Reads an entry; `None` where this format has no such entry.
    pub fn take(r: &mut Reader<'_>) -> Option<Self> {
        let (disk, class, note, checksum) = (DiskId(r.u16()?), ClassId(r.u8()?), r.u8()?, r.u32()?);
        let (place, origin) = (r.u64()?, r.u64()?);
        let (block, grains) = (place & ((1 << 48) - 1), (place >> 48) as u16);
        // What lies between blocks may be longer than one.
        let lengths = if disk.0 == 0 { 1..=u16::MAX } else { 1..=BLOCK_GRAINS as u16 };
        let is_short = disk.0 == 0 || u64::from(grains) == BLOCK_GRAINS || checksum >> CHECKSUM_BITS == 0;
        let is_possible =
            usize::from(class.0) < ClassId::LIMIT && lengths.contains(&grains) && is_short && origin < COUNTER_LIMIT;
        is_possible.then_some(Self { disk, class, note, grains, checksum, block, origin })
    }
}

/// Most open bands: for what hosts write or destages move, and for what garbage collection moves, which is divided further.
const OPEN_MAX: [u64; 2] = [6, 8];
/// Most open bands, of both kinds.
pub const OPEN_ALL_MAX: u64 = OPEN_MAX[0] + OPEN_MAX[1];

/// Most bands that streams of one kind have open, in a pool of `bands` bands. Each open band is space that other streams cannot use: few bands, few
/// streams.
#[must_use]
pub fn open_max(bands: u64, collecting: bool) -> u64 {
    (bands / if collecting { 16 } else { 8 }).clamp(1, OPEN_MAX[usize::from(collecting)])
}

/// Most bytes that the entries of incomplete groups take in a root, with `more_bytes` more for each, in a pool of so many bands of this shape.
#[must_use]
pub fn open_groups_bytes_max(bands: u64, shape: BandShape, more_bytes: u64) -> u64 {
    let open = open_max(bands, false) + open_max(bands, true);
    let data_blocks = u64::from(shape.blocks().min(GROUP_BLOCKS)).saturating_sub(1);
    // As many entries as there can be compressed blocks, and one for the unknown space behind them.
    let entries = data_blocks * PACKED_TIMES_MAX + 1;
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

/// Pages that the summary of a group with so many entries takes: the last block of the group is the first page, and the others lie before it.
#[must_use]
pub fn summary_pages(entries: usize) -> u32 {
    (entries.div_ceil(PAGE_ENTRIES) as u32).clamp(1, SUMMARY_PAGES_MAX)
}

/// Encodes the summary of a group, written in `epoch`: its pages as they lie, the first one last.
#[must_use]
pub fn encode(pool: &Id, name: SummaryName, epoch: u64, entries: &[SummaryEntry]) -> Vec<u8> {
    let entries = &entries[..entries.len().min(ENTRIES_MAX)];
    let pages = summary_pages(entries.len());
    let mut all = Vec::with_capacity(pages as usize * PAGE_BYTES);
    for number in (0..pages).rev() {
        let mut w = Writer::of_pool(MAGIC, pool);
        w.bytes.reserve_exact(PAGE_BYTES);
        w.u32(name.band);
        w.u32(name.group);
        w.u32(name.generation);
        w.u16(entries.len() as u16);
        w.u16(number as u16);
        w.u64(epoch);
        w.bytes.resize(HEADER_BYTES, 0);
        for entry in entries.iter().skip(number as usize * PAGE_ENTRIES).take(PAGE_ENTRIES) {
            entry.put(&mut w);
        }
        w.bytes.resize(PAGE_BYTES, 0);
        seal(&mut w.bytes);
        all.extend_from_slice(&w.bytes);
    }
    all
}

/// What lies in the place of a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summary {
    /// The entries, the generation of the band in which it was written, and the epoch.
    Whole(Vec<SummaryEntry>, u32, u64),
    /// The summary has more pages than there are bytes.
    Longer {
        /// How many it has.
        pages: u32,
        /// Generation of the band in which it was written.
        generation: u32,
    },
}

impl Summary {
    /// The entries of a whole one.
    #[must_use]
    pub fn whole(self) -> Option<Vec<SummaryEntry>> {
        match self {
            Self::Whole(entries, ..) => Some(entries),
            Self::Longer { .. } => None,
        }
    }

    /// Generation of the band in which it was written.
    #[must_use]
    pub fn generation(&self) -> u32 {
        match self {
            Self::Whole(_, generation, _) | Self::Longer { generation, .. } => *generation,
        }
    }
}

/// The header of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PageHead {
    name: SummaryName,
    entries: u16,
    number: u16,
    epoch: u64,
}

impl PageHead {
    /// The header of a page that is whole and of this pool.
    fn of(pool: &Id, page: &[u8]) -> Option<Self> {
        let mut r = Reader::of_pool(page, MAGIC, pool).filter(|_| page.len() == PAGE_BYTES)?;
        let name = SummaryName { band: r.u32()?, group: r.u32()?, generation: r.u32()? };
        Some(Self { name, entries: r.u16()?, number: r.u16()?, epoch: r.u64()? })
    }
}

/// Decodes the summary of a group, in whatever generation of its band, from bytes that end where the summary does; `None` where they hold no summary of
/// this group, or one with entries for more than `group_grains`.
#[must_use]
pub fn decode_any(pool: &Id, (band, group): (u32, u32), group_grains: u32, bytes: &[u8]) -> Option<Summary> {
    let (_, pages) = bytes.as_rchunks::<PAGE_BYTES>();
    let mut from_last = pages.iter().rev();
    let first = from_last.next()?;
    let head = PageHead::of(pool, first).filter(|head| head.number == 0)?;
    if (head.name.band, head.name.group) != (band, group) || usize::from(head.entries) > ENTRIES_MAX {
        return None;
    }
    let count = summary_pages(head.entries.into());
    // No group has more pages than blocks.
    if u64::from(count) * BLOCK_GRAINS > u64::from(group_grains) + BLOCK_GRAINS {
        return None;
    }
    if pages.len() < count as usize {
        return Some(Summary::Longer { pages: count, generation: head.name.generation });
    }
    let mut bytes = Vec::with_capacity(usize::from(head.entries) * SummaryEntry::BYTES);
    bytes.extend_from_slice(&first[HEADER_BYTES..HEADER_BYTES + PAGE_ENTRIES * SummaryEntry::BYTES]);
    for (number, page) in (1..count as u16).zip(from_last) {
        // All pages must be of one writing: a page of another one describes other data.
        PageHead::of(pool, page).filter(|other| *other == PageHead { number, ..head })?;
        bytes.extend_from_slice(&page[HEADER_BYTES..HEADER_BYTES + PAGE_ENTRIES * SummaryEntry::BYTES]);
    }
    let entries = take_entries(&mut Reader::new(&bytes), head.entries.into(), group_grains)?;
    Some(Summary::Whole(entries, head.name.generation, head.epoch))
}

/// Decodes a summary; `None` where the bytes hold none of this group in this generation, or one with entries for more than `group_grains`.
#[must_use]
pub fn decode(pool: &Id, name: SummaryName, group_grains: u32, bytes: &[u8]) -> Option<Summary> {
    let found = decode_any(pool, (name.band, name.group), group_grains, bytes)?;
    (found.generation() == name.generation).then_some(found)
}

/// Decodes the summary of the group that the bytes name; also returns the epoch in which it was written.
#[must_use]
pub fn decode_named(pool: &Id, shape: BandShape, bytes: &[u8]) -> Option<(SummaryName, u64, Vec<SummaryEntry>)> {
    let name = PageHead::of(pool, bytes.rchunks(PAGE_BYTES).next()?)?.name;
    let grains = (name.group < shape.groups()).then(|| shape.group_grains(name.group))?;
    match decode(pool, name, grains, bytes)? {
        Summary::Whole(entries, _, epoch) => Some((name, epoch, entries)),
        Summary::Longer { .. } => None,
    }
}

/// Reads `count` entries of a group that holds `group_grains`.
pub fn take_entries(r: &mut Reader<'_>, count: usize, group_grains: u32) -> Option<Vec<SummaryEntry>> {
    if count > ENTRIES_MAX {
        return None;
    }
    let mut entries = Vec::with_capacity(count);
    let mut grains = 0;
    for _ in 0..count {
        let entry = SummaryEntry::take(r)?;
        grains += u32::from(entry.grains);
        entries.push(entry);
    }
    (grains <= group_grains).then_some(entries)
}

/// The entries of known data, each with its first grain counted from the start of the group.
pub fn placed(entries: &[SummaryEntry]) -> impl Iterator<Item = (u32, &SummaryEntry)> {
    let places = entries.iter().scan(0, |next, entry| {
        let at = *next;
        *next += u32::from(entry.grains);
        Some((at, entry))
    });
    places.filter(|(_, entry)| entry.is_known())
}

#[cfg(test)]
#[path = "band_summary_tests.rs"]
mod tests;
