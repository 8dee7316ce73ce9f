//! Hostile superblocks with correct checksums: a superblock is refused, or encodes to the same bytes again; and
//! opening a pool with one never panics.

use crate::pool;
use forebay_block::checksum::crc32c;
use forebay_volume::layout::root::RootBounds;
use forebay_volume::layout::superblock::{Superblock, copy_offsets_bytes};

pub(crate) fn run(input: &[u8]) {
    let Some((&device, steps)) = input.split_first() else { return };
    let device = usize::from(device % 2);
    let mut images = pool::aged();
    let mut block = images[device][..4096].to_vec();
    pool::patch(&mut block, steps);
    let crc = crc32c(&block[12..]);
    block[8..12].copy_from_slice(&crc.to_le_bytes());
    if let Ok(superblock) = Superblock::decode(&block) {
        let _ = RootBounds::of(&superblock);
        assert_eq!(Superblock::decode(&superblock.encode()).as_ref(), Ok(&superblock));
    }
    for at in copy_offsets_bytes(images[device].len() as u64) {
        images[device][at as usize..at as usize + 4096].copy_from_slice(&block);
    }
    if let Ok(mut served) = pool::Served::open(images) {
        served.live(8);
    }
}
