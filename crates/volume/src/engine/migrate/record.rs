//! Records moves in the journal, and then changes the map.

use super::job::{Candidate, JobKind, Phase, waiter};
use super::rooms::{After, Moving};
use crate::engine::batches;
use crate::engine::map::Leaf;
use crate::layout::moved::MOVED_MAX;
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use crate::layout::record::{Record, move_bytes};
use crate::map::change::Change;
use forebay_block::DiskId;

/// Most blocks of one move record.
const RECORD_BLOCKS: usize = MOVED_MAX;

/// Appends the move records, as far as the journal accepts them.
pub(super) fn record_moves(rooms: &mut Moving<'_>, id: u32) -> After {
    loop {
        let Some(job) = rooms.migrate.job(id) else { return After::Wait };
        let start = job.next;
        let Some(first) = job.candidates.get(start) else {
            break;
        };
        let (destination, stream) = (first.destination, first.stream);
        let (mut end, mut behind) = (start + 1, destination + u64::from(first.moved.stored.grains));
        while end < job.candidates.len()
            && end - start < RECORD_BLOCKS
            && !first.damaged
            && !job.candidates[end].damaged
            && job.candidates[end].stream == stream
            && job.candidates[end].destination == behind
            && rooms.setup.extents.band(job.candidates[end].destination).map(|(band, _)| band)
                == rooms.setup.extents.band(destination).map(|(band, _)| band)
        {
            behind += u64::from(job.candidates[end].moved.stored.grains);
            end += 1;
        }
        let bytes = move_bytes(end - start);
        if !rooms.journal.accepts(bytes, true) {
            rooms.flushes.want();
            return After::Wait;
        }
        // A job that has begun to record must be able to end: its records keep the journal from being freed.
        if job.journal_at.is_none() {
            // The job was gathered before disks grew, or nothing is recorded any more.
            if job.leaves > rooms.checkpoint.leaves_per_job() || rooms.is_read_only {
                return After::End { pause: true };
            }
            let replayed = rooms.migrate.leaves_replayed();
            if !rooms.checkpoint.try_name(job.leaves, rooms.requests.executing, replayed) {
                return After::Wait;
            }
        }
        let record = if first.damaged {
            Record::Damage { blocks: vec![first.moved] }
        } else {
            let moved = job.candidates[start..end].iter().map(|candidate| candidate.moved).collect();
            let generation = rooms.space.record_generation(destination);
            Record::Move { stream, location: destination, generation, moved }
        };
        if !rooms.journal.fits(bytes) {
            batches::seal(false, rooms.journal, &mut rooms.stats.counters, rooms.outbox);
        }
        let at = rooms.journal.head();
        let (batch, sequence) = rooms.journal.append(|out| record.put(out));
        let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
        job.journal_at.get_or_insert(at);
        for candidate in &mut job.candidates[start..end] {
            candidate.sequence = sequence;
        }
        let first_in_batch = job.batches.last() != Some(&batch);
        if first_in_batch {
            job.batches.push(batch);
            job.outstanding += 1;
        }
        job.last_batch = batch;
        job.next = end;
        if first_in_batch {
            rooms.journal.join(waiter(id));
            // The data is durable already: the batch waits only for its own write.
            rooms.journal.part_complete(batch, rooms.flushes.submitted(), rooms.setup.volatile);
        }
    }
    moves_recorded(rooms, id)
}

/// A batch with records of a job was written, or could not be.
pub(super) fn batch_written(rooms: &mut Moving<'_>, id: u32, good: bool) -> After {
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    job.outstanding -= 1;
    job.failed |= !good;
    moves_recorded(rooms, id)
}

fn moves_recorded(rooms: &mut Moving<'_>, id: u32) -> After {
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    if job.phase != Phase::Record || job.next < job.candidates.len() || job.outstanding > 0 {
        return After::Wait;
    }
    if job.failed {
        // The journal is lost; the pool is read-only by now. The sources stay where they are.
        return After::End { pause: true };
    }
    job.phase = Phase::Apply;
    job.next = 0;
    // In the order of leaves, so that each is read once.
    job.candidates.sort_by_key(|c| (c.moved.disk, c.moved.block));
    apply_moves(rooms, id)
}

/// Changes the map, leaf by leaf, where it still names the source.
pub(super) fn apply_moves(rooms: &mut Moving<'_>, id: u32) -> After {
    loop {
        let Some(job) = rooms.migrate.job(id).filter(|job| job.phase == Phase::Apply) else { return After::Wait };
        let Some(candidate) = job.candidates.get(job.next) else {
            break;
        };
        let (disk, leaf) = candidate.moved.leaf();
        if rooms.map.is_absent(disk, leaf) && rooms.checkpoint.is_full(rooms.requests.executing) {
            // The leaf would be read to find that it may not be changed yet, and by then its frame may be needed for another: in turn, while a checkpoint takes
            // its time.
            return After::Wait;
        }
        match rooms.require_leaf(id, disk, leaf) {
            Leaf::Wait => return After::Wait,
            Leaf::Hole => skip_leaf(rooms, id, disk, leaf),
            // A checkpoint is due or in progress; the next step tries again.
            Leaf::Ready(frame) if !rooms.may_dirty(frame) => return After::Wait,
            Leaf::Ready(frame) => apply_moves_to_leaf(rooms, id, frame, leaf),
        }
    }
    After::End { pause: false }
}

fn skip_leaf(rooms: &mut Moving<'_>, id: u32, disk: DiskId, leaf: u64) {
    let Some(job) = rooms.migrate.job_mut(id) else { return };
    while job.candidates.get(job.next).is_some_and(|c| c.moved.leaf() == (disk, leaf)) {
        job.next += 1;
    }
    job.come_to_leaf(rooms.checkpoint);
    // Recovery would make a leaf for what the journal names, so it counts as dirtied.
    rooms.checkpoint.count_dirtied();
}

fn apply_moves_to_leaf(rooms: &mut Moving<'_>, id: u32, frame: u32, leaf: u64) {
    let disk = rooms.map.frames.get(frame).disk;
    let is_collection = rooms.migrate.job(id).is_some_and(|job| job.kind != JobKind::Destage);
    let (mut change, mut is_changed) = (0, false);
    loop {
        let Some(job) = rooms.migrate.job_mut(id) else { return };
        let batch = job.last_batch;
        let Some(candidate) = job.candidates.get_mut(job.next).filter(|c| c.moved.leaf() == (disk, leaf)) else {
            break;
        };
        let Candidate { moved, damaged, .. } = *candidate;
        let destination = std::mem::take(&mut candidate.destination);
        job.next += 1;
        let what = if damaged { Change::of_damage(&moved) } else { Change::of_move(&moved, destination) };
        let at = (moved.block % LEAF_ENTRIES as u64) as usize;
        let now = page::leaf_entry(&rooms.map.frames.get(frame).page, at);
        if what.apply(now).is_some() && !is_changed {
            rooms.leaves().dirty(frame);
            is_changed = true;
        }
        let applied = rooms.leaves().change_entry(frame, at, (disk, moved.block), what, batch);
        change += applied.unwrap_or(0);
        if applied.is_some() && !damaged {
            rooms.staying.came_to_band(disk, moved.block, is_collection);
        }
        match now.0 {
            _ if destination == 0 => {}
            // The leaf was read wrongly, and may be right the next time: recovery would map the block to its destination.
            Entry::Damaged => rooms.migrate.job_mut(id).into_iter().for_each(|job| job.stranded.push(destination)),
            _ => rooms.space.settle(destination, 1, rooms.journal.last_recorded()),
        }
    }
    // A leaf of which nothing changes stays as it is: one that was read wrongly would be written with all of its blocks damaged. Recovery reads it all the same.
    if !is_changed {
        let now = rooms.map.frames.get(frame);
        if !now.dirty || now.frozen {
            rooms.checkpoint.count_dirtied();
        }
    }
    rooms.leaves().adjust_stageable(disk, leaf, change, None);
    if let Some(job) = rooms.migrate.job_mut(id) {
        job.come_to_leaf(rooms.checkpoint);
    }
}
