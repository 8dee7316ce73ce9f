//! Intervals for known distributions must contain the true value as often as they promise.

use super::clustering::{Blocks, bootstrap_percentile, mean_interval, sum_of_middles_ns};
use super::confidence::Confidence;
use super::mean::throughput;
use super::percentile::{ByRank, Level, PercentileEstimate, Reported, Share};
use forebay_block::Random;
use hdrhistogram::Histogram;

fn level(text: &str) -> Level {
    text.parse().unwrap()
}

fn share(text: &str) -> Share {
    match level(text) {
        Level::Share(share) => share,
        other => panic!("{other}"),
    }
}

/// A random number above 0 and below 1.
fn uniform(random: &mut Random) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// A histogram that is small enough to be read thousands of times: up to a second, three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(1_000_000_000, 3).unwrap()
}

fn covers(estimate: &PercentileEstimate, truth: u64) -> bool {
    let (low, high) = estimate.value.bounds();
    assert!(estimate.value.value().is_some(), "withheld: {estimate:?}");
    low.is_none_or(|low| low <= truth) && high.is_none_or(|high| truth <= high)
}

/// The latency at a share of a distribution, in ns.
type Quantile = fn(f64) -> u64;

const SHAPES: [(&str, Quantile); 3] = [
    ("two-point", |p| if p <= 0.995 { 10_000 } else { 5_000_000 }),
    ("exponential", |p| (-(1.0 - p).ln() * 100_000.0).round() as u64 + 1),
    // Pareto with exponent 1.2, which has no variance.
    ("heavy tail", |p| ((1.0 - p).powf(-1.0 / 1.2) * 8_000.0).round().min(9e8) as u64),
];

#[test]
fn independent_samples_are_covered_as_promised() {
    let mut random = Random::new(31);
    let mut histogram = histogram();
    for (shape, quantile) in SHAPES {
        // p99.9 once with one bound (2,995 to 3,689 samples) and once with both.
        for (samples, rounds) in [(3_200, 400), (5_000, 400)] {
            let levels = ["50", "99", "99.9"];
            let mut covered = [0; 3];
            for _ in 0..rounds {
                histogram.clear();
                (0..samples).for_each(|_| histogram.record(quantile(uniform(&mut random))).unwrap());
                let by_rank = ByRank::new(&histogram);
                for (at, text) in levels.iter().enumerate() {
                    let estimate = by_rank.estimate(level(text), Confidence::P95);
                    let open = matches!(estimate.value, Reported::Open { .. });
                    assert_eq!(open, *text == "99.9" && samples == 3_200);
                    covered[at] += u32::from(covers(&estimate, quantile(share(text).fraction())));
                }
            }
            // 95 % of 400, less three standard deviations of 4.4.
            for (text, covered) in levels.iter().zip(covered) {
                assert!(covered >= 367, "{shape}, p{text} of {samples}: {covered} of {rounds}");
            }
        }
    }
}

#[test]
fn ninety_nine_percent_is_kept_too() {
    let mut random = Random::new(32);
    let mut histogram = histogram();
    let quantile = SHAPES[2].1;
    let covered = (0..600)
        .filter(|_| {
            histogram.clear();
            (0..1_500).for_each(|_| histogram.record(quantile(uniform(&mut random))).unwrap());
            covers(&ByRank::new(&histogram).estimate(level("99"), Confidence::P99), quantile(0.99))
        })
        .count();
    // 594 expected at least, standard deviation 2.4.
    assert!(covered >= 587, "{covered}");
}

/// I/Os whose latencies are mostly exponential around 100 us. Stalls begin at random; each slows `length` consecutive I/Os to 1 ms plus an
/// exponential of 1 ms. In the long run a share of `slow` is slow.
struct Stalling {
    begin: f64,
    length: u32,
    left: u32,
    /// Addition of a stall, the same for all its I/Os.
    severity: f64,
}

impl Stalling {
    fn new(slow: f64, length: u32) -> Self {
        // A cycle has 1 / begin quick I/Os and `length` slow ones; a share of `slow` is slow.
        Self { begin: slow / (1.0 - slow) / f64::from(length), length, left: 0, severity: 0.0 }
    }

    fn next(&mut self, random: &mut Random) -> u64 {
        if self.left == 0 && uniform(random) < self.begin {
            self.left = self.length;
            self.severity = -uniform(random).ln();
        }
        if self.left == 0 {
            return (-uniform(random).ln() * 100_000.0).min(900_000.0) as u64 + 1;
        }
        self.left -= 1;
        1_000_000 + (self.severity * 1_000_000.0) as u64
    }
}

#[test]
fn clustered_stalls_are_covered_where_the_naive_interval_fails() {
    // 3 % of the I/Os are slow, in groups of twenty: about 54 stalls a run. p99 is the value that a third of the slow ones exceed.
    let truth = 1_000_000 + (3.0_f64.ln() * 1_000_000.0) as u64;
    let mut random = Random::new(33);
    let (rounds, samples_per_block) = (100, 600);
    let (mut naive, mut designed, mut resampled) = (0, 0, 0);
    let mut whole = histogram();
    let mut part = histogram();
    for round in 0..rounds {
        whole.clear();
        let mut blocks = Blocks::new(128);
        let mut device = Stalling::new(0.03, 20);
        for _ in 0..60 {
            part.clear();
            for _ in 0..samples_per_block {
                let latency_ns = device.next(&mut random);
                part.record(latency_ns).unwrap();
                whole.record(latency_ns).unwrap();
            }
            blocks.push(&part, sum_of_middles_ns(&part));
        }
        let by_rank = ByRank::new(&whole);
        naive += u32::from(covers(&by_rank.estimate(level("99"), Confidence::P95), truth));
        let estimate = by_rank.estimate_clustered(level("99"), Confidence::P95, &blocks, round);
        let effective = estimate.effective_samples.unwrap();
        assert!((200.0..9_000.0).contains(&effective), "{effective} of 36,000");
        designed += u32::from(covers(&estimate, truth));
        if round < 50 {
            let interval = bootstrap_percentile(&blocks, share("99"), Confidence::P95, round).unwrap();
            resampled += u32::from(interval.holds(truth as f64));
        }
    }
    assert!(naive <= 60, "as if independent: {naive} of {rounds}");
    assert!(f64::from(designed) >= 0.93 * rounds as f64, "design effect: {designed} of {rounds}");
    assert!(resampled >= 43, "block bootstrap: {resampled} of 50");
}

#[test]
fn independent_samples_keep_their_interval_with_blocks() {
    let mut random = Random::new(34);
    let quantile = SHAPES[1].1;
    let (mut covered, mut widened, rounds) = (0, 0, 120);
    let mut whole = histogram();
    let mut part = histogram();
    for round in 0..rounds {
        whole.clear();
        let mut blocks = Blocks::new(128);
        for _ in 0..50 {
            part.clear();
            (0..200).for_each(|_| part.record(quantile(uniform(&mut random))).unwrap());
            whole.add(&part).unwrap();
            blocks.push(&part, sum_of_middles_ns(&part));
        }
        let estimate = ByRank::new(&whole).estimate_clustered(level("99"), Confidence::P95, &blocks, round);
        covered += u32::from(covers(&estimate, quantile(0.99)));
        widened += u32::from(estimate.effective_samples.is_some());
    }
    assert!(covered >= 107, "{covered} of {rounds}");
    // 1 % for each of two nearly equal tests.
    assert!(widened <= 6, "{widened} of {rounds}");
}

/// A target that is ten times slower in episodes of 40 ms, under a closed loop (or one I/O every 100 us) for four seconds. Episodes come at
/// random, or evenly, like garbage collection under a steady load; then the parts of a run even each other out.
#[derive(Clone, Copy, Debug)]
struct Episodes {
    a_second: f64,
    is_closed: bool,
    is_even: bool,
}

impl Episodes {
    /// Calls `each` with the time in seconds and the latency of each I/O.
    fn run(self, seconds: f64, random: &mut Random, mut each: impl FnMut(f64, u64)) {
        let exponential = |mean: f64, random: &mut Random| -uniform(random).ln() * mean;
        // If even, gaps are half to one and a half of the mean; a run begins anywhere in a gap.
        let gap = |random: &mut Random| match self.is_even {
            true => (0.5 + uniform(random)) / self.a_second,
            false => exponential(1.0 / self.a_second, random),
        };
        let (mut now, mut end) = (0.0, 0.0);
        let mut next = if self.is_even { uniform(random) / self.a_second } else { gap(random) };
        while now < seconds {
            if now >= next {
                end = next + 0.04;
                next = end + gap(random);
            }
            let latency = exponential(if now < end { 1e-3 } else { 1e-4 }, random);
            each(now, (latency * 1e9) as u64 + 1);
            now += if self.is_closed { latency } else { 1e-4 };
        }
    }
}

/// How many of `rounds` runs of four seconds, in forty blocks, have intervals that contain the true p99, mean and rate.
fn coverage(episodes: Episodes, rounds: u64, seed: u64) -> [(&'static str, u64); 3] {
    let mut random = Random::new(seed);
    let mut whole = histogram();
    let long = 2_000.0;
    episodes.run(long, &mut random, |_, latency_ns| whole.record(latency_ns).unwrap());
    let truth = whole.value_at_quantile(0.99);
    let (mean, rate) = (whole.mean(), whole.len() as f64 / long);
    let (mut covered, mut of_mean, mut of_rate) = (0, 0, 0);
    for round in 0..rounds {
        let mut part = histogram();
        let mut blocks = Blocks::new(64);
        whole.clear();
        let mut ended = 0;
        episodes.run(4.0, &mut random, |now, latency_ns| {
            while (now / 0.1) as usize > ended {
                blocks.push(&part, sum_of_middles_ns(&part));
                part.clear();
                ended += 1;
            }
            part.record(latency_ns).unwrap();
            whole.record(latency_ns).unwrap();
        });
        blocks.push(&part, sum_of_middles_ns(&part));
        let by_rank = ByRank::new(&whole);
        covered += u64::from(covers(&by_rank.estimate_clustered(level("99"), Confidence::P95, &blocks, round), truth));
        of_mean += u64::from(mean_interval(&blocks, Confidence::P95).unwrap().holds(mean));
        let counts: Vec<u64> = blocks.iter().map(|block| block.samples()).collect();
        let found = throughput(&counts, 100_000_000, Confidence::P95).unwrap().interval;
        // The rate of an open loop has no spread.
        of_rate += u64::from(found.low <= rate + 1.0 && rate - 1.0 <= found.high);
    }
    [("p99", covered), ("mean", of_mean), ("rate", of_rate)]
}

const EPISODES: [Episodes; 4] = [
    Episodes { a_second: 2.0, is_closed: false, is_even: false },
    Episodes { a_second: 1.0, is_closed: true, is_even: false },
    Episodes { a_second: 2.0, is_closed: true, is_even: false },
    Episodes { a_second: 4.0, is_closed: true, is_even: false },
];

const EVEN: [Episodes; 1] = [Episodes { a_second: 10.0, is_closed: true, is_even: true }];

#[test]
fn regression_few_bad_episodes_are_covered_as_promised() {
    // The earlier method, with as many degrees of freedom as blocks, covered the truth in 89 to 94 of a hundred; with blocks of a second,
    // which are too few, in 15 to 55.
    let rounds = 400;
    for episodes in EPISODES {
        for (what, covered) in coverage(episodes, rounds, 35) {
            assert!(covered * 100 >= rounds * 93, "{episodes:?}, {what}: {covered} of {rounds}");
        }
    }
}

#[test]
fn loads_that_alternate_are_covered_as_promised_and_little_more() {
    let rounds = 400;
    for episodes in EVEN {
        for (what, covered) in coverage(episodes, rounds, 38) {
            // 95 % of 400, and four standard deviations of 4.4.
            assert!((93 * rounds / 100..=397).contains(&covered), "{episodes:?}, {what}: {covered} of {rounds}");
        }
    }
}

#[test]
#[ignore = "thousands of runs take minutes"]
fn coverage_is_what_is_promised_and_little_more() {
    let rounds = 4_000;
    let mut all = Vec::new();
    for episodes in EPISODES.into_iter().chain(EVEN) {
        for (what, covered) in coverage(episodes, rounds, 36) {
            // The rate of an open loop has no spread.
            all.push((format!("{episodes:?}, {what}"), covered, what != "rate" || episodes.is_closed));
        }
    }
    let mut random = Random::new(37);
    let mut parts: Vec<Histogram<u64>> = (0..40).map(|_| histogram()).collect();
    for (shape, quantile) in SHAPES {
        let truths = ["50", "90", "99"].map(|text| (text, quantile(share(text).fraction())));
        // No interval covers the mean of a distribution without variance, so the heavy tail has another exponent here.
        let of_mean = if shape == "heavy tail" {
            |p: f64| ((1.0 - p).powf(-1.0 / 2.5) * 8_000.0).round() as u64
        } else {
            quantile
        };
        let mean = (0..1_000_000).map(|at| of_mean((f64::from(at) + 0.5) / 1e6) as f64).sum::<f64>() / 1e6;
        let mut covered = [0_u64; 4];
        for round in 0..rounds {
            let (mut whole, mut blocks, mut blocks_of_mean) = (histogram(), Blocks::new(64), Blocks::new(64));
            for part in &mut parts {
                let mut fill = |part: &mut Histogram<u64>, quantile: Quantile| {
                    part.clear();
                    let drawn: Vec<u64> = (0..100).map(|_| quantile(uniform(&mut random))).collect();
                    drawn.iter().for_each(|&value| part.record(value.min(1_000_000_000)).unwrap());
                    drawn.into_iter().map(u128::from).sum()
                };
                let sum_ns = fill(part, of_mean);
                blocks_of_mean.push(part, sum_ns);
                let sum_ns = fill(part, quantile);
                whole.add(&*part).unwrap();
                blocks.push(part, sum_ns);
            }
            let by_rank = ByRank::new(&whole);
            for (at, (text, truth)) in truths.iter().enumerate() {
                let estimate = by_rank.estimate_clustered(level(text), Confidence::P95, &blocks, round);
                covered[at] += u64::from(covers(&estimate, *truth));
            }
            covered[3] += u64::from(mean_interval(&blocks_of_mean, Confidence::P95).unwrap().holds(mean));
        }
        // Each percentile of two values is one value or the other.
        let is_spread = shape != "two-point";
        let of_levels = truths.iter().zip(covered);
        all.extend(of_levels.map(|((text, _), covered)| (format!("{shape}, p{text}"), covered, is_spread)));
        all.push((format!("{shape}, mean"), covered[3], true));
    }
    let shares: Vec<String> = all
        .iter()
        .map(|(what, covered, _)| format!("{what}: {:.2} %", *covered as f64 * 100.0 / rounds as f64))
        .collect();
    println!("{}", shares.join("\n"));
    for (what, covered, is_spread) in &all {
        let share = *covered as f64 / rounds as f64;
        // At most two standard deviations (for this number of rounds) above 97.5 %, and none below 93 %. Percentiles are never treated as
        // better known than from independent samples; where slow I/Os come evenly they are better known: 98.05 % of 4,000 were covered.
        let most = if what.contains("is_even: true }, p99") { 0.985 } else { 0.98 };
        assert!(share >= 0.93 && (share <= most || !is_spread), "{what}: {covered} of {rounds}");
    }
}
