//! Devices with the label of a member that have since been used for something else.

use super::disk::Disk;
use super::{Served, joined, joined_accepting, three};
use forebay_volume::Devices;
use forebay_volume::layout::member_label::{LABEL_BYTES, MemberLabel, OFFSETS_BYTES};
use forebay_volume::layout::superblock::copy_offsets_bytes;
use forebay_volume::mirror::{Consent, JoinError, MemberState, Unproven, former};

/// A database on the raw device that happened to leave the labels intact.
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

/// A former member was rebuilt over whatever it had been used for since, where its label was left.
#[test]
fn regression_a_former_member_is_not_rebuilt_over_what_it_was_used_for() {
    for is_former in [true, false] {
        let [a, b, c] = three(10);
        Served::open(&[&a, &b], &c).close();
        if is_former {
            Served::open(&[&a], &c).close();
        }
        let before = use_for_something_else(&b);
        let id = former(&mut Devices::new(vec![b.boxed()]), [10; 16]);
        assert_eq!(id, None);
        let mut served = Served::open(&[&a, &b], &c);
        assert_eq!(served.states(), [MemberState::InSync, MemberState::Out]);
        served.write(1, 7);
        served.turn(100);
        served.close();
        assert!(b.bytes().bytes == before, "it was written to");
    }
}

/// One rotten superblock does not count as other use.
#[test]
fn a_former_member_with_a_rotten_superblock_is_rebuilt() {
    for copy in copy_offsets_bytes(super::FAST_BYTES as u64) {
        let [a, b, c] = three(10);
        Served::open(&[&a, &b], &c).close();
        Served::open(&[&a], &c).close();
        b.bytes().bytes[copy as usize + 40] ^= 1;
        assert!(former(&mut Devices::new(vec![b.boxed()]), [10; 16]).is_some());
        let mut served = Served::open(&[&a, &b], &c);
        assert_eq!(served.states(), [MemberState::InSync, MemberState::Rebuilding]);
        served.until_rebuilt();
        served.close();
    }
}

fn spoil_two_superblocks(disk: &Disk) {
    copy_offsets_bytes(super::FAST_BYTES as u64)[..2].iter().for_each(|&at| disk.bytes().bytes[at as usize + 40] ^= 1);
}

/// Where nothing else is left of the pool, a device with its label is accepted.
#[test]
fn the_last_member_is_opened_with_one_superblock() {
    let [a, b, c] = three(10);
    Served::open(&[&a, &b], &c).close();
    // The other one was left behind: it has nothing that counts.
    Served::open(&[&a], &c).close();
    spoil_two_superblocks(&a);
    let (_, view) = joined(&[&a], &c).unwrap();
    assert_eq!(view.status().members[0].state, MemberState::InSync);
}

/// A member that may have been used for something else was accepted while a complete one was only absent; when that one returned, it was
/// overwritten from the other.
#[test]
fn regression_an_unproven_member_is_not_believed_while_a_whole_one_is_away() {
    let [a, b, c] = three(10);
    Served::open(&[&a, &b], &c).close();
    spoil_two_superblocks(&a);
    let Err(JoinError::Unproven(Unproven { device, missing })) = joined(&[&a], &c) else { panic!("it is believed") };
    assert_eq!((device, missing.is_empty()), (a.name.clone(), false));
    // With both present, the complete one counts, and the other is rebuilt from it.
    let (_, view) = joined(&[&a, &b], &c).unwrap();
    assert_eq!(view.status().members[1].state, MemberState::InSync);
    let (_, view) = joined_accepting(&[&a], &c, Consent { unproven: true, ..Consent::default() }).unwrap();
    assert_eq!(view.status().members[0].state, MemberState::InSync);
}

/// After a start between its offer and its first new label, a former member was refused as a device with a pool, because its labels had
/// been cleared. The labels now stay, and none of them is newer than what follows.
#[test]
fn regression_a_former_member_that_is_offered_is_known_whenever_the_power_fails() {
    for is_ahead in [false, true] {
        let mut is_labelled = false;
        for polls in 0..40 {
            let [a, b, c] = three(10);
            Served::open(&[&a, &b], &c).close();
            let mut served = Served::open(&[&a], &c);
            served.write(1, 7);
            if is_ahead {
                // Openings of it that came to nothing.
                let label = b.label();
                b.put(&MemberLabel { generation: label.generation + 20, serial: label.serial + 21, ..label });
            }
            let was = former(&mut Devices::new(vec![b.boxed()]), [10; 16]).unwrap();
            served.view.offer("b".into(), [99; 16], b.boxed(), Some(was)).unwrap();
            (0..polls).for_each(|_| served.pool.poll(&mut Vec::new()));
            drop(served);
            let is = former(&mut Devices::new(vec![b.boxed()]), [10; 16]).unwrap();
            assert!(is.id == was.id || is.id == [99; 16]);
            is_labelled |= is.id == [99; 16];
            let mut served = Served::open(&[&a, &b], &c);
            assert_ne!(served.states()[1], MemberState::Out, "after {polls} polls");
            served.until_rebuilt();
            served.close();
            assert!(b.label().generation == a.label().generation && b.label().serial == a.label().serial);
        }
        assert!(is_labelled);
    }
}
