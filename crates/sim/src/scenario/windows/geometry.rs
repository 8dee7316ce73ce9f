//! Small pools, in which a window opens often.

use crate::scenario::kind::Kind;
use crate::scenario::pick::pick;
use crate::scenario::shape::{ROOTS_BYTES, Shape, blocks_that_fit};
use crate::scenario::step::LEAF_BLOCKS;
use forebay_block::{Geometry, Random};
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::superblock::HEAD_BYTES;

/// Bytes of a fast device that has about `slots` slots.
fn fast_bytes(shape: &Shape, slots: u64) -> u64 {
    let of = |size_bytes: u64| Geometry {
        size_bytes,
        logical_block_bytes: 512,
        optimal_band_bytes: None,
        volatile_cache: true,
        durable_writes: true,
        discards: false,
    };
    let options = PoolOptions {
        name: "simulated".into(),
        band_bytes: Some(shape.band_bytes),
        journal_bytes: Some(shape.journal_bytes),
        is_mirrored: false,
        bands_offset_bytes: None,
    };
    let capacity: Vec<Geometry> = shape.capacity_device_bytes().into_iter().map(of).collect();
    let ids = vec![[1; 16]; capacity.len() + 1];
    let probe_bytes = 8 << 20;
    let probed = plan(&options, &of(probe_bytes), &capacity, [7; 16], &ids).map_or(0, |superblock| superblock.slots);
    // Tables of the root shrink with the device: a few slots more come of that.
    probe_bytes - probed.saturating_sub(slots) * 4096 - ROOTS_BYTES
}

/// Bytes of a capacity device of so many bands.
fn bands(count: u64, band_bytes: u64) -> u64 {
    HEAD_BYTES.next_multiple_of(band_bytes) + count * band_bytes + 8192
}

/// The geometry of such a life.
pub(in crate::scenario) fn shape(any: Shape, random: &mut Random) -> Shape {
    let kind = any.kind;
    // Discontiguous leaves of the map are what paging is about.
    let leaves = match kind {
        Kind::Reusing => 12 + random.below(8),
        Kind::Unmapping => 12 + random.below(12),
        Kind::Talking => 24 + random.below(40),
        _ => 1 + random.below(3),
    };
    let base = Shape {
        leaves,
        disk_bytes: (leaves * LEAF_BLOCKS * 4096).max(16 << 20),
        journal_bytes: 128 << 10,
        sector_bytes: pick(random, &[[512, 512], [512, 512], [4096, 4096]]),
        is_modelled: false,
        unflushed_limit_bytes: 4 << 20,
        discards: true,
        ..any
    };
    let of = |band_bytes: u64, capacity: &[u64], slots: u64, base: Shape| {
        let capacity_bytes = capacity.iter().map(|&count| bands(count, band_bytes)).collect();
        let shape = Shape { band_bytes, capacity_bytes, ..base };
        Shape { fast_bytes: fast_bytes(&shape, slots), ..shape }
    };
    match kind {
        Kind::Overtaking => Shape {
            is_volatile: pick(random, &[[false, true], [false, true], [false, true], [false, true], [true, true]]),
            frames: 16,
            job_blocks: pick(random, &[4, 24]),
            destage_above_percent: pick(random, &[1, 40]),
            bypass_below_percent: pick(random, &[5, 40]),
            blocks: 3 + random.below(16),
            ..of(pick(random, &[16 << 10, 16 << 10, 32 << 10]), &[24 + random.below(16)], 70 + random.below(60), base)
        },
        Kind::Reusing => Shape {
            is_volatile: pick(random, &[[false, true], [false, true], [false, false], [true, true]]),
            frames: pick(random, &[8, 12, 14]),
            // More than a leaf's worth, and late: what waits to be destaged lies in leaves that are no longer in memory.
            job_blocks: 2048,
            journal_bytes: 256 << 10,
            destage_above_percent: pick(random, &[30, 40, 50, 60]),
            bypass_below_percent: 1,
            blocks: 2 + random.below(7),
            ..of(64 << 10, &[24], 70 + random.below(40), Shape { journal_bytes: 256 << 10, ..base })
        },
        Kind::Rotting | Kind::Misreading => {
            let shape = Shape {
                frames: 16,
                job_blocks: pick(random, &[4, 24, 64]),
                destage_above_percent: pick(random, &[1, 5, 40]),
                bypass_below_percent: 5,
                ..of(pick(random, &[16 << 10, 32 << 10]), &[22 + random.below(8)], 70 + random.below(60), base)
            };
            // As many as fit: collection is always due.
            let fitting = blocks_that_fit(shape.band_bytes, &shape.capacity_bytes);
            Shape { blocks: (fitting / shape.leaves).max(1), ..shape }
        }
        Kind::Growing => Shape {
            frames: pick(random, &[8, 16]),
            blocks: 4 + random.below(12),
            ..of(32 << 10, &[24], 90 + random.below(60), base)
        },
        Kind::Unmapping => Shape {
            is_volatile: pick(random, &[[false, true], [true, true], [false, false]]),
            frames: pick(random, &[5, 8, 12]),
            job_blocks: pick(random, &[1, 3, 8]),
            destage_above_percent: 1,
            bypass_below_percent: 5,
            blocks: 1 + random.below(4),
            ..of(pick(random, &[8 << 10, 8 << 10, 16 << 10]), &[60], 80 + random.below(60), base)
        },
        Kind::Many => Shape {
            is_volatile: pick(random, &[[true, true], [true, true], [false, true]]),
            frames: pick(random, &[8, 16]),
            destage_above_percent: pick(random, &[1, 40]),
            blocks: 4 + random.below(20),
            ..of(16 << 10, &vec![4; 28 + random.index(4)], 120 + random.below(60), base)
        },
        Kind::Forgetting => Shape {
            is_volatile: pick(random, &[[true, true], [true, true], [false, true], [true, false]]),
            frames: pick(random, &[8, 16]),
            job_blocks: pick(random, &[4, 24]),
            destage_above_percent: pick(random, &[5, 40, 75]),
            blocks: 4 + random.below(16),
            durable_writes: random.chance(1, 2),
            ..of(pick(random, &[16 << 10, 32 << 10]), &[24, 8], 90 + random.below(100), base)
        },
        _ => Shape { frames: 64, blocks: 1 + random.below(3), ..of(32 << 10, &[40], 400, base) },
    }
}
