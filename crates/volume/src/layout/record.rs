//! The records of the journal: what happened to blocks, one after the other.

use super::band_summary::SummaryEntry;
use super::codec::{COUNTER_LIMIT, Reader, Writer};
use super::page::{BLOCK_SECTORS, LEAF_ENTRIES, SECTORS_MAX, Span};
use super::stream::{Lifetime, Stream};
use forebay_block::{ClassId, DiskId};

/// Blocks that a record can move at most, or find damaged.
pub const MOVED_MAX: usize = 128;
/// Size of the fixed part of a record in bytes.
pub const RECORD_BYTES: usize = 24;
/// Block numbers are below this.
const BLOCKS_MAX: u64 = 1 << 48;
/// A record of blocks that moved and are stored in another way than they were.
const KIND_PACKED_MOVE: u8 = 8;
/// A record of blocks that were written and of which some are compressed.
const KIND_PACKED_WRITE: u8 = 9;
/// Where the lifetime of a write begins in the word of its location, which needs fewer bits (`SECTORS_MAX`).
const LIFETIME_SHIFT: u32 = 48;

/// How a block is stored: what of that differs between places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Stored length in sectors.
    pub sectors: u8,
    /// Block checksum, which is of the stored bytes.
    pub checksum: u32,
}

impl Stored {
    /// Bytes of one in a record.
    const BYTES: usize = 8;

    /// Of a block that is stored as it is.
    #[must_use]
    pub fn whole(checksum: u32) -> Self {
        Self { sectors: BLOCK_SECTORS as u8, checksum }
    }

    /// Whether the block is stored as it is.
    #[must_use]
    pub fn is_whole(self) -> bool {
        u64::from(self.sectors) == BLOCK_SECTORS
    }

    fn put(self, out: &mut Writer) {
        out.u32(self.checksum);
        out.u8(self.sectors);
        out.u8(0);
        out.u16(0);
    }

    fn take(r: &mut Reader<'_>) -> Option<Self> {
        let stored = Self { checksum: r.u32()?, sectors: r.u8()? };
        r.take(3)?;
        (1..=BLOCK_SECTORS as u8).contains(&stored.sectors).then_some(stored)
    }
}

/// Places of blocks that are stored one behind the other from a location on.
pub fn places(location: u64, stored: &[Stored]) -> impl Iterator<Item = (Span, Stored)> {
    stored.iter().scan(location, |next, stored| {
        let span = Span { location: *next, sectors: stored.sectors };
        *next = span.end();
        Some((span, *stored))
    })
}

/// A block that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its disk.
    pub disk: DiskId,
    /// Its address.
    pub block: u64,
    /// Where it was.
    pub source: Span,
    /// Orders it among all copies of the block (docs/format.md, "Origins").
    pub origin: u64,
    /// Its block checksum there.
    pub checksum: u32,
    /// How it is stored where it goes.
    pub stored: Stored,
    /// Its class.
    pub class: ClassId,
    /// What the policy of lifetime groups noted, plus 1; 0: nothing.
    pub note: u8,
}

impl Moved {
    /// Disk and number of the map leaf that the block is mapped through.
    #[must_use]
    pub fn leaf(&self) -> (DiskId, u64) {
        (self.disk, self.block / LEAF_ENTRIES as u64)
    }

    /// Bytes of one in a record that stores blocks as they were.
    pub const BYTES: usize = 32;

    /// How it was stored where it was.
    #[must_use]
    pub fn as_it_was(&self) -> Stored {
        Stored { sectors: self.source.sectors, checksum: self.checksum }
    }

    /// The entry of the summary where it goes.
    #[must_use]
    pub fn summary_entry(&self) -> SummaryEntry {
        let Self { disk, block, origin, class, note, stored: Stored { sectors, checksum }, .. } = *self;
        SummaryEntry { disk, class, note, sectors, checksum, block, origin }
    }

    fn put(&self, out: &mut Writer) {
        out.u64(u64::from(self.disk.0) << 48 | self.block);
        out.u64(self.source.pack());
        out.u64(self.origin);
        out.u32(self.checksum);
        out.u8(self.class.0);
        out.u8(self.note);
        out.u16(0);
    }

    fn take_list(r: &mut Reader<'_>, count: u32, is_packed: bool) -> Option<Vec<Self>> {
        if !(1..=MOVED_MAX as u32).contains(&count) {
            return None;
        }
        let bytes_each = Self::BYTES + if is_packed { Stored::BYTES } else { 0 };
        let mut list = Reader::new(r.take(count as usize * bytes_each)?);
        let mut blocks = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let address = list.u64()?;
            let span = Span::unpack(list.u64()?)?;
            let (origin, checksum, class, note) = (list.u64()?, list.u32()?, ClassId(list.u8()?), list.u8()?);
            list.u16()?;
            let as_it_was = Stored { sectors: span.sectors, checksum };
            let stored = if is_packed { Stored::take(&mut list)? } else { as_it_was };
            let moved = Self {
                disk: DiskId((address >> 48) as u16),
                block: address & (BLOCKS_MAX - 1),
                source: span,
                origin,
                checksum,
                stored,
                class,
                note,
            };
            if usize::from(moved.class.0) >= ClassId::LIMIT || moved.origin >= COUNTER_LIMIT {
                return None;
            }
            blocks.push(moved);
        }
        Some(blocks)
    }
}

/// A journal record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A run of blocks has new data at a location.
    Write {
        /// Disk.
        disk: DiskId,
        /// First block.
        block: u64,
        /// Class.
        class: ClassId,
        /// First sector.
        location: u64,
        /// Low bits of the generation of the band that it lies in; 0 on the fast tier.
        generation: u16,
        /// Lifetime of the data; nothing on the fast tier.
        lifetime: Lifetime,
        /// How each block is stored, in the order of their places.
        stored: Vec<Stored>,
    },
    /// A run reads as zeros.
    Zero {
        /// Disk.
        disk: DiskId,
        /// First block.
        block: u64,
        /// Blocks.
        blocks: u32,
    },
    /// A run is unmapped.
    Discard {
        /// Disk.
        disk: DiskId,
        /// First block.
        block: u64,
        /// Blocks.
        blocks: u32,
    },
    /// Blocks moved to a run at a location.
    Move {
        /// Stream that asked for the destination.
        stream: Stream,
        /// First sector of the destination.
        location: u64,
        /// Low bits of the generation of the band that it lies in.
        generation: u16,
        /// The blocks, in the order of the destination.
        moved: Vec<Moved>,
    },
    /// A sequence that never took effect.
    Cancel {
        /// The sequence.
        sequence: u64,
    },
    /// Blocks keep their data and get another class.
    Reclass {
        /// Disk.
        disk: DiskId,
        /// First block.
        block: u64,
        /// Blocks.
        blocks: u32,
        /// The class.
        class: ClassId,
    },
    /// Blocks found damaged where they lay; one that was written since is none of them.
    Damage {
        /// The blocks, with the place and the checksum that they were looked for with.
        blocks: Vec<Moved>,
    },
}

/// The fixed part of a record.
#[derive(Clone, Copy, Default)]
struct Head {
    kind: u8,
    class: u8,
    disk: u16,
    blocks: u32,
    generation: u16,
    block: u64,
    location: u64,
    /// Lifetime, in the bits of the location that none needs.
    lifetime: Lifetime,
}

impl Head {
    fn put(self, out: &mut Writer) {
        out.u8(self.kind);
        out.u8(self.class);
        out.u16(self.disk);
        out.u16(self.blocks as u16);
        out.u16(self.generation);
        out.u64(self.block);
        out.u64(self.location | u64::from(u16::from_le_bytes(self.lifetime.to_bytes())) << LIFETIME_SHIFT);
    }

    fn take(r: &mut Reader<'_>) -> Option<Self> {
        let (kind, class, disk) = (r.u8()?, r.u8()?, r.u16()?);
        let (blocks, generation) = (u32::from(r.u16()?), r.u16()?);
        let (block, place) = (r.u64()?, r.u64()?);
        let lifetime = Lifetime::from_bytes(((place >> LIFETIME_SHIFT) as u16).to_le_bytes())?;
        let location = place & ((1 << LIFETIME_SHIFT) - 1);
        let head = Self { kind, class, disk, blocks, generation, block, location, lifetime };
        let is_possible = matches!(kind, 1 | KIND_PACKED_WRITE) || lifetime == Lifetime::default();
        (is_possible && usize::from(class) < ClassId::LIMIT && head.end_sector()? <= SECTORS_MAX).then_some(head)
    }

    /// Behind the last sector of blocks from the location on, as if they were whole.
    fn end_sector(&self) -> Option<u64> {
        self.location.checked_add(u64::from(self.blocks) * BLOCK_SECTORS)
    }

    /// The run of blocks, where it is one that a record can change: within one leaf.
    fn run(&self) -> Option<(DiskId, u64, u32)> {
        let leaf = LEAF_ENTRIES as u64;
        let fits = self.blocks > 0 && self.block < BLOCKS_MAX && self.block % leaf + u64::from(self.blocks) <= leaf;
        fits.then_some((DiskId(self.disk), self.block, self.blocks))
    }
}

/// Where a write record says its data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// First sector.
    pub location: u64,
    /// Low bits of the generation of the band there; 0 on the fast tier.
    pub generation: u16,
    /// Lifetime of the data; nothing on the fast tier.
    pub lifetime: Lifetime,
}

/// Appends a write record without building a [`Record`] (the data path).
pub fn put_write(
    out: &mut Writer,
    (disk, block, class): (DiskId, u64, ClassId),
    target: Target,
    stored: impl ExactSizeIterator<Item = Stored> + Clone,
) {
    let Target { location, generation, lifetime } = target;
    let blocks = stored.len() as u32;
    let is_packed = stored.clone().any(|stored| !stored.is_whole());
    let kind = if is_packed { KIND_PACKED_WRITE } else { 1 };
    Head { kind, class: class.0, disk: disk.0, blocks, generation, block, location, lifetime }.put(out);
    for one in stored {
        if is_packed {
            one.put(out);
        } else {
            out.u32(one.checksum);
        }
    }
}

/// Size in bytes of a write record of `blocks` blocks that are stored as they are.
#[must_use]
pub fn write_bytes(blocks: usize) -> usize {
    RECORD_BYTES + 4 * blocks
}

/// Size in bytes of a write record of `blocks` blocks of which some are compressed.
#[must_use]
pub fn packed_write_bytes(blocks: usize) -> usize {
    RECORD_BYTES + Stored::BYTES * blocks
}

/// Size in bytes of the largest record of `blocks` blocks that move.
#[must_use]
pub fn move_bytes(blocks: usize) -> usize {
    RECORD_BYTES + (Moved::BYTES + Stored::BYTES) * blocks
}

/// Blocks that move to a run which begins at a location, each with where it goes.
pub fn destinations(location: u64, moved: &[Moved]) -> impl Iterator<Item = (u64, &Moved)> {
    moved.iter().scan(location, |next, moved| {
        let at = *next;
        *next += u64::from(moved.stored.sectors);
        Some((at, moved))
    })
}

/// Whether some of these are stored in another way than they were.
fn is_packed(moved: &[Moved]) -> bool {
    moved.iter().any(|moved| moved.stored != moved.as_it_was())
}

impl Record {
    /// Where it says that blocks were written: the first sector, and how many.
    #[must_use]
    pub fn data(&self) -> Option<(u64, u64)> {
        match self {
            Self::Write { location, stored, .. } => {
                Some((*location, stored.iter().map(|stored| u64::from(stored.sectors)).sum()))
            }
            Self::Move { location, moved, .. } => {
                Some((*location, moved.iter().map(|moved| u64::from(moved.stored.sectors)).sum()))
            }
            _ => None,
        }
    }

    /// Whether blocks that are stored as they are begin where a block of a device does, as they must.
    #[must_use]
    pub fn is_aligned(&self) -> bool {
        let is_aligned = |location: u64| location.is_multiple_of(BLOCK_SECTORS);
        match self {
            Self::Write { location, stored, .. } => {
                places(*location, stored).filter(|(span, _)| span.is_whole()).all(|(span, _)| is_aligned(span.location))
            }
            Self::Move { location, moved, .. } => {
                let whole = |(_, moved): &(u64, &Moved)| moved.stored.is_whole();
                destinations(*location, moved).filter(whole).all(|(at, _)| is_aligned(at))
            }
            _ => true,
        }
    }

    /// Appends the record.
    pub fn put(&self, out: &mut Writer) {
        let run = |kind: u8, disk: &DiskId, block: &u64, blocks: &u32| Head {
            kind,
            disk: disk.0,
            blocks: *blocks,
            block: *block,
            ..Head::default()
        };
        match self {
            Self::Write { disk, block, class, location, generation, lifetime, stored } => {
                let target = Target { location: *location, generation: *generation, lifetime: *lifetime };
                put_write(out, (*disk, *block, *class), target, stored.iter().copied());
            }
            Self::Zero { disk, block, blocks } => run(2, disk, block, blocks).put(out),
            Self::Discard { disk, block, blocks } => run(3, disk, block, blocks).put(out),
            Self::Move { stream, location, generation, moved } => {
                let (blocks, disk) = (moved.len() as u32, u16::from_le_bytes(stream.to_bytes()));
                let (location, generation) = (*location, *generation);
                let is_packed = is_packed(moved);
                let kind = if is_packed { KIND_PACKED_MOVE } else { 4 };
                Head { kind, disk, blocks, generation, location, ..Head::default() }.put(out);
                for block in moved {
                    block.put(out);
                    if is_packed {
                        block.stored.put(out);
                    }
                }
            }
            Self::Cancel { sequence } => Head { kind: 5, block: *sequence, ..Head::default() }.put(out),
            Self::Damage { blocks } => {
                Head { kind: 6, blocks: blocks.len() as u32, ..Head::default() }.put(out);
                blocks.iter().for_each(|block| block.put(out));
            }
            Self::Reclass { disk, block, blocks, class } => {
                Head { class: class.0, ..run(7, disk, block, blocks) }.put(out);
            }
        }
    }

    /// Reads a record; `None` where it is none that this format has. Lengths are bounded, so that no record can make
    /// replay do more than a leaf's worth of work.
    pub(super) fn take(r: &mut Reader<'_>) -> Option<Self> {
        let head = Head::take(r)?;
        let Head { generation, location, lifetime, .. } = head;
        Some(match head.kind {
            kind @ (1 | KIND_PACKED_WRITE) => {
                let (disk, block, blocks) = head.run()?;
                let stored: Option<Vec<Stored>> = if kind == KIND_PACKED_WRITE {
                    (0..blocks).map(|_| Stored::take(r)).collect()
                } else {
                    (0..blocks).map(|_| r.u32().map(Stored::whole)).collect()
                };
                let (class, stored) = (ClassId(head.class), stored?);
                Self::Write { disk, block, class, location, generation, lifetime, stored }
            }
            2 => {
                let (disk, block, blocks) = head.run()?;
                Self::Zero { disk, block, blocks }
            }
            3 => {
                let (disk, block, blocks) = head.run()?;
                Self::Discard { disk, block, blocks }
            }
            kind @ (4 | KIND_PACKED_MOVE) => {
                let stream = Stream::from_bytes(head.disk.to_le_bytes())?;
                let moved = Moved::take_list(r, head.blocks, kind == KIND_PACKED_MOVE)?;
                Self::Move { stream, location, generation, moved }
            }
            5 if head.blocks == 0 && head.block < COUNTER_LIMIT => Self::Cancel { sequence: head.block },
            6 => Self::Damage { blocks: Moved::take_list(r, head.blocks, false)? },
            7 => {
                let (disk, block, blocks) = head.run()?;
                Self::Reclass { disk, block, blocks, class: ClassId(head.class) }
            }
            _ => return None,
        })
    }
}
