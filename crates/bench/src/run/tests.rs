//! Runs in virtual time over a target whose latencies are scripted, so that the truth is known to the nanosecond.

use super::*;
use crate::job::model::{End, Mix, Pattern, SizeMix, Sizes};
use forebay_block::{Done, Io, IoError, IoErrorKind, OpKind, WaitMethod};
use std::sync::atomic::AtomicU64;

mod overload;
mod replays;
mod rows;
mod thinking;
mod traces;
mod verify;

/// What a reading of the virtual clock costs: time goes on, also for those who spin.
const TICK_NS: u64 = 50;

#[derive(Clone, Default)]
struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    fn advance_to(&self, time_ns: u64) {
        self.0.fetch_max(time_ns, Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(TICK_NS, Ordering::SeqCst) + TICK_NS
    }

    fn sleep_ns(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::SeqCst);
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

type Script = Box<dyn FnMut(u64, &Io) -> (u64, Option<IoErrorKind>) + Send>;

/// Latency, and fate, of each I/O by its number and time.
struct Scripted {
    clock: VirtualClock,
    slots: u32,
    buffer: Vec<u8>,
    waiting: Vec<(u64, u32, Option<IoErrorKind>)>,
    script: Script,
}

impl Scripted {
    fn new(clock: &VirtualClock, slots: u32, script: Script) -> Self {
        Self { clock: clock.clone(), slots, buffer: vec![0; 1 << 20], waiting: Vec::new(), script }
    }
}

impl Queue for Scripted {
    fn slots(&self) -> u32 {
        self.slots
    }
    fn buffer_bytes(&self) -> usize {
        self.buffer.len()
    }
    fn buffer(&mut self, _slot: u32) -> &mut [u8] {
        &mut self.buffer
    }
    fn submit(&mut self, io: &Io) {
        let now = self.clock.0.load(Ordering::SeqCst);
        let (latency_ns, fate) = (self.script)(now, io);
        self.waiting.push((now + latency_ns, io.slot, fate));
    }
    fn kick(&mut self) {}
    fn reap(&mut self, done: &mut Vec<Done>) {
        let now = self.clock.0.load(Ordering::SeqCst);
        self.waiting.retain(|&(at, slot, fate)| {
            if at <= now {
                let error = |kind| Box::new(IoError { kind, operation: "read", offset_bytes: 0, os_error: 5 });
                done.push(Done { slot, error: fate.map(error) });
            }
            at > now
        });
    }
    fn wait(&mut self, timeout_ns: u64) {
        let now = self.clock.0.load(Ordering::SeqCst);
        let next = self.waiting.iter().map(|&(at, ..)| at).min().unwrap_or(now);
        self.clock.advance_to(next.min(now + timeout_ns));
    }
    fn in_flight(&self) -> u32 {
        self.waiting.len() as u32
    }
}

fn job(depth: u32, seconds: f64) -> Job {
    Job {
        depth,
        end: End { after_ns: Some((seconds * 1e9) as u64), ..End::default() },
        warmup_ns: 10_000_000,
        ..Job::default()
    }
}

fn run_on(job: Job, script: Script) -> JobResult {
    let clock = VirtualClock::default();
    let queue = Scripted::new(&clock, job.depth, script);
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let opened = Opened { queues: vec![queue], facts };
    let stop = Arc::new(AtomicBool::new(false));
    let assignment = Assignment { job, opened, recorders: Vec::new(), replay: None };
    let mut results = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap();
    results.pop().unwrap()
}

fn fixed(latency_ns: u64) -> Script {
    Box::new(move |_, _| (latency_ns, None))
}

#[test]
fn a_fixed_latency_is_found_and_littles_law_holds() {
    for depth in [1, 4, 16] {
        let result = run_on(job(depth, 2.0), fixed(100_000));
        let read = result.kind(OpKind::Read).unwrap();
        assert!((100_000..100_500).contains(&read.total.min_ns()), "{}", read.total.min_ns());
        assert!(read.total.mean_ns() < 101_000.0, "{}", read.total.mean_ns());
        let expected = f64::from(depth) * 1e9 / 100_000.0;
        assert!((result.iops() / expected - 1.0).abs() < 0.01, "{} at depth {depth}", result.iops());
        assert!((result.depth_mean / f64::from(depth) - 1.0).abs() < 0.01, "{}", result.depth_mean);
        let little = result.iops() * result.service_mean_ns / 1e9;
        assert!((little / result.depth_mean - 1.0).abs() < 0.01, "{little} against {}", result.depth_mean);
        // What the warm-up began is in the rows, too.
        let in_rows: u64 = result.intervals.iter().map(|row| row.ios).sum();
        assert!((0..=u64::from(depth)).contains(&(in_rows - result.ios())), "{in_rows}");
        assert!(result.partial.is_none());
    }
}

#[test]
fn waiting_methods_find_the_same() {
    for wait in [WaitMethod::Sleep, WaitMethod::Spin, WaitMethod::Hybrid { spin_ns: 5_000 }] {
        let result = run_on(Job { wait, ..job(1, 0.1) }, fixed(20_000));
        let mean = result.total().mean_ns();
        assert!((20_000.0..20_500.0).contains(&mean), "{wait}: {mean}");
    }
}

/// A target whose calls take time: 1 us to take an I/O, 20 us to submit, or all of it where it is synchronous.
struct Costly {
    inner: Scripted,
    is_synchronous: bool,
    kicks: Arc<AtomicU64>,
}

impl Queue for Costly {
    fn slots(&self) -> u32 {
        self.inner.slots()
    }
    fn buffer_bytes(&self) -> usize {
        self.inner.buffer_bytes()
    }
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.inner.buffer(slot)
    }
    fn submit(&mut self, io: &Io) {
        self.inner.clock.sleep_ns(1_000);
        self.inner.submit(io);
        if self.is_synchronous {
            self.inner.clock.advance_to(self.inner.waiting[0].0);
        }
    }
    fn kick(&mut self) {
        self.kicks.fetch_add(1, Ordering::SeqCst);
        self.inner.clock.sleep_ns(20_000);
    }
    fn reap(&mut self, done: &mut Vec<Done>) {
        self.inner.reap(done);
    }
    fn wait(&mut self, timeout_ns: u64) {
        self.inner.wait(timeout_ns);
    }
    fn is_synchronous(&self) -> bool {
        self.is_synchronous
    }
    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }
}

fn run_on_costly(job: Job, is_synchronous: bool, script: Script) -> (JobResult, u64) {
    let (clock, kicks) = (VirtualClock::default(), Arc::new(AtomicU64::new(0)));
    let queue = Costly { inner: Scripted::new(&clock, job.depth, script), is_synchronous, kicks: kicks.clone() };
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let assignment =
        Assignment { job, opened: Opened { queues: vec![queue], facts }, recorders: Vec::new(), replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    let mut results = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap();
    (results.pop().unwrap(), kicks.load(Ordering::SeqCst))
}

#[test]
fn each_latency_lies_between_its_own_two_stamps() {
    let close = |found: &Latencies, truth: u64| {
        assert!(found.min_ns().abs_diff(truth) < 500, "{} of {truth}", found.min_ns());
        assert!((found.mean_ns() - truth as f64).abs() < 500.0, "{} of {truth}", found.mean_ns());
    };
    for single_submission in [false, true] {
        // 1 us to take and 20 us to submit; the target's 200 us begin when it has been taken.
        let (result, _) = run_on_costly(Job { single_submission, ..job(1, 0.2) }, false, fixed(200_000));
        let read = result.kind(OpKind::Read).unwrap();
        close(&read.submission, 21_000);
        close(&read.device, 180_000);
        close(&read.total, 201_000);
    }
    // A call that carries it out is the target's time as a whole.
    let (result, _) = run_on_costly(job(1, 0.2), true, fixed(200_000));
    let read = result.kind(OpKind::Read).unwrap();
    assert!(read.submission.max_ns() < 500, "{}", read.submission.max_ns());
    close(&read.device, 201_000);
    close(&read.total, 201_000);
    // In an open loop that is behind, the wait for a slot is part of submission.
    let open = Job { arrival: Arrival::Constant { iops: 10_000.0 }, warmup_ns: 0, ..job(1, 0.1) };
    let (result, _) = run_on_costly(open, false, fixed(200_000));
    let read = result.kind(OpKind::Read).unwrap();
    assert!(read.submission.max_ns() > 50_000_000, "{}", read.submission.max_ns());
    assert!((read.submission.mean_ns() + read.device.mean_ns() - read.total.mean_ns()).abs() < 1.0);
}

#[test]
fn single_submission_submits_each_io_alone() {
    // All four end at the same time, and so are ready together.
    let script = || -> Script { Box::new(|now, _| (1_000_000 - now % 1_000_000, None)) };
    let (batch, kicks) = run_on_costly(Job { single_submission: false, warmup_ns: 0, ..job(4, 0.2) }, false, script());
    assert!((batch.ios() / 4..=batch.ios() / 4 + 4).contains(&kicks), "{kicks} for {}", batch.ios());
    let (single, kicks) = run_on_costly(Job { single_submission: true, warmup_ns: 0, ..job(4, 0.2) }, false, script());
    assert!((single.ios()..=single.ios() + 4).contains(&kicks), "{kicks} for {}", single.ios());
}

/// A target that answers in 20 us, and stands still for 100 ms once a second.
fn stalling() -> Script {
    Box::new(|now, _| {
        let in_second = now % 1_000_000_000;
        (if in_second >= 900_000_000 { 1_000_000_000 - in_second + 20_000 } else { 20_000 }, None)
    })
}

#[test]
fn an_open_loop_sees_a_stall_as_its_users_do() {
    // 1,000 a second: of each second 100 I/Os meet the stall and wait for 50 ms on average: a tenth of all.
    let open = Job { arrival: Arrival::Constant { iops: 1000.0 }, ..job(256, 10.0) };
    let result = run_on(open, stalling());
    assert_eq!(result.ios(), 10_000);
    let open = result.open.unwrap();
    assert_eq!((open.scheduled, open.issued), (10_000, 10_000));
    let total = result.total();
    assert!((95_000_000..101_000_000).contains(&total.quantile_ns(0.999)), "{}", total.quantile_ns(0.999));
    assert!((85_000_000..95_000_000).contains(&total.quantile_ns(0.99)), "{}", total.quantile_ns(0.99));
    assert!((40_000_000..60_000_000).contains(&total.quantile_ns(0.95)), "{}", total.quantile_ns(0.95));
    assert!(total.quantile_ns(0.89) < 30_000, "{}", total.quantile_ns(0.89));
    // The closed loop asks only once per stall, and so hides it from its own percentiles.
    let closed = run_on(job(1, 10.0), stalling());
    assert!(closed.total().quantile_ns(0.999) < 30_000);
    assert!(closed.total().max_ns() > 95_000_000);
}

#[test]
fn an_open_loop_with_one_slot_counts_from_the_intended_start_too() {
    let open = Job { arrival: Arrival::Constant { iops: 1000.0 }, ..job(1, 10.0) };
    let result = run_on(open, stalling());
    assert_eq!(result.ios(), 10_000);
    let total = result.total();
    assert!((80_000_000..101_000_000).contains(&total.quantile_ns(0.99)), "{}", total.quantile_ns(0.99));
    // Service times stand beside it: one in a thousand met the stall itself.
    let device = &result.kind(OpKind::Read).unwrap().device;
    assert!(device.quantile_ns(0.99) < 30_000, "{}", device.quantile_ns(0.99));
    assert!(result.open.unwrap().no_slot > 0);
}

#[test]
fn an_open_loop_that_is_too_fast_for_its_target_says_what_it_left_out() {
    // 1,000 a second on a target that takes 10 ms each, one at a time: a tenth is served in time, as much again after.
    let open = Job { arrival: Arrival::Constant { iops: 1000.0 }, ..job(1, 5.0) };
    let result = run_on(open, fixed(10_000_000));
    let open = result.open.unwrap();
    assert_eq!(open.scheduled, 5000);
    assert!((900..1100).contains(&open.issued), "{}", open.issued);
    assert_eq!(result.ios(), open.issued);
    assert!(result.total().max_ns() > 8_000_000_000);
}

#[test]
fn lateness_of_the_tool_is_not_the_targets() {
    // The thread stands still for 5 ms while slots are free: four I/Os are submitted 4, 3, 2 and 1 ms late.
    let clock = VirtualClock::default();
    let (mut number, still) = (0, clock.clone());
    let script: Script = Box::new(move |_, _| {
        number += 1;
        if number == 500 {
            still.sleep_ns(5_000_000);
        }
        (10_000, None)
    });
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let opened = Opened { queues: vec![Scripted::new(&clock, 8, script)], facts };
    let open = Job { arrival: Arrival::Constant { iops: 1000.0 }, ..job(8, 1.0) };
    let assignment = Assignment { job: open, opened, recorders: Vec::new(), replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    let result = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap().pop().unwrap();
    let open = result.open.unwrap();
    assert_eq!(open.no_slot, 0);
    assert!((4..=5).contains(&open.late), "{}", open.late);
    // A target that stands still with all slots taken is not the tool's doing.
    let slow = run_on(Job { arrival: Arrival::Constant { iops: 1000.0 }, ..job(1, 2.0) }, stalling());
    assert_eq!(slow.open.unwrap().late, 0);
}

#[test]
fn a_pause_may_be_slept() {
    let think = Some(crate::job::model::Think { time_ns: 90_000, compute: false });
    let result = run_on(Job { think, ..job(1, 1.0) }, fixed(10_000));
    assert!((result.iops() / 10_000.0 - 1.0).abs() < 0.02, "{}", result.iops());
}

#[test]
fn poisson_arrivals_come_at_their_rate() {
    let open = Job { arrival: Arrival::Poisson { iops: 20_000.0 }, ..job(64, 5.0) };
    let result = run_on(open, fixed(30_000));
    let open = result.open.unwrap();
    assert_eq!(open.scheduled, open.issued);
    let expected = 100_000.0;
    assert!((open.issued as f64 / expected - 1.0).abs() < 4.0 / expected.sqrt(), "{}", open.issued);
}

#[test]
fn errors_are_counted_located_and_kept_out_of_the_latencies() {
    let mut number = 0;
    let script: Script = Box::new(move |_, _| {
        number += 1;
        if number % 100 == 0 { (5_000_000, Some(IoErrorKind::Medium)) } else { (10_000, None) }
    });
    let result = run_on(job(1, 1.0), script);
    let read = result.kind(OpKind::Read).unwrap();
    assert!(read.errors > 100, "{}", read.errors);
    assert!(result.failures.count >= read.errors);
    assert_eq!(result.failures.first.len(), 16);
    assert!(read.total.max_ns() < 20_000);
    assert!(result.partial.is_none());
}

/// They were since the begin of the warm-up, beside intervals whose times are since its end.
#[test]
fn regression_times_of_failures_are_those_of_the_intervals() {
    let mut number = 0;
    let script: Script = Box::new(move |_, _| {
        number += 1;
        (1_000_000, (number == 5 || number == 35).then_some(IoErrorKind::Medium))
    });
    // A warm-up of 10 ms, and an I/O takes 1 ms.
    let result = run_on(job(1, 0.1), script);
    let [early, late] = [0, 1].map(|at: usize| result.failures.first[at].at_ns);
    assert!((-5_000_000..-4_900_000).contains(&early), "{early}");
    assert!((25_000_000..25_100_000).contains(&late), "{late}");
}

#[test]
fn a_target_that_only_fails_is_given_up() {
    let result = run_on(job(4, 100.0), Box::new(|_, _| (1000, Some(IoErrorKind::Medium))));
    assert_eq!(result.partial, Some(Partial::GaveUp));
    assert!((1000..1010).contains(&result.failures.count));
    let gone = run_on(job(4, 100.0), Box::new(|_, _| (1000, Some(IoErrorKind::Gone))));
    assert_eq!(gone.partial, Some(Partial::GaveUp));
    assert!(gone.failures.count <= 8);
}

#[test]
fn an_io_that_never_returns_is_reported() {
    let mut number = 0;
    let script: Script = Box::new(move |_, _| {
        number += 1;
        (if number == 1000 { u64::MAX / 2 } else { 10_000 }, None)
    });
    let result = run_on(job(2, 1.0), script);
    assert_eq!((result.partial, result.hung), (Some(Partial::Hung), 1));
    assert!(result.ios() > 90_000);
}

#[test]
fn a_number_of_ios_or_bytes_or_passes_ends_a_job() {
    for (end, ios) in [
        (End { after_ios: Some(1001), ..End::default() }, 1001),
        (End { after_bytes: Some(4096 * 777), ..End::default() }, 777),
        // The time that was allowed is not the time that it took.
        (End { after_ios: Some(500), after_ns: Some(10_000_000_000), ..End::default() }, 500),
        (End { after_passes: Some(0.01), ..End::default() }, (1 << 30) / 4096 / 100 + 1),
    ] {
        let result = run_on(Job { end, warmup_ns: 0, ..job(4, 1.0) }, fixed(10_000));
        assert_eq!(result.ios(), ios, "{end:?}");
        let expected = ios as f64 * 10_000.0 / 4.0;
        assert!((result.duration_ns as f64 / expected - 1.0).abs() < 0.05, "{end:?}: {}", result.duration_ns);
    }
}

/// A job's workers as they would begin, none of them run.
fn workers_of(job: Job) -> Vec<WorkerParts<Scripted, VirtualClock>> {
    let clock = VirtualClock::default();
    let queues = (0..job.threads).map(|_| Scripted::new(&clock, job.depth, fixed(10_000))).collect();
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let assignment = Assignment { job, opened: Opened { queues, facts }, recorders: Vec::new(), replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    let (_, workers, _) = Group::prepare(vec![assignment], &clock, &Settings::default(), &stop).unwrap();
    workers.into_iter().map(|(parts, _)| parts).collect()
}

#[test]
fn threads_share_what_a_job_may_do() {
    let end = End { after_ios: Some(1001), after_bytes: Some(4096 * 1003), ..End::default() };
    let budgets: Vec<_> = workers_of(Job { threads: 4, end, ..job(2, 1.0) }).iter().map(|parts| parts.budget).collect();
    assert_eq!(budgets.iter().map(|&(ios, _)| ios).collect::<Vec<_>>(), [251, 250, 250, 250]);
    assert_eq!(budgets.iter().map(|&(_, bytes)| bytes).sum::<u64>(), 4096 * 1003);
}

#[test]
fn threads_have_random_schedules_of_their_own() {
    let arrival = Arrival::Poisson { iops: 1000.0 };
    let mut begins: Vec<u64> =
        workers_of(Job { threads: 8, arrival, ..job(1, 1.0) }).iter().map(|parts| parts.load.due_ns()).collect();
    begins.sort_unstable();
    begins.dedup();
    assert_eq!(begins.len(), 8);
}

#[test]
fn what_is_not_measured_takes_nothing_from_what_a_job_may_do() {
    // A thousand I/Os of warm-up come first.
    for (end, ios) in [
        (End { after_ios: Some(1001), ..End::default() }, 1001),
        (End { after_bytes: Some(8192 * 777), ..End::default() }, 777),
    ] {
        let size = SizeMix::fixed(8192);
        let sizes = Sizes { read: size.clone(), write: size.clone(), trim: size };
        let result = run_on(Job { sizes, end, ..job(1, 1.0) }, fixed(10_000));
        assert_eq!((result.ios(), result.bytes()), (ios, ios * 8192), "{end:?}");
    }
}

#[test]
fn what_workers_found_is_added_up() {
    use super::collect::Collector;
    use super::worker::WorkerEnd;
    let window = Window::new(0, 0, Some(5_000_000_000), 0);
    let arrival = Arrival::Constant { iops: 1.0 };
    let mut collector = Collector::new(Job { threads: 2, arrival, ..job(1, 5.0) }, window, 1_000_000_000);
    for worker in 0..2 {
        let mut share = Share::new(worker, &[OpKind::Read], 1_000_000_000);
        (share.late, share.no_slot, share.depth_levels[1]) = (2, 3, 4);
        collector.add(worker, &share);
        let mut end = WorkerEnd {
            worker,
            scheduled: 10,
            issued: 9,
            hung: 2 - worker as u32,
            // One had made all that it might, the other went on to the end.
            spent: worker == 0,
            ended_ns: 1_000_000_000,
            used: ThreadUse { cpu_ns: (100, 10), switches: Some((7, 1)), ..ThreadUse::default() },
            records_dropped: 4,
            judged: Some(crate::data::verify::Judged { whole: 5, partly: 6, unjudged: 7, wrong: 8 }),
            ..WorkerEnd::default()
        };
        end.failures.add_mismatch(0, 4096, 1, "wrong".to_owned());
        collector.end(worker, end);
    }
    let result = collector.finish(TargetFacts::default());
    let open = OpenLoop { scheduled: 20, issued: 18, issued_ns: 5_000_000_000, late: 4, no_slot: 6 };
    assert_eq!(result.open, Some(open));
    assert_eq!((result.hung, result.used.cpu_ns, result.records_dropped), (3, (200, 20), 8));
    assert_eq!((result.failures.count, result.failures.mismatches, result.failures.first.len()), (2, 2, 2));
    let judged = result.judged.unwrap();
    assert_eq!((judged.whole, judged.partly, judged.unjudged, judged.wrong), (10, 12, 14, 16));
    assert_eq!((result.duration_ns, result.depth_levels), (5_000_000_000, [0, 8, 0, 0, 0, 0, 0]));
}

#[test]
fn a_stall_at_the_end_is_not_cut_off() {
    let script: Script = Box::new(|now, _| (if now > 900_000_000 { 3_000_000_000 } else { 10_000 }, None));
    let result = run_on(job(4, 1.0), script);
    assert!(result.total().max_ns() >= 3_000_000_000);
    assert!(result.duration_ns > 3_000_000_000);
}

/// A drive that kept its promise for all of a run failed it: one I/O took 30 s at the end, and all rates were of these, too.
#[test]
fn a_slow_io_at_the_end_is_not_taken_for_a_low_rate() {
    let mut was_slow = false;
    let script: Script = Box::new(move |now, _| {
        let slow = now > 11_900_000_000 && !std::mem::replace(&mut was_slow, now > 11_900_000_000);
        (if slow { 30_000_000_000 } else { 5_000_000 }, None)
    });
    let result = run_on(job(8, 12.0), script);
    assert!(result.duration_ns > 30_000_000_000 && result.total().max_ns() >= 30_000_000_000);
    assert!((1550.0..1650.0).contains(&result.iops()), "{}", result.iops());
    assert_eq!(result.counts(|row| row.ios).len(), 12);
    assert!(result.notes.iter().any(|warning| warning.contains("behind the others")));
}

/// fio's `iops` and `bw` were of all the time until the last completion, ours of the time in which I/Os were wanted: on a busy machine the same
/// result had two rates.
#[test]
fn regression_rates_in_fio_json_are_ours_also_where_an_io_is_slow_at_the_end() {
    let mut was_slow = false;
    let script: Script = Box::new(move |now, _| {
        let slow = now > 900_000_000 && !std::mem::replace(&mut was_slow, now > 900_000_000);
        (if slow { 30_000_000_000 } else { 5_000_000 }, None)
    });
    let result = run_on(job(8, 1.0), script);
    assert!(result.duration_ns > 20 * result.rated_ns);
    let document = crate::output::fio::document(std::slice::from_ref(&result), 0);
    let read = &document["jobs"][0]["read"];
    let number = |name: &str| read[name].as_f64().unwrap();
    assert_eq!(number("iops"), result.iops());
    let runtime_s = number("runtime") / 1000.0;
    assert!((number("total_ios") / runtime_s / number("iops") - 1.0).abs() < 0.002, "{read}");
    assert!((number("io_bytes") / runtime_s / number("bw_bytes") - 1.0).abs() < 0.002, "{read}");
    assert!((number("iops_mean") / number("iops") - 1.0).abs() < 0.1, "{read}");
}

#[test]
fn a_throttle_holds_its_rate_and_waits_for_the_target() {
    let throttle = Arrival::Throttled { iops: Some(500.0), bytes_per_second: None };
    let result = run_on(Job { arrival: throttle, ..job(8, 4.0) }, fixed(100_000));
    assert!((result.iops() / 500.0 - 1.0).abs() < 0.01, "{}", result.iops());
    assert!(result.total().quantile_ns(0.99) < 110_000);
}

#[test]
fn think_time_and_bursts_make_pauses() {
    let think = Some(crate::job::model::Think { time_ns: 90_000, compute: true });
    let result = run_on(Job { think, ..job(1, 1.0) }, fixed(10_000));
    assert!((result.iops() / 10_000.0 - 1.0).abs() < 0.02, "{}", result.iops());
    let burst = Some(crate::job::model::Burst { ios: 10, pause_ns: 1_000_000 });
    let result = run_on(Job { burst, ..job(1, 1.0) }, fixed(10_000));
    assert!((result.iops() / 9_100.0 - 1.0).abs() < 0.05, "{}", result.iops());
    // Ten in 100 us, then a pause: in the busiest millisecond no more than twenty.
    let millisecond = result.bursts[0];
    assert!((10_000.0..=20_000.0).contains(&millisecond.iops_max), "{millisecond:?}");
}

/// A pause of 1 ms after four I/Os of 3 ms each that are in flight together: 4 in 4 ms. Counted from the submission, the
/// target would never have rested.
#[test]
fn regression_a_pause_begins_when_the_burst_is_over() {
    let burst = Some(crate::job::model::Burst { ios: 4, pause_ns: 1_000_000 });
    let result = run_on(Job { burst, ..job(8, 1.0) }, fixed(3_000_000));
    assert!((result.iops() / 1000.0 - 1.0).abs() < 0.02, "{}", result.iops());
    assert!((result.depth_mean - 3.0).abs() < 0.05, "{}", result.depth_mean);
}

/// Handing a clock to the first worker takes a second, as reading a long trace does.
#[derive(Default)]
struct SlowToPrepare(VirtualClock, Arc<AtomicBool>);

impl Clone for SlowToPrepare {
    fn clone(&self) -> Self {
        if !self.1.swap(true, Ordering::SeqCst) {
            self.0.sleep_ns(1_000_000_000);
        }
        Self(self.0.clone(), self.1.clone())
    }
}

impl Clock for SlowToPrepare {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn sleep_ns(&self, ns: u64) {
        self.0.sleep_ns(ns);
    }
}

#[test]
fn regression_slow_preparation_is_not_in_the_schedule() {
    let clock = SlowToPrepare::default();
    let queue = Scripted::new(&clock.0, 4, fixed(10_000));
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let job = Job { arrival: Arrival::Constant { iops: 1000.0 }, warmup_ns: 0, ..job(4, 0.5) };
    let assignment =
        Assignment { job, opened: Opened { queues: vec![queue], facts }, recorders: Vec::new(), replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    let result = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap().pop().unwrap();
    let open = result.open.unwrap();
    assert_eq!((open.scheduled, open.issued, open.late), (500, 500, 0));
    assert!(result.total().max_ns() < 20_000, "{}", result.total().max_ns());
}

/// The target hangs; the user has waited a second for it and ends the run: the result is there after 5 more, not after 60.
#[test]
fn regression_the_user_does_not_wait_for_what_hangs() {
    let clock = VirtualClock::default();
    let stop = Arc::new(AtomicBool::new(false));
    let (ends, mut made) = (stop.clone(), 0);
    let script: Script = Box::new(move |_, _| {
        made += 1;
        ends.store(made >= 100, Ordering::SeqCst);
        (if made >= 100 { u64::MAX / 2 } else { 10_000_000 }, None)
    });
    let queue = Scripted::new(&clock, 1, script);
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let assignment = Assignment {
        job: job(1, 30.0),
        opened: Opened { queues: vec![queue], facts },
        recorders: Vec::new(),
        replay: None,
    };
    let result = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap().pop().unwrap();
    assert_eq!((result.partial, result.hung), (Some(Partial::Interrupted), 1));
    let lasted = clock.0.load(Ordering::SeqCst);
    assert!((6_000_000_000..7_000_000_000).contains(&lasted), "{lasted}");
}

#[test]
fn kinds_have_figures_of_their_own() {
    let mix = Mix { weights: vec![(OpKind::Read, 70), (OpKind::Write, 30)], flush_every: Some((OpKind::Flush, 10)) };
    let script: Script = Box::new(|_, io| {
        (
            match io.kind {
                OpKind::Read => 10_000,
                OpKind::Write => 20_000,
                _ => 1_000_000,
            },
            None,
        )
    });
    let result = run_on(Job { mix, ..job(1, 1.0) }, script);
    let mean = |kind| result.kind(kind).unwrap().total.mean_ns();
    assert!((10_000.0..10_300.0).contains(&mean(OpKind::Read)), "{}", mean(OpKind::Read));
    assert!((20_000.0..20_300.0).contains(&mean(OpKind::Write)), "{}", mean(OpKind::Write));
    assert!((1_000_000.0..1_000_500.0).contains(&mean(OpKind::Flush)), "{}", mean(OpKind::Flush));
    let (writes, flushes) = (result.kind(OpKind::Write).unwrap().ios, result.kind(OpKind::Flush).unwrap().ios);
    assert!(writes.abs_diff(flushes * 10) <= 20, "{writes} writes, {flushes} flushes");
}

#[test]
fn the_user_ends_a_run_with_what_is_known() {
    let clock = VirtualClock::default();
    let stop = Arc::new(AtomicBool::new(false));
    let (mut number, by_user) = (0, stop.clone());
    let script: Script = Box::new(move |_, _| {
        number += 1;
        by_user.fetch_or(number == 5000, Ordering::SeqCst);
        (10_000, None)
    });
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let opened = Opened { queues: vec![Scripted::new(&clock, 2, script)], facts };
    let job = Job { warmup_ns: 0, ..job(2, 100.0) };
    let assignment = Assignment { job, opened, recorders: Vec::new(), replay: None };
    let result = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap().pop().unwrap();
    assert_eq!(result.partial, Some(Partial::Interrupted));
    assert!((5000..5004).contains(&result.ios()), "{}", result.ios());
    // Its time is the time that it ran, not what was allowed.
    assert!((24_000_000..27_000_000).contains(&result.duration_ns), "{}", result.duration_ns);
}

#[test]
fn a_job_begins_late_and_cools_down_unmeasured() {
    const SECOND: u64 = 1_000_000_000;
    let first = Arc::new(AtomicU64::new(u64::MAX));
    let last = Arc::new(AtomicU64::new(0));
    let (earliest, latest) = (first.clone(), last.clone());
    let script: Script = Box::new(move |now, _| {
        earliest.fetch_min(now, Ordering::SeqCst);
        latest.fetch_max(now, Ordering::SeqCst);
        (100_000, None)
    });
    let result = run_on(Job { start_delay_ns: 3 * SECOND, cooldown_ns: SECOND, ..job(1, 1.0) }, script);
    assert!((9_980..=10_000).contains(&result.ios()), "{}", result.ios());
    assert!((SECOND..SECOND + 200_000).contains(&result.duration_ns), "{}", result.duration_ns);
    assert!((0.99..=1.0).contains(&result.depth_mean), "{}", result.depth_mean);
    let (first, last) = (first.load(Ordering::SeqCst), last.load(Ordering::SeqCst));
    assert!((3 * SECOND..3 * SECOND + 100_000_000).contains(&first), "{first}");
    assert!((5 * SECOND..5 * SECOND + 100_000_000).contains(&last), "{last}");
}

#[test]
fn failed_ios_take_part_in_littles_law() {
    let mut number = 0;
    let script: Script = Box::new(move |_, _| {
        number += 1;
        if number % 100 == 0 { (5_000_000, Some(IoErrorKind::Medium)) } else { (10_000, None) }
    });
    let check = crate::output::summary::little(&run_on(job(1, 1.0), script));
    assert_eq!(check.verdict, crate::stats::little::Verdict::Holds, "{check:?}");
}

#[test]
fn what_does_not_fit_is_refused_before_any_io() {
    let clock = VirtualClock::default();
    let facts = TargetFacts { size_bytes: 4096, logical_block_bytes: 512, ..TargetFacts::default() };
    let job = Job {
        sizes: Sizes { read: SizeMix::fixed(8192), write: SizeMix::fixed(8192), trim: SizeMix::fixed(8192) },
        pattern: Pattern::Sequential { per_thread: false },
        ..job(1, 1.0)
    };
    let queue = Scripted::new(&clock, 1, Box::new(|_, _| panic!("an I/O was made")));
    let assignment =
        Assignment { job, opened: Opened { queues: vec![queue], facts }, recorders: Vec::new(), replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    let error = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("job"), "{error}");
}

/// A file of records in memory.
#[derive(Clone, Default)]
struct InMemory(Arc<std::sync::Mutex<Vec<u8>>>);

impl crate::telemetry::SpillTarget for InMemory {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn records_say_what_became_of_each_io() {
    use crate::telemetry::{Header, Reader, Record, Spill, SpillOptions};
    let header = Header { run_id: [7; 16], begin_unix_ns: 0, jobs: vec!["job".to_owned()], metadata: "{}".to_owned() };
    let memory = InMemory::default();
    let options = SpillOptions { chunk_records: 4096, chunks_per_thread: 4, threads: 1 };
    let mut spill = Spill::start(Box::new(memory.clone()), "memory", &header, options).unwrap();
    let clock = VirtualClock::default();
    let mut number = 0;
    // Each needs longer than the schedule allows it, and one in ten fails.
    let script: Script = Box::new(move |_, _| {
        number += 1;
        (1_100_000, (number % 10 == 0).then_some(IoErrorKind::Medium))
    });
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let assignment = Assignment {
        job: Job { arrival: Arrival::Constant { iops: 1000.0 }, warmup_ns: 0, ..job(1, 1.0) },
        opened: Opened { queues: vec![Scripted::new(&clock, 1, script)], facts },
        recorders: vec![spill.recorder(0, 0).unwrap()],
        replay: None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let result = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap().pop().unwrap();
    assert!(spill.finish(Duration::from_secs(30)).is_clean);
    let bytes = memory.0.lock().unwrap().clone();
    let mut reader = Reader::new(&*bytes).unwrap();
    let mut records: Vec<Record> = Vec::new();
    while let Some(segment) = reader.next_segment().unwrap() {
        records.extend_from_slice(&segment.records);
    }
    assert_eq!((records.len(), result.ios(), result.kinds[0].errors), (1000, 900, 100));
    for (at, record) in (0..).zip(&records) {
        assert_eq!(record.intended_ns, LEAD_NS + LEAD_PER_THREAD_NS + TICK_NS + at * 1_000_000);
        assert!((1_099_000..1_101_000).contains(&(record.completed_ns - record.submitted_ns)), "{record:?}");
        assert_eq!((record.depth, record.len_bytes, record.kind), (1, 4096, OpKind::Read));
        assert_eq!(record.failed, at % 10 == 9, "{record:?}");
    }
    // The last one waited for the hundred milliseconds by which all before it were late.
    let last = records[999];
    assert!((99_000_000..101_500_000).contains(&(last.submitted_ns - last.intended_ns)), "{last:?}");
}

#[test]
fn processor_time_is_that_of_the_window() {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let used_ms = || getrusage(UsageWho::RUSAGE_THREAD).unwrap().user_time().num_milliseconds();
    let burn = move || {
        let begin = used_ms();
        while used_ms() < begin + 100 {
            std::hint::spin_loop();
        }
    };
    // A hundred milliseconds of work before the window, as much within.
    let mut number = 0;
    let script: Script = Box::new(move |_, _| {
        number += 1;
        if number == 10 || number == 150 {
            burn();
        }
        (1_000_000, None)
    });
    let result = run_on(Job { warmup_ns: 100_000_000, ..job(1, 0.1) }, script);
    let used = result.used.cpu_ns.0;
    assert!((90_000_000..180_000_000).contains(&used), "{used}");
}

#[test]
fn a_cpu_that_is_not_there_is_refused() {
    let clock = VirtualClock::default();
    let queue = Scripted::new(&clock, 1, fixed(1000));
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let job = Job { cpus: vec![1023], ..job(1, 0.1) };
    let assignment =
        Assignment { job, opened: Opened { queues: vec![queue], facts }, recorders: Vec::new(), replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    let error = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("CPU 1023"), "{error}");
}
