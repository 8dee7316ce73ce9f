//! Power cuts at any point of random histories: the rules of durability hold one by one.
//!
//! Each history runs on devices with a volatile cache that complete out of order; at a random step the power is cut
//! (any subset of the unflushed sectors survives, torn at sector size), the pool is recovered, possibly cut again in
//! the middle of recovery, and every block is compared with what the oracle allows.

mod world;

use forebay_block::ClassId;
use forebay_device::{Image, Random};
use world::{BULK, Oracle, Shape, World};

/// How a history is made.
#[derive(Clone, Copy)]
struct Plan {
    seed: u64,
    rounds: u32,
    operations: u32,
}

fn sector_of(random: &mut Random, shape: &Shape) -> u64 {
    // A few leaves, a few dozen blocks in each: overlaps are frequent and the live data fits the pool.
    let leaves = shape.disk_bytes / (400 * 4096);
    let leaf = random.below(leaves.min(8));
    let block = leaf * 400 + random.below(24);
    block * 8 + random.below(8)
}

fn one_operation(world: &mut World, random: &mut Random) {
    let shape = world.shape.clone();
    let mut sector = sector_of(random, &shape);
    let aligned = random.chance(3, 4);
    if aligned {
        sector = sector / 8 * 8;
    }
    let mut sectors = if random.chance(1, 8) { 8 * (1 + random.below(40)) } else { 8 * (1 + random.below(4)) };
    if !aligned {
        sectors = 1 + random.below(20);
    }
    sectors = sectors.min(shape.disk_bytes / 512 - sector);
    let fua = random.chance(1, 10);
    let tag = match random.below(5) {
        0 => Some(ClassId(1)),
        1 => Some(ClassId(2)),
        2 => Some(BULK),
        _ => None,
    };
    match random.below(20) {
        0..=11 => world.write(sector, sectors, fua, tag),
        12 => world.clear(sector, sectors, fua, true),
        13 => world.clear(sector, sectors, fua, false),
        14 | 15 => world.flush(),
        16..=18 => world.read(sector, sectors),
        _ => {
            if random.chance(1, 3) {
                world.pool.engine.request_checkpoint(false);
            } else {
                let place = match random.below(3) {
                    0 => forebay_prism::Place::Fast,
                    1 => forebay_prism::Place::Stage,
                    _ => forebay_prism::Place::Capacity,
                };
                let change = forebay_prism::class::ClassChange { place: Some(place), ..Default::default() };
                world.pool.engine.prism_mut().table_mut().set("hot", change).unwrap();
                world.pool.engine.classes_changed();
            }
            0
        }
    };
}

/// Runs a history up to a random device step, then cuts.
fn history(world: &mut World, random: &mut Random, operations: u32) -> Result<(), String> {
    let crash_after = world.steps() + 1 + random.below(u64::from(operations) * 4);
    let depth = 1 + random.index(12);
    for _ in 0..operations {
        one_operation(world, random);
        while world.in_flight() > depth {
            world.poll()?;
            if world.steps() >= crash_after {
                return Ok(());
            }
        }
        if random.chance(1, 3) {
            world.poll()?;
        }
    }
    for _ in 0..random.below(200) {
        world.poll()?;
    }
    Ok(())
}

fn run(plan: Plan, shape: &Shape) -> Result<(), String> {
    let mut random = Random::new(plan.seed);
    let mut images = shape.format();
    let mut oracle = Oracle::default();
    let mut next_tag = 1;
    for round in 0..plan.rounds {
        let context = |error: String| format!("seed {} round {round}: {error}", plan.seed);
        // Sometimes the power fails again while recovering: what it decided must not change.
        if random.chance(1, 3) {
            images = cut_recovery(shape, images, &mut random).map_err(context)?;
        }
        let seed = random.next_u64();
        let mut world = World::open(shape, images, seed, oracle, next_tag)
            .map_err(|error| context(format!("cannot be opened: {error}")))?;
        world.check_survivors().map_err(context)?;
        history(&mut world, &mut random, plan.operations).map_err(context)?;
        if random.chance(1, 8) {
            world.settle(0).map_err(context)?;
            if !world.pool.close() {
                return Err(context("no clean stop".into()));
            }
        }
        (images, oracle, next_tag) = world.cut(&mut random);
    }
    let mut world = World::open(shape, images, 1, oracle, next_tag).map_err(|e| format!("seed {}: {e}", plan.seed))?;
    world.check_survivors().map_err(|e| format!("seed {}: at the end: {e}", plan.seed))
}

/// Recovers on devices that lose power after a random number of steps.
fn cut_recovery(shape: &Shape, images: Vec<Image>, random: &mut Random) -> Result<Vec<Image>, String> {
    let seed = random.next_u64();
    let shared: Vec<_> = images
        .into_iter()
        .enumerate()
        .map(|(i, image)| world::Shared::new(&format!("d{i}"), image, seed ^ (i as u64 + 1)))
        .collect();
    let after = random.below(60);
    for shared in &shared {
        shared.lock().inner_mut().plan(forebay_device::faulty::Fault::gone_after(after));
    }
    let _ = World::open_shared(shape, shared.clone(), Oracle::default(), 1);
    Ok(shared.iter().map(|shared| shared.cut(random)).collect())
}

fn many(name: &str, seeds: std::ops::Range<u64>, shape: &Shape, operations: u32) {
    let count: u64 = std::env::var("FOREBAY_CRASH_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(seeds.end);
    for seed in seeds.start..count {
        if let Err(error) = run(Plan { seed, rounds: 4, operations }, shape) {
            panic!("{name}: {error}");
        }
    }
}

#[test]
fn random_histories_survive_power_cuts() {
    many("default", 0..300, &Shape::default(), 60);
}
