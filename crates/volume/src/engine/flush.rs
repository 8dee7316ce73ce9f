//! Flushes: waiting ones share one that was not yet submitted, and it goes to those devices only that hold
//! acknowledged data which is not yet durable.

use super::{Engine, Pending};
use crate::layout::watermark::{OFFSETS_BYTES, Watermark};
use crate::request::RequestError;
use forebay_block::{Buf, IoError, Op, Vectored};
use std::collections::BTreeMap;

/// How long a changed watermark may stay unwritten, in nanoseconds.
const WATERMARK_EVERY_NS: u64 = 1_000_000_000;

/// State of flushing.
#[derive(Debug, Default)]
pub(crate) struct FlushState {
    /// Devices holding completed writes that no submitted flush covers, one bit each.
    dirty: u32,
    /// Clients waiting for a flush not yet submitted.
    waiting: Vec<u32>,
    /// The engine itself wants a flush, to make space or window free.
    wanted: bool,
    /// The checkpoint wants one of all devices.
    pub checkpoint_wants: bool,
    /// The flush under way.
    active: Option<Active>,
    /// Flushes of jobs under way: number and device.
    move_flushes: BTreeMap<u64, usize>,
    next_move_flush: u64,
    submitted: u64,
    /// Data written since the last flush was submitted.
    pub unflushed_bytes: u64,
    /// A device flush failed: no later one may claim success for what it covered.
    pub failed: bool,
    watermark: WatermarkState,
}

#[derive(Debug)]
struct Active {
    number: u64,
    /// Devices whose flush has not ended, one bit each.
    devices: u32,
    /// Flushes of jobs that were under way beside it on the same devices.
    beside: Vec<u64>,
    failed: bool,
    clients: Vec<u32>,
    checkpoint: bool,
}

#[derive(Debug, Default)]
struct WatermarkState {
    /// Last batch of the contiguous durable run, and the exceptions, as last written.
    written: (u64, u64),
    written_at_ns: u64,
    serial: u64,
    busy: bool,
}

impl FlushState {
    /// A write to a device completed.
    pub fn written(&mut self, device: usize) {
        self.dirty |= 1 << device;
    }

    /// Flushes submitted so far; a batch that completes now is covered by the next one.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// The write of the watermark block ended; one that failed is tried again when the next is due.
    pub fn watermark_written(&mut self, good: bool) {
        self.watermark.busy = false;
        if !good {
            self.watermark.written = (0, 0);
        }
    }

    /// A job flushes a device; returns the number of the flush.
    pub fn move_flush_begins(&mut self, device: usize) -> u64 {
        self.next_move_flush += 1;
        let number = self.next_move_flush;
        self.move_flushes.insert(number, device);
        if let Some(active) = self.active.as_mut().filter(|active| active.devices & 1 << device != 0) {
            active.beside.push(number);
        }
        number
    }

    /// A job's flush has ended.
    pub fn move_flush_ended(&mut self, number: u64) {
        self.move_flushes.remove(&number);
        if let Some(active) = &mut self.active {
            active.beside.retain(|&other| other != number);
        }
    }

    /// Recovery starts counting where the last watermark block ended.
    pub fn resume_watermark(&mut self, serial: u64) {
        self.watermark.serial = serial;
    }
}

impl Engine {
    /// A host asks for a flush (or a write of it is to be durable).
    pub(crate) fn client_flush(&mut self, id: u32) {
        if self.flush.failed {
            self.requests.clients[id as usize].error = Some(RequestError::FlushFailed);
            return self.answer(id);
        }
        if self.setup.options.faults.flush_is_no_op() {
            return self.answer(id);
        }
        if self.flush.dirty & self.setup.volatile != 0 {
            self.flush.waiting.push(id);
        } else if let Some(active) = &mut self.flush.active {
            // All that was acknowledged is covered by the flush under way.
            active.clients.push(id);
        } else {
            self.know_durable(self.flush.submitted());
            self.release_durable();
            self.answer(id);
        }
    }

    /// What was complete before flush `number` was submitted is durable. Where no volatile cache holds anything, so is all
    /// that is complete: data that went past any cache may end after the flush that covered its record, and no other
    /// flush would ever be needed to say so.
    fn know_durable(&mut self, number: u64) {
        let is_clean = self.flush.dirty & self.setup.volatile == 0;
        self.journal.flushed(if is_clean { self.flush.submitted() } else { number });
    }

    /// The engine needs durability itself.
    pub(crate) fn want_flush(&mut self) {
        self.flush.wanted = true;
    }

    /// Starts the next flush where one is wanted and none is under way.
    pub(crate) fn flush_step(&mut self) {
        if self.journal.unflushed_bytes() > self.journal.window_bytes() / 2
            || self.flush.unflushed_bytes > self.setup.options.unflushed_limit_bytes
        {
            self.flush.wanted = true;
        }
        let wanted = self.flush.wanted || self.flush.checkpoint_wants || !self.flush.waiting.is_empty();
        if !wanted || self.flush.active.is_some() {
            return;
        }
        if self.flush.failed {
            return self.fail_flush_waiters();
        }
        let devices = self.setup.volatile
            & if self.flush.checkpoint_wants { self.setup.extents.all_devices() } else { self.flush.dirty };
        self.flush.wanted = false;
        self.flush.unflushed_bytes = 0;
        self.flush.dirty &= !devices;
        let number = self.flush.submitted;
        self.flush.submitted += 1;
        let on_these = |&(_, device): &(&u64, &usize)| devices & 1 << *device != 0;
        let beside = self.flush.move_flushes.iter().filter(on_these).map(|(&number, _)| number).collect();
        self.flush.active = Some(Active {
            number,
            devices,
            beside,
            failed: false,
            clients: std::mem::take(&mut self.flush.waiting),
            checkpoint: std::mem::take(&mut self.flush.checkpoint_wants),
        });
        self.stats.counters.flushes += 1;
        for device in 0..self.setup.extents.devices() {
            if devices & 1 << device != 0 {
                self.outbox.send(device, 0, 0, Op::Flush, Pending::Flush { device });
            }
        }
        self.finish_flush();
    }

    fn fail_flush_waiters(&mut self) {
        for id in std::mem::take(&mut self.flush.waiting) {
            self.requests.clients[id as usize].error = Some(RequestError::FlushFailed);
            self.answer(id);
        }
        self.flush.wanted = false;
        if std::mem::take(&mut self.flush.checkpoint_wants) {
            self.checkpoint_flushed(false);
        }
    }

    pub(crate) fn device_flushed(&mut self, device: usize, result: Result<(), IoError>) {
        if let Some(active) = &mut self.flush.active {
            active.devices &= !(1 << device);
            active.failed |= result.is_err();
        }
        if let Err(error) = result {
            self.flush_failed(device, &error);
        }
        self.finish_flush();
    }

    /// A device flush failed: what it covered may be lost, and a device tells of that once. No later flush may claim
    /// success for it, and no more writes are taken that would only be refused their flush.
    pub(crate) fn flush_failed(&mut self, device: usize, error: &IoError) {
        self.flush.failed = true;
        self.stats.counters.flush_errors += 1;
        let what = format!("{}: {error}", self.setup.names[device]);
        self.set_read_only(&format!(
            "a flush failed ({what}); what was written since the last good flush may be lost: check the device, then \
             restart the server, which recovers to what is durable"
        ));
        self.stats.counters.last_flush_error = Some(what);
    }

    /// Ends the flush under way where all its parts are done. A device tells of a lost write once: a flush of a job
    /// beside this one may be the one that hears of it, so its end is waited for.
    pub(crate) fn finish_flush(&mut self) {
        let open = |active: &Active| active.devices != 0 || !active.beside.is_empty();
        if self.flush.active.as_ref().is_none_or(open) {
            return;
        }
        let Some(mut active) = self.flush.active.take() else {
            return;
        };
        active.failed |= self.flush.failed;
        if !active.failed {
            self.know_durable(active.number);
        }
        for id in active.clients {
            if active.failed {
                self.requests.clients[id as usize].error = Some(RequestError::FlushFailed);
            }
            self.answer(id);
        }
        if active.checkpoint {
            self.checkpoint_flushed(!active.failed);
        }
        self.release_durable();
    }

    /// Writes the watermark block when it changed and enough time has passed; never while nothing changes. Durably: no
    /// flush may follow that would make it so.
    pub(crate) fn lazy_watermark(&mut self) {
        let (batch, exceptions) = self.journal.watermark();
        let state = &mut self.flush.watermark;
        let due = self.clock.now_ns().saturating_sub(state.written_at_ns) >= WATERMARK_EVERY_NS;
        if state.busy || !due || (batch, exceptions) == state.written || self.read_only.is_some() {
            return;
        }
        state.busy = true;
        state.written = (batch, exceptions);
        state.written_at_ns = self.clock.now_ns();
        state.serial += 1;
        let watermark = Watermark { epoch: self.journal.epoch(), batch, exceptions, serial: state.serial };
        let offset_bytes = OFFSETS_BYTES[(state.serial % 2) as usize];
        let bytes = Buf::copy_of(&watermark.encode(&self.setup.superblock.pool)).freeze();
        let op = Op::Write { bufs: Vectored::One(bytes), fua: true };
        self.outbox.send(0, offset_bytes, 0, op, Pending::Watermark);
    }
}
