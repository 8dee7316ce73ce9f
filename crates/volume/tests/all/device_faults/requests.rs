//! Failures that concern one request of a host.

use super::rig::{CAPACITY, FAST, error_of, fresh, is_device_error, recover, small};
use crate::world::{BULK, Shape};
use forebay_block::Random;
use forebay_device::faulty::{Fault, Target};
use forebay_volume::RequestError;

#[test]
fn a_failed_read_concerns_its_reader_only() {
    for (device, tag) in [(FAST, None), (CAPACITY, Some(BULK))] {
        let mut world = fresh(&Shape::default());
        for block in 0..8 {
            world.write(block * 8, 8, false, tag);
        }
        world.settle(0).unwrap();
        world.shared[device].plan(Fault::nth(Target::Reads, 0));
        world.read(0, 8);
        world.settle(0).unwrap();
        // A single failure is retried and never reaches the reader.
        assert!(world.failures.is_empty(), "{:?}", world.failures);
        // Each of the first readers fails twice, or one of them does where it is alone.
        world.shared[device].plan(Fault { count: 2, ..Fault::nth(Target::Reads, 0) });
        let token = world.read(0, 8);
        world.settle(0).unwrap();
        assert!(is_device_error(error_of(&world, token), &format!("d{device}")), "{:?}", world.failures);
        world.failures.clear();
        world.shared[device].plan(Fault { count: 9, ..Fault::nth(Target::Reads, 0) });
        let reads: Vec<u64> = (0..8).map(|block| world.read(block * 8, 8)).collect();
        world.settle(0).unwrap();
        assert!((1..=8).contains(&world.failures.len()), "{:?}", world.failures);
        assert!(
            world.failures.iter().all(|(t, e)| reads.contains(t) && is_device_error(Some(e), &format!("d{device}")))
        );
        world.failures.clear();
        world.shared[device].heal();
        (0..8).for_each(|block| _ = world.read(block * 8, 8));
        world.settle(0).unwrap();
        assert!(world.failures.is_empty(), "{:?}", world.failures);
    }
}

#[test]
fn a_failed_data_write_concerns_its_writer_only() {
    for carried_out in [false, true] {
        let mut world = fresh(&Shape::default());
        world.write(0, 8, false, Some(BULK));
        world.settle(0).unwrap();
        world.flush();
        world.settle(0).unwrap();
        world.shared[CAPACITY].plan(Fault { carried_out, ..Fault::nth(Target::Writes, 0) });
        let failed = world.write(0, 8, false, Some(BULK));
        world.settle(0).unwrap();
        assert!(is_device_error(error_of(&world, failed), "d1"), "{:?}", world.failures);
        world.failures.clear();
        world.write(8, 8, true, Some(BULK));
        world.write(16, 8, true, None);
        world.read(0, 24);
        world.settle(0).unwrap();
        assert!(world.failures.is_empty() && world.pool.engine.read_only_reason().is_none());
        recover(world, &mut Random::new(3)).unwrap();
    }
}

/// A partial write needs the rest of its block: where the rest is unreadable, the block does not change.
#[test]
fn a_failed_merge_changes_nothing() {
    let mut world = fresh(&Shape::default());
    world.write(0, 8, true, None);
    world.settle(0).unwrap();
    let before = world.read_block(0).unwrap();
    world.shared[FAST].plan(Fault { count: 4, ..Fault::nth(Target::Reads, 0) });
    let failed = world.write(2, 1, false, None);
    world.settle(0).unwrap();
    assert!(is_device_error(error_of(&world, failed), "d0"), "{:?}", world.failures);
    world.shared[FAST].heal();
    assert_eq!(world.read_block(0).unwrap()[..], before[..]);
}

/// A full pool answers with an error.
#[test]
fn a_full_pool_answers() {
    let shape = Shape { disk_bytes: 16 << 20, ..small() };
    let mut world = fresh(&shape);
    // Marks the world as one whose requests may fail.
    world.shared[CAPACITY].plan(Fault { count: 1, ..Fault::nth(Target::Zeroes, 0) });
    let blocks = shape.disk_bytes / 4096;
    for block in (0..blocks).step_by(4) {
        world.write(block * 8, 32, false, None);
        let settled = world.settle(4);
        let full = world.failures.iter().all(|(_, error)| *error == RequestError::NoSpace);
        assert!(full, "{:?}", world.failures);
        match settled {
            Ok(()) => {}
            Err(error) if error.contains("no space") => break,
            Err(error) if error.contains("full") => break,
            Err(error) => panic!("block {block} of {blocks}: {error}"),
        }
    }
    assert!(!world.failures.is_empty(), "never full");
}
