//! Openings without a complete member, which may have data that the others have lost.

use super::disk::Disk;
use super::{Served, classes, joined, options, three};
use forebay_block::Buf;
use forebay_volume::mirror::MemberState;
use forebay_volume::recovery::{OpenError, open};
use forebay_volume::{EngineOptions, Op};

/// All leaves on a member rot.
fn rot_leaves(disk: &Disk) {
    let mut inner = disk.bytes();
    for page in inner.bytes.chunks_exact_mut(4096).filter(|page| page.starts_with(b"FBML")) {
        page[1000] ^= 1;
    }
}

/// Two members and a capacity device after a power cut; a leaf named in the journal is rotten on the first member.
fn rotten() -> [Disk; 3] {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 7);
    served.close();
    let mut served = Served::open(&[&a, &b], &c);
    served.write(2, 8);
    drop(served);
    rot_leaves(&a);
    [a, b, c]
}

/// A leaf that was rotten on the only present member was marked as damaged for good, while another member had it intact.
#[test]
fn regression_a_leaf_is_not_given_up_while_a_member_is_away_that_may_have_it() {
    let [a, b, c] = rotten();
    let before = [a.label(), c.label()];
    let (mut devices, _) = joined(&[&a], &c).unwrap();
    let refused = open(&mut devices, 1, &classes(), options()).map(|_| ());
    let named = forebay_volume::layout::format_id(&[12; 16]);
    match &refused {
        Err(OpenError::Late { members, leaves: 1, disk, first_bytes: 0 }) => {
            assert_eq!((members, disk.as_str()), (&named, "disk"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!([a.label(), c.label()], before, "nobody was left behind");
    let mut served = Served::open(&[&a, &b], &c);
    assert_eq!(served.states(), [MemberState::InSync; 2]);
    assert!(served.read(1, 1).iter().all(|&byte| byte == 7));
    assert!(served.read(2, 1).iter().all(|&byte| byte == 8));
    served.close();
}

/// The user can declare the other member lost.
#[test]
fn a_loss_can_be_accepted() {
    let [a, _, c] = rotten();
    let (mut devices, view) = joined(&[&a], &c).unwrap();
    let (engine, report) =
        open(&mut devices, 1, &classes(), EngineOptions { accepts_loss: true, ..options() }).unwrap();
    assert_eq!(report.damaged_leaves, 1);
    let mut served = Served { pool: forebay_volume::Pool::new(engine, devices), view, now_ns: 0 };
    assert!(served.read(2, 1).iter().all(|&byte| byte == 8), "it was in the journal");
    served.submit(1, 1, Op::Read);
    assert_eq!(served.turn(20), (1, false));
    let mut buf = Buf::zeroed(4096);
    buf.fill(9);
    served.submit(1, 1, Op::Write(buf));
    assert_eq!(served.turn(20), (1, true));
    served.close();
}

/// A member left behind before has no data that counts.
#[test]
fn a_member_that_was_left_behind_is_not_waited_for() {
    let [a, b, c] = three(10);
    Served::open(&[&a, &b], &c).close();
    let mut served = Served::open(&[&a], &c);
    served.write(1, 7);
    served.close();
    let mut served = Served::open(&[&a], &c);
    served.write(2, 8);
    drop(served);
    rot_leaves(&a);
    let (mut devices, _) = joined(&[&a], &c).unwrap();
    assert_eq!(open(&mut devices, 1, &classes(), options()).unwrap().1.damaged_leaves, 1);
    drop(b);
}

/// The newest data was unreadable on the present member: before the opening was refused, labels recorded that the pool had continued
/// without the other member, and the data that only the other had was lost.
#[test]
fn regression_what_was_written_last_is_not_given_up_while_a_member_is_away_that_has_it() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 7);
    served.close();
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 8);
    drop(served);
    let place = a.bytes().bytes.chunks_exact(4096).position(|block| block.iter().all(|&byte| byte == 8)).unwrap();
    a.bytes().unreadable.insert(place * 4096);
    let before = [a.label(), c.label()];
    let (mut devices, _) = joined(&[&a], &c).unwrap();
    let refused = open(&mut devices, 1, &classes(), options()).map(|_| ());
    assert!(matches!(refused, Err(OpenError::UnreadData { blocks: 1, first_bytes: 4096, .. })), "{refused:?}");
    let missing: Vec<String> = devices.views().map(forebay_volume::mirror::MirrorView::missing).collect();
    assert_eq!(missing, [forebay_volume::layout::format_id(&[12; 16])]);
    assert_eq!([a.label(), c.label()], before, "nobody was left behind");
    let mut served = Served::open(&[&a, &b], &c);
    assert!(served.read(1, 1).iter().all(|&byte| byte == 8));
    served.close();
}
