//! What policies have learned, beside a root: nothing depends on it, so no header names it (docs/format.md, "Policy state").

use super::codec::{COUNTER_LIMIT, Reader, Writer};
use super::superblock::Superblock;
use super::{Id, seal};

const MAGIC: [u8; 4] = *b"FBPS";
/// Bytes of the header, before the payload.
const HEADER_BYTES: usize = 64;
/// Most bytes of a root area that it takes.
const AREA_BYTES: u64 = 128 << 10;
/// Longest payload in bytes.
pub const PAYLOAD_BYTES_MAX: usize = AREA_BYTES as usize - HEADER_BYTES;
/// How many bytes have to be read to know its length.
pub const BLOCK_BYTES: usize = 4096;

/// Where it lies beside the root of a checkpoint; `None` where the area is too small.
#[must_use]
pub fn offset_bytes(superblock: &Superblock, checkpoint: u64) -> Option<u64> {
    // It lies before the second header.
    let within = superblock.root_len_bytes.checked_sub(4096 + AREA_BYTES).filter(|&within| within >= 4096)?;
    Some(superblock.root_offsets_bytes[(checkpoint % 2) as usize] + within)
}

/// Encodes a payload, in whole blocks.
#[must_use]
pub fn encode(payload: &[u8], checkpoint: u64, pool: &Id) -> Vec<u8> {
    let mut w = Writer::of_pool(MAGIC, pool);
    w.u64(checkpoint);
    w.u32(payload.len() as u32);
    w.bytes.resize(HEADER_BYTES, 0);
    w.bytes.extend_from_slice(payload);
    seal(&mut w.bytes);
    w.bytes.resize(w.bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    w.bytes
}

/// The whole length in bytes, by the first bytes; `None` where they are not of this pool, or the length is impossible.
#[must_use]
pub fn len_bytes(bytes: &[u8], pool: &Id) -> Option<usize> {
    let mut r = Reader::new(bytes);
    let (magic, _crc, of_pool) = (r.take(4)?, r.u32()?, r.id()?);
    (magic == MAGIC && of_pool == *pool).then_some(())?;
    r.u64()?;
    let len = r.u32()? as usize;
    (len <= PAYLOAD_BYTES_MAX).then_some(HEADER_BYTES + len)
}

/// The checkpoint that wrote it, and its payload; `None` where it is damaged, or of another pool.
#[must_use]
pub fn decode<'a>(bytes: &'a [u8], pool: &Id) -> Option<(u64, &'a [u8])> {
    let bytes = bytes.get(..len_bytes(bytes, pool)?)?;
    let checkpoint = Reader::of_pool(bytes, MAGIC, pool)?.u64().filter(|&number| number < COUNTER_LIMIT)?;
    Some((checkpoint, &bytes[HEADER_BYTES..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_read_as_it_was_written_or_not_at_all(
            payload in prop::collection::vec(any::<u8>(), 0..9000),
            checkpoint in 0..COUNTER_LIMIT,
            at in 0usize..12_000,
            bit in 0u8..8,
        ) {
            let pool = Id::default();
            let whole = encode(&payload, checkpoint, &pool);
            prop_assert!(whole.len().is_multiple_of(BLOCK_BYTES));
            prop_assert_eq!(decode(&whole, &pool), Some((checkpoint, &payload[..])));
            prop_assert_eq!(decode(&whole, &[1; 16]), None);
            let mut damaged = whole.clone();
            if let Some(byte) = damaged.get_mut(at) {
                *byte ^= 1 << bit;
                let found = decode(&damaged, &pool);
                prop_assert!(found.is_none() || at >= HEADER_BYTES + payload.len(), "a changed byte is seen");
            }
            prop_assert_eq!(decode(&whole[..at.min(HEADER_BYTES + payload.len()).min(whole.len()) / 2], &pool), None);
            prop_assert!(decode(&payload, &pool).is_none(), "no magic, or no right checksum");
        }
    }
}
