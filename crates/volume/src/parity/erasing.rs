//! Erases what the log has of rows that do not need it any more, so that no entry is left that describes an old state of a row.

use super::core::{Core, SERVED_ATTEMPTS_MAX};
use super::jobs::Then;
use super::open_rows::NO_ROW;
use super::writing::entries;
use crate::layout::array_shape::BLOCK;
use forebay_block::{Buf, IoError, Vectored};

/// Erases entries of the log that are not needed any more.
pub(super) fn erase(core: &mut Core) {
    let nothing_goes_on = |row: u64| {
        let (begin, len) = (core.shape.row_start_bytes(row), core.shape.row_bytes());
        // The lock of a discard does not count, as the discard waits for just this.
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
    core.write(list, (0, false), Then::Erased);
}

/// An entry of a row cannot be erased, and might be believed at a later start: a newer entry that covers nothing supersedes it. Both stay
/// where they are, and the next start tries again to erase them.
fn supersede(core: &mut Core, row: u64) {
    if row == NO_ROW {
        // It is not known of which row the entry is, so nothing can supersede it.
        return core.write(Vec::new(), (0, false), Then::Erased);
    }
    let Some(slot) = core.open.take_slot() else { return core.open.erased(0, false) };
    let list = entries(core, row, &vec![None; core.shape.data], slot);
    core.write(list, (0, false), Then::Superseded { slot, row });
}

/// Entries were erased, or could not be. Then the batch is tried again in halves. What cannot be erased alone is superseded by a newer entry.
pub(super) fn erased(core: &mut Core, result: &Result<(), IoError>) {
    let was_one = core.open.is_erasing_one();
    core.open.erased(core.next_flush(), result.is_ok());
    let Err(error) = result else { return core.roster.settled() };
    core.upkeep.pause.begin(core.view.now_ns());
    // Only failures of single places count, and only in a row: when a half of a batch fails, that says nothing of its other places.
    if was_one && (!core.open.has_slot() || !core.discarding.is_empty()) {
        got_no_further(core, error);
    }
    if was_one && !core.open.has_slot() && core.is_settling() {
        core.roster.not_settled(error, SERVED_ATTEMPTS_MAX);
    }
}

/// An entry in `slot` supersedes one that cannot be erased, or could not be written.
pub(super) fn superseded(core: &mut Core, slot: u32, row: u64, result: &Result<(), IoError>) {
    core.open.erased(core.next_flush(), result.is_ok());
    let Err(error) = result else { return core.roster.settled() };
    core.retire(slot, row);
    core.own_work_ended(result);
    got_no_further(core, error);
}

/// Without a free place in the log nothing more can be written, and discards wait until the log has nothing of their rows; as many as an array takes at once
/// keep all else waiting: after some attempts all get the failure.
fn got_no_further(core: &mut Core, error: &IoError) {
    let somebody_waits = !core.starved.is_empty() || !core.discarding.is_empty();
    if somebody_waits && !core.is_settling() {
        core.roster.not_settled(error, SERVED_ATTEMPTS_MAX);
    }
}
