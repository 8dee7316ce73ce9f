//! Hostile journal batches with correct checksums, replayed into a tiny pool.
//!
//! Input: one byte that selects a batch of the journal, then steps that change the batch.

use crate::pool;
use forebay_volume::layout::batch::{BATCH_MAX_BYTES, decode_batch, peek};
use forebay_volume::layout::seal;

pub(crate) fn run(input: &[u8]) {
    let Some((&which, steps)) = input.split_first() else { return };
    let mut images = pool::aged();
    let superblock = pool::superblock(&images);
    let (header, _, root) = pool::root(&images);
    let start = superblock.journal_offset_bytes as usize;
    let ring = &mut images[0][start..start + superblock.journal_len_bytes as usize];
    let mut batches = Vec::new();
    let mut position = root.journal_position;
    let found = |ring: &[u8], position: u64| {
        let at = (position % ring.len() as u64) as usize;
        let (batch, _) = decode_batch(&ring[at..ring.len().min(at + BATCH_MAX_BYTES)], &pool::POOL)?;
        (batch.position == position && batch.epoch == header.epoch).then_some((at, batch.len_bytes as usize))
    };
    while let Some((at, len)) = found(ring, position) {
        batches.push((at, len));
        position += len as u64;
    }
    assert!(!batches.is_empty());
    let (at, len) = batches[usize::from(which) % batches.len()];
    let bytes = &mut ring[at..at + len];
    pool::patch(bytes, steps);
    // The length that the changed batch claims, if that many bytes exist.
    let len = peek(bytes, &pool::POOL).map_or(len, |header| (header.len_bytes as usize).clamp(96, len));
    seal(&mut bytes[..len]);
    let _ = decode_batch(bytes, &pool::POOL);
    if let Ok(mut served) = pool::Served::open(images) {
        served.live(60);
    }
}
