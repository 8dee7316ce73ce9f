//! A hostile list of cached copies with correct checksums: whatever it names, hosts read the same data as without it.

use crate::pool;
use forebay_volume::layout::page::{BLOCK_GRAINS, SECTOR_GRAINS};
use forebay_volume::layout::seal;
use forebay_volume::layout::warm_list::{HEAD_OFFSET_BYTES, SlotRun, WarmChunk, WarmEntry, WarmHead};
use std::sync::OnceLock;

/// All blocks of the disk, as far as they can be read.
fn all(images: pool::Images) -> Vec<Option<Vec<u8>>> {
    let Ok(mut served) = pool::Served::open(images) else { return Vec::new() };
    let read = served.read_all();
    served.live(4);
    read
}

/// A list in the second last slots, naming the first blocks of the disk; their locations are made up, since the map's
/// are not known here.
fn list(superblock: &forebay_volume::layout::superblock::Superblock) -> (WarmHead, WarmChunk) {
    let last = SlotRun { first: superblock.slots - 2, slots: 1 };
    let entry = |at: u64| WarmEntry {
        key: 1 << 48 | at,
        location: superblock.members[1].first_sector * SECTOR_GRAINS + at * BLOCK_GRAINS,
        generation: 1,
        slot: (superblock.slots - 3 - at) as u32,
        own: at as u32,
        is_main: at.is_multiple_of(2),
        reads: (at % 4) as u8,
    };
    let chunk = WarmChunk {
        number: 3,
        epoch: superblock.epoch,
        index: 0,
        previous: None,
        entries: (0..20).map(entry).collect(),
    };
    (WarmHead { number: 3, epoch: superblock.epoch, chunks: 1, last, learned: 1 << 38 }, chunk)
}

pub(crate) fn run(input: &[u8]) {
    static EXPECTED: OnceLock<Vec<Option<Vec<u8>>>> = OnceLock::new();
    let Some((&which, steps)) = input.split_first() else { return };
    let mut images = pool::aged();
    let superblock = pool::superblock(&images);
    let (head, chunk) = list(&superblock);
    let (mut head, mut chunk) = (head.encode(&pool::POOL), chunk.encode(1, &pool::POOL));
    pool::patch(if which.is_multiple_of(2) { &mut head } else { &mut chunk }, steps);
    seal(&mut head);
    seal(&mut chunk);
    if let Some(chunk) = WarmChunk::decode(&chunk, &pool::POOL) {
        assert_eq!(WarmChunk::decode(&chunk.encode(1, &pool::POOL), &pool::POOL), Some(chunk));
    }
    let slots_end = superblock.members[0].data_offset_bytes + superblock.slots * 4096;
    let mut put = |at: u64, bytes: &[u8]| images[0][at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    put(HEAD_OFFSET_BYTES, &head);
    put(slots_end - 2 * 4096, &chunk);
    let expected = EXPECTED.get_or_init(|| all(pool::aged()));
    assert!(*expected == all(images), "others are read");
}
