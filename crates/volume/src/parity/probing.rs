//! Whether members answer at all: what a cable that is out says is what a bad block says, but of everything.

use super::core::Core;
use super::jobs::{Job, Probe};
use crate::layout::array_label::OFFSETS_BYTES;
use crate::layout::array_shape::BLOCK;
use crate::mirror::numbers_in;
use forebay_block::{Buf, Op, Vectored};

/// How long what could not be read is left alone where its member does not answer.
pub(super) const WAIT_NS: u64 = 1_000_000_000;

/// Reads of members, one bit each, what is not where they failed, for the rebuild of another. Several places, as one of these may be bad as well.
pub(super) fn begin(core: &mut Core, rebuilt: usize, asked: u32) {
    core.upkeep.is_busy = true;
    let places = [OFFSETS_BYTES[0], OFFSETS_BYTES[1], core.shape.member_bytes - BLOCK];
    let left = asked.count_ones() as usize * places.len() + 1;
    let job = core.jobs.insert(Job::Probe(Probe { rebuilt, left, asked, alive: 0 }));
    for member in numbers_in(asked) {
        for (part, at) in places.into_iter().enumerate() {
            core.members.send(member, (job, part), (at, 0), Op::read(Vectored::One(Buf::new(BLOCK as usize))));
        }
    }
    // One for this function: there may be none to ask.
    ended(core, job, None);
}

/// A member has read one of the places, or not. With the last of these the rebuild knows of it.
pub(super) fn ended(core: &mut Core, job: usize, alive: Option<usize>) {
    let Some(Job::Probe(probe)) = core.jobs.get_mut(job) else { return };
    probe.alive |= alive.map_or(0, |member| 1 << member);
    probe.left -= 1;
    if probe.left > 0 {
        return;
    }
    let Some(Job::Probe(Probe { rebuilt, asked, alive, .. })) = core.jobs.try_remove(job) else { return };
    core.upkeep.is_busy = false;
    if alive != asked {
        core.upkeep.not_before_ns = core.view.now_ns() + WAIT_NS;
    }
    if let Some(rebuild) = core.upkeep.rebuild.as_mut().filter(|rebuild| rebuild.member == rebuilt) {
        let are_there = alive == asked;
        rebuild.probed = if are_there { rebuild.probed | alive } else { 0 };
        rebuild.probes = if are_there { rebuild.probes.saturating_add(1) } else { 0 };
        rebuild.waits_for = asked & !alive;
    }
}
