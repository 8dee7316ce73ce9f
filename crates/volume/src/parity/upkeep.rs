//! What an array does by itself, in this order: it makes rows whole that were found open, writes blocks again that could not be read, fills
//! up open rows where there are many, and rebuilds a member that replaces another.

use super::code::{Likely, slices};
use super::core::Core;
use super::jobs::{Purpose, Rows, Then};
use super::reading::read_rows;
use super::writing::parity_of;
use super::{doubt, erasing, filling, proving, rebuilding};
use crate::layout::array_shape::BLOCK;
use crate::mirror::numbers_in;
use forebay_block::{Buf, IoError, SharedBuf, Vectored};

/// How often reading a row that is to be made whole is tried.
const TRIES_MAX: u8 = 3;

/// Begins what is due.
pub(super) fn step(core: &mut Core) {
    if core.upkeep.pause.goes_on(core.view.now_ns()) {
        return;
    }
    if core.roster.broken().is_some() || core.roster.is_active() || !core.view.is_begun() {
        return;
    }
    if core.upkeep.doubt.is_some() {
        return doubt::step(core);
    }
    if !core.upkeep.is_filling {
        filling::fill(core);
    }
    if core.upkeep.is_settling && core.found.is_empty() && !core.upkeep.is_filling {
        filling::fill_stuck(core);
    }
    if core.found.is_empty() {
        // Places of unknown contents are erased, as what is there may become readable one day and must not be believed then. This comes
        // after settling, and after a flush behind it: on other members the same places may have entries of rows that were settled.
        let flush = core.next_flush();
        core.open.retire_unsure(flush);
    }
    erasing::erase(core);
    if core.upkeep.is_settling && core.found.is_empty() && core.open.is_clean() {
        core.upkeep.is_settling = false;
        core.upkeep.is_served = false;
        core.roster.settled();
    }
    let is_urgent = core.upkeep.is_settling || !core.discarding.is_empty();
    if core.open.wants_flush(is_urgent) && !core.upkeep.is_flushing {
        core.upkeep.is_flushing = true;
        core.flush(Then::OwnFlush);
    }
    if core.upkeep.is_busy {
        return;
    }
    if let Some(row) = core.found.first() {
        let (begin, len) = core.range_of(row, 1);
        // Only work in progress is waited for: requests that wait for rows to be settled are not.
        if !core.locks.overlap(begin, len) {
            begin_row(core, row, Purpose::Settle);
        }
    } else if let Some((member, row)) = next_mend(core) {
        begin_row(core, row, Purpose::Mend { member });
    } else if core.upkeep.rebuild.is_some() {
        rebuilding::next(core);
    }
}

/// Whether rows that were found open may be made whole now, as soon as no work is in progress in them.
pub(super) fn may_settle(core: &Core) -> bool {
    let waits = core.roster.broken().is_some() || core.roster.is_active() || core.upkeep.doubt.is_some();
    !waits && core.view.is_begun() && !core.upkeep.is_busy && !core.upkeep.pause.is_on()
}

/// The next block to be written again.
fn next_mend(core: &mut Core) -> Option<(usize, u64)> {
    let Core { upkeep, locks, shape, view, .. } = core;
    // Requests that wait for the row are not waited for: there may be no end of them, and a scrub waits for the mend.
    upkeep.mends.begin(view.is_idle(), |row| !locks.overlap(shape.row_start_bytes(row), shape.row_bytes()))
}

/// Reads a row for a purpose; no work is in progress in it.
fn begin_row(core: &mut Core, row: u64, purpose: Purpose) {
    let (begin, len) = core.range_of(row, 1);
    core.upkeep.is_busy = true;
    let lock = core.lock(begin, len);
    read_rows(core, Rows::new(row, 1, &core.shape, purpose, lock));
}

/// A row that was found open was read: it gets its parity, and blocks that the log knows better than their members do.
pub(super) fn settle(core: &mut Core, rows: Rows) {
    let row = rows.first;
    let mut images = rows.images.clone();
    let mut sure = 0;
    let is_in_log = core.found.has_newest(row, &core.code, &core.shape, &rows.images);
    for (at, block) in core.found.known(row, &core.code, &core.shape, &rows.images).into_iter().enumerate() {
        if block.is_some() {
            (images[at], sure) = (block, sure | 1 << at);
        }
    }
    let known = core.code.likely(&images, sure);
    let is_shown =
        sure.count_ones() as usize == core.shape.data || known.as_ref().is_some_and(|known| known.agreeing > 0);
    if rows.failed != 0 {
        // What cannot be read now may be readable later, and the log may hold all that is left of the row.
        if core.upkeep.unread_tries < TRIES_MAX {
            core.upkeep.unread_tries += 1;
            core.upkeep.pause.begin(core.view.now_ns());
            return put_off(core, &rows);
        }
        if let Some(error) = &rows.away {
            // Only members that are away are left behind: a block that a member cannot read is written by settling the row.
            if core.do_without(rows.gone, error.clone()) {
                core.upkeep.unread_tries = 0;
            } else {
                core.own_work_ended(&Err(error.clone()));
            }
            return put_off(core, &rows);
        }
    }
    // All of the row is written. What neither the log nor spare parity confirms has to be read the same way twice, of members that still
    // are what they were.
    if !is_shown && !rows.is_proven {
        if !core.upkeep.readings.are_enough(row, &rows.images) {
            return put_off(core, &rows);
        }
        if !core.code.fits(&rows.images) {
            return proving::begin(core, rows);
        }
    }
    core.upkeep.unread_tries = 0;
    if rows.failed != 0 && (known.is_none() || !is_in_log) {
        core.view.count_unreadable(1);
    }
    let known = known.map(|known| known.data);
    // A block that nobody can read or restore is not written: it may be readable one day. Parity takes it for zeros.
    let is_lost = |at: usize| known.is_none() && images[at].is_none();
    let lost: Vec<bool> = (0..core.shape.data).map(is_lost).collect();
    let is_whole = !lost.contains(&true);
    let zeros = |block: Option<Vec<u8>>| block.unwrap_or_else(|| vec![0; BLOCK as usize]);
    let known = known.unwrap_or_else(|| images.into_iter().take(core.shape.data).map(zeros).collect());
    let offset_bytes = core.shape.row_offset_bytes(row);
    let blocks: Vec<Option<SharedBuf>> = known.iter().map(|block| Some(Buf::copy_of(block).freeze())).collect();
    let mut list = parity_of(core, row, &blocks);
    // Blocks that were read and are right are written, too: a cache may show them that has lost them with a failed flush.
    for (at, block) in blocks.into_iter().enumerate().filter(|(at, _)| !lost[*at]) {
        list.extend(block.map(|block| (core.shape.member(row, at), offset_bytes, Vectored::One(block))));
    }
    core.write(list, (0, false), Then::Settled { row, lock: rows.lock, is_whole });
}

/// A row that was found open cannot be made whole now.
pub(super) fn not_settled(core: &mut Core, rows: &Rows, error: IoError) {
    core.own_work_ended(&Err(error));
    put_off(core, rows);
}

/// Gives up making a row whole for now.
fn put_off(core: &mut Core, rows: &Rows) {
    core.upkeep.is_busy = false;
    core.locks.remove(rows.lock);
}

/// A block of a row by its role, computed from all others; and whether anything shows that it is right.
fn block_of(core: &Core, rows: &Rows, role: usize) -> Option<(Vec<u8>, bool)> {
    let row = rows.first;
    if let Some(open) = core.open.get(row) {
        // The parity in the row's own place is of no use yet: it is written when the row is whole.
        return Some((open.blocks.get(role)?.as_ref()?.to_vec(), true));
    }
    // Where spare parity shows that something else is wrong as well, the checksums of the reader have to decide.
    let Likely { data, agreeing, .. } = core.code.likely(&rows.images, 0).filter(Likely::is_sure)?;
    let bytes = if role < core.shape.data {
        data.into_iter().nth(role)
    } else {
        core.code.encode(&slices(&data)).into_iter().nth(role - core.shape.data)
    };
    Some((bytes?, agreeing > 0))
}

/// A row was read for a block that its member could not read. Where the member can read it after all nothing is written: parity may be what
/// is wrong.
pub(super) fn mend(core: &mut Core, rows: Rows, member: usize) {
    let role = core.shape.role(rows.first, member);
    let is_out = core.members.written() & 1 << member == 0;
    // In an open row, its parity or a block that was not written yet: a later write of the row brings it.
    let is_to_come = core.open.get(rows.first).is_some_and(|open| open.blocks.get(role).is_none_or(Option::is_none));
    if is_out || is_to_come {
        return mended(core, rows.lock, None);
    }
    if rows.images[role].is_some() {
        // A comparison of the row was made without this block, and would now perhaps be made without that of another member.
        numbers_in(rows.failed).for_each(|other| core.upkeep.mends.add_compared(other, rows.first));
        let unfit = core.misfit(rows.first, &rows.images);
        return mended(core, rows.lock, unfit);
    }
    // A member that is away for a moment says nothing of what lies there.
    let away = rows.away.clone().filter(|_| rows.gone & 1 << member != 0);
    let failure = away.unwrap_or_else(|| core.unreadable(rows.first));
    match block_of(core, &rows, role) {
        Some((_, false)) if core.upkeep.mends.is_accepted() && !rows.is_proven => {
            proving::begin(core, Rows { purpose: Purpose::Mend { member }, ..rows });
        }
        Some((bytes, is_shown)) if is_shown || core.upkeep.mends.is_accepted() => {
            let bufs = Vectored::One(Buf::copy_of(&bytes).freeze());
            let list = vec![(member, core.shape.row_offset_bytes(rows.first), bufs)];
            core.write(list, (0, false), Then::Mended { member, lock: rows.lock });
        }
        // The block can be computed, but nothing here shows that the result is right: a reader that knows moves what lives there.
        Some(_) => mended(core, rows.lock, Some(failure)),
        None => {
            core.view.count_unreadable(u32::from(core.upkeep.mends.is_news(rows.first)));
            mended(core, rows.lock, Some(failure));
        }
    }
}

/// A row that was found open was made whole, or could not be. `is_whole`: its parity was written, and is known to be right.
pub(super) fn settled(core: &mut Core, row: u64, lock: u64, is_whole: bool, result: &Result<(), IoError>) {
    core.locks.remove(lock);
    core.upkeep.is_busy = false;
    core.own_work_ended(result);
    if result.is_ok() {
        if is_whole {
            core.settled.insert(row);
        }
        core.found.forget(row).into_iter().for_each(|slot| core.retire(slot, row));
    }
}

/// A block was written again on a member. One that failed the write was left behind.
pub(super) fn mend_written(core: &mut Core, member: usize, lock: u64, result: Result<(), IoError>) {
    if result.is_ok() && core.members.written() & 1 << member != 0 {
        core.view.count_mended();
    }
    mended(core, lock, result.err());
}

/// The block that was to be written again was written, need not be, or could not be.
pub(super) fn mended(core: &mut Core, lock: u64, failure: Option<IoError>) {
    core.locks.remove(lock);
    core.upkeep.is_busy = false;
    core.upkeep.mends.ended(failure);
}

/// Rows that a member could not read all at once are read one by one.
pub(super) fn one_by_one(core: &mut Core, rows: Rows) {
    let Rows { first, count, purpose, lock, .. } = rows;
    core.locks.remove(lock);
    match purpose {
        Purpose::Restore { read } => {
            super::reading::more_runs(core, read, count as usize - 1);
            for row in first..first + count {
                super::reading::restore_rows(core, row, 1, read);
            }
        }
        _ => {
            core.upkeep.is_busy = false;
            core.upkeep.singles_until = first + count;
            if let Some(rebuild) = &mut core.upkeep.rebuild {
                rebuild.upto_row = rebuild.next_row;
            }
        }
    }
}
