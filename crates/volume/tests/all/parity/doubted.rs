//! Data computed from other members is wrong where one of these has rotted: it must not replace data that may be readable later.

use super::member::{Member, read, run};
use super::support::{
    BLOCK, BLOCKS, MEMBER_BYTES, array_of, compare, members, pass, place, states, then_pass_ns, write,
};
use super::written::content;
use forebay_block::{Buf, Device, IoErrorKind, Op, Vectored};
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::{Array, ArrayView};

/// An array of so many of data and of parity with all of its parity needed for members that are out, but for one.
fn worn(data: usize, parity: usize) -> (Vec<Member>, Array, ArrayView, Shape) {
    let members = members(data + parity);
    let (mut array, view, shape) = array_of(&members, data);
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    // The members with the parity of the first rows.
    members[data + 1..].iter().for_each(|member| member.medium().is_dead = true);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    (members, array, view, shape)
}

/// Whether the data written to a block is on its medium.
fn is_there(members: &[Member], (number, at): (usize, u64), block: u64) -> bool {
    members[number].medium().durable[at as usize..][..BLOCK as usize] == content(block, 1)[..]
}

/// A block could not be read for a while, and another block of its row had rotten: whoever reads it sees that by his checksum, and reads it otherwise. What had been
/// restored was written over it meanwhile, though it could be read later, and both then.
#[test]
fn regression_what_was_restored_of_rot_is_not_written() {
    for (data, parity) in [(2, 1), (3, 2), (4, 3)] {
        // As soon as it is readable, or some time later.
        for waits in [0, 12] {
            let (members, mut array, view, shape) = worn(data, parity);
            let dead = place(&members, &content(0, 1));
            let (number, at) = place(&members, &content(1, 1));
            members[number].rot(at + 7);
            members[dead.0].medium().dead_blocks.insert(dead.1 / BLOCK);
            assert!(read(&mut array, shape.head_bytes, 0).is_some_and(|bytes| bytes != content(0, 1)));
            for attempt in 1..=view.variants() + 1 {
                for _ in 0..waits {
                    view.members().tick(then_pass_ns(50_000_000));
                    Device::poll(&mut array, &mut Vec::new());
                }
                assert_ne!(read(&mut array, shape.head_bytes, attempt), Some(content(0, 1)));
            }
            pass(&mut array, &view, 5);
            assert!(run(&mut array, 0, Op::Flush).result.is_ok());
            members[dead.0].medium().dead_blocks.clear();
            assert!(is_there(&members, dead, 0), "{data}+{parity}: what could not be read for a while is gone");
            assert_eq!(view.members().status().mended_blocks, 0);
            assert_eq!(read(&mut array, shape.head_bytes, 0), Some(content(0, 1)));
            let other = (1..=view.variants())
                .any(|attempt| read(&mut array, shape.head_bytes + BLOCK, attempt).as_ref() == Some(&content(1, 1)));
            assert!(other, "{data}+{parity}: what has rotten is not restored");
        }
    }
}

/// The last reading also returned data computed from rotten blocks: for the caller that moves a band this is a damaged block, which it
/// gives up, rather than one that may be readable later.
#[test]
fn regression_the_last_reading_is_of_the_place_itself() {
    for (data, parity) in [(2, 1), (3, 2)] {
        let (members, mut array, view, shape) = worn(data, parity);
        let dead = place(&members, &content(0, 1));
        let (number, at) = place(&members, &content(1, 1));
        members[number].rot(at + 7);
        members[dead.0].medium().dead_blocks.insert(dead.1 / BLOCK);
        let last = view.variants() + 1;
        assert_eq!(read(&mut array, shape.head_bytes, last), None);
        // With its neighbours, as far as they are readable.
        assert_eq!(read(&mut array, shape.head_bytes + data as u64 * BLOCK, last), Some(content(data as u64, 1)));
        members[dead.0].medium().dead_blocks.clear();
        members[dead.0].medium().fails_reads = 1;
        assert_eq!(read(&mut array, shape.head_bytes, last), Some(content(0, 1)));
    }
}

/// What nobody asks for again is right.
#[test]
fn what_a_member_cannot_read_is_written_again_when_it_was_taken_for_right() {
    for (data, parity) in [(2, 1), (3, 2), (4, 3)] {
        let (members, mut array, view, shape) = worn(data, parity);
        let dead = place(&members, &content(0, 1));
        members[dead.0].medium().dead_blocks.insert(dead.1 / BLOCK);
        // However often it is read meanwhile.
        for _ in 0..240 {
            assert_eq!(read(&mut array, shape.head_bytes, 0), Some(content(0, 1)));
            view.members().tick(then_pass_ns(50_000_000));
        }
        pass(&mut array, &view, 1);
        assert_eq!(view.members().status().mended_blocks, 1);
        assert!(members[dead.0].medium().dead_blocks.is_empty());
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        assert!(is_there(&members, dead, 0));
    }
}

/// A comparison overwrote an unreadable block with data computed from the others, though nothing showed that the data was right.
#[test]
fn regression_a_comparison_writes_nothing_that_parity_does_not_show() {
    for (data, parity, is_rotten) in [(2, 1, true), (2, 1, false), (3, 2, true), (3, 2, false)] {
        let (members, mut array, view, shape) = worn(data, parity);
        let dead = place(&members, &content(0, 1));
        let (number, at) = place(&members, &content(1, 1));
        if is_rotten {
            members[number].rot(at + 7);
        }
        let before = members[dead.0].medium().durable[dead.1 as usize..][..BLOCK as usize].to_vec();
        members[dead.0].medium().dead_blocks.insert(dead.1 / BLOCK);
        let answer = compare(&mut array, &view, shape.head_bytes);
        assert!(answer.result.is_err_and(|error| error.kind == IoErrorKind::Medium), "{data}+{parity}");
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        assert_eq!(view.members().status().mended_blocks, 0);
        assert!(members[dead.0].medium().durable[dead.1 as usize..][..BLOCK as usize] == before);
        // A single failed read does not count as unreadable.
        members[dead.0].medium().dead_blocks.clear();
        members[dead.0].medium().fails_reads = 1;
        let answer = compare(&mut array, &view, shape.head_bytes + data as u64 * BLOCK);
        assert_eq!(answer.result, Ok(()), "{data}+{parity}");
    }
}

/// Damage that spare parity proves is rewritten, in data and in parity.
#[test]
fn a_comparison_mends_what_parity_shows() {
    let members = members(5);
    let (mut array, view, shape) = array_of(&members, 3);
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    for member in &members {
        let row = (shape.head_bytes + u64::from(shape.log_slots) * 2 * BLOCK).next_multiple_of(1 << 20) / BLOCK;
        member.medium().dead_blocks.insert(row);
        assert_eq!(compare(&mut array, &view, shape.head_bytes).result, Ok(()));
        assert!(member.medium().dead_blocks.is_empty());
    }
    assert_eq!(view.members().status().mended_blocks, 5);
}

/// A rebuild of the last of three members, of what was written to rows and to what all have alike. What it does to the others with each tick, of which there are 20 in a second.
fn rebuild_disturbed(what: &str, mut disturb: impl FnMut(u64, &[Member])) {
    let members = members(3);
    let (mut array, view, shape) = array_of(&members, 2);
    let head: Vec<u8> = (10..60).flat_map(|block| content(block, 2)).collect();
    let bufs = Vectored::One(Buf::copy_of(&head).freeze());
    assert!(run(&mut array, 10 * BLOCK, Op::Write { bufs, fua: false }).result.is_ok());
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    members[2].medium().is_dead = true;
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    let blank = Member::new("blank", MEMBER_BYTES, true, 9);
    // What all have alike takes 20 ticks, and rows 14.
    view.members().set_rebuild_rate(1 << 20);
    view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
    for tick in 0..1000 {
        disturb(tick, &members[..2]);
        view.members().tick(then_pass_ns(50_000_000));
        (0..20).for_each(|_| Device::poll(&mut array, &mut Vec::new()));
        if tick > 100 && states(&view) == [MemberState::InSync; 3] {
            break;
        }
    }
    assert_eq!((states(&view), view.members().status().broken), (vec![MemberState::InSync; 3], None), "{what}");
    // What was to come may not have.
    members.iter().for_each(|member| (member.medium().reads_before, member.medium().fails_reads) = (0, 0));
    // Its own flush may have failed, which the next flush of a host reports.
    assert!((0..2).any(|_| run(&mut array, 0, Op::Flush).result.is_ok()), "{what}");
    members[0].medium().is_dead = true;
    for block in 0..BLOCKS {
        let read = read(&mut array, shape.head_bytes + block * BLOCK, 0);
        assert!(read == Some(content(block, 1)), "{what}: block {block}");
    }
    assert!(blank.medium().durable[10 * BLOCK as usize..][..head.len()] == head, "{what}: what all have alike");
}

/// In each pass of a rebuild, indispensable members failed all reads for a while: blocks unreadable in the second pass were given up, and
/// the new member counted as complete without them.
#[test]
fn regression_a_rebuild_that_is_disturbed_in_each_pass_leaves_nothing_out() {
    // Within what all have alike, and within rows.
    for (first, second) in [2, 8].into_iter().flat_map(|first| (0..40).step_by(2).map(move |second| (first, second))) {
        for away in [1, 2] {
            let mut times = [Some(second), Some(first)].into_iter();
            let mut times = move || times.next_back().flatten();
            rebuild_disturbed(&format!("after {first} and {second} reads, {away} away"), |_, members| {
                let is_over = members[..away].iter().all(|member| member.medium().fails_reads == 0);
                let Some(before) = is_over.then(&mut times).flatten() else { return };
                let of = members[..away].iter();
                of.for_each(|member| (member.medium().reads_before, member.medium().fails_reads) = (before, 30));
            });
        }
    }
}

/// The same where these members fail everything, or are absent.
#[test]
fn a_rebuild_goes_on_when_members_are_back() {
    for (first, second) in [2, 25].into_iter().flat_map(|first| (first + 6..80).step_by(7).map(move |at| (first, at))) {
        for (away, is_gone) in [(1, false), (2, false), (1, true), (2, true)] {
            rebuild_disturbed(&format!("from {first} and {second} on, {away} away"), |tick, members| {
                let is_away = (first..first + 4).contains(&tick) || (second..second + 4).contains(&tick);
                let of = members[..away].iter();
                of.for_each(|member| (member.medium().is_dead, member.medium().is_gone) = (is_away, is_gone));
            });
        }
    }
}
