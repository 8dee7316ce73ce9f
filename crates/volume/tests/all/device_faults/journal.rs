//! Unwritable journal and checkpoints.

use super::rig::{FAST, error_of, fresh, is_device_error, recover, superblock};
use crate::world::Shape;
use crate::world::history::{self, WHOLE};
use forebay_block::Random;
use forebay_device::faulty::{Fault, Target};
use forebay_volume::RequestError;

#[test]
fn a_journal_that_cannot_be_written_makes_the_pool_read_only() {
    for carried_out in [false, true] {
        let shape = Shape::default();
        let journal = superblock(&shape);
        let range = journal.journal_offset_bytes..journal.journal_offset_bytes + journal.journal_len_bytes;
        let mut random = Random::new(6);
        let mut world = fresh(&shape);
        history::run(&mut world, &mut random, WHOLE, 30, 4).unwrap();
        world.settle(0).unwrap();
        world.shared[FAST].plan(Fault { carried_out, ..Fault::range(Target::Writes, range) });
        let failed = world.write(0, 8, false, None);
        world.settle(0).unwrap();
        assert!(is_device_error(error_of(&world, failed), "d0"), "{:?}", world.failures);
        let reason = world.pool.engine.read_only_reason().unwrap().to_owned();
        assert!(reason.contains("journal") && reason.contains("d0"), "{reason}");
        for token in [world.write(8, 8, false, None), world.clear(16, 8, false, true), world.clear(24, 8, true, false)]
        {
            world.settle(0).unwrap();
            assert_eq!(error_of(&world, token), Some(&RequestError::ReadOnly(reason.clone())));
        }
        world.failures.clear();
        (0..8).for_each(|leaf| _ = world.read(leaf * 400 * 8, 8 * 24));
        world.flush();
        world.settle(0).unwrap();
        assert!(world.failures.is_empty(), "{:?} {:?}", world.failures, world.pool.engine.status().counters);
        recover(world, &mut random).unwrap();
    }
}

/// A few failed writes of a batch are retried.
#[test]
fn a_journal_write_that_fails_once_is_repeated() {
    let shape = Shape::default();
    let journal = superblock(&shape);
    let range = journal.journal_offset_bytes..journal.journal_offset_bytes + journal.journal_len_bytes;
    for carried_out in [false, true] {
        let mut world = fresh(&shape);
        world.shared[FAST].plan(Fault { carried_out, count: 3, ..Fault::range(Target::Writes, range.clone()) });
        world.write(0, 8, true, None);
        world.settle(0).unwrap();
        assert_eq!(world.shared[FAST].struck(), 3);
        assert!(world.failures.is_empty() && world.pool.engine.read_only_reason().is_none());
        recover(world, &mut Random::new(3)).unwrap();
    }
}

/// Checkpoints can never be written: the journal fills, and then writes must fail with a reason.
#[test]
fn writes_do_not_wait_for_ever_for_a_checkpoint_that_cannot_be_written() {
    let shape = Shape::default();
    let s = superblock(&shape);
    for area in s.root_offsets_bytes {
        let mut random = Random::new(8);
        let mut world = fresh(&shape);
        world.shared[FAST].plan(Fault::range(Target::Writes, area..area + s.root_len_bytes));
        history::run(&mut world, &mut random, WHOLE, 2000, 8)
            .and_then(|()| world.settle(0))
            .unwrap_or_else(|e| panic!("{e}"));
        assert!(!world.failures.is_empty());
        world.failures.clear();
        world.read(0, 8);
        world.settle(0).unwrap();
        assert!(world.failures.is_empty(), "{:?} {:?}", world.failures, world.pool.engine.status().counters);
        recover(world, &mut random).unwrap();
    }
}
