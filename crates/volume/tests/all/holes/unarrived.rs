//! Data written just before a power cut and unreadable at the next opening: it may be readable later, or may never have arrived.

use super::device::{Fate, Kind, Region, Scripted, Seen};
use super::rig::{BLOCK, BULK, CAPACITY, Rig, Setup, content, failed};
use forebay_block::{Buf, Device};
use forebay_prism::{ClassChange, Compress};
use forebay_volume::layout::base::Base;
use forebay_volume::recovery::OpenError;
use forebay_volume::{EngineOptions, Op, Outcome};
use std::sync::{Arc, Mutex};

/// A pool whose power was cut after a block was written past the fast tier and flushed, then rewritten without a flush; with the block's
/// place. The device cache keeps or loses the last write.
fn cut(has_arrived: bool) -> (Vec<Scripted>, u64) {
    let mut rig = Rig::new(&Setup::default());
    rig.put(0, 1, BULK);
    rig.flush();
    rig.put(0, 2, BULK);
    let place = rig.find(CAPACITY, 0, 2)[0];
    (rig.cut(|_| has_arrived), place)
}

fn reads(seen: &Seen<'_>, place: u64) -> bool {
    seen.kind == Kind::Read && seen.covers(place)
}

fn strikes(devices: &[Scripted], place: u64, fate: Fate) {
    devices[CAPACITY].rule(move |seen| if reads(seen, place) { fate } else { Fate::Good });
}

fn accepting() -> Setup {
    Setup { options: EngineOptions { accepts_loss: true, ..Setup::default().options }, ..Setup::default() }
}

/// A device that was unreadable for a moment during an opening: data assumed to be there was not, and the flushed data before it was given
/// up for it.
#[test]
fn regression_data_that_may_not_have_arrived_gives_nothing_up() {
    for has_arrived in [false, true] {
        let (devices, place) = cut(has_arrived);
        strikes(&devices, place, Fate::Failed);
        let Err(OpenError::UnreadData { blocks: 1, first_bytes: 0, .. }) =
            Rig::open(&Setup::default(), devices.clone())
        else {
            panic!("opened, or refused for another reason");
        };
        devices[CAPACITY].heal();
        let mut rig = Rig::open(&Setup::default(), devices).unwrap();
        assert_eq!(rig.get(0), Ok(if has_arrived { 2 } else { 1 }));
    }
}

/// After the loss is accepted, the block reads as an error and never as an older version, until it is rewritten, even where the data never
/// arrived.
#[test]
fn data_that_may_not_have_arrived_can_be_done_without() {
    for has_arrived in [false, true] {
        let (devices, place) = cut(has_arrived);
        strikes(&devices, place, Fate::Failed);
        let mut rig = Rig::open(&accepting(), devices).unwrap();
        rig.devices[CAPACITY].heal();
        assert_eq!(rig.get(0).ok(), has_arrived.then_some(2));
        rig.put(0, 3, BULK);
        assert_eq!(rig.get(0), Ok(3));
    }
}

/// One misread and one failed read: good data was declared lost.
#[test]
fn regression_a_misread_and_a_failed_read_do_not_say_that_a_write_was_lost() {
    let (devices, place) = cut(true);
    let mut reads_so_far = 0;
    devices[CAPACITY].rule(move |seen| {
        reads_so_far += u32::from(reads(seen, place));
        match (reads(seen, place), reads_so_far) {
            (false, _) => Fate::Good,
            (true, 1) => Fate::Misread(place + 77),
            (true, _) => Fate::Failed,
        }
    });
    assert!(matches!(Rig::open(&Setup::default(), devices.clone()), Err(OpenError::UnreadData { blocks: 1, .. })));
    devices[CAPACITY].heal();
    assert_eq!(Rig::open(&Setup::default(), devices).unwrap().get(0), Ok(2));
}

/// A missing object of a bucket: no later read finds it, and its write was never flushed. Where it held compressed blocks, flushes failed
/// for them.
#[test]
fn regression_what_is_missing_for_good_has_not_arrived() {
    for is_packed in [false, true] {
        let mut rig = Rig::new(&Setup::default());
        if is_packed {
            let change = ClassChange { compress: Some(Compress::Lz4), ..ClassChange::default() };
            rig.pool.engine.prism_mut().table_mut().set("bulk", change).unwrap();
            rig.pool.engine.classes_changed();
        }
        let write = |rig: &mut Rig, byte: u8| {
            let mut bytes = Buf::zeroed(64 * BLOCK);
            bytes.fill(byte);
            let token = rig.submit_to(rig.disk, 0, bytes.len() as u64, Op::Write(bytes), false, BULK);
            rig.wait(token).unwrap();
        };
        write(&mut rig, 1);
        rig.flush();
        let before = Arc::new(Mutex::new(Vec::new()));
        let places = before.clone();
        rig.devices[CAPACITY].rule(move |seen| {
            if seen.is(Kind::Write, Region::Bands) {
                places.lock().unwrap().push(seen.offset_bytes);
            }
            Fate::Good
        });
        write(&mut rig, 2);
        let places = before.lock().unwrap().clone();
        assert!(!places.is_empty(), "it goes past the fast tier");
        let devices = rig.cut(|_| false);
        devices[CAPACITY].rule(move |seen| {
            let is_missing = seen.kind == Kind::Read && places.iter().any(|&place| seen.covers(place));
            if is_missing { Fate::Missing } else { Fate::Good }
        });
        let mut rig = Rig::open(&Setup::default(), devices).unwrap();
        rig.devices[CAPACITY].heal();
        let token = rig.submit_to(rig.disk, 0, BLOCK as u64, Op::Read, false, None);
        let Ok(Outcome::Data(data)) = rig.wait(token) else { panic!("not read") };
        assert!(data.iter().all(|&byte| byte == 1));
        rig.flush();
        assert_eq!(rig.pool.engine.status().counters.flush_lost_blocks, 0);
    }
}

/// Of two unreadable devices one had only data that was rewritten later: the other one is named.
#[test]
fn the_device_is_named_that_has_what_would_be_given_up() {
    let mut rig = Rig::new(&Setup { capacity_devices: 2, ..Setup::default() });
    rig.put_run(0, 2, 1);
    let setup = rig.setup.clone();
    let devices = rig.cut(|_| true);
    let error = {
        let mut rig = Rig::open(&setup, devices).unwrap();
        (0..2).for_each(|block| rig.put(block, 1, BULK));
        rig.flush();
        (0..2).for_each(|block| rig.put(block, 2, BULK));
        let places: Vec<_> = [1, 2].map(|device| (device, rig.find(device, 1, 2))).into();
        let (device, place) = places.into_iter().find_map(|(device, at)| Some((device, *at.first()?))).unwrap();
        let gone: Vec<_> = [1, 2].map(|device| (device, rig.find(device, 0, 2))).into();
        let (other, first) = gone.into_iter().find_map(|(device, at)| Some((device, *at.first()?))).unwrap();
        rig.put(0, 3, BULK);
        let devices = rig.cut(|_| true);
        devices[other].rule(move |seen| failed(reads(seen, first) || other == device && reads(seen, place)));
        if other != device {
            devices[device].rule(move |seen| failed(reads(seen, place)));
        }
        let name = devices[device].name().to_owned();
        (name, Rig::open(&setup, devices).err().unwrap())
    };
    match error {
        (name, OpenError::UnreadData { device, blocks: 1, first_bytes: 4096, .. }) => assert_eq!(device, name),
        other => panic!("{other:?}"),
    }
}

/// Data of a disk's base was given up, because the map has no entry there.
#[test]
fn regression_what_a_base_has_is_not_given_up_for_what_may_not_have_arrived() {
    let (bytes, base) = (8 * BLOCK as u64, Scripted::new("base", 8 * BLOCK as u64, false));
    base.forge(0, &content(0, 1));
    // It is not copied before hosts write.
    base.rule(|_| Fate::Failed);
    let mut rig = Rig::new(&Setup::default());
    let disk = rig.pool.engine.add_disk("over", bytes).unwrap();
    rig.pool.engine.lay_over(disk, Base { blocks: 8, identity: 7 }).unwrap();
    rig.pool.attach_base(disk, Box::new(base.clone()));
    rig.checkpoint();
    let token = rig.submit_to(disk, 0, BLOCK as u64, Op::Write(content(0, 2)), false, BULK);
    rig.wait(token).unwrap();
    let place = rig.find(CAPACITY, 0, 2)[0];
    let devices = rig.cut(|_| false);
    strikes(&devices, place, Fate::Failed);
    assert!(matches!(Rig::open(&Setup::default(), devices.clone()), Err(OpenError::UnreadData { blocks: 1, .. })));
    devices[CAPACITY].heal();
    base.heal();
    let mut rig = Rig::open(&Setup::default(), devices).unwrap();
    rig.pool.attach_base(disk, Box::new(base));
    assert_eq!(rig.get_from(disk, 0), Ok(1));
}

/// Where the map has no entry, or a newer one, nothing is given up.
#[test]
fn nobody_is_asked_where_nothing_is_given_up() {
    let mut rig = Rig::new(&Setup::default());
    rig.put(1, 1, BULK);
    let place = rig.find(CAPACITY, 1, 1)[0];
    let devices = rig.cut(|_| true);
    strikes(&devices, place, Fate::Failed);
    let mut rig = Rig::open(&Setup::default(), devices).unwrap();
    assert!(rig.get(1).is_err());
    rig.devices[CAPACITY].heal();
    assert_eq!(rig.get(1), Ok(1), "it was not given up either");
    rig.put(0, 1, BULK);
    rig.flush();
    rig.put(0, 2, BULK);
    let place = rig.find(CAPACITY, 0, 2)[0];
    rig.put(0, 3, BULK);
    let devices = rig.cut(|_| true);
    strikes(&devices, place, Fate::Failed);
    assert_eq!(Rig::open(&Setup::default(), devices).unwrap().get(0), Ok(3));
}
