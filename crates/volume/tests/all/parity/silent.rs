//! Members of an array that do not answer for a minute.

use super::faults::{BLOCK, array_of, assert_survives_any_one, members, pass_until, place, states, write};
use super::member::{Member, read, run};
use super::written::content;
use forebay_block::{Buf, Device, Op, Request, Vectored};
use forebay_volume::mirror::MemberState;

fn read_of(block: u64, head_bytes: u64) -> Request {
    let op = Op::Read { bufs: Vectored::One(Buf::new(BLOCK as usize)), attempt: 0 };
    Request { tag: block, offset_bytes: head_bytes + block * BLOCK, stream: 0, op }
}

/// A hanging member was waited for as long as it hung: an array with parity to spare stood still.
#[test]
fn regression_a_member_of_an_array_that_never_answers_is_left_behind() {
    let members = members(4);
    let (mut array, view, shape) = array_of(&members, 3);
    write(&mut array, &shape, 0, 63, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    let hung = place(&members, &content(0, 1)).0;
    members[hung].medium().hangs = true;
    (0..6).for_each(|block| array.submit(read_of(block, shape.head_bytes)));
    let bytes: Vec<u8> = (63..100).flat_map(|block| content(block, 2)).collect();
    let bufs = Vectored::One(Buf::copy_of(&bytes).freeze());
    let op = Op::Write { bufs, fua: false };
    array.submit(Request { tag: 63, offset_bytes: shape.head_bytes + 63 * BLOCK, stream: 0, op });
    array.submit(Request { tag: 64, offset_bytes: 0, stream: 0, op: Op::Flush });
    let mut done = Vec::new();
    pass_until(&mut array, &view, 65, &mut done);
    assert_eq!(done.len(), 8);
    for completion in done {
        completion.result.unwrap();
        if let Some(bufs) = completion.bufs {
            assert_eq!(bufs.as_slice()[0][..], content(completion.tag, 1)[..]);
        }
    }
    assert_eq!(states(&view)[hung], MemberState::Out);
    assert_eq!(view.members().status().members[hung].why.as_deref(), Some("it has not answered a request for 60 s"));
    // Late completions are ignored.
    members[hung].medium().hangs = false;
    pass_until(&mut array, &view, 1, &mut Vec::new());
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    members.iter().for_each(Member::cut);
    let there: Vec<&Member> = members.iter().enumerate().filter(|(at, _)| *at != hung).map(|(_, it)| it).collect();
    let mut joined = super::faults::opened(&there).unwrap();
    for block in 0..100 {
        let tag = if block < 63 { 1 } else { 2 };
        assert_eq!(read(&mut joined.array, shape.head_bytes + block * BLOCK, 0), Some(content(block, tag)));
    }
}

#[test]
fn more_silent_members_than_there_is_parity_for_are_waited_for() {
    let members = members(4);
    let (mut array, view, shape) = array_of(&members, 3);
    write(&mut array, &shape, 0, 63, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    members[..2].iter().for_each(|member| member.medium().hangs = true);
    (0..3).for_each(|block| array.submit(read_of(block, shape.head_bytes)));
    let mut done = Vec::new();
    pass_until(&mut array, &view, 200, &mut done);
    assert!(done.len() < 3);
    members[..2].iter().for_each(|member| member.medium().hangs = false);
    pass_until(&mut array, &view, 1, &mut done);
    assert_eq!((done.len(), states(&view)), (3, vec![MemberState::InSync; 4]));
    drop(array);
    assert_survives_any_one(&members, &shape, &(0..63).map(|block| (block, 1)).collect::<Vec<_>>());
}
