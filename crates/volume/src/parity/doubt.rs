//! After a flush that failed, and for which no member could be left behind: what was written since the last good one may be lost, of rows, of the log, and
//! of what was erased there, and the next good flush says nothing of it. So what the log has is read anew, as at a start: nothing more is begun, what goes
//! on comes to its end, and rows of which the log has something are made whole before anything is written again.

use super::chores::Doubt;
use super::core::Core;
use super::found::FoundRows;
use super::jobs::Job;
use super::open_rows::OpenRows;
use crate::layout::array_shape::SLOT_BYTES;
use crate::mirror::{gone, numbers_in};
use forebay_block::{Buf, IoError, IoErrorKind, Op, Vectored};

/// How often it is tried to read a place, once a second: it may have all that there is of a block.
const TRIES_MAX: u8 = 3;
/// Places of the log that are read at once.
const SLOTS_AT_ONCE: u32 = 128;

/// Places of one member that cannot be read, at most: more are no matter of places.
const UNREAD_MAX: usize = 8;

/// A flush has failed.
pub(super) fn begin(core: &mut Core, error: &IoError) {
    if !core.is_volatile || core.roster.broken().is_some() {
        return;
    }
    core.open.doubt();
    // One that is being read is waited for: its answer must not be taken for another's.
    let is_reading = core.upkeep.doubt.as_ref().is_some_and(|doubt| doubt.is_reading);
    let found = FoundRows::default();
    let error = error.clone();
    let unread = Vec::new();
    let doubt =
        Doubt { error, found, member: 0, slot: 0, singly_until: 0, tries: 0, unread, is_reading, is_vain: is_reading };
    core.upkeep.doubt = Some(doubt);
    core.upkeep.is_served = true;
}

/// What is to end with a failure, as it waits for a place of the log that nobody will give.
pub(super) fn failure(core: &Core) -> Option<IoError> {
    core.upkeep.doubt.as_ref().map(|doubt| doubt.error.clone())
}

/// Goes on, as soon as nothing else does.
pub(super) fn step(core: &mut Core) {
    let goes_on = core.ops.len() > core.discarding.len() || core.open.is_erasing();
    let Some(doubt) = core.upkeep.doubt.as_mut().filter(|doubt| !doubt.is_reading && !goes_on) else { return };
    if core.upkeep.is_busy || core.upkeep.is_filling {
        return;
    }
    let slots = core.shape.log_slots;
    let Some(member) = numbers_in(core.members.written()).find(|&number| number >= doubt.member) else {
        return end(core);
    };
    if member != doubt.member {
        doubt.begin_member(member);
    }
    doubt.is_reading = true;
    let most = if doubt.slot < doubt.singly_until { 1 } else { SLOTS_AT_ONCE };
    let count = most.min(slots - doubt.slot);
    let (offset_bytes, len_bytes) = (core.shape.slot_offset_bytes(doubt.slot), u64::from(count) * SLOT_BYTES);
    let job = core.jobs.insert(Job::Log);
    let bufs = Vectored::One(Buf::new(len_bytes as usize));
    core.members.send(member, (job, 0), (offset_bytes, 0), Op::read(bufs));
}

/// A part of the log was read of a member.
pub(super) fn read(core: &mut Core, member: usize, result: Result<(), IoError>, bufs: Option<Vectored<Buf>>) {
    let Some(doubt) = &mut core.upkeep.doubt else { return };
    doubt.is_reading = false;
    if std::mem::take(&mut doubt.is_vain) {
        return;
    }
    match (result, bufs) {
        (Ok(()), Some(Vectored::One(log))) => {
            doubt.found.take((doubt.slot, &log), core.roster.label(), member);
            doubt.go_on((log.len() as u64 / SLOT_BYTES) as u32);
        }
        (result, _) if core.members.written() & 1 << member != 0 => {
            let error = result.err().unwrap_or_else(|| gone("read"));
            if doubt.singly_until <= doubt.slot {
                doubt.singly_until = doubt.slot + SLOTS_AT_ONCE;
            } else if error.kind != IoErrorKind::Medium || doubt.unread.len() >= UNREAD_MAX {
                // It is not some places: the device cannot be read now. Once more from its first place, later.
                doubt.begin_member(member);
                return core.own_work_ended(&Err(error));
            } else if doubt.tries < TRIES_MAX {
                doubt.tries += 1;
                core.upkeep.pause.begin(core.view.now_ns());
                return;
            } else {
                doubt.unread.push(doubt.slot);
                doubt.go_on(1);
            }
        }
        // It was left behind meanwhile.
        _ => return,
    }
    let Some(doubt) = core.upkeep.doubt.as_mut().filter(|doubt| doubt.slot >= core.shape.log_slots) else { return };
    let unread = std::mem::take(&mut doubt.unread);
    doubt.begin_member(member + 1);
    if unread.is_empty() {
        return;
    }
    // What cannot be read may be all that there is of a row: without the member, where others are enough, nothing of its log counts.
    doubt.found.unread.extend(unread);
    let others = core.members.in_sync() & !(1 << member);
    if others.count_ones() as usize >= core.shape.data {
        let error = core.unreadable(0);
        // Enough others are there.
        let _ = core.leave(1 << member, error);
    }
}

/// All of the log was read.
fn end(core: &mut Core) {
    let Some(Doubt { found, .. }) = core.upkeep.doubt.take() else { return };
    // Discards wait for what the log has of their rows, which are to be made whole now.
    for (op, _) in &core.discarding {
        core.locks.remove(core.ops[*op].lock);
    }
    core.open = OpenRows::new(&core.shape, found.slots(), core.is_volatile);
    core.open.await_flush(core.next_flush());
    core.sequence = core.sequence.max(found.newest);
    core.found = found;
    core.settled.clear();
    core.upkeep.is_settling = true;
}
