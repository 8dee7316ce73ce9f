//! Labels whose writes or flushes fail.

use super::disk::Fate;
use super::{Served, joined, three};
use crate::mirror::disk::Disk;
use forebay_block::Buf;
use forebay_volume::Op;
use forebay_volume::layout::member_label::{MemberLabel, OFFSETS_BYTES};
use forebay_volume::mirror::{JoinError, MemberState};

/// After one failed flush of a label on the last member, or one unwritable label place, nothing was written until a restart.
#[test]
fn regression_a_label_that_fails_on_the_last_member_is_tried_again() {
    for fate in [Fate::FailsOneFlush, Fate::FailsLabel(0), Fate::FailsLabel(1)] {
        let [a, b, c] = three(1);
        let mut served = Served::open(&[&a, &b], &c);
        served.write(1, 1);
        a.set(fate);
        b.set(Fate::Fails);
        let mut buf = Buf::zeroed(4096);
        buf.fill(2);
        served.submit(2, 1, Op::Write(buf));
        assert_eq!(served.turn(20), (1, true));
        assert_eq!((served.states()[1], served.view.status().broken), (MemberState::Out, None));
        served.write(3, 3);
        drop(served);
        let mut served = Served::open(&[&a], &c);
        for (block, byte) in [(1, 1), (2, 2), (3, 3)] {
            assert!(served.read(block, 1).iter().all(|&found| found == byte));
        }
    }
}

/// A write-through write got the report of a label's failed flush and took it for its own failure: the next flush then acknowledged the
/// lost data as durable.
#[test]
fn regression_a_lost_flush_is_not_reported_to_a_write_past_the_caches() {
    let disks = three(1).map(Disk::cached);
    let [a, b, c] = &disks;
    let mut served = Served::open(&[a, b], c);
    let filled = |byte| {
        let mut buf = Buf::zeroed(4096);
        buf.fill(byte);
        Op::Write(buf)
    };
    served.submit(1, 1, filled(1));
    assert_eq!(served.turn(5), (1, true));
    a.set(Fate::FailsOneFlush);
    b.set(Fate::Fails);
    served.submit_as(2, 1, filled(2), true);
    served.turn(20);
    served.submit_as(3, 1, filled(3), true);
    served.submit(0, 0, Op::Flush);
    served.turn(20);
    assert_eq!(served.pool.engine.status().counters.flush_errors, 1, "the pool has heard of it");
}

/// Where the labels of two members had different serials, one overwrote the only good label of its device.
#[test]
fn regression_a_label_is_not_written_over_the_only_whole_one() {
    for more in 0..2 {
        let [a, b, c] = three(10);
        for _ in 0..=more {
            Served::open(&[&a, &b], &c).close();
            Served::open(&[&a], &c).close();
            let mut served = Served::open(&[&a, &b], &c);
            served.until_rebuilt();
            served.close();
        }
        b.damage_label(true);
        let left = b.label();
        let copies = OFFSETS_BYTES.map(|at| b.bytes().bytes[at as usize..at as usize + 4096].to_vec());
        let whole = copies.iter().position(|copy| MemberLabel::decode(copy).is_some()).unwrap();
        assert_eq!(MemberLabel::decode(&copies[whole]), Some(left));
        b.set(Fate::FailsLabel(whole));
        let mut served = Served::open(&[&a, &b], &c);
        served.write(1, 1);
        assert_eq!(served.states(), [MemberState::InSync; 2], "the only whole label was to be written over");
        served.close();
        b.set(Fate::Good);
        assert_eq!(b.label().generation, a.label().generation);
    }
}

/// The same of the only capacity device.
#[test]
fn regression_one_bad_place_for_labels_on_a_capacity_device_is_no_end() {
    for copy in [0, 1] {
        let [a, b, c] = three(1);
        let mut served = Served::open(&[&a, &b], &c);
        c.set(Fate::FailsLabel(copy));
        b.set(Fate::Fails);
        served.write(2, 2);
        assert_eq!((served.states()[1], served.view.status().broken), (MemberState::Out, None));
        drop(served);
        assert!(matches!(joined(&[&b], &c), Err(JoinError::Stale { .. })), "it is known that it was left behind");
    }
}

/// Where a label's flush was retried on the last member, the flush of a member being rebuilt counted twice: its next label overwrote its
/// newest one.
#[test]
fn regression_a_flush_that_ends_twice_moves_no_label() {
    let [a, b, c] = three(10);
    let d = Disk::new("d", super::FAST_BYTES);
    let mut served = Served::open(&[&a, &b, &d], &c);
    served.view.set_rebuild_rate(1 << 20);
    served.turn(5);
    assert_eq!(served.states()[2], MemberState::Rebuilding);
    a.set(Fate::FailsOneFlush);
    b.set(Fate::Fails);
    let mut buf = Buf::zeroed(4096);
    buf.fill(2);
    served.submit(2, 1, Op::Write(buf));
    assert_eq!(served.turn(20), (1, true));
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Out, MemberState::Rebuilding]);
    served.view.set_rebuild_rate(1 << 30);
    for _ in 0..200 {
        served.turn(10);
    }
    assert_eq!(served.states()[2], MemberState::InSync);
    served.close();
    let serial = |at: u64| MemberLabel::decode(&d.bytes().bytes[at as usize..at as usize + 4096]).unwrap().serial;
    let [first, second] = OFFSETS_BYTES.map(serial);
    assert_eq!(first.abs_diff(second), 1, "{first} and {second}");
}
