//! The state of an array, its batches of requests to members, and how they end.

use super::chores::Upkeep;
use super::code::Code;
use super::found::FoundRows;
use super::fronts::Fronts;
use super::jobs::{Batch, Held, HostOp, Job, Logged, Next, Rows, Starved, Then};
use super::members::Members;
use super::open_rows::OpenRows;
use super::roster::Roster;
use super::unflushed::Unflushed;
use super::view::ArrayView;
use crate::layout::Id;
use crate::layout::array_shape::Shape;
use crate::mirror::{MemberState, Ranges, gone, numbers_in};
use forebay_block::{Completion, IoError, IoErrorKind, Op, SharedBuf, Vectored};
use slab::Slab;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// How often making rows whole is tried, while all writes wait for it: at a start, and while the array is served (once a second).
const ATTEMPTS_MAX: u8 = 3;
pub(super) const SERVED_ATTEMPTS_MAX: u8 = 30;

/// The state of an array.
pub(super) struct Core {
    pub shape: Shape,
    pub code: Code,
    pub pool: Id,
    pub members: Members,
    pub open: OpenRows,
    pub found: FoundRows,
    /// Rows that were found open, are whole now, and were not written since: their parity is that of what lies there.
    pub settled: BTreeSet<u64>,
    pub fronts: Fronts,
    pub unflushed: Unflushed,
    pub roster: Roster,
    pub upkeep: Upkeep,
    pub view: ArrayView,
    /// Ranges of the device with work in progress that other work must not come between.
    pub locks: Ranges,
    /// What waits for such ranges, in order.
    pub held: VecDeque<Held>,
    /// Parts of writes that wait for a place in the log.
    pub starved: Vec<Starved>,
    /// Parts of writes whose rows are durably in the log. The rows are changed as soon as the label says which members have the entries.
    pub logged: Vec<Logged>,
    /// Discards of bands whose rows the log may still have entries of.
    pub discarding: Vec<(usize, std::ops::Range<u64>)>,
    /// Work that has ended, and is to be continued.
    pub next: VecDeque<Next>,
    pub jobs: Slab<Job>,
    pub ops: Slab<HostOp>,
    pub next_lock: u64,
    /// Number of the newest entry of the log.
    pub sequence: u64,
    /// Number of the newest flush.
    pub flushes: u64,
    /// A flush is in flight, and no other begins meanwhile: a device reports a lost write once, and which of two flushes gets the report
    /// would be open.
    pub is_flushing: bool,
    /// What follows the next flush.
    pub to_flush: Vec<Then>,
    /// The failure of a flush that no host has heard of yet: the next flush of a host returns it.
    pub lost: Option<IoError>,
    /// Whether members have volatile caches.
    pub is_volatile: bool,
    pub done: Vec<Completion>,
    /// Changes that have ended, and are answered once the label is durable.
    pub unanswered: Vec<Completion>,
}

impl Core {
    /// Locks a range; the key unlocks it.
    pub fn lock(&mut self, offset_bytes: u64, len_bytes: u64) -> u64 {
        self.next_lock += 1;
        self.locks.add(offset_bytes, len_bytes, self.next_lock);
        self.next_lock
    }

    /// The range of the device that these rows take.
    pub fn range_of(&self, first: u64, count: u64) -> (u64, u64) {
        (self.shape.row_start_bytes(first), count * self.shape.row_bytes())
    }

    /// Whether no work is in progress in a range, and nothing waits for a part of it.
    pub fn is_free(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        let waits = |held: &Held| {
            let (begin, len) = held.range(&self.shape);
            begin < offset_bytes + len_bytes && offset_bytes < begin + len
        };
        !self.locks.overlap(offset_bytes, len_bytes) && !self.held.iter().any(waits)
    }

    /// Begins writes to members; `then` follows when all have ended. Members that get no writes are left out.
    pub fn write(&mut self, list: Vec<(usize, u64, Vectored<SharedBuf>)>, (stream, fua): (u8, bool), then: Then) {
        let written = self.members.written();
        let list: Vec<_> = list.into_iter().filter(|(member, ..)| written & 1 << member != 0).collect();
        let job = self.jobs.insert(Job::Batch(Batch::new(list.len() + 1, then)));
        for (part, (member, offset_bytes, bufs)) in list.into_iter().enumerate() {
            let op = Op::Write { bufs, fua };
            self.view.count_written(op.len_bytes());
            self.members.send(member, (job, part), (offset_bytes, stream), op);
        }
        // One part stands for this function, as all members may have been left out.
        self.batch_ended(job, None);
    }

    /// Rows were written whole: what lies in volatile caches of them may be lost.
    pub fn written_whole(&mut self, rows: Range<u64>) {
        if self.is_volatile {
            self.unflushed.written(rows);
        }
    }

    /// Whether the parity of a row may belong to something else than lies there.
    pub fn may_be_torn(&self, row: u64) -> bool {
        self.view.is_maybe_torn(row) || self.unflushed.may_be_torn(row)
    }

    /// Flushes all members that get writes, as soon as no other flush is in flight. If the flush in flight fails, this one fails with it:
    /// what it was to cover may be lost.
    pub fn flush(&mut self, then: Then) {
        self.to_flush.push(then);
        self.begin_flush();
    }

    /// Begins the next flush, where there is one to begin.
    pub fn begin_flush(&mut self) {
        if self.is_flushing || self.to_flush.is_empty() {
            return;
        }
        self.is_flushing = true;
        self.flushes += 1;
        self.unflushed.flush_begins();
        let then = Then::Flushed { number: self.flushes, thens: std::mem::take(&mut self.to_flush) };
        let written: Vec<usize> = numbers_in(self.members.written()).collect();
        let job = self.jobs.insert(Job::Batch(Batch::new(written.len() + 1, then)));
        for (part, member) in written.into_iter().enumerate() {
            self.members.send(member, (job, part), (0, 0), Op::Flush);
        }
        self.batch_ended(job, None);
    }

    /// Begins a discard of the same range on all members that support discards.
    pub fn discard(&mut self, (offset_bytes, len_bytes): (u64, u64), then: Then) {
        let discards =
            |member: usize| self.members.list[member].device.as_ref().is_some_and(|device| device.geometry().discards);
        let members: Vec<usize> = numbers_in(self.members.written()).filter(|&member| discards(member)).collect();
        let job = self.jobs.insert(Job::Batch(Batch::new(members.len() + 1, then)));
        for (part, member) in members.into_iter().enumerate() {
            self.members.send(member, (job, part), (offset_bytes, 0), Op::Discard { len_bytes });
        }
        self.batch_ended(job, None);
    }

    /// A part of a batch has ended; with the last part the batch has.
    fn batch_ended(&mut self, job: usize, failure: Option<(usize, IoError)>) {
        let Some(Job::Batch(batch)) = self.jobs.get_mut(job) else { return };
        batch.left -= 1;
        if let Some((member, error)) = failure {
            batch.failed |= 1 << member;
            batch.error = Some(error);
        }
        if batch.left == 0 {
            let Some(Job::Batch(Batch { failed, error, spoiled, then, .. })) = self.jobs.try_remove(job) else {
                return;
            };
            let result = match error {
                // A member that fails a discard keeps its contents, which nobody reads: it is not left behind.
                Some(error) if !then.is_discard() => self.leave(failed, error),
                _ => self.roster.broken().map_or(Ok(()), Err),
            };
            let result = result.and(spoiled.map_or(Ok(()), Err));
            self.next.push_back(Next::Batch(then, result));
        }
    }

    /// A flush has failed: what is being written now, or was written just before, may have been in the caches that lost their contents. No
    /// later flush makes it durable, so these writes fail.
    pub fn spoil(&mut self, error: &IoError) {
        let ops = self.ops.iter_mut().filter(|(_, op)| op.wants_flush);
        ops.for_each(|(_, op)| op.error = Some(error.clone()));
        for (_, job) in self.jobs.iter_mut() {
            if let Job::Batch(batch) = job
                && batch.then.is_flushed_next()
            {
                batch.spoiled = Some(error.clone());
            }
        }
        for next in &mut self.next {
            if let Next::Batch(then, result @ Ok(())) = next
                && then.is_flushed_next()
            {
                *result = Err(error.clone());
            }
        }
    }

    /// A request to a member that is part of a batch has ended.
    pub fn batch_part(&mut self, job: usize, member: usize, result: Result<(), IoError>) {
        self.batch_ended(job, result.err().map(|error| (member, error)));
    }

    /// Leaves members behind that failed what others have done: what they hold is old from now on. Where too few would be left, members
    /// that hold everything stay, and the caller gets the failure.
    ///
    /// # Errors
    /// The failure of one of the members, or why nothing is written any more.
    pub fn leave(&mut self, failed: u32, error: IoError) -> Result<(), IoError> {
        let in_sync = self.members.in_sync();
        let is_enough = (in_sync & !failed).count_ones() as usize >= self.shape.data;
        let leaving = if is_enough { failed } else { failed & !in_sync } & self.members.written();
        if leaving != 0 {
            self.roster.leave(leaving, &error, &mut self.members, &mut self.upkeep);
        }
        let result = if failed & in_sync == 0 || is_enough { Ok(()) } else { Err(error) };
        self.roster.broken().map_or(result, Err)
    }

    /// Leaves members behind that cannot be read, where enough others are left; false where they stay.
    pub fn do_without(&mut self, members: u32, error: IoError) -> bool {
        let others = self.members.in_sync() & !members;
        others.count_ones() as usize >= self.shape.data && self.leave(members, error).is_ok()
    }

    /// Leaves members behind whose contents show that they are none any more, where enough others are left.
    pub fn leave_doubted(&mut self) {
        for (number, why) in self.view.members().take_doubted() {
            self.leave_overwritten(1 << number & self.members.in_sync(), &why);
        }
    }

    /// Leaves such members behind; false where too few others would be left: then all of them stay.
    pub fn leave_overwritten(&mut self, members: u32, why: &str) -> bool {
        let is_left = members == 0 || self.roster.broken().is_none() && self.do_without(members, gone("read"));
        for number in numbers_in(members).filter(|_| is_left) {
            self.view.members().set_member(number, MemberState::Out, Some(why.to_owned()));
        }
        is_left
    }

    /// A part of a host's change has ended.
    pub fn op_part_ended(&mut self, op: usize, result: Result<(), IoError>) {
        let Some(host) = self.ops.get_mut(op) else { return };
        host.left -= 1;
        if let Err(error) = result {
            host.error = Some(error);
        }
        if host.left == 0 && host.error.is_none() && std::mem::take(&mut host.wants_flush) {
            host.left = 1;
            self.flush(Then::Durable { op });
        } else if host.left == 0 {
            let HostOp { tag, lock, error, .. } = self.ops.remove(op);
            self.locks.remove(lock);
            self.answer(tag, error.map_or(Ok(()), Err));
        }
    }

    /// Answers a change, or keeps the answer until the label is durable.
    pub fn answer(&mut self, tag: u64, result: Result<(), IoError>) {
        let completion = Completion { tag, result, bufs: None };
        if self.roster.holds_answers() {
            self.unanswered.push(completion);
        } else {
            self.done.push(completion);
        }
    }

    /// Gives the answers that waited for the label.
    pub fn answer_held(&mut self) {
        if self.unanswered.is_empty() || self.roster.holds_answers() {
            return;
        }
        let broken = self.roster.broken();
        self.done.extend(self.unanswered.drain(..).map(|completion| match &broken {
            Some(error) => Completion { result: Err(error.clone()), ..completion },
            None => completion,
        }));
    }

    /// Work of the array itself has ended. Work that failed is not tried again at once, and not for ever where all writes wait for it.
    pub fn own_work_ended(&mut self, result: &Result<(), IoError>) {
        let Err(error) = result else { return };
        self.upkeep.pause.begin(self.view.now_ns());
        if self.is_settling() {
            let most = if self.upkeep.is_served { SERVED_ATTEMPTS_MAX } else { ATTEMPTS_MAX };
            self.roster.not_settled(error, most);
        }
    }

    /// A row's place in the log is not needed any more once what was written until now is durable.
    pub fn retire(&mut self, slot: u32, row: u64) {
        let flush = self.next_flush();
        self.open.retire(slot, row, flush);
    }

    /// Closes a row: its entry in the log is not needed any more once what was written until now is durable.
    pub fn close(&mut self, row: u64) {
        if let Some(slot) = self.open.close(row) {
            self.retire(slot, row);
        }
    }

    /// The first flush that makes durable what was written until now; 0, so any flush, where it is durable already.
    pub fn next_flush(&self) -> u64 {
        if self.is_volatile { self.flushes + 1 } else { 0 }
    }

    /// Whether changes wait until the rows that were found open are whole and the log has nothing left of them.
    pub fn is_settling(&self) -> bool {
        self.upkeep.is_settling || self.upkeep.doubt.is_some()
    }

    /// Whether blocks that members cannot read are written again; not where the array is only read.
    pub fn mends(&self) -> bool {
        self.view.is_begun() && self.roster.broken().is_none()
    }

    /// Whether something lives in a row whose own parity counts, as the log has nothing of the row.
    fn has_parity(&self, row: u64) -> bool {
        self.fronts.living(row) != 0 && self.open.get(row).is_none() && !self.found.has(row)
    }

    /// The failure where something that was read of a row contradicts the rest of it.
    pub fn misfit(&self, row: u64, images: &[Option<Vec<u8>>]) -> Option<IoError> {
        let offset_bytes = self.shape.row_start_bytes(row);
        let is_unfit = self.has_parity(row) && !self.code.fits(images);
        is_unfit.then(|| IoError { kind: IoErrorKind::Mismatch, offset_bytes, ..gone("read") })
    }

    /// The failure where what was read of a row was compared with no parity, or with less than there is: because the missing blocks take up
    /// all of its parity, or because reads failed and nothing is written again. `rows`: as they were read.
    pub fn not_compared(&self, row: u64, images: &[Option<Vec<u8>>], rows: &Rows) -> Option<IoError> {
        let offset_bytes = self.shape.row_start_bytes(row);
        if rows.failed != 0 {
            // Where such blocks are written again, the comparison waits for that.
            let away = || if self.roster.broken().is_some() { Some(gone("read")) } else { rows.away.clone() };
            return (!self.mends()).then(|| away().unwrap_or_else(|| self.unreadable(row)));
        }
        let missing = images.iter().filter(|image| image.is_none()).count();
        let is_in_vain = self.has_parity(row) && missing >= self.shape.parity;
        is_in_vain.then(|| IoError { kind: IoErrorKind::Unsupported, offset_bytes, ..gone("comparison with parity") })
    }

    /// The failure of a row that cannot be read.
    pub fn unreadable(&self, row: u64) -> IoError {
        let offset_bytes = self.shape.row_start_bytes(row);
        IoError { kind: IoErrorKind::Medium, offset_bytes, ..gone("read") }
    }
}
