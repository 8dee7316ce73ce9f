//! Leaves between the map's frames and the fast tier. A miss is asynchronous, always.

use super::migrate::job_of_waiter;
use super::{Engine, Pending};
use crate::layout::page::{self, Entry, LEAF_ENTRIES, PAGE_BYTES, PageName, PageRef};
use crate::map::index::NO_FRAME;
use forebay_block::{Buf, DiskId, IoError, Op, Vectored};
use forebay_prism::Place;

/// What asking for a leaf gave.
pub(crate) enum Leaf {
    /// It is resident in this frame.
    Ready(u32),
    /// Nothing is mapped through it.
    Hole,
    /// The asker will be resumed.
    Wait,
}

impl Engine {
    /// Asks for a leaf on behalf of a piece (or a job). With `create`, a hole becomes an empty resident leaf.
    pub(crate) fn require_leaf(&mut self, disk: DiskId, leaf: u64, asker: u32, create: bool) -> Leaf {
        let Some(entry) = self.disk(disk) else {
            return Leaf::Hole;
        };
        let frame = entry.frame(leaf);
        if frame != NO_FRAME {
            let frame_entry = self.frames.get_mut(frame);
            frame_entry.referenced = true;
            if frame_entry.loading {
                frame_entry.waiters.push(asker);
                return Leaf::Wait;
            }
            return Leaf::Ready(frame);
        }
        let (reference, _) = entry.leaf(leaf);
        if reference.location == 0 && !create {
            return Leaf::Hole;
        }
        let Some(frame) = self.take_frame(disk, leaf) else {
            self.frame_waiters.push_back(asker);
            return Leaf::Wait;
        };
        if reference.location == 0 {
            self.begin_leaf(frame);
            return Leaf::Ready(frame);
        }
        let Some((device, offset_bytes)) = self.extents.place(reference.location) else {
            self.drop_frame(frame);
            return Leaf::Hole;
        };
        let entry = self.frames.get_mut(frame);
        entry.loading = true;
        entry.waiters.push(asker);
        self.counters.map_misses += 1;
        let bufs = Vectored::One(Buf::new(PAGE_BYTES));
        self.command(device, offset_bytes, 0, Op::Read { bufs }, Pending::PageIn { frame, reference, again: false });
        Leaf::Wait
    }

    /// A frame holds a leaf that maps nothing yet. Its index may say otherwise: it was written with the count of a leaf whose
    /// own page never was.
    pub(crate) fn begin_leaf(&mut self, frame: u32) {
        let entry = self.frames.get_mut(frame);
        entry.page.fill(0);
        let (disk, leaf) = (entry.disk, entry.leaf);
        if let Some(entry) = self.disk_mut(disk) {
            entry.set_stageable(leaf, 0);
        }
    }

    pub(crate) fn take_frame(&mut self, disk: DiskId, leaf: u64) -> Option<u32> {
        let (frame, evicted) = self.frames.take(disk, leaf)?;
        if let Some((old_disk, old_leaf)) = evicted
            && let Some(old) = self.disk_mut(old_disk)
        {
            old.set_frame(old_leaf, NO_FRAME);
        }
        if let Some(entry) = self.disk_mut(disk) {
            entry.set_frame(leaf, frame);
        }
        Some(frame)
    }

    /// Forgets a frame whose leaf could not be loaded or is not wanted.
    pub(crate) fn drop_frame(&mut self, frame: u32) {
        let (disk, leaf) = (self.frames.get(frame).disk, self.frames.get(frame).leaf);
        if let Some(entry) = self.disk_mut(disk) {
            entry.set_frame(leaf, NO_FRAME);
        }
        self.frames.vacate(frame);
    }

    pub(crate) fn page_in_done(
        &mut self,
        frame: u32,
        reference: PageRef,
        again: bool,
        result: Result<(), IoError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        let entry = self.frames.get(frame);
        let name = PageName { disk: entry.disk, number: entry.leaf, generation: reference.generation };
        let error = match (result, Self::single(bufs)) {
            (Ok(()), Some(buf))
                if page::is_leaf(&buf, name, reference.crc) || self.options.faults.checksums_ignored() =>
            {
                self.frames.get_mut(frame).page.copy_from_slice(&buf);
                None
            }
            (_, _) if !again => {
                // What follows fails all who wait, or gives the mapping up: only where the medium, and not one transfer,
                // is bad.
                let bufs = Vectored::One(Buf::new(PAGE_BYTES));
                let (device, offset_bytes) = self.extents.place(reference.location).unwrap_or_default();
                let pending = Pending::PageIn { frame, reference, again: true };
                return self.command(device, offset_bytes, 0, Op::Read { bufs }, pending);
            }
            (Err(source), _) => Some(self.device_error(0, source)),
            (Ok(()), _) => {
                // All it mapped is damaged: reads fail, and what is overwritten or discarded is whole again.
                self.counters.damaged_pages += 1;
                let page = &mut self.frames.get_mut(frame).page;
                (0..LEAF_ENTRIES).for_each(|i| page::set_leaf_entry(page, i, Entry::Damaged, 0));
                None
            }
        };
        let entry = self.frames.get_mut(frame);
        entry.loading = false;
        let waiters = std::mem::take(&mut entry.waiters);
        let (disk, leaf) = (entry.disk, entry.leaf);
        if error.is_some() {
            self.drop_frame(frame);
        } else {
            let stageable = self.count_stageable(frame);
            if let Some(entry) = self.disk_mut(disk) {
                entry.set_stageable(leaf, stageable);
            }
            self.enqueue_leaf(disk, leaf);
        }
        for waiter in waiters {
            match (&error, job_of_waiter(waiter)) {
                (None, None) => self.resume(waiter),
                (None, Some(job)) => self.resume_job(job),
                (Some(_), Some(job)) => self.job_leaf_failed(job, disk, leaf),
                (Some(error), None) => {
                    let piece = waiter;
                    if let Some(entry) = self.pieces.get_mut(piece as usize) {
                        entry.error = Some(error.clone());
                        self.finish_piece(piece);
                    }
                }
            }
        }
    }

    /// Blocks of a leaf that destage may move, counted anew.
    pub(crate) fn count_stageable(&self, frame: u32) -> u16 {
        let page = &self.frames.get(frame).page;
        let stageable = |i: &usize| match page::leaf_entry(page, *i).0 {
            Entry::Data { location, class } => self.extents.is_fast(location) && self.may_destage(class),
            _ => false,
        };
        (0..LEAF_ENTRIES).filter(stageable).count() as u16
    }

    /// Whether blocks of a class leave the fast tier in time.
    pub(crate) fn may_destage(&self, class: forebay_block::ClassId) -> bool {
        self.prism.table().get(class).is_none_or(|spec| spec.place != Place::Fast)
    }

    /// Prepares a frame for a change: a leaf that the checkpoint under way has yet to write is written first, as it
    /// was when the checkpoint began.
    pub(crate) fn dirty_frame(&mut self, frame: u32) {
        if self.frames.get(frame).frozen {
            self.page_out(frame);
        }
        if self.frames.set_dirty(frame, true) {
            self.checkpoint.dirtied += 1;
            self.checkpoint.new_leaves += u64::from(self.is_new_leaf(frame));
        }
    }

    /// Whether the leaf in a frame has no page on the device.
    pub(crate) fn is_new_leaf(&self, frame: u32) -> bool {
        let entry = self.frames.get(frame);
        self.disk(entry.disk).is_some_and(|disk| disk.leaf(entry.leaf).0.location == 0)
    }

    /// Asks again for those who found no frame.
    pub(crate) fn retry_frame_waiters(&mut self) {
        for _ in 0..self.frame_waiters.len() {
            let Some(waiter) = self.frame_waiters.pop_front() else {
                return;
            };
            let before = self.frame_waiters.len();
            match job_of_waiter(waiter) {
                Some(job) => self.resume_job(job),
                None => self.resume(waiter),
            }
            // It queued again at the end: there is still no frame, and the others would only do the same.
            if self.frame_waiters.len() > before {
                if let Some(again) = self.frame_waiters.pop_back() {
                    self.frame_waiters.push_front(again);
                }
                return;
            }
        }
    }
}
