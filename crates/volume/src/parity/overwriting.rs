//! Writes of parts of rows in which something lives that the log does not have: such a row is read first, and judged.

use super::chores::Readings;
use super::core::Core;
use super::jobs::{Blocks, Part, Purpose, Rows, Then};
use super::judgement::{Evidence, Judgement, Known};
use super::proving;
use super::writing::{log, read_before};
use forebay_block::{Buf, SharedBuf, Vectored};

/// A row was read of which a part is to be written. Where its parity fits already what is to be written there, the write repeats what was
/// there, and no parity is changed. In this way a damaged block is written again, and other damaged blocks of the row keep the parity that
/// can restore them.
pub(super) fn overwrite(core: &mut Core, part: Part, mut readings: Readings, rows: Rows) {
    let (row, images) = (part.row, &rows.images[..]);
    let was_right = core.code.agrees(images);
    if !was_right && !rows.is_proven {
        if !readings.are_enough(row, images) {
            // What lives there was not read, or is wrong: that may have been one bad transfer.
            return read_before(core, part, readings);
        }
        if !core.code.fits(images) {
            return proving::begin(core, Rows { purpose: Purpose::Overwrite { part, readings }, ..rows });
        }
    }
    let living = core.fronts.living(row) & !part.written();
    let is_settled = core.settled.remove(&row);
    let evidence = Evidence {
        code: &core.code,
        images,
        data: core.shape.data,
        blocks: &part.blocks,
        living,
        failed: failed_places(core, &rows) & living,
        was_right,
        is_settled,
        may_be_torn: core.may_be_torn(row),
    };
    match evidence.judge() {
        Judgement::Unreadable => core.op_part_ended(part.op, Err(core.unreadable(row))),
        Judgement::Repeats => write_row(core, part, Vec::new(), Vec::new()),
        Judgement::InPlace { known, parity } => {
            note(core, &part, &known);
            in_place(core, part, &known, &parity);
        }
        Judgement::ByLog(known) => {
            note(core, &part, &known);
            by_log(core, part, &known, living);
        }
    }
}

/// One bit for each block of data of a row that its member failed to read.
fn failed_places(core: &Core, rows: &Rows) -> u32 {
    let is_failed = |at: &usize| rows.failed & 1 << core.shape.member(rows.first, *at) != 0;
    (0..core.shape.data).filter(is_failed).fold(0, |bits, at| bits | 1 << at)
}

/// Notes what the judgement of a row means for others: those who verify data, and the member that is rebuilt.
fn note(core: &mut Core, part: &Part, known: &Known) {
    if known.is_in_doubt {
        core.view.count_row_in_doubt();
    }
    catch_up(core, part, &known.data);
}

/// Writes the part, and with it all parity and what is known to be wrong. Parity that agrees is written, too: the cache that it lay in may have
/// lost it. The rest of the parity is known to be wrong, and so is a block that was read and contradicts it: left as it is, it would be one
/// more that is missing when the next block of the row is written.
fn in_place(core: &mut Core, part: Part, known: &Known, parity: &[Vec<u8>]) {
    let parity = parity.iter().enumerate().map(|(number, sum)| (core.shape.data + number, frozen(sum))).collect();
    let wrong = known.wrong.iter().map(|&at| (at, frozen(&known.data[at]))).collect();
    write_row(core, part, parity, wrong);
}

/// Puts what lives in the row into the log first. A block that was read and is wrong is written with the part, as parity is of what it should
/// be.
fn by_log(core: &mut Core, mut part: Part, known: &Known, living: u32) {
    let place = |at: usize| (at, frozen(&known.data[at]));
    let living: Blocks = (0..core.shape.data).filter(|at| living & 1 << at != 0).map(place).collect();
    part.blocks.extend(living.iter().filter(|(at, _)| known.wrong.contains(at)).cloned());
    log(core, part, living);
}

/// Writes a part of a row, between other blocks of the row, by their places.
fn write_row(core: &mut Core, part: Part, before: Blocks, behind: Blocks) {
    let offset_bytes = core.shape.row_offset_bytes(part.row);
    let all = before.into_iter().chain(part.blocks).chain(behind);
    let list = all.map(|(at, block)| (core.shape.member(part.row, at), offset_bytes, Vectored::One(block)));
    core.write(list.collect(), (part.stream, false), Then::Part { op: part.op });
}

/// The row may lie in the part that is rebuilt already: the member that is rebuilt gets its block as the new parity takes it to be, unless
/// this write has it anyway.
fn catch_up(core: &mut Core, part: &Part, known: &[Vec<u8>]) {
    let Some(member) = core.members.rebuilding() else { return };
    let role = core.shape.role(part.row, member);
    if role < core.shape.data && part.blocks.iter().all(|(at, _)| *at != role) {
        let list = vec![(member, core.shape.row_offset_bytes(part.row), Vectored::One(frozen(&known[role])))];
        core.ops[part.op].left += 1;
        core.write(list, (0, false), Then::Part { op: part.op });
    }
}

fn frozen(block: &[u8]) -> SharedBuf {
    Buf::copy_of(block).freeze()
}
