//! Journal batches and the records in them.

use super::Id;
use super::codec::{Reader, Writer};
use super::{is_sealed, seal};
use forebay_block::{ClassId, DiskId};

/// Size of a batch header in bytes.
pub const HEADER_BYTES: usize = 96;
/// Largest batch in bytes.
pub const BATCH_MAX_BYTES: usize = 65536;
/// Magic of a batch.
pub const MAGIC: [u8; 4] = *b"FBJB";
/// Batches above the watermark that a header can name as durable.
pub const EXCEPTIONS: u64 = 64;

/// The header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Length in bytes, a multiple of the journal sector.
    pub len_bytes: u32,
    /// Number of records.
    pub records: u16,
    /// Shard that wrote it.
    pub shard: u16,
    /// Epoch.
    pub epoch: u64,
    /// Position in the journal.
    pub position: u64,
    /// Number of this batch; consecutive.
    pub batch: u64,
    /// All batches up to this one were durable when the header was written.
    pub durable: u64,
    /// Bit i: batch `durable + 2 + i` was durable too.
    pub exceptions: u64,
    /// Last checkpoint whose root is durable.
    pub checkpoint: u64,
    /// Sequence of the first record.
    pub first_sequence: u64,
}

/// A block that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its disk.
    pub disk: DiskId,
    /// Its address.
    pub block: u64,
    /// Where it was, first sector.
    pub source: u64,
    /// Its block checksum.
    pub checksum: u32,
}

impl Moved {
    /// Disk and number of the map leaf that the block is mapped through.
    #[must_use]
    pub fn leaf(&self) -> (DiskId, u64) {
        (self.disk, self.block / super::page::LEAF_ENTRIES as u64)
    }

    /// Bytes of one in a record.
    const BYTES: usize = 20;

    fn put(&self, out: &mut Writer) {
        out.u64(u64::from(self.disk.0) << 48 | self.block);
        out.u64(self.source);
        out.u32(self.checksum);
    }

    fn take_list(r: &mut Reader<'_>, count: u32) -> Option<Vec<Self>> {
        // Bounded by what is there: a length from a hostile medium must not size an allocation.
        let mut list = Reader::new(r.take((count as usize).checked_mul(Self::BYTES)?)?);
        let mut blocks = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let address = list.u64()?;
            blocks.push(Self {
                disk: DiskId((address >> 48) as u16),
                block: address & ((1 << 48) - 1),
                source: list.u64()?,
                checksum: list.u32()?,
            });
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
        /// Class.
        class: ClassId,
        /// First sector of the destination.
        location: u64,
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

/// Appends the fixed part of a record.
fn head(out: &mut Writer, kind: u8, class: u8, disk: u16, blocks: u32, block: u64, location: u64) {
    out.u8(kind);
    out.u8(class);
    out.u16(disk);
    out.u32(blocks);
    out.u64(block);
    out.u64(location);
}

/// Appends a write record without building a [`Record`] (the data path).
pub fn put_write(out: &mut Writer, disk: DiskId, block: u64, class: ClassId, location: u64, checksums: &[u32]) {
    head(out, 1, class.0, disk.0, checksums.len() as u32, block, location);
    for checksum in checksums {
        out.u32(*checksum);
    }
}

/// Size in bytes of a write record of `blocks` blocks.
#[must_use]
pub fn write_bytes(blocks: usize) -> usize {
    24 + 4 * blocks
}

/// Size in bytes of a move record of `blocks` blocks.
#[must_use]
pub fn move_bytes(blocks: usize) -> usize {
    24 + Moved::BYTES * blocks
}

impl Record {
    /// Appends the record.
    pub fn put(&self, out: &mut Writer) {
        match self {
            Self::Write { disk, block, class, location, checksums } => {
                put_write(out, *disk, *block, *class, *location, checksums);
            }
            Self::Zero { disk, block, blocks } => head(out, 2, 0, disk.0, *blocks, *block, 0),
            Self::Discard { disk, block, blocks } => head(out, 3, 0, disk.0, *blocks, *block, 0),
            Self::Move { class, location, moved } => {
                head(out, 4, class.0, 0, moved.len() as u32, 0, *location);
                moved.iter().for_each(|block| block.put(out));
            }
            Self::Cancel { sequence } => head(out, 5, 0, 0, 0, *sequence, 0),
            Self::Damage { blocks } => {
                head(out, 6, 0, 0, blocks.len() as u32, 0, 0);
                blocks.iter().for_each(|block| block.put(out));
            }
            Self::Reclass { disk, block, blocks, class } => head(out, 7, class.0, disk.0, *blocks, *block, 0),
        }
    }

    fn take(r: &mut Reader<'_>) -> Option<Self> {
        let (kind, class, disk, blocks) = (r.u8()?, ClassId(r.u8()?), DiskId(r.u16()?), r.u32()?);
        let (block, location) = (r.u64()?, r.u64()?);
        if usize::from(class.0) >= ClassId::LIMIT {
            return None;
        }
        Some(match kind {
            1 => {
                // Bounded by what is there: a length from a hostile medium must not size an allocation.
                let mut sums = Reader::new(r.take((blocks as usize).checked_mul(4)?)?);
                let checksums = (0..blocks).map_while(|_| sums.u32()).collect();
                Self::Write { disk, block, class, location, checksums }
            }
            2 => Self::Zero { disk, block, blocks },
            3 => Self::Discard { disk, block, blocks },
            4 => Self::Move { class, location, moved: Moved::take_list(r, blocks)? },
            5 => Self::Cancel { sequence: block },
            6 => Self::Damage { blocks: Moved::take_list(r, blocks)? },
            7 => Self::Reclass { disk, block, blocks, class },
            _ => return None,
        })
    }
}

/// Completes a batch in place: `bytes` starts with [`HEADER_BYTES`] reserved bytes, then the records, padded to
/// `header.len_bytes`.
pub fn seal_batch(bytes: &mut [u8], header: &BatchHeader, pool: &Id) {
    let mut w = Writer::default();
    w.bytes.reserve_exact(HEADER_BYTES);
    w.bytes.extend_from_slice(&MAGIC);
    w.u32(0);
    w.u32(header.len_bytes);
    w.u16(header.records);
    w.u16(header.shard);
    w.bytes.extend_from_slice(pool);
    for field in [
        header.epoch,
        header.position,
        header.batch,
        header.durable,
        header.exceptions,
        header.checkpoint,
        header.first_sequence,
        0,
    ] {
        w.u64(field);
    }
    bytes[..HEADER_BYTES].copy_from_slice(&w.bytes);
    seal(bytes);
}

/// Reads a header without its CRC: enough to know how long the batch would be.
#[must_use]
pub fn peek(bytes: &[u8], pool: &Id) -> Option<BatchHeader> {
    let mut r = Reader::new(bytes);
    if r.take(4)? != MAGIC {
        return None;
    }
    r.u32()?;
    let (len_bytes, records, shard) = (r.u32()?, r.u16()?, r.u16()?);
    if r.id()? != *pool || (len_bytes as usize) < HEADER_BYTES || len_bytes as usize > BATCH_MAX_BYTES {
        return None;
    }
    Some(BatchHeader {
        len_bytes,
        records,
        shard,
        epoch: r.u64()?,
        position: r.u64()?,
        batch: r.u64()?,
        durable: r.u64()?,
        exceptions: r.u64()?,
        checkpoint: r.u64()?,
        first_sequence: r.u64()?,
    })
}

/// Decodes a whole batch; `None` where header, CRC or a record is wrong.
#[must_use]
pub fn decode_batch(bytes: &[u8], pool: &Id) -> Option<(BatchHeader, Vec<Record>)> {
    let header = peek(bytes, pool)?;
    let bytes = bytes.get(..header.len_bytes as usize)?;
    if !is_sealed(bytes, MAGIC) {
        return None;
    }
    let mut r = Reader::new(&bytes[HEADER_BYTES..]);
    let mut records = Vec::with_capacity(usize::from(header.records));
    for _ in 0..header.records {
        records.push(Record::take(&mut r)?);
    }
    Some((header, records))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_round_trip_and_notice_every_flipped_bit() {
        let records = vec![
            Record::Write { disk: DiskId(1), block: 7, class: ClassId(2), location: 64, checksums: vec![1, 2] },
            Record::Zero { disk: DiskId(1), block: 9, blocks: 3 },
            Record::Discard { disk: DiskId(2), block: 1 << 40, blocks: 400 },
            Record::Move {
                class: ClassId(1),
                location: 1 << 30,
                moved: vec![Moved { disk: DiskId(65535), block: (1 << 48) - 1, source: 8, checksum: 5 }],
            },
            Record::Cancel { sequence: 77 },
            Record::Damage { blocks: vec![Moved { disk: DiskId(1), block: 2, source: 64, checksum: 9 }] },
            Record::Reclass { disk: DiskId(1), block: 5, blocks: 9, class: ClassId(6) },
        ];
        let mut w = Writer::default();
        w.bytes.resize(HEADER_BYTES, 0);
        for record in &records {
            record.put(&mut w);
        }
        w.bytes.resize(512, 0);
        let header = BatchHeader {
            len_bytes: 512,
            records: 7,
            shard: 0,
            epoch: 3,
            position: 1024,
            batch: 9,
            durable: 8,
            exceptions: 1,
            checkpoint: 4,
            first_sequence: 100,
        };
        seal_batch(&mut w.bytes, &header, &[7; 16]);
        assert_eq!(decode_batch(&w.bytes, &[7; 16]), Some((header, records)));
        assert!(decode_batch(&w.bytes, &[8; 16]).is_none());
        for bit in 0..512 * 8 {
            w.bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_batch(&w.bytes, &[7; 16]).is_none(), "bit {bit}");
            w.bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
