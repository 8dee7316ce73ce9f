//! Planned looks: when they end a run, and how often they are wrong.

use super::fake::run;
use crate::job::model::{Extent, Job, Mix, Pattern, Region};
use crate::run::JobResult;
use crate::spec::looks::Looks;
use crate::spec::written::Written;
use crate::spec::{Bound, Measure, Op, Promise, Verdict};
use crate::stats::Confidence;
use forebay_block::{OpKind, Random};

fn promise(measure: &str, bound: Bound) -> Promise {
    Promise {
        name: measure.to_owned(),
        source: "this test".to_owned(),
        from_memory: false,
        note: None,
        job: Job::default(),
        own_end: false,
        measure: measure.parse::<Measure>().unwrap(),
        op: Op::All,
        bound,
    }
}

/// Looks at a run as it grows, second by second; returns how long it took.
fn seconds(looks: &Looks, all: u64, latencies: impl Fn(u64) -> Vec<u64>) -> (u64, JobResult) {
    let watch = looks.watch();
    let so_far = |seconds| run(&Job::default(), seconds, &latencies);
    for second in 1..all {
        if watch.is_enough(second as f64 / all as f64, &|| so_far(second)) {
            return (second, so_far(second));
        }
    }
    (all, so_far(all))
}

#[test]
fn a_run_ends_at_the_first_look_that_finds_all_decided() {
    let quick = |_| vec![5_000; 100];
    let kept = promise("mean", Bound::AtMost(10_000.0));
    let looks =
        Looks::new(vec![kept.clone(), promise("mean", Bound::AtMost(4_000.0))], Confidence::P95, Written::default());
    let (took, result) = seconds(&looks, 600, quick);
    // A sixteenth of the run.
    assert_eq!(took, 38);
    let found = looks.verdicts(&result);
    let verdicts: Vec<Verdict> = found.iter().map(|report| report.verdict).collect();
    assert_eq!(verdicts, [Verdict::Pass, Verdict::Fail]);
    assert_eq!((found[0].decided_after_s, found[0].confidence_percent), (Some(38.0), 99.75));
    assert!(looks.note(&result).unwrap().contains("38.0 s"));
    // One promise that needs the whole run keeps the others waiting, and the looks have used up some of the allowed
    // error.
    let looks = Looks::new(
        vec![kept.clone(), promise("p99.999", Bound::AtMost(10_000.0))],
        Confidence::P95,
        Written::default(),
    );
    let (took, result) = seconds(&looks, 600, quick);
    assert_eq!(took, 600);
    let found = looks.verdicts(&result);
    assert_eq!((found[0].verdict, found[0].decided_after_s), (Verdict::Pass, None));
    assert!((found[0].confidence_percent - 96.0).abs() < 1e-9, "{}", found[0].confidence_percent);
    assert_eq!((found[1].verdict, looks.note(&result)), (Verdict::TooFewSamples, None));
    // A run with too few intervals is not looked at, and loses nothing by it.
    let looks = Looks::new(vec![kept], Confidence::P95, Written::default());
    let (took, result) = seconds(&looks, 30, quick);
    assert_eq!((took, looks.verdicts(&result)[0].confidence_percent), (30, 95.0));
}

#[test]
fn what_still_changes_is_not_decided_by_its_begin() {
    let looks = Looks::new(vec![promise("iops", Bound::AtLeast(100.0))], Confidence::P95, Written::default());
    // Twice as fast at first: a cache that fills.
    let (took, result) = seconds(&looks, 64, |second| vec![10_000; 2000 - 30 * second.min(40) as usize]);
    assert_eq!(took, 64);
    assert_eq!(looks.verdicts(&result)[0].verdict, Verdict::Pass);
}

#[test]
fn what_fails_after_the_last_look_is_no_pass() {
    let looks = Looks::new(vec![promise("mean", Bound::AtMost(10_000.0))], Confidence::P95, Written::default());
    let (_, mut result) = seconds(&looks, 600, |_| vec![5_000; 100]);
    assert_eq!(looks.verdicts(&result)[0].verdict, Verdict::Pass);
    result.kinds[0].errors = 1;
    assert_eq!(looks.verdicts(&result)[0].verdict, Verdict::Fail);
}

#[test]
fn regression_looks_are_wrong_no_more_often_than_one() {
    // The promise is the true value, so each decision happens by chance.
    let truth = Bound::AtMost(100_000.0);
    let (mut wrong, mut as_if_one, rounds) = (0, 0, 200);
    for round in 0..rounds {
        let latencies = |second: u64| {
            let mut random = Random::new(round * 1000 + second);
            let uniform = |random: &mut Random| ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            (0..20).map(|_| (-uniform(&mut random).ln() * 100_000.0) as u64 + 1).collect()
        };
        let looks = Looks::new(vec![promise("mean", truth)], Confidence::P95, Written::default());
        let (_, result) = seconds(&looks, 128, latencies);
        wrong += u32::from(looks.verdicts(&result)[0].verdict != Verdict::TooFewSamples);
        as_if_one += u32::from([16, 32, 64, 128].into_iter().any(|seconds| {
            let so_far = run(&Job::default(), seconds, latencies);
            let looks = Looks::new(vec![promise("mean", truth)], Confidence::P95, Written::default());
            looks.verdicts(&so_far)[0].verdict != Verdict::TooFewSamples
        }));
    }
    // At most 10 expected, standard deviation 3.1. If each look were judged as the only one, it would be more than
    // twice as many.
    assert!(wrong <= 16, "{wrong} of {rounds}");
    assert!(as_if_one > 16 && as_if_one > wrong, "{as_if_one} of {rounds}, {wrong} by the plan");
}

/// A promise of writes passed after half a second and 256 MB, on a drive of 34 GB whose speed fell by a quarter later.
#[test]
fn regression_writes_are_not_decided_before_the_target_was_written_once() {
    let size_bytes = 24_000_000;
    let job = |pattern: Pattern, region_bytes: u64| Job {
        mix: Mix::reads_percent(0),
        pattern,
        region: Region { offset: Extent::Bytes(0), size: Extent::Bytes(region_bytes) },
        ..Job::default()
    };
    let random = || Pattern::Random { align_bytes: 0, skew_bytes: 0 };
    let sequential = || Pattern::Sequential { per_thread: false };
    // 4096 bytes a hundred times a second: the size of the region in 58.6 s.
    let writes = |job: &Job, seconds| run(job, seconds, |_| vec![5_000; 100]);
    let took = |job: &Job, before: &Written| {
        let kept = promise("mean", Bound::AtMost(10_000.0));
        let watch = Looks::new(vec![kept], Confidence::P95, before.clone()).watch();
        let ended = |&second: &u64| watch.is_enough(second as f64 / 600.0, &|| writes(job, second));
        (1..600).find(ended).unwrap_or(600)
    };
    let nothing = Written::default();
    assert_eq!(took(&job(sequential(), size_bytes), &nothing), 75);
    // Random writes hit some blocks twice: writing 95 % of the blocks takes three times as long.
    assert_eq!(took(&job(random(), size_bytes), &nothing), 300);
    assert_eq!(took(&job(random(), 375_000_000_000), &nothing), 600);
    // A conditioned region is decided at once, but sequential writes say little about random writes.
    let mut in_order = Written::default();
    in_order.add(&writes(&job(sequential(), size_bytes), 60));
    assert_eq!(took(&job(sequential(), size_bytes), &in_order), 38);
    assert_eq!(took(&job(random(), size_bytes), &in_order), 75);
    let mut both = in_order.clone();
    both.add(&writes(&job(random(), size_bytes), 60));
    assert_eq!(took(&job(random(), size_bytes), &both), 38);
    // The other places were not written; and a trim makes the whole region new.
    assert_eq!(took(&job(random(), 375_000_000_000), &both), 600);
    let mut trimmed = both.clone();
    trimmed.add(&writes(&Job { mix: Mix::only(OpKind::Trim), ..job(sequential(), size_bytes) }, 60));
    assert_eq!(took(&job(sequential(), size_bytes), &trimmed), 75);
    // Reads do not use up a cache or spare space.
    assert_eq!(took(&Job { mix: Mix::reads_percent(100), ..job(random(), 375_000_000_000) }, &nothing), 38);
}
