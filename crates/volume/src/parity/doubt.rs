//! What follows a flush that failed, and for which no member could be left behind. What was written since the last good flush may be lost,
//! in rows and in the log, erased entries included, and the next good flush says nothing of it. So the log is read anew, as at a start:
//! nothing new begins, work in progress ends, and rows that the log names are made whole before anything is written again.

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

/// How often unreadable places of a log are read again, once a second: such a place may hold all that is left of a block.
const LOOKS: u8 = 3;
/// How often the log of a member that is mostly unreadable is read from its start again, once a second, before the others do without the
/// member.
const RESTARTS_MAX: u8 = 3;

/// A flush has failed.
pub(super) fn begin(core: &mut Core, error: &IoError) {
    if !core.is_volatile || core.roster.broken().is_some() {
        return;
    }
    core.open.doubt();
    // A read in flight is waited for: its answer must not be taken for that of another read.
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

/// The failure of writes that wait for a place in the log: no place becomes free now.
pub(super) fn failure(core: &Core) -> Option<IoError> {
    core.upkeep.doubt.as_ref().map(|doubt| doubt.error.clone())
}

/// Reads the next part of the log, as soon as no other work is in progress.
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

/// A part of a member's log was read.
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
        // The member was left behind meanwhile.
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
        // An unreadable place may hold all that is left of a row. Where enough others are there the member is left behind, and nothing of
        // its log counts.
        doubt.found.unsure.extend(unread);
        core.do_without(1 << member, core.unreadable(0));
    }
}

/// Not single places but the device cannot be read now. Its log is read again from the start, after those of the others; where the device
/// stays away while enough other logs were read, the array goes on without it.
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
    // These places are shown as erased, perhaps by a cache that has lost the erasure with this failed flush or an earlier one.
    let mut unsure = std::mem::take(&mut found.unsure);
    unsure.extend(core.open.unproven());
    // Discards wait until the log has nothing left of their rows. These rows are to be made whole now, so the discards give up their locks.
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
