//! How long data stays on the fast tier: what is decided of writes, and that nothing is lost or stuck by it.

// Here a panic is the finding.
#![allow(clippy::unwrap_used)]

mod world;

use forebay_block::ClassId;
use forebay_prism::ClassStats;
use world::{Oracle, Shape, World, history};

/// The default class, whose data is staged.
const COLD: ClassId = ClassId(0);

/// A pool of some 900 slots, and a disk of 4,096 blocks.
fn shape() -> Shape {
    Shape {
        fast_bytes: 4 << 20,
        capacity_bytes: 40 << 20,
        band_bytes: 512 << 10,
        disk_bytes: 16 << 20,
        frames: 64,
        leaves: 11,
        ..Shape::default()
    }
}

fn open(seed: u64) -> World {
    let shape = shape();
    World::open(&shape, shape.format(), seed, Oracle::default()).unwrap()
}

/// Writes blocks of one class, and what is due after that.
fn write(world: &mut World, block: u64, blocks: u64) {
    world.write(block * 8, blocks * 8, false, Some(COLD));
    world.settle(4).unwrap();
}

fn classes(world: &World) -> Vec<ClassStats> {
    world.pool.engine.status().classes
}

/// The share of what was written since `before` that has not reached the capacity tier.
fn alpha_since(world: &World, before: &[ClassStats]) -> f64 {
    let (mut written, mut through) = (0, 0);
    for (now, then) in classes(world).iter().zip(before) {
        let now = now.since(then);
        written += now.host_written_bytes;
        through += now.bypassed_bytes + now.destaged_bytes;
    }
    1.0 - through as f64 / written as f64
}

#[test]
fn of_a_turn_longer_than_the_tier_a_part_is_kept() {
    let mut world = open(1);
    let mut before = Vec::new();
    for round in 0..20 {
        if round == 10 {
            before = classes(&world);
        }
        for block in (0..1600).step_by(16) {
            write(&mut world, block, 16);
        }
    }
    world.settle(0).unwrap();
    history::quiet(&mut world).unwrap();
    let alpha = alpha_since(&world, &before);
    assert!(alpha > 0.1, "an order by age keeps nothing of it: {alpha}");
    assert!(!world.pool.engine.stays().is_empty());
}

#[test]
fn regression_a_log_in_files_used_again_is_no_long_stream() {
    let mut world = open(2);
    let before = classes(&world);
    // Seventy times 1 MiB: beyond 64 MiB it was taken for a stream that goes past the fast tier.
    for _ in 0..70 {
        for block in (0..256).step_by(8) {
            write(&mut world, block, 8);
        }
    }
    world.settle(0).unwrap();
    let bypassed: u64 = classes(&world).iter().zip(&before).map(|(now, then)| now.since(then).bypassed_bytes).sum();
    assert_eq!(bypassed, 0);
}

#[test]
fn what_is_due_later_survives_power_cuts_like_all_else() {
    for seed in 0..12 {
        let mut random = forebay_block::Random::new(seed);
        let mut world = open(seed);
        for round in 0..5u64 {
            for step in 0..120 {
                let block = (step * 37 + round * 11) % 250 * 16;
                write(&mut world, block, 16);
                if step % 40 == 39 {
                    world.flush();
                }
            }
            let (images, oracle) = world.cut(&mut random);
            world = World::open(&shape(), images, seed, oracle).unwrap();
            world.check_survivors().unwrap();
        }
    }
}
