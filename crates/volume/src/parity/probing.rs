//! Whether members answer at all: a disconnected device reports what a bad block does, but for everything.

use super::core::Core;
use super::jobs::{COPY_TAG, Job, Probe, Proof, Purpose};
use crate::layout::array_label::OFFSETS_BYTES;
use crate::layout::array_shape::BLOCK;
use crate::mirror::numbers_in;
use forebay_block::{Buf, Op, Vectored};

/// How long an unreadable place is left alone where its member does not answer.
pub(super) const WAIT_NS: u64 = 1_000_000_000;
/// How often in one pass of a rebuild it is left alone as long where its member does answer.
const WAITS_MAX: u32 = 60;
/// After how long without an answer a member is named.
const HUNG_NS: u64 = 10_000_000_000;

/// Reads other places of members that could not read something, one bit for each, for the rebuild of another member. Several places, as one
/// of these may be bad as well.
pub(super) fn begin(core: &mut Core, rebuilt: usize, asked: u32) {
    core.upkeep.is_busy = true;
    asks(core);
    let places = [OFFSETS_BYTES[0], OFFSETS_BYTES[1], core.shape.member_bytes - BLOCK];
    let left = asked.count_ones() as usize * places.len() + 1;
    let job = core.jobs.insert(Job::Probe(Probe { rebuilt, left, asked, alive: 0 }));
    for member in numbers_in(asked) {
        for (part, at) in places.into_iter().enumerate() {
            core.members.send(member, (job, part), (at, 0), Op::read(Vectored::One(Buf::new(BLOCK as usize))));
        }
    }
    // One part stands for this function, as there may be no member to ask.
    ended(core, job, None);
}

/// A member has read one of the places, or failed to. After the last of them the rebuild gets the result.
pub(super) fn ended(core: &mut Core, job: usize, alive: Option<usize>) {
    let Some(Job::Probe(probe)) = core.jobs.get_mut(job) else { return };
    probe.alive |= alive.map_or(0, |member| 1 << member);
    probe.left -= 1;
    if probe.left > 0 {
        return;
    }
    let Some(Job::Probe(Probe { rebuilt, asked, alive, .. })) = core.jobs.try_remove(job) else { return };
    core.upkeep.is_busy = false;
    let Some(rebuild) = core.upkeep.rebuild.as_mut().filter(|rebuild| rebuild.member == rebuilt) else { return };
    rebuild.answers.note(asked, alive);
    rebuild.waits_for = asked & !alive;
    // What fails for a moment may work in a second. Where very much cannot be read, not every place is waited for.
    let waits = alive != asked || rebuild.waits < WAITS_MAX;
    if waits {
        rebuild.waits += u32::from(alive == asked);
        core.upkeep.not_before_ns = core.view.now_ns() + WAIT_NS;
    }
}

/// Notes that a rebuild asks members for something now.
pub(super) fn asks(core: &mut Core) {
    let now_ns = core.view.now_ns();
    core.upkeep.rebuild.iter_mut().for_each(|rebuild| rebuild.asked_ns = now_ns);
}

/// Members that have not answered for a while what a rebuild has asked them for: one bit for each.
pub(super) fn hung(core: &Core) -> u32 {
    let asked_ns = core.upkeep.rebuild.as_ref().map_or(u64::MAX, |rebuild| rebuild.asked_ns);
    if core.view.now_ns() < asked_ns.saturating_add(HUNG_NS) {
        return 0;
    }
    core.members.asked_by(|job| match core.jobs.get(job) {
        Some(Job::Rows(rows) | Job::Proof(Proof { rows, .. })) => matches!(rows.purpose, Purpose::Rebuild { .. }),
        Some(Job::Same(read)) => read.tag == COPY_TAG,
        Some(Job::Probe(_)) => true,
        _ => false,
    })
}
