//! After a flush that failed, and for which no member could be left behind: what was written since the last good one may be lost, of rows, of the log, and
//! of what was erased there, and the next good flush says nothing of it. So what the log has is read anew, as at a start: nothing more is begun, what goes
//! on comes to its end, and rows of which the log has something are made whole before anything is written again.

use super::chores::Doubt;
use super::core::Core;
use super::found::FoundRows;
use super::jobs::Job;
use super::look::UNREAD_MAX;
use super::open_rows::OpenRows;
use crate::layout::array_shape::SLOT_BYTES;
use crate::mirror::{gone, numbers_in};
use forebay_block::{Buf, IoError, IoErrorKind, Op, Vectored};
use std::collections::VecDeque;

/// How often what cannot be read of a log is read again, once a second: it may have all that there is of a block.
const LOOKS: u8 = 3;
/// How often a member is begun with anew of which most cannot be read, once a second, before others do without it.
const RESTARTS_MAX: u8 = 3;

/// A flush has failed.
pub(super) fn begin(core: &mut Core, error: &IoError) {
    if !core.is_volatile || core.roster.broken().is_some() {
        return;
    }
    core.open.doubt();
    // One that is being read is waited for: its answer must not be taken for another's.
    let is_reading = core.upkeep.doubt.as_ref().is_some_and(|doubt| doubt.is_reading);
    let mut doubt = Doubt {
        error: error.clone(),
        found: FoundRows::default(),
        members: numbers_in(core.members.written()).collect(),
        done: 0,
        to_read: VecDeque::new(),
        unread: Vec::new(),
        looks: 0,
        restarts: 0,
        is_reading,
        is_vain: is_reading,
    };
    doubt.begin_member(core.shape.log_slots);
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
    let (slots, written) = (core.shape.log_slots, core.members.written());
    while let Some(&member) = doubt.members.front()
        && written & 1 << member == 0
    {
        doubt.members.pop_front();
        doubt.begin_member(slots);
    }
    let Some(&member) = doubt.members.front() else { return end(core) };
    let Some(&(slot, count)) = doubt.to_read.front() else { return };
    doubt.is_reading = true;
    let (offset_bytes, len_bytes) = (core.shape.slot_offset_bytes(slot), u64::from(count) * SLOT_BYTES);
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
    let Some(&(slot, _)) = doubt.to_read.front() else { return };
    match (result, bufs) {
        (Ok(()), Some(Vectored::One(log))) => {
            doubt.found.take((slot, &log), core.roster.label(), member);
            doubt.to_read.pop_front();
        }
        (result, _) if core.members.written() & 1 << member != 0 => {
            let error = result.err().unwrap_or_else(|| gone("read"));
            if doubt.one_by_one() {
                return;
            }
            if error.kind != IoErrorKind::Medium || doubt.unread.len() >= UNREAD_MAX {
                return away(core, member, error);
            }
            doubt.unread.push(slot);
            doubt.to_read.pop_front();
        }
        // It was left behind meanwhile.
        _ => return,
    }
    let Some(doubt) = core.upkeep.doubt.as_mut().filter(|doubt| doubt.to_read.is_empty()) else { return };
    if !doubt.unread.is_empty() && doubt.looks < LOOKS {
        doubt.looks += 1;
        doubt.to_read = doubt.unread.drain(..).map(|place| (place, 1)).collect();
        core.upkeep.pause.begin(core.view.now_ns());
        return;
    }
    let unread = std::mem::take(&mut doubt.unread);
    doubt.members.pop_front();
    doubt.begin_member(core.shape.log_slots);
    doubt.done |= 1 << member;
    if !unread.is_empty() {
        // What cannot be read may be all that there is of a row: without the member, where others are enough, nothing of its log counts.
        doubt.found.unsure.extend(unread);
        core.do_without(1 << member, core.unreadable(0));
    }
}

/// It is not some places: the device cannot be read now. Once more from its first place, after those of the others; and where it stays away while enough others
/// are read, without it.
fn away(core: &mut Core, member: usize, error: IoError) {
    let (slots, data) = (core.shape.log_slots, core.shape.data);
    let Some(doubt) = &mut core.upkeep.doubt else { return };
    doubt.begin_member(slots);
    doubt.members.rotate_left(1);
    doubt.restarts = doubt.restarts.saturating_add(1);
    let may_leave = doubt.restarts > RESTARTS_MAX && doubt.done.count_ones() as usize >= data;
    if !may_leave || !core.do_without(1 << member, error.clone()) {
        core.own_work_ended(&Err(error));
    }
}

/// All of the log was read.
fn end(core: &mut Core) {
    let Some(Doubt { mut found, .. }) = core.upkeep.doubt.take() else { return };
    // They are shown as erased, perhaps by a cache that has lost that, with this failed flush or one before.
    let mut unsure = std::mem::take(&mut found.unsure);
    unsure.extend(core.open.unproven());
    // Discards wait for what the log has of their rows, which are to be made whole now.
    for (op, _) in &core.discarding {
        core.locks.remove(core.ops[*op].lock);
    }
    core.open = OpenRows::new(&core.shape, found.slots(), unsure, core.is_volatile);
    core.open.await_flush(core.next_flush());
    core.sequence = core.sequence.max(found.newest);
    core.found = found;
    core.settled.clear();
    core.upkeep.is_settling = true;
}
