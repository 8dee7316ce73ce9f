//! Those who ask for leaves, and what happens as one arrives or is changed.

use super::Engine;
use super::map::{Leaf, Loaded};
use super::migrate::job_of_waiter;
use crate::layout::page::PageRef;
use forebay_block::{Buf, DiskId, IoError};
use forebay_prism::Place;

impl Engine {
    /// Asks for a leaf on behalf of a piece (or a job). With `create`, a hole becomes an empty resident leaf.
    pub(crate) fn require_leaf(&mut self, disk: DiskId, leaf: u64, asker: u32, create: bool) -> Leaf {
        self.map.require((disk, leaf), asker, create, (&mut self.outbox, &mut self.stats.counters))
    }

    pub(crate) fn page_in_done(
        &mut self,
        frame: u32,
        reference: (PageRef, bool),
        result: Result<(), IoError>,
        buf: Option<Buf>,
    ) {
        let rooms = (&mut self.outbox, &mut self.stats.counters);
        let Some(Loaded { disk, leaf, frame, askers }) = self.map.loaded(frame, reference, result, buf, rooms) else {
            return;
        };
        let frame = frame.map_err(|source| self.setup.device_error(0, source));
        if let Ok(frame) = frame {
            let stageable = self.count_stageable(frame);
            if let Some(entry) = self.map.disk_mut(disk) {
                entry.set_stageable(leaf, stageable);
            }
            self.enqueue_leaf(disk, leaf);
        }
        for asker in askers {
            match (&frame, job_of_waiter(asker)) {
                (Ok(_), None) => self.resume(asker),
                (Ok(_), Some(job)) => self.resume_job(job),
                (Err(_), Some(job)) => self.job_leaf_failed(job, disk, leaf),
                (Err(error), None) => self.fail_piece(asker, error.clone()),
            }
        }
    }

    /// Blocks of a leaf that destage may move, counted anew.
    pub(crate) fn count_stageable(&self, frame: u32) -> u16 {
        self.map.count_stageable(frame, |class| self.may_destage(class))
    }

    /// Whether blocks of a class leave the fast tier in time.
    pub(crate) fn may_destage(&self, class: forebay_block::ClassId) -> bool {
        self.prism.table().get(class).is_none_or(|spec| spec.place != Place::Fast)
    }

    /// Prepares a frame for a change: a leaf that the checkpoint in progress has yet to write is written first, as it
    /// was when the checkpoint began.
    pub(crate) fn dirty_frame(&mut self, frame: u32) {
        if self.map.frames.get(frame).frozen {
            self.write_frozen_leaf(frame);
        }
        if self.map.frames.set_dirty(frame, true) {
            self.checkpoint.count_dirtied();
            self.space.new_leaves += u64::from(self.map.is_new_leaf(frame));
        }
    }

    /// Asks again for those who found no frame.
    pub(crate) fn retry_frame_waiters(&mut self) {
        for _ in 0..self.map.frame_waiters.len() {
            let Some(waiter) = self.map.frame_waiters.pop_front() else {
                return;
            };
            let before = self.map.frame_waiters.len();
            match job_of_waiter(waiter) {
                Some(job) => self.resume_job(job),
                None => self.resume(waiter),
            }
            // It queued again at the end: there is still no frame, and the others would only do the same.
            if self.map.frame_waiters.len() > before {
                if let Some(again) = self.map.frame_waiters.pop_back() {
                    self.map.frame_waiters.push_front(again);
                }
                return;
            }
        }
    }
}
