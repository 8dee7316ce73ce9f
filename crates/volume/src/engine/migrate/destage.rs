//! Choosing what leaves the fast tier: the blocks that were written longest ago.

use super::ages::epoch_of;
use super::job::{JobKind, Phase, waiter};
use crate::engine::Engine;
use crate::engine::leaves::may_destage;
use crate::engine::map::Leaf;
use crate::engine::requests::Piece;
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use crate::layout::record::Moved;
use forebay_block::DiskId;

/// Leaves looked at in one job, so that a job ends even where there is little to move.
const LEAVES_PER_JOB: usize = 4096;
/// Leaves looked at in one step, so that hosts are served in between.
const LEAVES_PER_STEP: usize = 64;
/// A job takes blocks of so many epochs more than the oldest.
const EPOCHS_PER_JOB: u32 = 1;

impl Engine {
    pub(super) fn gather_destage(&mut self, id: u32) {
        for _ in 0..LEAVES_PER_STEP {
            if self.migrate.surveys_left > 0 {
                match self.survey_leaf(id) {
                    Leaf::Wait => return,
                    _ => continue,
                }
            }
            let (limit, leaves_max) = (self.setup.limits.blocks_per_job, self.setup.limits.leaves_per_job);
            let first = self.migrate.ages.first();
            let Some(job) = self.migrate.job_mut(id) else { return };
            let is_full =
                job.candidates.len() >= limit || job.leaves_seen >= LEAVES_PER_JOB || job.leaves >= leaves_max;
            let Some((epoch, disk, leaf)) = first.filter(|_| !is_full) else {
                return self.gathered(id);
            };
            if job.candidates.is_empty() {
                job.cutoff_epoch = Some(epoch.saturating_add(EPOCHS_PER_JOB));
            } else if job.cutoff_epoch.is_some_and(|cutoff| epoch > cutoff) {
                return self.gathered(id);
            }
            job.leaves_seen += 1;
            match self.require_leaf(disk, leaf, waiter(id), false) {
                Leaf::Wait => {
                    if let Some(job) = self.migrate.job_mut(id) {
                        job.waiting = true;
                    }
                    return;
                }
                Leaf::Hole => {
                    self.migrate.ages.pop_first();
                }
                Leaf::Ready(frame) => self.take_candidates(id, frame, limit),
            }
        }
    }

    /// A leaf cannot be read: it goes to the end of the queue, or the survey goes on behind it. Where another job waited
    /// for the same one, that is done already.
    pub(super) fn pass_over_leaf(&mut self, disk: DiskId, leaf: u64) {
        if self.migrate.surveys_left > 0 && self.migrate.cursor == (disk.0, leaf) {
            self.migrate.cursor.1 += 1;
        } else if self.migrate.ages.first().is_some_and(|(_, d, l)| (d, l) == (disk, leaf)) {
            self.migrate.ages.pop_first();
            self.migrate.ages.enqueue(epoch_of(&self.stats, &self.space), disk, leaf, &self.map);
        }
    }

    /// Whether a change of a block of the leaf in a frame is in progress.
    fn is_changing(&self, frame: u32, at: usize) -> bool {
        let covers = |piece: &Piece| {
            let first = usize::from(piece.first);
            piece.frame == Some(frame) && (first..first + usize::from(piece.blocks)).contains(&at)
        };
        self.map.frames.get(frame).pins > 0 && self.requests.pieces.iter().any(|(_, piece)| covers(piece))
    }

    /// Takes the old blocks of the first leaf of the queue; the leaf goes back under the epoch of the oldest that is left.
    fn take_candidates(&mut self, id: u32, frame: u32, limit: usize) {
        let Some((_, disk, leaf)) = self.migrate.ages.pop_first() else { return };
        let cutoff = self.migrate.job(id).and_then(|job| job.cutoff_epoch).unwrap_or(0);
        let (mut stageable, mut oldest_left) = (0, None::<u32>);
        // No change of the blocks taken is in progress: all up to here are in the map, and later ones have higher sequences.
        let origin = self.journal.next_sequence().saturating_sub(1);
        for i in 0..LEAF_ENTRIES {
            let page = &self.map.frames.get(frame).page;
            let (entry, checksum) = page::leaf_entry(page, i);
            let epoch = page::written_epoch(page, i);
            let Entry::Data { location, class } = entry else { continue };
            if !self.setup.extents.is_fast(location) || !may_destage(&self.prism, class) {
                continue;
            }
            stageable += 1;
            if self.migrate.held.contains(&location) {
                // Another job has it.
                continue;
            }
            // Another time: it is about to be written anew, and its origin would not be clear.
            let epoch = if self.is_changing(frame, i) { epoch.max(cutoff.saturating_add(1)) } else { epoch };
            let Some(job) = self.migrate.job_mut(id) else { return };
            if epoch <= cutoff && job.candidates.len() < limit {
                let block = leaf * LEAF_ENTRIES as u64 + i as u64;
                let sectors = page::BLOCK_SECTORS as u8;
                job.take(Moved { disk, block, source: location, sectors, origin, checksum, class, group: 0 }, class);
                self.migrate.held.insert(location);
            } else {
                oldest_left = Some(oldest_left.map_or(epoch, |oldest| oldest.min(epoch)));
            }
        }
        if let Some(entry) = self.map.disk_mut(disk) {
            entry.set_stageable(leaf, stageable);
        }
        if let Some(epoch) = oldest_left {
            self.migrate.ages.enqueue(epoch, disk, leaf, &self.map);
        }
    }

    /// Looks at the next leaf since a policy changed: its count is made anew, and it is queued where it has blocks to
    /// destage now.
    fn survey_leaf(&mut self, id: u32) -> Leaf {
        let (disk, leaf) = self.migrate.cursor;
        let found = self.map.disks.range(disk..).find_map(|(&number, entry)| {
            let from = if number == disk { leaf } else { 0 };
            entry.next_leaf(from).map(|leaf| (DiskId(number), leaf))
        });
        let Some((disk, leaf)) = found else {
            self.migrate.cursor = (0, 0);
            self.migrate.surveys_left -= 1;
            return Leaf::Hole;
        };
        self.migrate.cursor = (disk.0, leaf);
        let answer = self.require_leaf(disk, leaf, waiter(id), false);
        match answer {
            Leaf::Wait => {
                if let Some(job) = self.migrate.job_mut(id) {
                    job.waiting = true;
                }
                return answer;
            }
            Leaf::Hole => {}
            Leaf::Ready(frame) => {
                let page = &self.map.frames.get(frame).page;
                let epochs = (0..LEAF_ENTRIES).step_by(page::CLOCK_BLOCKS).map(|i| page::written_epoch(page, i));
                let oldest = epochs.min().unwrap_or(0);
                self.leaves().count_anew(disk, leaf, frame);
                self.migrate.ages.enqueue(oldest, disk, leaf, &self.map);
            }
        }
        self.migrate.cursor.1 = leaf + 1;
        answer
    }

    /// All that a job will move is known.
    pub(super) fn gathered(&mut self, id: u32) {
        let Some(job) = self.migrate.job_mut(id) else { return };
        if job.candidates.is_empty() {
            let kind = job.kind;
            if let JobKind::Collect { band } = kind
                && self.space.bands.get(band).valid > 0
            {
                if self.looks_further(id, band) {
                    return;
                }
                if self.others_collect(id, band) {
                    // They have what lives here.
                    return self.end_job(id, false);
                }
                // The counts say that something lives here, the summary does not know what: leave it alone.
                self.migrate.exclude(band, self.clock.now_ns());
            }
            return self.end_job(id, true);
        }
        job.candidates.sort_by_key(|c| (c.class, c.moved.disk, c.moved.block));
        job.phase = Phase::Read;
        self.read_sources(id);
    }
}
