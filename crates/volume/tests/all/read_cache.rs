//! A read cache: repeated reads come from the fast tier, also after a restart. The cache takes no space from other data, and its failures
//! never cause wrong reads.

mod copies;
mod memory;
mod regressions;

use crate::holes::device::{Fate, Kind};
use crate::holes::rig::{BLOCK, CAPACITY, FAST, Rig, Setup, failed, findings};
use forebay_block::Random;
use forebay_prism::Place;
use forebay_prism::class::ClassChange;
use forebay_volume::engine::ReadCacheStatus;
use forebay_volume::{EngineOptions, Op};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Some 480 slots; the bands hold 8,000 blocks. Nothing is cached in memory.
fn setup() -> Setup {
    let options = EngineOptions {
        warm_list_interval_ns: 1_000_000_000,
        destage_above_percent: 90,
        recent_reads_bytes: Some(0),
        ..Setup::default().options
    };
    Setup { capacity_bytes: 36 << 20, band_bytes: 512 << 10, disk_bytes: 32 << 20, options, ..Setup::default() }
}

/// The default class goes to the capacity tier with cached reads, also over restarts.
fn cache_reads(rig: &mut Rig, place: Place) {
    let change = ClassChange { place: Some(place), read_cache: Some(true), ..ClassChange::default() };
    rig.pool.engine.prism_mut().table_mut().set("cold", change).unwrap();
    rig.pool.engine.classes_changed();
    rig.checkpoint();
}

fn rig_with(blocks: u64) -> Rig {
    rig_of(&setup(), blocks)
}

fn rig_of(setup: &Setup, blocks: u64) -> Rig {
    let mut rig = Rig::new(setup);
    cache_reads(&mut rig, Place::Capacity);
    for first in (0..blocks).step_by(50) {
        let token = rig.write_run(first, 50.min(blocks - first), 1, false, None);
        rig.wait(token).unwrap();
    }
    rig.flush();
    rig
}

/// Blocks in a non-sequential order.
fn shuffled(blocks: u64, seed: u64) -> Vec<u64> {
    let (mut order, mut random) = ((0..blocks).collect::<Vec<_>>(), Random::new(seed));
    for at in (1..order.len()).rev() {
        order.swap(at, random.index(at + 1));
    }
    order
}

fn read_all(rig: &mut Rig, order: &[u64]) {
    for &block in order {
        assert_eq!(rig.get(block), Ok(1));
        rig.pass_ms(1);
    }
}

fn cache(rig: &Rig) -> ReadCacheStatus {
    rig.pool.engine.status().read_cache
}

/// Counts reads of data on the capacity device from now on.
fn count_capacity_reads(rig: &Rig) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    rig.devices[CAPACITY].rule(move |seen| {
        counted.fetch_add(u64::from(seen.kind == Kind::Read), Ordering::Relaxed);
        Fate::Good
    });
    count
}

#[test]
fn what_is_read_again_is_read_from_the_fast_tier() {
    let mut rig = rig_with(200);
    read_all(&mut rig, &shuffled(200, 1));
    assert_eq!(cache(&rig).held_blocks, 200);
    let reads = count_capacity_reads(&rig);
    read_all(&mut rig, &shuffled(200, 2));
    assert_eq!(reads.load(Ordering::Relaxed), 0);
    let ReadCacheStatus { hit_blocks, missed_blocks, written_blocks, .. } = cache(&rig);
    assert_eq!((hit_blocks, missed_blocks, written_blocks), (200, 200, 200));
    // Written or discarded blocks have no copies any more.
    rig.put(7, 2, None);
    let token = rig.submit_to(rig.disk, 8, BLOCK as u64, Op::Discard, false, None);
    rig.wait(token).unwrap();
    assert_eq!((rig.get(7), rig.get(8), rig.get(9)), (Ok(2), Ok(0), Ok(1)));
    assert_eq!(cache(&rig).held_blocks, 199, "the new content of block 7 has one since it was read");
    let setup = rig.setup.clone();
    assert!(rig.pool.close());
    assert_eq!(findings(&setup, &rig.cut(|_| true)), Vec::<String>::new());
}

#[test]
fn classes_that_are_not_cached_get_no_copies_and_those_that_were_lose_theirs() {
    let mut rig = rig_with(100);
    let change = |rig: &mut Rig, read_cache| {
        let change = ClassChange { read_cache: Some(read_cache), ..ClassChange::default() };
        rig.pool.engine.prism_mut().table_mut().set("cold", change).unwrap();
        rig.pool.engine.classes_changed();
    };
    change(&mut rig, false);
    read_all(&mut rig, &shuffled(100, 1));
    assert_eq!(cache(&rig), ReadCacheStatus::default());
    change(&mut rig, true);
    read_all(&mut rig, &shuffled(100, 1));
    assert_eq!(cache(&rig).held_blocks, 100);
    let free = |rig: &Rig| rig.pool.engine.status().fast.used_bytes;
    let before = free(&rig);
    change(&mut rig, false);
    rig.polls(5);
    assert_eq!(cache(&rig).held_blocks, 0);
    assert!(before - free(&rig) >= 100 * BLOCK as u64);
    read_all(&mut rig, &shuffled(100, 1));
}

/// Share of read hits after a restart.
fn warmth(rig: &mut Rig, blocks: u64) -> f64 {
    let reads = count_capacity_reads(rig);
    for block in shuffled(blocks, 3) {
        assert_eq!(rig.get(block), Ok(1));
    }
    1.0 - reads.load(Ordering::Relaxed) as f64 / blocks as f64
}

#[test]
fn what_was_warm_is_warm_after_a_clean_stop_and_after_a_crash() {
    let mut rig = rig_with(300);
    read_all(&mut rig, &shuffled(300, 1));
    let options = rig.setup.options.clone();
    let mut rig = rig.restart(options);
    assert_eq!(cache(&rig).restored_blocks, 300);
    assert_eq!(warmth(&mut rig, 300), 1.0);
    let mut rig = rig_with(300);
    read_all(&mut rig, &shuffled(300, 1));
    rig.pass_ms(2000);
    rig.pass_ms(2000);
    let mut rig = rig.crash();
    assert!(cache(&rig).restored_blocks >= 285, "{:?}", cache(&rig));
    assert!(warmth(&mut rig, 300) >= 0.95);
    // Once more, with the list that was written since.
    rig.pass_ms(2000);
    rig.pass_ms(2000);
    let mut rig = rig.crash();
    assert!(warmth(&mut rig, 300) >= 0.95);
}

/// After the list was written its slots go to host data, and the blocks that it names are overwritten.
#[test]
fn an_old_list_makes_nobody_read_anything_old() {
    for keeps_unflushed in [false, true] {
        let mut rig = rig_with(300);
        read_all(&mut rig, &shuffled(300, 1));
        rig.pass_ms(2000);
        rig.pass_ms(2000);
        cache_reads(&mut rig, Place::Stage);
        for block in 0..150 {
            rig.put(block, 2, None);
        }
        for block in 1000..1500 {
            rig.put(block, 1, None);
        }
        rig.flush();
        let setup = rig.setup.clone();
        let devices = rig.cut(|_| keeps_unflushed);
        let mut rig = Rig::open(&setup, devices).unwrap();
        for block in 0..300 {
            assert_eq!(rig.get(block), Ok(if block < 150 { 2 } else { 1 }), "{:?}", cache(&rig));
        }
        for block in 1000..1500 {
            assert_eq!(rig.get(block), Ok(1));
        }
    }
}

#[test]
fn a_copy_that_cannot_be_read_or_is_wrong_costs_nothing_but_time() {
    let ways: [fn(u64) -> Fate; 2] = [|place| Fate::Misread(place + 77), |_| Fate::Failed];
    for way in ways {
        let mut rig = rig_with(50);
        read_all(&mut rig, &shuffled(50, 1));
        let copy = rig.find(FAST, 7, 1)[0];
        rig.devices[FAST].rule(
            move |seen| {
                if seen.kind == Kind::Read && seen.covers(copy) { way(copy) } else { Fate::Good }
            },
        );
        assert_eq!((rig.get(7), rig.get(7)), (Ok(1), Ok(1)));
    }
}

/// Failed writes of copies or of the list reach no host.
#[test]
fn writes_of_copies_and_lists_that_fail_are_nobodys_error() {
    let mut rig = rig_with(200);
    rig.devices[FAST].rule(|seen| failed(seen.kind == Kind::Write && seen.bytes.starts_with(b"HOLE")));
    read_all(&mut rig, &shuffled(200, 1));
    assert_eq!(cache(&rig).held_blocks, 0);
    rig.devices[FAST].rule(|seen| failed(seen.kind == Kind::Write && seen.bytes.starts_with(b"FBW")));
    read_all(&mut rig, &shuffled(200, 1));
    let used = |rig: &Rig| rig.pool.engine.status().fast.used_bytes;
    let before = used(&rig);
    (0..20).for_each(|_| rig.pass_ms(2000));
    assert_eq!(used(&rig), before, "the slots of lists that came to nothing are free");
    let options = rig.setup.options.clone();
    let rig = rig.restart(options);
    assert_eq!(cache(&rig).restored_blocks, 0);
}

#[test]
fn a_cache_that_fills_the_tier_gives_way_to_what_is_written() {
    let mut rig = rig_with(2000);
    read_all(&mut rig, &shuffled(2000, 1));
    let held = cache(&rig).held_blocks;
    assert!(held > 350, "all that nobody wants is used: {:?}", cache(&rig));
    cache_reads(&mut rig, Place::Fast);
    for block in 3000..3300 {
        rig.put(block, 1, None);
    }
    assert!(rig.find(CAPACITY, 3299, 1).is_empty(), "it had room on the fast tier");
    assert!(cache(&rig).held_blocks < held - 200);
    let stalls = rig.pool.engine.status().counters.stalls;
    assert_eq!(stalls, 0);
    read_all(&mut rig, &shuffled(2000, 2));
}

#[test]
fn a_scan_of_ten_times_its_size_leaves_nine_tenths() {
    const HOT: u64 = 1500;
    let setup = Setup { fast_bytes: 11 << 20, capacity_bytes: 100 << 20, disk_bytes: 128 << 20, ..setup() };
    let mut rig = rig_of(&setup, 20_000);
    for round in 0..4 {
        read_all(&mut rig, &shuffled(HOT, round));
    }
    assert!(cache(&rig).held_blocks >= HOT, "{:?}", cache(&rig));
    for first in (2000..2000 + 10 * HOT).step_by(16) {
        let token = rig.submit_to(rig.disk, first, 16 * BLOCK as u64, Op::Read, false, None);
        rig.wait(token).unwrap();
        rig.pass_ms(1);
    }
    let before = cache(&rig);
    read_all(&mut rig, &shuffled(HOT, 9));
    let hits = cache(&rig).hit_blocks - before.hit_blocks;
    assert!(hits * 10 >= HOT * 9, "{hits} of {HOT}: {:?}", cache(&rig));
    assert!(before.written_blocks < HOT + HOT / 2, "hardly anything of the scan was copied: {before:?}");
}

/// Cyclic reads that exceed the free space take slots from staged data that is never rewritten, and return them to data that is.
#[test]
fn its_share_follows_what_one_more_slot_would_save() {
    let mut rig = rig_with(700);
    cache_reads(&mut rig, Place::Stage);
    for block in 2000..2800 {
        rig.put(block, 1, None);
    }
    rig.flush();
    rig.pass_ms(1000);
    for round in 0..30 {
        read_all(&mut rig, &shuffled(700, round));
    }
    let reading = cache(&rig);
    assert!(reading.entitled_blocks > 200, "{reading:?}");
    assert!(reading.held_blocks >= reading.entitled_blocks * 9 / 10, "{reading:?}");
    for round in 0..40 {
        for block in shuffled(400, round) {
            rig.put(3000 + block, 1, None);
        }
        rig.polls(20);
    }
    let writing = cache(&rig);
    assert!(writing.entitled_blocks < reading.entitled_blocks / 4, "{writing:?}");
}

/// The same reads at the same times give the same cache.
#[test]
fn it_is_deterministic() {
    let run = || {
        let mut rig = rig_with(1200);
        for round in 0..3 {
            read_all(&mut rig, &shuffled(1200, round));
        }
        cache(&rig)
    };
    assert_eq!(run(), run());
}
