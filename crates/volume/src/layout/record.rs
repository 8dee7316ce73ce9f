//! The records of the journal: what happened to blocks, one after the other.

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
/// Where the lifetime of a write begins in the word of its location, which needs fewer bits (`SECTORS_MAX`).
const LIFETIME_SHIFT: u32 = 48;

/// A block that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its disk.
    pub disk: DiskId,
    /// Its address.
    pub block: u64,
    /// Where it was, first sector.
    pub source: u64,
    /// Stored length in sectors.
    pub sectors: u8,
    /// Orders it among all copies of the block (docs/format.md, "Origins").
    pub origin: u64,
    /// Its block checksum.
    pub checksum: u32,
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

    /// Bytes of one in a record.
    pub const BYTES: usize = 32;

    fn put(&self, out: &mut Writer) {
        out.u64(u64::from(self.disk.0) << 48 | self.block);
        out.u64(Span { location: self.source, sectors: self.sectors }.pack());
        out.u64(self.origin);
        out.u32(self.checksum);
        out.u8(self.class.0);
        out.u8(self.note);
        out.u16(0);
    }

    fn take_list(r: &mut Reader<'_>, count: u32) -> Option<Vec<Self>> {
        if !(1..=MOVED_MAX as u32).contains(&count) {
            return None;
        }
        let mut list = Reader::new(r.take(count as usize * Self::BYTES)?);
        let mut blocks = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let address = list.u64()?;
            let span = Span::unpack(list.u64()?)?;
            let moved = Self {
                disk: DiskId((address >> 48) as u16),
                block: address & (BLOCKS_MAX - 1),
                source: span.location,
                sectors: span.sectors,
                origin: list.u64()?,
                checksum: list.u32()?,
                class: ClassId(list.u8()?),
                note: list.u8()?,
            };
            list.u16()?;
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
        /// One checksum per block.
        checksums: Vec<u32>,
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
        let is_possible = kind == 1 || lifetime == Lifetime::default();
        (is_possible && usize::from(class) < ClassId::LIMIT && head.end_sector()? <= SECTORS_MAX).then_some(head)
    }

    /// Behind the last sector of whole blocks from the location on.
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
pub fn put_write(out: &mut Writer, disk: DiskId, block: u64, class: ClassId, target: Target, checksums: &[u32]) {
    let Target { location, generation, lifetime } = target;
    let blocks = checksums.len() as u32;
    Head { kind: 1, class: class.0, disk: disk.0, blocks, generation, block, location, lifetime }.put(out);
    for checksum in checksums {
        out.u32(*checksum);
    }
}

/// Size in bytes of a write record of `blocks` blocks.
#[must_use]
pub fn write_bytes(blocks: usize) -> usize {
    RECORD_BYTES + 4 * blocks
}

/// Size in bytes of a move record of `blocks` blocks.
#[must_use]
pub fn move_bytes(blocks: usize) -> usize {
    RECORD_BYTES + Moved::BYTES * blocks
}

impl Record {
    /// Location and number of the blocks that it says were written.
    #[must_use]
    pub fn data(&self) -> Option<(u64, usize)> {
        match self {
            Self::Write { location, checksums, .. } => Some((*location, checksums.len())),
            Self::Move { location, moved, .. } => Some((*location, moved.len())),
            _ => None,
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
            Self::Write { disk, block, class, location, generation, lifetime, checksums } => {
                let target = Target { location: *location, generation: *generation, lifetime: *lifetime };
                put_write(out, *disk, *block, *class, target, checksums);
            }
            Self::Zero { disk, block, blocks } => run(2, disk, block, blocks).put(out),
            Self::Discard { disk, block, blocks } => run(3, disk, block, blocks).put(out),
            Self::Move { stream, location, generation, moved } => {
                let (blocks, disk) = (moved.len() as u32, u16::from_le_bytes(stream.to_bytes()));
                let (location, generation) = (*location, *generation);
                Head { kind: 4, disk, blocks, generation, location, ..Head::default() }.put(out);
                moved.iter().for_each(|block| block.put(out));
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
            1 => {
                let (disk, block, blocks) = head.run()?;
                let mut sums = Reader::new(r.take(blocks as usize * 4)?);
                let checksums = (0..blocks).map_while(|_| sums.u32()).collect();
                Self::Write { disk, block, class: ClassId(head.class), location, generation, lifetime, checksums }
            }
            2 => {
                let (disk, block, blocks) = head.run()?;
                Self::Zero { disk, block, blocks }
            }
            3 => {
                let (disk, block, blocks) = head.run()?;
                Self::Discard { disk, block, blocks }
            }
            4 => {
                let stream = Stream::from_bytes(head.disk.to_le_bytes())?;
                Self::Move { stream, location, generation, moved: Moved::take_list(r, head.blocks)? }
            }
            5 if head.blocks == 0 && head.block < COUNTER_LIMIT => Self::Cancel { sequence: head.block },
            6 => Self::Damage { blocks: Moved::take_list(r, head.blocks)? },
            7 => {
                let (disk, block, blocks) = head.run()?;
                Self::Reclass { disk, block, blocks, class: ClassId(head.class) }
            }
            _ => return None,
        })
    }
}
