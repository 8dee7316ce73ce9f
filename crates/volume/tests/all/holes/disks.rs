//! Disks that are added or enlarged.

use super::device::{Kind, Region};
use super::rig::{BLOCK, BULK, CAPACITY, FAST, Rig, Setup, content, held};
use forebay_block::DiskId;
use forebay_volume::engine::AdminError;
use forebay_volume::{EngineOptions, Op};

/// Writes a block of a disk and flushes, with a time limit. Whether both were acknowledged.
fn is_acknowledged(rig: &mut Rig, disk: DiskId, block: u64) -> bool {
    let write = rig.submit_to(disk, block, BLOCK as u64, Op::Write(content(block, 7)), true, None);
    rig.polls(2000);
    let flush = rig.submit_to(disk, 0, 0, Op::Flush, false, None);
    rig.polls(2000);
    [write, flush].iter().all(|&token| rig.answer(token).is_some_and(Result::is_ok))
}

/// Holds every checkpoint.
fn hold_roots(rig: &Rig) {
    rig.devices[FAST].rule(|seen| held(seen.is(Kind::Write, Region::Root)));
}

/// A disk becomes durable with the next checkpoint but was served at once: a host's flush succeeded, the power was cut, and recovery
/// dropped the records of a disk that it did not know.
#[test]
fn hole_04_a_disk_served_before_it_is_durable() {
    let mut rig = Rig::new(&Setup::default());
    hold_roots(&rig);
    let second = rig.pool.engine.add_disk("second", 1 << 20).unwrap();
    let acknowledged = is_acknowledged(&mut rig, second, 5);
    let mut rig = rig.crash();
    if acknowledged {
        assert!(rig.pool.engine.disk_named("second").is_some(), "acknowledged, and the disk is gone");
        assert_eq!(rig.get_from(second, 5), Ok(7), "acknowledged, and gone");
    }
}

/// The same for the enlarged part of a disk.
#[test]
fn hole_04_a_disk_served_beyond_its_old_end_before_that_is_durable() {
    let mut rig = Rig::new(&Setup::default());
    let old_blocks = rig.setup.disk_bytes / BLOCK as u64;
    hold_roots(&rig);
    rig.pool.engine.resize_disk("disk", 2 * old_blocks * BLOCK as u64).unwrap();
    let disk = rig.disk;
    let acknowledged = is_acknowledged(&mut rig, disk, old_blocks + 1);
    let mut rig = rig.crash();
    if acknowledged {
        assert_eq!(rig.get(old_blocks + 1), Ok(7), "acknowledged, and gone");
    }
}

/// Once durable, a new disk and the new part of an enlarged one are served and keep their data.
#[test]
fn disks_added_and_grown_are_served_once_they_are_durable() {
    let mut rig = Rig::new(&Setup::default());
    let old_blocks = rig.setup.disk_bytes / BLOCK as u64;
    let second = rig.pool.engine.add_disk("second", 1 << 20).unwrap();
    rig.pool.engine.resize_disk("disk", 2 * old_blocks * BLOCK as u64).unwrap();
    rig.checkpoint();
    rig.polls(50);
    let disk = rig.disk;
    assert!(is_acknowledged(&mut rig, second, 5) && is_acknowledged(&mut rig, disk, old_blocks + 1));
    let mut rig = rig.crash();
    assert_eq!((rig.get_from(second, 5), rig.get(old_blocks + 1)), (Ok(7), Ok(7)));
}

/// A new disk takes memory at the next opening, which leaves less for leaves of the map: those named in the journal before the power cut
/// did not fit, and the pool was not opened.
#[test]
fn leaves_dirty_beside_a_new_disk_fit_into_what_it_leaves_of_memory() {
    let options = EngineOptions { frames: None, memory_limit_bytes: 48 << 20, ..Setup::default().options };
    let mut rig = Rig::new(&Setup { fast_bytes: 64 << 20, disk_bytes: 4 << 30, options, ..Setup::default() });
    let largest = (1..64).rev().find(|size| rig.pool.engine.add_disk("large", size << 36).is_ok());
    assert!(largest.is_some_and(|size| size > 1), "{largest:?}");
    rig.checkpoint();
    hold_roots(&rig);
    let tokens: Vec<u64> = (0..2000).map(|leaf| rig.write(400 * leaf, 1, None)).collect();
    rig.polls(2000);
    let ended = tokens.iter().filter(|&&token| rig.answer(token).is_some()).count();
    assert!(ended > 10, "{ended} writes ended");
    let mut rig = rig.crash();
    (0..2000).for_each(|leaf| assert!(rig.get(400 * leaf).is_ok()));
}

/// Read-ahead, jobs and read cache took their shares of the whole limit even where tables took nearly all of it: the map had so few leaves
/// that a checkpoint followed every few writes.
#[test]
fn regression_where_tables_take_most_of_the_memory_the_map_has_most_of_the_rest() {
    const LIMIT_BYTES: u64 = 48 << 20;
    let options = EngineOptions { frames: None, memory_limit_bytes: LIMIT_BYTES, ..Setup::default().options };
    let mut rig =
        Rig::new(&Setup { fast_bytes: 64 << 20, disk_bytes: 4 << 30, options: options.clone(), ..Setup::default() });
    let added = (1..1 << 12).rev().find(|gib| rig.pool.engine.add_disk("large", gib << 30).is_ok());
    assert!(added.is_some_and(|gib| gib > 100), "{added:?}");
    rig.pool.engine.resize_disk("large", (added.unwrap() - 64) << 30).unwrap();
    rig.checkpoint();
    let rig = rig.restart(options);
    let leaves = rig.pool.engine.status().leaves_limit;
    assert!(leaves > 250, "{leaves} leaves");
}

/// Requests admitted before a disk was added had used more memory: the next root named the disk, and recovery had to hold more leaves than
/// fitted beside it.
#[test]
fn a_disk_that_leaves_too_little_memory_for_what_is_in_progress_has_to_wait() {
    let options = EngineOptions { frames: None, memory_limit_bytes: 48 << 20, ..Setup::default().options };
    let base = Setup { capacity_bytes: 16 << 20, options, ..Setup::default() };
    let mut rig = Rig::new(&Setup { fast_bytes: 64 << 20, disk_bytes: 4 << 30, ..base });
    rig.devices[CAPACITY].rule(|seen| held(seen.is(Kind::Write, Region::Bands)));
    let tokens: Vec<u64> = (0..900).map(|leaf| rig.write(400 * leaf, 1, BULK)).collect();
    rig.polls(200);
    let largest = (1..64).rev().find_map(|size| match rig.pool.engine.add_disk("large", size << 36) {
        Err(AdminError::Memory { .. }) => None,
        answer => Some((size, answer)),
    });
    let Some((size, Err(AdminError::Busy))) = largest else { panic!("{largest:?}") };
    rig.devices[CAPACITY].heal();
    assert!(rig.until(|rig| rig.pool.engine.add_disk("large", size << 36).is_ok()));
    rig.checkpoint();
    tokens.into_iter().for_each(|token| assert!(rig.wait(token).is_ok()));
    rig.flush();
    let mut rig = rig.crash();
    (0..900).for_each(|leaf| assert_eq!(rig.get(400 * leaf), Ok(1)));
}
