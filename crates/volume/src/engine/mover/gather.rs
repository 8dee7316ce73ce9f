//! Finding what to move.

use super::{Candidate, Engine, Job, JobKind, Phase};
use crate::engine::paging::Leaf;
use crate::engine::{MOVER, Pending};
use crate::layout::band_summary;
use crate::layout::batch::Moved;
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use forebay_block::{Buf, DiskId, IoError, Op, Vectored};

/// Leaves looked at in one job, so that a job ends even where there is little to move.
const LEAVES_PER_JOB: usize = 4096;
/// Leaves looked at in one step, so that hosts are served in between.
const LEAVES_PER_STEP: usize = 64;

impl Engine {
    pub(super) fn mover_gather(&mut self) {
        match self.mover.job.as_ref().map(|job| job.kind) {
            Some(JobKind::Destage) => self.gather_destage(),
            Some(JobKind::Collect { .. }) => self.gather_collect(),
            None => {}
        }
    }

    /// The next leaf with blocks to destage, going round all disks.
    fn next_leaf_to_destage(&mut self) -> Option<(DiskId, u64)> {
        let all = self.mover.sweeps_left > 0;
        let (disk, leaf) = self.mover.cursor;
        for (&id, entry) in self.disks.range(disk..) {
            let from = if id == disk { leaf } else { 0 };
            if let Some(found) = entry.next_stageable(from, all) {
                return Some((DiskId(id), found));
            }
        }
        None
    }

    fn gather_destage(&mut self) {
        for _ in 0..LEAVES_PER_STEP {
            let limit = self.job_limit();
            let Some(job) = &self.mover.job else { return };
            if job.candidates.len() + LEAF_ENTRIES > limit && !job.candidates.is_empty()
                || job.leaves_seen >= LEAVES_PER_JOB
                || job.leaves >= self.job_leaves()
            {
                return self.gathered();
            }
            let Some((disk, leaf)) = self.next_leaf_to_destage() else {
                self.mover.cursor = (0, 0);
                self.mover.sweeps_left = self.mover.sweeps_left.saturating_sub(1);
                let Some(job) = &mut self.mover.job else {
                    return;
                };
                if job.wrapped || !job.candidates.is_empty() {
                    return self.gathered();
                }
                job.wrapped = true;
                continue;
            };
            match self.require_leaf(disk, leaf, MOVER, false) {
                Leaf::Wait => {
                    if let Some(job) = &mut self.mover.job {
                        job.waiting = true;
                    }
                    self.mover.cursor = (disk.0, leaf);
                    return;
                }
                Leaf::Hole => self.mover.cursor = (disk.0, leaf + 1),
                Leaf::Ready(frame) => {
                    self.mover.cursor = (disk.0, leaf + 1);
                    self.take_candidates(frame, disk, leaf, limit);
                }
            }
            if let Some(job) = &mut self.mover.job {
                job.leaves_seen += 1;
            }
        }
    }

    /// Takes the blocks of one class from a leaf; others are left for another round, so that a band gets one class.
    fn take_candidates(&mut self, frame: u32, disk: DiskId, leaf: u64, limit: usize) {
        let Some(mut job) = self.mover.job.take() else {
            return;
        };
        let mut stageable = 0;
        for i in 0..LEAF_ENTRIES {
            let (entry, checksum) = page::leaf_entry(&self.frames.get(frame).page, i);
            let Entry::Data { location, class } = entry else {
                continue;
            };
            if !self.extents.is_fast(location) || !self.may_destage(class) {
                continue;
            }
            stageable += 1;
            if *job.class.get_or_insert(class) == class && job.candidates.len() < limit {
                let block = leaf * LEAF_ENTRIES as u64 + i as u64;
                self.mover.held.insert(location);
                job.take(Moved { disk, block, source: location, checksum });
            }
        }
        if let Some(entry) = self.disk_mut(disk) {
            entry.set_stageable(leaf, stageable);
        }
        self.mover.job = Some(job);
    }

    pub(super) fn mover_read_summary(&mut self, band: u32) {
        let (_, blocks) = band_summary::split(self.superblock.band_bytes / 4096);
        let location = self.extents.band_location(band, self.bands.data_blocks());
        let Some((device, offset_bytes)) = self.extents.place(location) else {
            return self.mover_end(true);
        };
        let bufs = Vectored::One(Buf::new(blocks as usize * 4096));
        self.command(device, offset_bytes, 0, Op::Read { bufs }, Pending::MoverSummary);
    }

    pub(crate) fn mover_summary_done(
        &mut self,
        _device: usize,
        result: Result<(), IoError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        let Some(JobKind::Collect { band }) = self.mover.job.as_ref().map(|job| job.kind) else {
            return;
        };
        let generation = self.bands.get(band).generation;
        let entries = match (result, Self::single(bufs)) {
            (Ok(()), Some(buf)) => band_summary::decode(&self.superblock.pool, band, generation, &buf),
            _ => None,
        };
        let Some(entries) = entries else {
            // Without its summary the band cannot be collected; it keeps its data and waits for the next start.
            self.mover.avoided.insert(band);
            self.counters.summary_errors += 1;
            return self.mover_end(true);
        };
        let mut lookups: Vec<Moved> = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.disk.0 != 0)
            .map(|(i, e)| {
                let source = self.extents.band_location(band, i as u32);
                Moved { disk: e.disk, block: e.block, source, checksum: e.checksum }
            })
            .collect();
        lookups.sort_by_key(|moved| (moved.disk, moved.block));
        let stream_class = self.bands.get(band).stream & !crate::space::bands::COLLECTED;
        if let Some(job) = &mut self.mover.job {
            // Taken from the end, so in descending order; they are sorted again before they are applied.
            job.lookups = lookups;
            job.class = Some(forebay_block::ClassId(stream_class));
            job.phase = Phase::Gather;
        }
        self.gather_collect();
    }

    fn gather_collect(&mut self) {
        for _ in 0..LEAVES_PER_STEP * LEAF_ENTRIES {
            let limit = self.job_limit();
            let Some(job) = &self.mover.job else { return };
            let Some(&moved) = job.lookups.last() else {
                return self.gathered();
            };
            let (_, leaf) = moved.leaf();
            if job.candidates.len() >= limit {
                return self.gathered();
            }
            let frame = match self.require_leaf(moved.disk, leaf, MOVER, false) {
                Leaf::Wait => {
                    if let Some(job) = &mut self.mover.job {
                        job.waiting = true;
                    }
                    return;
                }
                Leaf::Hole => None,
                Leaf::Ready(frame) => Some(frame),
            };
            let lives = frame.is_some_and(|frame| {
                let at = (moved.block % LEAF_ENTRIES as u64) as usize;
                let (entry, checksum) = page::leaf_entry(&self.frames.get(frame).page, at);
                matches!(entry, Entry::Data { location, .. } if location == moved.source) && checksum == moved.checksum
            });
            let most = self.job_leaves();
            let Some(job) = &mut self.mover.job else { return };
            if lives && job.leaves >= most && job.newest_leaf != Some((moved.disk, leaf)) {
                return self.gathered();
            }
            job.lookups.pop();
            if lives {
                job.take(moved);
            }
        }
    }

    /// All that this job will move is known.
    fn gathered(&mut self) {
        let Some(job) = &mut self.mover.job else {
            return;
        };
        if job.candidates.is_empty() {
            if let JobKind::Collect { band } = job.kind
                && self.bands.get(band).valid > 0
            {
                // The books say that something lives here, the summary does not know what: leave it alone.
                self.mover.avoided.insert(band);
            }
            // A sweep that goes on has not come to nothing yet.
            let goes_on = job.kind == JobKind::Destage && self.mover.sweeps_left > 0;
            return self.mover_end(!goes_on);
        }
        job.candidates.sort_by_key(|c| (c.moved.disk, c.moved.block));
        self.mover_read();
    }
}

impl Job {
    /// Takes a block to be moved. Blocks come in the order of their leaves.
    fn take(&mut self, moved: Moved) {
        let leaf = Some(moved.leaf());
        self.leaves += usize::from(leaf != self.newest_leaf);
        self.newest_leaf = leaf;
        self.candidates.push(Candidate { moved, data: None, damaged: false, destination: 0, sequence: 0 });
    }
}
