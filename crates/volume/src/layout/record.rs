//! The records of the journal: what happened to blocks, one after the other.

use super::codec::{COUNTER_LIMIT, Reader, Writer};
use super::moved::{BLOCKS_MAX, Moved, destinations, is_packed};
use super::page::{BLOCK_GRAINS, GRAINS_MAX, LEAF_ENTRIES};
use super::stored::{Stored, places};
use super::stream::{Lifetime, Stream};
use forebay_block::{ClassId, DiskId};

/// Size of the fixed part of a record in bytes.
pub const RECORD_BYTES: usize = 24;
/// Record of blocks that moved and are stored otherwise than before.
const KIND_PACKED_MOVE: u8 = 8;
/// Record of blocks that were written, some of them compressed.
const KIND_PACKED_WRITE: u8 = 9;
/// Position of a write's lifetime in the word of its location, which needs fewer bits (`SECTORS_MAX`).
const LIFETIME_SHIFT: u32 = 48;

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
        /// First grain.
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
        /// First grain of the destination.
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
    /// Blocks were found damaged where they lay; a block that was written since is not affected.
    Damage {
        /// The blocks, with the place and the checksum by which they were looked for.
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
    /// Lifetime, in bits that the location does not need.
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
        (is_possible && usize::from(class) < ClassId::LIMIT && location <= GRAINS_MAX).then_some(head)
    }

    /// The run of blocks, where a record can change such a run: it lies within one leaf.
    fn run(&self) -> Option<(DiskId, u64, u32)> {
        let leaf = LEAF_ENTRIES as u64;
        let fits = self.blocks > 0 && self.block < BLOCKS_MAX && self.block % leaf + u64::from(self.blocks) <= leaf;
        fits.then_some((DiskId(self.disk), self.block, self.blocks))
    }
}

/// Where the data of a write record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// First grain.
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

impl Record {
    /// Where the record says that data was written: first grain, and number of grains.
    #[must_use]
    pub fn data(&self) -> Option<(u64, u64)> {
        match self {
            Self::Write { location, stored, .. } => {
                Some((*location, stored.iter().map(|stored| u64::from(stored.grains)).sum()))
            }
            Self::Move { location, moved, .. } => {
                Some((*location, moved.iter().map(|moved| u64::from(moved.stored.grains)).sum()))
            }
            _ => None,
        }
    }

    /// Whether some of the data that it wrote is compressed.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        match self {
            Self::Write { stored, .. } => stored.iter().any(|stored| !stored.is_whole()),
            Self::Move { moved, .. } => moved.iter().any(|moved| !moved.stored.is_whole()),
            _ => false,
        }
    }

    /// Whether blocks that are stored as they are begin where a block of a device does, as they must.
    #[must_use]
    pub fn is_aligned(&self) -> bool {
        let is_aligned = |location: u64| location.is_multiple_of(BLOCK_GRAINS);
        match self {
            // All data of a write is written in one request.
            Self::Write { location, stored, .. } => {
                let mut whole = places(*location, stored).filter(|(span, _)| span.is_whole());
                is_aligned(*location) && whole.all(|(span, _)| is_aligned(span.location))
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

    /// Reads a record; `None` where this format has no such record. Lengths are bounded, so that no record can make replay do more than a leaf's worth
    /// of work.
    pub(super) fn take(r: &mut Reader<'_>) -> Option<Self> {
        let head = Head::take(r)?;
        let Head { generation, location, lifetime, .. } = head;
        let record = match head.kind {
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
        };
        let end = record.data().map_or(0, |(location, grains)| location.saturating_add(grains));
        (end <= GRAINS_MAX).then_some(record)
    }
}
