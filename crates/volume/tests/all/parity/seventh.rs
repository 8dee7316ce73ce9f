//! Faults of repairs, comparisons and rebuilds that a seventh review found.

use super::doubted::compare;
use super::faults::{BLOCK, MEMBER_BYTES, NOW_NS, array_of, label, members, pass, place, states, write};
use super::member::{Member, read, run};
use super::written::{candidate, content, put_superblocks};
use forebay_block::{Device, IoErrorKind, Op};
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::{Array, ArrayView, JoinError, Joined, join};
use std::sync::atomic::Ordering;

const BLOCKS: u64 = 42 * 8;

/// A member that failed the write of the repaired block was left behind, but the block counted as repaired.
#[test]
fn regression_a_mend_that_could_not_be_written_is_none() {
    let members = members(3);
    let (mut array, view, shape) = array_of(&members, 2);
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    let (number, at) = place(&members, &content(0, 1));
    members[number].medium().dead_blocks.insert(at / BLOCK);
    members[number].medium().unwritable.insert(at / BLOCK);
    assert_eq!(read(&mut array, shape.head_bytes, 0), Some(content(0, 1)));
    pass(&mut array, &view, 30);
    assert_eq!(states(&view)[number], MemberState::Out);
    assert_eq!(view.members().status().mended_blocks, 0);
}

/// A block that was unreadable once during a row comparison was readable at the retry, and the row's parity was then not checked.
#[test]
fn regression_a_read_that_fails_once_hides_no_parity_of_something_else() {
    for (data, parity) in [(2, 1), (3, 2)] {
        for failing in 0..data + parity {
            let members = members(data + parity);
            let (mut array, view, shape) = array_of(&members, data);
            write(&mut array, &shape, 0, BLOCKS, 1);
            assert!(run(&mut array, 0, Op::Flush).result.is_ok());
            let (_, at) = place(&members, &content(0, 1));
            let holds = |number: &usize| {
                (0..data as u64).any(|block| {
                    members[*number].medium().durable[at as usize..][..BLOCK as usize] == content(block, 1)[..]
                })
            };
            let of_parity = (0..members.len()).find(|number| !holds(number)).unwrap();
            members[of_parity].rot(at + 7);
            members[failing].medium().fails_reads = 1;
            let answer = compare(&mut array, &view, shape.head_bytes);
            assert!(
                answer.result.as_ref().is_err_and(|error| error.kind == IoErrorKind::Mismatch),
                "{data}+{parity}, member {failing}: {:?}",
                answer.result
            );
            assert_eq!(view.members().status().mended_blocks, 0);
        }
    }
}

/// An array of so many of data and of parity whose last member was lost. A row of which so many of the others as there is parity cannot read their blocks; its first
/// block, and these.
pub(super) fn with_bad_row(data: usize, parity: usize) -> (Vec<Member>, Array, ArrayView, Shape, (u64, Vec<usize>)) {
    let members = members(data + parity);
    let (mut array, view, shape) = array_of(&members, data);
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    let last = members.len() - 1;
    members[last].medium().is_dead = true;
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    let first = BLOCKS / 2 / data as u64 * data as u64;
    let places = (first..first + data as u64).map(|block| place(&members, &content(block, 1)));
    let bad: Vec<(usize, u64)> = places.filter(|(number, _)| *number != last).take(parity).collect();
    assert_eq!(bad.len(), parity);
    bad.iter().for_each(|&(number, at)| _ = members[number].medium().dead_blocks.insert(at / BLOCK));
    (members, array, view, shape, (first, bad.into_iter().map(|(number, _)| number).collect()))
}

pub(super) fn offer_blank(view: &ArrayView) -> Member {
    let blank = Member::new("blank", MEMBER_BYTES, true, 9);
    view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
    blank
}

/// A member with an intermittent path was probed only once: it was present, and a block that it then failed to read a second time was given
/// up.
#[test]
fn regression_a_path_that_comes_and_goes_leaves_nothing_out() {
    let (members, mut array, view, shape, (first, bad)) = with_bad_row(2, 1);
    // The probe reads the label.
    members[bad[0]].medium().heals_after = Some(2);
    let blank = offer_blank(&view);
    pass(&mut array, &view, 60);
    assert_eq!(states(&view), [MemberState::InSync; 3]);
    assert!(members[bad[0]].medium().dead_blocks.is_empty());
    members[bad[0]].medium().is_dead = true;
    let of_row: Vec<Option<Vec<u8>>> =
        (first..first + 2).map(|block| read(&mut array, shape.head_bytes + block * BLOCK, 0)).collect();
    assert_eq!(of_row, [Some(content(first, 1)), Some(content(first + 1, 1))]);
    drop(blank);
}

/// As far as the first pass, in which all but this row was made.
pub(super) fn pass_to_gap(array: &mut Array, view: &ArrayView, of: &Member) {
    for _ in 0..20_000 {
        if label(of).missing > 0 {
            return;
        }
        view.members().tick(NOW_NS.fetch_add(50_000_000, Ordering::Relaxed));
        Device::poll(array, &mut Vec::new());
    }
    panic!("no pass ends");
}

/// All blocks as they are read in any way, but for those of the bad row: how many of these are not.
#[track_caller]
fn lost_of(array: &mut Array, view: &ArrayView, shape: &Shape, first: u64) -> usize {
    let is_read = |array: &mut Array, block: u64| {
        let at = shape.head_bytes + block * BLOCK;
        (0..=view.variants() + 1).any(|attempt| read(array, at, attempt) == Some(content(block, 1)))
    };
    let lost: Vec<u64> = (0..BLOCKS).filter(|&block| !is_read(array, block)).collect();
    assert!(lost.iter().all(|block| (first..first + shape.data as u64).contains(block)), "{lost:?}");
    lost.len()
}

/// A rebuild that waited for a member did not report it.
#[test]
fn regression_what_a_rebuild_waits_for_is_shown() {
    let (members, mut array, view, shape, (first, bad)) = with_bad_row(2, 1);
    let bad = bad[0];
    let blank = offer_blank(&view);
    pass_to_gap(&mut array, &view, &members[bad]);
    members[bad].medium().is_dead = true;
    pass(&mut array, &view, 100);
    assert_eq!(view.rebuild_waits_for(), [format!("m{bad}")]);
    assert_eq!((states(&view)[2], view.members().status().unreadable_blocks), (MemberState::Rebuilding, 0));
    // It is back, and all that it has.
    (members[bad].medium().is_dead, members[bad].medium().heals_after) = (false, Some(0));
    pass(&mut array, &view, 20);
    assert_eq!((states(&view), view.rebuild_waits_for()), (vec![MemberState::InSync; 3], vec![]));
    assert_eq!(view.members().status().unreadable_blocks, 0);
    members[bad].medium().is_dead = true;
    assert_eq!(lost_of(&mut array, &view, &shape, first), 0);
    drop(blank);
}

/// Where enough other members are present, a start without the member ends the rebuild and reports the loss.
#[test]
fn a_rebuild_ends_at_a_start_without_the_member_that_it_waits_for() {
    let (members, mut array, view, shape, (first, bad)) = with_bad_row(3, 2);
    let blank = offer_blank(&view);
    pass_to_gap(&mut array, &view, &members[bad[0]]);
    members[bad[0]].medium().is_dead = true;
    pass(&mut array, &view, 100);
    assert_eq!((view.rebuild_waits_for(), states(&view)[4]), (vec![format!("m{}", bad[0])], MemberState::Rebuilding));
    drop(array);
    members.iter().chain([&blank]).for_each(Member::cut);
    let there = members[..4].iter().filter(|member| !member.medium().is_dead).chain([&blank]);
    let Joined { mut array, view, .. } =
        join(there.map(candidate).collect(), None, Some(&mut || [77; 16]), false).unwrap();
    view.members().begin();
    pass(&mut array, &view, 60);
    assert_eq!((states(&view)[4], view.rebuild_waits_for()), (MemberState::InSync, vec![]));
    assert_eq!(view.members().status().unreadable_blocks, 1);
    assert!(lost_of(&mut array, &view, &shape, first) > 0);
}

/// The last source of a rebuild failed to read one block and was lost for good after everything else had been copied: nothing was left of
/// the pool.
#[test]
fn regression_a_member_that_lacks_some_blocks_alone_takes_the_place_of_one_that_is_lost_for_ever() {
    let (members, mut array, view, shape, (first, bad)) = with_bad_row(2, 1);
    let (bad, good) = (bad[0], 1 - bad[0]);
    let blank = offer_blank(&view);
    let opened = |is_accepted: bool| {
        members.iter().chain([&blank]).for_each(Member::cut);
        put_superblocks(&blank, 1);
        let there = [&members[good], &blank].map(candidate).into();
        join(there, None, Some(&mut || [77; 16]), is_accepted)
    };
    pass_to_gap(&mut array, &view, &members[bad]);
    members[bad].medium().is_dead = true;
    pass(&mut array, &view, 5);
    drop(array);
    let refused = opened(false).err();
    assert!(
        matches!(&refused, Some(JoinError::TooFew { lacking: Some((lacking, 1)), .. }) if lacking.contains("blank")),
        "{refused:?}"
    );
    let Joined { mut array, view, .. } = opened(true).unwrap();
    view.members().begin();
    pass(&mut array, &view, 5);
    let mut wanted = vec![MemberState::InSync; 3];
    wanted[bad] = MemberState::Out;
    assert_eq!((states(&view), view.members().status().unreadable_blocks), (wanted, 1));
    assert!((1..=2).contains(&lost_of(&mut array, &view, &shape, first)));
    // It is complete from now on, and new members are rebuilt from it.
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    assert!(opened(false).is_ok());
}

/// Not one of which more is missing.
#[test]
fn a_member_whose_rebuild_has_not_come_to_its_end_takes_the_place_of_none() {
    let (members, mut array, view, _, (_, bad)) = with_bad_row(2, 1);
    view.members().set_rebuild_rate(1 << 20);
    let blank = offer_blank(&view);
    pass(&mut array, &view, 1);
    assert_eq!((states(&view)[2], label(&members[0]).missing), (MemberState::Rebuilding, 0));
    drop(array);
    members.iter().chain([&blank]).for_each(Member::cut);
    put_superblocks(&blank, 1);
    let there = [&members[1 - bad[0]], &blank].map(candidate).into();
    let refused = join(there, None, Some(&mut || [77; 16]), true).err();
    assert!(matches!(refused, Some(JoinError::TooFew { lacking: None, .. })), "{refused:?}");
}

/// A member with some unreadable blocks was reported like one that does not answer: removing it lost its data.
#[test]
fn regression_a_rebuild_waits_for_none_that_answers() {
    let (members, mut array, view, shape, (_, bad)) = with_bad_row(2, 1);
    let (bad, gone) = (bad[0], 1 - bad[0]);
    let rows = (shape.head_bytes + (1 << 20)) / BLOCK..MEMBER_BYTES as u64 / BLOCK;
    rows.for_each(|block| _ = members[bad].medium().dead_blocks.insert(block));
    let blank = offer_blank(&view);
    // Other tests advance the common clock.
    let begin_ns = NOW_NS.load(Ordering::Relaxed);
    for turn in 0..20_000 {
        let is_begun = label(&members[gone]).rebuilding.is_some();
        let mut medium = members[gone].medium();
        (medium.is_dead, medium.is_gone) = (is_begun, is_begun);
        drop(medium);
        if !view.rebuild_waits_for().is_empty() {
            break;
        }
        view.members().tick(begin_ns + turn * 50_000_000);
        Device::poll(&mut array, &mut Vec::new());
    }
    assert_eq!(view.rebuild_waits_for(), [format!("m{gone}")]);
    drop(blank);
}
