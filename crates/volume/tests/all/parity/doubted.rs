//! What is computed of other members is wrong where one of these has rotten: it takes the place of nothing that may be read another time.

use super::faults::{BLOCK, NOW_NS, array_of, members, pass, place, write};
use super::member::{Member, read, run};
use super::written::content;
use forebay_block::{Buf, Completion, Device, IoErrorKind, Op, Vectored};
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::parity::{Array, ArrayView};
use std::sync::atomic::Ordering;

const BLOCKS: u64 = 42 * 8;

/// An array of so many of data and of parity with all of its parity needed for members that are out, but for one.
fn worn(data: usize, parity: usize) -> (Vec<Member>, Array, ArrayView, Shape) {
    let members = members(data + parity);
    let (mut array, view, shape) = array_of(&members, data);
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    // Those with the parity of the first rows.
    members[data + 1..].iter().for_each(|member| member.medium().is_dead = true);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    (members, array, view, shape)
}

/// Whether what was written to a block is on its medium.
fn is_there(members: &[Member], (number, at): (usize, u64), block: u64) -> bool {
    members[number].medium().durable[at as usize..][..BLOCK as usize] == content(block, 1)[..]
}

fn compare(array: &mut Array, view: &ArrayView, offset_bytes: u64) -> Completion {
    let bufs = Vectored::One(Buf::new(BLOCK as usize));
    array.submit(forebay_block::Request {
        tag: 9,
        offset_bytes,
        stream: 0,
        op: Op::Read { bufs, attempt: Op::COMPARE },
    });
    let mut done = Vec::new();
    super::faults::pass_until(array, view, 5, &mut done);
    done.pop().unwrap()
}

/// A block could not be read for a while, and another block of its row had rotten: whoever reads it sees that by his checksum, and reads it otherwise. What had been
/// restored was written over it meanwhile, though it could be read later, and both then.
#[test]
fn regression_what_was_restored_of_rot_is_not_written() {
    for (data, parity) in [(2, 1), (3, 2), (4, 3)] {
        // As soon as it can be, or some time later.
        for waits in [0, 12] {
            let (members, mut array, view, shape) = worn(data, parity);
            let dead = place(&members, &content(0, 1));
            let (number, at) = place(&members, &content(1, 1));
            members[number].rot(at + 7);
            members[dead.0].medium().dead_blocks.insert(dead.1 / BLOCK);
            assert!(read(&mut array, shape.head_bytes, 0).is_some_and(|bytes| bytes != content(0, 1)));
            for attempt in 1..=view.variants() + 1 {
                for _ in 0..waits {
                    view.members().tick(NOW_NS.fetch_add(50_000_000, Ordering::Relaxed));
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

/// What was computed of others that had rotten was the answer to the last reading as well: to whoever moves a band that is a damaged block, which he gives up, and not
/// one that may be read another day.
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
        // With what lies beside it there, as far as that can be read.
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
        for _ in 0..40 {
            assert_eq!(read(&mut array, shape.head_bytes, 0), Some(content(0, 1)));
            view.members().tick(NOW_NS.fetch_add(50_000_000, Ordering::Relaxed));
        }
        pass(&mut array, &view, 1);
        assert_eq!(view.members().status().mended_blocks, 1);
        assert!(members[dead.0].medium().dead_blocks.is_empty());
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        assert!(is_there(&members, dead, 0));
    }
}

/// A comparison wrote over what it could not read what it computed of the rest, though nothing showed that this was right.
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
        // What fails once is no such thing.
        members[dead.0].medium().dead_blocks.clear();
        members[dead.0].medium().fails_reads = 1;
        let answer = compare(&mut array, &view, shape.head_bytes + data as u64 * BLOCK);
        assert_eq!(answer.result, Ok(()), "{data}+{parity}");
    }
}

/// What parity to spare shows is written again, of data and of parity.
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
