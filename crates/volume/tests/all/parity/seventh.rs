//! Faults that a seventh reader found: what is told of mends, comparisons and rebuilds.

use super::faults::{BLOCK, array_of, members, pass, pass_until, place, states, write};
use super::member::{read, run};
use super::written::content;
use forebay_block::{Buf, Completion, Device, IoErrorKind, Op, Request, Vectored};
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::{Array, ArrayView};

const BLOCKS: u64 = 42 * 8;

fn compare(array: &mut Array, view: &ArrayView, offset_bytes: u64) -> Completion {
    let bufs = Vectored::One(Buf::new(BLOCK as usize));
    array.submit(Request { tag: 9, offset_bytes, stream: 0, op: Op::Read { bufs, attempt: Op::COMPARE } });
    let mut done = Vec::new();
    pass_until(array, view, 5, &mut done);
    done.pop().unwrap()
}

/// A member that failed the write of what it could not read is left behind: that was counted as a block that was mended.
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

/// A block that could not be read once, as a row was compared, was found to be readable, and nobody looked whether the row's parity is of it.
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
