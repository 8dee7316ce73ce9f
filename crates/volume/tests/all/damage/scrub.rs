//! A scrub finds exactly what reads would fail on, changes nothing, and continues after a stop and after a power cut.

use super::harm::{Harm, harm, pools};
use crate::world::anatomy::Part;
use crate::world::history::{quiet, stop};
use crate::world::{Shape, World};
use forebay_volume::layout::scrub_record::ScrubState;
use std::collections::BTreeSet;

const LEAF_BLOCKS: u64 = 400;

const TICK_NS: u64 = 20_000_000;

fn pass_time(world: &mut World) -> Result<(), String> {
    world.now_ns += TICK_NS;
    world.pool.tick(world.now_ns);
    world.poll()
}

/// Lets time pass until no scrub pass runs.
fn to_its_end(world: &mut World) -> Result<(), String> {
    for _ in 0..20_000 {
        if world.pool.engine.scrub().record.state == ScrubState::Idle {
            return quiet(world);
        }
        pass_time(world)?;
    }
    Err(format!("a scrub without end: {:?}", world.pool.engine.scrub()))
}

/// Unreadable blocks among those that a leaf maps or may map.
fn unreadable(world: &mut World) -> BTreeSet<u64> {
    let blocks = world.shape.disk_bytes / 4096;
    (0..blocks).filter(|&block| world.try_read_block(block).unwrap().is_err()).collect()
}

fn found(world: &World) -> BTreeSet<u64> {
    let scrub = world.pool.engine.scrub();
    let ranges =
        scrub.found.iter().map(|found| found.offset_bytes / 4096..(found.offset_bytes + found.len_bytes) / 4096);
    ranges.flatten().collect()
}

#[test]
fn finds_each_block_that_cannot_be_read_and_no_other() {
    let mut met = 0;
    for (name, aged, anatomy, mut random) in pools(0..6) {
        let mut images = aged.images.clone();
        for part in [Part::Slot, Part::BandData, Part::BandData, Part::Leaf] {
            let places = anatomy.of_part(part);
            for _ in 0..places.len().min(if part == Part::Leaf { 1 } else { 5 }) {
                let place = places[random.index(places.len())];
                harm(&aged, &mut images, place.device, &place.bytes, Harm::Flip, &mut random);
            }
        }
        let mut world = World::open(&aged.shape, images, 1, aged.oracle.clone()).unwrap();
        let read_by_hosts = |world: &World| {
            let status = world.pool.engine.status();
            (status.classes.iter().map(|class| class.host_read_bytes).sum::<u64>(), status.counters.damaged_reads)
        };
        let before = read_by_hosts(&world);
        world.pool.engine.set_unix_time(1000);
        world.pool.engine.start_scrub();
        to_its_end(&mut world).unwrap_or_else(|error| panic!("{name}: {error}"));
        let record = world.pool.engine.scrub().record;
        let last = record.last.unwrap();
        assert_eq!((record.state, last.began_unix_s, last.ended_unix_s), (ScrubState::Idle, 1000, 1000), "{name}");
        let found = found(&world);
        assert_eq!(last.bad_blocks, found.len() as u64, "{name}");
        assert_eq!(read_by_hosts(&world), before, "{name}: no host has read anything");
        let unreadable = unreadable(&mut world);
        assert_eq!(found, unreadable, "{name}");
        met += found.len();
        // A second pass finds the same: the first changed nothing.
        world.pool.engine.start_scrub();
        to_its_end(&mut world).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(world.pool.engine.scrub().record.last.unwrap().bad_blocks, last.bad_blocks, "{name}");
    }
    assert!(met > 100, "{met}");
}

#[test]
fn reads_all_that_is_stored_and_goes_on_where_it_was() {
    let shape = Shape::default();
    let mut world = World::open(&shape, shape.format(), 1, crate::world::Oracle::default()).unwrap();
    for leaf in 0..shape.leaves {
        world.write(leaf * LEAF_BLOCKS * 8, 32 * 8, false, None);
        world.settle(0).unwrap();
    }
    world.flush();
    world.settle(0).unwrap();
    // More than a second for each step, so that the stop comes during the pass.
    world.pool.engine.set_scrub_rate(64 << 10);
    world.now_ns += 1_000_000_000;
    world.pool.engine.start_scrub();
    for _ in 0..3 {
        world.now_ns += 2_000_000_000;
        world.pool.tick(world.now_ns);
        quiet(&mut world).unwrap();
    }
    let before = world.pool.engine.scrub().record;
    assert!(before.state == ScrubState::Running && before.pass.good_blocks > 0, "{before:?}");
    assert!(world.pool.engine.pause_scrub() && !world.pool.engine.pause_scrub());
    world.now_ns += 9_000_000_000;
    world.pool.tick(world.now_ns);
    quiet(&mut world).unwrap();
    assert_eq!(world.pool.engine.scrub().record.pass, before.pass, "it was to wait");
    stop(&mut world).unwrap();
    let images = world.shared.iter().map(crate::world::Shared::durable).collect();
    let mut world = World::open(&shape, images, 2, world.oracle).unwrap();
    let paused = world.pool.engine.scrub().record;
    assert_eq!((paused.state, paused.disk, paused.block), (ScrubState::Paused, before.disk, before.block));
    world.pool.engine.start_scrub();
    to_its_end(&mut world).unwrap();
    let last = world.pool.engine.scrub().record.last.unwrap();
    assert_eq!((last.good_blocks, last.bad_blocks), (shape.leaves * 32, 0));
}

#[test]
fn goes_on_after_power_cuts_beside_a_busy_host() {
    for (name, aged, _, mut random) in pools(20..24) {
        let mut world = World::open(&aged.shape, aged.images.clone(), 1, aged.oracle.clone()).unwrap();
        world.check_survivors().unwrap_or_else(|error| panic!("{name}: {error}"));
        world.pool.engine.start_scrub();
        for _ in 0..3 {
            for _ in 0..40 {
                let block = random.below(8) * LEAF_BLOCKS + random.below(24);
                match random.below(8) {
                    0 => drop(world.flush()),
                    1 => drop(world.clear(block * 8, 16 * 8, false, true)),
                    _ => drop(world.write(block * 8, 8, random.chance(1, 8), None)),
                }
                world.now_ns += random.below(40_000_000);
                world.pool.tick(world.now_ns);
                world.settle(6).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            let shape = world.shape.clone();
            let (images, oracle) = world.cut(&mut random);
            world = World::open(&shape, images, 1, oracle).unwrap_or_else(|error| panic!("{name}: {error}"));
            world.check_survivors().unwrap_or_else(|error| panic!("{name}: {error}"));
            world.pool.engine.start_scrub();
        }
        to_its_end(&mut world).unwrap_or_else(|error| panic!("{name}: {error}"));
        world.check_survivors().unwrap_or_else(|error| panic!("{name}: {error}"));
        let last = world.pool.engine.scrub().record.last.unwrap();
        assert_eq!(last.bad_blocks, 0, "{name}");
    }
}

/// A stop in the middle of a pass was not clean: the pass, which ended meanwhile, requested a checkpoint of its own.
#[test]
fn regression_a_pass_that_ends_while_the_pool_stops() {
    for (name, aged, ..) in pools(30..33) {
        for ticks in 0..12 {
            let mut world = World::open(&aged.shape, aged.images.clone(), 1, aged.oracle.clone()).unwrap();
            world.check_survivors().unwrap_or_else(|error| panic!("{name}: {error}"));
            world.now_ns += 1_000_000_000;
            world.pool.engine.start_scrub();
            for _ in 0..ticks {
                world.now_ns += 10_000_000;
                world.pool.tick(world.now_ns);
                world.pool.poll_once(&mut Vec::new());
            }
            assert!(world.pool.close(), "{name}");
            let images = world.shared.iter().map(crate::world::Shared::durable).collect();
            let world = World::open(&aged.shape, images, 2, world.oracle).unwrap();
            assert!(world.report.clean, "{name}, {ticks} ticks");
        }
    }
}
