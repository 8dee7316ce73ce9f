//! Hostile band summaries with correct checksums: whatever they contain, the map decides which blocks live, so that
//! good data is read unchanged.
//!
//! Input: one byte that selects the summary, then steps that change it.

use crate::pool;
use forebay_volume::layout::band_summary::{BandShape, SummaryName, decode};
use forebay_volume::layout::page::BLOCK_GRAINS;
use forebay_volume::layout::seal;

pub(crate) fn run(input: &[u8]) {
    let Some((&which, steps)) = input.split_first() else { return };
    let mut images = pool::aged();
    let superblock = pool::superblock(&images);
    let (.., root) = pool::root(&images);
    let shape = BandShape::new(superblock.band_bytes);
    let groups: Vec<(u32, u32)> = (0u32..)
        .zip(&root.bands)
        .flat_map(|(number, band)| {
            let complete =
                (0..shape.groups()).filter(|&group| shape.summary_block(group) < band.written / BLOCK_GRAINS as u32);
            complete.map(move |group| (number, group))
        })
        .collect();
    assert!(!groups.is_empty());
    let (band, group) = groups[usize::from(which) % groups.len()];
    let block = u64::from(band) * u64::from(shape.blocks()) + u64::from(shape.summary_block(group));
    let at = (superblock.members[1].data_offset_bytes + block * 4096) as usize;
    let page = &mut images[1][at..at + 4096];
    pool::patch(page, steps);
    seal(page);
    let generation = root.bands[band as usize].generation;
    let _ = decode(&pool::POOL, SummaryName { band, group, generation }, shape.group_grains(group), page);
    let mut before = pool::Served::open(pool::aged()).unwrap();
    let Ok(mut served) = pool::Served::open(images) else { panic!("a summary kept the pool from being opened") };
    // Blocks that are not written keep their data while bands are collected around them.
    let kept =
        |served: &mut pool::Served| -> Vec<Option<Vec<u8>>> { (0..200).step_by(7).map(|b| served.read(b)).collect() };
    let expected = kept(&mut before);
    for round in 0..80u64 {
        served.write(1000 + round * 37 % 900, 1 + round % 40, round as u8 | 1, true);
    }
    for (found, expected) in kept(&mut served).into_iter().zip(expected) {
        assert!(found == expected, "a summary changed what is read");
    }
}
