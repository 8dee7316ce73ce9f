//! Journal batches: a header, and the records behind it.

use super::Id;
use super::codec::{COUNTER_LIMIT, Reader, Writer};
use super::record::{RECORD_BYTES, Record};
use super::{is_sealed, seal};

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
#[path = "batch_tests.rs"]
mod tests;
