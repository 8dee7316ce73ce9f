//! Sequential reads: read-ahead data is right whatever happens to the blocks meanwhile, and read-ahead failures reach no host.

use crate::world::anatomy::{Anatomy, Part};
use crate::world::{BULK, Oracle, Shape, World, history};
use forebay_block::{ClassId, Random};
use forebay_device::faulty::{Fault, Target};
use forebay_volume::layout::page::LEAF_ENTRIES;

const CAPACITY: usize = 1;
/// Blocks per request of the reader, and its requests in flight.
const BLOCKS: u64 = 16;
const DEPTH: u64 = 8;

fn shape() -> Shape {
    let disk_bytes = 8 << 20;
    Shape {
        fast_bytes: 4 << 20,
        capacity_bytes: 12 << 20,
        band_bytes: 512 << 10,
        disk_bytes,
        frames: 32,
        leaves: disk_bytes / (LEAF_ENTRIES as u64 * 4096),
        ..Shape::default()
    }
}

/// A pool whose disk is full, entirely on the capacity tier.
fn filled(seed: u64) -> Result<World, String> {
    let shape = shape();
    let mut world = World::open(&shape, shape.format(), seed, Oracle::default()).map_err(|e| e.to_string())?;
    for block in (0..shape.disk_bytes / 4096).step_by(16) {
        world.write(block * 8, 16 * 8, false, Some(BULK));
        world.settle(2)?;
    }
    world.flush();
    world.settle(0)?;
    history::quiet(&mut world)?;
    Ok(world)
}

fn ahead(world: &World) -> (u64, u64) {
    let counters = world.pool.engine.status().counters;
    (counters.ahead_read_bytes, counters.ahead_used_bytes)
}

/// Reads the disk once; between its requests `meanwhile` changes blocks near the read position.
fn sweep(world: &mut World, mut meanwhile: impl FnMut(&mut World, u64)) -> Result<(), String> {
    let blocks = world.shape.disk_bytes / 4096;
    for block in (0..blocks).step_by(BLOCKS as usize) {
        world.read(block * 8, BLOCKS * 8);
        meanwhile(world, block);
        world.settle(DEPTH as usize)?;
    }
    world.settle(0)
}

#[test]
fn a_disk_that_nobody_changes_is_read_once_and_ahead() {
    let mut world = filled(1).unwrap();
    sweep(&mut world, |_, _| ()).unwrap();
    let (read, used) = ahead(&world);
    let disk_bytes = world.shape.disk_bytes;
    assert!(used > disk_bytes * 8 / 10, "{used} of {disk_bytes}");
    assert!(read <= used + used / 16, "{read} read for {used}");
    // Random order: nothing is read ahead.
    let mut random = Random::new(1);
    for _ in 0..500 {
        world.read(random.below(disk_bytes / 4096 - 4) * 8, 4 * 8);
        world.settle(8).unwrap();
    }
    world.settle(0).unwrap();
    assert_eq!(ahead(&world), (read, used));
}

#[test]
fn blocks_that_are_overwritten_moved_and_trimmed_in_the_middle_of_a_sequence_are_read_right() {
    let (mut used, mut collected) = (0, 0);
    for seed in 0..6 {
        let mut world = filled(seed).unwrap();
        let mut random = Random::new(seed);
        let blocks = world.shape.disk_bytes / 4096;
        for _ in 0..6 {
            let result = sweep(&mut world, |world, at| {
                let near = (at + random.below(160)).saturating_sub(20).min(blocks - 8);
                let place = if random.chance(1, 2) { near } else { random.below(blocks - 8) };
                let tag = [None, Some(BULK), Some(ClassId(1))][random.below(3) as usize];
                match random.below(7) {
                    0 => drop(world.clear(near * 8, (1 + random.below(7)) * 8, false, random.chance(1, 2))),
                    1 => drop(world.flush()),
                    2 => world.pool.engine.request_checkpoint(false),
                    3 => (0..random.below(6)).for_each(|_| world.poll().unwrap()),
                    _ => drop(world.write(place * 8, (1 + random.below(7)) * 8, false, tag)),
                }
            });
            if let Err(e) = result {
                panic!("seed {seed}: {e}");
            }
        }
        let status = world.pool.engine.status();
        assert_eq!((status.counters.damaged_reads, status.counters.request_errors), (0, 0), "seed {seed}");
        collected += status.classes.iter().map(|class| class.collected_bytes).sum::<u64>();
        used += status.counters.ahead_used_bytes;
        world.cut(&mut random);
    }
    assert!(used > 6 << 20, "{used} bytes were served");
    assert!(collected > 1 << 20, "{collected} bytes were moved");
}

#[test]
fn a_failure_of_what_is_read_ahead_is_neither_reported_nor_damage() {
    let mut struck = 0;
    for seed in 0..10 {
        let mut world = filled(seed).unwrap();
        let mut random = Random::new(seed);
        world.shared[CAPACITY].plan(Fault { count: 1, ..Fault::nth(Target::Reads, 8 + random.below(12)) });
        let before = ahead(&world);
        sweep(&mut world, |_, _| ()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        struck += world.shared[CAPACITY].struck();
        let counters = world.pool.engine.status().counters;
        assert_eq!((counters.damaged_reads, counters.request_errors, world.errors), (0, 0, 0), "seed {seed}");
        assert!(ahead(&world).1 > before.1 + (4 << 20), "the reader is read ahead of again");
    }
    assert!(struck >= 8, "{struck}");
}

#[test]
fn a_block_that_cannot_be_read_fails_itself_alone() {
    let mut world = filled(3).unwrap();
    let (mut good, mut bad) = (0, 0);
    history::checkpoint(&mut world).unwrap();
    let images: Vec<_> = world.shared.iter().map(|device| device.durable()).collect();
    let places = Anatomy::of(&images).places;
    let data: Vec<_> = places.into_iter().filter(|place| matches!(place.part, Part::BandData)).collect();
    world.shared[CAPACITY].plan(Fault::range(Target::Reads, data[data.len() / 2].bytes.clone()));
    for block in 0..world.shape.disk_bytes / 4096 {
        match world.try_read_block(block).unwrap() {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
    }
    assert!(world.shared[CAPACITY].struck() > 0);
    assert_eq!((good, bad), (world.shape.disk_bytes / 4096 - 1, 1));
    assert!(ahead(&world).1 > 0);
}
