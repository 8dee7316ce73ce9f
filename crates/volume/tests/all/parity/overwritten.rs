//! Members that somebody writes over while the pool starts after a crash, or just after that: what lies there is not made parity of.

use super::member::{Member, read, run};
use super::support::{BLOCK, array_of, members_of, offer_blank, opened, pass, place, states, write};
use super::written::content;
use forebay_block::{Buf, Device, Op, Request, Vectored};
use forebay_volume::layout::array_label::OFFSETS_BYTES;
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::{Array, ArrayView, Joined};

/// A row that was changed in part got parity of what lay there, and its own parity was all that was left of its other block.
#[test]
fn regression_no_parity_is_made_of_a_member_that_has_just_been_written_over() {
    for (overwritten, is_served) in (0..3).flat_map(|member| [(member, false), (member, true)]) {
        let (members, mut array, view, shape) = after_a_cut(1, is_served, 0);
        members[overwritten].medium().durable.fill(0);
        write(&mut array, &shape, 0, 1, 2);
        assert_holds(&mut array, &shape, [2, 1], "as nobody looked");
        assert_eq!(states(&view)[overwritten], MemberState::Out);
    }
}

/// Whoever watches the devices noticed it while the labels were being read: those reads ended with its failure, which was taken for a member
/// that is only unreadable.
#[test]
fn regression_no_parity_is_made_of_a_member_that_leaves_while_its_labels_are_read() {
    for case in 0..240 {
        let (overwritten, polls) = (case as usize % 3, case / 3 % 10);
        let (members, mut array, view, shape) = after_a_cut(1, true, case);
        members[overwritten].medium().durable.fill(0);
        let bufs = Vectored::One(Buf::copy_of(&content(0, 2)).freeze());
        array.submit(Request { tag: 1, offset_bytes: shape.head_bytes, stream: 0, op: Op::Write { bufs, fua: false } });
        let mut done = Vec::new();
        (0..polls).for_each(|_| array.poll(&mut done));
        leave(&view, overwritten);
        (0..200).for_each(|_| array.poll(&mut done));
        assert!(done.first().is_some_and(|done| done.result.is_ok()), "case {case}: {:?}", done.first());
        assert_holds(&mut array, &shape, [2, 1], &format!("noticed after {polls} polls"));
        assert_eq!(states(&view)[overwritten], MemberState::Out);
    }
}

/// One of two overwritten members was left behind, and the label that says so went to the other one: it counted as whole by that.
#[test]
fn regression_the_next_label_does_not_make_a_member_whole_that_was_written_over() {
    for seed in 0..12 {
        let (members, mut array, view, shape) = after_a_cut(2, true, seed);
        let (first, second) = (seed as usize % 5, (seed as usize + 1 + seed as usize / 5) % 5);
        [first, second].iter().for_each(|&member| members[member].medium().durable.fill(0));
        leave(&view, first);
        pass(&mut array, &view, 1);
        write(&mut array, &shape, 0, 1, 2);
        assert_holds(&mut array, &shape, [2, 1], &format!("members {first} and {second}"));
        assert_eq!(states(&view)[second], MemberState::Out);
    }
}

/// With too few others left nothing was known of the row, and parity was made of what lay there all the same.
#[test]
fn regression_nothing_is_written_where_too_many_members_were_written_over() {
    for seed in 0..12 {
        let (members, mut array, view, shape) = after_a_cut(1, true, seed);
        let good = seed as usize % 3;
        let others = (0..3).filter(|member| *member != good);
        others.for_each(|member| members[member].medium().durable.fill(0));
        let before = members[good].medium().written_bytes;
        let bufs = Vectored::One(Buf::copy_of(&content(0, 2)).freeze());
        assert!(run(&mut array, shape.head_bytes, Op::Write { bufs, fua: false }).result.is_err(), "seed {seed}");
        assert_eq!(members[good].medium().written_bytes, before, "seed {seed}");
        assert!(states(&view).iter().all(|state| *state == MemberState::InSync), "{:?}", states(&view));
    }
}

/// With two blocks of parity, a member that was rebuilt got blocks that were computed of what lay on an overwritten one.
#[test]
fn regression_no_member_is_rebuilt_of_one_that_was_written_over() {
    for seed in 0..12 {
        let (members, mut array, view, shape) = after_a_cut(2, true, seed);
        let (rebuilt, overwritten) = (seed as usize % 5, (seed as usize + 1 + seed as usize / 5) % 5);
        leave(&view, rebuilt);
        pass(&mut array, &view, 1);
        offer_blank(&view);
        members[overwritten].medium().durable[shape.head_bytes as usize..].fill(0);
        OFFSETS_BYTES.iter().for_each(|&at| members[overwritten].medium().durable[at as usize..][..4096].fill(0));
        pass(&mut array, &view, 60);
        assert_eq!((states(&view)[rebuilt], states(&view)[overwritten]), (MemberState::InSync, MemberState::Out));
        assert_holds(&mut array, &shape, [1, 1], &format!("member {rebuilt} rebuilt, {overwritten} written over"));
    }
}

/// A label that was read wrongly once cost a member, and beside a rotten block the data of another one.
#[test]
fn regression_one_bad_transfer_of_a_label_costs_no_member() {
    for seed in 0..12 {
        let (members, mut array, view, shape) = after_a_cut(1, true, seed);
        let (rotten, at) = place(&members, &content(1, 1));
        members[rotten].rot(at);
        let misread = (rotten + 1 + seed as usize % 2) % 3;
        let labels = OFFSETS_BYTES.map(|at| at / BLOCK);
        members[misread].medium().misread.extend(labels);
        write(&mut array, &shape, 0, 1, 2);
        assert!(states(&view).iter().all(|state| *state == MemberState::InSync), "{:?}", states(&view));
        assert!(members[misread].medium().misread.len() < labels.len(), "no label was read");
    }
}

/// The log has one block of a row that is whole: an opening made parity of it and of what lay on the overwritten member.
#[test]
fn regression_no_row_is_settled_with_a_member_that_was_written_over() {
    for case in 0..480 {
        let (overwritten, polls) = (case as usize % 3, case / 3 % 16);
        let members = members_of(3, true, case);
        let (mut array, _, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 1, 1);
        write(&mut array, &shape, 1, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        members.iter().for_each(Member::cut);
        let Joined { mut array, view, .. } = opened(&members.iter().collect::<Vec<_>>()).unwrap();
        view.members().begin();
        members[overwritten].medium().durable.fill(0);
        if polls > 0 {
            (0..polls).for_each(|_| array.poll(&mut Vec::new()));
            leave(&view, overwritten);
        }
        pass(&mut array, &view, 2);
        leave(&view, overwritten);
        pass(&mut array, &view, 1);
        assert_holds(&mut array, &shape, [1, 1], &format!("member {overwritten}, noticed after {polls} polls"));
    }
}

/// An array that a power cut has left, with one block of data more than of parity in a row. All blocks of the first row live.
fn after_a_cut(parity: usize, is_served: bool, seed: u64) -> (Vec<Member>, Array, ArrayView, Shape) {
    let data = parity + 1;
    let members = members_of(data + parity, true, seed);
    let (mut array, view, shape) = array_of(&members, data);
    write(&mut array, &shape, 0, data as u64, 1);
    pass(&mut array, &view, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    members.iter().for_each(Member::cut);
    let Joined { mut array, view, .. } = opened(&members.iter().collect::<Vec<_>>()).unwrap();
    view.members().begin();
    if is_served {
        pass(&mut array, &view, 1);
        view.members().settle();
    }
    let mut fronts = vec![0; shape.rows() as usize / 21];
    fronts[0] = data as u32;
    view.set_fronts(fronts);
    (members, array, view, shape)
}

/// Leaves a member behind as whoever watches the devices does.
fn leave(view: &ArrayView, member: usize) {
    let id = view.members().status().members[member].id;
    view.members().leave_behind(id, "it was written over".into());
}

/// The two blocks of the first row have these tags.
fn assert_holds(array: &mut Array, shape: &Shape, tags: [u64; 2], when: &str) {
    assert!(run(array, 0, Op::Flush).result.is_ok());
    for (block, tag) in (0..).zip(tags) {
        let read = read(array, shape.head_bytes + block * BLOCK, 0);
        assert!(read == Some(content(block, tag)), "block {block}, {when}");
    }
}
