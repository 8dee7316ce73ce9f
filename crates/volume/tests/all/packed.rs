//! Compressed blocks: destaged data shrinks, reads back unchanged, and has all the protection of other data.
#![allow(clippy::unwrap_used)]

use crate::world::anatomy::{Anatomy, Part};
use crate::world::{BULK, Oracle, Shape, Shared, TABLES, World, boxed, history};
use forebay_block::{ClassId, Random};
use forebay_device::Image;
use forebay_prism::{ClassChange, Compress};
use forebay_volume::layout::page::LEAF_ENTRIES;

/// Bands of several groups, and a fast tier that holds few of the blocks.
fn shape(compress: Compress) -> Shape {
    Shape {
        fast_bytes: 2 << 20,
        capacity_bytes: 12 << 20,
        band_bytes: 512 << 10,
        frames: 24,
        compress,
        ..Shape::default()
    }
}

const COLD: ClassId = ClassId(0);

/// Writes all blocks of some leaves in runs, until most are in bands.
fn filled(compress: Compress, blocks: u64) -> World {
    let shape = shape(compress);
    let mut world = World::open(&shape, shape.format(), 7, Oracle::default()).unwrap();
    for first in (0..blocks).step_by(8) {
        world.write(first * 8, 64, false, Some(COLD));
        world.settle(2).unwrap();
    }
    history::close_window(&mut world).unwrap();
    world
}

/// Blocks in bands, and their space there, in uncompressed blocks.
fn stored(world: &World) -> (u64, f64) {
    let classes = world.pool.engine.status().classes;
    let (blocks, bytes) = classes.iter().fold((0, 0), |sum, c| (sum.0 + c.capacity_blocks, sum.1 + c.stored_bytes));
    (blocks, bytes as f64 / 4096.0)
}

/// Offline verification has this many findings.
fn findings(shape: &Shape, images: &[Image]) -> Vec<String> {
    let shared: Vec<Shared> = images.iter().map(|image| Shared::new("d", image.clone(), 1)).collect();
    let mut found = Vec::new();
    let mut devices = boxed(&shared);
    let report =
        &mut |finding: forebay_volume::verify::Finding| found.push(format!("{}: {}", finding.place, finding.what));
    forebay_volume::verify::verify(&mut devices, 1, shape.options(), report).unwrap();
    found
}

fn durable(world: &World) -> Vec<Image> {
    world.shared.iter().map(Shared::durable).collect()
}

#[test]
fn what_is_destaged_shrinks_and_comes_back_over_restarts() {
    for compress in [Compress::Lz4, Compress::Zstd(3)] {
        let mut world = filled(compress, 1200);
        let (blocks, takes) = stored(&world);
        assert!(blocks > 600 && takes < 0.6 * blocks as f64, "{compress}: {blocks} blocks take {takes}");
        world.check_survivors().unwrap();
        assert!(world.pool.close());
        let images = durable(&world);
        assert_eq!(findings(&world.shape, &images), Vec::<String>::new());
        // A version that does not know the setting reads them too.
        let off = Shape { compress: Compress::Off, ..world.shape.clone() };
        let mut world = World::open(&off, images, 8, world.oracle).unwrap();
        let (blocks, takes) = stored(&world);
        assert!(blocks > 600 && takes < 0.6 * blocks as f64, "known after a start: {blocks} blocks take {takes}");
        world.check_survivors().unwrap();
    }
}

/// Bytes that came to bands: as written by hosts, and as stored.
fn came_to_bands(world: &World) -> (u64, u64) {
    let classes = world.pool.engine.status().classes;
    let came = classes.iter().map(|class| class.bypassed_bytes + class.destaged_bytes + class.collected_bytes).sum();
    (came, world.pool.engine.wear()[1].written_bytes)
}

#[test]
fn regression_wear_counts_compressed_blocks_as_they_are_stored() {
    for compress in [Compress::Off, Compress::Zstd(3)] {
        let mut world = filled(compress, 1200);
        let (came, stored) = came_to_bands(&world);
        let least = if compress == Compress::Off { 1.0 } else { 0.0 };
        assert!(stored as f64 >= least * came as f64, "{compress}: {stored} of {came}");
        assert!(compress == Compress::Off || (stored as f64) < 0.6 * came as f64, "{compress}: {stored} of {came}");
        assert!(world.pool.close());
        let images = durable(&world);
        let world = World::open(&world.shape.clone(), images, 8, world.oracle).unwrap();
        let (came, stored) = came_to_bands(&world);
        let ratio = stored as f64 / came as f64;
        assert!(
            if compress == Compress::Off { ratio >= 1.0 } else { ratio < 0.6 },
            "{compress}: after a start {ratio}"
        );
    }
}

/// What replay counted as written before the start was taken as a rate: the fast tier seemed to wear out within days.
#[test]
fn regression_wear_since_the_start_is_none_of_what_was_replayed() {
    let mut world = filled(Compress::Off, 1200);
    world.write(0, 64, false, None);
    world.settle(0).unwrap();
    history::close_window(&mut world).unwrap();
    let (shape, before) = (world.shape.clone(), world.pool.engine.wear());
    let (images, oracle) = world.cut(&mut Random::new(3));
    let world = World::open(&shape, images, 8, oracle).unwrap();
    let wear = world.pool.engine.wear();
    for tier in 0..2 {
        assert!(wear[tier].written_bytes > before[tier].written_bytes / 2, "{wear:?} {before:?}");
        assert!(wear[tier].since_start_bytes < 256 << 10, "{wear:?}");
    }
}

#[test]
fn parts_of_compressed_blocks_are_written_over() {
    let mut world = filled(Compress::Lz4, 1200);
    let mut random = Random::new(3);
    for _ in 0..400 {
        world.write(random.below(1200 * 8 - 20), 1 + random.below(19), false, Some(COLD));
        world.settle(4).unwrap();
    }
    history::close_window(&mut world).unwrap();
    world.check_survivors().unwrap();
    assert_eq!(world.errors, 0);
}

/// The same blocks repeatedly: bands of compressed blocks are collected and stay compressed.
#[test]
fn compressed_blocks_are_collected_as_they_are_stored() {
    let mut world = filled(Compress::Zstd(1), 2000);
    let mut random = Random::new(4);
    for step in 0..6000 {
        if step == 5500 {
            // Stored data does not change with the setting.
            let change = ClassChange { compress: Some(Compress::Off), ..ClassChange::default() };
            world.pool.engine.prism_mut().table_mut().set("cold", change).unwrap();
        }
        world.write(random.below(2000) * 8, 8, false, Some(COLD));
        world.settle(4).unwrap();
    }
    history::close_window(&mut world).unwrap();
    let cold = world.pool.engine.status().classes[0];
    assert!(cold.collected_bytes > 200 * 4096, "{cold:?}");
    let (blocks, takes) = stored(&world);
    // Single blocks that bypass the full tier are stored uncompressed.
    assert!(takes < 0.95 * blocks as f64, "{blocks} blocks take {takes}");
    world.check_survivors().unwrap();
    history::stop(&mut world).unwrap();
    assert_eq!(findings(&world.shape, &durable(&world)), Vec::<String>::new());
}

/// Groups of blocks that shrink eightfold have summaries of several pages: their bands are collected and freed.
#[test]
fn bands_of_small_blocks_are_collected() {
    let shape = Shape { capacity_bytes: 5 << 20, band_bytes: 256 << 10, ..shape(Compress::Lz4) };
    let mut world = World::open(&shape, shape.format(), 7, Oracle::default()).unwrap();
    let mut random = Random::new(4);
    for step in 0..4500u64 {
        let block = if step < 490 { step } else { random.below(490) };
        world.write(block * 64, 64, false, Some(COLD));
        // Blocks with other tags shrink less.
        world.oracle.new_tags(192);
        world.settle(4).unwrap();
    }
    history::close_window(&mut world).unwrap();
    let cold = world.pool.engine.status().classes[0];
    let (blocks, takes) = stored(&world);
    assert!(takes < 0.2 * blocks as f64, "{blocks} blocks take {takes}");
    assert!(cold.collected_bytes > 500 * 4096 && world.errors == 0, "{} errors, {cold:?}", world.errors);
    world.check_survivors().unwrap();
    history::stop(&mut world).unwrap();
    assert_eq!(findings(&world.shape, &durable(&world)), Vec::<String>::new());
}

/// A single block cannot be compressed. Blocks of a class on the capacity tier wait for others of their class, for a limited time; where
/// compression is off, or where much is written at once, nothing waits.
#[test]
fn short_writes_wait_on_the_fast_tier_until_they_shrink_together() {
    let cases = [(Compress::Zstd(1), 8, true), (Compress::Off, 8, false), (Compress::Zstd(1), 128, false)];
    for (compress, sectors, waits) in cases {
        let shape = Shape { fast_bytes: 8 << 20, ..shape(compress) };
        let mut world = World::open(&shape, shape.format(), 7, Oracle::default()).unwrap();
        let mut most = 0;
        for write in 0..200 {
            world.write(write * 128, sectors, false, Some(BULK));
            world.settle(0).unwrap();
            most = most.max(world.pool.engine.status().classes[usize::from(BULK.0)].fast_blocks);
        }
        assert!(if waits { (30..80).contains(&most) } else { most == 0 }, "{compress} {sectors}: {most} waited");
        let (blocks, takes) = stored(&world);
        assert!(blocks > 100 && world.errors == 0, "{compress} {sectors}: {blocks}");
        let part = takes / blocks as f64;
        assert!(if compress == Compress::Off { part == 1.0 } else { part < 0.6 }, "{compress} {sectors}: {part}");
        world.check_survivors().unwrap();
        assert!(world.pool.close());
        assert_eq!(findings(&world.shape, &durable(&world)), Vec::<String>::new());
    }
}

/// In a pool with a long history, staged data stays although short writes leave, and these leave after some time even where few arrive.
#[test]
fn regression_what_is_staged_stays_when_short_writes_leave() {
    let shape = Shape { fast_bytes: 8 << 20, ..shape(Compress::Lz4) };
    let mut world = World::open(&shape, shape.format(), 7, Oracle::default()).unwrap();
    let fast_blocks =
        |world: &World, class: ClassId| world.pool.engine.status().classes[usize::from(class.0)].fast_blocks;
    for block in 0..300 {
        world.write(block * 8, 8, false, Some(TABLES));
        world.settle(0).unwrap();
    }
    // Four times the size of the tier.
    for round in 0..8 * 64 {
        world.write(3200 + round % 64 * 128, 128, false, Some(BULK));
        world.settle(0).unwrap();
    }
    let staged = fast_blocks(&world, TABLES);
    for write in 0..200 {
        world.write(12_800 + write * 16, 8, false, Some(BULK));
        world.settle(0).unwrap();
    }
    let waiting = fast_blocks(&world, BULK);
    assert!(staged == 300 && fast_blocks(&world, TABLES) == 300, "{staged}, {}", fast_blocks(&world, TABLES));
    assert!((1..80).contains(&waiting), "{waiting} wait");
    for _ in 0..100 {
        world.now_ns += 400_000_000;
        world.poll().unwrap();
    }
    assert_eq!((fast_blocks(&world, BULK), fast_blocks(&world, TABLES)), (0, 300));
    world.check_survivors().unwrap();
    assert_eq!(world.errors, 0);
}

/// More than would fit uncompressed.
#[test]
fn a_pool_holds_more_than_its_devices_where_data_shrinks() {
    let (mut world, blocks) = (filled(Compress::Lz4, 3600), 3600);
    let status = world.pool.engine.status();
    assert!(status.fast.total_bytes + status.capacity.total_bytes < blocks * 4096, "{status:?}");
    assert!(blocks < 10 * LEAF_ENTRIES as u64 && world.errors == 0);
    world.check_survivors().unwrap();
}

/// Writes of zeros, of compressible and of incompressible data in random order, with power cuts.
#[test]
fn mixtures_of_zeros_and_compressed_blocks_survive_power_cuts() {
    let compress = [Compress::Lz4, Compress::Zstd(3)];
    for seed in 0..60u64 {
        let mut random = Random::new(seed);
        let shape = Shape { compress: compress[seed as usize % 2], ..Shape::default() };
        let mut world = World::open(&shape, shape.format(), seed, Oracle::default()).unwrap();
        for round in 0..3 {
            for _ in 0..30 + random.below(60) {
                let (block, blocks) = (random.below(390), 1 + random.below(60));
                let (zeros, fua, of) = (random.below(4), random.chance(1, 10), random.below(u64::MAX));
                let is_zero = |sector: u64| (of >> (sector / 8 % 61)) & 3 < zeros;
                let tag = Some(if random.chance(3, 4) { BULK } else { COLD });
                world.write_parts(block * 8..(block + blocks) * 8, fua, tag, &is_zero);
                if random.chance(1, 8) {
                    world.flush();
                }
                world.settle(random.below(6) as usize).unwrap();
            }
            let (images, oracle) = world.cut(&mut random);
            world = World::open(&shape, images, 9 + seed + round, oracle).unwrap();
            world.check_survivors().unwrap();
        }
        assert_eq!(world.errors, 0, "seed {seed}");
        history::stop(&mut world).unwrap();
        assert_eq!(findings(&world.shape, &durable(&world)), Vec::<String>::new(), "seed {seed}");
    }
}

/// One flipped bit: reads of that block fail, reads of its neighbours succeed, and verification names the block.
#[test]
fn a_damaged_compressed_block_costs_no_other() {
    let mut world = filled(Compress::Lz4, 1200);
    history::stop(&mut world).unwrap();
    let mut images = durable(&world);
    let anatomy = Anatomy::of(&images);
    let places = anatomy.of_part(Part::BandData);
    let (device, bytes) = (places[places.len() / 2].device, places[places.len() / 2].bytes.clone());
    let mut harmed = images[device].to_bytes();
    // In the middle of what lies in that block of the device.
    harmed[bytes.start as usize + 2100] ^= 4;
    images[device] = Image::from_bytes(&harmed);
    let found = findings(&world.shape, &images);
    assert!(found.len() == 1 && found[0].contains("does not match its checksum"), "{found:?}");
    let mut world = World::open(&world.shape.clone(), images, 9, std::mem::take(&mut world.oracle)).unwrap();
    let mut failed = 0;
    for block in 0..1200 {
        match world.try_read_block(block).unwrap() {
            Ok(data) => world.survived(block, &data).unwrap(),
            Err(error) => {
                failed += 1;
                assert!(found[0].contains(&format!("byte {}:", block * 4096)), "{block}: {error} {found:?}");
            }
        }
    }
    assert_eq!(failed, 1);
}
