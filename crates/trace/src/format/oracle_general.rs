//! libCacheSim's oracleGeneral: packed records of 24 bytes, little-endian `u32 seconds; u64 id; u32 bytes; i64 next`
//! (libCacheSim, `traceReader/generalReader/oracleGeneral.h`).
//!
//! Operations are not recorded, and the meaning of an id is not known. It is used as a sector, which it is in traces converted from vscsi.
//! Ids that are hashes keep their low 54 bits, so that they fit a device of 2^64 bytes.

use super::clock::Clock;
use super::counters::Counters;
use super::fields::{Bad, SECTOR_BYTES, range};
use super::records::Records;
use crate::{Faults, Knows, Names, Op, Request, Source, TraceError};
use std::io::Read;

pub(super) const RECORD_BYTES: usize = 24;
/// Largest object in bytes.
const OBJECT_BYTES_MAX: u32 = 1 << 30;
const ID_MASK: u64 = (1 << 54) - 1;
/// The smallest value of `next`, for an object without a next access.
const NEXT_MIN: i64 = -2;

/// An oracleGeneral trace being read.
pub(super) struct OracleGeneral<R> {
    records: Records<R, RECORD_BYTES>,
    clock: Clock,
    counters: Counters,
}

impl<R: Read> OracleGeneral<R> {
    pub fn new(from: R, name: &'static str) -> Self {
        Self { records: Records::new(from), clock: Clock::from_first(), counters: Counters::of_binary(name) }
    }
}

fn request(record: &[u8; RECORD_BYTES], clock: &mut Clock) -> Result<Request, Bad> {
    let [s0, s1, s2, s3, i0, i1, i2, i3, i4, i5, i6, i7, b0, b1, b2, b3, n0, n1, n2, n3, n4, n5, n6, n7] = *record;
    let len_bytes = u32::from_le_bytes([b0, b1, b2, b3]);
    if len_bytes == 0 || len_bytes > OBJECT_BYTES_MAX {
        return Err("the size is 0 or beyond 1 GiB");
    }
    if i64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]) < NEXT_MIN {
        return Err("the next access is negative");
    }
    let issued_ns = clock.us_since_zero_ns(u64::from(u32::from_le_bytes([s0, s1, s2, s3])) * 1_000_000)?;
    let id = u64::from_le_bytes([i0, i1, i2, i3, i4, i5, i6, i7]);
    let (offset_bytes, len_bytes) = range((id & ID_MASK) * SECTOR_BYTES, u64::from(len_bytes))?;
    Ok(Request::new(issued_ns, Op::Access, offset_bytes, len_bytes))
}

/// Whether the records at the beginning of a file have this format.
pub(super) fn looks_right(head: &[u8]) -> bool {
    let (mut clock, mut last_ns) = (Clock::from_first(), 0);
    let (records, _) = head.as_chunks::<RECORD_BYTES>();
    !records.is_empty()
        && records.iter().take(64).all(|record| {
            request(record, &mut clock).is_ok_and(|request| {
                let is_in_order = request.issued_ns >= last_ns;
                last_ns = request.issued_ns;
                is_in_order
            })
        })
}

impl<R: Read> Source for OracleGeneral<R> {
    fn read(&mut self, into: &mut Vec<Request>, _names: &mut Names) -> Result<bool, TraceError> {
        let Self { records, clock, counters } = self;
        records.read_batch(counters, into, |record| request(record, clock))
    }

    fn faults(&self) -> &Faults {
        self.counters.faults()
    }

    fn knows(&self) -> Knows {
        Knows { time: true, ..Knows::default() }
    }
}
