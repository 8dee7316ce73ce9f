//! VMware's vscsiStats records, version 1, as in the CloudPhysics traces: 32 bytes, little-endian `u32 sn, len, nSG; u16 cmd, ver; u64 lbn,
//! us` (libCacheSim, `traceReader/customizedReader/vscsi.h`).

use super::clock::Clock;
use super::counters::Counters;
use super::fields::{Bad, range, sectors};
use super::records::Records;
use crate::{Faults, Knows, Names, Op, Request, Source, TraceError};
use std::io::Read;

const RECORD_BYTES: usize = 32;
/// The version of a record, in the high byte of `ver`.
const VERSION: u16 = 1;

/// A vscsi trace being read.
pub struct Vscsi<R> {
    records: Records<R, RECORD_BYTES>,
    clock: Clock,
    counters: Counters,
}

impl<R: Read> Vscsi<R> {
    /// Reads `from`, which has the unpacked bytes.
    pub fn new(from: R) -> Self {
        Self { records: Records::new(from), clock: Clock::from_first(), counters: Counters::of_binary("vscsi") }
    }
}

/// The operation of a SCSI command (SPC-4, SBC-3: operation codes).
fn op(command: u16) -> Option<Op> {
    Some(match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
        0x0a | 0x2a | 0xaa | 0x8a => Op::Write,
        0x42 => Op::Discard,
        0x41 | 0x93 => Op::WriteZeroes,
        0x35 | 0x91 => Op::Flush,
        _ => return None,
    })
}

/// Whether a record looks like one of this format, for detection.
pub(super) fn looks_right(record: &[u8; RECORD_BYTES]) -> bool {
    let (command, version) = (word16(record, 12), word16(record, 14));
    version >> 8 == VERSION && op(command).is_some()
}

fn word16(record: &[u8; RECORD_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

fn word32(record: &[u8; RECORD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().unwrap_or_default())
}

fn word64(record: &[u8; RECORD_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().unwrap_or_default())
}

fn request(record: &[u8; RECORD_BYTES], clock: &mut Clock) -> Result<Request, Bad> {
    if word16(record, 14) >> 8 != VERSION {
        return Err("the version of the record is not 1");
    }
    let op = op(word16(record, 12)).ok_or("the SCSI command is not known")?;
    let (first_bytes, _) = sectors(word64(record, 16), 0)?;
    let (offset_bytes, len_bytes) = range(first_bytes, word32(record, 4).into())?;
    let issued_ns = clock.us_since_zero_ns(word64(record, 24))?;
    Ok(Request::new(issued_ns, op, offset_bytes, len_bytes))
}

impl<R: Read> Source for Vscsi<R> {
    fn read(&mut self, into: &mut Vec<Request>, _names: &mut Names) -> Result<bool, TraceError> {
        let Self { records, clock, counters } = self;
        records.read_batch(counters, into, |record| request(record, clock))
    }

    fn faults(&self) -> &Faults {
        self.counters.faults()
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: true, ..Knows::default() }
    }
}
