//! Verdicts on known distributions.

use super::fake::{constant, run};
use crate::job::model::{Job, Mix};
use crate::run::JobResult;
use crate::spec::figure::figure;
use crate::spec::{Bound, Figure, Judgement, Measure, Op, Verdict, judge};
use crate::stats::Confidence;
use crate::stats::percentile::{Level, full_from};
use forebay_block::Random;

fn verdict(result: &JobResult, measure: &str, op: Op, bound: Bound) -> (Judgement, Figure) {
    let found = figure(result, measure.parse().unwrap(), op, bound, Confidence::P95);
    (judge(bound, &found), found)
}

fn of(result: &JobResult, measure: &str, bound: Bound) -> Judgement {
    verdict(result, measure, Op::All, bound).0
}

/// `count` latencies in ten seconds; the last second takes the remainder.
fn samples(count: usize, latency_ns: u64) -> JobResult {
    run(&Job::default(), 10, |second| {
        let each = count / 10;
        vec![latency_ns; if second == 9 { count - 9 * each } else { each }]
    })
}

#[test]
fn a_percentile_passes_exactly_from_the_count_that_bounds_it() {
    for (measure, level) in [("p99", "99"), ("p99.9", "99.9"), ("p99.99", "99.99")] {
        let Ok(Level::Share(share)) = level.parse::<Level>() else { panic!("{level}") };
        let full = full_from(share, Confidence::P95) as usize;
        let bound = Bound::AtMost(10_000.0);
        let short = of(&samples(full - 1, 9_000), measure, bound);
        assert_eq!((short.verdict, short.needed_more), (Verdict::TooFewSamples, Some(1)), "{measure}");
        assert!(!short.undecided);
        assert_eq!(of(&samples(full, 9_000), measure, bound).verdict, Verdict::Pass, "{measure}");
    }
}

#[test]
fn few_samples_can_fail_and_never_pass() {
    // A thousand reads of 100 us: p99.999 is withheld, but it is certainly above 60 us.
    let bound = Bound::AtMost(60_000.0);
    let (judgement, found) = verdict(&samples(1000, 100_000), "p99.999", Op::All, bound);
    assert_eq!((judgement.verdict, found.value), (Verdict::Fail, None));
    assert!(found.low.unwrap() > 60_000.0 && found.high.is_none());
    let quick = of(&samples(1000, 9_000), "p99.999", bound);
    assert_eq!(quick.verdict, Verdict::TooFewSamples);
    assert_eq!(quick.needed_more, Some(368_888 - 1000));
    assert_eq!(of(&samples(0, 0), "p99.999", bound).verdict, Verdict::TooFewSamples);
    assert_eq!(of(&samples(0, 0), "mean", bound).verdict, Verdict::TooFewSamples);
    assert_eq!(of(&samples(0, 0), "p1", Bound::AtLeast(1.0)).verdict, Verdict::TooFewSamples);
}

#[test]
fn seven_intervals_decide_nothing() {
    for measure in ["iops", "bytes_per_second", "mean", "median", "p99"] {
        let bound =
            if measure == "iops" || measure == "bytes_per_second" { Bound::AtLeast(1.0) } else { Bound::AtMost(1e9) };
        let seven = of(&constant(&Job::default(), 7, 1000, 5_000), measure, bound);
        assert_eq!((seven.verdict, seven.needed_more), (Verdict::TooFewSamples, Some(1000)), "{measure}");
        let broken = match bound {
            Bound::AtLeast(_) => Bound::AtLeast(1e12),
            Bound::AtMost(_) => Bound::AtMost(1.0),
        };
        assert_eq!(of(&constant(&Job::default(), 7, 1000, 5_000), measure, broken).verdict, Verdict::TooFewSamples);
        let eight = constant(&Job::default(), 8, 1000, 5_000);
        assert_eq!(of(&eight, measure, bound).verdict, Verdict::Pass, "{measure}");
        assert_eq!(of(&eight, measure, broken).verdict, Verdict::Fail, "{measure}");
    }
}

/// A random number above 0 and below 1.
fn uniform(random: &mut Random) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

#[test]
fn exponential_latencies_are_judged_by_their_truth() {
    // The mean is 100 us and p99 is 4.605 times that. 2,000 a second for 20 s.
    let mut random = Random::new(5);
    let result =
        run(&Job::default(), 20, |_| (0..2000).map(|_| (-uniform(&mut random).ln() * 100_000.0) as u64 + 1).collect());
    let p99 = 100_000.0 * 100_f64.ln();
    for (measure, truth) in [("mean", 100_000.0), ("median", 100_000.0 * 2_f64.ln()), ("p99", p99)] {
        assert_eq!(of(&result, measure, Bound::AtMost(truth * 1.1)).verdict, Verdict::Pass, "{measure}");
        assert_eq!(of(&result, measure, Bound::AtMost(truth * 0.9)).verdict, Verdict::Fail, "{measure}");
        let (at, found) = verdict(&result, measure, Op::All, Bound::AtMost(truth));
        assert!(found.low.unwrap() < truth && truth < found.high.unwrap(), "{measure}: {found:?}");
        assert_eq!((at.verdict, at.undecided), (Verdict::TooFewSamples, true), "{measure}");
    }
}

#[test]
fn throughput_is_judged_by_its_interval() {
    let mut random = Random::new(6);
    let result = run(&Job::default(), 60, |_| vec![10_000; 1900 + random.below(201) as usize]);
    assert_eq!(of(&result, "iops", Bound::AtLeast(1950.0)).verdict, Verdict::Pass);
    assert_eq!(of(&result, "iops", Bound::AtLeast(2050.0)).verdict, Verdict::Fail);
    assert_eq!(of(&result, "iops", Bound::AtMost(2050.0)).verdict, Verdict::Pass);
    assert_eq!(of(&result, "bytes_per_second", Bound::AtLeast(1950.0 * 4096.0)).verdict, Verdict::Pass);
    let (at, found) = verdict(&result, "iops", Op::All, Bound::AtLeast(2000.0));
    assert!(found.low.unwrap() < 2000.0 && found.high.unwrap() > 2000.0, "{found:?}");
    assert_eq!((at.verdict, at.undecided), (Verdict::TooFewSamples, true));
}

#[test]
fn a_stall_counts_as_seconds_without_io() {
    // The target stands still in half of the seconds: there are no rows for them.
    let mut result = run(&Job::default(), 40, |second| if second % 2 == 0 { vec![10_000; 1000] } else { Vec::new() });
    result.intervals.retain(|row| row.begin_ns % 2_000_000_000 == 0);
    let found = figure(&result, Measure::Iops, Op::All, Bound::AtLeast(1.0), Confidence::P95);
    assert_eq!(found.value, Some(500.0));
    assert_eq!(of(&result, "iops", Bound::AtLeast(1000.0)).verdict, Verdict::Fail);
    // The part after the last complete interval is not counted.
    let mut tail = constant(&Job::default(), 10, 1000, 10_000);
    tail.duration_ns += 20_000;
    tail.intervals.push(crate::run::IntervalRow {
        begin_ns: 10_000_000_000,
        ios: 4,
        read: crate::run::Direction { ios: 4, ..Default::default() },
        ..Default::default()
    });
    let found = figure(&tail, Measure::Iops, Op::All, Bound::AtLeast(1.0), Confidence::P95);
    assert!((found.value.unwrap() - 1000.0).abs() < 0.01, "{found:?}");
}

#[test]
fn clustered_stalls_keep_a_percentile_open() {
    // 0.9 % of all reads are slow, fewer than 1 %, so this number of independent samples would pass.
    let spread =
        run(&Job::default(), 100, |_| (0..1000).map(|at| if at % 111 == 5 { 500_000 } else { 10_000 }).collect());
    let bound = Bound::AtMost(100_000.0);
    let (found, _) = verdict(&spread, "p99", Op::All, bound);
    assert_eq!(found.verdict, Verdict::Pass);
    // The same number of slow reads, all within three seconds of a hundred.
    let stalls = run(&Job::default(), 100, |second| {
        let slow = if second % 33 == 7 { 300 } else { 0 };
        (0..1000).map(|at| if at < slow { 500_000 } else { 10_000 }).collect()
    });
    let (judgement, found) = verdict(&stalls, "p99", Op::All, bound);
    assert_eq!(judgement.verdict, Verdict::TooFewSamples, "{found:?}");
    assert!(found.effective_samples.unwrap() < 10_000.0);
    assert!(judgement.needed_more.unwrap() > 1000);
}

#[test]
fn reads_and_writes_are_distinguished_and_taken_together() {
    let job = Job { mix: Mix::reads_percent(50), ..Job::default() };
    let mut at = 0_u64;
    let result = run(&job, 20, |_| {
        (0..1000)
            .map(|_| {
                at += 1;
                // The first half of each hundred are reads.
                if (at - 1) % 100 < 50 { 80_000 } else { 10_000 }
            })
            .collect()
    });
    let mean = |op| figure(&result, Measure::Mean, op, Bound::AtMost(1.0), Confidence::P95);
    assert_eq!((mean(Op::Read).value, mean(Op::Write).value), (Some(80_000.0), Some(10_000.0)));
    let all = mean(Op::All);
    assert_eq!((all.value, all.samples), (Some(45_000.0), 20_000));
    assert!(all.low.unwrap() > 44_000.0 && all.high.unwrap() < 46_000.0, "blocks of both kinds: {all:?}");
    let iops = |op| figure(&result, Measure::Iops, op, Bound::AtMost(1.0), Confidence::P95).value;
    assert_eq!((iops(Op::Read), iops(Op::Write), iops(Op::All)), (Some(500.0), Some(500.0), Some(1000.0)));
    assert_eq!(verdict(&result, "p99", Op::Write, Bound::AtMost(11_000.0)).0.verdict, Verdict::Pass);
    assert_eq!(verdict(&result, "p99", Op::All, Bound::AtMost(11_000.0)).0.verdict, Verdict::Fail);
}
