//! Rebuilds a member that replaces another: copies what all members have alike, and computes its block of each row in which something lives
//! from the others.

use super::chores::Answers;
use super::core::Core;
use super::filling::fill_row;
use super::jobs::{COPY_TAG, Purpose, Rows, Then};
use super::probing::{self, WAIT_NS};
use super::proving;
use super::reading::read_rows;
use crate::layout::array_label::PLACE_BYTES;
use crate::layout::array_shape::BLOCK;
use forebay_block::{Buf, IoError, Vectored};

/// Rows that are rebuilt at once.
const ROWS_AT_ONCE: u64 = 64;
/// How much is copied at once of the part that all members have alike, in bytes.
const COPY_BYTES: u64 = 256 << 10;
/// Most rows that are rebuilt before that is made durable and noted, and the number of parts of a rebuild after each of which that happens;
/// a crash loses no more of the work.
const NOTE_ROWS: u64 = (64 << 20) / BLOCK;
const NOTE_PARTS: u64 = 16;

/// Clocks tick about twenty times a second.
const TICK_NS: u64 = 50_000_000;
/// How often, for a second each, a rebuild waits for a member that says it is away, before it goes on without what only that member has.
const AWAY_TRIES_MAX: u8 = 60;
/// How often each member has to read something else, a second apart, before a block that it could not read once more is given up: its path
/// may come and go.
const PROBES_MAX: u8 = 3;

/// Begins the next step of a rebuild.
pub(super) fn next(core: &mut Core) {
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
        // The part at the end that all have alike, by its place on the device.
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
    probing::asks(core);
    let lock = core.lock(begin, len);
    read_rows(core, Rows::new(first, count, &core.shape, Purpose::Rebuild { member }, lock));
}

fn pace(core: &mut Core, bytes: u64) {
    let ns = bytes.saturating_mul(1_000_000_000) / core.view.rebuild_bytes_per_s().max(1);
    // The next tick makes up for what one tick has not used of the rate.
    let begun_ns = core.view.now_ns().saturating_sub(TICK_NS).max(core.upkeep.not_before_ns);
    core.upkeep.not_before_ns = begun_ns + ns;
}

/// Copies a piece of the part that all members have alike to the one that is rebuilt.
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
    probing::asks(core);
    super::reading::begin(core, COPY_TAG, at, 0, Vectored::One(Buf::new(len_bytes as usize)));
}

/// A piece of the part that all have alike was read.
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
        // One bad block must not hide the others.
        let is_single = rebuild.next_bytes <= at + BLOCK || rebuild.next_bytes > core.shape.head_bytes;
        if is_single {
            let (next_bytes, in_sync) = (rebuild.next_bytes, core.members.in_sync());
            rebuild.next_bytes = at.min(core.shape.head_bytes);
            if is_tried_again(core, in_sync, 0) {
                return;
            }
            let Some(rebuild) = &mut core.upkeep.rebuild else { return };
            rebuild.next_bytes = next_bytes;
            rebuild.leaves_out();
            rebuild.first_gap_bytes = rebuild.first_gap_bytes.min(at).min(core.shape.head_bytes);
        } else {
            (rebuild.copy_singly_until, rebuild.next_bytes) = (rebuild.next_bytes, at);
        }
        return;
    };
    rebuild.goes_on();
    core.write(vec![(member, to, Vectored::One(buf.freeze()))], (0, false), Then::Rebuilt { lock });
}

/// Whether something that could not be made is tried again. Where members say that they are away it is, after a second, so many times.
/// Others may be away as well, and what the last pass gives up is given up for good: so not before each member has read something else some
/// times, and could not read this once more each time.
fn is_tried_again(core: &mut Core, failed: u32, gone: u32) -> bool {
    // A member that was left behind is not asked: it would not answer.
    let failed = failed & core.members.in_sync();
    let Some(rebuild) = &mut core.upkeep.rebuild else { return false };
    if rebuild.is_second && !rebuild.answers.are(PROBES_MAX, failed) {
        let rebuilt = rebuild.member;
        probing::begin(core, rebuilt, failed);
        return true;
    }
    let waits = gone != 0 && rebuild.away_tries < AWAY_TRIES_MAX;
    if waits {
        rebuild.away_tries += 1;
        (rebuild.answers, rebuild.waits_for, core.upkeep.is_busy) = (Answers::default(), gone, false);
        core.upkeep.not_before_ns = core.view.now_ns() + WAIT_NS;
    }
    waits
}

/// Rows were read of which the member that is rebuilt gets its blocks.
pub(super) fn rows_read(core: &mut Core, mut rows: Rows, member: usize) {
    let role = core.shape.role(rows.first, member);
    rows.images[role] = None;
    // With one block of parity nothing is left to correct by.
    let read = if core.shape.parity > 1 { rows.images.clone() } else { Vec::new() };
    if !read.is_empty() && !rows.is_proven && !core.code.fits(&read) {
        return proving::begin(core, Rows { purpose: Purpose::Rebuild { member }, ..rows });
    }
    if !core.code.restore(&mut rows.images) {
        core.locks.remove(rows.lock);
        if !is_tried_again(core, rows.failed, rows.gone) {
            left_out(core, rows.first);
        }
        return;
    }
    if let Some(rebuild) = &mut core.upkeep.rebuild {
        rebuild.goes_on();
    }
    // Where two blocks of parity contradict each other the block may be wrong: whoever reads it sees that by his checksum, and finds it without both.
    core.code.correct(&read, &mut rows.images, BLOCK as usize);
    let list = match rows.images[role].take() {
        Some(bytes) => {
            vec![(member, core.shape.row_offset_bytes(rows.first), Vectored::One(Buf::copy_of(&bytes).freeze()))]
        }
        None => Vec::new(),
    };
    core.write(list, (0, false), Then::Rebuilt { lock: rows.lock });
}

/// Of these rows and the next ones that were read with them the member gets nothing in this pass.
pub(super) fn left_out(core: &mut Core, first_row: u64) {
    if let Some(rebuild) = &mut core.upkeep.rebuild {
        rebuild.leaves_out();
        rebuild.first_gap_row = rebuild.first_gap_row.min(first_row);
    }
    written(core);
}

/// A step of a rebuild was written.
pub(super) fn written(core: &mut Core) {
    core.upkeep.is_busy = false;
    if let Some(rebuild) = &mut core.upkeep.rebuild {
        rebuild.next_row = rebuild.next_row.max(rebuild.upto_row);
    }
}

/// What was rebuilt is durable, or not.
pub(super) fn flushed(core: &mut Core, result: &Result<(), IoError>) {
    core.upkeep.is_busy = false;
    core.own_work_ended(result);
    let rows = core.shape.rows();
    let Some(rebuild) = core.upkeep.rebuild.as_mut().filter(|_| result.is_ok()) else { return };
    rebuild.noted_rows = rebuild.next_row;
    let (member, noted) = (rebuild.member, rebuild.noted_rows);
    let gaps = rebuild.gaps;
    if noted >= rows && gaps > 0 && !rebuild.is_second {
        // What could not be read may be readable another time. Everything before the first gap is good.
        let first = rebuild.first_gap_row.min(rows);
        (rebuild.next_row, rebuild.noted_rows, rebuild.upto_row) = (first, first, first);
        rebuild.next_bytes = rebuild.first_gap_bytes.min(core.shape.head_bytes + 1);
        (rebuild.first_gap_row, rebuild.first_gap_bytes) = (u64::MAX, u64::MAX);
        (rebuild.gaps, rebuild.is_second, rebuild.waits) = (0, true, 0);
        core.upkeep.singles_until = 0;
        return core.roster.note_all_but(gaps, first);
    }
    if noted >= rows {
        core.upkeep.rebuild = None;
        core.view.count_unreadable(gaps);
        super::labels::rebuilt(core, member);
    } else {
        // After a restart the rebuild goes on before the first gap.
        core.roster.note(noted.min(rebuild.first_gap_row));
    }
}
