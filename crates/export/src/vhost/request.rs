//! Requests of a virtio block device (Virtual I/O Device, 5.2.6): a header, data, and a byte for the status.

use super::chain::{Chain, ChainError, Segment, len_bytes, take_first, take_last};
use super::device::{PAYLOAD_BYTES_MAX, SECTOR_BYTES, ZEROES_BYTES_MAX};
use forebay_block::Buf;
use forebay_volume::Op;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// `VIRTIO_BLK_T_*`.
const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;
/// Length of `struct virtio_blk_outhdr`, and of `struct virtio_blk_discard_write_zeroes`.
const HEADER_BYTES: usize = 16;
const RANGE_BYTES: usize = 16;
/// `VIRTIO_BLK_ID_BYTES`.
pub const ID_BYTES: usize = 20;

/// How a request ended, `VIRTIO_BLK_S_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// The request failed.
    IoError = 1,
    /// The device does not support the request.
    Unsupported = 2,
}

/// Where in the guest's memory the answer goes.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Segments for the data of a read.
    pub data: Vec<Segment>,
    /// The guest's address of the status byte.
    pub status_at: u64,
}

/// What the guest requests.
#[derive(Debug)]
pub enum Asked {
    /// A request to the export.
    Of {
        /// Byte offset.
        offset_bytes: u64,
        /// Length in bytes.
        len_bytes: u64,
        /// The operation.
        op: Op,
    },
    /// The device's name.
    Id,
    /// An invalid or unsupported request; this is its status.
    Refused(Status),
}

/// A request, and where its answer goes.
#[derive(Debug)]
pub struct Parsed {
    /// What the guest requests.
    pub asked: Asked,
    /// Where the answer goes.
    pub answer: Answer,
}

impl Answer {
    /// Writes data and status into the guest's memory; returns the number of bytes written. If the data cannot be
    /// written whole, the status says `IoError`.
    pub fn write(&self, memory: &GuestMemoryMmap, data: &[u8], status: Status) -> Result<u32, ChainError> {
        let mut status = status;
        let mut rest = data;
        for segment in &self.data {
            let (part, more) = rest.split_at(rest.len().min(segment.len as usize));
            if memory.write_slice(part, GuestAddress(segment.address)).is_err() {
                status = Status::IoError;
            }
            rest = more;
        }
        let written = memory.write_obj(status as u8, GuestAddress(self.status_at));
        written.map_err(|_| ChainError::NoFrame)?;
        // The length is below 2^32: see `parse`.
        Ok(if status == Status::Ok { data.len() as u32 + 1 } else { 1 })
    }
}

/// Parses a request. The data of a write is copied once.
///
/// # Errors
/// The chain has no header, or no place for the status: the ring cannot be used any more.
pub fn parse(memory: &GuestMemoryMmap, chain: Chain) -> Result<Parsed, ChainError> {
    let Chain { mut readable, mut writable } = chain;
    let status_at = take_last(&mut writable).ok_or(ChainError::NoFrame)?;
    if !(Segment { address: status_at, len: 1 }).is_mapped(memory) {
        return Err(ChainError::NoFrame);
    }
    let mut header = [0; HEADER_BYTES];
    take_first(memory, &mut readable, &mut header).ok_or(ChainError::NoFrame)?;
    let [a, b, c, d, _, _, _, _, i, j, k, l, m, n, o, p] = header;
    let kind = u32::from_le_bytes([a, b, c, d]);
    let sector = u64::from_le_bytes([i, j, k, l, m, n, o, p]);
    let asked = match kind {
        IN => transfer(memory, &writable, sector, || Some(Op::Read)),
        OUT => transfer(memory, &readable, sector, || copied(memory, &readable).map(Op::Write)),
        FLUSH => Asked::Of { offset_bytes: 0, len_bytes: 0, op: Op::Flush },
        GET_ID if len_bytes(&writable) >= ID_BYTES as u64 => Asked::Id,
        GET_ID => Asked::Refused(Status::IoError),
        DISCARD => range(memory, &mut readable, |flags| (flags == 0).then_some(Op::Discard)),
        // The only flag permits the device to unmap the blocks.
        WRITE_ZEROES => range(memory, &mut readable, |flags| {
            (flags & !1 == 0).then_some(Op::WriteZeroes { may_unmap: flags & 1 != 0 })
        }),
        _ => Asked::Refused(Status::Unsupported),
    };
    Ok(Parsed { asked, answer: Answer { data: writable, status_at } })
}

fn transfer(memory: &GuestMemoryMmap, data: &[Segment], sector: u64, op: impl FnOnce() -> Option<Op>) -> Asked {
    let len_bytes = len_bytes(data);
    let fits = len_bytes <= PAYLOAD_BYTES_MAX && len_bytes > 0 && len_bytes.is_multiple_of(SECTOR_BYTES);
    let offset = sector.checked_mul(SECTOR_BYTES).filter(|_| fits && data.iter().all(|part| part.is_mapped(memory)));
    match offset.and_then(|offset| Some((offset, op()?))) {
        Some((offset_bytes, op)) => Asked::Of { offset_bytes, len_bytes, op },
        None => Asked::Refused(Status::IoError),
    }
}

/// Copies the data of a write, whose length the caller has checked.
fn copied(memory: &GuestMemoryMmap, data: &[Segment]) -> Option<Buf> {
    let mut buf = Buf::new(usize::try_from(len_bytes(data)).ok()?);
    let mut rest = &mut buf[..];
    for segment in data {
        let (part, more) = rest.split_at_mut_checked(segment.len as usize)?;
        memory.read_slice(part, GuestAddress(segment.address)).ok()?;
        rest = more;
    }
    Some(buf)
}

/// Parses the one range of a discard or write-zeroes: the device does not offer several ranges in one request.
fn range(memory: &GuestMemoryMmap, data: &mut Vec<Segment>, op: impl FnOnce(u32) -> Option<Op>) -> Asked {
    if len_bytes(data) != RANGE_BYTES as u64 {
        return Asked::Refused(Status::IoError);
    }
    let mut raw = [0; RANGE_BYTES];
    if take_first(memory, data, &mut raw).is_none() {
        return Asked::Refused(Status::IoError);
    }
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = raw;
    let sector = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let sectors = u32::from_le_bytes([i, j, k, l]);
    // "If any of the flags is unknown the device MUST set the status to VIRTIO_BLK_S_UNSUPP"; for discards this holds
    // for the known flag, too.
    let Some(op) = op(u32::from_le_bytes([m, n, o, p])) else { return Asked::Refused(Status::Unsupported) };
    let len_bytes = u64::from(sectors) * SECTOR_BYTES;
    match sector.checked_mul(SECTOR_BYTES).filter(|_| len_bytes <= u64::from(ZEROES_BYTES_MAX)) {
        Some(offset_bytes) => Asked::Of { offset_bytes, len_bytes, op },
        None => Asked::Refused(Status::IoError),
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::{DESCRIPTORS_MAX, read_chain};
    use super::*;
    use proptest::prelude::*;

    const TABLE: u64 = 0;
    const INDIRECT_TABLE: u64 = 0x1000;
    const HEADER: u64 = 0x2000;
    const DATA: u64 = 0x3000;
    const STATUS: u64 = 0x2100;
    const MEMORY_BYTES: usize = 0x10000;
    const NEXT: u16 = 1;
    const WRITE: u16 = 2;
    const INDIRECT: u16 = 4;

    fn memory() -> GuestMemoryMmap {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).unwrap()
    }

    fn put(memory: &GuestMemoryMmap, table: u64, index: u16, (address, len, flags, next): (u64, u32, u16, u16)) {
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&address.to_le_bytes());
        raw[8..12].copy_from_slice(&len.to_le_bytes());
        raw[12..14].copy_from_slice(&flags.to_le_bytes());
        raw[14..].copy_from_slice(&next.to_le_bytes());
        memory.write_slice(&raw, GuestAddress(table + u64::from(index) * 16)).unwrap();
    }

    fn header(memory: &GuestMemoryMmap, kind: u32, sector: u64) {
        memory.write_slice(&kind.to_le_bytes(), GuestAddress(HEADER)).unwrap();
        memory.write_slice(&sector.to_le_bytes(), GuestAddress(HEADER + 8)).unwrap();
    }

    /// Writes a header, a piece of data and a status into the guest's memory; parses the request.
    fn parsed(kind: u32, sector: u64, (address, len, flags): (u64, u32, u16)) -> Result<Parsed, ChainError> {
        let memory = memory();
        header(&memory, kind, sector);
        memory.write_slice(&[7; 4096], GuestAddress(DATA)).unwrap();
        put(&memory, TABLE, 0, (HEADER, 16, NEXT, 1));
        put(&memory, TABLE, 1, (address, len, flags | NEXT, 2));
        put(&memory, TABLE, 2, (STATUS, 1, WRITE, 0));
        parse(&memory, read_chain(&memory, TABLE, 8, 0)?)
    }

    fn status(parsed: &Parsed) -> Option<Status> {
        if let Asked::Refused(status) = parsed.asked { Some(status) } else { None }
    }

    #[test]
    fn reads_and_writes_are_what_they_say() {
        let read = parsed(IN, 3, (DATA, 1024, WRITE)).unwrap();
        assert!(matches!(read.asked, Asked::Of { offset_bytes: 1536, len_bytes: 1024, op: Op::Read }));
        let data = vec![Segment { address: DATA, len: 1024 }, Segment { address: STATUS, len: 0 }];
        assert_eq!(read.answer, Answer { data, status_at: STATUS });
        let write = parsed(OUT, 3, (DATA, 1024, 0)).unwrap();
        let Asked::Of { offset_bytes: 1536, len_bytes: 1024, op: Op::Write(data) } = write.asked else { panic!() };
        assert!(data.len() == 1024 && data.iter().all(|&byte| byte == 7));
        assert!(matches!(parsed(FLUSH, 0, (HEADER, 0, 0)).unwrap().asked, Asked::Of { op: Op::Flush, .. }));
        assert!(matches!(parsed(GET_ID, 0, (DATA, 20, WRITE)).unwrap().asked, Asked::Id));
    }

    #[test]
    fn an_answer_goes_where_it_belongs() {
        let memory = memory();
        let answer = parsed(IN, 3, (DATA, 512, WRITE)).unwrap().answer;
        assert_eq!(answer.write(&memory, &[9; 512], Status::Ok), Ok(513));
        assert_eq!(memory.read_obj::<[u8; 16]>(GuestAddress(DATA)).unwrap(), [9; 16]);
        assert_eq!(answer.write(&memory, &[], Status::IoError), Ok(1));
        assert_eq!(memory.read_obj::<u8>(GuestAddress(STATUS)).unwrap(), 1);
        let lost = Answer { data: vec![Segment { address: 1 << 40, len: 512 }], status_at: STATUS };
        assert_eq!(lost.write(&memory, &[9; 512], Status::Ok), Ok(1));
        assert_eq!(memory.read_obj::<u8>(GuestAddress(STATUS)).unwrap(), 1);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let refused = |kind, sector, data| status(&parsed(kind, sector, data).unwrap());
        for (kind, flags) in [(IN, WRITE), (OUT, 0)] {
            assert_eq!(refused(kind, 0, (DATA, 100, flags)), Some(Status::IoError), "no whole sector");
            assert_eq!(refused(kind, 0, (DATA, 0, flags)), Some(Status::IoError), "nothing");
            assert_eq!(refused(kind, 0, (1 << 40, 512, flags)), Some(Status::IoError), "not in memory");
            assert_eq!(refused(kind, 0, (u64::MAX - 100, 512, flags)), Some(Status::IoError), "beyond all memory");
            assert_eq!(refused(kind, 0, (0xfe00, 1024, flags)), Some(Status::IoError), "half in memory");
            assert_eq!(refused(kind, u64::MAX / 2, (DATA, 512, flags)), Some(Status::IoError), "beyond all disks");
            assert_eq!(refused(kind, 0, (DATA, 0xffff_fe00, flags)), Some(Status::IoError), "too long");
        }
        assert_eq!(refused(GET_ID, 0, (DATA, 19, WRITE)), Some(Status::IoError));
        assert_eq!(refused(5, 0, (DATA, 512, 0)), Some(Status::Unsupported));
        assert_eq!(refused(u32::MAX, 0, (DATA, 512, 0)), Some(Status::Unsupported));
        assert_eq!(refused(DISCARD, 0, (DATA, 32, 0)), Some(Status::IoError), "two ranges");
        assert_eq!(refused(DISCARD, 0, (DATA, 16, 0)), Some(Status::Unsupported), "unknown flags");
    }

    #[test]
    fn ranges_are_read_with_their_flags() {
        let range_of = |kind, flags: u32, sectors: u32| {
            let memory = memory();
            header(&memory, kind, 0);
            memory.write_slice(&5u64.to_le_bytes(), GuestAddress(DATA)).unwrap();
            memory.write_slice(&sectors.to_le_bytes(), GuestAddress(DATA + 8)).unwrap();
            memory.write_slice(&flags.to_le_bytes(), GuestAddress(DATA + 12)).unwrap();
            put(&memory, TABLE, 0, (HEADER, 16, NEXT, 1));
            put(&memory, TABLE, 1, (DATA, 16, NEXT, 2));
            put(&memory, TABLE, 2, (STATUS, 1, WRITE, 0));
            parse(&memory, read_chain(&memory, TABLE, 8, 0).unwrap()).unwrap()
        };
        let range = |kind, flags| range_of(kind, flags, 8);
        let asked = |kind, flags| match range(kind, flags).asked {
            Asked::Of { offset_bytes: 2560, len_bytes: 4096, op } => Some(op),
            _ => None,
        };
        assert!(matches!(asked(DISCARD, 0), Some(Op::Discard)));
        assert!(matches!(asked(WRITE_ZEROES, 0), Some(Op::WriteZeroes { may_unmap: false })));
        assert!(matches!(asked(WRITE_ZEROES, 1), Some(Op::WriteZeroes { may_unmap: true })));
        assert_eq!(status(&range(DISCARD, 1)), Some(Status::Unsupported));
        assert_eq!(status(&range(WRITE_ZEROES, 2)), Some(Status::Unsupported));
        let longest = ZEROES_BYTES_MAX / SECTOR_BYTES as u32;
        for kind in [DISCARD, WRITE_ZEROES] {
            assert_eq!(status(&range_of(kind, 0, longest)), None);
            assert_eq!(status(&range_of(kind, 0, longest + 1)), Some(Status::IoError), "longer than the device says");
        }
    }

    #[test]
    fn any_layout_of_the_pieces_will_do() {
        let memory = memory();
        header(&memory, OUT, 1);
        // The header in two pieces, the second of which continues into the data; the status at the end of a longer
        // piece.
        memory.write_slice(&[6; 512], GuestAddress(HEADER + 16)).unwrap();
        put(&memory, TABLE, 4, (HEADER, 10, NEXT, 2));
        put(&memory, TABLE, 2, (HEADER + 10, 6 + 512, NEXT, 7));
        put(&memory, TABLE, 7, (STATUS, 4, WRITE, 0));
        let parsed = parse(&memory, read_chain(&memory, TABLE, 8, 4).unwrap()).unwrap();
        assert!(matches!(parsed.asked, Asked::Of { len_bytes: 512, op: Op::Write(data), .. } if data[511] == 6));
        assert_eq!(parsed.answer.status_at, STATUS + 3);
    }

    #[test]
    fn chains_that_make_no_sense_break_the_ring() {
        let memory = memory();
        let read = |head| read_chain(&memory, TABLE, 8, head);
        assert_eq!(read(8), Err(ChainError::BeyondTable(8)));
        put(&memory, TABLE, 0, (HEADER, 16, NEXT, 9));
        assert_eq!(read(0), Err(ChainError::BeyondTable(9)));
        put(&memory, TABLE, 0, (HEADER, 16, NEXT, 0));
        assert_eq!(read(0), Err(ChainError::Endless), "a loop");
        put(&memory, TABLE, 0, (STATUS, 1, NEXT | WRITE, 1));
        put(&memory, TABLE, 1, (HEADER, 16, 0, 0));
        assert_eq!(read(0), Err(ChainError::Order));
        assert_eq!(read_chain(&memory, 1 << 40, 8, 0), Err(ChainError::TableNotMapped));
        assert_eq!(read_chain(&memory, u64::MAX - 8, 8, 1), Err(ChainError::TableNotMapped));
        for malformed in
            [(INDIRECT_TABLE, 24, INDIRECT), (INDIRECT_TABLE, 0, INDIRECT), (INDIRECT_TABLE, 16, INDIRECT | NEXT)]
        {
            put(&memory, TABLE, 0, (malformed.0, malformed.1, malformed.2, 1));
            assert_eq!(read(0), Err(ChainError::Indirect), "{malformed:?}");
        }
        put(&memory, TABLE, 0, (INDIRECT_TABLE, 16 * (DESCRIPTORS_MAX as u32 + 1), INDIRECT, 0));
        assert_eq!(read(0), Err(ChainError::Indirect), "too many");
        put(&memory, TABLE, 0, (INDIRECT_TABLE, 32, INDIRECT, 0));
        put(&memory, INDIRECT_TABLE, 0, (INDIRECT_TABLE, 16, INDIRECT, 0));
        assert_eq!(read(0), Err(ChainError::Indirect), "within one");
        put(&memory, INDIRECT_TABLE, 0, (HEADER, 16, NEXT, 1));
        put(&memory, INDIRECT_TABLE, 1, (STATUS, 1, WRITE, 0));
        let chain = read(0).unwrap();
        assert_eq!((chain.readable.len(), chain.writable.len()), (1, 1));
    }

    #[test]
    fn a_request_without_header_or_status_breaks_the_ring() {
        let memory = memory();
        let segment = |address, len| vec![Segment { address, len }];
        let broken = |readable, writable| parse(&memory, Chain { readable, writable }).unwrap_err();
        assert_eq!(broken(segment(HEADER, 15), segment(STATUS, 1)), ChainError::NoFrame);
        assert_eq!(broken(segment(1 << 40, 16), segment(STATUS, 1)), ChainError::NoFrame);
        assert_eq!(broken(segment(HEADER, 16), Vec::new()), ChainError::NoFrame);
        assert_eq!(broken(segment(HEADER, 16), segment(STATUS, 0)), ChainError::NoFrame);
        assert_eq!(broken(segment(HEADER, 16), segment(1 << 40, 1)), ChainError::NoFrame);
        assert_eq!(broken(segment(HEADER, 16), segment(u64::MAX, 2)), ChainError::NoFrame);
    }

    proptest! {
        #[test]
        fn garbage_neither_panics_nor_asks_for_too_much(
            table in proptest::collection::vec((0..0x1_4000u64, 0..5000u32, 0..8u16, 0..10u16), 8),
            bytes in proptest::collection::vec(any::<u8>(), 0x200),
            kind in 0..16u32,
        ) {
            let memory = memory();
            memory.write_slice(&bytes, GuestAddress(HEADER)).unwrap();
            header(&memory, kind, 1);
            for (index, descriptor) in (0..).zip(table) {
                put(&memory, TABLE, index, descriptor);
            }
            if let Ok(chain) = read_chain(&memory, TABLE, 8, 0)
                && let Ok(Parsed { asked: Asked::Of { len_bytes, op, .. }, .. }) = parse(&memory, chain)
                && matches!(op, Op::Read | Op::Write(_))
            {
                prop_assert!(len_bytes <= PAYLOAD_BYTES_MAX);
            }
        }
    }
}
