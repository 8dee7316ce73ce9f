//! A run of this process whose figures are handled as those of other hosts.

use super::*;
use crate::job::model::{End, Mix, SizeMix, Sizes};
use crate::run::{Assignment, Clock, Coordinator, Opened, Settings, TscClock, run_coordinated};
use forebay_block::Queue;
use forebay_block::checksum;
use std::sync::Arc;

const INTERVAL_NS: u64 = 5_000_000;
/// When the load begins, by the clock of the host that adds up.
const START_NS: u64 = 7_000_000_000;
/// A time long after all hosts have finished.
const LATE_NS: u64 = START_NS + 3_600_000_000_000;

/// A queue whose I/Os complete at once.
struct Immediate {
    buffer: Vec<u8>,
    done: Vec<forebay_block::Done>,
}

impl Queue for Immediate {
    fn slots(&self) -> u32 {
        4
    }

    fn buffer_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn buffer(&mut self, _slot: u32) -> &mut [u8] {
        &mut self.buffer
    }

    fn submit(&mut self, io: &forebay_block::Io) {
        // Some work, so that latencies are above 0.
        std::hint::black_box(checksum::crc32c(&self.buffer));
        self.done.push(forebay_block::Done { slot: io.slot, error: None });
    }

    fn kick(&mut self) {}

    fn reap(&mut self, done: &mut Vec<forebay_block::Done>) {
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> u32 {
        self.done.len() as u32
    }

    fn wait(&mut self, _timeout_ns: u64) {}
}

#[derive(Default)]
struct Listener {
    figures: Vec<Figures>,
    facts: usize,
}

impl Coordinator for Listener {
    fn start_ns(&mut self, facts: &[&TargetFacts]) -> Option<u64> {
        self.facts = facts.len();
        Some(20_000_000 + TscClock::new().now_ns())
    }

    fn take(&mut self, figures: Figures) {
        // Encoded and decoded as on the connection.
        let line = serde_json::to_string(&figures).unwrap();
        self.figures.push(serde_json::from_str(&line).unwrap());
    }
}

fn jobs() -> Vec<Job> {
    let size = SizeMix::fixed(512);
    let end = End { after_ns: None, after_ios: Some(3000), ..End::default() };
    let sizes = Sizes { read: size.clone(), write: size.clone(), trim: size };
    let job = Job { threads: 2, depth: 2, sizes, end, warmup_ns: 0, ..Job::default() };
    vec![Job { name: "a".to_owned(), mix: Mix::reads_percent(70), ..job.clone() }, Job { name: "b".to_owned(), ..job }]
}

/// Runs jobs as a host would: returns its own results, and the figures that it sends.
fn run_there(jobs: &[Job]) -> (Vec<JobResult>, Vec<Figures>) {
    let assignment = |job: &Job| {
        let queue = || Immediate { buffer: vec![0; 512], done: Vec::new() };
        let queues = (0..job.threads).map(|_| queue()).collect();
        let facts = TargetFacts { size_bytes: 1 << 20, logical_block_bytes: 512, ..TargetFacts::default() };
        Assignment { job: job.clone(), opened: Opened { queues, facts }, recorders: Vec::new(), replay: None }
    };
    let mut listener = Listener::default();
    let settings = Settings { interval_ns: INTERVAL_NS, ..Settings::default() };
    let assignments = jobs.iter().map(assignment).collect();
    let results = run_coordinated(assignments, &TscClock::new(), &settings, &Arc::default(), &mut listener).unwrap();
    assert_eq!(listener.facts, jobs.len());
    (results, listener.figures)
}

fn two_hosts(jobs: &[Job]) -> RemoteRun {
    let facts = |host: &str| vec![TargetFacts { name: Some(host.to_owned()), ..TargetFacts::default() }; jobs.len()];
    RemoteRun::new(jobs, &[facts("one"), facts("two")], INTERVAL_NS, START_NS)
}

#[test]
fn histograms_of_hosts_are_merged_and_not_their_percentiles() {
    let jobs = jobs();
    let there = [run_there(&jobs), run_there(&jobs)];
    let mut run = two_hosts(&jobs);
    for (host, (_, figures)) in there.iter().enumerate() {
        assert!(!run.is_over(host));
        for figures in figures {
            run.take(host, figures, LATE_NS).unwrap();
        }
        assert!(run.is_over(host));
    }
    let results = run.results();
    assert_eq!(results.len(), 6);
    for (number, of_job) in results.chunks(3).enumerate() {
        let [one, two, all] = of_job else { unreachable!() };
        for (here, there) in [(one, &there[0].0[number]), (two, &there[1].0[number])] {
            assert_eq!((here.ios(), here.bytes(), here.partial), (there.ios(), there.bytes(), None));
            assert_eq!(
                (here.depth_levels, &here.bursts, &here.intervals),
                (there.depth_levels, &there.bursts, &there.intervals)
            );
            assert_eq!((here.depth_mean, here.duration_ns), (there.depth_mean, there.duration_ns));
            for (of_kind, there) in here.kinds.iter().zip(&there.kinds) {
                assert_eq!(of_kind.total.histogram, there.total.histogram);
                assert_eq!(
                    (of_kind.total.mean_ns(), of_kind.blocks.len()),
                    (there.total.mean_ns(), there.blocks.len())
                );
            }
        }
        assert_eq!(all.ios(), 6000);
        for kind in &all.kinds {
            let mut merged = crate::run::Latencies::new();
            [one, two]
                .into_iter()
                .filter_map(|result| result.kind(kind.kind))
                .for_each(|found| merged.merge(&found.total));
            assert_eq!(kind.total.histogram, merged.histogram);
            assert_eq!((kind.total.min_ns(), kind.total.max_ns()), (merged.min_ns(), merged.max_ns()));
        }
        assert!(all.all_ran.is_none_or(|all_ran| all_ran.duration_ns <= one.duration_ns.min(two.duration_ns)));
    }
}

#[test]
fn what_is_known_of_a_lost_host_is_counted() {
    let jobs = jobs();
    let there = [run_there(&jobs), run_there(&jobs)];
    let mut run = two_hosts(&jobs);
    there[0].1.iter().for_each(|figures| run.take(0, figures, LATE_NS).unwrap());
    // From the other host all figures but its workers' ends.
    let said = || there[1].1.iter().filter(|figures| matches!(figures, Figures::Share(_)));
    said().for_each(|figures| run.take(1, figures, LATE_NS).unwrap());
    assert!(run.is_over(0) && !run.is_over(1));
    run.lose(1);
    assert!(run.is_over(1));
    assert!(run.take(1, &there[1].1[0], LATE_NS).is_err());
    let results = run.results();
    let partial: Vec<_> = results.iter().map(|result| result.partial).collect();
    let lost = Some(crate::run::Partial::Lost);
    assert_eq!(partial, [None, lost, lost, None, lost, lost]);
    assert_eq!(results[1].ios(), 3000);
    assert!(results[1].duration_ns < 3_000_000_000, "{}", results[1].duration_ns);
}

/// Bursts count I/Os begun in the warm-up, so the figures of a host with a deep queue were refused as "more in milliseconds than in all".
#[test]
fn regression_a_host_may_say_what_its_warm_up_began() {
    let jobs = jobs();
    let (_, figures) = run_there(&jobs);
    let Some(Figures::Share(share)) =
        figures.iter().find(|figures| matches!(figures, Figures::Share(share) if !share.kinds.is_empty()))
    else {
        unreachable!()
    };
    let mut share = share.clone();
    let mut carried = crate::run::share::Carried::default();
    carried.count(OpKind::Read, 4096, 1_000_000);
    share.carried = super::super::figures::CarriedFigures::of(&carried);
    share.fine[0] = (share.fine[0].0 + 1, share.fine[0].1 + 4096);
    let back = share.share(0, 0).unwrap();
    assert_eq!((back.carried.all(), back.carried.read.sum), (carried.all(), carried.read.sum));
    two_hosts(&jobs).take(0, &Figures::Share(share.clone()), LATE_NS).unwrap();
    share.carried = super::super::figures::CarriedFigures::of(&Default::default());
    let refused = two_hosts(&jobs).take(0, &Figures::Share(share), LATE_NS).unwrap_err().to_string();
    assert!(refused.contains("milliseconds"), "{refused}");
}

/// The figures of a host whose coordinator lagged in its first intervals were refused as longer than the run, and the host was lost.
#[test]
fn regression_a_host_may_lag_from_its_first_interval_on() {
    let jobs = jobs();
    let (_, figures) = run_there(&jobs);
    let is_first = |figures: &&Figures| matches!(figures, Figures::Share(share) if share.interval == 0);
    let Some(Figures::Share(share)) = figures.iter().find(is_first) else { unreachable!() };
    let mut share = share.clone();
    share.span = 2;
    two_hosts(&jobs).take(0, &Figures::Share(share), LATE_NS).unwrap();
}

#[test]
fn what_no_worker_could_say_is_refused() {
    let jobs = jobs();
    let (_, figures) = run_there(&jobs);
    let first = |is: fn(&Figures) -> bool| figures.iter().find(|figures| is(figures)).unwrap().clone();
    let Figures::Share(share) =
        first(|figures| matches!(figures, Figures::Share(share) if !share.kinds.is_empty() && share.worker == 0))
    else {
        unreachable!()
    };
    let Figures::End(end) = first(|figures| matches!(figures, Figures::End(end) if end.worker == 0)) else {
        unreachable!()
    };
    let refused = |change: &dyn Fn(&mut ShareFigures), what: &str| {
        let mut share = share.clone();
        change(&mut share);
        let mut run = two_hosts(&jobs);
        let error = run.take(0, &Figures::Share(share), LATE_NS).unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
        assert_eq!(run.results().iter().map(JobResult::ios).sum::<u64>(), 0);
    };
    refused(&|share| share.worker = 4, "no such worker");
    refused(&|share| share.interval = 1 << 60, "not begun");
    refused(&|share| share.span = u64::MAX, "longer than the run");
    refused(&|share| share.last_completion_ns = u64::MAX, "times to come");
    refused(&|share| share.fine = vec![(0, 0); 1 << 16], "milliseconds");
    refused(&|share| share.fine[0] = (u32::MAX, 0), "milliseconds");
    refused(&|share| share.fine[0].1 = u64::MAX, "milliseconds");
    refused(&|share| share.kinds[0].kind = "trim".to_owned(), "has not");
    refused(&|share| share.kinds[0].kind = "nonsense".to_owned(), "histogram");
    refused(&|share| share.kinds[0].ios += 1, "histogram");
    refused(&|share| share.kinds.push(share.kinds[0].clone()), "histogram");
    refused(&|share| share.kinds[0].bytes = u64::MAX, "too many");
    refused(&|share| share.kinds[0].errors = u64::MAX, "too many");
    refused(&|share| share.late = u64::MAX, "too many");
    refused(&|share| share.depth_levels[0] = u64::MAX, "depths");
    refused(&|share| share.carried.read.ios = 1, "histogram");
    refused(&|share| share.carried.write.bytes = 1, "warm-up");
    refused(&|share| share.kinds[0].backlog.0 = 1, "warm-up");
    refused(&|share| share.kinds[0].backlog.1 = 1, "warm-up");
    refused(&|share| share.kinds[0].backlog.2 = u64::MAX, "too many");
    let mut run = two_hosts(&jobs);
    let said =
        |run: &mut RemoteRun, figures: Figures| run.take(1, &figures, LATE_NS).map_err(|error| error.to_string());
    assert!(said(&mut run, Figures::End(end.clone())).unwrap_err().contains("before its last"));
    let last = Box::new(ShareFigures { is_last: true, ..*share.clone() });
    said(&mut run, Figures::Share(last.clone())).unwrap();
    assert!(said(&mut run, Figures::Share(last)).unwrap_err().contains("behind its last"));
    let wrong = |change: &dyn Fn(&mut EndFigures)| {
        let mut end = end.clone();
        change(&mut end);
        Figures::End(end)
    };
    for figures in [
        wrong(&|end| end.failures = u64::MAX),
        wrong(&|end| end.hung = u32::MAX),
        wrong(&|end| end.judged = Some([u64::MAX; 4])),
        wrong(&|end| end.ended_ns = u64::MAX),
        wrong(&|end| end.cpu_ns = (u64::MAX, u64::MAX)),
        wrong(&|end| end.switches = Some((u64::MAX, 0))),
        wrong(&|end| end.migrations = Some(u64::MAX)),
        wrong(&|end| end.waited_ns = Some(u64::MAX)),
    ] {
        assert!(said(&mut run, figures).is_err());
    }
    said(&mut run, Figures::End(end.clone())).unwrap();
    assert!(said(&mut run, Figures::End(end)).unwrap_err().contains("has ended"));
    // An interval is accepted only once, so that a host cannot fill the memory.
    let mut run = two_hosts(&jobs);
    said(&mut run, Figures::Share(Box::new(ShareFigures { is_last: false, ..*share.clone() }))).unwrap();
    assert!(said(&mut run, Figures::Share(share)).unwrap_err().contains("twice"));
}
