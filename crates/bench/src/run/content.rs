//! The content of a worker's writes, and the check of its reads.

use crate::data::verify::{Judged, Layout, ReadView, VerifyError, WrittenMap};
use crate::data::{Content, DataError};
use crate::job::model::Job;
use crate::pattern::Next;
use forebay_block::{OpKind, lock};
use std::sync::{Arc, Mutex};

/// Bit from which generations contain the thread's number, so that no two threads use the same generation.
const THREAD_BIT: u32 = 44;

/// Maps of what the jobs of a run have written, including jobs of earlier groups: a later job checks what an earlier one wrote if region
/// and seed are the same.
#[derive(Clone, Debug)]
pub struct Maps {
    run_seed: u64,
    /// Number of the target, where there are several.
    target: usize,
    known: Arc<Mutex<Vec<Known>>>,
}

#[derive(Debug)]
struct Known {
    target: usize,
    region: (u64, u64),
    seed: u64,
    map: Arc<WrittenMap>,
}

impl Maps {
    /// Makes an empty set of maps. Headers carry `run_seed`, which should belong to this run alone.
    #[must_use]
    pub fn new(run_seed: u64) -> Self {
        Self { run_seed, target: 0, known: Arc::default() }
    }

    /// The same maps for the target with this number: what was written to one target is not on another.
    pub(super) fn of_target(&self, target: usize) -> Self {
        Self { target, ..self.clone() }
    }

    fn get(&self, job: &Job, region: (u64, u64)) -> Result<Arc<WrittenMap>, ContentError> {
        let layout = Layout::of(job, region)?;
        let end = |region: (u64, u64)| region.0.saturating_add(region.1);
        let mut known = lock(&self.known);
        let fits = |found: &&Known| {
            let own = found.map.layout();
            let apart = layout.origin_bytes().abs_diff(own.origin_bytes());
            found.target == self.target
                && found.region.0 <= region.0
                && end(region) <= end(found.region)
                && found.seed == job.seed
                && apart.is_multiple_of(own.granule_bytes())
                && layout.granule_bytes().is_multiple_of(own.granule_bytes())
        };
        if let Some(found) = known.iter().find(fits) {
            return Ok(found.map.clone());
        }
        let overlaps = |found: &&Known| {
            found.target == self.target && found.region.0 < end(region) && region.0 < end(found.region)
        };
        if let Some(found) = known.iter().find(overlaps) {
            return Err(ContentError::Overlap { region, other: found.region });
        }
        let seed = self.run_seed ^ job.seed;
        // Granules of the size of a unit also suit jobs with other I/O sizes. If they take too much memory, use this job's own granules.
        let fine = Layout::new(layout.origin_bytes(), u64::from(layout.unit_bytes()))?;
        let map = WrittenMap::new(fine, region, seed).or_else(|_| WrittenMap::new(layout, region, seed))?;
        let map = Arc::new(map);
        known.push(Known { target: self.target, region, seed: job.seed, map: map.clone() });
        Ok(map)
    }
}

/// Why a job's content cannot be made or checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// The content cannot be made.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The content cannot be checked.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// Two jobs would take each other's writes for damage.
    #[error(
        "it verifies bytes {} to {}, and another job verifies {} to {} with another seed, or sizes that do not fit: give \
         both the same region and seed, or regions that do not touch",
        region.0, region.0 + region.1, other.0, other.0 + other.1
    )]
    Overlap {
        /// Region of this job, as offset and length in bytes.
        region: (u64, u64),
        /// Region of the other job.
        other: (u64, u64),
    },
}

/// Content of a job's writes, and the map to check its reads.
#[derive(Debug)]
pub struct JobContent {
    content: Content,
    map: Option<Arc<WrittenMap>>,
}

impl JobContent {
    /// The content of a job on this region (offset and length in bytes).
    pub fn new(job: &Job, region: (u64, u64), maps: &Maps) -> Result<Self, ContentError> {
        let map = job.verify.then(|| maps.get(job, region)).transpose()?;
        let layout = map.as_ref().map(|map| map.layout());
        Ok(Self { content: Content::new(&job.data, layout, maps.run_seed ^ job.seed)?, map })
    }

    /// The content for thread number `thread`, which has `slots` slots.
    pub fn worker(&self, thread: u32, slots: u32) -> WorkerContent {
        WorkerContent {
            content: self.content.clone(),
            map: self.map.clone(),
            generation: u64::from(thread) << THREAD_BIT,
            prepared: vec![0; slots as usize],
            views: vec![ReadView::default(); if self.map.is_some() { slots as usize } else { 0 }],
            judged: Judged::default(),
        }
    }
}

/// Content of one thread's writes, and the check of its reads.
#[derive(Debug)]
pub struct WorkerContent {
    content: Content,
    map: Option<Arc<WrittenMap>>,
    generation: u64,
    /// For each slot, the bytes of its buffer that are prepared for stamps; a read overwrites them.
    prepared: Vec<u32>,
    views: Vec<ReadView>,
    judged: Judged,
}

impl WorkerContent {
    /// To be called before an I/O is submitted: fills the data of a write, and records what a read must find.
    #[inline]
    pub fn before(&mut self, slot: u32, next: &Next, buffer: &mut [u8]) {
        let &Next { kind, offset_bytes, len_bytes, .. } = next;
        match kind {
            OpKind::Write | OpKind::WriteFua => {
                self.generation += 1;
                let generation =
                    self.map.as_ref().map_or(self.generation, |map| map.before_write(offset_bytes, len_bytes));
                let data = &mut buffer[..len_bytes as usize];
                let prepared = &mut self.prepared[slot as usize];
                if !self.content.suits_prepared(len_bytes) {
                    *prepared = 0;
                    self.content.fill(data, offset_bytes, generation);
                    return;
                }
                if *prepared < len_bytes {
                    *prepared = len_bytes;
                    self.content.prepare(data, generation ^ u64::from(slot) << 32);
                }
                self.content.stamp(data, offset_bytes, generation);
            }
            OpKind::Read => {
                self.prepared[slot as usize] = 0;
                if let Some(map) = &self.map {
                    map.before_read(offset_bytes, len_bytes, &mut self.views[slot as usize]);
                }
            }
            OpKind::Trim => {
                if let Some(map) = &self.map {
                    map.before_discard(offset_bytes, len_bytes);
                }
            }
            OpKind::Flush | OpKind::Fsync => {}
        }
    }

    /// To be called after an I/O that succeeded.
    ///
    /// # Errors
    /// The first mismatch between a read and what it should have found.
    #[inline]
    pub fn after(&mut self, slot: u32, next: &Next, buffer: &[u8]) -> Result<(), String> {
        let Some(map) = &self.map else { return Ok(()) };
        let &Next { kind, offset_bytes, len_bytes, .. } = next;
        match kind {
            OpKind::Write | OpKind::WriteFua => map.after_write(offset_bytes, len_bytes),
            OpKind::Trim => map.after_discard(offset_bytes, len_bytes),
            OpKind::Read => {
                let data = &buffer[..len_bytes as usize];
                let (judged, wrong) = map.judge_read(data, offset_bytes, &self.views[slot as usize]);
                self.judged.add(judged);
                if let Some(mismatch) = wrong {
                    return Err(mismatch.to_string());
                }
            }
            OpKind::Flush | OpKind::Fsync => {}
        }
        Ok(())
    }

    /// To be called after an I/O that failed.
    pub fn failed(&mut self, next: &Next) {
        let Some(map) = &self.map else { return };
        match next.kind {
            OpKind::Write | OpKind::WriteFua => map.failed_write(next.offset_bytes, next.len_bytes),
            OpKind::Trim => map.after_discard(next.offset_bytes, next.len_bytes),
            OpKind::Read | OpKind::Flush | OpKind::Fsync => {}
        }
    }

    /// How many units were judged, and how; `None` if nothing is verified.
    pub fn judged(&self) -> Option<Judged> {
        self.map.is_some().then_some(self.judged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::model::{Mix, SizeMix, Sizes};

    fn job(bytes: u32, seed: u64) -> Job {
        let size = SizeMix::fixed(bytes);
        let sizes = Sizes { read: size.clone(), write: size.clone(), trim: size };
        Job { sizes, seed, verify: true, mix: Mix::reads_percent(50), ..Job::default() }
    }

    #[test]
    fn a_later_job_checks_what_an_earlier_one_wrote() {
        let maps = Maps::new(7);
        let whole = maps.get(&job(128 << 10, 1), (0, 1 << 30)).unwrap();
        let part = maps.get(&job(4096, 1), (1 << 20, 1 << 20)).unwrap();
        assert!(Arc::ptr_eq(&whole, &part));
        let apart = maps.get(&job(4096, 2), (1 << 30, 1 << 20)).unwrap();
        assert!(!Arc::ptr_eq(&whole, &apart));
    }

    #[test]
    fn threads_never_write_the_same_nor_what_was_read() {
        let job = Job { verify: false, ..job(4096, 1) };
        let content = JobContent::new(&job, (0, 1 << 20), &Maps::new(7)).unwrap();
        let write = Next { kind: OpKind::Write, offset_bytes: 8192, len_bytes: 4096, hint: 0 };
        let read = Next { kind: OpKind::Read, ..write };
        let mut written = Vec::new();
        for thread in 0..2 {
            let (mut worker, mut buffer) = (content.worker(thread, 1), vec![0; 4096]);
            worker.before(0, &write, &mut buffer);
            written.push(buffer.clone());
            worker.before(0, &read, &mut buffer);
            buffer.fill(0);
            worker.before(0, &write, &mut buffer);
            assert!(buffer[2048..].iter().any(|&byte| byte != 0), "zeros that were read are written");
            written.push(buffer);
        }
        assert!((0..4).all(|a| (0..a).all(|b| written[a] != written[b])), "written twice");
    }

    #[test]
    fn jobs_that_would_accuse_each_other_are_refused() {
        let maps = Maps::new(7);
        maps.get(&job(4096, 1), (0, 1 << 20)).unwrap();
        for (other, region) in
            [(job(4096, 2), (0, 1 << 20)), (job(4096, 1), (1 << 19, 1 << 20)), (job(512, 1), (0, 1 << 20))]
        {
            let error = maps.get(&other, region).unwrap_err().to_string();
            assert!(error.contains("same region and seed"), "{error}");
        }
    }
}
