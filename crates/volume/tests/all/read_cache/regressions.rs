//! Faults of the read cache that reviews found, but neither its tests nor simulated lives.

use super::{cache, cache_reads, count_capacity_reads, read_all, rig_of, rig_with, setup, shuffled};
use crate::holes::device::Region;
use crate::holes::rig::{BLOCK, FAST, Rig, Setup, content, superblock};
use crate::holes::versions::{is_raw, put_raw, self_checked};
use forebay_block::checksum::crc32c;
use forebay_prism::Place;
use forebay_prism::class::ClassChange;
use forebay_volume::layout::warm_list::{HEAD_OFFSET_BYTES, WarmChunk, WarmHead};
use forebay_volume::{EngineOptions, Op};
use std::sync::atomic::Ordering;

/// A copy counted as the newer version of its block where both have the same checksum; after a restart, copies of different blocks were
/// confused too.
#[test]
fn regression_versions_with_one_checksum_are_not_mixed_up() {
    assert_eq!(crc32c(&self_checked(1)), crc32c(&self_checked(2)));
    for (place, crashes) in
        [(Place::Capacity, false), (Place::Capacity, true), (Place::Stage, false), (Place::Both, true)]
    {
        let mut rig = rig_with(300);
        put_raw(&mut rig, 1000, 1);
        rig.flush();
        read_all(&mut rig, &shuffled(100, 1));
        is_raw(&mut rig, 1000, 1);
        rig.pass_ms(2000);
        rig.pass_ms(2000);
        cache_reads(&mut rig, place);
        put_raw(&mut rig, 1000, 2);
        is_raw(&mut rig, 1000, 2);
        // What is staged leaves the tier as others come.
        for block in 2000..2000 + if place == Place::Stage { 900 } else { 0 } {
            rig.put(block, 1, None);
        }
        rig.flush();
        is_raw(&mut rig, 1000, 2);
        let options = rig.setup.options.clone();
        let mut rig = if crashes { rig.crash() } else { rig.restart(options) };
        is_raw(&mut rig, 1000, 2);
        is_raw(&mut rig, 1000, 2);
    }
}

/// Memory for fewer copies than the tier has slots: slots were reserved that copies can never use.
#[test]
fn regression_nothing_is_kept_for_copies_that_there_is_no_memory_for() {
    let base = setup();
    let options = EngineOptions { memory_limit_bytes: 128 * 4096, ..base.options.clone() };
    let mut rig = rig_of(&Setup { options, ..base }, 2000);
    for round in 0..10 {
        read_all(&mut rig, &shuffled(300, round));
    }
    let status = cache(&rig);
    assert!(status.held_blocks <= 128 && status.entitled_blocks <= 128, "{status:?}");
    assert!(status.entitled_blocks > 16, "{status:?}");
}

/// The map needed more slots than are free beside a full cache: only one copy was dropped, and the pool counted as full.
#[test]
fn regression_a_disk_is_added_beside_a_full_cache() {
    let mut rig = rig_with(2000);
    read_all(&mut rig, &shuffled(2000, 1));
    rig.pool.engine.add_disk("more", 200 << 20).unwrap();
    rig.checkpoint();
    let more = rig.pool.engine.disk_named("more").unwrap().id;
    for leaf in 0..100 {
        let op = Op::Write(content(leaf * 400, 1));
        let token = rig.submit_to(more, leaf * 400, BLOCK as u64, op, false, None);
        assert!(rig.wait(token).is_ok(), "leaf {leaf}: {:?}", cache(&rig));
    }
}

/// No list was written for a tier without a free slot, nor for one with far more slots than copies.
#[test]
fn regression_a_list_is_written_of_a_full_tier_and_of_a_nearly_empty_one() {
    let mut rig = rig_with(2000);
    for round in 0..3 {
        read_all(&mut rig, &shuffled(2000, round));
    }
    let held = cache(&rig).held_blocks;
    let options = rig.setup.options.clone();
    let rig = rig.restart(options);
    assert!(cache(&rig).restored_blocks * 100 >= held * 95, "{:?} of {held}", cache(&rig));
    let base = setup();
    let large = Setup { fast_bytes: 600 << 20, ..base };
    let mut rig = rig_of(&large, 200);
    read_all(&mut rig, &shuffled(200, 1));
    let options = large.options.clone();
    let rig = rig.restart(options);
    assert_eq!(cache(&rig).restored_blocks, 200);
}

/// The slots of the list stayed in use until the next start.
#[test]
fn regression_a_cache_that_is_switched_off_leaves_nothing() {
    let mut rig = rig_with(300);
    rig.checkpoint();
    let used = |rig: &Rig| rig.pool.engine.status().fast.used_bytes;
    let before = used(&rig);
    read_all(&mut rig, &shuffled(300, 1));
    (0..5).for_each(|_| rig.pass_ms(2000));
    assert!(used(&rig) > before + 300 * BLOCK as u64, "copies, and a list");
    let change = ClassChange { read_cache: Some(false), ..ClassChange::default() };
    rig.pool.engine.prism_mut().table_mut().set("cold", change).unwrap();
    rig.pool.engine.classes_changed();
    rig.polls(50);
    rig.checkpoint();
    assert!(used(&rig) <= before + 2 * BLOCK as u64, "{} more than {before}", used(&rig) - before);
}

/// A block that was written over between the list and a crash is cached again.
#[test]
fn regression_what_an_old_list_names_is_cached_anew() {
    let mut rig = rig_with(100);
    read_all(&mut rig, &shuffled(100, 1));
    rig.pass_ms(2000);
    rig.pass_ms(2000);
    rig.put(7, 2, None);
    rig.flush();
    let mut rig = rig.crash();
    assert_eq!(rig.get(7), Ok(2));
    rig.pass_ms(10);
    let reads = count_capacity_reads(&rig);
    assert_eq!((rig.get(7), reads.load(Ordering::Relaxed)), (Ok(2), 0));
}

/// A power cut loses a write but leaves its cached copy and the list. The next write of the block gets the same place in the same
/// generation of the band: the old copy was read for it.
#[test]
fn regression_a_copy_of_a_write_that_was_lost_is_not_of_the_next_one() {
    let mut rig = rig_of(&Setup { volatile_fast: true, ..setup() }, 300);
    read_all(&mut rig, &shuffled(100, 1));
    put_raw(&mut rig, 1000, 1);
    let place = rig.pool.engine.status().capacity.live_bytes;
    is_raw(&mut rig, 1000, 1);
    for _ in 0..4 {
        rig.pass_ms(2000);
    }
    let setup = rig.setup.clone();
    let devices = rig.cut(|seen| seen.region == Region::Slots || seen.bytes.starts_with(b"FBW"));
    let mut rig = Rig::open(&setup, devices).unwrap();
    assert!(cache(&rig).restored_blocks > 50, "{:?}", cache(&rig));
    assert!(rig.pool.engine.status().capacity.live_bytes < place, "the write is lost");
    put_raw(&mut rig, 1000, 2);
    rig.flush();
    is_raw(&mut rig, 1000, 2);
}

/// A list is valid only for the next opening: it lacks what another opening wrote since.
#[test]
fn regression_a_list_counts_for_one_opening() {
    let mut rig = rig_with(300);
    read_all(&mut rig, &shuffled(300, 1));
    rig.pass_ms(2000);
    rig.pass_ms(2000);
    let rig = rig.crash();
    assert!(cache(&rig).restored_blocks > 250);
    // Before there is another list.
    let rig = rig.crash();
    assert_eq!(cache(&rig).restored_blocks, 0);
}

/// The slot of a copy holds another version of its block with the same checksum: the copy itself was never written.
#[test]
fn regression_a_copy_that_was_never_written_is_not_believed_for_its_checksum() {
    let mut rig = rig_with(300);
    put_raw(&mut rig, 1000, 1);
    rig.flush();
    read_all(&mut rig, &shuffled(100, 1));
    is_raw(&mut rig, 1000, 1);
    rig.pass_ms(2000);
    rig.pass_ms(2000);
    let setup = rig.setup.clone();
    let devices = rig.cut(|_| true);
    let older = self_checked(2);
    let here = |bytes: &[u8]| bytes.windows(BLOCK).step_by(512).position(|bytes| bytes == &self_checked(1)[..]);
    let copy = devices[FAST].bytes(here).unwrap() as u64 * 512;
    devices[FAST].forge(copy, &older);
    let mut rig = Rig::open(&setup, devices).unwrap();
    is_raw(&mut rig, 1000, 1);
    is_raw(&mut rig, 1000, 1);
}

/// Least memory that a pool can be opened with, whose journal names many leaves, after it was written without a read cache, and then got one.
fn least_memory_bytes(is_cached: bool) -> u64 {
    const LEAVES: u64 = 1200;
    let options = EngineOptions { frames: Some(6000), ..setup().options };
    let setup = Setup {
        fast_bytes: 96 << 20,
        disk_bytes: LEAVES * 400 * BLOCK as u64,
        journal_bytes: 4 << 20,
        options,
        ..setup()
    };
    let mut rig = Rig::new(&setup);
    if is_cached {
        cache_reads(&mut rig, Place::Stage);
    }
    (0..LEAVES).for_each(|leaf| rig.put(leaf * 400, 1, None));
    rig.flush();
    let devices = rig.cut(|_| false);
    let limits = (220..400).map(|step| step * (128 << 10));
    let opens = |memory_limit_bytes: &u64| {
        let options = EngineOptions { memory_limit_bytes: *memory_limit_bytes, frames: None, ..setup.options.clone() };
        Rig::open(&Setup { options, ..setup.clone() }, devices.clone()).is_ok()
    };
    limits.into_iter().find(opens).unwrap()
}

/// Memory that an enabled read cache takes at the next start was missing for the leaves in the journal: the pool could not be opened.
#[test]
fn regression_a_read_cache_that_was_turned_on_does_not_keep_the_pool_from_being_opened() {
    let (without, with) = (least_memory_bytes(false), least_memory_bytes(true));
    assert!(with <= without + (256 << 10), "{with} bytes instead of {without}");
}

/// List numbers restart where no list was found. A chunk of an older list with the same number was accepted where its place had not been
/// rewritten: it names bands by generations that were lost in a power cut and reused.
#[test]
fn regression_a_part_of_an_older_list_is_believed_by_nobody() {
    for is_older in [false, true] {
        let mut rig = rig_with(300);
        read_all(&mut rig, &shuffled(300, 1));
        let setup = rig.setup.clone();
        assert!(rig.pool.close());
        let devices = rig.cut(|_| true);
        let superblock = superblock(&devices);
        let of_fast = |at: u64, len: usize| devices[FAST].bytes(|bytes| bytes[at as usize..at as usize + len].to_vec());
        let head = WarmHead::decode(&of_fast(HEAD_OFFSET_BYTES, 4096), &superblock.pool).unwrap();
        let at = superblock.members[0].data_offset_bytes + head.last.first * BLOCK as u64;
        let chunk = of_fast(at, head.last.slots as usize * BLOCK);
        let chunk = WarmChunk::decode(&chunk, &superblock.pool).unwrap();
        let older = WarmChunk { epoch: head.epoch - u64::from(is_older), ..chunk };
        devices[FAST].forge(at, &older.encode(head.last.slots, &superblock.pool));
        let rig = Rig::open(&setup, devices).unwrap();
        assert_eq!(cache(&rig).restored_blocks == 0, is_older, "{:?}", cache(&rig));
    }
}
