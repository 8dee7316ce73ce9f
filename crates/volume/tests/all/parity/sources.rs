//! Sources of a rebuild that do not answer, or have an intermittent path.

use super::support::{label, pass, states, then_pass_ns};
use super::support::{offer_blank, pass_to_gap, with_bad_row};
use forebay_block::Device;
use forebay_volume::mirror::MemberState;

/// A source that could not read one block for some seconds was retried three times within milliseconds: its data was given up.
#[test]
fn regression_a_source_is_asked_over_some_seconds() {
    let (members, mut array, view, _, (_, bad)) = with_bad_row(2, 1);
    let blank = offer_blank(&view);
    pass_to_gap(&mut array, &view, &members[bad[0]]);
    pass(&mut array, &view, 2);
    assert_eq!(states(&view)[2], MemberState::Rebuilding);
    members[bad[0]].medium().dead_blocks.clear();
    pass(&mut array, &view, 10);
    assert_eq!((states(&view)[2], view.members().status().unreadable_blocks), (MemberState::InSync, 0));
    drop(blank);
}

/// Unreadable blocks are retried over that time, and the rebuild ends however many there are.
#[test]
fn a_rebuild_ends_whose_source_cannot_read_some_blocks() {
    let (members, mut array, view, _, (_, bad)) = with_bad_row(2, 1);
    let first = *members[bad[0]].medium().dead_blocks.first().unwrap();
    members[bad[0]].medium().dead_blocks.extend(first..first + 20);
    let blank = offer_blank(&view);
    pass(&mut array, &view, 20 * 5);
    assert_eq!((states(&view)[2], view.members().status().unreadable_blocks), (MemberState::InSync, 20));
    drop(blank);
}

/// A hanging source was not reported: the rebuild stood still without a reason.
#[test]
fn regression_a_source_that_hangs_is_named() {
    for with_gap in [false, true] {
        let (members, mut array, view, _, (_, bad)) = with_bad_row(2, 1);
        let (bad, good) = (bad[0], 1 - bad[0]);
        if !with_gap {
            members[bad].medium().dead_blocks.clear();
        }
        let blank = offer_blank(&view);
        let hung = if with_gap {
            pass_to_gap(&mut array, &view, &members[bad]);
            bad
        } else {
            for _ in 0..20_000 {
                if label(&members[good]).rebuilding.is_some() {
                    break;
                }
                view.members().tick(then_pass_ns(1_000_000));
                Device::poll(&mut array, &mut Vec::new());
            }
            good
        };
        members[hung].medium().hangs_reads = true;
        pass(&mut array, &view, 30);
        let shown = (states(&view)[2], view.rebuild_waits_for());
        assert_eq!(shown, (MemberState::Rebuilding, vec![format!("m{hung}")]), "{with_gap}");
        let mut medium = members[hung].medium();
        medium.hangs_reads = false;
        medium.dead_blocks.clear();
        drop(medium);
        pass(&mut array, &view, 20);
        assert_eq!((states(&view), view.rebuild_waits_for()), (vec![MemberState::InSync; 3], vec![]), "{with_gap}");
        drop(blank);
    }
}
