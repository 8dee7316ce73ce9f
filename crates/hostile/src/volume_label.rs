//! Hostile labels of a mirror with correct checksums: a label is refused, or encodes to the same bytes again; and
//! assembling a mirror of devices with such labels never panics.

use crate::pool;
use forebay_volume::layout::codec::COUNTER_LIMIT;
use forebay_volume::layout::member_label::{MemberLabel, OFFSETS_BYTES};
use forebay_volume::layout::seal;
use forebay_volume::layout::superblock::Superblock;

/// A label of an aged pool with two members, one of which is the existing device.
fn label(images: &pool::Images) -> Option<MemberLabel> {
    let superblock = Superblock::decode(&images[0][..4096]).ok()?;
    Some(MemberLabel {
        pool: superblock.pool,
        member: Some(0),
        generation: 3,
        serial: 4,
        ids: vec![superblock.member().id, [9; 16]],
        in_sync: 1,
        rebuilding: None,
        rebuilt_bytes: 0,
        size_bytes: superblock.member().size_bytes,
        logical_block_bytes: 512,
    })
}

pub(crate) fn run(input: &[u8]) {
    let Some((&place, steps)) = input.split_first() else { return };
    let mut images = pool::aged();
    let Some(label) = label(&images) else { return };
    let mut block = label.encode();
    pool::patch(&mut block, steps);
    seal(&mut block);
    if let Some(label) = MemberLabel::decode(&block) {
        assert!(label.generation < COUNTER_LIMIT && label.serial < COUNTER_LIMIT);
        assert_eq!(MemberLabel::decode(&label.encode()).as_ref(), Some(&label));
    }
    let mut put = |device: usize, copy: usize, block: &[u8]| {
        let at = OFFSETS_BYTES[copy] as usize;
        images[device][at..at + 4096].copy_from_slice(block);
    };
    put(0, 0, &label.encode());
    put(usize::from(place & 1), usize::from(place >> 1 & 1), &block);
    if let Some(mut served) = pool::Served::joined(images) {
        served.live(4);
    }
}
