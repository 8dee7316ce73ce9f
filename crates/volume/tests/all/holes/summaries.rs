//! Summaries of bands that cannot be written to their place.

use super::device::{Kind, Scripted};
use super::rig::{BLOCK, BULK, CAPACITY, Rig, Setup, failed, findings, superblock};
use forebay_volume::layout::band_summary::BandShape;

/// Where the summary of the first band lies.
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

/// One block of the capacity tier that took no writes, where a summary belongs, ended all checkpoints, and then the pool could not be opened.
#[test]
fn regression_a_summary_that_cannot_be_written_ends_no_checkpoints() {
    let setup = Setup::default();
    let mut rig = Rig::new(&setup);
    let at = summary_at(&setup, &rig.devices);
    fail_writes(&rig.devices[CAPACITY], at);
    // The last of them goes with the summary, and fails with it.
    rig.put_run(0, 10, 1);
    let last = rig.write_run(10, 5, 1, false, BULK);
    assert!(rig.wait(last).is_err());
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
    // The device takes it after all, some time later.
    rig.devices[CAPACITY].heal();
    rig.pass_ms(61_000);
    rig.polls(10);
    assert!(has_summary(&rig.devices[CAPACITY], at));
    assert!(rig.pool.close());
    let devices = rig.cut(|_| false);
    assert_eq!(findings(&setup, &devices), Vec::<String>::new());
}

/// What lived there is given up: nothing is left of it.
#[test]
fn a_band_without_its_summary_is_freed_when_nothing_lives_in_it() {
    let setup = Setup::default();
    let mut rig = Rig::new(&setup);
    let at = summary_at(&setup, &rig.devices);
    fail_writes(&rig.devices[CAPACITY], at);
    rig.put_run(0, 10, 1);
    let last = rig.write_run(10, 5, 1, false, BULK);
    assert!(rig.wait(last).is_err());
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
