//! Pools with lost devices: which data is shown, and what is reported.

use super::alone::{Alone, Seen, band_blocks};
use super::device::{Kind, Region, Scripted};
use super::rig::{BULK, CAPACITY, FAST, Rig, Setup, classes, failed, held, superblock};
use forebay_block::Device;
use forebay_volume::recovery::capacity::{Found, read_capacity_roots};
use forebay_volume::recovery::{AloneError, open_degraded};
use forebay_volume::{Devices, EngineOptions};

/// A crash between the header of the capacity side and that of the fast tier leaves root N+1 on one and N on the other. The next opening
/// overwrote pages of N+1, which was still the newest complete root.
#[test]
fn pages_of_a_root_that_may_be_opened_are_not_written_over() {
    // Slots are given out in turn, so the number of checkpoints determines the slots of the pages.
    (0..24).for_each(crash_between_headers);
}

fn crash_between_headers(checkpoints: u32) {
    let setup = Setup::default();
    let mut rig = Rig::new(&setup);
    (1..40).for_each(|leaf| rig.put(leaf * 400, 1, BULK));
    for version in 0..=checkpoints {
        rig.put(402, version + 1, None);
        rig.checkpoint();
    }
    let before = rig.pool.engine.checkpoint_number();
    rig.put(400, 2, BULK);
    rig.put(401, 2, None);
    rig.devices[FAST].rule(|seen| held(seen.is(Kind::Write, Region::Root) && seen.bytes.starts_with(b"FBRT")));
    rig.pool.engine.request_checkpoint(false);
    rig.polls(100);
    assert_eq!(rig.pool.engine.checkpoint_number(), before);
    // Makes the pages of the next opening differ from those of N+1.
    rig.put(801, 1, None);
    let devices = rig.cut(|_| false);
    let area = superblock(&devices).capacity_area;
    let pages_of = |devices: &[Scripted]| {
        let mut list = Devices::new(vec![Box::new(devices[CAPACITY].clone()) as Box<dyn Device>]);
        read_capacity_roots(&mut list, 0, &superblock(devices)).map(|found| match found {
            Found::Root(header, root) => {
                let slots = root.disks[0].pages.iter().map(|page| page.slot).collect::<Vec<_>>();
                (header.checkpoint, slots)
            }
            other => panic!("{other:?}"),
        })
    };
    let mut roots = pages_of(&devices);
    roots.sort();
    assert_eq!((roots[0].0, roots[1].0), (before, before + 1));
    // The opening gets as far as its pages.
    devices[CAPACITY].rule(move |seen| {
        let is_root = (area.offset_bytes..area.page_offset_bytes(0)).contains(&seen.offset_bytes);
        failed(seen.kind == Kind::Write && is_root)
    });
    let rig = Rig::open(&setup, devices).unwrap();
    let devices = rig.cut(|_| false);
    let mut alone = Alone::open(&setup, &devices);
    assert_eq!((alone.report.checkpoint, alone.report.pages_damaged), (before + 1, 0));
    assert_eq!(alone.report.disks[0].maybe_older.blocks, 0);
    assert_eq!((alone.see(400), alone.see(401), alone.see(800)), (Seen::Version(2), Seen::Gone, Seen::Version(1)));
    drop(alone);
    // Where they are damaged nevertheless, the previous root is complete.
    for slot in roots[1].1.iter().filter(|slot| !roots[0].1.contains(slot)) {
        devices[CAPACITY].forge(area.page_offset_bytes(u64::from(*slot)), &[7; 4096]);
    }
    let mut alone = Alone::open(&setup, &devices);
    assert_eq!((alone.report.checkpoint, alone.report.pages_damaged), (before, 0));
    assert!(alone.report.warnings.iter().any(|warning| warning.contains("one before")), "{:?}", alone.report.warnings);
    assert_eq!(alone.report.disks[0].maybe_older.blocks, 0);
    assert_eq!((alone.see(401), alone.see(800)), (Seen::Nothing, Seen::Version(1)));
}

/// Unreadable data from after the checkpoint was taken for data that never arrived: older versions were shown as if they were the newest.
#[test]
fn what_is_behind_data_that_cannot_be_read_may_be_older() {
    let setup = Setup::default();
    let band = band_blocks(&setup);
    let mut rig = Rig::new(&setup);
    rig.put_run(0, band, 1);
    rig.checkpoint();
    rig.put_run(0, band, 2);
    rig.put_run(0, band, 3);
    rig.put_run(100, band, 3);
    let unreadable = [rig.find(CAPACITY, 0, 3)[0], rig.find(CAPACITY, 100, 3)[0]];
    let devices = rig.cut(|_| false);
    devices[CAPACITY].rule(move |seen| failed(seen.kind == Kind::Read && unreadable.contains(&seen.offset_bytes)));
    let mut alone = Alone::open(&setup, &devices);
    assert_eq!(
        [0, 1, 100, 101].map(|block| alone.see(block)),
        [Seen::Version(2), Seen::Version(3), Seen::Gone, Seen::Version(3)]
    );
    assert!(alone.is_maybe_older(0) && !alone.is_maybe_older(1));
    let disk = &alone.report.disks[0];
    assert_eq!((disk.maybe_older.blocks, disk.gone.listed.clone()), (1, vec![(100, 1)]));
    drop(alone);
    // A summary that cannot be read is reported.
    let summary = unreadable[1] + band * 4096;
    devices[CAPACITY].rule(move |seen| failed(seen.kind == Kind::Read && seen.offset_bytes == summary));
    let alone = Alone::open(&setup, &devices);
    assert!(alone.report.warnings.iter().any(|w| w.contains("1 summary")), "{:?}", alone.report.warnings);
}

/// All that is left is the fast device.
#[test]
fn without_any_capacity_device_what_lies_on_the_fast_tier_is_read() {
    let setup = Setup::default();
    let mut rig = Rig::new(&setup);
    rig.put(1, 1, BULK);
    rig.put(2, 1, None);
    rig.flush();
    let devices = rig.cut(|_| false);
    let mut list = Devices::new(vec![Box::new(devices[FAST].clone()) as Box<dyn Device>]);
    let (_, _, report) = open_degraded(&mut list, &classes(), setup.options.clone()).unwrap();
    assert_eq!((report.missing.len(), report.disks[0].readable_blocks, report.disks[0].gone.blocks), (1, 1, 1));
    // Without the fast one, and with one that is none: what is wrong with that is reported.
    let other = Scripted::new("other", 1 << 20, false);
    let list = [other, devices[CAPACITY].clone()].map(|device| Box::new(device) as Box<dyn Device>);
    let error = open_degraded(&mut Devices::new(list.into()), &classes(), setup.options.clone()).map(drop).unwrap_err();
    assert!(error.to_string().contains("other"), "{error}");
}

/// Which member is an old copy, why a device cannot be used, and how much memory it takes is said.
#[test]
fn what_is_wrong_with_a_capacity_tier_is_reported() {
    let setup = Setup { capacity_devices: 2, ..Setup::default() };
    let mut rig = Rig::new(&setup);
    (0..200).for_each(|leaf| rig.put(400 * (leaf % 40) + leaf, 1, BULK));
    rig.checkpoint();
    let rig = rig.crash();
    let old = rig.devices[2].bytes(<[u8]>::to_vec);
    let rig = rig.crash();
    let devices = rig.cut(|_| false);
    let options = EngineOptions { memory_limit_bytes: 200 << 10, ..setup.options.clone() };
    let error = Alone::open_these(&Setup { options, ..setup.clone() }, &devices[CAPACITY..]).map(drop).unwrap_err();
    let AloneError::Memory { needed_bytes, .. } = error else { panic!("{error}") };
    assert!((40 * 7000..40 * 10_000).contains(&needed_bytes), "{needed_bytes}");
    devices[2].forge(0, &old);
    let alone = Alone::open(&setup, &devices);
    let warnings = &alone.report.warnings;
    assert!(warnings.iter().any(|w| w.starts_with("capacity1 is stale")), "{warnings:?}");
    devices[CAPACITY].forge(0, &vec![0; 1 << 17]);
    let end = devices[CAPACITY].geometry().size_bytes - 4096;
    devices[CAPACITY].forge(end, &[0; 4096]);
    let error = Alone::open_these(&setup, &devices[CAPACITY..]).map(drop).unwrap_err();
    assert!(error.to_string().contains("; capacity0 cannot be used: "), "{error}");
}
