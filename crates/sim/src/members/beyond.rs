//! What goes beyond what the other members of an array hold: it must be known, and everything else be as it was.

use super::{Members, Several};
use crate::coverage::Coverage;
use crate::device::SimDevice;
use crate::fault::{Fault, FaultKind};
use crate::world::Memory;
use forebay_block::Random;

/// Faults of one member more than others hold everything of: requests may fail then. Nothing more goes wrong after it before all members
/// hold everything again.
pub(super) fn fail_one_more(members: &mut Members, faults: &[Fault], seed: u64) -> Vec<Fault> {
    if !members.is_array() || members.culprits.iter().any(|culprit| !culprit.is_clean) {
        return Vec::new();
    }
    let member = members.next_after(seed as usize % members.places.len());
    let device = members.places[member];
    members.must_recover = true;
    // What cannot be read of one leaves gaps in the rebuild of another, of which nobody knows.
    let is_known = |fault: &&Fault| !matches!(fault.kind, FaultKind::ReadError | FaultKind::DeadSector);
    faults.iter().filter(is_known).map(|fault| Fault { device, ..*fault }).collect()
}

/// Rows of which one block more than there is parity for cannot be read any more: what hosts have in them may be lost, and nothing else.
/// True where there was one.
pub(super) fn kill_rows(
    members: &mut Members,
    (count, seed): (usize, u64),
    devices: &[SimDevice],
    memory: &mut Memory,
    coverage: &mut Coverage,
) -> bool {
    let Several::Array { parity, .. } = &members.several else { return false };
    let (data, parity) = (parity.redundancy.data, parity.redundancy.parity);
    if !members.is_plain {
        return false;
    }
    let held = memory.oracle.held_tags();
    let mut random = Random::new(seed);
    let mut has_killed = false;
    for _ in 0..count {
        let first = random.index(members.places.len());
        let mut blocks = devices[members.places[first]].blocks_with(&|tag| held.contains(&tag));
        if blocks.is_empty() {
            continue;
        }
        let block = blocks.swap_remove(random.index(blocks.len()));
        // A row lies at the same place of all members. Of one that is not full, or holds something else, it is not known what else is in it.
        let tags: Option<Vec<Vec<u32>>> = members.places.iter().map(|&at| devices[at].tags_at(block)).collect();
        let Some(tags) = tags.filter(|tags| tags.iter().filter(|tags| tags.len() == 8).count() >= data) else {
            continue;
        };
        for turn in 0..=parity {
            devices[members.places[(first + turn) % members.places.len()]].kill(block);
        }
        tags.into_iter().flatten().for_each(|tag| memory.oracle.damaged(tag, true));
        coverage.count("rows of an array damaged beyond parity");
        has_killed = true;
    }
    has_killed
}
