//! What follows when requests have ended.

use super::core::Core;
use super::jobs::{Blocks, Held, Logged, Next, Part, Purpose, Rows, Starved, Then};
use super::{doubt, erasing, filling, labels, overwriting, reading, rebuilding, upkeep, writing};
use crate::mirror::gone;
use forebay_block::{Buf, IoError, SharedBuf};
use std::ops::Range;

/// Goes on with all work that has ended.
pub(super) fn follow(core: &mut Core) {
    while let Some(next) = core.next.pop_front() {
        match next {
            Next::Batch(then, result) => batch_ended(core, then, result),
            Next::Rows(rows) => rows_read(core, rows),
            Next::Unproven(rows) => unproven(core, rows),
        }
    }
}

fn batch_ended(core: &mut Core, then: Then, result: Result<(), IoError>) {
    match then {
        Then::Flushed { number, thens } => flushed(core, number, thens, &result),
        Then::HostFlush { tag } => {
            let result = core.lost.take().map_or(result, Err);
            core.answer(tag, result);
        }
        Then::OwnFlush => {
            core.upkeep.is_flushing = false;
            core.own_work_ended(&result);
        }
        Then::Durable { op } | Then::Part { op } => core.op_part_ended(op, result),
        Then::Discarded { op, rows } => core.discarding.push((op, rows)),
        Then::Whole { op, rows } => written_whole(core, op, rows, result),
        Then::Appended { part, slot } => appended(core, part, slot, result),
        Then::Logged(logged) if result.is_ok() && core.is_volatile => core.flush(Then::LogFlushed(logged)),
        Then::Logged(logged) | Then::LogFlushed(logged) => log_written(core, logged, result),
        Then::Filled { row, lock } => filling::filled(core, row, lock, &result),
        Then::Settled { row, lock, is_whole } => upkeep::settled(core, row, lock, is_whole, &result),
        Then::Erased => erasing::erased(core, &result),
        Then::Superseded { slot, row } => erasing::superseded(core, slot, row, &result),
        Then::Mended { member, lock } => upkeep::mend_written(core, member, lock, result),
        Then::Rebuilt { lock } => {
            core.locks.remove(lock);
            rebuilding::written(core);
        }
        Then::RebuildFlushed => rebuilding::flushed(core, &result),
        Then::Labelled => labels::labelled(core, result),
        Then::LabelFlushed => labels::label_flushed(core, result),
    }
}

/// Whole rows were written. What the log has of them is not needed any more.
fn written_whole(core: &mut Core, op: usize, rows: Range<u64>, result: Result<(), IoError>) {
    core.written_whole(rows.clone());
    if result.is_ok() {
        core.open.in_range(rows).into_iter().for_each(|row| core.close(row));
    }
    core.op_part_ended(op, result);
}

/// What lives in a row is durable in the log, or could not be written there.
fn log_written(core: &mut Core, logged: Logged, result: Result<(), IoError>) {
    match result {
        Ok(()) => core.logged.push(logged),
        Err(error) => {
            core.retire(logged.slot, logged.part.row);
            core.op_part_ended(logged.part.op, Err(error));
        }
    }
}

/// A flush has ended, and with it what waited for it. Where it failed, what waits for the next flush fails as well: what that one is to
/// cover may be lost by now.
fn flushed(core: &mut Core, number: u64, mut thens: Vec<Then>, result: &Result<(), IoError>) {
    core.is_flushing = false;
    core.unflushed.flush_ended(result.is_ok());
    match result {
        Ok(()) => core.open.flushed(number),
        Err(error) => {
            thens.append(&mut core.to_flush);
            core.spoil(error);
            if !thens.iter().any(|then| matches!(then, Then::HostFlush { .. })) {
                // This was the only report of what the flush covered: the next flush of a host returns it.
                core.lost = Some(error.clone());
            }
            doubt::begin(core, error);
        }
    }
    thens.into_iter().for_each(|then| batch_ended(core, then, result.clone()));
    core.begin_flush();
}

/// Blocks were added to a row, which is open then, or whole.
fn appended(core: &mut Core, part: Part, slot: Option<u32>, result: Result<(), IoError>) {
    let Part { op, row, blocks, .. } = part;
    core.written_whole(row..row + 1);
    if result.is_err() {
        let living = core.fronts.living(row);
        let blocks = blocks.iter().filter(|(at, _)| living & 1 << at != 0);
        let blocks = blocks.map(|(at, block)| (*at, own(block))).collect();
        core.open.failed(row, blocks);
    }
    match (&result, slot) {
        (Ok(()), None) => core.close(row),
        (Ok(()), Some(slot)) => put(core, row, blocks, slot),
        // The entry that the log had of the row before is still true, so the new one goes.
        (Err(_), Some(slot)) => core.retire(slot, row),
        (Err(_), None) => {}
    }
    core.op_part_ended(op, result);
}

/// Copies a block that is kept for a row, so that it does not keep all of a large write in memory.
fn own(block: &SharedBuf) -> SharedBuf {
    Buf::copy_of(block).freeze()
}

/// Blocks were written into a row, and its entry in the log covers all of them now.
fn put(core: &mut Core, row: u64, blocks: Blocks, slot: u32) {
    let blocks = blocks.into_iter().map(|(at, block)| (at, own(&block))).collect();
    if let Some(before) = core.open.put(row, core.shape.data, blocks, slot) {
        core.retire(before, row);
    }
}

/// What lives in these rows is in the log, so the rest of them may be overwritten; but not before the label names members that failed to
/// take the entries. After a power cut such a member would be believed, with parity of what was there before and without an entry that says
/// otherwise.
fn change_logged(core: &mut Core) {
    if core.roster.holds_answers() {
        return;
    }
    for Logged { part, living, slot } in std::mem::take(&mut core.logged) {
        if let Some(error) = core.roster.broken() {
            core.retire(slot, part.row);
            core.op_part_ended(part.op, Err(error));
            continue;
        }
        core.close(part.row);
        put(core, part.row, living, slot);
        writing::append(core, part);
    }
}

/// Rows have been read from all members.
fn rows_read(core: &mut Core, mut rows: Rows) {
    if rows.failed != 0 && rows.count > 1 {
        // One bad block must not hide the others.
        return upkeep::one_by_one(core, rows);
    }
    let purpose = std::mem::replace(&mut rows.purpose, Purpose::Settle);
    if rows.asked != core.members.in_sync() && !matches!(purpose, Purpose::Restore { .. }) {
        // A member was left behind, so what it gave proves nothing; or its rebuild has ended, and its block counts.
        return reading::read_rows(core, Rows::new(rows.first, rows.count, &core.shape, purpose, rows.lock));
    }
    match purpose {
        Purpose::Restore { read } => {
            reading::restored(core, &rows, read);
            core.locks.remove(rows.lock);
        }
        Purpose::Overwrite { part, readings } => overwriting::overwrite(core, part, readings, rows),
        Purpose::Settle => upkeep::settle(core, rows),
        Purpose::Mend { member } => upkeep::mend(core, rows, member),
        Purpose::Rebuild { member } => rebuilding::rows_read(core, rows, member),
    }
}

/// Nothing is made of what was read of rows whose members have lost their labels.
fn unproven(core: &mut Core, rows: Rows) {
    let error = core.roster.broken().unwrap_or_else(|| gone("write"));
    match rows.purpose {
        Purpose::Overwrite { part, .. } => core.op_part_ended(part.op, Err(error)),
        Purpose::Settle => upkeep::not_settled(core, &rows, error),
        Purpose::Mend { .. } => upkeep::mended(core, rows.lock, Some(error)),
        Purpose::Rebuild { .. } => {
            core.locks.remove(rows.lock);
            rebuilding::left_out(core, rows.first);
        }
        // What is read for a host is not asked for a proof, as its reader has checksums.
        Purpose::Restore { .. } => core.locks.remove(rows.lock),
    }
}

/// Begins what was held, in order, as far as nothing is in its way any more, and what waited for a place in the log.
pub(super) fn go_on(core: &mut Core) {
    change_logged(core);
    end_discards(core);
    // All writes wait for the next row to be made whole: it must not wait as long as somebody reads there.
    let next = core.found.first().filter(|_| upkeep::may_settle(core)).map(|row| core.range_of(row, 1));
    for held in std::mem::take(&mut core.held) {
        let (offset_bytes, len_bytes) = held.range(&core.shape);
        let is_next = next.is_some_and(|(begin, len)| begin < offset_bytes + len_bytes && offset_bytes < begin + len);
        let waits = match held {
            Held::Change(_) => core.is_settling() && core.roster.broken().is_none(),
            Held::Restore { .. } => is_next,
        };
        if waits || !core.is_free(offset_bytes, len_bytes) {
            core.held.push_back(held);
            continue;
        }
        match held {
            Held::Change(request) => match core.roster.broken() {
                Some(error) => core.answer(request.tag, Err(error)),
                None => writing::begin(core, request),
            },
            Held::Restore { first, count, read } => reading::restore_rows(core, first, count, read),
        }
    }
    if let Some(error) = core.roster.broken().or_else(|| doubt::failure(core)) {
        for starved in std::mem::take(&mut core.starved) {
            core.op_part_ended(starved.part.op, Err(error.clone()));
        }
    }
    if core.open.has_slot() {
        for Starved { part, living } in std::mem::take(&mut core.starved) {
            match living {
                Some(living) => writing::log(core, part, living),
                None => writing::append(core, part),
            }
        }
    }
}

/// Ends discards of whose rows the log has nothing left: what is written there next must not be taken for what was there before.
fn end_discards(core: &mut Core) {
    for (op, rows) in std::mem::take(&mut core.discarding) {
        if (core.is_settling() || core.open.is_left_in(&rows)) && core.roster.broken().is_none() {
            core.discarding.push((op, rows));
        } else {
            core.op_part_ended(op, Ok(()));
        }
    }
}
