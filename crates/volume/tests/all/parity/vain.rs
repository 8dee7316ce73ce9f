//! Comparisons of rows with their parity where too few members are present.

use super::member::run;
use super::support::compare;
use super::support::{BLOCK, array_of, members, pass, place, write};
use super::written::content;
use forebay_block::{Device, IoErrorKind, Op, Vectored};
use forebay_volume::layout::array_label::OFFSETS_BYTES;

/// With as many members missing as there is parity, a comparison reported success although nothing was compared.
#[test]
fn regression_what_is_compared_with_nothing_does_not_end_well() {
    for (data, parity) in [(2, 1), (3, 2), (4, 3)] {
        let members = members(data + parity);
        let (mut array, view, shape) = array_of(&members, data);
        write(&mut array, &shape, 0, data as u64 * 21, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        for out in 0..=parity {
            if let Some(number) = out.checked_sub(1) {
                members[data + number].medium().is_dead = true;
                assert!(run(&mut array, 0, Op::Flush).result.is_ok());
                pass(&mut array, &view, 2);
            }
            let kind = compare(&mut array, &view, shape.head_bytes).result.err().map(|error| error.kind);
            let wanted = (out == parity).then_some(IoErrorKind::Unsupported);
            assert_eq!(kind, wanted, "{data}+{parity}, {out} out");
        }
    }
}

/// Where nothing could be written any more, a block that a member could not read was not reported as uncompared.
#[test]
fn regression_an_array_that_takes_no_writes_says_what_it_could_not_compare() {
    let members = members(5);
    let (mut array, view, shape) = array_of(&members, 3);
    write(&mut array, &shape, 0, 63, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    assert!(compare(&mut array, &view, shape.head_bytes).result.is_ok());
    // No label can be written any more when one is left behind.
    for member in &members[..4] {
        member.medium().unwritable.extend(OFFSETS_BYTES.map(|at| at / BLOCK));
    }
    members[4].medium().is_dead = true;
    array.submit(forebay_block::Request { tag: 3, offset_bytes: 0, stream: 0, op: Op::Flush });
    pass(&mut array, &view, 60);
    assert!(view.members().status().broken.is_some());
    assert!(compare(&mut array, &view, shape.head_bytes).result.is_ok(), "with what is left of parity");
    let (number, at) = place(&members, &content(0, 1));
    members[number].medium().dead_blocks.insert(at / BLOCK);
    let kind = compare(&mut array, &view, shape.head_bytes).result.err().map(|error| error.kind);
    assert_eq!(kind, Some(IoErrorKind::Gone));
    let bufs = Vectored::One(forebay_block::Buf::new(BLOCK as usize));
    assert!(run(&mut array, shape.head_bytes, Op::Read { bufs, attempt: 0 }).result.is_ok(), "it can be computed");
}
