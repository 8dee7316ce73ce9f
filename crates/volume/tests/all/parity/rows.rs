//! Rows that are changed in part, or made whole after a start.

use super::member::{Member, read, run};
use super::support::{
    BLOCK, MEMBER_BYTES, array_of, assert_survives_any_one, find, members, members_of, opened, opened_again, pass,
    write,
};
use super::written::content;
use forebay_block::{Device, Op, Vectored};
use forebay_volume::layout::array_label::OFFSETS_BYTES;
use forebay_volume::parity::Joined;

/// A block that lived in a row could not be written: filling the row up wrote zeros over it.
#[test]
fn regression_filling_a_row_up_keeps_what_could_not_be_written() {
    for out in 0..3 {
        let members = members(3);
        let (mut array, view, shape) = array_of(&members, 2);
        members[out].medium().is_dead = true;
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 2);
        let left: Vec<usize> = (0..3).filter(|number| *number != out).collect();
        write(&mut array, &shape, 0, 2, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        // A start, after which the first block is written once more, and cannot be.
        drop(array);
        let Joined { mut array, view, .. } = opened_again(&members, &left);
        let Some((member, at)) = find(&members, &left, &content(0, 1)) else { continue };
        members[member].medium().unwritable.insert(at);
        let bufs = Vectored::One(forebay_block::Buf::copy_of(&content(0, 1)).freeze());
        let result = run(&mut array, shape.head_bytes, Op::Write { bufs, fua: false }).result;
        left.iter().for_each(|number| members[*number].medium().unwritable.clear());
        if result.is_ok() {
            continue;
        }
        let blank = Member::new("blank", MEMBER_BYTES, true, 9);
        view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
        pass(&mut array, &view, 60);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        for block in 0..2 {
            let read = read(&mut array, shape.head_bytes + block * BLOCK, 0);
            assert!(read == Some(content(block, 1)), "block {block} without {out}");
        }
    }
}

/// A row was changed in place as soon as the member that has its parity had failed to log it, and before any label said that it had been left behind: a power
/// cut between these left parity of what was there before, on a member that was believed.
#[test]
fn regression_a_row_is_not_changed_before_the_label_says_who_has_its_parity() {
    for seed in 0..6u64 {
        let members = members_of(3, false, seed);
        let (mut array, _, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        let Joined { mut array, .. } = opened_again(&members, &[0, 1, 2]);
        for member in &members {
            let log = shape.head_bytes / BLOCK..shape.head_bytes / BLOCK + 2 * u64::from(shape.log_slots);
            // Labels cannot be written for a while, either.
            let labels = OFFSETS_BYTES.map(|at| at / BLOCK);
            member.medium().unwritable.extend(log.chain(labels));
        }
        let bufs = Vectored::One(forebay_block::Buf::copy_of(&content(1, 1)).freeze());
        let op = Op::Write { bufs, fua: false };
        array.submit(forebay_block::Request { tag: 0, offset_bytes: shape.head_bytes + BLOCK, stream: 0, op });
        (0..40).for_each(|_| array.poll(&mut Vec::new()));
        drop(array);
        members.iter().for_each(|member| member.medium().unwritable.clear());
        drop(opened_again(&members, &[0, 1, 2]));
        assert_survives_any_one(&members, &shape, &[(0, 1)]);
    }
}

/// What was read wrong once while a row was made whole was written, with parity of it.
#[test]
fn regression_a_start_writes_nothing_that_it_has_misread() {
    for seed in 0..24u64 {
        let members = members_of(3, true, seed);
        let (mut array, view, shape) = array_of(&members, 2);
        for block in 0..2 {
            write(&mut array, &shape, block, 1, 1);
            assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        }
        drop((array, view));
        members.iter().for_each(Member::cut);
        let (number, at) = find(&members, &[0, 1, 2], &content(1, 1)).unwrap();
        members[number].medium().misread.insert(at);
        drop(opened_again(&members, &[0, 1, 2]));
        members[number].medium().misread.clear();
        assert_survives_any_one(&members, &shape, &[(0, 1), (1, 1)]);
    }
}

/// What was read wrong once beside a part of a row that was written was logged, and parity was made of it.
#[test]
fn regression_nothing_is_written_beside_what_was_misread() {
    for seed in 0..12u64 {
        let members = members_of(3, true, seed);
        let (mut array, _, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        let Joined { mut array, .. } = opened_again(&members, &[0, 1, 2]);
        let (number, at) = find(&members, &[0, 1, 2], &content(0, 1)).unwrap();
        members[number].medium().misread.insert(at);
        write(&mut array, &shape, 1, 1, 1);
        assert!(members[number].medium().misread.is_empty());
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        drop(opened_again(&members, &[0, 1, 2]));
        assert_survives_any_one(&members, &shape, &[(0, 1), (1, 1)]);
    }
}

/// Readers of a row that was found open, of a member that is out, handed its lock to each other: it was not made whole, and nothing was written.
#[test]
fn regression_readers_keep_no_row_from_being_made_whole() {
    for out in 0..3 {
        let members = members(3);
        let (mut array, _, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        members.iter().for_each(Member::cut);
        let there: Vec<&Member> = members.iter().enumerate().filter(|(at, _)| *at != out).map(|(_, one)| one).collect();
        let Joined { mut array, view, .. } = opened(&there).unwrap();
        view.members().begin();
        let read = |array: &mut forebay_volume::parity::Array, tag: u64| {
            let op = Op::Read { bufs: Vectored::One(forebay_block::Buf::new(BLOCK as usize)), attempt: 0 };
            array.submit(forebay_block::Request { tag, offset_bytes: shape.head_bytes, stream: 0, op });
        };
        (1..40).for_each(|tag| read(&mut array, tag));
        let bufs = Vectored::One(forebay_block::Buf::copy_of(&content(2, 1)).freeze());
        let op = Op::Write { bufs, fua: false };
        array.submit(forebay_block::Request { tag: 0, offset_bytes: shape.head_bytes + 2 * BLOCK, stream: 0, op });
        let is_written = (0..2000).any(|_| {
            let mut done = Vec::new();
            array.poll(&mut done);
            done.iter().filter(|completion| completion.tag > 0).for_each(|completion| read(&mut array, completion.tag));
            done.iter().any(|completion| completion.tag == 0 && completion.result.is_ok())
        });
        assert!(is_written, "without {out}");
    }
}
