//! Devices that misread once, and reads across unreadable parts.

use super::device::{Fate, Kind, Region};
use super::rig::{BLOCK, BULK, CAPACITY, FAST, Rig, Setup, content, failed, is_page_read, label};
use forebay_block::{Buf, ClassId};
use forebay_prism::Place;
use forebay_prism::class::ClassChange;
use forebay_volume::{Op, Outcome};
use std::sync::{Arc, Mutex};

/// How a read goes wrong: a flipped bit, or an error of the device.
const WAYS: [fn(u64) -> Fate; 2] = [|place| Fate::Misread(place + 77), |_| Fate::Failed];

/// Only the next read of a place fails.
fn strike_once(rig: &Rig, device: usize, place: u64, way: fn(u64) -> Fate) {
    let mut is_due = true;
    rig.devices[device].rule(move |seen| {
        let strikes = seen.kind == Kind::Read && seen.covers(place) && std::mem::take(&mut is_due);
        if strikes { way(place) } else { Fate::Good }
    });
}

fn on_both_tiers(mut test: impl FnMut(&mut Rig, usize, fn(u64) -> Fate)) {
    for way in WAYS {
        for (device, tag) in [(FAST, None), (CAPACITY, BULK)] as [(usize, Option<ClassId>); 2] {
            let mut rig = Rig::new(&Setup::default());
            rig.put(3, 1, tag);
            test(&mut rig, device, way);
            assert_eq!(rig.get(3).map(|version| version > 0), Ok(true), "afterwards");
        }
    }
}

/// After a failed host read the map was checked again, and where it still named the same place the read was not retried: one bad transfer
/// became an error for the host.
#[test]
fn hole_06_a_misread_of_a_host_read_is_read_again() {
    on_both_tiers(|rig, device, way| {
        let place = rig.find(device, 3, 1)[0];
        strike_once(rig, device, place, way);
        assert_eq!(rig.get(3), Ok(1));
    });
}

/// The same where part of a block is overwritten and the rest is read.
#[test]
fn hole_06_a_misread_of_a_merge_is_read_again() {
    on_both_tiers(|rig, device, way| {
        let place = rig.find(device, 3, 1)[0];
        strike_once(rig, device, place, way);
        let part = Buf::copy_of(&content(3, 2)[..512]);
        let token = rig.submit_to(rig.disk, 3, 512, Op::Write(part), false, None);
        rig.wait(token).unwrap();
        let token = rig.submit_to(rig.disk, 3, BLOCK as u64, Op::Read, false, None);
        let Ok(Outcome::Data(data)) = rig.wait(token) else { panic!("not read") };
        assert!(data[..512] == content(3, 2)[..512] && data[512..] == content(3, 1)[512..]);
        assert_eq!(label(&data), None);
        rig.put(3, 3, None);
    });
}

/// The first read of a leaf's page failed: the host's read failed too, without a retry.
#[test]
fn hole_06_a_failed_read_of_a_map_page_is_read_again() {
    let mut rig = Rig::new(&Setup::default());
    rig.put(3, 1, BULK);
    let options = rig.setup.options.clone();
    let mut rig = rig.restart(options);
    let mut is_due = true;
    rig.devices[FAST].rule(move |seen| failed(is_page_read(seen) && std::mem::take(&mut is_due)));
    assert_eq!(rig.get(3), Ok(1));
}

/// Blocks on both sides of a summary are read in one request; an unreadable summary must not cost data.
#[test]
fn a_summary_that_cannot_be_read_costs_nothing_that_lies_around_it() {
    const BLOCKS: u64 = 100;
    let mut rig = Rig::new(&Setup { capacity_bytes: 8 << 20, band_bytes: 512 << 10, ..Setup::default() });
    let token = rig.write_run(0, BLOCKS, 1, false, BULK);
    rig.wait(token).unwrap();
    let summary = rig.find(CAPACITY, 62, 1)[0] + BLOCK as u64;
    assert_eq!(rig.find(CAPACITY, 63, 1), [summary + BLOCK as u64], "a summary lies between them");
    let reads_whole = |rig: &mut Rig| {
        let token = rig.submit_to(rig.disk, 0, BLOCKS * BLOCK as u64, Op::Read, false, None);
        let Ok(Outcome::Data(data)) = rig.wait(token) else { panic!("not read") };
        let found: Vec<_> = data.chunks_exact(BLOCK).map(label).collect();
        assert_eq!(found, (0..BLOCKS).map(|block| Some((block, 1))).collect::<Vec<_>>());
    };
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let noted = lengths.clone();
    rig.devices[CAPACITY].rule(move |seen| {
        if seen.is(Kind::Read, Region::Bands) {
            noted.lock().unwrap().push(seen.bytes.len() / BLOCK);
        }
        Fate::Good
    });
    reads_whole(&mut rig);
    assert_eq!(*lengths.lock().unwrap(), [BLOCKS as usize + 1]);
    rig.devices[CAPACITY].rule(move |seen| failed(seen.kind == Kind::Read && seen.covers(summary)));
    reads_whole(&mut rig);
}

/// A block of a class placed on both tiers is good while one tier has it: an unreadable copy on the fast tier must not cause an error.
#[test]
fn a_copy_that_never_reads_right_costs_no_data() {
    for way in WAYS {
        let mut rig = Rig::new(&Setup::default());
        let change = ClassChange { place: Some(Place::Both), ..ClassChange::default() };
        rig.pool.engine.prism_mut().table_mut().set("cold", change).unwrap();
        rig.pool.engine.classes_changed();
        rig.put(3, 1, None);
        let copy = rig.find(FAST, 3, 1)[0];
        assert_eq!(rig.find(CAPACITY, 3, 1).len(), 1);
        let reads = Arc::new(Mutex::new(0));
        let counted = reads.clone();
        rig.devices[FAST].rule(move |seen| {
            let strikes = seen.kind == Kind::Read && seen.covers(copy);
            *counted.lock().unwrap() += u32::from(strikes);
            if strikes { way(copy) } else { Fate::Good }
        });
        assert_eq!(rig.get(3), Ok(1));
        assert!(*reads.lock().unwrap() > 0, "the copy is read first");
        assert_eq!(rig.get(3), Ok(1), "afterwards");
    }
}
