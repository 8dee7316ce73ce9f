use super::*;
use crate::job::model::{Arrival, End, Job, Pattern};
use crate::job::steady::{Criterion, Figure, Limit, Rule, Steady};
use crate::replay::{Feed, Fit, Recorded, Requests, Selection, SourceError, TraceSource};
use crate::run::{Opened, TargetFacts};
use forebay_block::{Done, Io, OpKind, Queue};
use std::sync::Mutex;

/// A device with several queues that serves one I/O after the other, 10 us each.
#[derive(Default)]
struct Server {
    waiting: Vec<(u64, usize, u32)>,
    busy_until_ns: u64,
    /// Until this time I/Os take longer; the surplus shrinks with time.
    slow_until_ns: u64,
    ended: Vec<(u64, usize, u32)>,
}

const SERVICE_NS: u64 = 10_000;
const HOST_NS: u64 = 1_000;

struct Line {
    number: usize,
    clock: VirtualClock,
    server: Arc<Mutex<Server>>,
    buffer: Vec<u8>,
}

impl Queue for Line {
    fn slots(&self) -> u32 {
        16
    }
    fn buffer_bytes(&self) -> usize {
        4096
    }
    fn buffer(&mut self, _: u32) -> &mut [u8] {
        &mut self.buffer
    }
    fn submit(&mut self, io: &Io) {
        self.clock.show(self.clock.now_ns() + HOST_NS);
        let mut server = self.server.lock().unwrap();
        let begin = server.busy_until_ns.max(self.clock.now_ns());
        server.busy_until_ns = begin + SERVICE_NS + server.slow_until_ns.saturating_sub(begin) / 100_000;
        let end = server.busy_until_ns;
        server.waiting.push((end, self.number, io.slot));
    }
    fn kick(&mut self) {}
    fn reap(&mut self, done: &mut Vec<Done>) {
        let (now, number) = (self.clock.now_ns(), self.number);
        self.server.lock().unwrap().ended.retain(|&(end, queue, slot)| {
            let mine = queue == number && end <= now;
            if mine {
                done.push(Done { slot, error: None });
            }
            !mine
        });
    }
    fn wait(&mut self, _: u64) {}
    fn in_flight(&self) -> u32 {
        0
    }
}

impl VirtualQueue for Line {
    fn next_seen_ns(&self) -> u64 {
        let server = self.server.lock().unwrap();
        let mine = server.ended.iter().filter(|&&(_, queue, _)| queue == self.number);
        mine.map(|&(end, ..)| end).min().unwrap_or(u64::MAX)
    }
    fn next_event_ns(&self) -> u64 {
        self.server.lock().unwrap().waiting.iter().map(|&(end, ..)| end).min().unwrap_or(u64::MAX)
    }
    fn advance(&mut self, to_ns: u64) {
        let to_ns = to_ns.min(self.next_event_ns());
        let mut server = self.server.lock().unwrap();
        let (ended, waiting): (Vec<_>, Vec<_>) = server.waiting.drain(..).partition(|&(end, ..)| end <= to_ns);
        server.waiting = waiting;
        server.ended.extend(ended);
    }
}

fn run_job(job: Job) -> JobResult {
    run_with(job, None, &Settings::default())
}

fn run_replay(job: Job, replay: Option<Feed>) -> JobResult {
    run_with(job, replay, &Settings::default())
}

fn run_with(job: Job, replay: Option<Feed>, settings: &Settings) -> JobResult {
    run_on(Server::default(), vec![(job, replay)], settings).pop().unwrap()
}

fn run_on(server: Server, jobs: Vec<(Job, Option<Feed>)>, settings: &Settings) -> Vec<JobResult> {
    let clock = VirtualClock::default();
    let server = Arc::new(Mutex::new(server));
    let mut lines = 0;
    let mut line = |_| {
        lines += 1;
        Line { number: lines, clock: clock.clone(), server: server.clone(), buffer: vec![0; 4096] }
    };
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let mut assignment = |(job, replay): (Job, Option<Feed>)| {
        let opened = Opened { queues: (0..job.threads).map(&mut line).collect(), facts: facts.clone() };
        Assignment { job, opened, recorders: Vec::new(), replay }
    };
    let assignments = jobs.into_iter().map(&mut assignment).collect();
    let stop = Arc::new(AtomicBool::new(false));
    run_virtual(assignments, &clock, settings, &stop, &mut |_| {}).unwrap()
}

fn job(threads: u32, depth: u32, seconds: u64) -> Job {
    let end = End { after_ns: Some(seconds * 1_000_000_000), ..End::default() };
    Job { threads, depth, end, ..Job::default() }
}

#[test]
fn one_thread_sees_service_and_host_time() {
    let result = run_job(job(1, 1, 10));
    assert_eq!((result.total().min_ns(), result.total().max_ns()), (11_000, 11_000));
    assert!((result.iops() / (1e9 / 11_000.0) - 1.0).abs() < 1e-4, "{}", result.iops());
}

#[test]
fn threads_share_the_server_and_littles_law_holds() {
    for (threads, depth) in [(4, 1), (4, 4), (3, 16)] {
        let result = run_job(job(threads, depth, 2));
        assert!((result.iops() / 100_000.0 - 1.0).abs() < 1e-3, "{}", result.iops());
        let little = crate::output::summary::little(&result);
        assert_eq!(little.verdict, crate::stats::little::Verdict::Holds, "{little:?}");
    }
}

#[test]
fn who_watches_sees_the_run_so_far_and_may_end_it() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let watch = crate::run::Watch::new({
        let asked = asked.clone();
        move |share, so_far| {
            let result = so_far();
            asked.lock().unwrap().push((share, result.duration_ns, result.ios(), result.partial));
            share >= 0.3
        }
    });
    let settings = Settings { watch, ..Settings::default() };
    let result = run_with(job(3, 4, 10), None, &settings);
    let asked = asked.lock().unwrap();
    let shares: Vec<f64> = asked.iter().map(|asked| asked.0).collect();
    assert_eq!(shares, [0.1, 0.2, 0.3]);
    for (share, duration_ns, ios, partial) in asked.iter() {
        // I/Os that ended a little later are counted, with their time.
        assert!((*duration_ns as f64 / 1e9 - share * 10.0).abs() < 0.1, "{share}: {duration_ns} ns");
        assert!((*ios as f64 / (*duration_ns as f64 / 1e9) / 100_000.0 - 1.0).abs() < 0.02, "{share}: {ios}");
        assert_eq!(*partial, None);
    }
    // The run is complete, as if it had been asked for no more.
    assert_eq!(result.partial, None);
    assert!((3.0..3.2).contains(&(result.duration_ns as f64 / 1e9)), "{}", result.duration_ns);
    assert!((result.iops() / 100_000.0 - 1.0).abs() < 1e-3, "{}", result.iops());
    assert_eq!(result.hung, 0);
}

/// The duration of a run that ended early included the time of its last I/Os in flight, and a result taken before the
/// end left out the I/Os begun in the warm-up: at a deep queue the rate was 61 instead of 100.
#[test]
fn regression_a_run_that_ends_early_has_the_rate_of_its_time() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = seen.clone();
    let watch = crate::run::Watch::new(move |share, so_far| {
        note.lock().unwrap().push(so_far().iops());
        share >= 0.25
    });
    let settings = Settings { watch, interval_ns: 100_000, ..Settings::default() };
    let job = Job { warmup_ns: 1_000_000, end: End { after_ns: Some(4_000_000), ..End::default() }, ..job(1, 16, 1) };
    // 16 in flight, 160 us, of a run that ends after 1 ms.
    let result = run_with(job, None, &settings);
    assert!(result.partial.is_none() && result.duration_ns < 1_300_000, "{}", result.duration_ns);
    let off = |iops: f64| (iops / 100_000.0 - 1.0).abs();
    assert!(off(result.iops()) < 0.02, "{} in {} ns", result.iops(), result.rated_ns);
    let seen = seen.lock().unwrap();
    // No I/O of the measurement has ended in the first intervals.
    assert!(seen.len() >= 9 && seen.iter().skip(2).all(|&iops| off(iops) < 0.02), "{seen:?}");
}

#[test]
fn the_same_job_gives_the_same_nanoseconds() {
    let once = || {
        let result = run_job(Job { arrival: Arrival::Poisson { iops: 60_000.0 }, ..job(4, 16, 2) });
        let total = result.total();
        (result.ios(), total.mean_ns().to_bits(), total.max_ns(), total.quantile_ns(0.999), result.intervals)
    };
    assert_eq!(once(), once());
}

#[test]
fn an_open_loop_in_virtual_time_keeps_its_schedule() {
    let result = run_job(Job { arrival: Arrival::Constant { iops: 50_000.0 }, ..job(2, 16, 4) });
    let open = result.open.unwrap();
    assert_eq!((open.scheduled, open.issued, open.late), (200_000, 200_000, 0));
    assert!(result.total().max_ns() < 22_000, "{}", result.total().max_ns());
}

#[test]
fn regression_slots_that_rest_wake_in_virtual_time_too() {
    let think = Some(crate::job::model::Think { time_ns: 200_000, compute: false });
    let result = run_job(Job { think, ..job(1, 4, 1) });
    // Four slots: each has 11 to 44 us of I/O, one after the other, then 200 us of rest.
    let mean = result.total().mean_ns();
    let expected = 4.0 * 1e9 / (200_000.0 + mean);
    assert!((result.iops() / expected - 1.0).abs() < 0.01, "{} against {expected}", result.iops());
    assert!(result.total().max_ns() <= 45_000, "{}", result.total().max_ns());
}

#[test]
fn regression_think_time_that_computes_passes_in_virtual_time() {
    let think = Some(crate::job::model::Think { time_ns: 9_000, compute: true });
    let result = run_job(Job { think, ..job(1, 1, 1) });
    // 1 us of the host, 10 us of service, 9 us of think time.
    assert!((result.iops() / 50_000.0 - 1.0).abs() < 1e-3, "{}", result.iops());
}

/// A trace with a read of 4 KiB every 20 us.
struct Even(u64);

impl TraceSource for Even {
    fn read(&mut self, into: &mut Vec<Recorded>) -> Result<bool, SourceError> {
        let batch = self.0.min(1000);
        for _ in 0..batch {
            let at_ns = (100_000 - self.0) * 20_000;
            self.0 -= 1;
            into.push(Recorded {
                at_ns,
                kind: OpKind::Read,
                offset_bytes: 4096,
                len_bytes: 4096,
                flush_before: false,
                is_stand_in: false,
                hint: 0,
            });
        }
        Ok(self.0 > 0)
    }
}

#[test]
fn a_replay_keeps_its_times_whatever_the_reader_does() {
    let fit = Fit { target_bytes: 1 << 30, block_bytes: 512, piece_bytes: 4096, wrap: false };
    let replayed = |threads, arrival| {
        let feed = Feed::new(Requests::new(Even(100_000), Selection::default(), fit)).unwrap();
        let job = Job { pattern: Pattern::Replayed, arrival, warmup_ns: 0, end: End::default(), ..job(threads, 16, 1) };
        run_replay(job, Some(feed))
    };
    for threads in [1, 3] {
        let result = replayed(threads, Arrival::Recorded { speed: 1.0 });
        assert_eq!((result.ios(), result.partial), (100_000, None));
        let drift = result.drift.as_ref().unwrap();
        assert_eq!((drift.late.max_ns(), drift.gap.max_ns()), (0, 0));
        assert_eq!(result.duration_ns, 99_999 * 20_000 + HOST_NS + SERVICE_NS);
        let open = result.open.unwrap();
        assert_eq!((open.scheduled, open.issued, open.late), (100_000, 100_000, 0));
        // As fast as the target can go, which is 10 us an I/O.
        let result = replayed(threads, Arrival::Closed);
        assert!(result.drift.is_none() && result.open.is_none() && result.ios() == 100_000);
        assert!((result.iops() / 100_000.0 - 1.0).abs() < 1e-3, "{}", result.iops());
    }
}

/// Steady if the rates of a window of two seconds stay within `percent` of their mean; checked each half second.
fn steady(percent: f64) -> Option<Steady> {
    let criterion = Criterion { figure: Figure::Iops, rule: Rule::Deviation };
    let (window_ns, every_ns) = (2_000_000_000, 500_000_000);
    Some(Steady { criterion, limit: Limit::Percent(percent), window_ns, ramp_ns: 0, every_ns })
}

fn settings() -> Settings {
    Settings { interval_ns: 100_000_000, ..Settings::default() }
}

#[test]
fn a_job_ends_when_it_is_steady_and_always_at_the_same_time() {
    let slow_until_ns = 5_000_000_000;
    let run = |percent| {
        let server = Server { slow_until_ns, ..Server::default() };
        let steady = Job { steady: steady(percent), warmup_ns: 0, ..job(2, 2, 60) };
        run_on(server, vec![(steady, None)], &settings()).pop().unwrap()
    };
    let result = run(1.0);
    let found = result.steady.clone().unwrap();
    let attained_ns = found.attained_ns.unwrap();
    // The rate rises until 5 s. The first window that is flat within one percent ends two seconds later, or a little
    // earlier.
    assert!((6_500_000_000..=7_000_000_000).contains(&attained_ns), "{found:?}");
    let window = found.window.clone().unwrap();
    assert_eq!((window.end_ns(), window.len_ns()), (attained_ns, 2_000_000_000));
    assert!(window.value.unwrap() < 1.0, "{found:?}");
    // The run ends there and is complete; only the I/Os in flight follow.
    assert!(result.partial.is_none() && result.hung == 0 && result.failures.count == 0, "{:?}", result.partial);
    assert!((attained_ns..attained_ns + 1_000_000).contains(&result.duration_ns), "{}", result.duration_ns);
    // The window's I/Os are the sum of its intervals.
    let within = |row: &&crate::run::IntervalRow| (window.begin_ns..attained_ns).contains(&row.begin_ns);
    assert_eq!(window.whole().ios, result.intervals.iter().filter(within).map(|row| row.ios).sum::<u64>());
    let again = run(1.0);
    assert_eq!((again.duration_ns, again.ios()), (result.duration_ns, result.ios()));
    assert_eq!(again.steady, Some(found));
    // A stricter limit is met later or never.
    assert!(run(0.1).steady.unwrap().attained_ns.unwrap() >= attained_ns);
}

#[test]
fn a_job_that_is_never_steady_runs_to_its_end_and_says_so() {
    let server = || Server { slow_until_ns: 20_000_000_000, ..Server::default() };
    let never = Job { steady: steady(0.000_001), warmup_ns: 0, ..job(1, 1, 4) };
    let result = run_on(server(), vec![(never.clone(), None)], &settings()).pop().unwrap();
    let found = result.steady.unwrap();
    assert_eq!((found.attained_ns, found.window.unwrap().end_ns()), (None, 4_000_000_000));
    assert!(result.duration_ns >= 4_000_000_000 && result.partial.is_none());
    // A window that ends with the run is found too.
    let last = Job { steady: steady(99.0), end: End { after_ns: Some(2_000_000_000), ..End::default() }, ..never };
    let found = run_on(server(), vec![(last, None)], &settings()).pop().unwrap().steady.unwrap();
    assert_eq!(found.attained_ns, Some(2_000_000_000));
}

#[test]
fn each_job_of_a_group_is_steady_for_itself() {
    let forever = Job { name: "forever".to_owned(), warmup_ns: 0, ..job(1, 1, 5) };
    let ends = Job { name: "ends".to_owned(), steady: steady(50.0), ..forever.clone() };
    let results = run_on(Server::default(), vec![(ends, None), (forever, None)], &settings());
    assert_eq!(results[0].steady.as_ref().unwrap().attained_ns, Some(2_000_000_000));
    assert!(results[0].duration_ns < 2_100_000_000 && results[1].duration_ns >= 5_000_000_000);
    assert!(results[0].partial.is_none() && results[1].partial.is_none() && results[1].steady.is_none());
}

/// Runs a job on several servers; the result of all together is the last.
fn run_on_several(servers: Vec<Server>, job: &Job) -> Vec<JobResult> {
    let clock = VirtualClock::default();
    let settings = Settings { targets: servers.len(), ..settings() };
    let assign = |server| {
        let server = Arc::new(Mutex::new(server));
        let line = |number| Line { number, clock: clock.clone(), server: server.clone(), buffer: vec![0; 4096] };
        let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
        let opened = Opened { queues: (0..job.threads as usize).map(line).collect(), facts };
        Assignment { job: job.clone(), opened, recorders: Vec::new(), replay: None }
    };
    let assignments = servers.into_iter().map(assign).collect();
    let stop = Arc::new(AtomicBool::new(false));
    run_virtual(assignments, &clock, &settings, &stop, &mut |_| {}).unwrap()
}

fn slower() -> Server {
    Server { slow_until_ns: 100_000_000_000, ..Server::default() }
}

#[test]
fn a_job_on_several_targets_is_on_each_what_it_is_alone_and_the_whole_is_counted() {
    let job = Job { warmup_ns: 0, ..job(2, 4, 3) };
    let results = run_on_several(vec![Server::default(), slower()], &job);
    let [first, second, together] = results.as_slice() else { panic!("{} results", results.len()) };
    for (found, server) in [(first, Server::default()), (second, slower())] {
        let alone = run_on(server, vec![(job.clone(), None)], &settings()).pop().unwrap();
        assert_eq!((found.ios(), found.duration_ns), (alone.ios(), alone.duration_ns));
        assert_eq!(found.total().histogram, alone.total().histogram);
        assert_eq!((found.target_name.as_deref(), found.job.threads), (None, 2));
    }
    assert!(first.ios() > 10 * second.ios(), "{} and {}", first.ios(), second.ios());
    assert_eq!((together.ios(), together.job.threads), (first.ios() + second.ios(), 4));
    assert_eq!(together.target_bytes, 2 << 30);
    for (at, row) in together.intervals.iter().enumerate() {
        let of = |result: &JobResult| result.intervals.get(at).map_or(0, |row| row.ios);
        assert_eq!(row.ios, of(first) + of(second), "{at}");
    }
    let mut both = first.total();
    both.merge(&second.total());
    assert_eq!(together.total().histogram, both.histogram);
    assert!((together.depth_mean - 16.0).abs() < 0.1, "{}", together.depth_mean);
    // The peak of the joint load is not the sum of the targets' peaks.
    let most = |result: &JobResult| result.bursts[2].iops_max;
    assert!(most(together) <= most(first) + most(second) && most(together) > most(first), "{:?}", together.bursts);
}

#[test]
fn a_job_on_several_targets_is_steady_where_all_of_it_is_and_ends_on_all() {
    let early = || Server { slow_until_ns: 3_000_000_000, ..Server::default() };
    let job = Job { steady: steady(1.0), warmup_ns: 0, ..job(1, 2, 60) };
    let alone = run_on(early(), vec![(job.clone(), None)], &settings()).pop().unwrap();
    let results = run_on_several(vec![Server::default(), early()], &job);
    let attained_ns = results[2].steady.as_ref().unwrap().attained_ns.unwrap();
    // In the joint load the fast target hides some of the slow one's rise.
    assert!((2_000_000_000..=alone.steady.unwrap().attained_ns.unwrap()).contains(&attained_ns), "{attained_ns}");
    for result in &results[..2] {
        assert!(result.steady.is_none() && result.partial.is_none());
        assert!((attained_ns..attained_ns + 10_000_000).contains(&result.duration_ns), "{}", result.duration_ns);
    }
}
