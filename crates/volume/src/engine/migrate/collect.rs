//! Choosing what still lives in the band that is collected.

use super::{Engine, JobKind, Phase, waiter};
use crate::engine::Pending;
use crate::engine::paging::Leaf;
use crate::layout::band_summary;
use crate::layout::batch::Moved;
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use forebay_block::{Buf, ClassId, IoError, Op, Vectored};

/// Summary entries looked up in one step, so that hosts are served in between.
const LOOKUPS_PER_STEP: usize = 4096;

impl Engine {
    pub(super) fn read_summary(&mut self, id: u32, band: u32) {
        let (_, blocks) = band_summary::split(self.superblock.band_bytes / 4096);
        let location = self.extents.band_location(band, self.bands.data_blocks());
        let Some((device, offset_bytes)) = self.extents.place(location) else {
            return self.end_job(id, true);
        };
        let bufs = Vectored::One(Buf::new(blocks as usize * 4096));
        self.command(device, offset_bytes, 0, Op::Read { bufs }, Pending::MoveSummary { job: id });
    }

    pub(crate) fn summary_read(&mut self, id: u32, result: Result<(), IoError>, bufs: Option<Vectored<Buf>>) {
        let Some(JobKind::Collect { band }) = self.job(id).map(|job| job.kind) else { return };
        let generation = self.bands.get(band).generation;
        let entries = match (result, Self::single(bufs)) {
            (Ok(()), Some(buf)) => band_summary::decode(&self.superblock.pool, band, generation, &buf),
            _ => None,
        };
        let Some(entries) = entries else {
            // Without its summary the band cannot be collected; it keeps its data.
            self.exclude(band);
            self.counters.summary_errors += 1;
            return self.end_job(id, true);
        };
        let mut lookups: Vec<(Moved, ClassId)> = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.disk.0 != 0)
            .map(|(i, e)| {
                let source = self.extents.band_location(band, i as u32);
                (Moved { disk: e.disk, block: e.block, source, checksum: e.checksum }, e.class)
            })
            .collect();
        lookups.sort_by_key(|(moved, _)| (moved.disk, moved.block));
        let stream_class = ClassId(self.bands.get(band).stream & !crate::space::bands::COLLECTED);
        if let Some(job) = self.job_mut(id) {
            // Taken from the end, so in descending order; they are sorted again before they are applied. A band gets one
            // class: what was mixed stays so rather than opening a band for each.
            job.lookups = lookups.into_iter().map(|(moved, _)| (moved, stream_class)).collect();
            job.phase = Phase::Gather;
        }
        self.gather_collect(id);
    }

    pub(super) fn gather_collect(&mut self, id: u32) {
        for _ in 0..LOOKUPS_PER_STEP {
            let (limit, leaves_max) = (self.blocks_per_job(), self.leaves_per_job());
            let Some(job) = self.job(id) else { return };
            let Some(&(moved, class)) = job.lookups.last() else {
                return self.gathered(id);
            };
            if job.candidates.len() >= limit {
                return self.gathered(id);
            }
            let (disk, leaf) = moved.leaf();
            let frame = match self.require_leaf(disk, leaf, waiter(id), false) {
                Leaf::Wait => {
                    if let Some(job) = self.job_mut(id) {
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
            let Some(job) = self.job_mut(id) else { return };
            if lives && job.leaves >= leaves_max && job.newest_leaf != Some((disk, leaf)) {
                return self.gathered(id);
            }
            job.lookups.pop();
            if lives {
                job.take(moved, class);
            }
        }
    }
}
