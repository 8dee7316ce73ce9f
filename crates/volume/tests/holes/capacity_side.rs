//! What is kept for the capacity tier to be opened alone, and bands that wait for it.

use crate::alone::{Alone, Seen, band_blocks};
use crate::device::{Kind, Region};
use crate::rig::{BULK, CAPACITY, Rig, Setup, held};
use forebay_volume::{Op, RequestError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn write(rig: &mut Rig, first: u64, blocks: u64, version: u32) {
    let token = rig.write_run(first, blocks, version, false, BULK);
    rig.wait(token).unwrap();
    rig.flush();
}

/// A band was being trimmed when a checkpoint began: the capacity-side root named it as it had been before, and what was
/// written into it afterwards was not looked for when the capacity tier was opened alone.
#[test]
fn a_band_that_is_being_trimmed_is_free_to_the_capacity_side_checkpoint() {
    let setup = Setup::default();
    let band = band_blocks(&setup);
    let mut rig = Rig::new(&setup);
    write(&mut rig, 0, band, 1);
    rig.checkpoint();
    write(&mut rig, 0, band, 2);
    rig.devices[CAPACITY].rule(|seen| held(seen.kind == Kind::Discard));
    rig.checkpoint();
    assert!(rig.pool.engine.activity().trim);
    rig.checkpoint();
    assert!(rig.pool.engine.activity().trim);
    rig.devices[CAPACITY].heal();
    rig.polls(20);
    let before = rig.find(CAPACITY, 0, 2)[0];
    write(&mut rig, 0, band, 3);
    let reused = rig.find(CAPACITY, 0, 3)[0];
    assert!(rig.band(CAPACITY, reused) < rig.band(CAPACITY, before), "the band was not used again");
    let devices = rig.cut(|_| false);
    let mut alone = Alone::open(&setup, &devices);
    (0..band).for_each(|block| assert_eq!(alone.see(block), Seen::Version(3), "block {block}"));
    assert_eq!((alone.report.disks[0].later_blocks, alone.report.disks[0].maybe_older.blocks), (band, 0));
}

/// Bands were being trimmed, and counted neither as free nor as to be free: others were collected in their place.
#[test]
fn nothing_is_collected_for_bands_that_are_being_trimmed() {
    let setup = Setup { capacity_bytes: 1 << 20, ..Setup::default() };
    let band = band_blocks(&setup);
    let mut rig = Rig::new(&setup);
    // Of 13 bands eight are full; then three are emptied by writes to three others, and one has some garbage.
    write(&mut rig, 0, 8 * band, 1);
    write(&mut rig, 0, 3 * band, 2);
    rig.put(5 * band, 2, None);
    rig.flush();
    let reads = Arc::new(AtomicU64::new(0));
    let count = reads.clone();
    rig.devices[CAPACITY].rule(move |seen| {
        count.fetch_add(u64::from(seen.is(Kind::Read, Region::Bands)), Ordering::Relaxed);
        held(seen.kind == Kind::Discard)
    });
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

/// A writer waited for longer than writers wait at most, while the bands that it waited for were being trimmed.
#[test]
fn a_writer_waits_for_bands_that_are_being_trimmed() {
    let setup = Setup { fast_bytes: 3 << 20, capacity_bytes: 1 << 20, ..Setup::default() };
    let band = band_blocks(&setup);
    let mut rig = Rig::new(&setup);
    write(&mut rig, 0, 4 * band, 1);
    let mut written = 4 * band;
    loop {
        let token = rig.write(written, 1, None);
        match rig.wait(token) {
            Ok(_) => written += 1,
            Err(RequestError::NoSpace) => break,
            other => panic!("block {written}: {other:?}"),
        }
    }
    rig.devices[CAPACITY].rule(|seen| held(seen.kind == Kind::Discard));
    let discard = rig.submit_to(rig.disk, 0, 4 * band * 4096, Op::Discard, false, None);
    rig.wait(discard).unwrap();
    rig.flush();
    let writer = rig.write_run(written, 32, 2, false, None);
    assert!(rig.until(|rig| rig.pool.engine.activity().trim));
    for _ in 0..15 {
        rig.pass_ms(1000);
        // Others keep something in progress.
        rig.flush();
    }
    assert!(rig.answer(writer).is_none(), "{:?}", rig.answer(writer));
    rig.devices[CAPACITY].heal();
    let answer = rig.wait(writer);
    assert!(answer.is_ok(), "{answer:?}");
}
