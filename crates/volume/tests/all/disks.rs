//! Adding and removing disks.

use crate::holes::rig::{Rig, Setup, findings};
use crate::world::{Oracle, Shape, World, history};
use forebay_block::Random;
use forebay_prism::{ClassSpec, Place};
use forebay_volume::layout::page::LEAF_ENTRIES;
use forebay_volume::{AdminError, Op};

/// A disk added during a checkpoint keeps its id.
#[test]
fn a_disk_added_during_a_checkpoint_is_not_replaced() {
    let shape = Shape::default();
    let mut world = World::open(&shape, shape.format(), 1, Oracle::default()).unwrap();
    world.write(0, 8, true, None);
    world.settle(0).unwrap();
    let before = world.pool.engine.checkpoint_number();
    world.pool.engine.request_checkpoint(false);
    world.pool.engine.pump();
    let second = world.pool.engine.add_disk("second", 1 << 20).unwrap();
    while world.pool.engine.checkpoint_number() == before {
        world.poll().unwrap();
    }
    let (images, oracle) = world.cut(&mut Random::new(1));
    let mut world = World::open(&shape, images, 1, oracle).unwrap();
    assert_eq!(world.pool.engine.disk_named("second").map(|d| d.id), Some(second));
    let third = world.pool.engine.add_disk("third", 1 << 20).unwrap();
    assert!(world.pool.engine.disk_named("second").is_some(), "replaced by third, id {third:?}");
}

/// Removing a disk frees its index pages.
#[test]
fn a_removed_disk_leaves_no_slots_behind() {
    let shape = Shape { frames: 40, ..Shape::default() };
    let mut world = World::open(&shape, shape.format(), 1, Oracle::default()).unwrap();
    let checkpoint = |world: &mut World| {
        let n = world.pool.engine.checkpoint_number();
        world.pool.engine.request_checkpoint(false);
        while world.pool.engine.checkpoint_number() == n || world.pool.engine.checkpoint_pending() {
            world.poll().unwrap();
        }
        history::quiet(world).unwrap();
    };
    checkpoint(&mut world);
    let used = world.pool.engine.status().fast.used_bytes;
    for round in 0..3 {
        let id = world.pool.engine.add_disk("x", 1 << 20).unwrap();
        checkpoint(&mut world);
        for op in [
            forebay_volume::Op::Write({
                let mut b = forebay_block::Buf::new(4096);
                b.fill(7);
                b
            }),
            forebay_volume::Op::Discard,
        ] {
            world.pool.submit(forebay_volume::Request::new(1 << 40, id, 0, 4096, op));
            let mut done = Vec::new();
            while done.is_empty() {
                world.pool.poll_once(&mut done);
            }
            assert!(done[0].result.is_ok());
            checkpoint(&mut world);
        }
        world.pool.engine.remove_disk("x").unwrap();
        checkpoint(&mut world);
        eprintln!("round {round}: used {} before {used}", world.pool.engine.status().fast.used_bytes);
    }
    assert_eq!(world.pool.engine.status().fast.used_bytes, used);
}

/// A request across two leaves of the map was classified part by part, each by the part's length.
#[test]
fn regression_a_rule_of_request_size_holds_across_leaves_of_the_map() {
    let mut rig = Rig::new(&Setup::default());
    let rules = vec!["request_size>=128KiB".to_owned()];
    let big = ClassSpec { rules, ..ClassSpec::new("big", Place::Capacity) };
    rig.pool.engine.prism_mut().table_mut().merge(&[big]).unwrap();
    rig.pool.engine.classes_changed();
    let first = LEAF_ENTRIES as u64 - 2;
    for (blocks, wanted) in [(32, 32), (31, 32)] {
        let token = rig.write_run(first, blocks, 1, false, None);
        rig.wait(token).unwrap();
        let id = rig.pool.engine.prism().table().id_of("big").unwrap();
        let written = rig.pool.engine.status().classes[usize::from(id.0)].host_written_bytes;
        assert_eq!(written, wanted * 4096, "{blocks} blocks");
    }
}

/// Blocks discarded behind the new end counted as data until a restart, or for ever where live data shares their leaf of the map.
#[test]
fn regression_a_disk_shrinks_to_any_size_behind_which_all_was_discarded() {
    let mut rig = Rig::new(&Setup::default());
    let leaf = LEAF_ENTRIES as u64;
    let token = rig.write_run(leaf - 20, 60, 1, false, None);
    rig.wait(token).unwrap();
    let wanted = (leaf + 10) * 4096;
    let resize = |rig: &mut Rig| rig.pool.engine.resize_disk("disk", wanted);
    let token = rig.write_run(3 * leaf + 7, 10, 1, false, None);
    rig.wait(token).unwrap();
    rig.checkpoint();
    rig.polls(50);
    let refused = resize(&mut rig);
    assert!(matches!(refused, Err(AdminError::MappedBeyond(_))), "{refused:?}");
    let disk = rig.disk;
    let token = rig.submit_to(disk, leaf + 10, 4 * leaf * 4096, Op::Discard, false, None);
    rig.wait(token).unwrap();
    rig.checkpoint();
    rig.polls(50);
    assert_eq!(resize(&mut rig), Ok(()));
    rig.checkpoint();
    let token = rig.submit_to(disk, leaf + 10, 4096, Op::Read, false, None);
    assert!(rig.wait(token).is_err(), "behind the end");
    for block in leaf - 20..leaf + 10 {
        assert_eq!(rig.get(block), Ok(1));
    }
    let setup = rig.setup.clone();
    assert!(rig.pool.close());
    assert_eq!(findings(&setup, &rig.cut(|_| true)), Vec::<String>::new());
}

/// Zeros behind the new end stayed in the leaf in which the disk ends: the disk could no longer be removed or shrunk.
#[test]
fn regression_a_disk_that_has_lost_zeros_can_be_removed() {
    let mut rig = Rig::new(&Setup::default());
    let token = rig.write_run(0, 20, 1, false, None);
    rig.wait(token).unwrap();
    let disk = rig.disk;
    let token = rig.submit_to(disk, 20, 20 * 4096, Op::WriteZeroes { may_unmap: false }, false, None);
    rig.wait(token).unwrap();
    rig.checkpoint();
    rig.polls(50);
    assert_eq!(rig.pool.engine.resize_disk("disk", 30 * 4096), Ok(()));
    rig.checkpoint();
    let token = rig.submit_to(disk, 0, 30 * 4096, Op::Discard, false, None);
    rig.wait(token).unwrap();
    rig.checkpoint();
    rig.polls(50);
    assert_eq!(rig.pool.engine.remove_disk("disk"), Ok(()));
}

/// After a crash during the removal of a disk, the next start served the rest under the disk's name.
#[test]
fn regression_what_is_left_of_a_removed_disk_has_not_its_name() {
    let mut rig = Rig::new(&Setup::default());
    let id = rig.pool.engine.add_disk("x", 8 << 20).unwrap();
    rig.checkpoint();
    let write = |rig: &mut Rig, block| {
        let data = crate::holes::rig::content(block, 1);
        let token = rig.submit_to(id, block, 4096, Op::Write(data), false, None);
        rig.wait(token).unwrap();
    };
    (0..8).for_each(|block| write(&mut rig, block));
    rig.pool.engine.begin_removal(id);
    rig.pool.engine.begin_removal(id);
    rig.checkpoint();
    let token = rig.submit_to(id, 0, 4 * 4096, Op::Discard, true, None);
    rig.wait(token).unwrap();
    let mut rig = rig.crash();
    let engine = &mut rig.pool.engine;
    assert_eq!(engine.disk_named("x").map(|disk| disk.id), None);
    let left = engine.disk_to_remove("x").unwrap();
    assert!(left.id == id && left.is_being_removed());
    let name = left.name.clone();
    assert!(matches!(engine.add_disk(&name, 1 << 20), Err(AdminError::BadName(_))));
    let second = engine.add_disk("x", 1 << 20).unwrap();
    assert_eq!(engine.disk_to_remove("x").map(|disk| disk.id), Some(second), "one that has the name comes first");
    rig.checkpoint();
    let token = rig.submit_to(id, 0, 8 << 20, Op::Discard, false, None);
    rig.wait(token).unwrap();
    rig.checkpoint();
    rig.polls(50);
    assert_eq!(rig.pool.engine.remove_disk(&name), Ok(()));
    rig.checkpoint();
    let rig = rig.crash();
    assert!(rig.pool.engine.disks().all(|disk| disk.id != id));
    assert_eq!(rig.pool.engine.disk_named("x").map(|disk| disk.id), Some(second));
}
