//! What an array does by itself: rows that were found open are made whole, blocks that could not be read are written again, open rows are filled up where
//! there are many, and a member that replaces another is rebuilt.

use super::code::{Likely, slices};
use super::core::Core;
use super::jobs::{COPY_TAG, Purpose, Rows, Then};
use super::open_rows::NO_ROW;
use super::reading::read_rows;
use super::writing::parity_of;
use super::{doubt, erasing};
use crate::layout::array_label::PLACE_BYTES;
use crate::layout::array_shape::BLOCK;
use forebay_block::{Buf, IoError, SharedBuf, Vectored};

/// Rows that are rebuilt at once.
const ROWS_AT_ONCE: u64 = 64;
/// What is copied at once of what all members have alike, in bytes.
const COPY_BYTES: u64 = 256 << 10;
/// Rows that are rebuilt at most before that is made durable and noted, and parts of a rebuild after each of which it is; a crash loses no more of the work.
const NOTE_ROWS: u64 = (64 << 20) / BLOCK;
const NOTE_PARTS: u64 = 16;

/// Clocks tick some twenty times a second.
const TICK_NS: u64 = 50_000_000;
/// How often it is tried to read a row that is to be made whole.
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
        fill(core);
    }
    if core.found.is_empty() {
        // What is there may be seen one day, and must not be believed then. Not before: others may have an entry of a row in the same place.
        // And not before what was settled is durable: on other members the same places may have entries of that.
        let flush = core.next_flush();
        std::mem::take(&mut core.found.unsure).into_iter().for_each(|slot| core.open.retire(slot, NO_ROW, flush));
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
        begin_row(core, row, Purpose::Settle);
    } else if let Some((member, row)) = core.upkeep.mends.pop_front() {
        begin_row(core, row, Purpose::Mend { member });
    } else if core.upkeep.rebuild.is_some() {
        rebuild_next(core);
    }
}

/// Reads a row for a purpose, where nothing goes on in it.
fn begin_row(core: &mut Core, row: u64, purpose: Purpose) {
    let (begin, len) = core.range_of(row, 1);
    // What waits for rows to be settled is not to be waited for.
    let is_free = match purpose {
        Purpose::Settle => !core.locks.overlap(begin, len),
        // Mends are found again.
        _ => core.is_free(begin, len),
    };
    if !is_free {
        return;
    }
    core.upkeep.is_busy = true;
    let lock = core.lock(begin, len);
    read_rows(core, Rows::new(row, 1, &core.shape, purpose, lock));
}

/// Fills the row up that was changed the longest ago, where too many are open: what it lacks becomes zeros.
fn fill(core: &mut Core) {
    let is_free = |row: u64| {
        let (begin, len) = core.range_of(row, 1);
        core.is_free(begin, len)
    };
    let row = core.open.to_fill(is_free);
    if let Some(row) = row {
        fill_row(core, row);
    }
}

fn fill_row(core: &mut Core, row: u64) {
    let Some(open) = core.open.get(row) else { return };
    let blocks = open.blocks.clone();
    core.upkeep.is_filling = true;
    let (begin, len) = core.range_of(row, 1);
    let lock = core.lock(begin, len);
    let mut list = parity_of(core, row, &blocks);
    let zeros = Buf::zeroed(BLOCK as usize).freeze();
    let offset_bytes = core.shape.row_offset_bytes(row);
    for at in (0..core.shape.data).filter(|&at| blocks[at].is_none()) {
        list.push((core.shape.member(row, at), offset_bytes, Vectored::One(zeros.clone())));
    }
    core.write(list, (0, false), Then::Filled { row, lock });
}

/// A row that was found open was read: it gets its parity, and blocks that the log knows better than their members.
pub(super) fn settle(core: &mut Core, rows: &Rows) {
    let row = rows.first;
    let mut images = rows.images.clone();
    let mut sure = 0;
    let is_in_log = core.found.has_newest(row, &core.code, &core.shape, &rows.images);
    for (at, block) in core.found.known(row, &core.code, &core.shape, &rows.images).into_iter().enumerate() {
        if block.is_some() {
            (images[at], sure) = (block, sure | 1 << at);
        }
    }
    let known = core.code.likely(&images, sure).map(|likely| likely.data);
    if rows.failed != 0 {
        // What cannot be read now may be another time, and what the log has of the row may be all that there is of it.
        if core.upkeep.unread_tries < TRIES_MAX {
            core.upkeep.unread_tries += 1;
            core.upkeep.pause.begin(core.view.now_ns());
            return put_off(core, rows);
        }
        if let Some(error) = &rows.away {
            if core.do_without(rows.failed, error.clone()) {
                core.upkeep.unread_tries = 0;
            } else {
                core.own_work_ended(&Err(error.clone()));
            }
            return put_off(core, rows);
        }
        if known.is_none() || !is_in_log {
            core.view.unreadable();
        }
    }
    core.upkeep.unread_tries = 0;
    // What nobody can read or restore is not written: it may be read one day. Parity takes it to be zeros.
    let is_lost = |at: usize| known.is_none() && images[at].is_none();
    let lost: Vec<bool> = (0..core.shape.data).map(is_lost).collect();
    let is_whole = !lost.contains(&true);
    let zeros = |block: Option<Vec<u8>>| block.unwrap_or_else(|| vec![0; BLOCK as usize]);
    let known = known.unwrap_or_else(|| images.into_iter().take(core.shape.data).map(zeros).collect());
    let offset_bytes = core.shape.row_offset_bytes(row);
    let blocks: Vec<Option<SharedBuf>> = known.iter().map(|block| Some(Buf::copy_of(block).freeze())).collect();
    let mut list = parity_of(core, row, &blocks);
    // Also what was read and is what it should be: a cache may show it that has lost it with a flush that failed.
    for (at, block) in blocks.into_iter().enumerate().filter(|(at, _)| !lost[*at]) {
        list.extend(block.map(|block| (core.shape.member(row, at), offset_bytes, Vectored::One(block))));
    }
    core.write(list, (0, false), Then::Settled { row, lock: rows.lock, is_whole });
}

/// A row is not made whole now.
fn put_off(core: &mut Core, rows: &Rows) {
    core.upkeep.is_busy = false;
    core.locks.remove(rows.lock);
}

/// A block of a row by its role, from all others.
fn block_of(core: &Core, rows: &Rows, role: usize) -> Option<Vec<u8>> {
    let row = rows.first;
    if let Some(open) = core.open.get(row) {
        // The row's own parity is of no use yet, and written when it is whole.
        return Some(open.blocks.get(role)?.as_ref()?.to_vec());
    }
    // Where parity that is not needed says that something else is wrong, too, the checksums of whoever reads it decide.
    let Likely { data, .. } = core.code.likely(&rows.images, 0).filter(Likely::is_sure)?;
    if role < core.shape.data {
        return data.into_iter().nth(role);
    }
    core.code.encode(&slices(&data)).into_iter().nth(role - core.shape.data)
}

/// A row was read of which a member could not read its block. Where it can after all nothing is written: parity may be what is wrong.
pub(super) fn mend(core: &mut Core, rows: &Rows, member: usize) {
    let role = core.shape.role(rows.first, member);
    let is_well = rows.images[role].is_some() || core.members.written() & 1 << member == 0;
    match block_of(core, rows, role).filter(|_| !is_well) {
        Some(bytes) => {
            let bufs = Vectored::One(Buf::copy_of(&bytes).freeze());
            let list = vec![(member, core.shape.row_offset_bytes(rows.first), bufs)];
            core.write(list, (0, false), Then::Mended { lock: rows.lock });
        }
        None => {
            if !is_well {
                core.view.unreadable();
            }
            core.locks.remove(rows.lock);
            core.upkeep.is_busy = false;
        }
    }
}

/// What is next of a rebuild.
fn rebuild_next(core: &mut Core) {
    let now_ns = core.view.now_ns();
    if now_ns < core.upkeep.not_before_ns || !core.found.is_empty() {
        return;
    }
    let (head_bytes, rows) = (core.shape.head_bytes, core.shape.rows());
    let Some(rebuild) = &mut core.upkeep.rebuild else { return };
    if rebuild.next_bytes == PLACE_BYTES.start {
        rebuild.next_bytes = PLACE_BYTES.end;
    }
    if rebuild.next_bytes < head_bytes {
        let most = if rebuild.next_bytes < rebuild.copy_singly_until { BLOCK } else { COPY_BYTES };
        let ends = [rebuild.next_bytes + most, head_bytes];
        let label = Some(PLACE_BYTES.start).filter(|&start| rebuild.next_bytes < start);
        let end = ends.into_iter().chain(label).min().unwrap_or(head_bytes);
        let (at, len_bytes) = (rebuild.next_bytes, end - rebuild.next_bytes);
        return copy_same(core, at, len_bytes, end);
    }
    if rebuild.next_bytes == head_bytes {
        // What lies at the end, by its place on the device.
        let at = core.shape.size_bytes() - BLOCK;
        return copy_same(core, at, BLOCK, head_bytes + 1);
    }
    let next = core.fronts.next_living(rebuild.next_row, rows);
    let upto = next.unwrap_or(rows);
    rebuild.next_row = upto;
    if next.is_none() || rebuild.next_row - rebuild.noted_rows >= NOTE_ROWS.min(rows.div_ceil(NOTE_PARTS)) {
        if !core.upkeep.is_flushing {
            core.upkeep.is_busy = true;
            core.flush(Then::RebuildFlushed);
        }
        return;
    }
    let first = upto;
    let is_single = first < core.upkeep.singles_until;
    let most = if is_single { 1 } else { ROWS_AT_ONCE.min(rows.div_ceil(NOTE_PARTS)).min(rows - first) };
    let count = core.shape.alike_from(first, most);
    let member = rebuild.member;
    if let Some(open) = core.open.first_in(first..first + count) {
        let (begin, len) = core.range_of(open, 1);
        if !core.upkeep.is_filling && core.is_free(begin, len) {
            fill_row(core, open);
        }
        return;
    }
    let (begin, len) = core.range_of(first, count);
    if !core.is_free(begin, len) {
        return;
    }
    if let Some(rebuild) = &mut core.upkeep.rebuild {
        rebuild.upto_row = first + count;
    }
    pace(core, count * BLOCK);
    core.upkeep.is_busy = true;
    let lock = core.lock(begin, len);
    read_rows(core, Rows::new(first, count, &core.shape, Purpose::Rebuild { member }, lock));
}

fn pace(core: &mut Core, bytes: u64) {
    let ns = bytes.saturating_mul(1_000_000_000) / core.view.rebuild_bytes_per_s().max(1);
    // What one tick has not used of the rate the next makes up for.
    let begun_ns = core.view.now_ns().saturating_sub(TICK_NS).max(core.upkeep.not_before_ns);
    core.upkeep.not_before_ns = begun_ns + ns;
}

/// Copies a piece of what all members have alike to the one that is rebuilt.
fn copy_same(core: &mut Core, at: u64, len_bytes: u64, next_bytes: u64) {
    if !core.is_free(at, len_bytes) {
        return;
    }
    let Some(rebuild) = &mut core.upkeep.rebuild else { return };
    rebuild.next_bytes = next_bytes;
    pace(core, len_bytes);
    core.upkeep.is_busy = true;
    let lock = core.lock(at, len_bytes);
    core.upkeep.copies = Some((at, lock));
    super::reading::begin(core, COPY_TAG, at, 0, Vectored::One(Buf::new(len_bytes as usize)));
}

/// A piece of what all have alike was read.
pub(super) fn same_read(core: &mut Core, result: Result<(), IoError>, bufs: Option<Vectored<Buf>>) {
    let Some((at, lock)) = core.upkeep.copies.take() else { return };
    let Some(rebuild) = &mut core.upkeep.rebuild else {
        // The member was left behind.
        core.locks.remove(lock);
        core.upkeep.is_busy = false;
        return;
    };
    let member = rebuild.member;
    let area = core.shape.area(at, 1);
    let (Ok(()), Some(Vectored::One(buf)), Some(crate::layout::array_shape::Area::Same(to))) = (result, bufs, area)
    else {
        core.locks.remove(lock);
        core.upkeep.is_busy = false;
        // One bad block hides no other.
        let is_single = rebuild.next_bytes <= at + BLOCK || rebuild.next_bytes > core.shape.head_bytes;
        if is_single {
            core.view.unreadable();
            rebuild.has_gaps = true;
        } else {
            (rebuild.copy_singly_until, rebuild.next_bytes) = (rebuild.next_bytes, at);
        }
        return;
    };
    core.write(vec![(member, to, Vectored::One(buf.freeze()))], (0, false), Then::Rebuilt { lock });
}

/// Rows were read of which the member that is rebuilt gets its blocks.
pub(super) fn rebuild(core: &mut Core, mut rows: Rows, member: usize) {
    let role = core.shape.role(rows.first, member);
    rows.images[role] = None;
    // With one of parity nothing is left to correct by.
    let read = if core.shape.parity > 1 { rows.images.clone() } else { Vec::new() };
    if !core.code.restore(&mut rows.images) {
        core.view.unreadable();
        core.locks.remove(rows.lock);
        if let Some(rebuild) = &mut core.upkeep.rebuild {
            rebuild.has_gaps = true;
        }
        return rebuilt(core);
    }
    core.code.correct(&read, &mut rows.images, BLOCK as usize);
    let list = match rows.images[role].take() {
        Some(bytes) => {
            vec![(member, core.shape.row_offset_bytes(rows.first), Vectored::One(Buf::copy_of(&bytes).freeze()))]
        }
        None => Vec::new(),
    };
    core.write(list, (0, false), Then::Rebuilt { lock: rows.lock });
}

/// A step of a rebuild was written.
pub(super) fn rebuilt(core: &mut Core) {
    core.upkeep.is_busy = false;
    if let Some(rebuild) = &mut core.upkeep.rebuild {
        rebuild.next_row = rebuild.next_row.max(rebuild.upto_row);
    }
}

/// What was rebuilt is durable, or not.
pub(super) fn rebuild_flushed(core: &mut Core, result: &Result<(), IoError>) {
    core.upkeep.is_busy = false;
    core.own_work_ended(result);
    let rows = core.shape.rows();
    let Some(rebuild) = core.upkeep.rebuild.as_mut().filter(|_| result.is_ok()) else { return };
    rebuild.noted_rows = rebuild.next_row;
    let (member, noted) = (rebuild.member, rebuild.noted_rows);
    if noted >= rows && rebuild.has_gaps && !rebuild.is_second {
        // What could not be read may be another time.
        (rebuild.next_bytes, rebuild.next_row, rebuild.noted_rows, rebuild.upto_row) = (0, 0, 0, 0);
        core.upkeep.singles_until = 0;
        (rebuild.has_gaps, rebuild.is_second) = (false, true);
        return core.roster.note(0);
    }
    if noted >= rows {
        core.upkeep.rebuild = None;
        super::labels::rebuilt(core, member);
    } else {
        core.roster.note(noted);
    }
}

/// Rows that could not all be read of a member are read one by one.
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
