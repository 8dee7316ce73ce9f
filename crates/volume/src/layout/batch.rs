//! Journal batches and the records in them.

use super::Id;
use super::codec::COUNTER_LIMIT;
use super::codec::{Reader, Writer};
use super::page::{BLOCK_SECTORS, LEAF_ENTRIES, SECTORS_MAX, Span};
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
/// Blocks that a record can move at most, or find damaged.
pub const MOVED_MAX: usize = 128;
/// Size of the fixed part of a record in bytes.
pub const RECORD_BYTES: usize = 24;
/// Block numbers are below this.
const BLOCKS_MAX: u64 = 1 << 48;

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
    /// Stored length in sectors.
    pub sectors: u8,
    /// Orders it among all copies of the block (docs/format.md, "Origins").
    pub origin: u64,
    /// Its block checksum.
    pub checksum: u32,
    /// Its class.
    pub class: ClassId,
    /// Its lifetime group.
    pub group: u8,
}

impl Moved {
    /// Disk and number of the map leaf that the block is mapped through.
    #[must_use]
    pub fn leaf(&self) -> (DiskId, u64) {
        (self.disk, self.block / super::page::LEAF_ENTRIES as u64)
    }

    /// Bytes of one in a record.
    pub const BYTES: usize = 32;

    fn put(&self, out: &mut Writer) {
        out.u64(u64::from(self.disk.0) << 48 | self.block);
        out.u64(Span { location: self.source, sectors: self.sectors }.pack());
        out.u64(self.origin);
        out.u32(self.checksum);
        out.u8(self.class.0);
        out.u8(self.group);
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
                group: list.u8()?,
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
        stream: u8,
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
}

impl Head {
    fn put(self, out: &mut Writer) {
        out.u8(self.kind);
        out.u8(self.class);
        out.u16(self.disk);
        out.u16(self.blocks as u16);
        out.u16(self.generation);
        out.u64(self.block);
        out.u64(self.location);
    }

    fn take(r: &mut Reader<'_>) -> Option<Self> {
        let (kind, class, disk) = (r.u8()?, r.u8()?, r.u16()?);
        let (blocks, generation) = (u32::from(r.u16()?), r.u16()?);
        let head = Self { kind, class, disk, blocks, generation, block: r.u64()?, location: r.u64()? };
        (usize::from(class) < ClassId::LIMIT && head.end_sector()? <= SECTORS_MAX).then_some(head)
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
}

/// Appends a write record without building a [`Record`] (the data path).
pub fn put_write(out: &mut Writer, disk: DiskId, block: u64, class: ClassId, target: Target, checksums: &[u32]) {
    let Target { location, generation } = target;
    let blocks = checksums.len() as u32;
    Head { kind: 1, class: class.0, disk: disk.0, blocks, generation, block, location }.put(out);
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
            Self::Write { disk, block, class, location, generation, checksums } => {
                let target = Target { location: *location, generation: *generation };
                put_write(out, *disk, *block, *class, target, checksums);
            }
            Self::Zero { disk, block, blocks } => run(2, disk, block, blocks).put(out),
            Self::Discard { disk, block, blocks } => run(3, disk, block, blocks).put(out),
            Self::Move { stream, location, generation, moved } => {
                let (blocks, disk) = (moved.len() as u32, u16::from(*stream));
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
    fn take(r: &mut Reader<'_>) -> Option<Self> {
        let head = Head::take(r)?;
        let Head { generation, location, .. } = head;
        Some(match head.kind {
            1 => {
                let (disk, block, blocks) = head.run()?;
                let mut sums = Reader::new(r.take(blocks as usize * 4)?);
                let checksums = (0..blocks).map_while(|_| sums.u32()).collect();
                Self::Write { disk, block, class: ClassId(head.class), location, generation, checksums }
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
                let stream = u8::try_from(head.disk).ok()?;
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
    let header = BatchHeader {
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
    };
    let counters = [header.epoch, header.position, header.batch, header.checkpoint, header.first_sequence];
    let is_possible = counters.iter().all(|&counter| counter < COUNTER_LIMIT)
        && header.durable < header.batch
        && shard == 0
        && len_bytes.is_multiple_of(512)
        && usize::from(records) * RECORD_BYTES <= len_bytes as usize - HEADER_BYTES;
    is_possible.then_some(header)
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

    fn moved() -> Moved {
        Moved {
            disk: DiskId(1),
            block: 2,
            source: SECTORS_MAX - 8,
            sectors: 8,
            origin: 99,
            checksum: 9,
            class: ClassId(119),
            group: 5,
        }
    }

    fn header(len_bytes: u32, records: u16) -> BatchHeader {
        BatchHeader {
            len_bytes,
            records,
            shard: 0,
            epoch: 3,
            position: 1024,
            batch: 9,
            durable: 8,
            exceptions: 1,
            checkpoint: 4,
            first_sequence: 100,
        }
    }

    /// What becomes of one record with a right checksum.
    fn read_back(record: &Record, header: &BatchHeader) -> Option<Record> {
        let mut w = Writer::default();
        w.bytes.resize(HEADER_BYTES, 0);
        record.put(&mut w);
        w.bytes.resize(header.len_bytes as usize, 0);
        seal_batch(&mut w.bytes, header, &[7; 16]);
        decode_batch(&w.bytes, &[7; 16]).and_then(|(_, mut records)| records.pop())
    }

    #[test]
    fn impossible_records_and_headers_are_no_batch() {
        let run = |block, blocks| Record::Discard { disk: DiskId(1), block, blocks };
        let good = run(399, 1);
        assert_eq!(read_back(&good, &header(8192, 1)), Some(good.clone()));
        let write = |block, location, blocks| Record::Write {
            disk: DiskId(1),
            block,
            class: ClassId(1),
            location,
            generation: 0,
            checksums: vec![1; blocks],
        };
        let record = |moved| Record::Move { stream: 1, location: 64, generation: 0, moved };
        let bad = [
            run(399, 2),
            run(0, 401),
            run(0, 0),
            run(1 << 48, 1),
            write(0, 0, 401),
            write(0, SECTORS_MAX - 8, 2),
            write(0, u64::MAX, 1),
            write(0, 0, 0),
            record(vec![]),
            record(vec![moved(); MOVED_MAX + 1]),
            record(vec![Moved { class: ClassId(120), ..moved() }]),
            record(vec![Moved { origin: COUNTER_LIMIT, ..moved() }]),
            Record::Cancel { sequence: COUNTER_LIMIT },
        ];
        for record in bad {
            assert_eq!(read_back(&record, &header(8192, 1)), None, "{record:?}");
        }
        for bad in [
            BatchHeader { batch: COUNTER_LIMIT, ..header(8192, 1) },
            BatchHeader { first_sequence: u64::MAX, ..header(8192, 1) },
            BatchHeader { durable: 9, ..header(8192, 1) },
            BatchHeader { shard: 1, ..header(8192, 1) },
            header(8192, 400),
        ] {
            assert_eq!(read_back(&good, &bad), None, "{bad:?}");
        }
    }

    #[test]
    fn batches_round_trip_and_notice_every_flipped_bit() {
        let records = vec![
            Record::Write {
                disk: DiskId(1),
                block: 7,
                class: ClassId(2),
                location: 64,
                generation: 0xbeef,
                checksums: vec![1, 2],
            },
            Record::Zero { disk: DiskId(1), block: 9, blocks: 3 },
            Record::Discard { disk: DiskId(2), block: 400 << 31, blocks: 400 },
            Record::Move {
                stream: 0x83,
                location: 1 << 30,
                generation: 7,
                moved: vec![Moved { disk: DiskId(65535), block: (1 << 48) - 1, sectors: 1, ..moved() }],
            },
            Record::Cancel { sequence: 77 },
            Record::Damage { blocks: vec![moved(); MOVED_MAX] },
            Record::Reclass { disk: DiskId(1), block: 5, blocks: 9, class: ClassId(6) },
        ];
        let mut w = Writer::default();
        w.bytes.resize(HEADER_BYTES, 0);
        for record in &records {
            record.put(&mut w);
        }
        w.bytes.resize(4608, 0);
        let header = header(4608, 7);
        seal_batch(&mut w.bytes, &header, &[7; 16]);
        assert_eq!(decode_batch(&w.bytes, &[7; 16]), Some((header, records)));
        assert!(decode_batch(&w.bytes, &[8; 16]).is_none());
        for bit in (0..4608 * 8).step_by(3) {
            w.bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_batch(&w.bytes, &[7; 16]).is_none(), "bit {bit}");
            w.bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
