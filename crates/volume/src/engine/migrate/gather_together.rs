//! Chooses what leaves the fast tier to be compressed together.

use super::destage::{is_changing, take_block};
use super::due::destage_blocks;
use super::rooms::{After, Moving};
use super::together::{Waiting, waits};
use crate::engine::map::Leaf;
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use forebay_block::DiskId;

/// Leaves looked at in one step, so that hosts are served in between.
const LEAVES_PER_STEP: usize = 64;

/// Takes the leaves of a job, where one is due. There is one such job at a time, so that the next has what came
/// meanwhile.
pub(super) fn take_due(rooms: &mut Moving<'_>) -> Option<Vec<Waiting>> {
    let (blocks, most) = (destage_blocks(rooms) as u64, rooms.setup.limits.blocks_per_job as u64);
    let may_go = rooms.space.bands.room(false) > 0 && !rooms.space.pace.is_closed();
    let has_job = || rooms.migrate.jobs.iter().any(|(_, job)| job.together.is_some());
    if !may_go || !rooms.migrate.together.is_due(blocks, rooms.now_ns) || has_job() {
        return None;
    }
    Some(rooms.migrate.together.take(most))
}

/// Gathers the blocks that wait in the leaves of a job.
pub(super) fn gather_together(rooms: &mut Moving<'_>, id: u32) -> After {
    for _ in 0..LEAVES_PER_STEP {
        let Some((disk, leaf)) = next_leaf(rooms, id) else { return After::Gathered };
        match rooms.require_leaf(id, disk, leaf) {
            Leaf::Wait => return After::Wait,
            Leaf::Hole => {}
            Leaf::Ready(frame) => take_candidates(rooms, id, frame, (disk, leaf)),
        }
        pass_over_leaf(rooms, id);
    }
    After::Wait
}

/// The next leaf of a job. Where the job has as much as it may take, the blocks of its other leaves go on waiting.
fn next_leaf(rooms: &mut Moving<'_>, id: u32) -> Option<(DiskId, u64)> {
    let (leaves_max, most) = (rooms.checkpoint.leaves_per_job(), rooms.setup.limits.blocks_per_job);
    let job = rooms.migrate.jobs.get_mut(id as usize)?;
    let is_full = job.leaves >= leaves_max || job.candidates.len() >= most;
    let leaves = job.together.as_mut()?;
    if is_full {
        leaves.drain(..).for_each(|(leaf, blocks)| rooms.migrate.together.add(leaf, blocks));
    }
    leaves.last().map(|(leaf, _)| *leaf)
}

/// A leaf was looked at, or cannot be read: what waits there still leaves with what is staged.
pub(super) fn pass_over_leaf(rooms: &mut Moving<'_>, id: u32) {
    if let Some(leaves) = rooms.migrate.job_mut(id).and_then(|job| job.together.as_mut()) {
        leaves.pop();
    }
}

fn take_candidates(rooms: &mut Moving<'_>, id: u32, frame: u32, (disk, leaf): (DiskId, u64)) {
    let most = rooms.setup.limits.blocks_per_job;
    for at in 0..LEAF_ENTRIES {
        let (entry, checksum) = page::leaf_entry(&rooms.map.frames.get(frame).page, at);
        let Entry::Data { span, class } = entry else { continue };
        let is_held = rooms.migrate.held.contains(&span.location);
        let is_here = rooms.setup.extents.is_fast(span.location) && waits(rooms.prism, class);
        // A block that is being written anew comes again.
        if is_here && !is_held && !is_changing(rooms, frame, at) {
            if rooms.migrate.job(id).is_none_or(|job| job.candidates.len() >= most) {
                return rooms.migrate.together.add((disk, leaf), 1);
            }
            take_block(rooms, id, (disk, leaf * LEAF_ENTRIES as u64 + at as u64), (span, checksum, class));
        }
    }
}
