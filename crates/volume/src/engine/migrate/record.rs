//! Telling the journal what moved, and then the map.

use super::job::{Candidate, Phase, waiter};
use crate::engine::Engine;
use crate::engine::map::Leaf;
use crate::layout::page::LEAF_ENTRIES;
use crate::layout::record::{MOVED_MAX, Moved, Record, move_bytes};
use crate::map::change::Change;
use forebay_block::DiskId;

/// Blocks of one move record.
const RECORD_BLOCKS: usize = MOVED_MAX;

impl Engine {
    /// Appends the move records, as far as the journal takes them.
    pub(super) fn record_moves(&mut self, id: u32) {
        loop {
            let Some(job) = self.migrate.job(id) else { return };
            let start = job.next;
            let Some(first) = job.candidates.get(start) else {
                break;
            };
            let (destination, class) = (first.destination, first.class);
            let mut end = start + 1;
            while end < job.candidates.len()
                && end - start < RECORD_BLOCKS
                && !first.damaged
                && !job.candidates[end].damaged
                && job.candidates[end].class == class
                && job.candidates[end].destination == destination + 8 * (end - start) as u64
                && self.setup.extents.band(job.candidates[end].destination).map(|(band, _)| band)
                    == self.setup.extents.band(destination).map(|(band, _)| band)
            {
                end += 1;
            }
            let bytes = move_bytes(end - start);
            if !self.journal.accepts(bytes, true) {
                self.flushes.want();
                return;
            }
            let record = if first.damaged {
                Record::Damage { blocks: vec![first.moved] }
            } else {
                let moved = job.candidates[start..end].iter().map(|candidate| candidate.moved).collect();
                let (stream, generation) = (job.stream(class), self.space.record_generation(destination));
                Record::Move { stream, location: destination, generation, moved }
            };
            if !self.journal.fits(bytes) {
                self.seal_batch(false);
            }
            let at = self.journal.head();
            let (batch, sequence) = self.journal.append(|out| record.put(out));
            let Some(job) = self.migrate.job_mut(id) else { return };
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
            self.journal.join(waiter(id), 0, first_in_batch, false);
            if first_in_batch {
                // The data is durable already: the batch waits only for its own write.
                self.journal.part_complete(batch, self.flushes.submitted(), self.setup.volatile);
            }
        }
        self.moves_recorded(id);
    }

    /// A batch with records of a job was written, or could not be.
    pub(crate) fn move_batch_written(&mut self, id: u32, good: bool) {
        let Some(job) = self.migrate.job_mut(id) else { return };
        job.outstanding -= 1;
        job.failed |= !good;
        self.moves_recorded(id);
    }

    fn moves_recorded(&mut self, id: u32) {
        let Some(job) = self.migrate.job_mut(id) else { return };
        if job.phase != Phase::Record || job.next < job.candidates.len() || job.outstanding > 0 {
            return;
        }
        if job.failed {
            // The journal is lost; the pool is read-only by now. The sources stay where they are.
            return self.end_job(id, true);
        }
        job.phase = Phase::Apply;
        job.next = 0;
        // In the order of leaves, so that each is fetched once.
        job.candidates.sort_by_key(|c| (c.moved.disk, c.moved.block));
        self.apply_moves(id);
    }

    /// Changes the map, leaf by leaf, where it still names the source.
    pub(super) fn apply_moves(&mut self, id: u32) {
        loop {
            let Some(job) = self.migrate.job(id).filter(|job| job.phase == Phase::Apply) else { return };
            let Some(candidate) = job.candidates.get(job.next) else {
                break;
            };
            let (disk, leaf) = candidate.moved.leaf();
            match self.require_leaf(disk, leaf, waiter(id), false) {
                Leaf::Wait => {
                    if let Some(job) = self.migrate.job_mut(id) {
                        job.waiting = true;
                    }
                    return;
                }
                Leaf::Hole => self.skip_leaf(id, disk, leaf),
                // A checkpoint is due or in progress; the next step tries again.
                Leaf::Ready(frame) if !self.may_dirty(frame) => return,
                Leaf::Ready(frame) => self.apply_moves_to_leaf(id, frame, leaf),
            }
        }
        self.end_job(id, false);
    }

    fn skip_leaf(&mut self, id: u32, disk: DiskId, leaf: u64) {
        let Some(job) = self.migrate.job_mut(id) else { return };
        while job.candidates.get(job.next).is_some_and(|c| c.moved.leaf() == (disk, leaf)) {
            job.next += 1;
        }
        // Recovery makes a leaf for what the journal names.
        self.checkpoint.count_dirtied();
    }

    fn apply_moves_to_leaf(&mut self, id: u32, frame: u32, leaf: u64) {
        let disk = self.map.frames.get(frame).disk;
        let mut change = 0;
        self.leaves().dirty(frame);
        loop {
            let Some(job) = self.migrate.job_mut(id) else { return };
            let batch = job.last_batch;
            let Some(candidate) = job.candidates.get_mut(job.next).filter(|c| c.moved.leaf() == (disk, leaf)) else {
                break;
            };
            let Candidate { moved, damaged, .. } = *candidate;
            let destination = std::mem::take(&mut candidate.destination);
            job.next += 1;
            let Moved { source, checksum, .. } = moved;
            let what = match damaged {
                true => Change::Damage { source, checksum },
                false => Change::Move { source, checksum, destination },
            };
            let at = (moved.block % LEAF_ENTRIES as u64) as usize;
            change += self.leaves().change_entry(frame, at, (disk, moved.block), what, batch).unwrap_or(0);
            if destination != 0 {
                self.space.settle(destination, 1, self.journal.last_recorded());
            }
        }
        self.leaves().adjust_stageable(disk, leaf, change);
    }
}
