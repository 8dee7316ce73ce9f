//! Mends and comparisons: what they tell of what could not be read or written.

use super::member::{read, run};
use super::support::{
    BLOCK, BLOCKS, array_of, compare, compare_req, members, pass, pass_until, place, row_at, states, then_pass_ns,
    write,
};
use super::written::content;
use forebay_block::{Completion, Device, IoErrorKind, Op};
use forebay_volume::mirror::MemberState;

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

/// A row of a comparison of several ended, and its mend could not tell what is right, before the answer waited for it: the comparison ended well.
#[test]
fn regression_a_comparison_of_several_rows_hears_of_what_could_not_be_mended() {
    let mut bad = 0;
    for row in 0..16 {
        let members = members(3);
        let (mut array, view, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, BLOCKS, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        members[2].medium().dead_blocks.insert(row_at(&shape, row));
        array.submit(compare_req(shape.head_bytes, 32));
        let mut done: Vec<Completion> = Vec::new();
        pass_until(&mut array, &view, 20, &mut done);
        let answer = done.pop().unwrap();
        let left = members[2].medium().dead_blocks.len();
        bad += u32::from(answer.result.is_ok() && left > 0);
    }
    assert_eq!(bad, 0);
}

/// A comparison waited for a time that does not pass while a pool is closed.
#[test]
fn regression_a_comparison_needs_no_clock() {
    let members = members(3);
    let (mut array, view, shape) = array_of(&members, 2);
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    view.members().tick(then_pass_ns(50_000_000));
    members[0].medium().dead_blocks.insert(row_at(&shape, 0));
    assert_eq!(read(&mut array, shape.head_bytes, 0), Some(content(0, 1)));
    array.submit(compare_req(shape.head_bytes, 1));
    let mut done: Vec<Completion> = Vec::new();
    (0..1_000_000).for_each(|_| Device::poll(&mut array, &mut done));
    assert_eq!(done.len(), 1, "never answered without a clock");
}
