//! Whether members still are what their labels say, looked at before a row that contradicts itself gets new parity. A power cut may have torn
//! such a row, or a block has rotten; but where somebody has just written over a member, its parity may be all that is left of a block that
//! lives. The labels are read after the row: whatever took the place of the row's blocks by then had taken that of the labels as well.

use super::core::Core;
use super::jobs::{Job, Next, Part, Proof, Rows};
use super::members::Ended;
use crate::layout::array_label::{ArrayLabel, LABEL_BYTES, OFFSETS_BYTES};
use crate::mirror::numbers_in;
use forebay_block::{Buf, Op, Vectored};

/// Reads the labels of all members that a row was read from, of which a part is to be written.
pub(super) fn begin(core: &mut Core, part: Part, rows: Rows) {
    let asked = rows.asked;
    let left = asked.count_ones() as usize * OFFSETS_BYTES.len() + 1;
    let job = core.jobs.insert(Job::Proof(Proof { part, rows, left, proven: 0 }));
    for member in numbers_in(asked) {
        for (place, at) in OFFSETS_BYTES.into_iter().enumerate() {
            core.members.send(member, (job, place), (at, 0), Op::read(Vectored::One(Buf::new(LABEL_BYTES))));
        }
    }
    // One part stands for this function, as there may be no member to ask.
    part_ended(core, job);
}

/// A member has read one of the two places of its label. One that cannot be read says nothing against its member.
pub(super) fn ended(core: &mut Core, Ended { job, member, result, bufs, .. }: Ended) {
    let pool = core.pool;
    let is_own = |buf: &Buf| {
        ArrayLabel::decode(buf).is_some_and(|label| label.pool == pool && usize::from(label.member) == member)
    };
    let is_proven = match (&result, &bufs) {
        (Ok(()), Some(Vectored::One(buf))) => is_own(buf),
        _ => true,
    };
    if let Some(Job::Proof(proof)) = core.jobs.get_mut(job) {
        proof.proven |= u32::from(is_proven) << member;
    }
    part_ended(core, job);
}

fn part_ended(core: &mut Core, job: usize) {
    let Some(Job::Proof(proof)) = core.jobs.get_mut(job) else { return };
    proof.left -= 1;
    if proof.left > 0 {
        return;
    }
    let Some(Job::Proof(proof)) = core.jobs.try_remove(job) else { return };
    core.next.push_back(Next::Proven(proof));
}
