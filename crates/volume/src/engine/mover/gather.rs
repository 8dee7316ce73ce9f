//! Finding what to move.

use super::{Candidate, Engine, Job, JobKind, Phase};
use crate::engine::clients::Piece;
use crate::engine::paging::Leaf;
use crate::engine::{MOVER, Pending};
use crate::layout::band_summary::{self, SummaryName};
use crate::layout::batch::Moved;
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use crate::space::bands::COLLECTED;
use forebay_block::{Buf, DiskId, IoError, Op, Vectored};

/// Leaves looked at in one job, so that a job ends even where there is little to move.
const LEAVES_PER_JOB: usize = 4096;
/// Leaves looked at in one step, so that hosts are served in between.
const LEAVES_PER_STEP: usize = 64;
/// Summaries of a band read at once.
const SUMMARIES_AT_ONCE: usize = 256;

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
        // No change of the blocks taken is under way: all up to here are in the map, and later ones have higher sequences.
        let origin = self.journal.next_sequence().saturating_sub(1);
        for i in 0..LEAF_ENTRIES {
            let (entry, checksum) = page::leaf_entry(&self.frames.get(frame).page, i);
            let Entry::Data { location, class } = entry else {
                continue;
            };
            if !self.extents.is_fast(location) || !self.may_destage(class) {
                continue;
            }
            stageable += 1;
            let is_wanted = *job.class.get_or_insert(class) == class && job.candidates.len() < limit;
            if is_wanted && !self.is_changing(frame, i) {
                let block = leaf * LEAF_ENTRIES as u64 + i as u64;
                self.mover.held.insert(location);
                let sectors = page::BLOCK_SECTORS as u8;
                job.take(Moved { disk, block, source: location, sectors, origin, checksum, class, group: 0 });
            }
        }
        if let Some(entry) = self.disk_mut(disk) {
            entry.set_stageable(leaf, stageable);
        }
        self.mover.job = Some(job);
    }

    /// Whether a change of a block of the leaf in a frame is under way.
    fn is_changing(&self, frame: u32, at: usize) -> bool {
        let covers = |piece: &Piece| {
            let first = usize::from(piece.first);
            piece.frame == Some(frame) && (first..first + usize::from(piece.blocks)).contains(&at)
        };
        self.frames.get(frame).pins > 0 && self.pieces.iter().any(|(_, piece)| covers(piece))
    }

    /// Reads the summaries of a band, many at a time.
    pub(super) fn mover_read_summaries(&mut self, band: u32) {
        let shape = self.bands.shape();
        // Recovery closes bands that are not full.
        let written = self.bands.get(band).written / page::BLOCK_SECTORS as u32;
        while let Some(job) = &mut self.mover.job {
            let group = job.next_group;
            if group >= shape.groups() || shape.first_block(group) >= written || shape.group_sectors(group) == 0 {
                break;
            }
            if job.outstanding >= SUMMARIES_AT_ONCE {
                return;
            }
            job.next_group += 1;
            let location = self.extents.band_location(band, shape.summary_block(group));
            let Some((device, offset_bytes)) = self.extents.place(location) else { continue };
            job.outstanding += 1;
            let op = Op::Read { bufs: Vectored::One(Buf::new(4096)) };
            self.command(device, offset_bytes, 0, op, Pending::MoverSummary { group });
        }
        if self.mover.job.as_ref().is_some_and(|job| job.outstanding == 0) {
            self.mover_summaries_read(band);
        }
    }

    /// One that cannot be read costs its group: what lives there stays, and keeps the band from being freed.
    pub(crate) fn mover_summary_done(&mut self, group: u32, result: Result<(), IoError>, bufs: Option<Vectored<Buf>>) {
        let Some(JobKind::Collect { band }) = self.mover.job.as_ref().map(|job| job.kind) else {
            return;
        };
        let shape = self.bands.shape();
        let name = SummaryName { band, group, generation: self.bands.get(band).generation };
        let entries = match (result, Self::single(bufs)) {
            (Ok(()), Some(page)) => {
                band_summary::decode(&self.superblock.pool, name, shape.group_sectors(group), &page)
            }
            _ => None,
        };
        let Some(job) = &mut self.mover.job else { return };
        job.outstanding -= 1;
        if let Some(entries) = entries {
            let start = self.extents.band_location(band, shape.first_block(group));
            job.lookups.extend(band_summary::placed(&entries).map(|(at, e)| Moved {
                disk: e.disk,
                block: e.block,
                source: start + u64::from(at),
                sectors: e.sectors,
                origin: e.origin,
                checksum: e.checksum,
                class: e.class,
                group: e.group,
            }));
        } else {
            self.counters.summary_errors += 1;
            self.mover.avoided.insert(band);
        }
        self.mover_read_summaries(band);
    }

    fn mover_summaries_read(&mut self, band: u32) {
        let stream_class = self.bands.get(band).stream & !COLLECTED;
        if let Some(job) = &mut self.mover.job {
            // Taken from the end, so in descending order; they are sorted again before they are applied.
            job.lookups.sort_by_key(|moved| (moved.disk, moved.block));
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
            let lives = frame.and_then(|frame| {
                let at = (moved.block % LEAF_ENTRIES as u64) as usize;
                let (entry, checksum) = page::leaf_entry(&self.frames.get(frame).page, at);
                match entry {
                    Entry::Data { location, class } => {
                        (location == moved.source && checksum == moved.checksum).then_some(class)
                    }
                    _ => None,
                }
            });
            let most = self.job_leaves();
            let Some(job) = &mut self.mover.job else { return };
            if lives.is_some() && job.leaves >= most && job.newest_leaf != Some((moved.disk, leaf)) {
                return self.gathered();
            }
            job.lookups.pop();
            if let Some(class) = lives {
                // The class may have changed since the summary was written.
                job.take(Moved { class, ..moved });
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
    /// The stream that its blocks are written in.
    pub(super) fn stream(&self) -> u8 {
        let class = self.class.map_or(0, |class| class.0);
        if self.kind == JobKind::Destage { class } else { class | COLLECTED }
    }

    /// Takes a block to be moved. Blocks come in the order of their leaves.
    fn take(&mut self, moved: Moved) {
        let leaf = Some(moved.leaf());
        self.leaves += usize::from(leaf != self.newest_leaf);
        self.newest_leaf = leaf;
        self.candidates.push(Candidate { moved, data: None, damaged: false, destination: 0, sequence: 0 });
    }
}
