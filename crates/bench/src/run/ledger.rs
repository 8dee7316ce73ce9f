//! What a worker counts: the figures of the interval that it is in, which go to the coordinator when that is over, and a record of each I/O where records are
//! kept.

use super::failures::Failures;
use super::result::Backlog;
use super::share::{DEPTH_LEVELS, FINE_NS, Share};
use super::slot::Slot;
use super::thread_use::ThreadUse;
use super::window::Window;
use crate::data::verify::Judged;
use crate::telemetry::{Record, Recorder};
use std::sync::mpsc::{Receiver, Sender};

/// Approximate limit of I/Os counted in one share.
const LUMPED_MAX: u64 = 1 << 31;
/// How often a partly filled chunk of records goes to the spill, in nanoseconds: about what a kill can lose.
const SPILL_NS: u64 = 1_000_000_000;

/// A message from a worker to the coordinator.
#[derive(Debug)]
pub enum Message {
    /// The figures of an interval that is over.
    Share(Box<Share>),
    /// The worker is done.
    End(Box<WorkerEnd>),
}

/// The final report of a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerEnd {
    /// Index of the worker.
    pub worker: usize,
    /// The I/Os that failed.
    pub failures: Failures,
    /// I/Os of an open loop that were intended within the window, whether or not they were submitted.
    pub scheduled: u64,
    /// Scheduled I/Os that were submitted.
    pub issued: u64,
    /// I/Os submitted within the measurement, but intended in the warm-up.
    pub backlog: u64,
    /// Number of I/Os that never completed.
    pub hung: u32,
    /// The worker gave up: too many failures, or the target is gone.
    pub gave_up: bool,
    /// The worker ended because its I/Os or bytes were done, not because the time was over.
    pub spent: bool,
    /// The worker was ended from outside.
    pub interrupted: bool,
    /// When the last I/O of the measurement or of the backlog was submitted; the end of the window where that is known.
    pub ended_ns: u64,
    /// Processor use of the thread within the window.
    pub used: ThreadUse,
    /// Number of records that were lost because the spill lagged.
    pub records_dropped: u64,
    /// How many units were judged, and how; `None` without verifying.
    pub judged: Option<Judged>,
}

/// The counters of one worker.
pub struct Ledger {
    /// Figures of the interval that goes on.
    pub share: Box<Share>,
    interval_ns: u64,
    recorder: Option<Recorder>,
    to: Sender<Message>,
    /// Empty shares from the coordinator.
    from: Receiver<Box<Share>>,
    /// When the measurement begins.
    begin_ns: u64,
    interval_end_ns: u64,
    fine_end_ns: u64,
    fine: usize,
    depth_since_ns: u64,
    /// I/Os in flight that were submitted in the measurement, for Little's law.
    begun_in_flight: u64,
    /// When records are next passed on to the spill; `u64::MAX` without records.
    spill_ns: u64,
}

impl Ledger {
    /// Counters that begin with an empty share. `to` and `from` lead to the coordinator and bring empty shares from it.
    pub fn new(
        share: Box<Share>,
        interval_ns: u64,
        recorder: Option<Recorder>,
        (to, from): (Sender<Message>, Receiver<Box<Share>>),
    ) -> Self {
        Self {
            share,
            interval_ns,
            recorder,
            to,
            from,
            begin_ns: 0,
            interval_end_ns: 0,
            fine_end_ns: 0,
            fine: 0,
            depth_since_ns: 0,
            begun_in_flight: 0,
            spill_ns: u64::MAX,
        }
    }

    /// Sets the times of the job. Called before anything is counted.
    pub fn begin_at(&mut self, window: &Window) {
        self.begin_ns = window.begin_ns;
        self.depth_since_ns = window.begin_ns;
        self.interval_end_ns = window.begin_ns.saturating_add(self.interval_ns);
        self.fine_end_ns = window.begin_ns.saturating_add(FINE_NS);
        if self.recorder.is_some() {
            self.spill_ns = window.begin_ns.saturating_add(SPILL_NS);
        }
    }

    /// When records are next passed on to the spill; `u64::MAX` without records.
    pub fn spill_ns(&self) -> u64 {
        self.spill_ns
    }

    /// Passes records on to the spill where that is due, so that a kill loses about a second of them at most.
    pub fn spill_if_due(&mut self, now: u64) {
        if now >= self.spill_ns {
            if let Some(recorder) = &mut self.recorder {
                recorder.submit();
            }
            self.spill_ns = now.saturating_add(SPILL_NS);
        }
    }

    /// An I/O is submitted; `counts`: in the measurement.
    #[inline]
    pub fn begun(&mut self, now: u64, counts: bool) {
        self.account_depth(now);
        self.begun_in_flight += u64::from(counts);
    }

    /// Completions are counted at `now`.
    #[inline]
    pub fn time_is(&mut self, now: u64) {
        self.rotate_if_due(now);
        while now >= self.fine_end_ns && self.fine + 1 < self.share.fine.len() {
            self.fine += 1;
            self.fine_end_ns += FINE_NS;
        }
        self.account_depth(now);
    }

    /// An I/O is in flight no more.
    #[inline]
    pub fn ended(&mut self, io: &Slot) {
        self.begun_in_flight -= u64::from(io.is_begun());
    }

    /// Counts an I/O that ended well.
    #[inline]
    pub fn completed(&mut self, now: u64, io: &Slot) {
        if io.measured {
            self.count(now, io);
        } else if now >= self.begin_ns && io.intended_ns < self.begin_ns {
            // I/Os begun earlier occupy the target in the window all the same, so bursts and rows count all
            // I/Os that end in it.
            self.count_fine(io.len_bytes);
            let latency_ns = now.saturating_sub(io.intended_ns);
            self.share.carried.count(io.kind, io.len_bytes.into(), latency_ns);
            if io.is_backlog {
                self.count_backlog(now, io, Backlog { ios: 1, bytes: io.len_bytes.into(), errors: 0 });
            }
        }
    }

    /// Counts an I/O that failed.
    #[cold]
    pub fn failed(&mut self, now: u64, io: &Slot) {
        if io.measured {
            self.share.last_completion_ns = now;
            if let Some(kind) = &mut self.share.kinds[io.kind as usize] {
                kind.errors += 1;
                kind.service_sum_ns += now.saturating_sub(io.created_ns);
            }
            self.record(now, io, true);
        } else if io.is_backlog {
            self.count_backlog(now, io, Backlog { ios: 0, bytes: 0, errors: 1 });
        }
    }

    #[inline]
    fn count_fine(&mut self, len_bytes: u32) {
        let fine = &mut self.share.fine[self.fine];
        fine.ios += 1;
        fine.bytes += u64::from(len_bytes);
    }

    #[inline]
    fn count(&mut self, now: u64, io: &Slot) {
        self.count_fine(io.len_bytes);
        let share = &mut *self.share;
        share.last_completion_ns = now;
        // A worker's share has an entry for each kind that its generator makes.
        let Some(kind) = &mut share.kinds[io.kind as usize] else { return };
        kind.ios += 1;
        kind.bytes += u64::from(io.len_bytes);
        // Time stamp counters of two cores may differ slightly: for a thread that moved between two stamps no time, or
        // less, seems to have passed.
        kind.submission.record(io.submitted_ns.saturating_sub(io.intended_ns));
        kind.device.record(now.saturating_sub(io.submitted_ns));
        kind.total.record(now.saturating_sub(io.intended_ns));
        kind.service_sum_ns += now.saturating_sub(io.created_ns);
        share.depth_levels[depth_level(io.depth)] += 1;
        self.record(now, io, false);
    }

    /// Counts an I/O that the warm-up had left waiting.
    fn count_backlog(&mut self, now: u64, io: &Slot, one: Backlog) {
        self.share.last_completion_ns = now;
        let Some(kind) = &mut self.share.kinds[io.kind as usize] else { return };
        kind.backlog.add(one);
        kind.service_sum_ns += now.saturating_sub(io.created_ns);
    }

    #[inline]
    fn record(&mut self, now: u64, io: &Slot, failed: bool) {
        if let Some(recorder) = &mut self.recorder {
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

    /// Accounts the time at the present depth of I/Os that were submitted in the measurement.
    #[inline]
    fn account_depth(&mut self, now: u64) {
        self.share.depth_integral += now.saturating_sub(self.depth_since_ns) * self.begun_in_flight;
        self.depth_since_ns = now;
    }

    /// I/Os that hang count for the depth until the load ended.
    pub fn end_depth(&mut self, over_since_ns: u64) {
        self.account_depth(over_since_ns.max(self.depth_since_ns));
    }

    /// Sends the interval's figures to the coordinator where it is over.
    #[inline]
    pub fn rotate_if_due(&mut self, now: u64) {
        if now >= self.interval_end_ns {
            self.rotate(now);
        }
    }

    /// Sends the interval's figures to the coordinator, and continues with an empty share if one is available.
    #[cold]
    fn rotate(&mut self, now: u64) {
        let passed = (now - self.begin_ns) / self.interval_ns;
        self.interval_end_ns = self.begin_ns + (passed + 1) * self.interval_ns;
        // If the coordinator lags, the figures go with the next interval, and nothing is lost. If it stands still for
        // so long that 32-bit counters could overflow, the worker waits for it.
        let counted: u64 = self.share.kinds.iter().flatten().map(|kind| kind.ios).sum();
        let empty = if counted < LUMPED_MAX { self.from.try_recv().ok() } else { self.from.recv().ok() };
        let Some(empty) = empty else {
            self.share.is_lumped = true;
            return;
        };
        self.share.span = if self.share.is_lumped { passed - self.share.interval } else { 1 };
        let full = std::mem::replace(&mut self.share, empty);
        self.share.interval = passed;
        // The coordinator outlives its workers.
        let _ = self.to.send(Message::Share(full));
        self.fine = 0;
        self.fine_end_ns = self.begin_ns + passed * self.interval_ns + FINE_NS;
    }

    /// Sends the last figures and the final report to the coordinator.
    pub fn finish(mut self, mut end: WorkerEnd) {
        if let Some(recorder) = self.recorder {
            end.records_dropped = recorder.finish().dropped;
        }
        self.share.is_last = true;
        let _ = self.to.send(Message::Share(self.share));
        let _ = self.to.send(Message::End(Box::new(end)));
    }
}

/// The class of a queue depth as in fio: 1, 2 to 3, 4 to 7 and so on; 64 and more are one class (fio, io_u.c,
/// `io_u_mark_depth`).
#[inline]
fn depth_level(depth: u16) -> usize {
    let log2 = 15 - (depth | 1).leading_zeros() as usize;
    log2.min(DEPTH_LEVELS - 1)
}
