//! Summaries of bands that cannot be written in their place.

use super::alone::{Alone, Seen};
use super::device::{Kind, Scripted};
use super::rig::{BLOCK, BULK, CAPACITY, Rig, Setup, failed, findings, superblock};
use forebay_volume::Op;
use forebay_volume::layout::band_summary::BandShape;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Place of the first band's summary.
fn summary_at(setup: &Setup, devices: &[Scripted]) -> u64 {
    let summary = BandShape::new(setup.band_bytes).summary_block(0);
    superblock(devices).members[CAPACITY].data_offset_bytes + u64::from(summary) * BLOCK as u64
}

fn fail_writes(device: &Scripted, at: u64) {
    device.rule(move |seen| failed(seen.kind == Kind::Write && seen.covers(at)));
}

fn has_summary(device: &Scripted, at: u64) -> bool {
    device.bytes(|bytes| bytes[at as usize..].starts_with(b"FBBS"))
}

/// A pool whose first band has a group with an unwritable summary; returns its place.
fn with_bad_summary(setup: &Setup) -> (Rig, u64) {
    let mut rig = Rig::new(setup);
    let at = summary_at(setup, &rig.devices);
    fail_writes(&rig.devices[CAPACITY], at);
    rig.put_run(0, 10, 1);
    // The last block is written together with the summary, and fails with it.
    let last = rig.write_run(10, 5, 1, false, BULK);
    assert!(rig.wait(last).is_err());
    (rig, at)
}

/// One unwritable block on the capacity tier in the place of a summary failed all checkpoints, and then the pool could not be opened.
#[test]
fn regression_a_summary_that_cannot_be_written_ends_no_checkpoints() {
    let setup = Setup::default();
    let (mut rig, at) = with_bad_summary(&setup);
    rig.put_run(20, 15, 1);
    for version in 2..6 {
        rig.put(100, version, None);
        rig.checkpoint();
    }
    assert_eq!(rig.pool.engine.read_only_reason(), None);
    let devices = rig.cut(|_| false);
    assert!(!has_summary(&devices[CAPACITY], at));
    fail_writes(&devices[CAPACITY], at);
    let mut rig = Rig::open(&setup, devices).unwrap();
    (0..10).chain(20..35).for_each(|block| assert_eq!(rig.get(block), Ok(1), "block {block}"));
    rig.put(100, 6, None);
    rig.checkpoint();
    // The device accepts the write later.
    rig.devices[CAPACITY].heal();
    rig.pass_ms(61_000);
    rig.polls(10);
    assert!(has_summary(&rig.devices[CAPACITY], at));
    assert!(rig.pool.close());
    let devices = rig.cut(|_| false);
    assert_eq!(findings(&setup, &devices), Vec::<String>::new());
}

/// The data of the band is obsolete: nothing of it is left.
#[test]
fn a_band_without_its_summary_is_freed_when_nothing_lives_in_it() {
    let setup = Setup::default();
    let (mut rig, _) = with_bad_summary(&setup);
    rig.checkpoint();
    let before = rig.pool.engine.status().free_bands;
    rig.put_run(0, 10, 2);
    rig.checkpoint();
    rig.checkpoint();
    rig.polls(20);
    assert!(rig.pool.engine.status().free_bands >= before, "it was not freed");
    let mut rig = rig.crash();
    (0..10).for_each(|block| assert_eq!(rig.get(block), Ok(2), "block {block}"));
}

/// While one place was unwritable its band was not collected, however little live data it had: the space was lost to the pool.
#[test]
fn regression_a_band_without_its_summary_is_collected() {
    let setup = Setup { capacity_bytes: 1 << 20, ..Setup::default() };
    let (mut rig, _) = with_bad_summary(&setup);
    rig.put_run(200, 120, 1);
    rig.checkpoint();
    let homes: Vec<u64> = (6..10).map(|block| rig.find(CAPACITY, block, 1)[0]).collect();
    assert!(homes.iter().all(|&home| rig.band(CAPACITY, home) == 0), "{homes:?}");
    // These stay live, and others are overwritten, here and in all other bands.
    let mut newest = 1;
    let gone = |rig: &Rig| {
        homes.iter().all(|home| rig.devices[CAPACITY].bytes(|bytes| &bytes[*home as usize..][..4] != b"HOLE"))
    };
    for block in (0..6).chain((200..320).step_by(3)).cycle().take(2000) {
        newest += 1;
        let token = rig.write_run(block, 1, newest, true, BULK);
        rig.wait(token).unwrap();
        if gone(&rig) {
            break;
        }
    }
    let homes_now: Vec<u64> = (6..10).flat_map(|block| rig.find(CAPACITY, block, 1)).collect();
    assert!(homes_now.iter().any(|home| !homes.contains(home)), "nothing of the band was moved: {homes_now:?}");
    (6..10).for_each(|block| assert_eq!(rig.get(block), Ok(1), "block {block}"));
    let mut rig = rig.crash();
    (6..10).for_each(|block| assert_eq!(rig.get(block), Ok(1), "block {block}"));
}

/// The contents of such a summary were only in the root of the fast tier: without that tier, the good data of the band was not found.
#[test]
fn regression_a_summary_that_cannot_be_written_is_read_without_the_fast_tier() {
    let setup = Setup::default();
    let (mut rig, at) = with_bad_summary(&setup);
    rig.put_run(20, 15, 1);
    // Two areas have roots.
    for _ in 0..2 {
        rig.checkpoint();
        let mut alone = Alone::open(&setup, &rig.devices);
        (0..10).chain(20..35).for_each(|block| {
            assert_eq!(alone.see(block), Seen::Version(1), "block {block}");
            assert!(!alone.is_maybe_older(block), "block {block}");
        });
        assert_eq!(alone.report.summaries_absent, 0, "{:?}", alone.report.warnings);
    }
    // Once written in its place it is read there, and the copy beside the root is redundant.
    rig.devices[CAPACITY].heal();
    rig.pass_ms(61_000);
    rig.checkpoint();
    assert!(has_summary(&rig.devices[CAPACITY], at));
    // Once the band is reused, nothing of its old contents counts.
    rig.put_run(0, 10, 2);
    (0..3).for_each(|_| rig.checkpoint());
    rig.put_run(40, 100, 1);
    (0..2).for_each(|_| rig.checkpoint());
    let mut alone = Alone::open(&setup, &rig.devices);
    (0..10).for_each(|block| assert_eq!(alone.see(block), Seen::Version(2), "block {block}"));
    (40..140).for_each(|block| assert_eq!(alone.see(block), Seen::Version(1), "block {block}"));
    assert_eq!(alone.report.summaries_absent, 0, "{:?}", alone.report.warnings);
}

/// With each reuse of such a band a host's write was combined with the summary, and failed with it.
#[test]
fn regression_what_a_summary_fails_with_the_next_one_goes_without() {
    let setup = Setup { capacity_bytes: 1 << 20, ..Setup::default() };
    let (mut rig, at) = with_bad_summary(&setup);
    rig.checkpoint();
    let tries = Arc::new(AtomicU64::new(0));
    let counted = tries.clone();
    rig.devices[CAPACITY].rule(move |seen| {
        let is_there = seen.kind == Kind::Write && seen.covers(at);
        counted.fetch_add(u64::from(is_there), Ordering::Relaxed);
        failed(is_there)
    });
    let is_used_again = |rig: &Rig| (0..10).flat_map(|block| rig.find(CAPACITY, block, 1)).count() == 0;
    for version in 2..40 {
        rig.put_run(0, 120, version);
        rig.checkpoint();
        if is_used_again(&rig) && tries.load(Ordering::Relaxed) > 2 {
            return;
        }
    }
    panic!("the band was not used again, {} tries", tries.load(Ordering::Relaxed));
}

/// A failed flush lost a summary, or left an older one of the same band and generation: this was counted, but not repaired. The band was
/// never emptied, and without the fast tier its blocks were lost.
#[test]
fn regression_a_summary_that_a_failed_flush_loses_is_written_again() {
    let setup = Setup::default();
    let mut rig = Rig::new(&setup);
    let at = summary_at(&setup, &rig.devices);
    let token = rig.write_run(0, 15, 1, false, BULK);
    rig.wait(token).unwrap();
    rig.polls(10);
    assert!(has_summary(&rig.devices[CAPACITY], at));
    let mut is_due = true;
    rig.devices[CAPACITY].rule(move |seen| failed(seen.kind == Kind::Flush && std::mem::take(&mut is_due)));
    let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
    assert!(rig.wait(token).is_err());
    rig.devices[CAPACITY].forge(at, &[0; BLOCK]);
    rig.pass_ms(1_000);
    rig.flush();
    rig.checkpoint();
    let counters = rig.pool.engine.status().counters;
    assert_eq!((counters.flushes_made_good, counters.flush_lost_blocks), (1, 0));
    assert!(rig.pool.close());
    let devices = rig.cut(|_| false);
    assert!(has_summary(&devices[CAPACITY], at));
    assert_eq!(findings(&setup, &devices), Vec::<String>::new());
}

/// An unwritable block behind the capacity-side root failed its whole checkpoint, which does not need that block.
#[test]
fn regression_a_summary_beside_the_root_that_cannot_be_written_fails_no_checkpoint() {
    let setup = Setup::default();
    let (mut rig, at) = with_bad_summary(&setup);
    let bands_at = superblock(&rig.devices).members[CAPACITY].data_offset_bytes;
    let beside = Arc::new(AtomicU64::new(0));
    let counted = beside.clone();
    rig.devices[CAPACITY].rule(move |seen| {
        let is_beside = seen.kind == Kind::Write && seen.offset_bytes < bands_at && seen.bytes.starts_with(b"FBBS");
        counted.fetch_add(u64::from(is_beside), Ordering::Relaxed);
        failed(is_beside || seen.kind == Kind::Write && seen.covers(at))
    });
    (0..3).for_each(|_| rig.checkpoint());
    assert!(beside.load(Ordering::Relaxed) > 0);
    assert_eq!(rig.pool.engine.capacity_side_error(), None);
}
