//! Fills up open rows whose places in the log are needed, or that a rebuild comes to.

use super::core::Core;
use super::jobs::Then;
use super::writing::parity_of;
use crate::layout::array_shape::BLOCK;
use forebay_block::{Buf, IoError, Vectored};

/// Fills up the row that was changed the longest ago, where too many are open. The blocks that it lacks become zeros, except those that
/// live there and could not be written: these are written again.
pub(super) fn fill(core: &mut Core) {
    let is_free = |row: u64| {
        let (begin, len) = core.range_of(row, 1);
        core.is_free(begin, len)
    };
    let row = core.open.to_fill(is_free);
    if let Some(row) = row {
        fill_row(core, row);
    }
}

/// Fills up a row of which an older entry cannot be erased, while all writes wait until the log is empty: a newer entry can supersede the
/// old one only when the row does not depend on the log any more.
pub(super) fn fill_stuck(core: &mut Core) {
    let is_locked = |row: u64| {
        let (begin, len) = core.range_of(row, 1);
        core.locks.overlap(begin, len)
    };
    let row = core.open.rows_of_stuck().find(|row| !is_locked(*row));
    if let Some(row) = row {
        fill_row(core, row);
    }
}

/// Fills a row up.
pub(super) fn fill_row(core: &mut Core, row: u64) {
    let Some(open) = core.open.get(row) else { return };
    let (mut blocks, failed) = (open.blocks.clone(), open.failed.clone());
    let lacking: Vec<usize> = (0..core.shape.data).filter(|&at| blocks[at].is_none()).collect();
    failed.into_iter().for_each(|(at, block)| blocks[at] = Some(block));
    core.upkeep.is_filling = true;
    let (begin, len) = core.range_of(row, 1);
    let lock = core.lock(begin, len);
    let mut list = parity_of(core, row, &blocks);
    let zeros = Buf::zeroed(BLOCK as usize).freeze();
    let offset_bytes = core.shape.row_offset_bytes(row);
    for at in lacking {
        let block = blocks[at].clone().unwrap_or_else(|| zeros.clone());
        list.push((core.shape.member(row, at), offset_bytes, Vectored::One(block)));
    }
    core.write(list, (0, false), Then::Filled { row, lock });
}

/// The rest of an open row was written, or could not be.
pub(super) fn filled(core: &mut Core, row: u64, lock: u64, result: &Result<(), IoError>) {
    core.locks.remove(lock);
    core.upkeep.is_filling = false;
    core.own_work_ended(result);
    if result.is_ok() {
        core.close(row);
    }
}
