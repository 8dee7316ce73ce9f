//! The loop that makes the load: one thread, one queue.
//!
//! Each I/O has three time stamps. *Intended*: the scheduled time in an open loop; in a closed loop the time when the
//! slot was free and the I/O was made. *Submitted*: when the submitting call returned, or before the call where the
//! target carries out the I/O within it. *Completed*: when the completion was seen. Submission latency is the time from
//! the first to the second, device latency from the second to the third, total latency the sum: fio's slat, clat and
//! lat (fio HOWTO, "Interpreting the output").

use super::clock::Clock;
use super::drift::DriftMeter;
use super::ledger::{Ledger, WorkerEnd};
use super::load::Load;
use super::pace::Bursts;
use super::share::FINE_NS;
use super::slot::Slot;
use super::thread_use::{Scheduled, ThreadUse};
use super::window::Window;
use crate::job::model::Think;
use crate::pattern::Next;
use crate::telemetry::Record;
use forebay_block::{Done, Io, IoErrorKind, OpKind, Queue, WaitMethod, checksum};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::content::WorkerContent;

/// Longest single sleep in nanoseconds; a stop may be seen this much later.
const SLEEP_MAX_NS: u64 = 50_000_000;
/// Sleep of a thread that waits for the reader of a trace, in nanoseconds.
const LAG_LOOK_NS: u64 = 50_000;
/// A sleeping thread wakes some tens of microseconds late (scheduler; timer slack where it cannot be switched off). So
/// the thread spins for this time, in nanoseconds, before a scheduled I/O.
pub const WAKE_MARGIN_NS: u64 = 150_000;
/// An I/O of an open loop that is submitted later than this, in nanoseconds, although a slot was free, is late because
/// of the tool.
const LATE_NS: u64 = 100_000;
/// How long before the window the scheduler's statistics are read, in nanoseconds.
const MIGRATIONS_LEAD_NS: u64 = 2_000_000;
/// Number of failures in one worker after which the target is given up.
const FAILURES_MAX: u64 = 1000;

/// How an iteration of the worker's loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There was progress, so more may follow at once.
    Moved,
    /// Nothing to do until time passes or an I/O finishes.
    Idle {
        /// Time of that observation, in nanoseconds of the clock.
        now_ns: u64,
    },
    /// The job is over for this worker.
    Over,
}

/// All parts of a worker.
pub struct WorkerParts<Q, C> {
    /// Index of the worker within the group, from 0.
    pub worker: usize,
    /// The queue to the target.
    pub queue: Q,
    /// Most I/Os in flight; at most the queue's slots.
    pub depth: u32,
    /// The clock.
    pub clock: C,
    /// The generator of I/Os and of their times.
    pub load: Load,
    /// Pauses between bursts.
    pub bursts: Bursts,
    /// The application's pauses.
    pub think: Option<Think>,
    /// What is written, and what reads are compared with; `None` where nothing is written or verified.
    pub content: Option<WorkerContent>,
    /// Times of the job.
    pub window: Window,
    /// Most I/Os that the worker may make, and most bytes.
    pub budget: (u64, u64),
    /// The kind of flush that follows writes; it does not count for the budget.
    pub added_flush: Option<OpKind>,
    /// How the worker waits for completions.
    pub wait: WaitMethod,
    /// Submit each I/O by a call of its own.
    pub single_submission: bool,
    /// Ends the run when set by the user.
    pub stop: Arc<AtomicBool>,
    /// Ends the run when set because enough is known.
    pub enough: Arc<AtomicBool>,
    /// What is counted, and to whom it goes.
    pub ledger: Ledger,
}

/// The load of one thread on one queue.
pub struct Worker<Q, C> {
    parts: WorkerParts<Q, C>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots whose application sleeps, with the end of the pause. In order of time, since all pauses have the same
    /// length.
    resting: VecDeque<(u64, u32)>,
    batch: Vec<u32>,
    done: Vec<Done>,
    in_flight: u64,
    /// Since when at least one slot has always been free.
    free_since_ns: u64,
    /// The time before which only I/O needs attention.
    attention_ns: u64,
    /// No more I/Os are made.
    over: bool,
    over_since_ns: u64,
    idle_since_ns: u64,
    /// Scheduler statistics from before the window, if they were read.
    scheduled: Option<Scheduled>,
    use_begin: Option<ThreadUse>,
    use_end: Option<ThreadUse>,
    synchronous: bool,
    /// The host is modelled: virtual time passes between seeing a completion and making the next I/O.
    modelled: bool,
    open: bool,
    drift: DriftMeter,
    end: WorkerEnd,
}

impl<Q: Queue, C: Clock> Worker<Q, C> {
    /// A worker that has not begun.
    pub fn new(mut parts: WorkerParts<Q, C>) -> Self {
        parts.ledger.begin_at(&parts.window);
        let count = parts.depth.min(parts.queue.slots()).max(1);
        Self {
            slots: vec![Slot::EMPTY; count as usize],
            free: (0..count).rev().collect(),
            resting: VecDeque::with_capacity(if parts.think.is_some() { count as usize } else { 0 }),
            batch: Vec::with_capacity(count as usize),
            done: Vec::with_capacity(count as usize),
            in_flight: 0,
            free_since_ns: 0,
            attention_ns: 0,
            over: false,
            over_since_ns: 0,
            idle_since_ns: 0,
            scheduled: None,
            use_begin: None,
            use_end: None,
            synchronous: parts.queue.is_synchronous(),
            modelled: parts.queue.is_modelled(),
            open: parts.load.is_open(),
            drift: DriftMeter::default(),
            end: WorkerEnd { worker: parts.worker, ..WorkerEnd::default() },
            parts,
        }
    }

    /// Whether the run was ended from outside, by the user or because enough is known.
    pub fn is_stopped(&self) -> bool {
        self.parts.stop.load(Ordering::Relaxed) || self.parts.enough.load(Ordering::Relaxed)
    }

    /// Makes the load until the job is over, then sends the final report.
    pub fn run(mut self) {
        if self.open {
            // Linux lets an ordinary thread sleep up to 50 us longer, to combine wake-ups (PR_SET_TIMERSLACK(2const)).
            // If it refuses, the margin below must do.
            let _ = nix::sys::prctl::set_timerslack(1);
        }
        loop {
            match self.turn() {
                Turn::Moved => {}
                Turn::Idle { now_ns } => self.wait(now_ns),
                Turn::Over => break,
            }
        }
        self.finish_run();
    }

    /// One iteration: everything that can be done without waiting.
    #[inline]
    pub fn turn(&mut self) -> Turn {
        let (mut now, mut moved) = (0, false);
        if self.in_flight > 0 {
            self.parts.queue.reap(&mut self.done);
            if !self.done.is_empty() {
                now = self.parts.clock.now_ns();
                self.finish(now);
                moved = true;
                if self.modelled {
                    self.parts.queue.go_on();
                    now = self.parts.clock.now_ns();
                }
            }
        }
        if !self.over {
            // In a closed loop the next I/O is wanted when the one before ends. A new time stamp is needed only if
            // something happened in between, or if time itself decides.
            if !moved || self.open || self.parts.think.is_some() {
                now = self.parts.clock.now_ns();
            }
            moved |= self.issue(now);
        }
        if moved {
            self.idle_since_ns = now;
            return Turn::Moved;
        }
        if self.over && self.in_flight == 0 {
            return Turn::Over;
        }
        self.look_at_time()
    }

    /// Without progress: handles what depends on time alone.
    fn look_at_time(&mut self) -> Turn {
        let now = self.parts.clock.now_ns();
        let waits = self.free.is_empty() && self.resting.is_empty();
        let stuck = waits && self.parts.window.stop_ns == u64::MAX;
        self.parts.ledger.spill_if_due(now);
        if self.is_stopped() && !self.end.interrupted {
            // Also where the job is over by itself and an I/O hangs: the result ends here.
            self.interrupt(now);
            self.over_since_ns = now;
        }
        // A watch that knows enough does not wait for an answer; a user does.
        let interrupted = self.parts.stop.load(Ordering::Relaxed);
        if stuck && now > Window::drain_until_ns(self.idle_since_ns, interrupted) {
            self.stop(self.idle_since_ns);
        }
        if self.over && now > Window::drain_until_ns(self.over_since_ns, interrupted) {
            self.parts.ledger.end_depth(self.over_since_ns);
            self.end.hung = self.in_flight as u32;
            return Turn::Over;
        }
        self.parts.ledger.rotate_if_due(now);
        Turn::Idle { now_ns: now }
    }

    /// Makes the I/Os that are due at `now`; true if there were any.
    fn issue(&mut self, now: u64) -> bool {
        if self.is_stopped() {
            self.interrupt(now);
            return false;
        }
        if now >= self.attention_ns {
            self.attend(now);
            if self.over {
                return false;
            }
        }
        if !self.resting.is_empty() {
            self.wake_rested(now);
        }
        let (mut created, mut made) = (now, false);
        while let Some(&slot) = self.free.last() {
            let Some((due, next)) = self.take_due(created) else { break };
            // Closed loop: intended since the slots were free, even if others were submitted in between.
            let intended = if self.open { due } else { now.max(due).max(self.parts.bursts.resume_ns) };
            let measured = self.parts.window.measures(intended);
            // I/Os that the warm-up left waiting take the target's time in the measurement, and are served in it.
            let begin_ns = self.parts.window.begin_ns;
            let is_backlog = self.open && intended < begin_ns && created >= begin_ns;
            self.parts.bursts.take();
            self.spend(&next, (measured, is_backlog), created);
            self.free.pop();
            if let Some(content) = &mut self.parts.content {
                content.before(slot, &next, self.parts.queue.buffer(slot));
            }
            if self.synchronous || self.parts.ledger.share.drift.is_some() {
                // Latency begins before the call that carries out the I/O; the drift of a replay is measured at that
                // call too.
                created = self.parts.clock.now_ns();
            }
            if let Some(drift) = &mut self.parts.ledger.share.drift {
                self.drift.note(due, created, drift);
            }
            self.in_flight += 1;
            self.parts.ledger.begun(created, measured || is_backlog);
            self.slots[slot as usize] = Slot {
                intended_ns: intended,
                created_ns: created,
                submitted_ns: created,
                offset_bytes: next.offset_bytes,
                len_bytes: next.len_bytes,
                depth: Record::clamp_depth(self.in_flight),
                kind: next.kind,
                measured,
                is_backlog,
            };
            if self.open && measured && created.saturating_sub(due) > LATE_NS {
                self.parts.ledger.share.no_slot += u64::from(self.free_since_ns > due);
                self.parts.ledger.share.late +=
                    u64::from(created.saturating_sub(due.max(self.free_since_ns)) > LATE_NS);
            }
            let Next { kind, offset_bytes, len_bytes, hint } = next;
            let io = Io { slot, kind, len_bytes, offset_bytes, hint };
            self.parts.queue.submit(&io);
            if self.synchronous {
                // The next I/O must wait until the completion of this one has been seen.
                return true;
            }
            made = true;
            if self.parts.single_submission {
                self.parts.queue.kick();
                // The next I/O is made at once, so this stamp serves for it too.
                created = self.parts.clock.now_ns();
                self.slots[slot as usize].submitted_ns = created;
            } else {
                self.batch.push(slot);
            }
        }
        if !self.batch.is_empty() {
            self.submit();
        }
        made
    }

    /// The next I/O and when it was due, where that is at `created` or before. Ends the load where there are no more.
    #[inline]
    fn take_due(&mut self, created: u64) -> Option<(u64, Next)> {
        self.parts.load.claim();
        let due = self.parts.load.due_ns();
        let stop_ns = self.parts.window.stop_ns;
        // A schedule may have no more I/Os long before the end of the job, or at all; so may a trace.
        if due == u64::MAX || self.open && due >= stop_ns && created >= stop_ns {
            // The end of a trace ends the job, whatever time is left.
            self.end.spent |= due == u64::MAX;
            self.stop(created);
            return None;
        }
        if due > created || self.parts.bursts.resume_ns > created {
            return None;
        }
        if self.parts.budget.0 == 0 || self.parts.budget.1 == 0 {
            self.end.spent = true;
            self.stop(created);
            return None;
        }
        Some((due, self.parts.load.take()?))
    }

    /// Counts an I/O that is about to be submitted, in what the worker may make and in what it has made.
    #[inline]
    fn spend(&mut self, next: &Next, (measured, is_backlog): (bool, bool), created: u64) {
        if measured {
            self.parts.budget.0 -= u64::from(self.parts.added_flush != Some(next.kind));
            self.parts.budget.1 = self.parts.budget.1.saturating_sub(u64::from(next.len_bytes));
            self.end.issued += 1;
        }
        if measured || is_backlog {
            self.end.backlog += u64::from(is_backlog);
            self.end.ended_ns = created;
        }
    }

    /// Frees the slots whose pause is over at `now`; their next I/O is intended from now on.
    #[cold]
    fn wake_rested(&mut self, now: u64) {
        while let Some(&(ready_ns, slot)) = self.resting.front()
            && ready_ns <= now
        {
            self.resting.pop_front();
            self.free.push(slot);
        }
    }

    /// Handles the begin of the measurement, and the end of a closed loop.
    #[cold]
    fn attend(&mut self, now: u64) {
        let Window { begin_ns, end_ns: window_end_ns, .. } = self.parts.window;
        // A little before the window: reading takes time, which would be missing for measured I/Os. A thread that slept
        // until later has that time.
        let look_ns = begin_ns.saturating_sub(MIGRATIONS_LEAD_NS);
        if self.scheduled.is_none() && now >= look_ns && !self.parts.clock.is_virtual() {
            self.scheduled = Some(Scheduled::now());
        }
        if self.use_begin.is_none() && now >= begin_ns {
            self.use_begin = Some(self.used());
        }
        // An open loop ends with its schedule. A loop that has fallen behind is given up, whether or not a slot is
        // free.
        let end_ns = if self.open { self.parts.window.give_up_ns() } else { self.parts.window.stop_ns };
        if now >= end_ns {
            self.stop(now);
        }
        // I/Os scheduled within the window that come later are work of the measurement too.
        let is_behind = self.open && self.parts.load.due_ns() < window_end_ns;
        if self.use_end.is_none() && now >= window_end_ns && !is_behind {
            self.use_end = Some(self.used());
        }
        self.parts.ledger.spill_if_due(now);
        let caught_up_ns = if self.use_end.is_none() && now >= window_end_ns { now + FINE_NS } else { u64::MAX };
        let marks = [look_ns, begin_ns, window_end_ns, end_ns, self.parts.ledger.spill_ns(), caught_up_ns];
        self.attention_ns = marks.into_iter().filter(|&mark| mark > now).min().unwrap_or(u64::MAX);
    }

    /// Called before the load begins. If the measurement begins with the load, scheduler statistics count from here on.
    pub fn make_ready(&mut self) {
        let Window { start_ns, begin_ns, .. } = self.parts.window;
        if begin_ns - start_ns <= MIGRATIONS_LEAD_NS {
            self.scheduled = Some(Scheduled::now());
        }
    }

    /// Submits the gathered I/Os in one call.
    fn submit(&mut self) {
        self.parts.queue.kick();
        let submitted = self.parts.clock.now_ns();
        for slot in self.batch.drain(..) {
            self.slots[slot as usize].submitted_ns = submitted;
        }
    }

    fn finish(&mut self, now: u64) {
        self.parts.ledger.time_is(now);
        self.in_flight -= self.done.len() as u64;
        if self.free.is_empty() || self.synchronous {
            self.free_since_ns = now;
        }
        if self.in_flight == 0 {
            self.parts.bursts.all_done(now);
        }
        // All completions were seen at once, so their order does not matter.
        while let Some(Done { slot, error }) = self.done.pop() {
            let io = self.slots[slot as usize];
            self.parts.ledger.ended(&io);
            if let Some(error) = error {
                self.failed(now, &io, &error);
            } else {
                self.parts.ledger.completed(now, &io);
                if let Some(content) = &mut self.parts.content {
                    let buffer = self.parts.queue.buffer(slot);
                    if let Err(what) = content.after(slot, &io.next(), buffer) {
                        let at = self.parts.window.measured_ns(now);
                        self.end.failures.add_mismatch(io.offset_bytes, io.len_bytes, at, what);
                        self.give_up_after_failures(now);
                    }
                }
                if let Some(think) = self.parts.think {
                    if !think.compute {
                        self.resting.push_back((now.saturating_add(think.time_ns), slot));
                        continue;
                    }
                    self.compute(think, slot, &io);
                }
            }
            self.free.push(slot);
        }
    }

    #[cold]
    fn failed(&mut self, now: u64, io: &Slot, error: &forebay_block::IoError) {
        let at = self.parts.window.measured_ns(now);
        self.end.failures.add_error(io.kind, io.offset_bytes, io.len_bytes, at, error);
        if let Some(content) = &mut self.parts.content {
            content.failed(&io.next());
        }
        self.parts.ledger.failed(now, io);
        if error.kind == IoErrorKind::Gone {
            self.end.gave_up = true;
            self.stop(now);
        }
        self.give_up_after_failures(now);
    }

    fn give_up_after_failures(&mut self, now: u64) {
        if self.end.failures.count >= FAILURES_MAX && !self.over {
            self.end.gave_up = true;
            self.stop(now);
        }
    }

    /// Simulates an application that computes on what it read.
    fn compute(&mut self, think: Think, slot: u32, io: &Slot) {
        let until_ns = self.parts.clock.now_ns() + think.time_ns;
        let len = (io.len_bytes as usize).min(self.parts.queue.buffer_bytes());
        let (clock, queue) = (&self.parts.clock, &mut self.parts.queue);
        clock.work_until(until_ns, || {
            std::hint::black_box(checksum::crc32c(&queue.buffer(slot)[..len]));
            if len == 0 {
                std::hint::spin_loop();
            }
        });
    }

    /// Ends the load from outside.
    fn interrupt(&mut self, now: u64) {
        self.end.interrupted = true;
        // The measurement lasts until now, even if nothing has ended for a while; that of an open loop which fell
        // behind only lasts until its last I/O.
        self.parts.load.claim();
        let is_behind = self.open && self.parts.load.due_ns() <= now;
        if !is_behind && !self.over && self.parts.window.measures(now) {
            self.end.ended_ns = now;
        }
        self.stop(now);
    }

    /// Processor use of the thread up to now.
    fn used(&self) -> ThreadUse {
        ThreadUse { modelled_ns: self.parts.queue.host_work_ns(), ..ThreadUse::now() }
    }

    fn stop(&mut self, now: u64) {
        if !self.over {
            self.over = true;
            self.over_since_ns = now;
            // Waiting for I/Os that hang is not work.
            if self.use_end.is_none() {
                self.use_end = Some(self.used());
            }
        }
    }

    fn wait(&mut self, now: u64) {
        let asleep = match self.parts.wait {
            WaitMethod::Spin => false,
            WaitMethod::Sleep => true,
            WaitMethod::Hybrid { spin_ns } => now - self.idle_since_ns >= spin_ns,
        };
        // If the application only sleeps, the thread sleeps until the pause is over: the core should become idle as it
        // would under the application.
        let rests = self.free.is_empty() && !self.resting.is_empty();
        let asleep = asleep || rests && self.in_flight == 0;
        let margin_ns = if rests { 0 } else { WAKE_MARGIN_NS };
        let longest_ns = if self.parts.load.is_pending() { LAG_LOOK_NS } else { SLEEP_MAX_NS };
        let until = self.due_ns().saturating_sub(margin_ns).min(now.saturating_add(longest_ns));
        if !asleep || until <= now {
            std::hint::spin_loop();
        } else if self.in_flight > 0 {
            self.parts.queue.wait(until - now);
        } else {
            self.parts.clock.sleep_ns(until - now);
        }
    }

    /// When the worker wants to submit its next I/O; `u64::MAX` if that does not depend on time alone.
    pub fn due_ns(&self) -> u64 {
        let rested_ns =
            if self.free.is_empty() { self.resting.front().map(|&(ready_ns, _)| ready_ns) } else { Some(0) };
        match rested_ns {
            Some(rested_ns) if !self.over => rested_ns.max(self.parts.load.due_ns()).max(self.parts.bursts.resume_ns),
            _ => u64::MAX,
        }
    }

    /// The worker's queue.
    pub fn queue(&self) -> &Q {
        &self.parts.queue
    }

    /// The worker's queue, to advance its device.
    pub fn queue_mut(&mut self) -> &mut Q {
        &mut self.parts.queue
    }

    /// Sends the final report to the coordinator.
    pub fn finish_run(mut self) {
        if let Some(before) = self.use_begin {
            let before = self.scheduled.unwrap_or_default().and(before);
            let now = self.use_end.unwrap_or_else(|| self.used());
            self.end.used = Scheduled::now().and(now).since(&before);
            if self.parts.window.stop_ns != self.parts.window.end_ns {
                // The value would include the cool-down.
                self.end.used.waited_ns = None;
            }
        }
        self.end.scheduled = self.end.issued;
        if self.open && !self.end.spent {
            let Window { begin_ns, end_ns, .. } = self.parts.window;
            self.end.scheduled += self.parts.load.count_rest(begin_ns, end_ns.min(self.over_since_ns));
        }
        self.end.judged = self.parts.content.as_ref().and_then(WorkerContent::judged);
        self.parts.ledger.finish(self.end);
    }
}
