//! Faults that a seventh reader found: what is told of mends, comparisons and rebuilds.

use super::faults::{BLOCK, array_of, members, pass, place, states, write};
use super::member::{read, run};
use super::written::content;
use forebay_block::Op;
use forebay_volume::mirror::MemberState;

const BLOCKS: u64 = 42 * 8;

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
