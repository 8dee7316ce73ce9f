//! Members that are removed for good.

use super::disk::Disk;
use super::{Served, joined, joined_accepting, options, three};
use forebay_volume::Pool;
use forebay_volume::layout::member_label::{LABEL_BYTES, OFFSETS_BYTES};
use forebay_volume::mirror::{Consent, JoinError, MemberState, MirrorView};
use forebay_volume::recovery::open;

const DROPS: Consent = Consent { unproven: false, drops_absent: true };

fn open_dropping(members: &[&Disk], capacity: &Disk) -> (Served, MirrorView) {
    let (mut devices, view) = joined_accepting(members, capacity, DROPS).unwrap();
    let (engine, _) = open(&mut devices, 1, &super::classes(), options()).unwrap();
    (Served { pool: Pool::new(engine, devices), view: view.clone(), now_ns: 0 }, view)
}

#[test]
fn a_member_that_is_dropped_is_missed_by_nobody_and_rebuilt_where_it_comes_back() {
    for kept in 0..2 {
        let [a, b, c] = three(10);
        let mut served = Served::open(&[&a, &b], &c);
        served.write(1, 7);
        served.close();
        let (one, other) = if kept == 0 { (&a, &b) } else { (&b, &a) };
        let (mut served, _) = open_dropping(&[one], &c);
        assert_eq!(served.states(), [MemberState::InSync]);
        served.write(2, 8);
        served.close();
        // The pool continued without the removed member and does not report it as missing.
        assert!(matches!(joined(&[other], &c), Err(JoinError::Stale { .. })));
        let mut served = Served::open(&[one], &c);
        assert_eq!(served.states(), [MemberState::InSync]);
        assert_eq!((served.read(1, 1)[0], served.read(2, 1)[0]), (7, 8));
        served.close();
        let mut served = Served::open(&[one, other], &c);
        assert_eq!(served.states(), [MemberState::InSync, MemberState::Rebuilding]);
        served.until_rebuilt();
        served.close();
        let mut served = Served::open(&[other], &c);
        assert_eq!((served.read(1, 1)[0], served.read(2, 1)[0]), (7, 8));
        served.close();
    }
}

/// The power fails before the label with the removal is everywhere: the next opening has the same two members, or one.
#[test]
fn a_member_whose_drop_was_not_confirmed_is_a_member_or_none() {
    let [a, b, c] = three(10);
    Served::open(&[&a, &b], &c).close();
    // The label is on the member, but on no capacity device.
    let before = c.bytes().bytes.clone();
    open_dropping(&[&a], &c).0.close();
    let labels = OFFSETS_BYTES.map(|at| at as usize..at as usize + LABEL_BYTES);
    labels.into_iter().for_each(|place| c.bytes().bytes[place.clone()].copy_from_slice(&before[place]));
    let (mut served, view) = open_dropping(&[&a], &c);
    assert_eq!(served.states(), [MemberState::InSync]);
    assert_eq!(view.status().members.len(), 1);
    served.write(1, 5);
    assert_eq!(served.read(1, 1)[0], 5);
    served.close();
}

/// With two members absent, it is unknown which one is meant.
#[test]
fn nothing_is_dropped_where_a_configured_member_is_not_there() {
    let [a, b, c] = three(10);
    Served::open(&[&a, &b], &c).close();
    b.bytes().bytes.fill(0x55);
    let before = (a.bytes().bytes.clone(), c.bytes().bytes.clone());
    let error = joined_accepting(&[&a, &b], &c, DROPS).err().unwrap();
    assert!(matches!(&error, JoinError::NotAll { devices } if devices.contains(&b.name)), "{error:?}");
    assert!(before == (a.bytes().bytes.clone(), c.bytes().bytes.clone()));
}
