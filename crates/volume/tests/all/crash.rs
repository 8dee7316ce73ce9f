//! Power cuts at any point of random histories: each rule of durability holds.
//!
//! Each history runs on devices with a volatile cache that complete out of order. At a random step the power is cut (any subset of the
//! unflushed sectors survives, torn at sector size). The pool is recovered, sometimes with another cut during recovery, and every block is
//! compared with what the oracle allows.

#![allow(clippy::unwrap_used)]

use crate::world::{BULK, Oracle, Shape, World};
use forebay_block::ClassId;
use forebay_block::Random;
use forebay_device::Image;
use forebay_prism::Compress;

/// Parameters of a history.
#[derive(Clone, Copy)]
struct Plan {
    seed: u64,
    rounds: u32,
    operations: u32,
}

fn sector_of(random: &mut Random, shape: &Shape) -> u64 {
    // A few leaves with a few dozen blocks each: overlaps are frequent, and the live data fits the pool.
    let leaves = shape.disk_bytes / (400 * 4096);
    let leaf = random.below(leaves.min(shape.leaves));
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
                let place = match random.below(4) {
                    0 => forebay_prism::Place::Fast,
                    1 => forebay_prism::Place::Stage,
                    2 => forebay_prism::Place::Both,
                    _ => forebay_prism::Place::Capacity,
                };
                let compress = [Compress::Off, Compress::Lz4, Compress::Zstd(1)][(sector / 8 % 3) as usize];
                let (place, compress, read_cache) = (Some(place), Some(compress), Some((sector / 8).is_multiple_of(2)));
                let change = forebay_prism::class::ClassChange { place, compress, read_cache, ..Default::default() };
                let name = ["hot", "bulk", "cold", "log"][random.index(4)];
                world.pool.engine.prism_mut().table_mut().set(name, change).unwrap();
                world.pool.engine.classes_changed();
            }
            0
        }
    };
}

/// Runs a history up to a random device step, then cuts the power.
fn history(world: &mut World, random: &mut Random, operations: u32) -> Result<(), String> {
    let crash_after = world.steps() + 1 + random.below(u64::from(operations) * 4);
    let depth = 1 + random.index(12);
    for _ in 0..operations {
        one_operation(world, random);
        let mut polls = 0;
        while world.in_flight() > depth {
            world.poll()?;
            polls += 1;
            if polls > 20_000 {
                return Err(world.hang());
            }
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
    for round in 0..plan.rounds {
        let context = |error: String| format!("seed {} round {round}: {error}", plan.seed);
        // Sometimes the power fails again during recovery: its decisions must not change.
        if random.chance(1, 3) {
            images = cut_recovery(shape, images, &mut random).map_err(context)?;
        }
        let seed = random.next_u64();
        let mut world =
            World::open(shape, images, seed, oracle).map_err(|error| context(format!("cannot be opened: {error}")))?;
        if std::env::var("SEED").is_ok() {
            eprintln!("round {round}: {:?}", world.report);
        }
        world.check_survivors().map_err(context)?;
        history(&mut world, &mut random, plan.operations).map_err(context)?;
        if random.chance(1, 8) {
            world.settle(0).map_err(context)?;
            if !world.pool.close() {
                return Err(context("no clean stop".into()));
            }
        }
        (images, oracle) = world.cut(&mut random);
    }
    verify_clean(shape, &images).map_err(|e| format!("seed {}: verify: {e}", plan.seed))?;
    let mut world = World::open(shape, images, 1, oracle).map_err(|e| format!("seed {}: {e}", plan.seed))?;
    if std::env::var("SEED").is_ok() {
        eprintln!("end: {:?}", world.report);
    }
    world.check_survivors().map_err(|e| format!("seed {}: at the end: {e}", plan.seed))
}

/// Offline verification of the state after the crash finds nothing.
fn verify_clean(shape: &Shape, images: &[Image]) -> Result<(), String> {
    let shared: Vec<_> =
        (0u64..).zip(images).map(|(i, image)| crate::world::Shared::new(&format!("d{i}"), image.clone(), i)).collect();
    let mut findings = Vec::new();
    let mut devices = crate::world::boxed(&shared);
    forebay_volume::verify::verify(&mut devices, 1, shape.options(), &mut |finding| findings.push(finding))
        .map_err(|error| error.to_string())?;
    if findings.is_empty() { Ok(()) } else { Err(format!("{findings:?}")) }
}

/// Recovers on devices that lose power after a random number of steps.
fn cut_recovery(shape: &Shape, images: Vec<Image>, random: &mut Random) -> Result<Vec<Image>, String> {
    let seed = random.next_u64();
    let shared: Vec<_> = images
        .into_iter()
        .enumerate()
        .map(|(i, image)| crate::world::Shared::new(&format!("d{i}"), image, seed ^ (i as u64 + 1)))
        .collect();
    let after = random.below(60);
    for shared in &shared {
        shared.lock().inner_mut().plan(forebay_device::faulty::Fault::gone_after(after));
    }
    let _ = World::open_shared(shape, shared.clone(), Oracle::default());
    Ok(shared.iter().map(|shared| shared.cut(random)).collect())
}

fn many(name: &str, seeds: std::ops::Range<u64>, shape: &Shape, operations: u32) {
    let count: u64 = std::env::var("FOREBAY_CRASH_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(seeds.end);
    for seed in seeds.start..count {
        if std::env::var("FOREBAY_CRASH_TRACE").is_ok() {
            eprintln!("{name} seed {seed}");
        }
        if let Err(error) = run(Plan { seed, rounds: 4, operations }, shape) {
            panic!("{name}: {error}");
        }
    }
}

#[test]
fn random_histories_survive_power_cuts() {
    many("default", 0..600, &Shape::default(), 60);
}

/// The fast tier is so small that it is nearly always full: destage, bypass and stalls occur everywhere.
#[test]
fn a_full_fast_tier_survives_power_cuts() {
    let shape = Shape { fast_bytes: 1696 << 10, ..Shape::default() };
    many("full fast tier", 0..300, &shape, 120);
}

/// So few bands that garbage collection runs all the time.
#[test]
fn constant_collection_survives_power_cuts() {
    let shape = Shape {
        fast_bytes: 1696 << 10,
        capacity_bytes: 900 << 10,
        band_bytes: 32 << 10,
        leaves: 2,
        ..Shape::default()
    };
    many("constant collection", 0..300, &shape, 160);
}

/// Bands of several groups, each with its own summary. Few bands, so that they are collected, but two more than the histories fill: up to
/// six are open at once, one for each class and lifetime.
fn grouped(band_blocks: u64) -> Shape {
    let band_bytes = band_blocks * 4096;
    Shape {
        fast_bytes: 1696 << 10,
        capacity_bytes: (256 << 10) + 9 * band_bytes,
        band_bytes,
        leaves: 6,
        ..Shape::default()
    }
}

#[test]
fn bands_of_several_groups_survive_power_cuts() {
    many("three groups", 0..150, &grouped(150), 160);
    // The last group of such a band has no data.
    many("an empty group", 0..150, &grouped(65), 160);
}

/// All destaged data is compressed, and collected in that form.
#[test]
fn compressed_blocks_survive_power_cuts() {
    let plain = Shape { compress: Compress::Lz4, ..Shape::default() };
    many("compressed", 0..200, &plain, 120);
    let full = Shape { fast_bytes: 1696 << 10, compress: Compress::Zstd(1), ..Shape::default() };
    many("compressed, full fast tier", 0..200, &full, 160);
    let few_bands = Shape { capacity_bytes: 900 << 10, band_bytes: 32 << 10, leaves: 2, ..full };
    many("compressed, constant collection", 0..200, &few_bands, 200);
    let groups = Shape { compress: Compress::Lz4, ..grouped(150) };
    many("compressed, three groups", 0..150, &groups, 200);
}

/// Fewer frames than leaves: every request may miss, and checkpoints follow one another.
#[test]
fn constant_paging_survives_power_cuts() {
    let shape = Shape { frames: 5, ..Shape::default() };
    many("constant paging", 0..300, &shape, 60);
}

/// Shows that the tests work: with one rule broken, some history fails.
#[cfg(feature = "planted-faults")]
mod planted {
    use super::*;
    use forebay_volume::engine::Faults;

    fn is_found(name: &str, faults: Faults) {
        let small = Shape { fast_bytes: 1696 << 10, faults, ..Shape::default() };
        let shapes = [Shape { faults, ..Shape::default() }, small];
        for seed in 0..400 {
            for shape in &shapes {
                let plan = Plan { seed, rounds: 4, operations: 240 };
                // A broken rule may also fail an assertion.
                match std::panic::catch_unwind(|| run(plan, shape)) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return eprintln!("{name}: found: {error}"),
                    Err(_) => return eprintln!("{name}: found by a panic"),
                }
            }
        }
        panic!("{name}: no history noticed");
    }

    #[test]
    fn a_flush_that_does_nothing_is_found() {
        is_found("flush is a no-op", Faults { flush_is_no_op: true, ..Faults::default() });
    }

    #[test]
    fn checksums_not_compared_are_found() {
        is_found("checksums ignored", Faults { checksums_ignored: true, ..Faults::default() });
    }

    #[test]
    fn space_reused_too_early_is_found() {
        is_found("reuse at once", Faults { reuse_at_once: true, ..Faults::default() });
    }

    #[test]
    fn an_epoch_that_is_not_fenced_is_found() {
        is_found("epoch not fenced", Faults { epoch_not_fenced: true, ..Faults::default() });
    }
}

#[test]
#[ignore = "for looking at one history: SEED=n SHAPE=default|full|collect|paging|groups|empty"]
fn one_history() {
    let seed = std::env::var("SEED").unwrap().parse().unwrap();
    let full = Shape { fast_bytes: 1696 << 10, ..Shape::default() };
    let (shape, operations) = match std::env::var("SHAPE").as_deref() {
        Ok("full") => (full, 120),
        Ok("collect") => (Shape { capacity_bytes: 900 << 10, band_bytes: 32 << 10, leaves: 2, ..full }, 160),
        Ok("groups") => (grouped(150), 160),
        Ok("empty") => (grouped(65), 160),
        Ok("paging") => (Shape { frames: 5, ..Shape::default() }, 60),
        _ => (Shape::default(), 60),
    };
    run(Plan { seed, rounds: 4, operations }, &shape).unwrap();
}
