//! Rebuilds: where they go on, what they wait for, and what they leave out.

use super::member::{Member, read, run};
use super::support::{
    BLOCK, BLOCKS, MEMBER_BYTES, array_of, assert_survives_any_one, compare_req, label, members, offer_blank,
    opened_again, pass, pass_to_gap, pass_until, place, row_at, states, then_pass_ns, with_bad_row, write,
};
use super::written::{candidate, content, put_superblocks};
use forebay_block::{Buf, Completion, Device, Op, Vectored};
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::{Array, ArrayView, JoinError, Joined, join};

/// What a rebuild could not read was passed over, and a start went on behind it: the member was in sync without it.
#[test]
fn regression_a_start_goes_back_to_what_a_rebuild_could_not_read() {
    for (steps, before) in (0..40).flat_map(|steps| [8, 24, 40, 80].map(|before| (steps, before))) {
        let members = members(3);
        let (mut array, view, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 42 * 8, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        members[2].medium().is_dead = true;
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 2);
        let blank = Member::new("blank", MEMBER_BYTES, true, 9);
        view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
        (members[0].medium().reads_before, members[0].medium().fails_reads) = (before, 100);
        for _ in 0..steps {
            view.members().tick(then_pass_ns(50_000_000));
            (0..3).for_each(|_| Device::poll(&mut array, &mut Vec::new()));
        }
        drop(array);
        (members[0].medium().reads_before, members[0].medium().fails_reads) = (0, 0);
        let all = [members[0].clone(), members[1].clone(), blank.clone()];
        let Joined { array, view, .. } = opened_again(&all, &[0, 1, 2]);
        if states(&view) != [MemberState::InSync; 3] {
            // It was not taken in before.
            continue;
        }
        drop(array);
        let wanted: Vec<(u64, u64)> = (0..42 * 8).map(|block| (block, 1)).collect();
        assert_survives_any_one(&all, &shape, &wanted);
    }
}

/// One row that could not be read made a rebuild write all of the device once more.
#[test]
fn regression_a_rebuild_goes_back_no_further_than_it_must() {
    const BLOCKS: u64 = 42 * 8;
    let members = members(3);
    let (mut array, view, shape) = array_of(&members, 2);
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    members[2].medium().is_dead = true;
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    let (number, at) =
        (BLOCKS - 2..BLOCKS).map(|block| place(&members, &content(block, 1))).find(|(number, _)| *number != 2).unwrap();
    members[number].medium().dead_blocks.insert(at / BLOCK);
    let blank = Member::new("blank", MEMBER_BYTES, true, 9);
    view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
    pass(&mut array, &view, 60);
    assert_eq!(states(&view), [MemberState::InSync; 3]);
    assert!(view.members().status().unreadable_blocks > 0);
    let (written, once) = (blank.medium().written_bytes, shape.head_bytes + BLOCKS / 2 * BLOCK);
    assert!(written > once / 2 && written < once + once / 4, "{written} bytes for {once}");
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
    for _ in 0..20_000 {
        let is_begun = label(&members[gone]).rebuilding.is_some();
        let mut medium = members[gone].medium();
        (medium.is_dead, medium.is_gone) = (is_begun, is_begun);
        drop(medium);
        if !view.rebuild_waits_for().is_empty() {
            break;
        }
        view.members().tick(then_pass_ns(50_000_000));
        Device::poll(&mut array, &mut Vec::new());
    }
    assert_eq!(view.rebuild_waits_for(), [format!("m{gone}")]);
    drop(blank);
}

/// A member that had been left behind was asked whether it answers, and did not: no mend, comparison or rebuild went on.
#[test]
fn regression_a_member_that_was_left_behind_is_not_probed() {
    let members = members(5);
    let (mut array, view, shape) = array_of(&members, 3);
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    members[4].medium().is_dead = true;
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    let last = BLOCKS / 3 - 1;
    for m in [1, 2] {
        members[m].medium().dead_blocks.insert(row_at(&shape, last));
    }
    let blank = Member::new("blank", MEMBER_BYTES, true, 9);
    view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
    let mut ticks = 0;
    while label(&members[0]).missing == 0 {
        view.members().tick(then_pass_ns(50_000_000));
        Device::poll(&mut array, &mut Vec::new());
        ticks += 1;
        assert!(ticks < 5000, "no gap");
    }
    // second pass: member 1 is slow, member 0 fails its reads.
    members[1].medium().hangs_reads = true;
    members[0].medium().fails_reads = 100_000;
    pass(&mut array, &view, 3);
    members[0].medium().is_dead = true;
    _ = run(&mut array, 0, Op::Flush);
    pass(&mut array, &view, 3);
    members[1].medium().hangs_reads = false;
    pass(&mut array, &view, 120);
    members[3].medium().dead_blocks.insert(row_at(&shape, 1));
    array.submit(compare_req(shape.head_bytes + 3 * BLOCK, 1));
    let mut done: Vec<Completion> = Vec::new();
    pass_until(&mut array, &view, 60, &mut done);
    assert!(states(&view)[4] == MemberState::InSync && done.len() == 1);
}

/// A member was replaced while a block of another one had rotten: the new one's block was computed from that, and one block of parity agreed with both. When the
/// rotten block was written again the row therefore counted as right as it was, and got new parity of the wrong block: what the new member should have was
/// lost for good.
#[test]
fn regression_a_block_that_was_rebuilt_of_rot_gets_no_parity_of_its_own() {
    for (data, parity) in [(3, 2), (4, 2), (4, 3)] {
        let mut members = members(data + parity);
        let (mut array, view, shape) = array_of(&members, data);
        write(&mut array, &shape, 0, BLOCKS, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        // Blocks of one row, on two members.
        let first = BLOCKS / 2 / data as u64 * data as u64;
        let (lost, (rotten, at)) = (place(&members, &content(first, 1)).0, place(&members, &content(first + 1, 1)));
        members[lost].medium().is_dead = true;
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 2);
        members[rotten].rot(at + 7);
        members[lost] = offer_blank(&view);
        // Time is that of all tests here: no more of it than is needed.
        let is_whole = |view: &ArrayView| states(view).iter().all(|state| *state == MemberState::InSync);
        assert!((0..60).any(|_| {
            pass(&mut array, &view, 1);
            is_whole(&view)
        }));
        // A compressed block may need both at once.
        let both = |attempt| {
            let op = Op::Read { bufs: Vectored::One(Buf::new(2 * BLOCK as usize)), attempt };
            match run(&mut array, shape.head_bytes + first * BLOCK, op).bufs {
                Some(Vectored::One(bytes)) => bytes[..] == [content(first, 1), content(first + 1, 1)].concat()[..],
                _ => false,
            }
        };
        assert!((0..=view.variants()).any(both), "{data}+{parity}: in no way both are right");
        // The reader that knows the block by its checksum writes it again.
        write(&mut array, &shape, first + 1, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        for block in first..first + data as u64 {
            let found = read(&mut array, shape.head_bytes + block * BLOCK, 0);
            assert!(found == Some(content(block, 1)), "{data}+{parity}: block {block}");
        }
        let wanted: Vec<(u64, u64)> = (0..BLOCKS).map(|block| (block, 1)).collect();
        assert_survives_any_one(&members, &shape, &wanted);
    }
}
