//! Flushes: waiting ones share one that was not yet submitted, and it goes to those devices only that hold
//! acknowledged data which is not yet durable.

use super::outbox::{Outbox, Pending};
use super::setup::Setup;
use crate::journal::Journal;
use forebay_block::Op;
use std::collections::BTreeMap;
use std::sync::Arc;

/// State of flushing.
pub(crate) struct Flushes {
    setup: Arc<Setup>,
    /// Devices holding completed writes that no submitted flush covers, one bit each.
    dirty: u32,
    /// Clients waiting for a flush not yet submitted.
    waiting: Vec<u32>,
    /// The engine itself wants a flush, to make space or window free.
    is_wanted: bool,
    /// The checkpoint wants one of all devices.
    checkpoint_wants: bool,
    /// The flush in flight.
    active: Option<Active>,
    /// Flushes of jobs in flight: number and device.
    job_flushes: BTreeMap<u64, usize>,
    next_job_flush: u64,
    submitted: u64,
    /// Data written since the last flush was submitted.
    unflushed_bytes: u64,
    /// A device flush failed: no later one may claim success for what it covered.
    has_failed: bool,
}

#[derive(Debug)]
struct Active {
    number: u64,
    /// Devices whose flush has not ended, one bit each.
    devices: u32,
    /// Flushes of jobs that were in flight beside it on the same devices.
    beside: Vec<u64>,
    failed: bool,
    clients: Vec<u32>,
    checkpoint: bool,
}

/// What a client that asks for a flush gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The answer comes with the end of a flush.
    Waits,
    /// All that was acknowledged is durable.
    IsDurable,
    /// No flush may claim success any more.
    Failed,
}

/// A flush ended, or cannot be begun.
#[must_use]
pub(crate) struct Ended {
    pub failed: bool,
    /// Who waits for it.
    pub clients: Vec<u32>,
    /// Whether the checkpoint does.
    pub checkpoint: bool,
}

impl Flushes {
    /// Nothing was written yet.
    pub fn new(setup: Arc<Setup>) -> Self {
        Self {
            setup,
            dirty: 0,
            waiting: Vec::new(),
            is_wanted: false,
            checkpoint_wants: false,
            active: None,
            job_flushes: BTreeMap::new(),
            next_job_flush: 0,
            submitted: 0,
            unflushed_bytes: 0,
            has_failed: false,
        }
    }

    /// Data was sent to a device's cache.
    pub fn sent(&mut self, bytes: u64) {
        self.unflushed_bytes += bytes;
    }

    /// A write to a device's cache completed.
    pub fn written(&mut self, device: usize) {
        self.dirty |= 1 << device;
    }

    /// Flushes submitted so far; a batch that completes now is covered by the next one.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Whether a device flush failed: what it covered may be lost, and a device says so once. No later flush may claim
    /// success for it.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// A device flush failed.
    pub fn fail(&mut self) {
        self.has_failed = true;
    }

    /// The engine needs durability itself.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// The checkpoint needs all devices flushed.
    pub fn want_all(&mut self) {
        self.checkpoint_wants = true;
    }

    /// A host asks for a flush (or a change of it is to be durable).
    pub fn ask(&mut self, client: u32, journal: &mut Journal) -> Asked {
        if self.has_failed {
            return Asked::Failed;
        }
        if self.setup.options.faults.flush_is_no_op() {
            return Asked::IsDurable;
        }
        if self.dirty & self.setup.volatile != 0 {
            self.waiting.push(client);
            return Asked::Waits;
        }
        if let Some(active) = &mut self.active {
            // All that was acknowledged is covered by the flush in flight.
            active.clients.push(client);
            return Asked::Waits;
        }
        self.know_durable(self.submitted, journal);
        Asked::IsDurable
    }

    /// What was complete before flush `number` was submitted is durable. Where no volatile cache holds anything, so is all
    /// that is complete: data that went past any cache may end after the flush that covered its record, and no other
    /// flush would ever be needed to say so.
    fn know_durable(&self, number: u64, journal: &mut Journal) {
        let is_clean = self.dirty & self.setup.volatile == 0;
        journal.flushed(if is_clean { self.submitted } else { number });
    }

    fn is_due(&self) -> bool {
        self.active.is_none() && (self.is_wanted || self.checkpoint_wants || !self.waiting.is_empty())
    }

    /// Starts the next flush where one is wanted and none is in flight; true where one began.
    pub fn begin(&mut self, journal: &Journal, outbox: &mut Outbox) -> bool {
        if journal.unflushed_bytes() > journal.window_bytes() / 2
            || self.unflushed_bytes > self.setup.options.unflushed_limit_bytes
        {
            self.is_wanted = true;
        }
        if !self.is_due() || self.has_failed {
            return false;
        }
        let devices =
            self.setup.volatile & if self.checkpoint_wants { self.setup.extents.all_devices() } else { self.dirty };
        self.is_wanted = false;
        self.unflushed_bytes = 0;
        self.dirty &= !devices;
        let number = self.submitted;
        self.submitted += 1;
        let on_these = |&(_, device): &(&u64, &usize)| devices & 1 << *device != 0;
        let beside = self.job_flushes.iter().filter(on_these).map(|(&number, _)| number).collect();
        self.active = Some(Active {
            number,
            devices,
            beside,
            failed: false,
            clients: std::mem::take(&mut self.waiting),
            checkpoint: std::mem::take(&mut self.checkpoint_wants),
        });
        for device in 0..self.setup.extents.devices() {
            if devices & 1 << device != 0 {
                outbox.send(device, 0, 0, Op::Flush, Pending::Flush { device });
            }
        }
        true
    }

    /// Clients of a flush that cannot be begun any more.
    pub fn refuse(&mut self) -> Option<Ended> {
        if !self.is_due() || !self.has_failed {
            return None;
        }
        self.is_wanted = false;
        let clients = std::mem::take(&mut self.waiting);
        Some(Ended { failed: true, clients, checkpoint: std::mem::take(&mut self.checkpoint_wants) })
    }

    /// One device's part of the flush in flight ended; one that failed is to be noted by [`Flushes::fail`], too.
    pub fn device_flushed(&mut self, device: usize, is_good: bool) {
        if let Some(active) = &mut self.active {
            active.devices &= !(1 << device);
            active.failed |= !is_good;
        }
    }

    /// Ends the flush in flight where all its parts are done. A device tells of a lost write once: a flush of a job
    /// beside this one may be the one that hears of it, so its end is waited for.
    pub fn end(&mut self, journal: &mut Journal) -> Option<Ended> {
        let Active { number, failed, clients, checkpoint, .. } =
            self.active.take_if(|active| active.devices == 0 && active.beside.is_empty())?;
        let failed = failed || self.has_failed;
        if !failed {
            self.know_durable(number, journal);
        }
        Some(Ended { failed, clients, checkpoint })
    }

    /// A job flushes a device; returns the number of the flush.
    pub fn job_flush_begins(&mut self, device: usize) -> u64 {
        self.next_job_flush += 1;
        let number = self.next_job_flush;
        self.job_flushes.insert(number, device);
        if let Some(active) = self.active.as_mut().filter(|active| active.devices & 1 << device != 0) {
            active.beside.push(number);
        }
        number
    }

    /// A job's flush has ended.
    pub fn job_flush_ended(&mut self, number: u64) {
        self.job_flushes.remove(&number);
        if let Some(active) = &mut self.active {
            active.beside.retain(|&other| other != number);
        }
    }
}
