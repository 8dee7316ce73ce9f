//! Runs jobs on the inner device, one at a time: with two jobs that write one sector, the older version could become
//! durable after the newer one.

use super::job::{Active, Job};
use super::{VolatileDevice, pieces};
use forebay_block::{Completion, Device, Op, Request};
use std::collections::BTreeMap;

impl<D: Device> VolatileDevice<D> {
    /// Advances everything as far as possible without waiting.
    pub(super) fn pump(&mut self) {
        let mut finished = Vec::new();
        loop {
            let mut progressed = false;
            self.inner.poll(&mut finished);
            for completion in finished.drain(..) {
                progressed = true;
                self.inner_finished(completion);
            }
            progressed |= self.advance();
            while self.inner.in_flight() < self.inner.queue_limit() {
                let Some(request) = self.outgoing.pop_front() else { break };
                self.inner.submit(request);
                progressed = true;
            }
            if !progressed {
                return;
            }
        }
    }

    fn inner_finished(&mut self, completion: Completion) {
        if let Some(read) = self.reads.remove(&completion.tag) {
            let mut bufs = completion.bufs;
            if let (Ok(()), Some(bufs)) = (&completion.result, &mut bufs) {
                pieces::lay_over(bufs, read.offset_bytes, &read.overlay, self.unit());
            }
            self.ready.push((None, Completion { tag: read.tag, result: completion.result, bufs }));
            return;
        }
        let Some(active) = &mut self.active else { return };
        let Some(settles) = active.outstanding.remove(&completion.tag) else { return };
        match completion.result {
            Ok(()) => {
                for (sector, id) in settles {
                    self.cache.settle(sector, id);
                }
            }
            // A failed write stays in the cache: reads still find it, and the next flush tries it again.
            Err(error) => active.result = Err(error),
        }
    }

    /// Ends the active job when all its requests have completed, and starts the next one. Returns whether anything
    /// changed.
    fn advance(&mut self) -> bool {
        if let Some(active) = &mut self.active {
            if !active.outstanding.is_empty() {
                return false;
            }
            if active.flush_after && active.result.is_ok() {
                active.flush_after = false;
                self.next_inner_tag += 1;
                let tag = self.next_inner_tag;
                active.outstanding.insert(tag, Vec::new());
                self.outgoing.push_back(Request { tag, offset_bytes: 0, stream: 0, op: Op::Flush });
                return true;
            }
            self.end_active();
            return true;
        }
        // Data leaks early only while nothing else waits: a queued long discard would undo a leaked newer write.
        let job = self.jobs.pop_front().or_else(|| self.leak.as_mut()?.next().map(Job::Leak));
        match job {
            Some(job) => {
                self.start(job);
                true
            }
            None => false,
        }
    }

    fn end_active(&mut self) {
        let Some(active) = self.active.take() else { return };
        if active.evicts {
            self.eviction_queued = false;
        }
        if let (Some((range, id)), Ok(())) = (active.settles_range, &active.result) {
            self.cache.settle_range(range, id);
        }
        if let Some(tag) = active.tag {
            self.ready.push((active.id, Completion { tag, result: active.result, bufs: None }));
        }
    }

    fn start(&mut self, job: Job) {
        let mut active = Active {
            tag: None,
            id: None,
            outstanding: BTreeMap::new(),
            settles_range: None,
            flush_after: false,
            evicts: false,
            result: Ok(()),
        };
        let mut fua = false;
        let versions = match job {
            Job::Flush { tag, covered } => {
                active.tag = Some(tag);
                active.flush_after = true;
                self.cache.covered(&covered)
            }
            Job::Fua { tag, id, sectors } => {
                (active.tag, active.id, fua) = (Some(tag), Some(id), true);
                let wanted = sectors.end - sectors.start;
                let versions = self.cache.written_by(id, sectors);
                // A missing version was superseded by a newer write, which went to the inner device without FUA, so a
                // flush is needed.
                active.flush_after = (versions.len() as u64) < wanted;
                versions
            }
            Job::Through { request, id, sectors } => {
                (active.tag, active.id) = (Some(request.tag), Some(id));
                active.settles_range = Some((sectors, id));
                let tag = self.inner_tag();
                active.outstanding.insert(tag, Vec::new());
                self.outgoing.push_back(Request { tag, ..request });
                Vec::new()
            }
            Job::Leak(part) => self.cache.written_by(part.id, part.sectors),
            Job::Evict { covered } => {
                active.evicts = true;
                self.cache.covered(&covered)
            }
        };
        for piece in pieces::coalesce(versions, self.unit(), self.inner.geometry().discards, fua) {
            let tag = self.inner_tag();
            active.outstanding.insert(tag, piece.settles);
            self.outgoing.push_back(Request { tag, offset_bytes: piece.offset_bytes, stream: 0, op: piece.op });
        }
        self.active = Some(active);
    }
}
