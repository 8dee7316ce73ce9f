//! Devices of a copy of the pool that was opened as often: epochs and checkpoints are equal, and only the numbers of the openings
//! distinguish them.

use super::rig::{Rig, Served, candidate};
use crate::mirror::disk::Disk;
use forebay_volume::layout::superblock::{SIZE_BYTES, Superblock, copy_offsets_bytes};
use forebay_volume::mirror::{self, Consent, MemberState};
use forebay_volume::parity::{self, join};
use forebay_volume::recovery::{MemberError, OpenError};
use forebay_volume::{Devices, Op};
use std::collections::BTreeMap;

/// A pool and its copy, each served once since.
fn two(fast: usize) -> [Rig; 2] {
    let one = Rig::new("2+1", fast);
    let two = [one.copy(), one];
    for (rig, first) in two.iter().zip([0, 300]) {
        let mut served = rig.open();
        (0..200).for_each(|at| served.write(first + at));
        served.close();
    }
    two
}

/// The fast devices of a copy were served over the capacity devices of the original.
#[test]
fn regression_the_fast_tier_of_a_copy_is_refused() {
    for fast in [1, 2] {
        let [one, other] = two(fast);
        let before = other.members[0].bytes().bytes.clone();
        let mut mixed = other;
        mixed.fast.clone_from(&one.fast);
        let refused = mixed.try_open().err().unwrap();
        assert!(matches!(refused, OpenError::Member(MemberError::Apart(_))), "{fast}: {refused}");
        let labels = 8 * 4096..64 << 10;
        assert_eq!(mixed.members[0].bytes().bytes[labels.clone()], before[labels], "{fast}");
    }
}

/// Members of two copies counted as complete, and hosts read from either.
#[test]
fn regression_members_of_two_copies_are_refused() {
    let [one, other] = two(2);
    refused_together(&one, &other);
    [&one, &other].iter().for_each(|rig| drop(rig.open().close()));
    // What was opened once more is newer by one checkpoint alone.
    drop(one.open().close());
    refused_together(&one, &other);
    refused_together(&other, &one);
    [one, other].iter().for_each(|rig| drop(rig.open().close()));
}

fn refused_together(one: &Rig, other: &Rig) {
    for number in 0..2 {
        let mut members: Vec<_> = one.members.iter().map(candidate).collect();
        members[number] = candidate(&other.members[number]);
        let refused = join(members, None, Some(&mut || [200; 16]), false).err().unwrap();
        assert!(matches!(refused, parity::JoinError::Apart(_)), "{refused}");
        let (array, view) = one.array(true);
        let mut capacity = Devices::new(vec![array]).with_array(view);
        let mut fast: Vec<_> = one.fast.iter().map(candidate).collect();
        fast[number] = candidate(&other.fast[number]);
        let refused = mirror::join(fast, &mut capacity, Some(&mut || [99; 16]), Consent::default()).err().unwrap();
        assert!(matches!(refused, mirror::JoinError::Apart(_)), "{refused}");
    }
}

/// A crash during an opening leaves capacity devices an epoch ahead, and a copy's fast device took them for those of its own next epoch.
#[test]
fn regression_the_fast_tier_of_a_copy_is_refused_over_what_was_only_opened() {
    let [one, other] = two(1);
    for member in &other.members {
        let mut inner = member.bytes();
        for at in copy_offsets_bytes(inner.bytes.len() as u64).map(|at| at as usize) {
            let copy = &mut inner.bytes[at..at + SIZE_BYTES];
            let found = Superblock::decode(copy).unwrap();
            let (epoch, opening, opening_before) = (found.epoch + 1, 1 << 40, found.opening);
            copy.copy_from_slice(&Superblock { epoch, opening, opening_before, serving: false, ..found }.encode()[..]);
        }
    }
    let mut mixed = other.copy();
    mixed.fast.clone_from(&one.fast);
    let refused = mixed.try_open().err().unwrap();
    assert!(matches!(refused, OpenError::Member(MemberError::Apart(_))), "{refused}");
    other.open().close();
}

/// Serves a pool twice; an image of one of its devices in between, and what was written. No checkpoint follows that of the second start.
fn served_twice(rig: &Rig, device: &Disk, write: fn(&mut Served, u64)) -> (Disk, BTreeMap<u64, u64>) {
    let mut served = rig.open();
    (0..200).for_each(|at| write(&mut served, at));
    let model = served.close();
    let image = device.copy();
    let mut served = rig.open();
    served.model = model;
    (100..150).for_each(|at| write(&mut served, at));
    served.ask(0, Op::Flush).unwrap();
    (image, served.model)
}

/// An image of the start before is an epoch older, as members are that an opening cut short had not reached.
#[test]
fn regression_a_member_of_the_start_before_is_rebuilt() {
    let mut rig = Rig::new("2+1", 1);
    let (image, model) = served_twice(&rig, &rig.members[0], Served::write);
    rig.members[0] = image;
    let (_, view) = rig.array(true);
    assert_eq!(view.members().status().members[0].state, MemberState::Rebuilding);
    let mut served = rig.open();
    served.model = model;
    served.check();
}

/// The same of a mirror: of one whose newest checkpoint is a single one older the root tells that it is of the start before.
#[test]
fn regression_a_member_of_a_mirror_of_the_start_before_is_rebuilt() {
    for number in 0..2 {
        let mut rig = Rig::new("2+1", 2);
        let (image, model) = served_twice(&rig, &rig.fast[number], Served::write_fast);
        rig.fast[number] = image;
        let (array, view) = rig.array(true);
        let mut capacity = Devices::new(vec![array]).with_array(view);
        let fast = rig.fast.iter().map(candidate).collect();
        let joined = mirror::join(fast, &mut capacity, Some(&mut || [99; 16]), Consent::default()).unwrap();
        assert_eq!(joined.view.status().members[number].state, MemberState::Rebuilding);
        drop((joined, capacity));
        let mut served = rig.open();
        served.model = model;
        served.check();
    }
}
