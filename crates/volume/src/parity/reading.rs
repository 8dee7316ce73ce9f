//! Reads: each block comes from its member. A block that the member does not have, or has wrong, is computed from the others.

use super::core::Core;
use super::jobs::{Held, Job, Next, Piece, Purpose, Read, Rows, SameRead};
use super::members::Ended;
use super::pieces::{new_bufs, whole};
use super::{doubt, probing, proving};
use crate::layout::array_shape::{Area, BLOCK, Way};
use crate::mirror::{gone, numbers_in};
use forebay_block::{Buf, Completion, IoError, IoErrorKind, Op, Vectored};

/// Most rows that are restored at once.
const ROWS_AT_ONCE: u64 = 16;

/// Begins a read.
pub(super) fn begin(core: &mut Core, tag: u64, offset_bytes: u64, attempt: u8, bufs: Vectored<Buf>) {
    let len_bytes: u64 = bufs.as_slice().iter().map(|buf| buf.len() as u64).sum();
    match core.shape.area(offset_bytes, len_bytes) {
        Some(Area::Same(at)) => {
            let lens = bufs.as_slice().iter().map(|buf| buf.len()).collect();
            read_same(core, SameRead { tag, offset_bytes: at, attempt, lens, tried: 0 }, bufs);
        }
        Some(Area::Rows(at)) => {
            let way = match core.shape.way(attempt) {
                // The range does not lie on this member and on others as well, so earlier attempts read it in this way already. Not so
                // where blocks of it belong to a member that is out: these are computed, now without this member.
                Way::Without(member)
                    if !core.shape.is_split_by(member, at, len_bytes) && !is_missing_in(core, at, len_bytes) =>
                {
                    Way::Direct
                }
                Way::WithoutAll if !core.shape.has_several_in_a_row(at, len_bytes) => Way::Direct,
                way => way,
            };
            if attempt > 0 && way != Way::Compared {
                let row_bytes = core.shape.row_bytes();
                core.upkeep.mends.doubt(at / row_bytes..=(at + len_bytes).saturating_sub(1) / row_bytes);
            }
            read_pieces(core, (tag, attempt), at, way, bufs);
        }
        None => {
            let error = IoError { kind: IoErrorKind::Invalid, offset_bytes, ..gone("read") };
            core.done.push(Completion { tag, result: Err(error), bufs: Some(bufs) });
        }
    }
}

/// Whether some of these bytes of rows lie on members that are out.
fn is_missing_in(core: &Core, at: u64, len_bytes: u64) -> bool {
    let (data, in_sync) = (core.shape.data as u64, core.members.in_sync());
    let mut blocks = at / BLOCK..(at + len_bytes).div_ceil(BLOCK);
    blocks.any(|block| in_sync & 1 << core.shape.member(block / data, (block % data) as usize) == 0)
}

/// Reads a part that all members have alike, from the next member that has not been tried.
fn read_same(core: &mut Core, read: SameRead, bufs: Vectored<Buf>) {
    let members: Vec<usize> = numbers_in(core.members.in_sync()).collect();
    let turns = (0..members.len()).map(|turn| members[(usize::from(read.attempt) + turn) % members.len()]);
    let Some(member) = turns.into_iter().find(|&member| read.tried & 1 << member == 0) else {
        core.done.push(Completion { tag: read.tag, result: Err(gone("read")), bufs: Some(bufs) });
        return;
    };
    let offset_bytes = read.offset_bytes;
    let job = core.jobs.insert(Job::Same(read));
    core.members.send(member, (job, 0), (offset_bytes, 0), Op::read(bufs));
}

fn read_pieces(core: &mut Core, (tag, attempt): (u64, u8), at: u64, way: Way, bufs: Vectored<Buf>) {
    let (is_single, bufs) = match bufs {
        Vectored::One(buf) => (true, vec![buf]),
        Vectored::Many(bufs) => (false, bufs),
    };
    let lens = bufs.iter().map(|buf| buf.len()).collect();
    let mut pieces = Vec::new();
    let mut at = at;
    for mut rest in bufs {
        while !rest.is_empty() {
            let len = rest.len().min((BLOCK - at % BLOCK) as usize);
            let tail = if len < rest.len() { rest.split_off(len) } else { Buf::empty() };
            let (block, data) = (at / BLOCK, core.shape.data as u64);
            let (row, role, from) = (block / data, (block % data) as usize, (at % BLOCK) as usize);
            pieces.push(Piece { buf: Some(rest), row, role, from, len, is_sent: false, failed: false });
            rest = tail;
            at += len as u64;
        }
    }
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut ends = vec![None; core.shape.members()];
    let mut offsets = Vec::new();
    let readable = match way {
        Way::Direct => core.members.in_sync(),
        Way::Without(member) => core.members.in_sync() & !(1 << member),
        // In these ways all blocks of the rows are read.
        Way::WithoutOwn | Way::WithoutOwnAnd(_) | Way::WithoutAll | Way::Compared => 0,
    };
    for (number, piece) in pieces.iter_mut().enumerate() {
        let member = core.shape.member(piece.row, piece.role);
        piece.is_sent = readable & 1 << member != 0;
        if !piece.is_sent {
            continue;
        }
        let offset_bytes = core.shape.row_offset_bytes(piece.row) + piece.from as u64;
        let end = offset_bytes + piece.len as u64;
        match ends[member] {
            Some((group, begin)) if begin == offset_bytes => {
                let (_, members): &mut (usize, Vec<usize>) = &mut groups[group];
                members.push(number);
                ends[member] = Some((group, end));
            }
            _ => {
                ends[member] = Some((groups.len(), end));
                groups.push((member, vec![number]));
                offsets.push(offset_bytes);
            }
        }
    }
    // One part stands for this function.
    let left = groups.len() + 1;
    let mut sends = Vec::with_capacity(groups.len());
    for (member, numbers) in &groups {
        let mut bufs: Vec<Buf> = numbers.iter().filter_map(|&number| pieces[number].buf.take()).collect();
        let bufs = if bufs.len() == 1 {
            bufs.pop().map_or(Vectored::Many(Vec::new()), Vectored::One)
        } else {
            Vectored::Many(bufs)
        };
        sends.push((*member, bufs));
    }
    let (is_first, is_last) = (attempt == 0, attempt > core.shape.variants() && way == Way::Direct);
    let (error, lost, mends) = (None, None, Vec::new());
    let read = Read { tag, way, is_first, is_last, lens, is_single, pieces, groups, left, error, lost, mends };
    let job = core.jobs.insert(Job::Read(read));
    for (part, ((member, bufs), offset_bytes)) in sends.into_iter().zip(offsets).enumerate() {
        core.members.send(member, (job, part), (offset_bytes, 0), Op::read(bufs));
    }
    part_of_read_ended(core, job);
}

/// A request to a member has ended that is a read.
pub(super) fn ended(core: &mut Core, ended: Ended) {
    let Ended { member, job, part, result, bufs } = ended;
    match core.jobs.get_mut(job) {
        Some(Job::Same(_)) => {
            let Some(Job::Same(mut read)) = core.jobs.try_remove(job) else { return };
            if let (Ok(()), Some(bufs)) = (&result, bufs) {
                return core.done.push(Completion { tag: read.tag, result: Ok(()), bufs: Some(bufs) });
            }
            core.view.count_failed_read(member);
            read.tried |= 1 << member;
            let bufs = new_bufs(&read.lens);
            read_same(core, read, bufs);
        }
        Some(Job::Read(read)) => {
            let numbers = read.groups.get(part).map_or(&[][..], |(_, numbers)| numbers);
            let bufs = match bufs {
                Some(Vectored::One(buf)) => vec![buf],
                Some(Vectored::Many(bufs)) => bufs,
                None => Vec::new(),
            };
            let is_good = result.is_ok() && bufs.len() == numbers.len();
            let mut bufs = bufs.into_iter();
            for &number in numbers {
                let piece = &mut read.pieces[number];
                piece.buf = bufs.next();
                piece.failed = !is_good;
            }
            if let Err(error) = result {
                read.error = Some(error);
                core.view.count_failed_read(member);
            }
            part_of_read_ended(core, job);
        }
        Some(Job::Rows(_)) => rows_part(core, (job, part), member, result, bufs),
        Some(Job::Log) => {
            core.jobs.remove(job);
            doubt::read(core, member, result, bufs);
        }
        Some(Job::Probe(_)) => probing::ended(core, job, result.is_ok().then_some(member)),
        Some(Job::Proof(_)) => proving::ended(core, Ended { member, job, part, result, bufs }),
        _ => {}
    }
}

/// A part of a read has come from a member, or was restored. After the last part, what is still missing is restored, and then the read is
/// answered.
fn part_of_read_ended(core: &mut Core, job: usize) {
    let Some(Job::Read(read)) = core.jobs.get_mut(job) else { return };
    read.left -= 1;
    if read.left > 0 {
        return;
    }
    // The rows of pieces without data: their member is not there, failed to read them, or is not to be used.
    let mut rows: Vec<u64> = Vec::new();
    for piece in &read.pieces {
        let is_here = piece.is_sent && !piece.failed;
        if !is_here && rows.last() != Some(&piece.row) {
            rows.push(piece.row);
        }
    }
    if rows.is_empty() {
        return answer(core, job, None);
    }
    // From here on, the parts of the read are the runs of rows to be restored.
    let has_failed = read.pieces.iter().any(|piece| piece.failed);
    let is_alone = has_failed || !matches!(read.way, Way::Direct | Way::Compared);
    let at_once = if is_alone { 1 } else { ROWS_AT_ONCE };
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for row in rows {
        match runs.last_mut() {
            Some((first, count))
                if *first + *count == row
                    && core.shape.alike_from(*first, *count + 1) == *count + 1
                    && *count < at_once =>
            {
                *count += 1;
            }
            _ => runs.push((row, 1)),
        }
    }
    read.left = runs.len();
    for (first, count) in runs {
        let (begin, len) = core.range_of(first, count);
        if core.is_free(begin, len) {
            restore_rows(core, first, count, job);
        } else {
            core.held.push_back(Held::Restore { first, count, read: job });
        }
    }
}

/// Rows that were to be restored at once are restored in so many more parts.
pub(super) fn more_runs(core: &mut Core, job: usize, more: usize) {
    if let Some(Job::Read(read)) = core.jobs.get_mut(job) {
        read.left += more;
    }
}

/// Begins to restore rows of a read. Their range is free.
pub(super) fn restore_rows(core: &mut Core, first: u64, count: u64, read: usize) {
    let (begin, len) = core.range_of(first, count);
    let lock = core.lock(begin, len);
    let rows = Rows::new(first, count, &core.shape, Purpose::Restore { read }, lock);
    read_rows(core, rows);
}

/// Reads all blocks of these rows that can be read.
pub(super) fn read_rows(core: &mut Core, mut rows: Rows) {
    let (first, len_bytes) = (rows.first, (rows.count * BLOCK) as usize);
    rows.asked = core.members.in_sync();
    let members: Vec<(usize, usize)> = (0..core.shape.members())
        .map(|role| (role, core.shape.member(first, role)))
        .filter(|&(_, member)| rows.asked & 1 << member != 0)
        .collect();
    rows.left = members.len() + 1;
    let job = core.jobs.insert(Job::Rows(rows));
    let offset_bytes = core.shape.row_offset_bytes(first);
    for (role, member) in members {
        core.members.send(member, (job, role), (offset_bytes, 0), Op::read(Vectored::One(Buf::new(len_bytes))));
    }
    rows_part_ended(core, job);
}

fn rows_part(
    core: &mut Core,
    (job, role): (usize, usize),
    member: usize,
    result: Result<(), IoError>,
    bufs: Option<Vectored<Buf>>,
) {
    if result.is_err() {
        core.view.count_failed_read(member);
    }
    if let Some(Job::Rows(rows)) = core.jobs.get_mut(job) {
        match (result, bufs) {
            (Ok(()), Some(Vectored::One(buf))) => rows.images[role] = Some(buf.to_vec()),
            (result, _) => {
                rows.failed |= 1 << member;
                let is_gone = result.as_ref().is_err_and(|error| error.kind != IoErrorKind::Medium);
                rows.gone |= u32::from(is_gone) << member;
                rows.away = result.err().filter(|error| error.kind != IoErrorKind::Medium).or(rows.away.take());
            }
        }
    }
    rows_part_ended(core, job);
}

fn rows_part_ended(core: &mut Core, job: usize) {
    let Some(Job::Rows(rows)) = core.jobs.get_mut(job) else { return };
    rows.left -= 1;
    if rows.left > 0 {
        return;
    }
    let Some(Job::Rows(rows)) = core.jobs.try_remove(job) else { return };
    core.next.push_back(Next::Rows(rows));
}

/// The rows of a read have been read from all members: its pieces get their bytes.
pub(super) fn restored(core: &mut Core, rows: &Rows, job: usize) {
    let Some(Job::Read(read)) = core.jobs.get(job) else { return };
    let (way, block, is_last) = (read.way, BLOCK as usize, read.is_last);
    let mut put: Vec<(usize, Result<Vec<u8>, IoError>)> = Vec::new();
    let mut mends = Vec::new();
    let is_compared = way == Way::Compared;
    let (mut unfit, mut not_compared) = (None, None);
    for row in rows.first..rows.first + rows.count {
        let at = (row - rows.first) as usize * block;
        let images: Vec<Option<Vec<u8>>> =
            rows.images.iter().map(|image| Some(image.as_ref()?.get(at..at + block)?.to_vec())).collect();
        if is_compared {
            unfit = unfit.or_else(|| core.misfit(row, &images));
            not_compared = not_compared.or_else(|| core.not_compared(row, &images, rows));
        }
        for (number, piece) in read.pieces.iter().enumerate().filter(|(_, piece)| piece.row == row) {
            let member = core.shape.member(row, piece.role);
            if piece.is_sent && !piece.failed {
                continue;
            }
            let mut images = images.clone();
            // On the last attempt only the block's own place counts. What was computed from the others was wrong, and a reader that got it
            // once more would give the block up.
            let is_of_place = is_last && piece.failed && !core.found.has(row);
            if !is_compared && !is_of_place {
                images[piece.role] = None;
            }
            match way {
                Way::WithoutOwnAnd(role) => images[role] = None,
                Way::WithoutAll => {
                    let others = read.pieces.iter().filter(|other| other.row == row);
                    others.for_each(|other| images[other.role] = None);
                }
                Way::Without(member) => images[core.shape.role(row, member)] = None,
                Way::Direct | Way::WithoutOwn | Way::Compared => {}
            }
            let open = core.open.get(row).and_then(|open| open.blocks[piece.role].as_ref());
            let bytes = match open {
                Some(block) => Some(block.to_vec()),
                None if is_of_place => images[piece.role].take(),
                None => core.found.data(row, &core.code, &core.shape, &images)[piece.role].take(),
            };
            // Its member failed again when the whole row was read.
            if read.is_first && piece.failed && rows.failed & 1 << member != 0 && bytes.is_some() {
                mends.push((member, row));
            }
            let away = rows.away.as_ref().filter(|_| is_compared);
            put.push((number, bytes.ok_or_else(|| away.cloned().unwrap_or_else(|| core.unreadable(row)))));
        }
    }
    if is_compared {
        mends.extend(numbers_in(rows.failed).map(|member| (member, rows.first)));
    }
    let Some(Job::Read(read)) = core.jobs.get_mut(job) else { return };
    read.mends.append(&mut mends);
    let mut error = unfit.or(not_compared);
    for (number, bytes) in put {
        let piece = &mut read.pieces[number];
        match bytes {
            Ok(bytes) => {
                let bytes = &bytes[piece.from..piece.from + piece.len];
                match &mut piece.buf {
                    Some(buf) if buf.len() == bytes.len() => buf.copy_from_slice(bytes),
                    _ => piece.buf = Some(Buf::copy_of(bytes)),
                }
            }
            Err(failure) => error = error.or_else(|| Some(read.error.clone().unwrap_or(failure))),
        }
    }
    read.left -= 1;
    let is_last = read.left == 0;
    // Kept for the answer, even where other rows are good. A mismatch of parity goes before rows that cannot be read, so that these do not
    // hide it.
    let tells = |error: &IoError| error.kind == IoErrorKind::Mismatch;
    read.lost = read.lost.take_if(|lost| tells(lost)).or(error).or(read.lost.take());
    if is_last {
        let lost = read.lost.take();
        answer(core, job, lost);
    }
}

/// Puts the buffers of a read together again, and answers it.
fn answer(core: &mut Core, job: usize, error: Option<IoError>) {
    let Some(Job::Read(read)) = core.jobs.try_remove(job) else { return };
    let Read { tag, way, lens, is_single, pieces, mends, .. } = read;
    let is_compared = way == Way::Compared;
    if core.mends() && error.is_none() && !is_compared {
        mends.iter().for_each(|&(member, row)| core.upkeep.mends.add_read(member, row));
    }
    let rows = pieces.first().zip(pieces.last()).map(|(first, last)| first.row..=last.row);
    let bufs = Some(whole(pieces, lens, is_single));
    let completion = Completion { tag, result: error.map_or(Ok(()), Err), bufs };
    let Some(rows) = rows.filter(|_| is_compared) else { return core.done.push(completion) };
    // A scrub's comparison ends well only when nothing is left to be mended, and reports what could not be.
    core.upkeep.mends.answer_later(rows, completion);
    if core.mends() {
        mends.into_iter().for_each(|(member, row)| core.upkeep.mends.add_compared(member, row));
    }
}
