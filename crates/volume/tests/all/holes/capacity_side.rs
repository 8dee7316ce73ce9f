//! The state that allows opening the capacity tier alone, and bands that wait for it.

use super::alone::{Alone, Seen, band_blocks};
use super::device::{Kind, Region, Seen as Request};
use super::rig::{BULK, CAPACITY, FAST, Rig, Setup, failed, findings, held, superblock};
use forebay_volume::Op;
use forebay_volume::layout::root::RootHeader;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A band was being trimmed when a checkpoint began: the capacity-side root named the band's former state, so data written into it later
/// was not looked for when the capacity tier was opened alone.
#[test]
fn a_band_that_is_being_trimmed_is_free_to_the_capacity_side_checkpoint() {
    let setup = Setup::default();
    let band = band_blocks(&setup);
    let mut rig = Rig::new(&setup);
    rig.put_run(0, band, 1);
    rig.checkpoint();
    rig.put_run(0, band, 2);
    rig.devices[CAPACITY].rule(|seen| held(seen.kind == Kind::Discard));
    rig.checkpoint();
    assert!(rig.pool.engine.activity().trim);
    rig.checkpoint();
    assert!(rig.pool.engine.activity().trim);
    rig.devices[CAPACITY].heal();
    rig.polls(20);
    let before = rig.find(CAPACITY, 0, 2)[0];
    rig.put_run(0, band, 3);
    let reused = rig.find(CAPACITY, 0, 3)[0];
    assert!(rig.band(CAPACITY, reused) < rig.band(CAPACITY, before), "the band was not used again");
    let devices = rig.cut(|_| false);
    let mut alone = Alone::open(&setup, &devices);
    (0..band).for_each(|block| assert_eq!(alone.see(block), Seen::Version(3), "block {block}"));
    assert_eq!((alone.report.disks[0].later_blocks, alone.report.disks[0].maybe_older.blocks), (band, 0));
}

/// Verification did not check data that is read only where other data is lost.
#[test]
fn regression_verification_looks_at_what_is_read_only_where_something_else_is_lost() {
    let setup = Setup::default();
    let mut rig = Rig::new(&setup);
    rig.put_run(0, 40, 1);
    assert!(rig.pool.close());
    let devices = rig.cut(|_| true);
    assert_eq!(findings(&setup, &devices), [""; 0]);
    let block = superblock(&devices);
    let number = |at: u64| {
        devices[FAST]
            .bytes(|bytes| RootHeader::decode(&bytes[at as usize..][..4096], &block.pool).map(|it| it.checkpoint))
    };
    let begin = block.root_offsets_bytes.into_iter().max_by_key(|&at| number(at)).unwrap();
    for at in [begin, begin + block.root_len_bytes - 4096] {
        let was = devices[FAST].bytes(|bytes| bytes[at as usize + 30]);
        devices[FAST].forge(at + 30, &[was ^ 1]);
        let found = findings(&setup, &devices);
        assert!(found.len() == 1 && found[0].contains("header"), "{found:?}");
        devices[FAST].forge(at + 30, &[was]);
    }
    for parity in [0, 1] {
        devices[CAPACITY].forge(block.capacity_area.header_offset_bytes(parity), &[0; 4096]);
    }
    let found = findings(&setup, &devices);
    assert!(found.len() == 1 && found[0].contains("without the fast tier"), "{found:?}");
}

/// Verification takes the devices in configured order, which may differ from the pool's.
#[test]
fn regression_verification_finds_the_capacity_side_whatever_the_order() {
    let setup = Setup { capacity_devices: 2, ..Setup::default() };
    let mut rig = Rig::new(&setup);
    rig.put_run(0, 40, 1);
    assert!(rig.pool.close());
    let mut devices = rig.cut(|_| true);
    devices.swap(1, 2);
    assert_eq!(findings(&setup, &devices), [""; 0]);
}

/// Bands being trimmed counted neither as free nor as soon to be free, so other bands were collected.
#[test]
fn nothing_is_collected_for_bands_that_are_being_trimmed() {
    let setup = Setup { capacity_bytes: 1 << 20, ..Setup::default() };
    let band = band_blocks(&setup);
    let mut rig = Rig::new(&setup);
    // Eight of 13 bands are full; then writes to three others empty three of them, and one has some garbage.
    rig.put_run(0, 8 * band, 1);
    let reads = Arc::new(AtomicU64::new(0));
    let count = reads.clone();
    rig.devices[CAPACITY].rule(move |seen| {
        count.fetch_add(u64::from(seen.is(Kind::Read, Region::Bands)), Ordering::Relaxed);
        held(seen.kind == Kind::Discard)
    });
    rig.put_run(0, 3 * band, 2);
    rig.put(5 * band, 2, None);
    rig.checkpoint();
    rig.polls(50);
    assert!(rig.pool.engine.activity().trim);
    let status = rig.pool.engine.status();
    assert_eq!((status.bands, status.free_bands), (13, 2));
    assert_eq!(reads.load(Ordering::Relaxed), 0, "a band was collected");
    rig.devices[CAPACITY].heal();
    rig.polls(20);
    assert_eq!(rig.pool.engine.status().free_bands, 5);
}

/// A writer waited longer than the limit while the bands that it waited for were being trimmed.
#[test]
fn a_writer_waits_for_bands_that_are_being_trimmed() {
    let setup = Setup { fast_bytes: 3 << 20, capacity_bytes: 1 << 20, ..Setup::default() };
    let band = band_blocks(&setup);
    let mut rig = Rig::new(&setup);
    rig.put_run(0, 4 * band, 1);
    let written = rig.fill(4 * band);
    rig.devices[CAPACITY].rule(|seen| held(seen.kind == Kind::Discard));
    let discard = rig.submit_to(rig.disk, 0, 4 * band * 4096, Op::Discard, false, None);
    rig.wait(discard).unwrap();
    rig.flush();
    let writer = rig.write_run(written, 32, 2, false, None);
    assert!(rig.until(|rig| rig.pool.engine.activity().trim));
    for _ in 0..15 {
        rig.pass_ms(1000);
        // Other requests keep work in progress.
        rig.flush();
    }
    assert!(rig.answer(writer).is_none(), "{:?}", rig.answer(writer));
    rig.devices[CAPACITY].heal();
    let answer = rig.wait(writer);
    assert!(answer.is_ok(), "{answer:?}");
}

/// Whether a request writes to the capacity-side area.
fn is_area_write(seen: &Request<'_>) -> bool {
    seen.is(Kind::Write, Region::Head)
}

/// Makes the written part of the capacity-side area fail from now on.
fn fail_area(rig: &Rig) {
    rig.devices[CAPACITY].rule(|seen| failed(is_area_write(seen)));
}

/// One sector of the capacity-side area could not be written: every checkpoint failed, the journal filled, and writes were refused.
#[test]
fn a_capacity_side_that_cannot_be_written_stops_no_checkpoint() {
    let setup = Setup::default();
    let band = band_blocks(&setup);
    let mut rig = Rig::new(&setup);
    rig.put_run(0, band, 1);
    rig.put_run(100, band, 1);
    rig.checkpoint();
    let first = rig.pool.engine.checkpoint_number();
    fail_area(&rig);
    rig.put_run(0, band, 2);
    rig.put(200, 2, None);
    for _ in 0..4 {
        rig.pool.engine.request_checkpoint(false);
        rig.polls(100);
    }
    let status = rig.pool.engine.status();
    assert_eq!((status.checkpoint, status.capacity_checkpoint), (first + 1, Some(first)));
    let error = status.capacity_checkpoint_error.unwrap();
    assert!(error.starts_with("the capacity-side checkpoint cannot be written: capacity0: "), "{error}");
    // The band that the checkpoint named is reused.
    rig.checkpoint();
    rig.polls(20);
    rig.put_run(0, band, 3);
    let reused = rig.find(CAPACITY, 0, 3)[0];
    assert_eq!(rig.band(CAPACITY, reused), 0);
    rig.checkpoint();
    // Without the fast tier, the existing checkpoint and the later data are shown, with a note.
    let devices = rig.cut(|_| false);
    let mut alone = Alone::open(&setup, &devices);
    assert_eq!(alone.report.checkpoint, first);
    assert!(alone.report.warnings.iter().any(|warning| warning.contains("used again")), "{:?}", alone.report.warnings);
    (0..band).for_each(|block| assert_eq!(alone.see(block), Seen::Version(3), "block {block}"));
    (100..100 + band).for_each(|block| assert_eq!(alone.see(block), Seen::Version(1), "block {block}"));
    drop(alone);
    // With the fast tier all data is there.
    let mut rig = Rig::open(&setup, devices).unwrap();
    assert_eq!(rig.pool.engine.status().capacity_checkpoint_error, None);
    assert_eq!((rig.get(0), rig.get(100), rig.get(200)), (Ok(3), Ok(1), Ok(2)));
    // The repaired capacity side knows all of it too.
    let devices = rig.cut(|_| false);
    let mut alone = Alone::open(&setup, &devices);
    (0..band).for_each(|block| assert_eq!(alone.see(block), Seen::Version(3), "block {block}"));
    assert_eq!((alone.see(200), alone.see(300)), (Seen::Gone, Seen::Nothing));
    assert_eq!(alone.report.disks[0].maybe_older.blocks, 0);
}

/// The write is retried later, but never over the newest complete copy.
#[test]
fn a_capacity_side_that_could_not_be_written_is_written_again() {
    let setup = Setup::default();
    let mut rig = Rig::new(&setup);
    rig.put(1, 1, BULK);
    rig.checkpoint();
    let first = rig.pool.engine.checkpoint_number();
    let area = superblock(&rig.devices).capacity_area;
    let header = area.header_offset_bytes(first);
    rig.devices[CAPACITY].rule(move |seen| {
        let is_newest = (header..header + area.root_len_bytes).contains(&seen.offset_bytes);
        assert!(!is_area_write(seen) || !is_newest, "the newest root is written over");
        failed(is_area_write(seen))
    });
    for version in 2..8 {
        rig.put(version, 1, BULK);
        for _ in 0..5 {
            rig.pool.engine.request_checkpoint(false);
            rig.polls(50);
        }
    }
    let status = rig.pool.engine.status();
    assert!(status.checkpoint > first + 8, "{}", status.checkpoint);
    assert_eq!(status.counters.checkpoint_errors, 3 + (status.checkpoint - first - 1) / 16);
    rig.devices[CAPACITY].heal();
    for _ in 0..20 {
        rig.checkpoint();
    }
    let status = rig.pool.engine.status();
    assert_eq!((status.capacity_checkpoint, status.capacity_checkpoint_error), (Some(status.checkpoint), None));
    let devices = rig.cut(|_| false);
    let mut alone = Alone::open(&setup, &devices);
    (1..8).for_each(|block| assert_eq!(alone.see(block), Seen::Version(1)));
    assert_eq!((alone.report.disks[0].maybe_older.blocks, alone.report.disks[0].later_blocks), (0, 0));
}

/// An unwritable area at a stop and at an opening made the pool unusable.
#[test]
fn a_pool_whose_capacity_side_cannot_be_written_is_stopped_and_opened() {
    let setup = Setup::default();
    let mut rig = Rig::new(&setup);
    rig.put(1, 1, BULK);
    rig.checkpoint();
    fail_area(&rig);
    assert!(rig.pool.close());
    let devices = rig.cut(|_| false);
    devices[CAPACITY].lay_out(&superblock(&devices), CAPACITY);
    let area = superblock(&devices).capacity_area;
    devices[CAPACITY].rule(move |seen| {
        let end = area.offset_bytes + area.len_bytes();
        let is_area = (area.offset_bytes..end).contains(&seen.offset_bytes);
        failed(seen.kind == Kind::Write && is_area)
    });
    let mut rig = Rig::open(&setup, devices).unwrap();
    assert!(rig.pool.engine.status().capacity_checkpoint_error.is_some());
    assert_eq!(rig.get(1), Ok(1));
    rig.put(2, 1, BULK);
    rig.flush();
    // The epoch has advanced without a checkpoint there: the existing data is shown.
    let devices = rig.cut(|_| false);
    let mut alone = Alone::open(&setup, &devices);
    assert!(alone.report.warnings.iter().any(|warning| warning.contains("epoch")), "{:?}", alone.report.warnings);
    assert_eq!(alone.see(1), Seen::Version(1));
}

/// The capacity-side root was unreadable at an opening: data that was not rewritten afterwards was no longer known.
#[test]
fn what_cannot_be_read_of_the_capacity_side_is_made_anew_when_the_pool_is_opened() {
    let setup = Setup::default();
    let mut rig = Rig::new(&setup);
    rig.put(1, 1, BULK);
    rig.put(2, 1, None);
    rig.put(5000, 1, BULK);
    rig.checkpoint();
    let devices = rig.cut(|_| false);
    let area = superblock(&devices).capacity_area;
    devices[CAPACITY].rule(move |seen| {
        let is_area = (area.offset_bytes..area.page_offset_bytes(0)).contains(&seen.offset_bytes);
        failed(seen.kind == Kind::Read && is_area)
    });
    let rig = Rig::open(&setup, devices).unwrap();
    let status = rig.pool.engine.status();
    assert_eq!(status.capacity_checkpoint, Some(status.checkpoint));
    let devices = rig.cut(|_| false);
    let mut alone = Alone::open(&setup, &devices);
    assert_eq!(alone.report.disks[0].maybe_older.blocks, 0);
    assert_eq!(alone.report.disks[0].gone.blocks, 1);
    assert_eq!(
        [1, 2, 3, 5000].map(|block| alone.see(block)),
        [Seen::Version(1), Seen::Gone, Seen::Nothing, Seen::Version(1)]
    );
}

/// Bands that waited for a checkpoint held obsolete data until the journal was half full.
#[test]
fn many_bands_that_wait_or_one_for_long_are_reason_for_a_checkpoint() {
    let setup = Setup::default();
    let band = band_blocks(&setup);
    let mut rig = Rig::new(&setup);
    rig.put_run(0, band, 1);
    let before = rig.pool.engine.checkpoint_number();
    rig.put_run(0, band, 2);
    rig.polls(100);
    assert_eq!(rig.pool.engine.checkpoint_number(), before, "one band of many");
    rig.pass_ms(601_000);
    rig.polls(100);
    assert_eq!(rig.pool.engine.checkpoint_number(), before + 1, "one for long");
    rig.pass_ms(601_000);
    assert_eq!(rig.pool.engine.checkpoint_number(), before + 1, "none");
    rig.put_run(0, 4 * band, 3);
    rig.put_run(0, 4 * band, 4);
    rig.polls(100);
    assert!(rig.pool.engine.checkpoint_number() > before + 1, "many");
}
