//! What was written just before the power went and cannot be read at the next opening: it may be readable later, or may never have arrived.

use super::device::{Fate, Kind, Scripted, Seen};
use super::rig::{BULK, CAPACITY, Rig, Setup};
use forebay_volume::EngineOptions;
use forebay_volume::recovery::OpenError;

/// A pool whose power was cut after a block was written past the fast tier, and flushed, and written again, and not flushed; and where. Its cache
/// keeps what was written last, or loses it.
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

/// A device that did not read for a moment while the pool was opened: what was taken to be there was not, and what had been flushed before was
/// given up for it.
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

/// Whoever accepts the loss has an error there, and no older version, until the block is written again.
#[test]
fn data_that_may_not_have_arrived_can_be_done_without() {
    let (devices, place) = cut(true);
    strikes(&devices, place, Fate::Failed);
    let mut rig = Rig::open(&accepting(), devices).unwrap();
    assert!(rig.get(0).is_err());
    rig.put(0, 3, BULK);
    assert_eq!(rig.get(0), Ok(3));
}

/// An object of a bucket that is not there: no later read finds it, and the write that it was of was never flushed.
#[test]
fn regression_what_is_missing_for_good_has_not_arrived() {
    let (devices, place) = cut(false);
    strikes(&devices, place, Fate::Missing);
    let mut rig = Rig::open(&Setup::default(), devices).unwrap();
    assert_eq!(rig.get(0), Ok(1));
}

/// Where the map has nothing, or something newer, nothing is given up.
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
