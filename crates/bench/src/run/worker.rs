//! The loop that makes the load: one thread, one queue.
//!
//! Three stamps an I/O: *intended* (by the schedule of an open loop; in a closed loop when the slot was free and the I/O
//! made), *submitted* (when the call that handed it over returned; before the call where the target carries it out
//! within), *completed* (when it was seen finished). Submission latency is the first distance, device latency the second,
//! total latency both: fio's slat, clat and lat (fio HOWTO, "Interpreting the output").

use super::clock::Clock;
use super::drift::DriftMeter;
use super::failures::Failures;
use super::load::Load;
use super::pace::Bursts;
use super::result::Backlog;
use super::share::{DEPTH_LEVELS, FINE_NS, Share};
use super::thread_use::{Scheduled, ThreadUse};
use super::window::Window;
use crate::data::verify::Judged;
use crate::job::model::Think;
use crate::pattern::Next;
use crate::telemetry::{Record, Recorder};
use forebay_block::{Done, Io, IoErrorKind, OpKind, Queue, WaitMethod, checksum};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use super::content::WorkerContent;

/// Longest sleep at once, in nanoseconds: how late a stop may be seen.
const SLEEP_MAX_NS: u64 = 50_000_000;
/// How long a thread sleeps that waits for the reader of a trace.
const LAG_LOOK_NS: u64 = 50_000;
/// A sleeping thread wakes some tens of microseconds late (scheduler; timer slack where it cannot be switched off); a
/// schedule is waited for by spinning from so many nanoseconds before.
pub const WAKE_MARGIN_NS: u64 = 150_000;
/// Submitted later than this with a slot free, an I/O of an open loop is late by the tool's fault.
const LATE_NS: u64 = 100_000;
/// How long before the window it is asked what the scheduler did.
const MIGRATIONS_LEAD_NS: u64 = 2_000_000;
/// I/Os counted in one share, about.
const LUMPED_MAX: u64 = 1 << 31;
/// How often records that do not fill a chunk are handed to the spill: what a kill may take, about.
const SPILL_NS: u64 = 1_000_000_000;
/// After so many failures in one worker the target is given up.
const FAILURES_MAX: u64 = 1000;

/// What a worker tells the coordinator.
#[derive(Debug)]
pub enum Message {
    /// An interval is over.
    Share(Box<Share>),
    /// The worker is done.
    End(Box<WorkerEnd>),
}

/// The end of a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerEnd {
    /// Which one.
    pub worker: usize,
    /// What failed.
    pub failures: Failures,
    /// I/Os of an open loop intended within the window, whether or not they were submitted.
    pub scheduled: u64,
    /// Of these, submitted.
    pub issued: u64,
    /// Submitted within the measurement, but intended in the warm-up.
    pub backlog: u64,
    /// I/Os that never came back.
    pub hung: u32,
    /// Ended before its time: too many failures, or the target gone.
    pub gave_up: bool,
    /// Ended because its I/Os or bytes were made, not because the time was over.
    pub spent: bool,
    /// Ended from outside.
    pub interrupted: bool,
    /// When the last I/O that is measured or of the backlog was submitted, or the end of the window where that is known.
    pub ended_ns: u64,
    /// What the thread used of the processor within the window.
    pub used: ThreadUse,
    /// Records that were lost because the spill lagged.
    pub records_dropped: u64,
    /// How much of what was read was judged, in units; none without verifying.
    pub judged: Option<Judged>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something moved: more may follow at once.
    Moved,
    /// Nothing to do until time passes or something finishes.
    Idle {
        /// When that was seen, in nanoseconds of the clock.
        now_ns: u64,
    },
    /// The job is over for this worker.
    Over,
}

/// An I/O in flight.
#[derive(Clone, Copy, Debug)]
struct Slot {
    intended_ns: u64,
    created_ns: u64,
    submitted_ns: u64,
    offset_bytes: u64,
    len_bytes: u32,
    depth: u16,
    kind: OpKind,
    measured: bool,
    /// Wanted in the warm-up of an open loop, and submitted in the measurement.
    is_backlog: bool,
}

impl Slot {
    /// Whether it counts for the depth.
    fn is_begun(&self) -> bool {
        self.measured || self.is_backlog
    }

    fn next(&self) -> Next {
        Next { kind: self.kind, offset_bytes: self.offset_bytes, len_bytes: self.len_bytes, hint: 0 }
    }
}

/// All that a worker needs.
pub struct WorkerParts<Q, C> {
    /// Its number, from 0, within the group.
    pub worker: usize,
    /// Its queue.
    pub queue: Q,
    /// I/Os in flight at most; not above the queue's slots.
    pub depth: u32,
    /// The time.
    pub clock: C,
    /// The I/Os and their times.
    pub load: Load,
    /// Pauses.
    pub bursts: Bursts,
    /// The application's pauses.
    pub think: Option<Think>,
    /// What is written, and what reads are held against; none where nothing is written and nothing verified.
    pub content: Option<WorkerContent>,
    /// Times of the job.
    pub window: Window,
    /// Length of an interval in nanoseconds.
    pub interval_ns: u64,
    /// I/Os it may make, and bytes.
    pub budget: (u64, u64),
    /// The kind of the flushes that follow writes, and take nothing of the budget.
    pub added_flush: Option<OpKind>,
    /// How it waits.
    pub wait: WaitMethod,
    /// One call an I/O.
    pub single_submission: bool,
    /// Records of every I/O.
    pub recorder: Option<Recorder>,
    /// Ends the run where set: the user's word.
    pub stop: Arc<AtomicBool>,
    /// The same, since enough is known.
    pub enough: Arc<AtomicBool>,
    /// To the coordinator.
    pub to: Sender<Message>,
    /// Empty shares from it.
    pub from: Receiver<Box<Share>>,
    /// The first share.
    pub share: Box<Share>,
}

/// A worker.
pub struct Worker<Q, C> {
    parts: WorkerParts<Q, C>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots whose application sleeps, and until when: one after the other, since all pauses have the same length.
    resting: VecDeque<(u64, u32)>,
    batch: Vec<u32>,
    done: Vec<Done>,
    in_flight: u64,
    /// Of these, submitted in the measurement: what Little's law is held against.
    begun_in_flight: u64,
    /// Since when a slot has been free without interruption.
    free_since_ns: u64,
    depth_since_ns: u64,
    /// Nothing but I/O before.
    attention_ns: u64,
    /// When records are next passed on to the spill; never without any.
    spill_ns: u64,
    interval_end_ns: u64,
    fine_end_ns: u64,
    fine: usize,
    /// No more I/Os are made.
    over: bool,
    over_since_ns: u64,
    idle_since_ns: u64,
    /// Migrations before the window, where they were looked for.
    scheduled: Option<Scheduled>,
    use_begin: Option<ThreadUse>,
    use_end: Option<ThreadUse>,
    synchronous: bool,
    /// The host is modelled: time passes between seeing an I/O finished and making the next.
    modelled: bool,
    open: bool,
    drift: DriftMeter,
    end: WorkerEnd,
}

impl<Q: Queue, C: Clock> Worker<Q, C> {
    /// A worker that has not begun.
    pub fn new(parts: WorkerParts<Q, C>) -> Self {
        let count = parts.depth.min(parts.queue.slots()).max(1);
        let empty = Slot {
            intended_ns: 0,
            created_ns: 0,
            submitted_ns: 0,
            offset_bytes: 0,
            len_bytes: 0,
            depth: 0,
            kind: OpKind::Read,
            measured: false,
            is_backlog: false,
        };
        Self {
            slots: vec![empty; count as usize],
            free: (0..count).rev().collect(),
            resting: VecDeque::with_capacity(if parts.think.is_some() { count as usize } else { 0 }),
            batch: Vec::with_capacity(count as usize),
            done: Vec::with_capacity(count as usize),
            in_flight: 0,
            begun_in_flight: 0,
            free_since_ns: 0,
            depth_since_ns: parts.window.begin_ns,
            attention_ns: 0,
            spill_ns: parts.recorder.as_ref().map_or(u64::MAX, |_| parts.window.begin_ns.saturating_add(SPILL_NS)),
            interval_end_ns: parts.window.begin_ns.saturating_add(parts.interval_ns),
            fine_end_ns: parts.window.begin_ns.saturating_add(FINE_NS),
            fine: 0,
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

    /// Whether the run was ended from outside.
    pub fn is_stopped(&self) -> bool {
        self.parts.stop.load(Ordering::Relaxed) || self.parts.enough.load(Ordering::Relaxed)
    }

    /// Makes the load until the job is over, and tells the coordinator.
    pub fn run(mut self) {
        if self.open {
            // Linux lets an ordinary thread sleep up to 50 us longer, to wake once for several (PR_SET_TIMERSLACK(2const)).
            // Where it refuses, the margin below has to do.
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

    /// Goes on as far as it goes at once.
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
            // In a closed loop the moment at which the next I/O is wanted is the end of the one before: a fresh stamp is
            // needed only where something came between, or where time itself decides.
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

    /// Nothing moved: what time alone brings.
    fn look_at_time(&mut self) -> Turn {
        let now = self.parts.clock.now_ns();
        let waits = self.free.is_empty() && self.resting.is_empty();
        let stuck = waits && self.parts.window.stop_ns == u64::MAX;
        if now >= self.spill_ns {
            self.spill(now);
        }
        if self.is_stopped() && !self.end.interrupted {
            // Also where the job was over by itself and something hangs: what is there now is the result.
            self.interrupt(now);
            self.over_since_ns = now;
        }
        // Who ended it because enough is known does not wait for an answer; the user does.
        let interrupted = self.parts.stop.load(Ordering::Relaxed);
        if stuck && now > Window::drain_until_ns(self.idle_since_ns, interrupted) {
            self.stop(self.idle_since_ns);
        }
        if self.over && now > Window::drain_until_ns(self.over_since_ns, interrupted) {
            self.account_depth(self.over_since_ns.max(self.depth_since_ns));
            self.end.hung = self.in_flight as u32;
            return Turn::Over;
        }
        if now >= self.interval_end_ns {
            self.rotate(now);
        }
        Turn::Idle { now_ns: now }
    }

    /// Makes what is due at `now`; true where anything was.
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
            self.parts.load.claim();
            let due = self.parts.load.due_ns();
            let stop_ns = self.parts.window.stop_ns;
            // A schedule may have nothing more to come, long before the end or ever; so may a trace.
            if due == u64::MAX || self.open && due >= stop_ns && created >= stop_ns {
                // A trace that is over ends the job, whatever time was allowed.
                self.end.spent |= due == u64::MAX;
                self.stop(created);
                break;
            }
            if due > created || self.parts.bursts.resume_ns > created {
                break;
            }
            if self.parts.budget.0 == 0 || self.parts.budget.1 == 0 {
                self.end.spent = true;
                self.stop(created);
                break;
            }
            let Some(next) = self.parts.load.take(created) else { break };
            // Closed: since the slots were free, also where others were submitted in between.
            let intended = if self.open { due } else { now.max(due).max(self.parts.bursts.resume_ns) };
            let measured = self.parts.window.measures(intended);
            // What the warm-up left waiting takes the target's time in the measurement, and is served in it.
            let begin_ns = self.parts.window.begin_ns;
            let is_backlog = self.open && intended < begin_ns && created >= begin_ns;
            self.parts.bursts.take();
            if measured {
                self.parts.budget.0 -= u64::from(self.parts.added_flush != Some(next.kind));
                self.parts.budget.1 = self.parts.budget.1.saturating_sub(u64::from(next.len_bytes));
                self.end.issued += 1;
            }
            if measured || is_backlog {
                self.end.backlog += u64::from(is_backlog);
                self.end.ended_ns = created;
            }
            self.free.pop();
            if let Some(content) = &mut self.parts.content {
                content.before(slot, &next, self.parts.queue.buffer(slot));
            }
            if self.synchronous || self.parts.share.drift.is_some() {
                // Its latency begins before the call that carries it out; a replay is as late as that call.
                created = self.parts.clock.now_ns();
            }
            if let Some(drift) = &mut self.parts.share.drift {
                self.drift.note(due, created, drift);
            }
            self.account_depth(created);
            self.in_flight += 1;
            self.begun_in_flight += u64::from(measured || is_backlog);
            self.slots[slot as usize] = Slot {
                intended_ns: intended,
                created_ns: created,
                submitted_ns: created,
                offset_bytes: next.offset_bytes,
                len_bytes: next.len_bytes,
                depth: self.in_flight.min(u64::from(u16::MAX)) as u16,
                kind: next.kind,
                measured,
                is_backlog,
            };
            if self.open && measured && created.saturating_sub(due) > LATE_NS {
                self.parts.share.no_slot += u64::from(self.free_since_ns > due);
                self.parts.share.late += u64::from(created.saturating_sub(due.max(self.free_since_ns)) > LATE_NS);
            }
            let Next { kind, offset_bytes, len_bytes, hint } = next;
            let io = Io { slot, kind, len_bytes, offset_bytes, hint };
            self.parts.queue.submit(&io);
            if self.synchronous {
                // The next one waits for this one: it is made when this one has been seen finished.
                return true;
            }
            made = true;
            if self.parts.single_submission {
                self.parts.queue.kick();
                // What comes next is made at once: no stamp of its own.
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

    /// Slots whose pause is over at `now` are free: their next I/O is wanted from now on.
    #[cold]
    fn wake_rested(&mut self, now: u64) {
        while let Some(&(ready_ns, slot)) = self.resting.front()
            && ready_ns <= now
        {
            self.resting.pop_front();
            self.free.push(slot);
        }
    }

    /// What time alone brings: the begin of the measurement, and the end of a closed loop.
    #[cold]
    fn attend(&mut self, now: u64) {
        let Window { begin_ns, end_ns: window_end_ns, .. } = self.parts.window;
        // A little before: it takes time, which the I/Os that are measured would lose. A thread that slept until later has time.
        let look_ns = begin_ns.saturating_sub(MIGRATIONS_LEAD_NS);
        if self.scheduled.is_none() && now >= look_ns && !self.parts.clock.is_virtual() {
            self.scheduled = Some(Scheduled::now());
        }
        if self.use_begin.is_none() && now >= begin_ns {
            self.use_begin = Some(self.used());
        }
        // An open loop ends with its schedule; one that has fallen behind, with or without a slot free, is given up.
        let end_ns = if self.open { self.parts.window.give_up_ns() } else { self.parts.window.stop_ns };
        if now >= end_ns {
            self.stop(now);
        }
        // What was scheduled within the window and comes later is work of the measurement, too.
        let is_behind = self.open && self.parts.load.due_ns() < window_end_ns;
        if self.use_end.is_none() && now >= window_end_ns && !is_behind {
            self.use_end = Some(self.used());
        }
        if now >= self.spill_ns {
            self.spill(now);
        }
        let caught_up_ns = if self.use_end.is_none() && now >= window_end_ns { now + FINE_NS } else { u64::MAX };
        let marks = [look_ns, begin_ns, window_end_ns, end_ns, self.spill_ns, caught_up_ns];
        self.attention_ns = marks.into_iter().filter(|&mark| mark > now).min().unwrap_or(u64::MAX);
    }

    /// Before the load begins: where that is measured from its begin, what the scheduler does counts from here on.
    pub fn make_ready(&mut self) {
        let Window { start_ns, begin_ns, .. } = self.parts.window;
        if begin_ns - start_ns <= MIGRATIONS_LEAD_NS {
            self.scheduled = Some(Scheduled::now());
        }
    }

    /// What was gathered, in one call.
    fn submit(&mut self) {
        self.parts.queue.kick();
        let submitted = self.parts.clock.now_ns();
        for slot in self.batch.drain(..) {
            self.slots[slot as usize].submitted_ns = submitted;
        }
    }

    /// What was recorded goes to the spill, so that a kill takes no more than about a second of it.
    #[cold]
    fn spill(&mut self, now: u64) {
        if let Some(recorder) = &mut self.parts.recorder {
            recorder.submit();
        }
        self.spill_ns = now.saturating_add(SPILL_NS);
    }

    fn finish(&mut self, now: u64) {
        if now >= self.interval_end_ns {
            self.rotate(now);
        }
        while now >= self.fine_end_ns && self.fine + 1 < self.parts.share.fine.len() {
            self.fine += 1;
            self.fine_end_ns += FINE_NS;
        }
        self.account_depth(now);
        self.in_flight -= self.done.len() as u64;
        if self.free.is_empty() || self.synchronous {
            self.free_since_ns = now;
        }
        if self.in_flight == 0 {
            self.parts.bursts.all_done(now);
        }
        // All were seen at once: which comes first does not matter.
        while let Some(Done { slot, error }) = self.done.pop() {
            let io = self.slots[slot as usize];
            self.begun_in_flight -= u64::from(io.is_begun());
            if let Some(error) = error {
                self.failed(now, &io, &error);
            } else {
                if io.measured {
                    self.count(now, &io);
                } else if now >= self.parts.window.begin_ns && io.intended_ns < self.parts.window.begin_ns {
                    // What was begun before takes the target in the window all the same: bursts and rows are of all that ends there.
                    self.count_fine(io.len_bytes);
                    let latency_ns = now.saturating_sub(io.intended_ns);
                    self.parts.share.carried.count(io.kind, io.len_bytes.into(), latency_ns);
                    if io.is_backlog {
                        self.count_backlog(now, &io, Backlog { ios: 1, bytes: io.len_bytes.into(), errors: 0 });
                    }
                }
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

    #[inline]
    fn count_fine(&mut self, len_bytes: u32) {
        let fine = &mut self.parts.share.fine[self.fine];
        fine.ios += 1;
        fine.bytes += u64::from(len_bytes);
    }

    #[inline]
    fn count(&mut self, now: u64, io: &Slot) {
        self.count_fine(io.len_bytes);
        let share = &mut *self.parts.share;
        share.last_completion_ns = now;
        // A worker's share has every kind that its generator makes.
        let Some(kind) = &mut share.kinds[io.kind as usize] else { return };
        kind.ios += 1;
        kind.bytes += u64::from(io.len_bytes);
        // Counters of two cores may differ by some counts: a thread that was moved between two stamps saw no time pass.
        kind.submission.record(io.submitted_ns.saturating_sub(io.intended_ns));
        kind.device.record(now.saturating_sub(io.submitted_ns));
        kind.total.record(now.saturating_sub(io.intended_ns));
        kind.service_sum_ns += now.saturating_sub(io.created_ns);
        share.depth_levels[depth_level(io.depth)] += 1;
        self.record(now, io, false);
    }

    /// One of what the warm-up left waiting has ended.
    fn count_backlog(&mut self, now: u64, io: &Slot, one: Backlog) {
        self.parts.share.last_completion_ns = now;
        let Some(kind) = &mut self.parts.share.kinds[io.kind as usize] else { return };
        kind.backlog.add(one);
        kind.service_sum_ns += now.saturating_sub(io.created_ns);
    }

    #[inline]
    fn record(&mut self, now: u64, io: &Slot, failed: bool) {
        if let Some(recorder) = &mut self.parts.recorder {
            recorder.push(Record {
                intended_ns: io.intended_ns,
                submitted_ns: io.submitted_ns,
                completed_ns: now,
                offset_bytes: io.offset_bytes,
                len_bytes: io.len_bytes,
                depth: io.depth,
                kind: io.kind,
                failed,
            });
        }
    }

    #[cold]
    fn failed(&mut self, now: u64, io: &Slot, error: &forebay_block::IoError) {
        let at = self.parts.window.measured_ns(now);
        self.end.failures.add_error(io.kind, io.offset_bytes, io.len_bytes, at, error);
        if let Some(content) = &mut self.parts.content {
            content.failed(&io.next());
        }
        if io.measured {
            self.parts.share.last_completion_ns = now;
            if let Some(kind) = &mut self.parts.share.kinds[io.kind as usize] {
                kind.errors += 1;
                kind.service_sum_ns += now.saturating_sub(io.created_ns);
            }
            self.record(now, io, true);
        } else if io.is_backlog {
            self.count_backlog(now, io, Backlog { ios: 0, bytes: 0, errors: 1 });
        }
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

    /// The application works on what it read.
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

    /// Time spent at the present depth of I/Os that were submitted in the measurement.
    #[inline]
    fn account_depth(&mut self, now: u64) {
        self.parts.share.depth_integral += now.saturating_sub(self.depth_since_ns) * self.begun_in_flight;
        self.depth_since_ns = now;
    }

    /// Hands the interval's figures to the coordinator, and goes on with an empty share where one is there.
    #[cold]
    fn rotate(&mut self, now: u64) {
        let passed = (now - self.parts.window.begin_ns) / self.parts.interval_ns;
        self.interval_end_ns = self.parts.window.begin_ns + (passed + 1) * self.parts.interval_ns;
        // Where the coordinator lags, the figures stay and go with the next interval: nothing is lost. Where it stands
        // still for so long that counters of 32 bits could run over, it is waited for.
        let counted: u64 = self.parts.share.kinds.iter().flatten().map(|kind| kind.ios).sum();
        let empty = if counted < LUMPED_MAX { self.parts.from.try_recv().ok() } else { self.parts.from.recv().ok() };
        let Some(empty) = empty else {
            self.parts.share.is_lumped = true;
            return;
        };
        self.parts.share.span = if self.parts.share.is_lumped { passed - self.parts.share.interval } else { 1 };
        let full = std::mem::replace(&mut self.parts.share, empty);
        self.parts.share.interval = passed;
        // The coordinator outlives its workers.
        let _ = self.parts.to.send(Message::Share(full));
        self.fine = 0;
        self.fine_end_ns = self.parts.window.begin_ns + passed * self.parts.interval_ns + FINE_NS;
    }

    /// Ended from outside.
    fn interrupt(&mut self, now: u64) {
        self.end.interrupted = true;
        // It was measured up to here, also where nothing has ended for a while; an open loop that fell behind only as far as it came.
        self.parts.load.claim();
        let is_behind = self.open && self.parts.load.due_ns() <= now;
        if !is_behind && !self.over && self.parts.window.measures(now) {
            self.end.ended_ns = now;
        }
        self.stop(now);
    }

    /// What the thread has used up to now.
    fn used(&self) -> ThreadUse {
        ThreadUse { modelled_ns: self.parts.queue.host_work_ns(), ..ThreadUse::now() }
    }

    fn stop(&mut self, now: u64) {
        if !self.over {
            self.over = true;
            self.over_since_ns = now;
            // Waiting for what hangs is not work.
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
        // Where the application only sleeps, so do we, to the end of it: its core is to go to sleep as it would.
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

    /// When it wants to submit the next I/O: `u64::MAX` where that is not for time to say.
    pub fn due_ns(&self) -> u64 {
        let rested_ns =
            if self.free.is_empty() { self.resting.front().map(|&(ready_ns, _)| ready_ns) } else { Some(0) };
        match rested_ns {
            Some(rested_ns) if !self.over => rested_ns.max(self.parts.load.due_ns()).max(self.parts.bursts.resume_ns),
            _ => u64::MAX,
        }
    }

    /// The queue below.
    pub fn queue(&self) -> &Q {
        &self.parts.queue
    }

    /// The queue below, to be moved on.
    pub fn queue_mut(&mut self) -> &mut Q {
        &mut self.parts.queue
    }

    /// Tells the coordinator what is left.
    pub fn finish_run(mut self) {
        if let Some(before) = self.use_begin {
            let before = self.scheduled.unwrap_or_default().and(before);
            let now = self.use_end.unwrap_or_else(|| self.used());
            self.end.used = Scheduled::now().and(now).since(&before);
            if self.parts.window.stop_ns != self.parts.window.end_ns {
                // It would be that of the cool-down too.
                self.end.used.waited_ns = None;
            }
        }
        self.end.scheduled = self.end.issued;
        if self.open && !self.end.spent {
            let Window { begin_ns, end_ns, .. } = self.parts.window;
            self.end.scheduled += self.parts.load.count_rest(begin_ns, end_ns.min(self.over_since_ns));
        }
        self.end.judged = self.parts.content.as_ref().and_then(WorkerContent::judged);
        if let Some(recorder) = self.parts.recorder.take() {
            self.end.records_dropped = recorder.finish().dropped;
        }
        self.parts.share.is_last = true;
        let _ = self.parts.to.send(Message::Share(self.parts.share));
        let _ = self.parts.to.send(Message::End(Box::new(self.end)));
    }
}

/// The class of a depth, as fio has them: 1, 2 to 3, 4 to 7, and so on; 64 and more are one (fio, io_u.c,
/// `io_u_mark_depth`).
#[inline]
fn depth_level(depth: u16) -> usize {
    let log2 = 15 - (depth | 1).leading_zeros() as usize;
    log2.min(DEPTH_LEVELS - 1)
}
