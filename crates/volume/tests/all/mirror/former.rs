//! Devices that carry the label of a member, and have been used for something else since.

use super::disk::Disk;
use super::{Served, joined, three};
use forebay_volume::Devices;
use forebay_volume::layout::member_label::{LABEL_BYTES, OFFSETS_BYTES};
use forebay_volume::layout::superblock::copy_offsets_bytes;
use forebay_volume::mirror::{MemberState, former_id};

/// A database on the raw device, which happened to leave the labels.
fn use_for_something_else(disk: &Disk) -> Vec<u8> {
    let mut inner = disk.bytes();
    let labels = OFFSETS_BYTES.map(|at| at as usize..at as usize + LABEL_BYTES);
    for (at, byte) in inner.bytes.iter_mut().enumerate() {
        if !labels.iter().any(|range| range.contains(&at)) {
            *byte = at as u8 | 1;
        }
    }
    inner.bytes.clone()
}

/// A device that had been a member was rebuilt over whatever it had been used for since, where that left its label.
#[test]
fn regression_a_former_member_is_not_rebuilt_over_what_it_was_used_for() {
    for is_former in [true, false] {
        let [a, b, c] = three(10);
        Served::open(&[&a, &b], &c).close();
        if is_former {
            Served::open(&[&a], &c).close();
        }
        let before = use_for_something_else(&b);
        let id = former_id(&mut Devices::new(vec![b.boxed()]), [10; 16]);
        assert_eq!(id, None);
        let mut served = Served::open(&[&a, &b], &c);
        assert_eq!(served.states(), [MemberState::InSync, MemberState::Out]);
        served.write(1, 7);
        served.turn(100);
        served.close();
        assert!(b.bytes().bytes == before, "it was written to");
    }
}

/// One rotten superblock is no other use.
#[test]
fn a_former_member_with_a_rotten_superblock_is_rebuilt() {
    for copy in copy_offsets_bytes(super::FAST_BYTES as u64) {
        let [a, b, c] = three(10);
        Served::open(&[&a, &b], &c).close();
        Served::open(&[&a], &c).close();
        b.bytes().bytes[copy as usize + 40] ^= 1;
        assert!(former_id(&mut Devices::new(vec![b.boxed()]), [10; 16]).is_some());
        let mut served = Served::open(&[&a, &b], &c);
        assert_eq!(served.states(), [MemberState::InSync, MemberState::Rebuilding]);
        served.until_rebuilt();
        served.close();
    }
}

/// Where nothing else is left of the pool, what carries its label is believed.
#[test]
fn the_last_member_is_opened_with_one_superblock() {
    let [a, b, c] = three(10);
    Served::open(&[&a, &b], &c).close();
    copy_offsets_bytes(super::FAST_BYTES as u64)[..2].iter().for_each(|&at| a.bytes().bytes[at as usize + 40] ^= 1);
    let (_, view) = joined(&[&a], &c).unwrap();
    assert_eq!(view.status().members[0].state, MemberState::InSync);
}
