//! Hostile roots with correct checksums: a root is refused with the name of a section, or the pool works with it.
//!
//! Input: steps that change the blob of a root whose sections follow each other as its encoder writes them.

use crate::pool;
use forebay_volume::layout::root::RootBounds;
use forebay_volume::layout::root_blob;
use forebay_volume::layout::seal;

/// Corrects the checksum of each section, as far as the lengths lead from one section to the next.
fn seal_sections(blob: &mut [u8]) {
    let mut at = 0;
    while let Some(length) = blob.get(at + 8..at + 12) {
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let Some(section) = blob.get_mut(at..).and_then(|rest| rest.get_mut(..16usize.checked_add(length)?)) else {
            return;
        };
        seal(section);
        at += section.len();
    }
}

pub(crate) fn run(input: &[u8]) {
    let mut images = pool::aged();
    let (.., root) = pool::root(&images);
    let mut blob = root_blob::encode(&root);
    pool::patch(&mut blob, input);
    seal_sections(&mut blob);
    let bounds = RootBounds::of(&pool::superblock(&images));
    match root_blob::decode(&blob, &bounds) {
        Ok(root) => assert_eq!(root_blob::decode(&root_blob::encode(&root), &bounds).as_ref(), Ok(&root)),
        Err(error) => assert_eq!(error.section.len(), 4),
    }
    pool::set_blob(&mut images, &blob);
    if let Ok(mut served) = pool::Served::open(images) {
        served.live(60);
    }
}
