//! Members of an array that do not answer a write for three minutes.

use super::member::{Member, read, run};
use super::support::{BLOCK, array_of, members, opened, pass_until, place, states, write};
use super::written::content;
use forebay_block::{Buf, Completion, Device, Op, Request, Vectored};
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::{Array, ArrayView};

/// An array of 3+1 in which 63 blocks are durable.
fn written() -> (Vec<Member>, Array, ArrayView, Shape) {
    let members = members(4);
    let (mut array, view, shape) = array_of(&members, 3);
    write(&mut array, &shape, 0, 63, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    (members, array, view, shape)
}

fn begin_flush(array: &mut Array) {
    array.submit(Request { tag: 1000, offset_bytes: 0, stream: 0, op: Op::Flush });
}

fn begin_read(array: &mut Array, block: u64, shape: &Shape) {
    let op = Op::Read { bufs: Vectored::One(Buf::new(BLOCK as usize)), attempt: 0 };
    array.submit(Request { tag: block, offset_bytes: shape.head_bytes + block * BLOCK, stream: 0, op });
}

/// What is left after a power cut, without one member: all of these blocks.
fn assert_whole_without(missing: usize, members: &[Member], shape: &Shape, wanted: &[(u64, u64)]) {
    members.iter().for_each(Member::cut);
    let there: Vec<&Member> = members.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, it)| it).collect();
    let mut joined = opened(&there).unwrap();
    for &(block, tag) in wanted {
        let found = read(&mut joined.array, shape.head_bytes + block * BLOCK, 0);
        assert!(found == Some(content(block, tag)), "block {block}");
    }
}

/// A member that hung was waited for as long as it hung: an array that has parity for it stood still.
#[test]
fn regression_a_member_of_an_array_that_never_answers_is_left_behind() {
    let (members, mut array, view, shape) = written();
    let hung = place(&members, &content(0, 1)).0;
    members[hung].medium().hangs = true;
    (0..6).for_each(|block| begin_read(&mut array, block, &shape));
    let bytes: Vec<u8> = (63..100).flat_map(|block| content(block, 2)).collect();
    let op = Op::Write { bufs: Vectored::One(Buf::copy_of(&bytes).freeze()), fua: false };
    array.submit(Request { tag: 63, offset_bytes: shape.head_bytes + 63 * BLOCK, stream: 0, op });
    begin_flush(&mut array);
    let mut done = Vec::new();
    pass_until(&mut array, &view, 190, &mut done);
    assert_eq!(done.len(), 8);
    for Completion { tag, result, bufs } in done {
        result.unwrap();
        if let Some(bufs) = bufs {
            assert_eq!(bufs.as_slice()[0][..], content(tag, 1)[..]);
        }
    }
    assert_eq!(states(&view)[hung], MemberState::Out);
    let why = view.members().status().members[hung].why.clone();
    assert_eq!(why.as_deref(), Some("it has not answered a write or a flush for 180 s"));
    // Answers that come late have no effect.
    members[hung].medium().hangs = false;
    pass_until(&mut array, &view, 1, &mut Vec::new());
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    let wanted: Vec<(u64, u64)> = (0..100).map(|block| (block, if block < 63 { 1 } else { 2 })).collect();
    assert_whole_without(hung, &members, &shape, &wanted);
}

#[test]
fn more_silent_members_than_there_is_parity_for_are_waited_for() {
    let (members, mut array, view, shape) = written();
    members[..2].iter().for_each(|member| member.medium().hangs = true);
    begin_flush(&mut array);
    let mut done = Vec::new();
    pass_until(&mut array, &view, 400, &mut done);
    assert!(done.is_empty());
    members[..2].iter().for_each(|member| member.medium().hangs = false);
    pass_until(&mut array, &view, 1, &mut done);
    assert!(done.len() == 1 && done[0].result.is_ok());
    assert_eq!(states(&view), [MemberState::InSync; 4]);
    drop(array);
    (0..4).for_each(|missing| assert_whole_without(missing, &members, &shape, &[(0, 1), (62, 1)]));
}

/// A member that is dead fails at once, and had nothing in flight: it counted as one that answers. The silent one was left behind, the label of that could not
/// be made durable, and no start had enough members that were not older, though all but the dead one had everything.
#[test]
fn regression_a_dead_member_of_an_array_is_not_counted_on_when_another_is_silent() {
    for (is_gone, has_flush) in [(true, true), (false, true), (true, false)] {
        let (members, mut array, view, shape) = written();
        let (dead, hung) = (0, 2);
        (members[dead].medium().is_dead, members[dead].medium().is_gone) = (true, is_gone);
        members[hung].medium().hangs = true;
        (0..6).for_each(|block| begin_read(&mut array, block, &shape));
        if has_flush {
            begin_flush(&mut array);
        }
        let mut done = Vec::new();
        pass_until(&mut array, &view, 400, &mut done);
        members[hung].medium().hangs = false;
        pass_until(&mut array, &view, 30, &mut done);
        assert_eq!(view.members().status().broken, None);
        assert!(done.iter().all(|completion| completion.result.is_ok()));
        assert_eq!(done.len(), 6 + usize::from(has_flush));
        drop(array);
        assert_whole_without(dead, &members, &shape, &(0..63).map(|block| (block, 1)).collect::<Vec<_>>());
    }
}

/// What one member had lost with a failed flush was made good only as long as the silent one was not left behind meanwhile.
#[test]
fn regression_a_failed_flush_is_heard_of_before_a_silent_member_is_left_behind() {
    let (members, mut array, view, shape) = written();
    write(&mut array, &shape, 63, 63, 2);
    members[0].medium().fails_flush = true;
    members[2].medium().hangs = true;
    begin_flush(&mut array);
    let mut done = Vec::new();
    pass_until(&mut array, &view, 400, &mut done);
    assert!(done.is_empty());
    members[2].medium().hangs = false;
    pass_until(&mut array, &view, 10, &mut done);
    assert!(done.len() == 1 && done[0].result.is_ok());
    assert_eq!(states(&view)[0], MemberState::Out);
    drop(array);
    assert_whole_without(0, &members, &shape, &(63..126).map(|block| (block, 2)).collect::<Vec<_>>());
}
