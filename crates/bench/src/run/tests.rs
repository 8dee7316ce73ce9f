//! Runs in virtual time on a target with scripted latencies, so that the true values are known to the nanosecond.

use super::*;
use crate::job::model::{End, Mix, Pattern, SizeMix, Sizes};
use forebay_block::{Done, Io, IoError, IoErrorKind, OpKind, WaitMethod};
use std::sync::atomic::AtomicU64;

mod ends;
mod failing;
mod open_loops;
mod overload;
mod records;
mod replays;
mod rows;
mod stamps;
mod thinking;
mod traces;
mod verify;

/// Cost of reading the virtual clock, in nanoseconds, so that time also passes for threads that spin.
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

/// A queue whose script gives latency and fate of each I/O by its number and time.
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
        // I/Os begun in the warm-up are in the rows too.
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

/// A job's workers, ready to begin; none has run.
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
fn what_workers_found_is_added_up() {
    use super::collect::Collector;
    use super::ledger::WorkerEnd;
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
            // One worker had made all its I/Os, the other went on to the end.
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
    let open = OpenLoop { scheduled: 20, issued: 18, backlog: 0, issued_ns: 5_000_000_000, late: 4, no_slot: 6 };
    assert_eq!(result.open, Some(open));
    assert_eq!((result.hung, result.used.cpu_ns, result.records_dropped), (3, (200, 20), 8));
    assert_eq!((result.failures.count, result.failures.mismatches, result.failures.first.len()), (2, 2, 2));
    let judged = result.judged.unwrap();
    assert_eq!((judged.whole, judged.partly, judged.unjudged, judged.wrong), (10, 12, 14, 16));
    assert_eq!((result.duration_ns, result.depth_levels), (5_000_000_000, [0, 8, 0, 0, 0, 0, 0]));
}

#[test]
fn a_throttle_holds_its_rate_and_waits_for_the_target() {
    let throttle = Arrival::Throttled { iops: Some(500.0), bytes_per_second: None };
    let result = run_on(Job { arrival: throttle, ..job(8, 4.0) }, fixed(100_000));
    assert!((result.iops() / 500.0 - 1.0).abs() < 0.01, "{}", result.iops());
    assert!(result.total().quantile_ns(0.99) < 110_000);
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
    // A hundred milliseconds of work before the window, and as much within it.
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
