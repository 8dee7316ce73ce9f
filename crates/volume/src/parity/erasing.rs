//! Erasing what the log has of rows that do not need it any more: no entry is left that says of a row what was true once.

use super::core::Core;
use super::jobs::Then;
use super::open_rows::NO_ROW;
use super::writing::entries;
use crate::layout::array_shape::BLOCK;
use forebay_block::{Buf, Vectored};

/// Erases entries of the log that are not needed any more.
pub(super) fn erase(core: &mut Core) {
    let nothing_goes_on = |row: u64| {
        let (begin, len) = (core.shape.row_start_bytes(row), core.shape.row_bytes());
        // Discards wait for just this.
        !core.locks.overlap(begin, len) || core.discarding.iter().any(|(_, rows)| rows.contains(&row))
    };
    let Some(places) = core.open.next_to_erase(nothing_goes_on) else { return };
    if let [(_, row)] = places[..]
        && core.open.is_stuck()
    {
        return supersede(core, row);
    }
    let zeros = Buf::zeroed(BLOCK as usize).freeze();
    let shape = &core.shape;
    let mut list = Vec::new();
    for (slot, row) in places {
        let members: Vec<usize> = match row {
            NO_ROW => (0..shape.members()).collect(),
            row => (shape.data..shape.members()).map(|role| shape.member(row, role)).collect(),
        };
        let at = shape.slot_offset_bytes(slot);
        list.extend(members.into_iter().map(|member| (member, at, Vectored::One(zeros.clone()))));
    }
    core.write(list, (0, false), Then::Erased { instead: None });
}

/// An entry of a row cannot be erased, and may be believed one day: a newer one that covers nothing takes its place. Both stay where they are, and a start
/// tries it again.
fn supersede(core: &mut Core, row: u64) {
    if row == NO_ROW {
        // Nobody knows what it is of.
        return core.write(Vec::new(), (0, false), Then::Erased { instead: None });
    }
    let Some(slot) = core.open.take_slot() else { return core.open.erased(0, false) };
    let list = entries(core, row, &vec![None; core.shape.data], slot);
    core.write(list, (0, false), Then::Erased { instead: Some((slot, row)) });
}
