//! What a second reader asked of mends, comparisons and rebuilds.

use super::faults::{BLOCK, MEMBER_BYTES, NOW_NS, array_of, label, members, pass, pass_until, states, write};
use super::member::{Member, read, run};
use super::written::content;
use forebay_block::{Buf, Completion, Device, Op, Vectored};
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::mirror::MemberState;
use std::sync::atomic::Ordering;

const BLOCKS: u64 = 42 * 8;

fn row_at(shape: &Shape, row: u64) -> u64 {
    (shape.head_bytes + u64::from(shape.log_slots) * 2 * BLOCK).next_multiple_of(1 << 20) / BLOCK + row
}

fn compare_req(offset_bytes: u64, blocks: u64) -> forebay_block::Request {
    let bufs = Vectored::One(Buf::new((blocks * BLOCK) as usize));
    forebay_block::Request { tag: 9, offset_bytes, stream: 0, op: Op::Read { bufs, attempt: Op::COMPARE } }
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
    view.members().tick(NOW_NS.fetch_add(50_000_000, Ordering::Relaxed));
    members[0].medium().dead_blocks.insert(row_at(&shape, 0));
    assert_eq!(read(&mut array, shape.head_bytes, 0), Some(content(0, 1)));
    array.submit(compare_req(shape.head_bytes, 1));
    let mut done: Vec<Completion> = Vec::new();
    (0..1_000_000).for_each(|_| Device::poll(&mut array, &mut done));
    assert_eq!(done.len(), 1, "never answered without a clock");
}

/// A member that had been left behind was asked whether it answers, and did not: no mend, comparison or rebuild went on.
#[test]
fn regression_a_member_that_was_left_behind_is_not_probed() {
    let members = members(5);
    let (mut array, view, shape) = array_of(&members, 3);
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    members[4].medium().is_dead = true;
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    let last = BLOCKS / 3 - 1;
    for m in [1, 2] {
        members[m].medium().dead_blocks.insert(row_at(&shape, last));
    }
    let blank = Member::new("blank", MEMBER_BYTES, true, 9);
    view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
    let mut ticks = 0;
    while label(&members[0]).missing == 0 {
        view.members().tick(NOW_NS.fetch_add(50_000_000, Ordering::Relaxed));
        Device::poll(&mut array, &mut Vec::new());
        ticks += 1;
        assert!(ticks < 5000, "no gap");
    }
    // second pass: member 1 is slow, member 0 fails its reads.
    members[1].medium().hangs_reads = true;
    members[0].medium().fails_reads = 100_000;
    pass(&mut array, &view, 3);
    members[0].medium().is_dead = true;
    _ = run(&mut array, 0, Op::Flush);
    pass(&mut array, &view, 3);
    members[1].medium().hangs_reads = false;
    pass(&mut array, &view, 120);
    members[3].medium().dead_blocks.insert(row_at(&shape, 1));
    array.submit(compare_req(shape.head_bytes + 3 * BLOCK, 1));
    let mut done: Vec<Completion> = Vec::new();
    pass_until(&mut array, &view, 60, &mut done);
    assert!(states(&view)[4] == MemberState::InSync && done.len() == 1);
}
