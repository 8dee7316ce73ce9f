//! The log of an array where places of it cannot be read, written or erased.

use super::member::{Member, read, run};
use super::support::{
    BLOCK, MEMBER_BYTES, WithStuck, array_of, assert_survives_any_one, members, members_of, opened, opened_again, pass,
    pass_until, states, with_stuck, write,
};
use super::written::content;
use forebay_block::{Buf, Device, Op, Request, Vectored};
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::Joined;

/// An older entry of an open row could not be erased once: the entry that took its place covered nothing, and hid the one that the row lived by.
#[test]
fn regression_what_takes_the_place_of_an_old_entry_hides_none_that_is_needed() {
    for out in 0..4 {
        let WithStuck { members, mut array, view, shape, left } = with_stuck(out);
        pass(&mut array, &view, 1);
        left.iter().for_each(|number| members[*number].medium().unwritable.clear());
        pass(&mut array, &view, 5);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        let Joined { mut array, .. } = opened_again(&members, &left);
        for block in 0..2 {
            let read = read(&mut array, shape.head_bytes + block * BLOCK, 0);
            assert!(read == Some(content(block, 1)), "block {block} without {out}");
        }
    }
}

/// Places that a cache showed as erased were forgotten with the second of two flushes that failed, and the entry there came back over what had been
/// written since.
#[test]
fn regression_a_second_failed_flush_forgets_no_place_that_is_to_be_erased() {
    for seed in 0..24 {
        let members: Vec<Member> =
            (0..3).map(|number| Member::new(&format!("m{number}"), MEMBER_BYTES, true, seed * 3 + number)).collect();
        let (mut array, view, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        write(&mut array, &shape, 1, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        // The entry is erased, which no flush makes durable.
        pass(&mut array, &view, 1);
        members.iter().for_each(|member| member.medium().fails_flush = true);
        assert!(run(&mut array, 0, Op::Flush).result.is_err());
        // The array's own, when it knows its log again.
        members.iter().for_each(|member| member.medium().fails_flush = true);
        pass(&mut array, &view, 20);
        // The next of a host tells of it, once.
        run(&mut array, 0, Op::Flush);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        let discard = Op::Discard { len_bytes: shape.band_bytes };
        assert!(run(&mut array, shape.head_bytes, discard).result.is_ok());
        pass(&mut array, &view, 5);
        write(&mut array, &shape, 0, 42, 3);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        drop(opened_again(&members, &[0, 1, 2]));
        let wanted: Vec<(u64, u64)> = (0..42).map(|block| (block, 3)).collect();
        assert_survives_any_one(&members, &shape, &wanted);
    }
}

/// A place of the log that a member without a volatile cache could not read was never written: it was rebuilt at each start.
#[test]
fn regression_a_bad_place_of_the_log_costs_its_member_one_start_alone() {
    let members = members_of(3, false, 0);
    let (mut array, _, shape) = array_of(&members, 2);
    write(&mut array, &shape, 0, 2, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    members[1].medium().dead_blocks.insert(shape.head_bytes / BLOCK + 100);
    let Joined { mut array, view, .. } = opened_again(&members, &[0, 1, 2]);
    pass(&mut array, &view, 60);
    assert_eq!(states(&view), [MemberState::InSync; 3]);
    drop(array);
    let there: Vec<&Member> = members.iter().collect();
    assert_eq!(states(&opened(&there).unwrap().view), [MemberState::InSync; 3]);
}

/// Where one place of the log could not be erased all of a batch were erased one by one, with a flush each, while all that was written waited.
#[test]
fn regression_a_place_that_cannot_be_erased_is_found_by_halves() {
    for place in [0, 20, 63] {
        let members = members(3);
        let (mut array, _, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 2, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        members.iter().for_each(Member::cut);
        let block = shape.head_bytes / BLOCK + 2 * place;
        members[0].medium().unwritable.insert(block);
        let Joined { mut array, view, .. } = opened(&[&members[0], &members[1]]).unwrap();
        view.members().begin();
        members[0].medium().flushes = 0;
        pass(&mut array, &view, 40);
        write(&mut array, &shape, 2, 2, 1);
        let flushes = members[0].medium().flushes;
        assert!(flushes < 20, "{flushes} flushes for place {place}");
    }
}

/// Polls of a start, in which no time passes: pauses are so many of them.
const POLLS: u32 = 20_000_000;

/// Two of three, of which one takes no writes any more and the other alone is not enough.
fn one_out_and_one_worn(members: &[Member]) -> Vec<&Member> {
    members[0].medium().is_dead = true;
    members[2].medium().unwritable.extend(0..MEMBER_BYTES as u64 / BLOCK);
    vec![&members[1], &members[2]]
}

/// Members of which one was left behind, all else being durable.
fn stopped_with_one_out() -> (Vec<Member>, Shape) {
    let members = members(3);
    let (mut array, view, shape) = array_of(&members, 2);
    members[0].medium().is_dead = true;
    write(&mut array, &shape, 0, 2, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 5);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    (members, shape)
}

/// Where a member that could not be spared took no writes, and nothing was found in the log, a start over volatile caches tried to erase the log for ever: the
/// first write of the opening waited for that, and nobody heard why.
#[test]
fn regression_a_start_ends_where_the_log_cannot_be_erased() {
    let (members, _) = stopped_with_one_out();
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
        let (members, shape) = stopped_with_one_out();
        let places = (first..first + count).map(|place| shape.head_bytes / BLOCK + 2 * place);
        members[2].medium().unwritable.extend(places);
        let Joined { mut array, view, .. } = opened(&[&members[1], &members[2]]).unwrap();
        view.members().begin();
        write(&mut array, &shape, 2, 2, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        assert_eq!(view.members().status().broken, None, "from place {first} on");
    }
}

/// An older entry of an open row that could not be erased was left where it is until the row is closed. Where all that is written waits for nothing to be left
/// in the log, as after a start, nobody closed it: nothing was written any more.
#[test]
fn regression_an_old_entry_of_an_open_row_that_cannot_be_erased_holds_no_changes_for_ever() {
    for out in 0..4 {
        let WithStuck { members, mut array, view, shape, left } = with_stuck(out);
        pass(&mut array, &view, 5);
        view.set_fronts(vec![2; (shape.rows() / shape.band_rows()) as usize]);
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
