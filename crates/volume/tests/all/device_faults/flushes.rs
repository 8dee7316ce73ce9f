//! Failed flushes.

use super::rig::{CAPACITY, FAST, error_of, fresh, recover, small};
use crate::world::history::{self, WHOLE};
use crate::world::{BULK, Shape};
use forebay_block::Random;
use forebay_device::faulty::{Fault, Target};
use forebay_volume::RequestError;

#[test]
fn a_failed_flush_is_reported_to_all_who_wait_and_made_good_for_all_who_come_later() {
    for device in [FAST, CAPACITY] {
        let mut world = fresh(&Shape::default());
        world.write(0, 8, true, Some(BULK));
        world.settle(0).unwrap();
        world.write(8, 8, false, Some(BULK));
        world.settle(0).unwrap();
        world.shared[device].plan(Fault::nth(Target::Flushes, 0));
        let waiting = [world.flush(), world.flush()];
        world.write(16, 8, true, Some(BULK));
        world.settle(1).unwrap();
        assert_eq!(world.shared[device].struck(), 1);
        for &token in &waiting {
            assert_eq!(error_of(&world, token), Some(&RequestError::FlushFailed), "device {device}");
        }
        world.failures.clear();
        let why = world.pool.engine.status().read_only.unwrap_or_default();
        assert!(why.contains("a flush failed") && why.contains(&format!("d{device}")), "{why}");
        // The device works again; it does not report the lost data a second time.
        world.flush();
        world.write(24, 8, true, None);
        world.clear(32, 8, true, true);
        world.read(0, 24);
        world.settle(0).unwrap();
        assert!(world.failures.is_empty(), "device {device}: {:?}", world.failures);
        assert_eq!(world.pool.engine.status().counters.flushes_made_good, 1);
        recover(world, &mut Random::new(3)).unwrap();
    }
}

/// An export that a reload added while a failed flush was being repaired stayed read-only, because the reason for the present pause of
/// writes was taken for a lasting one.
#[test]
fn regression_a_failed_flush_is_no_lasting_reason_to_take_no_writes() {
    let mut world = fresh(&Shape::default());
    world.write(0, 8, true, Some(BULK));
    world.settle(0).unwrap();
    world.write(8, 8, false, Some(BULK));
    world.settle(0).unwrap();
    world.shared[FAST].plan(Fault::nth(Target::Flushes, 0));
    world.flush();
    world.flush();
    world.write(16, 8, true, Some(BULK));
    world.settle(1).unwrap();
    let engine = &mut world.pool.engine;
    assert!(engine.read_only_reason().is_some_and(|why| why.contains("a flush failed")));
    assert_eq!(engine.lasting_read_only_reason(), None);
    engine.set_read_only("for good");
    assert_eq!(engine.lasting_read_only_reason(), Some("for good"));
}

/// After a failed flush nothing can be freed: writes continue while there is space, and then fail. None waits for ever.
#[test]
fn writes_after_a_failed_flush_end() {
    for device in [FAST, CAPACITY] {
        let mut random = Random::new(5);
        let mut world = fresh(&small());
        world.write(0, 8, false, Some(BULK));
        world.settle(0).unwrap();
        world.shared[device].plan(Fault::nth(Target::Flushes, 0));
        world.flush();
        history::run(&mut world, &mut random, WHOLE, 1500, 16).unwrap();
        world.settle(0).unwrap();
        assert!(world.failures.iter().any(|(_, error)| *error == RequestError::FlushFailed));
        recover(world, &mut random).unwrap();
    }
}

/// The device reports a lost write once: where a destage's flush gets the report, the host's concurrent flush fails too.
#[test]
fn a_flush_beside_a_failed_one_of_a_job_fails_too() {
    let mut beside = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut world = fresh(&small());
        history::run(&mut world, &mut random, WHOLE, 100, 8).unwrap();
        world.shared[CAPACITY].plan(Fault::nth(Target::Flushes, random.below(12)));
        for _ in 0..400 {
            let leaf = random.below(8) * 400;
            world.write((leaf + random.below(24)) * 8, 32, random.chance(1, 3), [None, Some(BULK)][random.index(2)]);
            let before = world.pool.engine.status().flush_failed;
            let flush = world.flush();
            world.settle(0).unwrap();
            let is_refused = error_of(&world, flush) == Some(&RequestError::FlushFailed);
            let is_made_good = !world.pool.engine.status().flush_failed;
            assert!(!before || is_refused || is_made_good, "seed {seed}: a flush after the failure succeeded");
            beside += u64::from(!before && is_refused);
        }
        recover(world, &mut random).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(beside > 10, "{beside}");
}
