//! After a flush that failed, and for which no member could be left behind: what was written since the last good one may be lost, of rows, of the log, and
//! of what was erased there, and the next good flush says nothing of it. So what the log has is read anew, as at a start: nothing more is begun, what goes
//! on comes to its end, and rows of which the log has something are made whole before anything is written again.

use super::core::Core;
use super::found::FoundRows;
use super::jobs::Job;
use super::open_rows::OpenRows;
use crate::layout::array_shape::SLOT_BYTES;
use crate::mirror::numbers_in;
use forebay_block::{Buf, IoError, Op, Vectored};

/// Places of the log that are read at once.
const SLOTS_AT_ONCE: u32 = 128;

/// What is known of the log again.
#[derive(Debug)]
pub(super) struct Doubt {
    error: IoError,
    found: FoundRows,
    /// The member, and the place of the log, to be read next.
    member: usize,
    slot: u32,
    is_reading: bool,
}

/// A flush has failed.
pub(super) fn begin(core: &mut Core, error: &IoError) {
    if !core.is_volatile || core.roster.broken().is_some() {
        return;
    }
    core.open.doubt();
    // One that is being read is waited for: its answer must not be taken for another's.
    let is_reading = core.upkeep.doubt.as_ref().is_some_and(|doubt| doubt.is_reading);
    let found = FoundRows::default();
    core.upkeep.doubt = Some(Doubt { error: error.clone(), found, member: 0, slot: 0, is_reading });
    if is_reading {
        core.upkeep.reads_in_vain += 1;
    }
    // Discards wait for what the log has of their rows, which are to be made whole now.
    for (op, _) in &core.discarding {
        core.locks.remove(core.ops[*op].lock);
    }
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
        (doubt.member, doubt.slot) = (member, 0);
    }
    doubt.is_reading = true;
    let count = SLOTS_AT_ONCE.min(slots - doubt.slot);
    let (offset_bytes, len_bytes) = (core.shape.slot_offset_bytes(doubt.slot), u64::from(count) * SLOT_BYTES);
    let job = core.jobs.insert(Job::Log);
    let bufs = Vectored::One(Buf::new(len_bytes as usize));
    core.members.send(member, (job, 0), (offset_bytes, 0), Op::read(bufs));
}

/// A part of the log was read of a member.
pub(super) fn read(core: &mut Core, member: usize, result: Result<(), IoError>, bufs: Option<Vectored<Buf>>) {
    let Some(doubt) = &mut core.upkeep.doubt else { return };
    doubt.is_reading = false;
    if std::mem::take(&mut core.upkeep.reads_in_vain) > 0 {
        // It was begun before another flush failed.
        return;
    }
    match (result, bufs) {
        (Ok(()), Some(Vectored::One(log))) => {
            doubt.found.take((doubt.slot, &log), core.roster.label(), member);
            doubt.slot += (log.len() as u64 / SLOT_BYTES) as u32;
            if doubt.slot >= core.shape.log_slots {
                (doubt.member, doubt.slot) = (member + 1, 0);
            }
        }
        (result, _) if core.members.written() & 1 << member != 0 => {
            let error = result.err().unwrap_or_else(|| core.unreadable(0));
            core.roster.not_settled(&error);
        }
        // It was left behind meanwhile.
        _ => {}
    }
}

/// All of the log was read.
fn end(core: &mut Core) {
    let Some(Doubt { found, .. }) = core.upkeep.doubt.take() else { return };
    core.open = OpenRows::new(&core.shape, found.slots(), core.is_volatile);
    core.sequence = core.sequence.max(found.newest);
    core.found = found;
    core.settled.clear();
    core.upkeep.is_settling = true;
}
