//! Hostile roots of the capacity tier with correct checksums: a root is refused, or the opened tier can be read; and
//! the pool with its fast tier works with it.
//!
//! Input: steps that change the blob of the newest root.

use crate::pool;
use forebay_volume::layout::capacity_root::{CapacityHeader, CapacityRoot};
use forebay_volume::layout::seal;

pub(crate) fn run(input: &[u8]) {
    let mut images = pool::aged();
    let superblock = pool::superblock(&images);
    let area = superblock.capacity_area;
    let newest = [0, 1].into_iter().filter_map(|parity| {
        let at = area.header_offset_bytes(parity) as usize;
        CapacityHeader::decode(&images[1][at..at + 4096], &pool::POOL)
    });
    let header = newest.max_by_key(|header| header.checkpoint).unwrap();
    let at = area.header_offset_bytes(header.checkpoint) as usize;
    let mut blob = images[1][at + 4096..at + 4096 + header.blob_len_bytes as usize].to_vec();
    pool::patch(&mut blob, input);
    seal(&mut blob);
    if let Some(root) = CapacityRoot::decode(&blob, &superblock) {
        assert_eq!(CapacityRoot::decode(&root.encode(&area), &superblock).as_ref(), Some(&root));
    }
    images[1][at + 4096..at + 4096 + blob.len()].copy_from_slice(&blob);
    let forged = CapacityRoot::header(&blob, header.checkpoint, header.epoch, header.generation);
    images[1][at..at + 4096].copy_from_slice(&forged.encode(&pool::POOL));
    pool::read_alone(&images);
    if let Ok(mut served) = pool::Served::open(images) {
        served.live(60);
    }
}
