//! The coordinator's side: adds up the shares of workers to totals, intervals and bursts.

use super::burst_rows::BurstRows;
use super::drift::Drift;
use super::facts::TargetFacts;
use super::failures::Failures;
use super::ledger::WorkerEnd;
use super::result::{Backlog, Direction, IntervalRow, JobResult, KindResult, OfDirection, OpenLoop, Partial};
use super::share::{DEPTH_LEVELS, Fine, Share};
use super::tally::{Latencies, Tally, add_to, new_histogram};
use super::thread_use::ThreadUse;
use super::window::Window;
use crate::data::verify::Judged;
use crate::job::model::Job;
use crate::stats::clustering::Blocks;
use forebay_block::OpKind;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most intervals open at once. The limit keeps memory bounded when one worker stands still and the others go on.
const OPEN_MAX: usize = 64;
/// Most blocks of time by which a job's latencies are kept.
const BLOCKS: usize = 64;

#[derive(Clone, Debug)]
struct KindTotals {
    ios: u64,
    bytes: u64,
    errors: u64,
    backlog: Backlog,
    submission: Latencies,
    device: Latencies,
    total: Latencies,
    service_sum_ns: u128,
    blocks: Blocks,
}

#[derive(Clone, Debug, Default)]
struct OpenInterval {
    row: IntervalRow,
    sum_ns: u128,
    totals: [Option<Box<Tally>>; OpKind::ALL.len()],
    /// Latencies of I/Os begun in the warm-up: reads, writes, others. `None` where there are none.
    carried: [Option<Box<Tally>>; 3],
    fine: Vec<Fine>,
    /// The millisecond counts, or a worker's figures, include other intervals too, or lack a worker.
    is_lumped: bool,
}

/// Adds up the figures of a job while it runs.
#[derive(Clone, Debug)]
pub struct Collector {
    job: Job,
    window: Window,
    interval_ns: u64,
    kinds: [Option<Box<KindTotals>>; OpKind::ALL.len()],
    open: BTreeMap<u64, OpenInterval>,
    /// For each worker that has not ended, the failed I/Os in its shares.
    live_errors: Vec<u64>,
    /// The interval that each worker is in; `u64::MAX` after its end.
    reached: Vec<u64>,
    rows: Vec<IntervalRow>,
    /// The newest closed interval includes figures of later ones.
    was_lumped: bool,
    interrupted: bool,
    is_enough: bool,
    /// The result is taken while the job runs: I/Os in flight are not waited for.
    is_so_far: bool,
    /// A host was lost, and with it the last figures of its workers.
    lost: bool,
    ended: usize,
    bursts: BurstRows,
    depth_integral: u128,
    depth_levels: [u64; DEPTH_LEVELS],
    late: u64,
    no_slot: u64,
    drift: Option<Drift>,
    last_completion_ns: u64,
    failures: Failures,
    ended_ns: u64,
    scheduled: u64,
    issued: u64,
    backlog: u64,
    hung: u32,
    gave_up: bool,
    /// Workers whose I/Os or bytes were done before the time was over.
    spent: usize,
    /// Processor use of the workers that have ended; `None` before the first one ends.
    used: Option<ThreadUse>,
    records_dropped: u64,
    judged: Option<Judged>,
}

impl Collector {
    /// A collector for a job; its `threads` is the number of workers.
    pub fn new(job: Job, window: Window, interval_ns: u64) -> Self {
        let workers = job.threads as usize;
        Self {
            job,
            window,
            interval_ns,
            kinds: Default::default(),
            open: BTreeMap::new(),
            live_errors: vec![0; workers],
            reached: vec![0; workers],
            rows: Vec::new(),
            was_lumped: false,
            interrupted: false,
            is_enough: false,
            is_so_far: false,
            lost: false,
            ended: 0,
            bursts: BurstRows::new(interval_ns),
            depth_integral: 0,
            depth_levels: [0; DEPTH_LEVELS],
            late: 0,
            no_slot: 0,
            drift: None,
            last_completion_ns: 0,
            failures: Failures::default(),
            ended_ns: 0,
            scheduled: 0,
            issued: 0,
            backlog: 0,
            hung: 0,
            gave_up: false,
            spent: 0,
            used: None,
            records_dropped: 0,
            judged: None,
        }
    }

    /// Sets the window of the measurement once it is known.
    pub fn begin(&mut self, window: Window) {
        self.window = window;
    }

    /// The closed intervals in order.
    pub fn rows(&self) -> &[IntervalRow] {
        &self.rows
    }

    /// The newest closed interval.
    pub fn last_row(&self) -> Option<&IntervalRow> {
        self.rows.last()
    }

    /// Number of intervals that are over for all workers.
    pub fn intervals_over(&self) -> u64 {
        self.rows.last().map_or(0, |row| row.begin_ns / self.interval_ns + 1)
    }

    /// Length of an interval in nanoseconds.
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// Share of the job that is over, by its time or its I/Os; 0 where it ends by neither.
    pub fn share_over(&self) -> f64 {
        let (end, over_ns) = (&self.job.end, self.intervals_over() * self.interval_ns);
        let ios: u64 = self.kinds.iter().flatten().map(|kind| kind.ios + kind.errors).sum();
        let of = |done: u64, all: Option<u64>| all.map_or(0.0, |all| done as f64 / all.max(1) as f64);
        of(over_ns, end.after_ns).max(of(ios, end.after_ios))
    }

    /// The result as if the run had ended with the last complete interval.
    pub fn so_far(&self, target: TargetFacts) -> JobResult {
        let mut all = self.clone();
        all.is_so_far = true;
        all.window.end_ns = all.window.begin_ns + self.intervals_over() * self.interval_ns;
        // Workers that still run must not be taken for lost ones.
        all.ended = all.reached.len();
        all.finish(target)
    }

    /// Notes that the watch has ended the run; the result is complete then.
    pub fn ended_by_watch(&mut self) {
        self.is_enough = true;
    }

    /// Failures so far: of workers that have ended all failures, of the others only the measured I/Os that the target refused.
    pub fn failures(&self) -> u64 {
        self.failures.count + self.live_errors.iter().sum::<u64>()
    }

    /// Adds a share; `worker` is the index of the worker within the job.
    pub fn add(&mut self, worker: usize, share: &Share) {
        self.depth_integral += u128::from(share.depth_integral);
        for (sum, found) in self.depth_levels.iter_mut().zip(share.depth_levels) {
            *sum += found;
        }
        self.late += share.late;
        self.no_slot += share.no_slot;
        if let Some(drift) = &share.drift {
            self.drift.get_or_insert_default().add(drift);
        }
        self.last_completion_ns = self.last_completion_ns.max(share.last_completion_ns);
        let interval = self.open.entry(share.interval).or_default();
        interval.is_lumped |= share.is_lumped;
        interval.row.length_ns = interval.row.length_ns.max(share.span.saturating_mul(self.interval_ns));
        for (kind, found) in OpKind::ALL.into_iter().zip(&share.kinds) {
            let Some(found) = found else { continue };
            let totals = self.kinds[kind as usize].get_or_insert_with(|| {
                Box::new(KindTotals {
                    ios: 0,
                    bytes: 0,
                    errors: 0,
                    backlog: Backlog::default(),
                    submission: Latencies::new(),
                    device: Latencies::new(),
                    total: Latencies::new(),
                    service_sum_ns: 0,
                    blocks: Blocks::new(BLOCKS),
                })
            });
            totals.ios += found.ios;
            totals.bytes += found.bytes;
            totals.errors += found.errors;
            totals.backlog.add(found.backlog);
            totals.submission.add(&found.submission);
            totals.device.add(&found.device);
            totals.total.add(&found.total);
            totals.service_sum_ns += u128::from(found.service_sum_ns);
            interval.row.ios += found.ios;
            interval.row.bytes += found.bytes;
            interval.row.errors += found.errors;
            let direction = match kind {
                OpKind::Read => &mut interval.row.read,
                OpKind::Write | OpKind::WriteFua => &mut interval.row.write,
                OpKind::Trim | OpKind::Flush | OpKind::Fsync => &mut Direction::default(),
            };
            direction.add(Direction { ios: found.ios, bytes: found.bytes, latency_sum_ns: found.total.sum_ns() });
            interval.sum_ns += u128::from(found.total.sum_ns());
            interval.totals[kind as usize].get_or_insert_with(Box::default).add(&found.total);
        }
        let (carried, row) = (share.carried.all(), &mut interval.row);
        (row.ios, row.bytes) = (row.ios + carried.ios, row.bytes + carried.bytes);
        row.read.add(share.carried.read.sum);
        row.write.add(share.carried.write.sum);
        for (sum, way) in interval.carried.iter_mut().zip(share.carried.ways()).filter(|(_, way)| way.sum.ios > 0) {
            interval.sum_ns += u128::from(way.total.sum_ns());
            sum.get_or_insert_with(Box::default).add(&way.total);
        }
        if interval.fine.len() < share.fine.len() {
            interval.fine.resize(share.fine.len(), Fine::default());
        }
        for (sum, fine) in interval.fine.iter_mut().zip(&share.fine) {
            sum.ios = sum.ios.saturating_add(fine.ios);
            sum.bytes += fine.bytes;
        }
        if let Some(reached) = self.reached.get_mut(worker) {
            *reached = share.interval + u64::from(!share.is_last);
        }
        if let Some(errors) = self.live_errors.get_mut(worker) {
            *errors += share.kinds.iter().flatten().map(|kind| kind.errors).sum::<u64>();
        }
        let all = self.reached.iter().copied().min().unwrap_or(u64::MAX);
        while let Some((&first, _)) = self.open.first_key_value()
            && (first < all || self.open.len() > OPEN_MAX)
        {
            if let (true, Some(early)) = (first >= all, self.open.get_mut(&first)) {
                // A worker stands still, so its figures are missing here.
                early.is_lumped = true;
            }
            self.close_first(self.window.end_ns - self.window.begin_ns);
        }
    }

    /// Adds the end of a worker; its last share must have been added before.
    pub fn end(&mut self, worker: usize, end: WorkerEnd) {
        if let Some(reached) = self.reached.get_mut(worker) {
            *reached = u64::MAX;
        }
        if let Some(errors) = self.live_errors.get_mut(worker) {
            *errors = 0;
        }
        self.failures.merge(end.failures);
        self.ended_ns = self.ended_ns.max(end.ended_ns);
        self.scheduled += end.scheduled;
        self.issued += end.issued;
        self.backlog += end.backlog;
        self.hung += end.hung;
        self.gave_up |= end.gave_up;
        self.interrupted |= end.interrupted;
        self.ended += 1;
        self.spent += usize::from(end.spent);
        self.used = Some(self.used.map_or(end.used, |used| used.and(&end.used)));
        self.records_dropped += end.records_dropped;
        if let Some(judged) = end.judged {
            self.judged.get_or_insert_default().add(judged);
        }
    }

    /// Notes that those of these workers that have not ended will send nothing more.
    pub fn lose(&mut self, workers: Range<usize>) {
        let all = 0..self.reached.len();
        for worker in all.filter(|worker| workers.contains(worker)) {
            self.lost |= self.reached[worker] != u64::MAX;
            self.reached[worker] = u64::MAX;
        }
    }

    /// Closes the oldest open interval. Its bursts count if the interval lies completely within `measured_ns`.
    fn close_first(&mut self, measured_ns: u64) {
        let Some((index, interval)) = self.open.pop_first() else { return };
        let mut all = Tally::new();
        interval.carried.iter().flatten().for_each(|carried| all.add(carried));
        for (kind, tally) in interval.totals.iter().enumerate() {
            let Some(tally) = tally else { continue };
            all.add(tally);
            if let Some(totals) = &mut self.kinds[kind] {
                let mut histogram = new_histogram();
                add_to(&mut histogram, tally);
                totals.blocks.push(&histogram, tally.sum_ns().into());
            }
        }
        let mean = interval.sum_ns.checked_div(u128::from(all.count())).unwrap_or(0) as u64;
        let [median, p99, p999, max] = all.quantiles_ns([0.5, 0.99, 0.999, 1.0]);
        let latency_ns = [mean, median, p99, p999, max];
        let begin_ns = index * self.interval_ns;
        let one_way = |kinds: &[OpKind], carried: usize| {
            let of_kinds = kinds.iter().filter_map(|&kind| interval.totals[kind as usize].as_deref());
            let mut tallies = of_kinds.chain(interval.carried[carried].as_deref());
            match (tallies.next(), tallies.next()) {
                (None, _) => OfDirection::default(),
                (Some(one), None) => OfDirection::new(one),
                (Some(one), Some(other)) => {
                    let mut sum = one.clone();
                    sum.add(other);
                    tallies.for_each(|tally| sum.add(tally));
                    OfDirection::new(&sum)
                }
            }
        };
        let mut row = IntervalRow { begin_ns, latency_ns, ..interval.row };
        row.read_latency = one_way(&[OpKind::Read], 0);
        row.write_latency = one_way(&[OpKind::Write, OpKind::WriteFua], 1);
        // Several shares of an interval may come after it was closed.
        if let Some(before) =
            self.rows.iter_mut().rev().take_while(|row| row.begin_ns >= begin_ns).find(|row| row.begin_ns == begin_ns)
        {
            before.add(&row);
            return;
        }
        // In intervals without any share, as during a call that stood still, no I/O ended.
        let interval_ns = self.interval_ns;
        let is_whole = |index: u64| (index + 1).saturating_mul(interval_ns) <= measured_ns;
        let next = self.rows.last().map_or(0, |row| row.begin_ns / self.interval_ns + 1);
        let was_lumped = std::mem::replace(&mut self.was_lumped, interval.is_lumped);
        let nothing = vec![Fine::default(); interval.fine.len()];
        if was_lumped {
            self.bursts.begin();
        }
        for missing in (next..index).filter(|_| !was_lumped) {
            let begin_ns = missing * self.interval_ns;
            self.rows.push(IntervalRow { begin_ns, length_ns: self.interval_ns, ..IntervalRow::default() });
            if is_whole(missing) {
                self.bursts.count(&nothing);
            }
        }
        self.rows.push(row);
        let whole = is_whole(index) && !interval.is_lumped;
        if whole {
            self.bursts.count(&interval.fine);
        } else {
            self.bursts.begin();
        }
    }

    /// The time that all rated I/Os would take at the rate at which I/Os ended within `begun_ns`, whether or not the warm-up began them. So
    /// the rate is one that was observed, and I/Os that hang beyond the end do not lower it.
    fn as_if_all_ended_within(&self, begun_ns: u64) -> u64 {
        let mut ended = 0.0;
        for row in self.rows.iter().take_while(|row| row.begin_ns < begun_ns) {
            let ios = row.ios as f64;
            let part_ns = (begun_ns - row.begin_ns).min(row.length_ns) as f64;
            // Of an interval across the end, I/Os are counted at the rate of the time before it, if it has as many: few may end after the
            // window.
            let before = if row.begin_ns == 0 { 0.0 } else { ended / row.begin_ns as f64 };
            ended += (part_ns * before).max(ios * part_ns / row.length_ns.max(1) as f64).min(ios);
        }
        let rated: u64 = self.kinds.iter().flatten().map(|kind| kind.ios + kind.backlog.ios).sum();
        if ended < 1.0 {
            return u64::MAX;
        }
        let turns = rated as f64 / ended;
        // A result before the end lacks the I/Os in flight. At the end they are included, and a schedule that was kept has its own time.
        (begun_ns as f64 * if self.is_so_far { turns } else { turns.max(1.0) }) as u64
    }

    /// Where the measurement ends.
    fn span(&self) -> Span {
        let begin = self.window.begin_ns;
        let is_cut_short = self.interrupted || self.gave_up || self.lost || self.have_all_spent();
        let end_known = self.window.end_ns != u64::MAX && !is_cut_short;
        let window_end_ns = if end_known { self.window.end_ns } else { self.ended_ns.max(begin) };
        let duration_ns = window_end_ns.max(self.last_completion_ns).saturating_sub(begin);
        Span { end_known, window_end_ns, duration_ns }
    }

    /// Whether all workers have done the whole of a fixed amount of work.
    fn have_all_spent(&self) -> bool {
        self.spent == self.reached.len()
    }

    /// Whether as many I/Os were in flight when the measurement began as later on.
    fn is_full_at_begin(&self) -> bool {
        !self.job.arrival.is_open() && self.window.begin_ns > self.window.start_ns
    }

    /// Closes all intervals, and ends the last row where the measurement ends.
    fn close_rows(&mut self, duration_ns: u64) {
        while !self.open.is_empty() {
            self.close_first(duration_ns.min(self.window.end_ns - self.window.begin_ns));
        }
        // During a cool-down, rows after the last measured completion are not part of the measurement.
        self.rows.retain(|row| row.begin_ns < duration_ns);
        if let Some(last) = self.rows.last_mut() {
            if self.was_lumped {
                // The row includes all later figures, so it extends to the end.
                last.length_ns = last.length_ns.max(duration_ns - last.begin_ns);
            }
            last.length_ns = last.length_ns.min(duration_ns - last.begin_ns);
        }
    }

    fn service_mean_ns(&self) -> f64 {
        let ended = |kind: &KindTotals| kind.ios + kind.errors + kind.backlog.ios + kind.backlog.errors;
        let ended: u64 = self.kinds.iter().flatten().map(|kind| ended(kind)).sum();
        let service: u128 = self.kinds.iter().flatten().map(|kind| kind.service_sum_ns).sum();
        if ended == 0 { 0.0 } else { service as f64 / ended as f64 }
    }

    /// The time that rates are over.
    fn rated_ns(&self, span: &Span) -> u64 {
        let is_open = self.job.arrival.is_open();
        let is_whole = !self.interrupted && !self.gave_up && !self.lost && self.hung == 0;
        let begin = self.window.begin_ns;
        // An open loop that fell behind goes on submitting after its window.
        let begun_ns =
            if is_open { issued_ns(span.window_end_ns, self.ended_ns, begin) } else { span.window_end_ns - begin };
        if !is_open && is_whole && (self.window.end_ns == u64::MAX || self.have_all_spent()) {
            // The rate of a fixed amount of work is over the full time that the work took.
            span.duration_ns
        } else if self.is_full_at_begin() && (span.end_known || self.interrupted) && !self.is_so_far {
            // Each I/O that ends in the window, those of the warm-up included, is followed by a measured one, so as many I/Os are in flight
            // at its end as at its beginning. This also holds if the user ended the window early.
            begun_ns
        } else {
            self.as_if_all_ended_within(begun_ns)
        }
    }

    /// Why the result is not that of the whole job.
    fn partial(&self) -> Option<Partial> {
        // A worker that died has not sent its end.
        let died = self.ended < self.reached.len();
        if self.lost {
            Some(Partial::Lost)
        } else if self.interrupted && !self.is_enough {
            Some(Partial::Interrupted)
        } else if self.gave_up || died {
            Some(Partial::GaveUp)
        } else if self.hung > 0 {
            Some(Partial::Hung)
        } else {
            None
        }
    }

    /// Makes the result.
    pub fn finish(mut self, target: TargetFacts) -> JobResult {
        let span = self.span();
        self.close_rows(span.duration_ns);
        let service_mean_ns = self.service_mean_ns();
        let rated_ns = self.rated_ns(&span).min(span.duration_ns);
        // As many I/Os are in flight at the end of that time as at its beginning, unless one took far longer than the others.
        let is_even = ((span.duration_ns - rated_ns) as f64) < 2.0 * service_mean_ns;
        let depth_ns = if self.is_full_at_begin() && is_even { rated_ns } else { span.duration_ns };
        let open = self.job.arrival.is_open().then_some(OpenLoop {
            scheduled: self.scheduled,
            issued: self.issued,
            backlog: self.backlog,
            issued_ns: issued_ns(span.window_end_ns, self.ended_ns, self.window.begin_ns),
            late: self.late,
            no_slot: self.no_slot,
        });
        let partial = self.partial();
        let duration_ns = span.duration_ns;
        let kinds = OpKind::ALL.into_iter().zip(self.kinds).filter_map(|(kind, totals)| {
            let totals = *totals?;
            Some(KindResult {
                kind,
                ios: totals.ios,
                bytes: totals.bytes,
                errors: totals.errors,
                backlog: totals.backlog,
                submission: totals.submission,
                device: totals.device,
                total: totals.total,
                blocks: totals.blocks,
            })
        });
        JobResult {
            kinds: kinds.collect(),
            target_name: target.name,
            description: target.description,
            notes: target.notes,
            target_bytes: target.size_bytes,
            duration_ns,
            rated_ns,
            depth_ns,
            intervals: self.rows,
            interval_ns: self.interval_ns,
            bursts: self.bursts.rows(),
            depth_mean: if depth_ns == 0 { 0.0 } else { self.depth_integral as f64 / depth_ns as f64 },
            depth_levels: self.depth_levels,
            service_mean_ns,
            used: self.used.unwrap_or_default(),
            machine: None,
            failures: self.failures,
            open,
            drift: self.drift,
            hung: self.hung,
            partial,
            records_dropped: self.records_dropped,
            judged: self.judged,
            steady: None,
            all_ran: None,
            job: self.job,
        }
    }
}

/// Where the measurement ends.
struct Span {
    /// Where it was to end, and it was not cut short.
    end_known: bool,
    window_end_ns: u64,
    /// Up to the last completion.
    duration_ns: u64,
}

/// The time in which an open loop submitted its I/Os: that of the schedule if it was kept, longer if the loop fell behind. Up to a
/// hundredth longer still counts as kept, since the machine may just have been busy at the end.
fn issued_ns(window_end: u64, last_ns: u64, begin: u64) -> u64 {
    let window_ns = window_end.saturating_sub(begin);
    let behind_ns = last_ns.saturating_sub(window_end);
    window_ns + if behind_ns > window_ns / 100 { behind_ns } else { 0 }
}
