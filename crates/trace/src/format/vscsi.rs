//! VMware's vscsiStats records, version 1, as the CloudPhysics traces have them: 32 bytes, little-endian
//! `u32 sn, len, nSG; u16 cmd, ver; u64 lbn, us` (libCacheSim, `traceReader/customizedReader/vscsi.h`).

use super::records::Records;
use crate::{BATCH_REQUESTS, Faults, Knows, Names, Op, Request, Source, TraceError};
use std::io::Read;

const SECTOR_BYTES: u64 = 512;
/// The version of a record, in the high byte of `ver`.
const VERSION: u16 = 1;

/// A vscsi trace being read.
pub struct Vscsi<R> {
    records: Records<R, 32>,
    faults: Faults,
    begin_us: Option<u64>,
}

impl<R: Read> Vscsi<R> {
    /// Reads `from`, the unpacked bytes.
    pub fn new(from: R) -> Self {
        Self { records: Records::new(from), faults: Faults::default(), begin_us: None }
    }
}

/// What a SCSI command does (SPC-4, SBC-3: operation codes).
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
pub(super) fn looks_right(record: &[u8; 32]) -> bool {
    let (command, version) = (word16(record, 12), word16(record, 14));
    version >> 8 == VERSION && op(command).is_some()
}

fn word16(record: &[u8; 32], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

fn word32(record: &[u8; 32], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().unwrap_or_default())
}

fn word64(record: &[u8; 32], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().unwrap_or_default())
}

impl<R: Read> Source for Vscsi<R> {
    fn read(&mut self, into: &mut Vec<Request>, _names: &mut Names) -> Result<bool, TraceError> {
        for _ in 0..BATCH_REQUESTS {
            let Some((place, record)) = self.records.next()? else {
                if let Some((place, bytes)) = self.records.rest() {
                    self.faults.note(place, || format!("{bytes} bytes at the end are no whole record of 32"));
                }
                return Ok(false);
            };
            let (command, version) = (word16(record, 12), word16(record, 14));
            if version >> 8 != VERSION {
                self.faults.note(place, || format!("version {} is not {VERSION}", version >> 8));
                continue;
            }
            let Some(op) = op(command) else {
                self.faults.note(place, || format!("unknown SCSI command {command:#x}"));
                continue;
            };
            let len_bytes = u64::from(word32(record, 4));
            let Some(offset_bytes) =
                word64(record, 16).checked_mul(SECTOR_BYTES).filter(|offset| offset.checked_add(len_bytes).is_some())
            else {
                self.faults.note(place, || format!("sector {} is beyond 2^64 bytes", word64(record, 16)));
                continue;
            };
            let time_us = word64(record, 24);
            let begin_us = *self.begin_us.get_or_insert(time_us);
            let Some(issued_ns) = time_us.saturating_sub(begin_us).checked_mul(1000) else {
                self.faults.note(place, || format!("time of {time_us} us is absurd"));
                continue;
            };
            into.push(Request::new(issued_ns, op, offset_bytes, len_bytes));
        }
        Ok(true)
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: true, ..Knows::default() }
    }
}
