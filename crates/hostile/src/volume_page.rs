//! Hostile map pages with correct checksums, up to the root.
//!
//! Input: one byte that selects the index page (0) or one of its leaves, then steps that change the page.

use crate::pool;
use forebay_block::DiskId;
use forebay_volume::layout::page::{
    BLOCK_GRAINS, LEAF_ENTRIES, PAGE_BYTES, PageName, decode_index, encode_index, leaf_entry, seal_leaf,
};
use forebay_volume::layout::root_blob;
use forebay_volume::layout::seal;

pub(crate) fn run(input: &[u8]) {
    let Some((&which, steps)) = input.split_first() else { return };
    let mut images = pool::aged();
    let superblock = pool::superblock(&images);
    let (.., mut root) = pool::root(&images);
    let slots = superblock.members[0].data_offset_bytes as usize;
    let place = |location: u64| slots + ((location / BLOCK_GRAINS) as usize - 1) * PAGE_BYTES;
    let (number, index) = root.disks[0].pages[0];
    let at = place(index.location);
    let mut page = images[0][at..at + PAGE_BYTES].to_vec();
    let disk = DiskId(root.disks[0].id);
    let name = PageName { disk, number: u64::from(number), generation: index.generation };
    let mut references = decode_index(&page, name, index.crc).unwrap();
    let leaves: Vec<usize> = (0..references.len()).filter(|&i| references[i].location != 0).collect();
    let crc = match usize::from(which).checked_sub(1) {
        None => {
            pool::patch(&mut page, steps);
            let crc = seal(&mut page);
            let _ = decode_index(&page, name, crc);
            crc
        }
        Some(leaf) => {
            let leaf = leaves[leaf % leaves.len()];
            let reference = &mut references[leaf];
            let at = place(reference.location);
            let bytes = &mut images[0][at..at + PAGE_BYTES];
            pool::patch(bytes, steps);
            (0..LEAF_ENTRIES).for_each(|i| {
                let _ = leaf_entry(bytes, i);
            });
            reference.crc = seal_leaf(bytes, PageName { disk, number: leaf as u64, generation: reference.generation });
            encode_index(name, references.iter().copied(), &mut page)
        }
    };
    images[0][at..at + PAGE_BYTES].copy_from_slice(&page);
    root.disks[0].pages[0].1.crc = crc;
    pool::set_blob(&mut images, &root_blob::encode(&root));
    if let Ok(mut served) = pool::Served::open(images) {
        served.live(120);
    }
}
