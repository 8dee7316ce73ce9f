//! Whether members still are what their labels say, looked at before a row that contradicts itself gets new parity. A power cut may have torn
//! such a row, or a block has rotten; but where somebody has just written over a member, its parity may be all that is left of a block that
//! lives. The labels are read after the row: whatever overwrites a device from its begin on had reached them by then.

use super::core::Core;
use super::jobs::{Job, Next, Proof, Rows};
use super::members::Ended;
use crate::layout::array_label::{ArrayLabel, LABEL_BYTES, MAGIC, OFFSETS_BYTES};
use crate::mirror::numbers_in;
use forebay_block::{Buf, Op, Vectored};

/// Reads the labels of all members that rows were read from.
pub(super) fn begin(core: &mut Core, rows: Rows) {
    let asked = rows.asked;
    read(core, Proof { rows, left: 0, doubted: asked, is_second: false });
}

/// Reads the labels of all members that are doubted: each place that is known to have one, as the next label may have gone over what is left
/// of an overwritten device. One that was left behind meanwhile would not answer.
fn read(core: &mut Core, proof: Proof) {
    let places = |number: usize| core.roster.places(number).held().map(move |place| (number, place));
    let places: Vec<(usize, usize)> = numbers_in(proof.doubted & core.members.in_sync()).flat_map(places).collect();
    let job = core.jobs.insert(Job::Proof(Proof { left: places.len() + 1, doubted: 0, ..proof }));
    for (member, place) in places {
        let op = Op::read(Vectored::One(Buf::new(LABEL_BYTES)));
        core.members.send(member, (job, place), (OFFSETS_BYTES[place], 0), op);
    }
    // One part stands for this function, as there may be no member to ask.
    part_ended(core, job);
}

/// A member has read a label. What cannot be read says nothing against it, nor does a label that is damaged.
pub(super) fn ended(core: &mut Core, Ended { job, member, result, bufs, .. }: Ended) {
    if let (Ok(()), Some(Vectored::One(bytes)), Some(Job::Proof(proof))) = (result, bufs, core.jobs.get_mut(job)) {
        let (pool, id) = (core.pool, core.roster.id(member));
        let is_other = ArrayLabel::decode(&bytes).map_or(!bytes.starts_with(&MAGIC), |label| {
            label.pool != pool || usize::from(label.member) != member || label.ids.get(member) != Some(id)
        });
        proof.doubted |= u32::from(is_other) << member;
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
    if proof.doubted != 0 && !proof.is_second {
        // One bad transfer must not cost a member.
        return read(core, Proof { is_second: true, ..proof });
    }
    let Proof { mut rows, doubted, .. } = proof;
    rows.is_proven = core.leave_overwritten(doubted & core.members.in_sync(), "its labels were written over");
    core.next.push_back(if rows.is_proven { Next::Rows(rows) } else { Next::Unproven(rows) });
}
