//! Flushes. Clients that wait share the next flush, which goes only to devices that hold acknowledged data which is not
//! yet durable.

use super::losses::Losses;
use super::outbox::{Outbox, Pending};
use super::setup::Setup;
use crate::journal::Journal;
use forebay_block::Op;
use std::collections::BTreeMap;
use std::sync::Arc;

/// State of flushing.
pub(crate) struct Flushes {
    setup: Arc<Setup>,
    /// Devices with completed writes that no submitted flush covers, one bit each.
    dirty: u32,
    /// Clients waiting for a flush not yet submitted.
    waiting: Vec<u32>,
    /// The engine itself wants a flush, to free space or room in the journal's window.
    is_wanted: bool,
    /// The checkpoint wants a flush of all devices.
    checkpoint_wants: bool,
    /// The flush in flight.
    active: Option<Active>,
    /// Flushes of jobs, by number.
    job_flushes: BTreeMap<u64, JobFlush>,
    next_job_flush: u64,
    submitted: u64,
    /// Bytes written since the last flush was submitted.
    unflushed_bytes: u64,
    /// Why a device flush failed, if one did: until what it covered was written again, no later flush may report
    /// success for it.
    failure: Option<String>,
    /// Flushes that have failed since the start.
    failures: u64,
    /// All that the failed flush covered was written again: the next flush is of all devices.
    is_retry_due: bool,
    /// Acknowledged blocks that were not there any more when they were to be written again.
    pub losses: Losses,
}

#[derive(Debug)]
struct Active {
    number: u64,
    /// Devices that it goes to, one bit each.
    covers: u32,
    /// Those of `covers` whose flush has not ended.
    devices: u32,
    /// Flushes of jobs on the same devices that are in flight beside it.
    beside: Vec<u64>,
    failed: bool,
    /// It follows a failed flush, and covers all that was written again.
    is_retry: bool,
    /// How many summaries had arrived when it began.
    summaries: u64,
    clients: Vec<u32>,
    checkpoint: bool,
}

/// A flush of a job: in flight, or over and waiting for the outcome of others.
#[derive(Debug)]
struct JobFlush {
    job: u32,
    device: usize,
    summaries: u64,
    is_over: bool,
    /// Flushes of other jobs on its device that were in flight when it was over.
    beside: Vec<u64>,
    /// The same for the flush of hosts, by its number.
    beside_active: Option<u64>,
}

/// What a client that asks for a flush gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The answer comes with the end of a flush.
    Waits,
    /// All that was acknowledged is durable.
    IsDurable,
    /// A flush has failed, and what it covered is not written again yet.
    Failed,
}

/// A flush that has ended, or cannot begin.
#[must_use]
pub(crate) struct Ended {
    pub failed: bool,
    /// Clients that wait for it.
    pub clients: Vec<u32>,
    /// Whether the checkpoint waits for it.
    pub checkpoint: bool,
    /// Whether it was the flush after a failed one.
    pub is_retry: bool,
    /// What it made durable.
    pub covered: Option<Covered>,
}

/// The summaries in bands that a flush made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered {
    /// Devices, one bit each.
    pub devices: u32,
    /// How many summaries had arrived when the flush began.
    pub summaries: u64,
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
            failure: None,
            failures: 0,
            is_retry_due: false,
            losses: Losses::default(),
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

    /// Whether a device flush failed: what it covered may be lost, and a device reports that only once. No later flush
    /// may report success for it before it was written again.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Why it failed, for clients whose changes are refused.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Flushes that have failed since the start.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// A device flush failed. The flush in flight may cover the same data, so it fails too.
    pub fn fail(&mut self, why: String) {
        self.failure = Some(why);
        self.failures += 1;
        if let Some(active) = &mut self.active {
            active.failed = true;
        }
    }

    /// All that a failed flush covered was written again.
    pub fn retry(&mut self) {
        self.is_retry_due = true;
    }

    /// Takes out the clients that `is_taken` selects of those that wait for a flush which has not begun.
    pub fn take_waiting(&mut self, is_taken: impl Fn(u32) -> bool) -> Vec<u32> {
        self.waiting.extract_if(.., |client| is_taken(*client)).collect()
    }

    /// Whether a flush of a device is in flight.
    pub fn is_in_flight(&self, device: usize) -> bool {
        self.active.as_ref().is_some_and(|active| active.devices & 1 << device != 0)
            || self.job_flushes.values().any(|flush| flush.device == device && !flush.is_over)
    }

    /// The engine itself needs a flush.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// The checkpoint needs all devices flushed.
    pub fn want_all(&mut self) {
        self.checkpoint_wants = true;
    }

    /// A host asks for a flush, or for one of its changes to be durable. `clients_wait`: after a failed flush the client waits for the flush that makes up for
    /// it, and is not refused.
    pub fn ask(&mut self, client: u32, clients_wait: bool, journal: &mut Journal) -> Asked {
        if self.failure.is_some() {
            if !clients_wait {
                return Asked::Failed;
            }
            self.waiting.push(client);
            return Asked::Waits;
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

    /// Notes as durable what was complete before flush `number` was submitted. Where no volatile cache holds anything, all that is complete is durable: data
    /// written past the caches may complete after the flush that covered its record, and no other flush would ever be needed to note it.
    fn know_durable(&self, number: u64, journal: &mut Journal) {
        let is_clean = self.dirty & self.setup.volatile == 0;
        journal.flushed(if is_clean { self.submitted } else { number });
    }

    /// These devices have more summaries that no flush covers than are to be kept in memory.
    pub fn want_devices(&mut self, devices: u32) {
        // A flush in flight covers most of them.
        if self.active.is_none() {
            self.dirty |= devices;
            self.is_wanted = true;
        }
    }

    fn is_due(&self) -> bool {
        self.active.is_none() && (self.is_wanted || self.checkpoint_wants || !self.waiting.is_empty())
    }

    /// Starts the next flush where one is wanted and none is in flight; true where one began. `summaries`: how many have
    /// arrived so far.
    pub fn begin(&mut self, summaries: u64, journal: &Journal, outbox: &mut Outbox) -> bool {
        if journal.unflushed_bytes() > journal.window_bytes() / 2
            || self.unflushed_bytes > self.setup.options.unflushed_limit_bytes
        {
            self.is_wanted = true;
        }
        let is_retry = std::mem::take(&mut self.is_retry_due);
        if !is_retry && (!self.is_due() || self.failure.is_some()) {
            return false;
        }
        let is_of_all = self.checkpoint_wants || is_retry;
        let devices = self.setup.volatile & if is_of_all { self.setup.extents.all_devices() } else { self.dirty };
        self.is_wanted = false;
        self.unflushed_bytes = 0;
        self.dirty &= !devices;
        let number = self.submitted;
        self.submitted += 1;
        let on_these = |&(_, flush): &(&u64, &JobFlush)| !flush.is_over && devices & 1 << flush.device != 0;
        let beside = self.job_flushes.iter().filter(on_these).map(|(&number, _)| number).collect();
        self.active = Some(Active {
            number,
            devices,
            beside,
            covers: devices,
            failed: false,
            is_retry,
            summaries,
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

    /// Refuses a flush that cannot begin: to the checkpoint, which would keep what the failed flush covered from being
    /// written again, and to clients, unless they are to wait.
    pub fn refuse(&mut self, clients_wait: bool) -> Option<Ended> {
        if !self.is_due() || self.failure.is_none() {
            return None;
        }
        self.is_wanted = false;
        let clients = if clients_wait { Vec::new() } else { std::mem::take(&mut self.waiting) };
        let checkpoint = std::mem::take(&mut self.checkpoint_wants);
        if clients.is_empty() && !checkpoint {
            return None;
        }
        Some(Ended { failed: true, clients, checkpoint, is_retry: false, covered: None })
    }

    /// One device's part of the flush in flight ended. For one that failed, [`Flushes::fail`] is to be called, too.
    pub fn device_flushed(&mut self, device: usize) {
        let Some(active) = &mut self.active else { return };
        active.devices &= !(1 << device);
        for flush in self.job_flushes.values_mut().filter(|flush| flush.device == device) {
            flush.beside_active.take_if(|number| *number == active.number);
        }
    }

    /// Ends the flush in flight where all its parts are done. A device reports a lost write only once, and a flush of a job beside this one may be the one that
    /// gets the report, so its end is waited for. `looks_again`: not all that a failed flush covered was written again before this one.
    pub fn end(&mut self, looks_again: bool, journal: &mut Journal) -> Option<Ended> {
        let Active { number, covers, failed, is_retry, summaries, clients, checkpoint, .. } =
            self.active.take_if(|active| active.devices == 0 && active.beside.is_empty())?;
        let failed = failed || is_retry && looks_again;
        let mut covered = None;
        if !failed {
            self.failure = None;
            self.know_durable(number, journal);
            covered = Some(Covered { devices: covers, summaries });
        }
        Some(Ended { failed, clients, checkpoint, is_retry, covered })
    }

    /// A job flushes a device; returns the number of the flush. `summaries`: how many have arrived so far.
    pub fn job_flush_begins(&mut self, job: u32, device: usize, summaries: u64) -> u64 {
        self.next_job_flush += 1;
        let number = self.next_job_flush;
        let (beside, beside_active) = (Vec::new(), None);
        self.job_flushes.insert(number, JobFlush { job, device, summaries, is_over: false, beside, beside_active });
        if let Some(active) = self.active.as_mut().filter(|active| active.devices & 1 << device != 0) {
            active.beside.push(number);
        }
        number
    }

    /// A job's flush is over; for one that failed, [`Flushes::fail`] was called before. Other flushes of its device in
    /// flight may get the report of a lost write that this one covered too: [`Flushes::decided`] returns it when they
    /// are over.
    pub fn job_flush_ended(&mut self, number: u64) {
        let Some(device) = self.job_flushes.get(&number).map(|flush| flush.device) else { return };
        let others = self
            .job_flushes
            .iter()
            .filter(|&(&other, flush)| other != number && flush.device == device && !flush.is_over);
        let beside = others.map(|(&other, _)| other).collect();
        let active = self.active.as_ref().filter(|active| active.devices & 1 << device != 0);
        let beside_active = active.map(|active| active.number);
        if let Some(flush) = self.job_flushes.get_mut(&number) {
            (flush.is_over, flush.beside, flush.beside_active) = (true, beside, beside_active);
        }
        self.job_flushes.values_mut().for_each(|flush| flush.beside.retain(|&other| other != number));
        if let Some(active) = &mut self.active {
            active.beside.retain(|&other| other != number);
        }
    }

    /// A job's flush whose outcome is known: its job, and what it made durable (`None` where a flush has failed).
    pub fn decided(&mut self) -> Option<(u32, Option<Covered>)> {
        let is_decided = |flush: &JobFlush| flush.is_over && flush.beside.is_empty() && flush.beside_active.is_none();
        let number = self.job_flushes.iter().find(|(_, flush)| is_decided(flush)).map(|(&number, _)| number)?;
        let JobFlush { job, device, summaries, .. } = self.job_flushes.remove(&number)?;
        Some((job, self.failure.is_none().then_some(Covered { devices: 1 << device, summaries })))
    }
}
