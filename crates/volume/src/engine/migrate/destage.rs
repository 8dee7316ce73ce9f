//! Chooses what leaves the fast tier: the blocks that are due first.

use super::ages::epoch_of;
use super::due::destage_blocks;
use super::rooms::{After, Moving};
use crate::engine::leaves::may_destage;
use crate::engine::lifetimes::Arrival;
use crate::engine::map::Leaf;
use crate::engine::requests::Piece;
use crate::layout::moved::Moved;
use crate::layout::page::{self, Entry, LEAF_ENTRIES, Span};
use crate::layout::stored::Stored;
use crate::layout::stream::{Lifetime, Stream};
use forebay_block::{ClassId, DiskId};

/// Most leaves looked at in one job, so that a job ends even where there is little to move.
pub(super) const LEAVES_PER_JOB: usize = 4096;
/// Most leaves looked at in one step, so that hosts are served in between.
const LEAVES_PER_STEP: usize = 64;
/// Epochs beyond the oldest of which a job takes blocks.
const EPOCHS_PER_JOB: u32 = 1;

pub(super) fn gather_destage(rooms: &mut Moving<'_>, id: u32) -> After {
    for _ in 0..LEAVES_PER_STEP {
        if rooms.migrate.surveys_left > 0 {
            match survey_leaf(rooms, id) {
                Leaf::Wait => return After::Wait,
                _ => continue,
            }
        }
        let (limit, leaves_max) = (destage_blocks(rooms), rooms.checkpoint.leaves_per_job());
        let first = rooms.migrate.ages.first();
        let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
        let is_full = job.candidates.len() >= limit || job.leaves_seen >= LEAVES_PER_JOB || job.leaves >= leaves_max;
        let Some((epoch, disk, leaf)) = first.filter(|_| !is_full) else {
            return After::Gathered;
        };
        if rooms.map.disk(disk).is_none_or(|entry| entry.leaf(leaf).0.stageable == 0) {
            // All that it had has left in other ways: it is not read in vain.
            rooms.migrate.ages.pop_first();
            continue;
        }
        if job.candidates.is_empty() {
            job.cutoff_epoch = Some(epoch.saturating_add(EPOCHS_PER_JOB));
        } else if job.cutoff_epoch.is_some_and(|cutoff| epoch > cutoff) {
            return After::Gathered;
        }
        job.leaves_seen += 1;
        match rooms.require_leaf(id, disk, leaf) {
            Leaf::Wait => return After::Wait,
            Leaf::Hole => {
                rooms.migrate.ages.pop_first();
            }
            Leaf::Ready(frame) => take_candidates(rooms, id, frame, limit),
        }
    }
    After::Wait
}

/// A leaf cannot be read: it goes to the end of the queue, or the survey goes on behind it. Another job that waited for
/// the same leaf may have done that already.
pub(super) fn pass_over_leaf(rooms: &mut Moving<'_>, disk: DiskId, leaf: u64) {
    if rooms.migrate.surveys_left > 0 && rooms.migrate.cursor == (disk.0, leaf) {
        rooms.migrate.cursor.1 += 1;
    } else if rooms.migrate.ages.first().is_some_and(|(_, d, l)| (d, l) == (disk, leaf)) {
        rooms.migrate.ages.pop_first();
        rooms.enqueue(disk, leaf);
    }
}

/// Whether a change of a block of the leaf in a frame is in progress.
pub(super) fn is_changing(rooms: &Moving<'_>, frame: u32, at: usize) -> bool {
    let covers = |piece: &Piece| {
        let first = usize::from(piece.first);
        piece.frame == Some(frame) && (first..first + usize::from(piece.blocks)).contains(&at)
    };
    rooms.map.frames.get(frame).pins > 0 && rooms.requests.pieces.iter().any(|(_, piece)| covers(piece))
}

/// Takes a block that lies on the fast tier and of which no change is in progress.
pub(super) fn take_block(
    rooms: &mut Moving<'_>,
    id: u32,
    (disk, block): (DiskId, u64),
    (source, checksum, class): (Span, u32, ClassId),
) {
    let Some(job) = rooms.migrate.jobs.get_mut(id as usize) else { return };
    // All changes of the block up to here are in the map, and later ones have higher sequences.
    let origin = rooms.journal.next_sequence().saturating_sub(1);
    let stored = Stored { grains: source.grains, checksum };
    let (replaced, valid_blocks) = (rooms.staying.replaced(disk, block), rooms.stats.capacity_blocks());
    let Lifetime { group, note } = rooms.space.lifetimes.arrives(Arrival { replaced, valid_blocks, blocks: 1 });
    let stream = Stream { is_collected: false, group, class };
    job.take(Moved { disk, block, source, origin, checksum, stored, class, note }, stream);
    rooms.migrate.held.insert(source.location);
}

/// Takes those blocks of the first leaf of the queue that are due. The leaf goes back under the epoch in which its next block is due.
fn take_candidates(rooms: &mut Moving<'_>, id: u32, frame: u32, limit: usize) {
    let Some((_, disk, leaf)) = rooms.migrate.ages.pop_first() else { return };
    let cutoff = rooms.migrate.job(id).and_then(|job| job.cutoff_epoch).unwrap_or(0);
    let now = epoch_of(rooms.stats, rooms.space);
    let (mut stageable, mut oldest_left) = (0, None::<u32>);
    for i in 0..LEAF_ENTRIES {
        let page = &rooms.map.frames.get(frame).page;
        let (entry, checksum) = page::leaf_entry(page, i);
        let Entry::Data { span: source, class } = entry else { continue };
        let location = source.location;
        if !rooms.setup.extents.is_fast(location) || !may_destage(rooms.prism, rooms.space, class) {
            continue;
        }
        stageable += 1;
        if rooms.migrate.held.contains(&location) {
            // Another job has it.
            continue;
        }
        let epoch = page::due_epoch(page, i);
        // Not this time: the block is about to be written anew, and its origin would not be clear.
        let epoch = if is_changing(rooms, frame, i) { epoch.max(cutoff.saturating_add(1)) } else { epoch };
        let Some(job) = rooms.migrate.job_mut(id) else { return };
        if epoch <= cutoff && job.candidates.len() < limit {
            take_block(rooms, id, (disk, leaf * LEAF_ENTRIES as u64 + i as u64), (source, checksum, class));
            rooms.migrate.early_blocks += u64::from(epoch > now.saturating_add(1));
        } else {
            oldest_left = Some(oldest_left.map_or(epoch, |oldest| oldest.min(epoch)));
        }
    }
    if let Some(entry) = rooms.map.disk_mut(disk) {
        entry.set_stageable(leaf, stageable);
    }
    if let Some(epoch) = oldest_left {
        if let Some(job) = rooms.migrate.job_mut(id).filter(|_| epoch > cutoff.saturating_add(1)) {
            job.leaves_put_off += 1;
        }
        rooms.migrate.ages.enqueue(epoch, disk, leaf, rooms.map);
    }
}

/// Looks at the next leaf in a survey after a change of policy: counts its blocks anew, and queues it where it has
/// blocks to destage now.
fn survey_leaf(rooms: &mut Moving<'_>, id: u32) -> Leaf {
    let (disk, leaf) = rooms.migrate.cursor;
    let found = rooms.map.disks.range(disk..).find_map(|(&number, entry)| {
        let from = if number == disk { leaf } else { 0 };
        entry.next_leaf(from).map(|leaf| (DiskId(number), leaf))
    });
    let Some((disk, leaf)) = found else {
        rooms.migrate.cursor = (0, 0);
        rooms.migrate.surveys_left -= 1;
        return Leaf::Hole;
    };
    rooms.migrate.cursor = (disk.0, leaf);
    let answer = rooms.require_leaf(id, disk, leaf);
    match answer {
        Leaf::Wait => return answer,
        Leaf::Hole => {}
        Leaf::Ready(frame) => {
            let page = &rooms.map.frames.get(frame).page;
            let is_staged = |i: &usize| match page::leaf_entry(page, *i).0 {
                Entry::Data { span, class } => {
                    rooms.setup.extents.is_fast(span.location) && may_destage(rooms.prism, rooms.space, class)
                }
                _ => false,
            };
            let epochs = (0..LEAF_ENTRIES).filter(is_staged).map(|i| page::due_epoch(page, i));
            let oldest = epochs.min().unwrap_or(0);
            let (prism, space) = (rooms.prism, &*rooms.space);
            rooms.map.count_anew(disk, leaf, frame, |class| may_destage(prism, space, class));
            rooms.migrate.ages.enqueue(oldest, disk, leaf, rooms.map);
        }
    }
    rooms.migrate.cursor.1 = leaf + 1;
    answer
}
