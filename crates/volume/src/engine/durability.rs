//! What follows when a flush or the write of a batch ends: who is answered, what may be used again, and what a failure
//! means for the pool; and how far checkpoints are.

use super::checkpoint::Checkpoint;
use super::flush::{Asked, Ended};
use super::migrate::job_of_waiter;
use super::requests::ClientKind;
use super::rewrite::{Lost, Step};
use super::{Engine, batches, release};
use crate::journal::Sealed;
use crate::request::RequestError;
use forebay_block::{DiskId, IoError};
use std::collections::BTreeSet;

impl Engine {
    /// Asks for a checkpoint as soon as possible. `clean`: nothing will follow it in the journal, where nothing is in progress when it begins.
    pub fn request_checkpoint(&mut self, clean: bool) {
        self.checkpoint.request(clean);
    }

    /// The pool is to be stopped: nothing begins by itself any more, and the list of copies is written where it is old.
    pub fn begin_stop(&mut self) {
        // A pass of these that ended now would ask for another checkpoint, after the clean one.
        self.scrub.leisure.end();
        self.adoption.leisure.end();
        self.migrate.pause_all(true);
        self.hurry_list();
    }

    /// Whether nothing follows the last root in the journal.
    #[must_use]
    pub fn is_root_clean(&self) -> bool {
        self.checkpoint.is_root_clean
    }

    /// Whether nothing is in progress that would write to the journal behind a clean checkpoint.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        !self.hurries_list() && !self.migrate.has_jobs() && self.requests.pieces.is_empty()
    }

    /// Checkpoints given up since the start.
    #[must_use]
    pub fn checkpoints_given_up(&self) -> u64 {
        self.stats.counters.checkpoint_errors
    }

    /// Number of the last durable checkpoint.
    #[must_use]
    pub fn checkpoint_number(&self) -> u64 {
        self.checkpoint.roots.number()
    }

    /// Whether the last checkpoint failed because the root has no room for the map.
    pub(crate) fn is_root_full(&self) -> bool {
        self.checkpoint.roots.is_too_small()
    }

    /// Whether a checkpoint is wanted or in progress.
    #[must_use]
    pub fn checkpoint_pending(&self) -> bool {
        self.checkpoint.is_pending()
    }

    /// Whether a flush failed, and what it covered is not made good yet, but will be. False where the pool takes no more writes for another reason.
    #[must_use]
    pub fn has_flush_failed(&self) -> bool {
        self.flushes.has_failed() && self.read_only.is_none()
    }

    /// After a failed flush: what it covered is written again as soon as possible, for callers that do not set the
    /// clock.
    pub(crate) fn hurry_to_make_good(&mut self) {
        self.rewriter.hurry();
    }

    /// A client begins that may write to this disk, or to none. Returns the number that its requests bear. Each session that may have lost blocks learns of it
    /// by a failed flush of its own.
    pub fn begin_session(&mut self, disk: Option<DiskId>) -> u64 {
        self.flushes.losses.begin_session(disk, self.clock.now_ns())
    }

    /// A client has ended: answers to its requests reach nobody from now on.
    pub fn end_session(&mut self, session: u64) {
        self.flushes.losses.end_session(session, self.clock.now_ns());
    }

    /// Acknowledged blocks of these disks may not be durable, whatever is flushed: one flush of each client fails.
    pub(crate) fn record_losses_before(&mut self, Lost { count, disks }: Lost) {
        self.stats.counters.flush_lost_blocks += count;
        self.adoption.keep(disks.iter().copied());
        self.flushes.losses.record_before(disks);
    }

    /// Whether the last attempt at a checkpoint was given up, or a flush has failed.
    #[must_use]
    pub fn checkpoint_failed(&self) -> bool {
        self.flushes.has_failed() || self.checkpoint.is_put_off(self.clock.now_ns())
    }

    /// Why the data that the capacity tier needs to be opened alone cannot be written, and what that means; `None`
    /// where it can.
    #[must_use]
    pub fn capacity_side_error(&self) -> Option<String> {
        self.checkpoint.capacity.describe_error()
    }

    /// Whether the last attempt at a checkpoint was given up because of what it writes to the capacity tier. One of the
    /// next attempts does without that.
    #[must_use]
    pub fn capacity_side_failed(&self) -> bool {
        self.checkpoint_failed() && self.checkpoint.is_given_up_by_capacity()
    }

    /// Whether the last attempt at a checkpoint failed, and the next leaves out the policy's state, which may have been
    /// the cause.
    pub(crate) fn checkpoint_may_do_without_policy(&self) -> bool {
        self.checkpoint_failed() && self.checkpoint.roots.may_do_without_policy()
    }

    /// Whether the capacity tier lacks the last checkpoint, and could have the next.
    pub(crate) fn capacity_side_is_behind(&self) -> bool {
        self.checkpoint.capacity.is_behind(self.checkpoint_number())
    }

    /// A host asks for a flush, or for one of its changes to be durable.
    pub(crate) fn client_flush(&mut self, id: u32) {
        match self.flushes.ask(id, self.holds_changes(), &mut self.journal) {
            Asked::Waits => {}
            Asked::Failed => self.answer_flush(id, false),
            Asked::IsDurable => {
                self.release_durable();
                self.answer_flush(id, true);
            }
        }
    }

    /// Answers a client that asked for a flush. Where its disk has lost blocks, one good flush of each client is answered as failed: whoever wrote the blocks
    /// has to learn of it.
    fn answer_flush(&mut self, id: u32, is_good: bool) {
        let Some(client) = self.requests.clients.get_mut(id as usize) else { return };
        // A FUA write says nothing of other writes.
        let is_flush = matches!(client.kind, ClientKind::Flush);
        if !is_good || is_flush && self.flushes.losses.take(client.disk, client.session, self.clock.now_ns()) {
            client.error = Some(RequestError::FlushFailed);
        }
        self.answer(id);
    }

    /// Starts the next flush where one is wanted and none is in flight. After a failed flush, what it covered is
    /// written again first.
    pub(crate) fn flush_step(&mut self) {
        if self.flushes.has_failed() {
            self.rewrite_step();
        }
        if let Some(devices) = self.summaries.crowded_devices(&self.space.bands) {
            self.flushes.want_devices(devices);
        }
        if self.flushes.begin(self.space.bands.groups().arrived(), &self.journal, &mut self.outbox) {
            self.stats.counters.flushes += 1;
            self.end_flush();
        } else if let Some(ended) = self.flushes.refuse(self.holds_changes()) {
            self.flush_ended(ended);
        }
    }

    /// After a failed flush: writes again what it covered, once nothing else is in progress. Where the pool takes no
    /// more writes for another reason, only recovery can find out what its devices hold.
    fn rewrite_step(&mut self) {
        let now_ns = self.clock.now_ns();
        if self.read_only.is_none() && self.rewriter.is_due(now_ns) && self.is_quiet() {
            self.summaries.doubt_unflushed(&mut self.space.bands);
            self.checkpoint.capacity.flush_failed();
            let Checkpoint { pages, capacity, .. } = &self.checkpoint;
            let pages = pages.to_rewrite(&self.map).chain(capacity.to_rewrite());
            self.rewriter.begin(&self.journal, pages.collect());
        }
        match self.rewriter.step(&self.journal, &mut self.outbox, now_ns) {
            Step::Waits => {}
            Step::Flush => self.flushes.retry(),
            Step::LostPage => self.set_read_only(
                "a flush failed, and a map page that it covered is not there any more: restart the server, which makes the map \
                 of the last checkpoint and the journal",
            ),
        }
    }

    /// Whether nothing changes the map, or what devices hold of it, and nothing will while no writes are taken and jobs stand still. A job may wait for a
    /// checkpoint, or for journal room, that only the end of the rewrite brings.
    fn is_quiet(&self) -> bool {
        !self.checkpoint.is_active() && !self.journal.has_open() && self.outbox.is_quiet()
    }

    /// One device's part of the flush in flight ended.
    pub(crate) fn device_flushed(&mut self, device: usize, result: Result<(), IoError>) {
        self.flushes.device_flushed(device);
        if let Err(error) = result {
            self.flush_failed(device, &error);
        }
        self.decide_job_flushes();
        self.end_flush();
    }

    /// A flush that a job needed ended.
    pub(crate) fn destination_flushed(&mut self, number: u64, device: usize, result: Result<(), IoError>) {
        if let Err(error) = result {
            self.flush_failed(device, &error);
        }
        self.flushes.job_flush_ended(number);
        self.decide_job_flushes();
        self.end_flush();
    }

    /// Lets jobs go on whose data is durable, or is not known to be: their flush, or one beside it, has reported a lost
    /// write.
    fn decide_job_flushes(&mut self) {
        if self.awaits_durable_writes() {
            return;
        }
        while let Some((job, covered)) = self.flushes.decided() {
            if let Some(covered) = covered {
                self.summaries.flushed(covered, &mut self.space.bands);
            }
            self.job_flushed(job, covered.is_some());
        }
    }

    /// A durable write of a root header has ended. Where the system flushes the device's cache behind such a write, an error may be the only report of what
    /// else was lost there. Flushes that ended meanwhile have waited for it.
    pub(super) fn durable_write_ended(&mut self, device: usize, result: &Result<(), IoError>) {
        if self.setup.has_durable_writes() {
            return;
        }
        if let Err(error) = result
            && self.setup.flushed_behind & 1 << device != 0
        {
            self.flush_failed(device, error);
        }
        self.decide_job_flushes();
        self.end_flush();
    }

    /// Whether flushes that have ended do not count yet: a durable write in flight may report the loss of what they
    /// covered.
    fn awaits_durable_writes(&self) -> bool {
        !self.setup.has_durable_writes() && self.outbox.durable_writes_in_flight() > 0
    }

    /// Whether changes and flushes wait now: a flush failed a short time ago, and what it covered is being written
    /// again.
    pub(crate) fn holds_changes(&self) -> bool {
        self.read_only.is_none() && self.flushes.has_failed() && self.rewriter.has_failed_lately(self.clock.now_ns())
    }

    /// A device flush failed: no more writes are taken, as their flushes would only be refused.
    fn flush_failed(&mut self, device: usize, error: &IoError) {
        self.stats.counters.flush_errors += 1;
        let what = format!("{}: {error}", self.setup.names[device]);
        self.flushes.fail(format!(
            "a flush failed ({what}); what was written since the last good flush is being written again, and writes are \
             taken when a flush of it succeeds: check the device"
        ));
        self.stats.counters.last_flush_error = Some(what);
        self.rewriter.flush_failed(self.clock.now_ns());
    }

    /// A flush that the engine did not send has failed on a device, with no flush of the engine beside it: what lay in the device's cache may be lost.
    pub fn flush_beside_failed(&mut self, device: usize, error: &IoError) {
        self.flush_failed(device, error);
    }

    /// Ends the flush in flight where all its parts are done.
    pub(crate) fn end_flush(&mut self) {
        if self.awaits_durable_writes() {
            return;
        }
        if let Some(ended) = self.flushes.end(self.rewriter.looks_again(), &mut self.journal) {
            self.flush_ended(ended);
        }
    }

    fn flush_ended(&mut self, Ended { failed, clients, checkpoint, is_retry, covered }: Ended) {
        if let Some(covered) = covered {
            self.summaries.flushed(covered, &mut self.space.bands);
        }
        let mut lost = BTreeSet::new();
        if is_retry && !failed {
            let Lost { count, disks } = self.rewriter.flushed();
            self.stats.counters.flushes_made_good += 1;
            self.stats.counters.flush_lost_blocks += count;
            self.space.changed = true;
            lost = disks;
        } else if is_retry {
            self.rewriter.flush_ended();
        }
        let clients = self.report_losses(lost, clients);
        let waits = is_retry && failed && self.holds_changes();
        for id in clients {
            match waits {
                true => self.client_flush(id),
                false => self.answer_flush(id, !failed),
            }
        }
        if checkpoint {
            self.checkpointing().flushed(!failed);
        }
        self.release_durable();
    }

    /// Fails all that wait for a flush of these disks, and the next flush of each other client of theirs. Returns the clients of other disks in `clients`.
    fn report_losses(&mut self, lost: BTreeSet<DiskId>, clients: Vec<u32>) -> Vec<u32> {
        if lost.is_empty() {
            return clients;
        }
        // The base may have some of the lost blocks: copies of it, and blocks of which hosts wrote a part.
        lost.iter().for_each(|&disk| self.keep_base(disk));
        let all = &self.requests.clients;
        let concerns = |id: u32| all.get(id as usize).is_some_and(|client| lost.contains(&client.disk));
        let (mut failed, others): (Vec<u32>, Vec<u32>) = clients.into_iter().partition(|&id| concerns(id));
        failed.extend(self.flushes.take_waiting(concerns));
        self.flushes.losses.record(lost.iter().copied(), self.clock.now_ns());
        let flushes = failed.iter().filter_map(|&id| all.get(id as usize));
        for client in flushes.filter(|client| matches!(client.kind, ClientKind::Flush)) {
            self.flushes.losses.fails(client.disk, client.session, self.clock.now_ns());
        }
        failed.into_iter().for_each(|id| self.answer_flush(id, false));
        others
    }

    /// Frees space whose records became durable.
    pub(crate) fn release_durable(&mut self) {
        let now_ns = self.clock.now_ns();
        let Self { setup, journal, space, migrate, checkpoint, summaries, outbox, .. } = self;
        release::release(journal.durable(), setup, space, migrate, checkpoint, (summaries, outbox, now_ns));
    }

    /// The write of a journal batch ended: pieces and jobs whose records it holds go on.
    pub(super) fn batch_written(&mut self, sealed: Sealed, attempts: u8, result: Result<(), IoError>) {
        let rooms = (&*self.setup, &mut self.journal, &mut self.flushes, &mut self.outbox);
        let Some((waiters, error)) = batches::written(sealed, attempts, result, rooms) else { return };
        if let Some(error) = &error {
            self.set_read_only(&format!("the journal cannot be written: {error}"));
        }
        for waiter in waiters {
            match job_of_waiter(waiter) {
                Some(job) => self.move_batch_written(job, error.is_none()),
                None => self.batch_of_piece_written(waiter, error.as_ref()),
            }
        }
    }
}
