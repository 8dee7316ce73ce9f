//! Writes: whole rows with their parity; parts of rows beside what was written there before, with their parity in the log; and parts of
//! rows of which it is unknown what lives in them.

use super::chores::Readings;
use super::core::Core;
use super::jobs::{Blocks, HostOp, Logged, Part, Purpose, Rows, Starved, Then, locked_range};
use super::reading::read_rows;
use crate::layout::array_shape::{Area, BLOCK};
use crate::layout::parity_entry::ParityEntry;
use crate::mirror::gone;
use forebay_block::checksum::content_checksum;
use forebay_block::{Buf, IoError, IoErrorKind, Op, Request, SharedBuf, Vectored};

/// Takes a write or a discard: begins it, or holds it while other work is in progress where it writes.
pub(super) fn take(core: &mut Core, request: Request) {
    if let Err(error) = check(core, &request) {
        return core.answer(request.tag, Err(error));
    }
    let (offset_bytes, len_bytes) = locked_range(&core.shape, request.offset_bytes, request.op.len_bytes());
    if !core.is_settling() && core.is_free(offset_bytes, len_bytes) {
        begin(core, request);
    } else {
        core.held.push_back(super::jobs::Held::Change(request));
    }
}

fn check(core: &Core, request: &Request) -> Result<(), IoError> {
    let len_bytes = request.op.len_bytes();
    let invalid = IoError { kind: IoErrorKind::Invalid, offset_bytes: request.offset_bytes, ..gone(request.op.name()) };
    let is_whole = request.offset_bytes.is_multiple_of(BLOCK) && len_bytes.is_multiple_of(BLOCK);
    match (core.shape.area(request.offset_bytes, len_bytes), &request.op) {
        _ if len_bytes == 0 => Err(invalid),
        (Some(Area::Same(_)), Op::Write { .. }) => Ok(()),
        (Some(Area::Rows(_)), Op::Write { .. }) if is_whole => Ok(()),
        (Some(_), Op::Discard { .. }) => Ok(()),
        (Some(_), Op::WriteZeroes { .. }) => Err(IoError { kind: IoErrorKind::Unsupported, ..invalid }),
        _ => Err(invalid),
    }
}

/// Begins a change whose range is free.
pub(super) fn begin(core: &mut Core, request: Request) {
    let Request { tag, offset_bytes, stream, op } = request;
    let (begin_bytes, locked_bytes) = locked_range(&core.shape, offset_bytes, op.len_bytes());
    let lock = core.lock(begin_bytes, locked_bytes);
    // One part stands for this function.
    let op_id = core.ops.insert(HostOp { tag, left: 1, lock, error: None, wants_flush: false });
    match (core.shape.area(offset_bytes, op.len_bytes()), op) {
        (Some(Area::Same(at)), Op::Write { bufs, fua }) => {
            core.ops[op_id].left += 1;
            let list = (0..core.shape.members()).map(|member| (member, at, clone_of(&bufs))).collect();
            core.write(list, (stream, fua), Then::Part { op: op_id });
        }
        (Some(Area::Rows(at)), Op::Write { bufs, fua }) => {
            write_blocks(core, op_id, (at / BLOCK, blocks_of(&bufs)), (stream, fua));
        }
        (Some(Area::Rows(at)), Op::Discard { len_bytes }) => discard(core, op_id, at, len_bytes),
        _ => {}
    }
    core.op_part_ended(op_id, Ok(()));
}

fn clone_of(bufs: &Vectored<SharedBuf>) -> Vectored<SharedBuf> {
    match bufs {
        Vectored::One(buf) => Vectored::One(buf.clone()),
        // Each member gets a vector of its own where one write has several buffers: a device owns what it takes.
        Vectored::Many(bufs) => Vectored::Many(bufs.clone()),
    }
}

/// Cuts a write into blocks, without a copy where its buffers hold whole ones.
fn blocks_of(bufs: &Vectored<SharedBuf>) -> Vec<SharedBuf> {
    let block = BLOCK as usize;
    let cut = |buf: &SharedBuf| (0..buf.len() / block).map(|at| buf.slice(at * block, block)).collect::<Vec<_>>();
    let bufs = bufs.as_slice();
    if bufs.iter().all(|buf| buf.len().is_multiple_of(block)) {
        return bufs.iter().flat_map(cut).collect();
    }
    let mut all = Buf::new(bufs.iter().map(|buf| buf.len()).sum());
    let mut at = 0;
    for buf in bufs {
        all[at..at + buf.len()].copy_from_slice(buf);
        at += buf.len();
    }
    cut(&all.freeze())
}

/// Writes blocks, from block `first` of the data of all rows on.
fn write_blocks(core: &mut Core, op: usize, (first, blocks): (u64, Vec<SharedBuf>), (stream, fua): (u8, bool)) {
    let data = core.shape.data as u64;
    // What lived, before this write, in the rows that are written in part.
    let (first_row, last_row) = (first / data, (first + blocks.len() as u64 - 1) / data);
    let living = [first_row, last_row].map(|row| core.fronts.living(row));
    core.fronts.written(first_row, first % data, blocks.len() as u64);
    let mut rest = &blocks[..];
    let mut row = first_row;
    let mut at = (first % data) as usize;
    while !rest.is_empty() {
        let whole = rest.len() as u64 / data;
        if at == 0 && whole > 0 {
            let rows = core.shape.alike_from(row, whole);
            let (here, others) = rest.split_at((rows * data) as usize);
            write_whole(core, op, (row, here), (stream, fua));
            (rest, row) = (others, row + rows);
            continue;
        }
        let (here, others) = rest.split_at(rest.len().min(core.shape.data - at));
        let blocks: Blocks = here.iter().enumerate().map(|(i, block)| (at + i, block.clone())).collect();
        core.ops[op].left += 1;
        // FUA would make the entry in the log durable, but not the other blocks that it covers: so a flush follows.
        core.ops[op].wants_flush |= fua && core.is_volatile;
        let part = Part { op, row, blocks, stream };
        write_part(core, part, if row == first_row { living[0] } else { living[1] });
        (rest, row, at) = (others, row + 1, 0);
    }
}

/// Writes whole rows that lie on the same members. Nothing of what was there is needed.
fn write_whole(core: &mut Core, op: usize, (row, blocks): (u64, &[SharedBuf]), hints: (u8, bool)) {
    let (data, parity, block) = (core.shape.data, core.shape.parity, BLOCK as usize);
    let rows = blocks.len() / data;
    let mut sums: Vec<Buf> = (0..parity).map(|_| Buf::new(rows * block)).collect();
    for (at, blocks) in blocks.chunks_exact(data).enumerate() {
        let blocks: Vec<&[u8]> = blocks.iter().map(|block| &**block).collect();
        let mut into: Vec<&mut [u8]> = sums.iter_mut().map(|sum| &mut sum[at * block..(at + 1) * block]).collect();
        core.code.encode_into(&blocks, &mut into);
    }
    let offset_bytes = core.shape.row_offset_bytes(row);
    let of_role = |role: usize| Vectored::Many(blocks.iter().skip(role).step_by(data).cloned().collect());
    let mut list: Vec<_> = (0..data).map(|role| (core.shape.member(row, role), offset_bytes, of_role(role))).collect();
    for (number, sum) in sums.into_iter().enumerate() {
        list.push((core.shape.member(row, data + number), offset_bytes, Vectored::One(sum.freeze())));
    }
    let end = row + rows as u64;
    (row..end).for_each(|row| _ = core.settled.remove(&row));
    core.ops[op].left += 1;
    core.write(list, hints, Then::Whole { op, rows: row..end });
}

/// Writes a part of a row. `living`: what may live in it.
fn write_part(core: &mut Core, part: Part, living: u32) {
    let written = part.written();
    if let Some(open) = core.open.get(part.row) {
        let differs = |(at, block): &(usize, SharedBuf)| open.blocks[*at].as_ref().is_some_and(|old| **old != **block);
        if !part.blocks.iter().any(differs) {
            return append(core, part);
        }
        let others = |at: &usize| written & 1 << at == 0;
        let kept = (0..core.shape.data).filter(others).filter_map(|at| Some((at, open.blocks[at].clone()?))).collect();
        return log(core, part, kept);
    }
    if living & !written == 0 {
        return append(core, part);
    }
    read_before(core, part, Readings::default());
}

/// Reads a row of which a part is to be written.
pub(super) fn read_before(core: &mut Core, part: Part, readings: Readings) {
    let rows = Rows::new(part.row, 1, &core.shape, Purpose::Overwrite { part, readings }, 0);
    read_rows(core, rows);
}

/// Adds blocks to an open row, or opens a row in which nothing else lives.
pub(super) fn append(core: &mut Core, part: Part) {
    let (row, data) = (part.row, core.shape.data);
    core.settled.remove(&row);
    let mut blocks: Vec<Option<SharedBuf>> =
        core.open.get(row).map_or_else(|| vec![None; data], |open| open.blocks.clone());
    part.blocks.iter().for_each(|(at, block)| blocks[*at] = Some(block.clone()));
    let is_whole = blocks.iter().all(Option::is_some);
    let offset_bytes = core.shape.row_offset_bytes(row);
    let (mut list, slot) = if is_whole {
        (parity_of(core, row, &blocks), None)
    } else {
        let Some(slot) = core.open.take_slot() else {
            return core.starved.push(Starved { part, living: None });
        };
        (entries(core, row, &blocks, slot), Some(slot))
    };
    for (at, block) in &part.blocks {
        list.push((core.shape.member(row, *at), offset_bytes, Vectored::One(block.clone())));
    }
    let stream = part.stream;
    core.write(list, (stream, false), Then::Appended { part, slot });
}

/// Parity of a row; blocks that it lacks count as zeros.
fn sums_of(core: &Core, blocks: &[Option<SharedBuf>]) -> Vec<Buf> {
    let block = BLOCK as usize;
    let zeros = Buf::zeroed(block).freeze();
    let data: Vec<&[u8]> = blocks.iter().map(|block| &**block.as_ref().unwrap_or(&zeros)).collect();
    let mut sums: Vec<Buf> = (0..core.shape.parity).map(|_| Buf::new(block)).collect();
    let mut into: Vec<&mut [u8]> = sums.iter_mut().map(|sum| &mut sum[..]).collect();
    core.code.encode_into(&data, &mut into);
    sums
}

/// The same, as writes to its place in the row.
pub(super) fn parity_of(core: &Core, row: u64, blocks: &[Option<SharedBuf>]) -> Vec<(usize, u64, Vectored<SharedBuf>)> {
    let offset_bytes = core.shape.row_offset_bytes(row);
    let place = |number: usize| core.shape.member(row, core.shape.data + number);
    let sums = sums_of(core, blocks).into_iter().enumerate();
    sums.map(|(number, sum)| (place(number), offset_bytes, Vectored::One(sum.freeze()))).collect()
}

/// The same, as entries in a place of the log, with what they cover.
pub(super) fn entries(
    core: &mut Core,
    row: u64,
    blocks: &[Option<SharedBuf>],
    slot: u32,
) -> Vec<(usize, u64, Vectored<SharedBuf>)> {
    core.sequence += 1;
    let covered = blocks.iter().enumerate().fold(0, |bits, (at, block)| bits | u32::from(block.is_some()) << at);
    let checksums: Vec<u32> =
        blocks.iter().map(|block| block.as_ref().map_or(0, |block| content_checksum(block))).collect();
    let offset_bytes = core.shape.slot_offset_bytes(slot);
    let each = sums_of(core, blocks).into_iter().enumerate().map(|(number, sum)| {
        let member = core.shape.member(row, core.shape.data + number);
        let (sequence, checksums, parity) = (core.sequence, checksums.clone(), sum.to_vec());
        let entry = ParityEntry { sequence, row, covered, checksums, number: number as u8, parity };
        let bytes = entry.encode(&core.pool, core.roster.id(member));
        (member, offset_bytes, Vectored::One(Buf::copy_of(&bytes).freeze()))
    });
    each.collect()
}

/// Puts what lives in a row into the log, and makes that durable, before something else is written there: the row's own parity is of what
/// was there before, and of no use while the row changes.
pub(super) fn log(core: &mut Core, part: Part, living: Blocks) {
    if living.is_empty() {
        core.close(part.row);
        return append(core, part);
    }
    let Some(slot) = core.open.take_slot() else {
        return core.starved.push(Starved { part, living: Some(living) });
    };
    let mut blocks = vec![None; core.shape.data];
    living.iter().for_each(|(at, block)| blocks[*at] = Some(block.clone()));
    let list = entries(core, part.row, &blocks, slot);
    core.write(list, (0, false), Then::Logged(Logged { part, living, slot }));
}

/// Discards whole bands: nothing in them is needed any more.
fn discard(core: &mut Core, op: usize, at: u64, len_bytes: u64) {
    let row_bytes = core.shape.row_bytes();
    let rows = at.div_ceil(row_bytes)..(at + len_bytes) / row_bytes;
    let bands = core.shape.band_rows();
    if rows.is_empty() || !rows.start.is_multiple_of(bands) || !rows.end.is_multiple_of(bands) {
        return;
    }
    core.fronts.discarded(rows.clone());
    for row in core.open.in_range(rows.clone()) {
        core.close(row);
    }
    core.ops[op].left += 1;
    let len_bytes = (rows.end - rows.start) * BLOCK;
    let range = (core.shape.row_offset_bytes(rows.start), len_bytes);
    core.discard(range, Then::Discarded { op, rows });
}
