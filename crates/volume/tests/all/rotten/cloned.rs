//! Devices of a copy of the pool that was opened as often: epochs and checkpoints are the same, and only the numbers of the openings tell them apart.

use super::rig::{Rig, candidate};
use forebay_volume::Devices;
use forebay_volume::mirror::{self, Consent};
use forebay_volume::parity::{self, join};
use forebay_volume::recovery::{MemberError, OpenError};

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

/// The fast devices of a copy were served over the capacity devices of the other.
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

/// Members of two copies counted as whole, and hosts read of one or the other.
#[test]
fn regression_members_of_two_copies_are_refused() {
    let [one, other] = two(2);
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
    [one, other].iter().for_each(|rig| drop(rig.open().close()));
}
