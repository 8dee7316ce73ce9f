//! Faults that a sixth reader found, each as it was.

use super::faults::{
    BLOCK, MEMBER_BYTES, array_of, assert_survives_any_one, members, opened, pass, pass_until, place, states, write,
};
use super::fifth::{log_in_use, opened_again};
use super::member::{Member, read, run};
use super::written::content;
use forebay_block::{Buf, Device, Op, Request, Vectored};
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::Joined;

/// Polls of a start, in which no time passes: pauses are so many of them.
const POLLS: u32 = 20_000_000;

/// Two of three, of which one takes no writes any more and the other alone is not enough.
fn one_out_and_one_worn(members: &[Member]) -> Vec<&Member> {
    members[0].medium().is_dead = true;
    members[2].medium().unwritable.extend(0..MEMBER_BYTES as u64 / BLOCK);
    vec![&members[1], &members[2]]
}

/// Where a member that could not be spared took no writes, and nothing was found in the log, a start over volatile caches tried to erase the log for ever: the
/// first write of the opening waited for that, and nobody heard why.
#[test]
fn regression_a_start_ends_where_the_log_cannot_be_erased() {
    let members = members(3);
    let (mut array, view, shape) = array_of(&members, 2);
    members[0].medium().is_dead = true;
    write(&mut array, &shape, 0, 2, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 5);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    let Joined { mut array, view, .. } = opened(&one_out_and_one_worn(&members)).unwrap();
    view.members().begin();
    // As the superblock is written.
    let bufs = Vectored::One(Buf::copy_of(&content(2, 2)).freeze());
    array.submit(Request { tag: 7, offset_bytes: 16 * BLOCK, stream: 0, op: Op::Write { bufs, fua: false } });
    let mut done = Vec::new();
    let ended = (0..POLLS).any(|_| {
        array.poll(&mut done);
        !done.is_empty()
    });
    let status = view.members().status();
    assert!(ended && done[0].result.is_err() && status.broken.is_some(), "{done:?} {status:?}");
}

/// Failures of halving a batch counted as if nothing could be erased: a handful of places that lie side by side, as one bad region of the medium is, ended
/// the start of an array of which all others could be erased.
#[test]
fn regression_a_few_bad_places_of_the_log_side_by_side_end_no_start() {
    for (first, count) in [(0, 6), (20, 9), (58, 6)] {
        let members = members(3);
        let (mut array, view, shape) = array_of(&members, 2);
        members[0].medium().is_dead = true;
        write(&mut array, &shape, 0, 2, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 5);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        let places = (first..first + count).map(|place| shape.head_bytes / BLOCK + 2 * place);
        members[2].medium().unwritable.extend(places);
        let Joined { mut array, view, .. } = opened(&[&members[1], &members[2]]).unwrap();
        view.members().begin();
        write(&mut array, &shape, 2, 2, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        assert_eq!(view.members().status().broken, None, "from place {first} on");
    }
}

/// A device that was offered in the place of a member that failed some requests and never answered others was not taken, and no other one behind it.
#[test]
fn regression_a_member_that_hangs_keeps_no_device_from_taking_its_place() {
    let members = members(4);
    let (mut array, view, shape) = array_of(&members, 3);
    write(&mut array, &shape, 0, 63, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    let hung = place(&members, &content(0, 1)).0;
    members[hung].medium().hangs_reads = true;
    let op = Op::Read { bufs: Vectored::One(Buf::new(BLOCK as usize)), attempt: 0 };
    array.submit(Request { tag: 9, offset_bytes: shape.head_bytes, stream: 0, op });
    pass(&mut array, &view, 1);
    members[hung].medium().is_dead = true;
    write(&mut array, &shape, 63, 63, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    assert_eq!(states(&view)[hung], MemberState::Out);
    // The first may be the same device; it keeps the second from nothing.
    let [same, other] = [(hung as u64, format!("m{hung}")), (9, "other".to_owned())]
        .map(|(seed, name)| Member::new(&name, MEMBER_BYTES, true, seed));
    view.members().offer(format!("m{hung}"), [98; 16], same.boxed()).unwrap();
    pass(&mut array, &view, 2);
    assert_eq!(states(&view)[hung], MemberState::Out);
    view.members().offer("other".to_owned(), [99; 16], other.boxed()).unwrap();
    pass(&mut array, &view, 30);
    assert_eq!(states(&view), [MemberState::InSync; 4]);
    assert_eq!(view.members().status().members[hung].name, "other");
    // What comes late falls upon nobody.
    members[hung].medium().hangs_reads = false;
    pass(&mut array, &view, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    let mut now: Vec<Member> = members.clone();
    now[hung] = other;
    now.iter().for_each(Member::cut);
    let wanted: Vec<(u64, u64)> = (0..126).map(|block| (block, 1)).collect();
    assert_survives_any_one(&now, &shape, &wanted);
}

/// An older entry of an open row that could not be erased was left where it is until the row is closed. Where all that is written waits for nothing to be left
/// in the log, as after a start, nobody closed it: nothing was written any more.
#[test]
fn regression_an_old_entry_of_an_open_row_that_cannot_be_erased_holds_no_changes_for_ever() {
    for out in 0..4 {
        let members = members(4);
        let (mut array, view, shape) = array_of(&members, 3);
        members[out].medium().is_dead = true;
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 2);
        let left: Vec<usize> = (0..4).filter(|number| *number != out).collect();
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        for number in &left {
            let in_use = log_in_use(&members[*number], &shape);
            members[*number].medium().unwritable.extend(in_use);
        }
        write(&mut array, &shape, 1, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 5);
        view.know(vec![2; (shape.rows() / shape.band_rows()) as usize]);
        let bufs = Vectored::One(Buf::copy_of(&content(3, 1)).freeze());
        array.submit(Request {
            tag: 7,
            offset_bytes: shape.head_bytes + 3 * BLOCK,
            stream: 0,
            op: Op::Write { bufs, fua: false },
        });
        let mut done = Vec::new();
        let ended = (0..40).any(|_| {
            pass_until(&mut array, &view, 1, &mut done);
            !done.is_empty()
        });
        assert!(ended && done[0].result.is_ok(), "without {out}: {done:?}");
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        let Joined { mut array, .. } = opened_again(&members, &left);
        for block in [0, 1, 3] {
            let read = read(&mut array, shape.head_bytes + block * BLOCK, 0);
            assert!(read == Some(content(block, 1)), "block {block} without {out}");
        }
    }
}
