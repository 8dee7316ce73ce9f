//! A device is replaced by an older image of itself in the same epoch: only its newest checkpoint shows that it is older.

use super::rig::{Rig, Served};
use crate::holes;
use forebay_volume::mirror::MemberState;
use forebay_volume::recovery::{MemberError, OpenError};

fn rounds(served: &mut Served, from: u64) {
    for round in 0..4 {
        (0..200).for_each(|at| served.write(from + (round * 200 + at) % 700));
        served.checkpoint();
    }
}

/// An older fast device was accepted: data flushed since was lost without an error, and the true device was refused from then on.
#[test]
fn regression_an_older_image_of_the_fast_device_is_refused() {
    for is_clean in [false, true] {
        let setup = holes::rig::Setup::default();
        let mut rig = holes::rig::Rig::new(&setup);
        let checkpoints = |rig: &mut holes::rig::Rig, version| {
            for block in 0..4 {
                rig.put(block, version, None);
                rig.flush();
                rig.checkpoint();
            }
        };
        checkpoints(&mut rig, 1);
        let image = rig.devices[holes::rig::FAST].bytes(<[u8]>::to_vec);
        checkpoints(&mut rig, 2);
        if is_clean {
            assert!(rig.pool.close());
        }
        let devices = rig.cut(|_| true);
        let now = devices[holes::rig::FAST].bytes(<[u8]>::to_vec);
        devices[holes::rig::FAST].forge(0, &image);
        let before = devices[holes::rig::CAPACITY].changes();
        let error = holes::rig::Rig::open(&setup, devices.clone()).err().unwrap();
        assert!(matches!(error, OpenError::Member(MemberError::Older { .. })), "{error}");
        assert_eq!(devices[holes::rig::CAPACITY].changes(), before);
        // The true one is taken as if nothing had been.
        devices[holes::rig::FAST].forge(0, &now);
        let mut rig = holes::rig::Rig::open(&setup, devices).unwrap();
        (0..4).for_each(|block| assert_eq!(rig.get(block), Ok(2)));
    }
}

/// An older member counted as complete: with one parity block, other members were rebuilt from it.
#[test]
fn regression_an_older_image_of_a_member_is_rebuilt() {
    for (redundancy, fast, is_fast) in [("2+1", 1, false), ("4+2", 1, false), ("2+1", 2, true)] {
        for number in 0..2 {
            let rig = Rig::new(redundancy, fast);
            let mut served = rig.open();
            rounds(&mut served, 0);
            let disk = if is_fast { &rig.fast[number] } else { &rig.members[number] };
            let image = disk.bytes().bytes.clone();
            rounds(&mut served, 100);
            let model = served.close();
            disk.bytes().bytes = image;
            if !is_fast {
                let states: Vec<MemberState> =
                    rig.array(true).1.members().status().members.iter().map(|member| member.state).collect();
                assert_eq!(states[number], MemberState::Rebuilding, "{redundancy}");
            }
            let mut served = rig.open();
            served.model.clone_from(&model);
            served.check();
            served.ticks(4000);
            served.close();
            // It has all by now, also without another one.
            let mut served = if is_fast { rig.open() } else { rig.open_without(2) };
            served.model.clone_from(&model);
            served.check();
            served.close();
        }
    }
}
