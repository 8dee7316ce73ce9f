//! Interleaved comparison of two targets or settings, A and B. Each round measures both, and only the ratio within a round counts, so that
//! drift between rounds (temperature, fill, neighbours) cancels.
//!
//! The reported interval is Student's for the logarithms of the ratios. It is reliable from three rounds on if the logarithms are about
//! normal, as ratios of means of many I/Os are. The bootstrap interval beside it assumes no distribution, but with n rounds it cannot
//! extend beyond the smallest and largest ratio, and is too narrow below about ten rounds.

use super::clustering::{RESAMPLES, bounds_of};
use super::confidence::Interval;
use super::mean::{summarise, t_half, t_interval_of};
use forebay_block::Random;

/// Fewest rounds that are judged.
pub const ROUNDS_MIN: usize = 3;

/// Default of the ratio that is to be detected.
pub const DIFFERENCE: f64 = 1.05;

/// Number of resamples that must lie beyond each end of an interval, and the most resamples that are made.
const RESAMPLES_BEYOND: f64 = 10.0;
const RESAMPLES_MAX: usize = 100_000;
/// Most rounds that are recommended.
pub const ROUNDS_ASKED: usize = 100_000;

/// Largest relative width of a bucket in a histogram with three digits.
pub const HISTOGRAM_RESOLUTION: f64 = 1.0 / 1024.0;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Which way is better.
    pub better: Better,
    /// Relative precision of the values, 0 if they are exact. A smaller difference counts as none.
    pub resolution: f64,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better: throughput.
    Higher,
    /// Less is better: latency.
    Lower,
}

impl Metric {
    /// Operations or bytes a second.
    pub const THROUGHPUT: Self = Self { better: Better::Higher, resolution: 0.0 };
    /// Mean latency, computed from exact sums.
    pub const MEAN_LATENCY: Self = Self { better: Better::Lower, resolution: 0.0 };
    /// A percentile of latency, from a histogram with three digits.
    pub const PERCENTILE: Self = Self { better: Better::Lower, resolution: HISTOGRAM_RESOLUTION };
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A is better by more than chance.
    AFaster,
    /// B is better by more than chance.
    BFaster,
    /// The interval of the ratio contains 1. That does not show equality; see [`Comparison::would_show`].
    NoDifferenceShown,
}

/// The terms by which a comparison is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Chance that the interval misses. If several figures are judged together, this is the error allowed for all of them divided by their
    /// number (Bonferroni); then all intervals hold together as often as promised.
    pub error: f64,
    /// The ratio that is to be detected, such as [`DIFFERENCE`].
    pub difference: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// The result of a comparison. Ratios are B over A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Rounds.
    pub rounds: usize,
    /// Geometric mean of A's values.
    pub a: f64,
    /// Geometric mean of B's values.
    pub b: f64,
    /// Geometric mean of the rounds' ratios.
    pub ratio: f64,
    /// Interval of the ratio that decides the verdict: Student's on logarithms, widened by the resolution.
    pub interval: Interval,
    /// Interval of the ratio by resampling rounds, as a cross-check.
    pub bootstrap: Interval,
    /// Verdict.
    pub verdict: Verdict,
    /// Factor by which the better side is better: at least 1.
    pub factor: f64,
    /// The smallest factor that this number of rounds with this variation would have shown as a difference.
    pub would_show: f64,
    /// Rounds with this variation that would show a difference of [`Terms::difference`]; `None` if more than [`ROUNDS_ASKED`] would be
    /// needed, or if it lies within the resolution.
    pub rounds_needed: Option<usize>,
    /// Run-to-run variation (coefficient of variation) of A, and of B.
    pub variation: (f64, f64),
}

/// Why a comparison is not possible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// Too few rounds for a useful interval.
    #[error("too few rounds: {have} of A and B each, needs {ROUNDS_MIN} or more")]
    TooFewRounds {
        /// Rounds given.
        have: usize,
    },
    /// A value that is not positive and finite, so that there is no ratio.
    #[error(
        "round {round}: {a} for A and {b} for B have no ratio: look why that run has no result and leave the round out"
    )]
    NoRatio {
        /// Number of the round, from 1.
        round: usize,
        /// Value of A.
        a: f64,
        /// Value of B.
        b: f64,
    },
}

/// Compares rounds of (value of A, value of B).
///
/// # Errors
/// Fewer than [`ROUNDS_MIN`] rounds, or a value that is not positive and finite.
pub fn compare(rounds: &[(f64, f64)], metric: Metric, terms: Terms) -> Result<Comparison, CompareError> {
    let usable = |value: f64| value.is_finite() && value > 0.0;
    if let Some(at) = rounds.iter().position(|(a, b)| !usable(*a) || !usable(*b)) {
        let (a, b) = rounds[at];
        return Err(CompareError::NoRatio { round: at + 1, a, b });
    }
    let too_few = CompareError::TooFewRounds { have: rounds.len() };
    if rounds.len() < ROUNDS_MIN {
        return Err(too_few);
    }
    let logs: Vec<f64> = rounds.iter().map(|(a, b)| (b / a).ln()).collect();
    let of = |side: fn(&(f64, f64)) -> f64| rounds.iter().map(side).collect::<Vec<f64>>();
    let (a, b) = (of(|round| round.0), of(|round| round.1));
    let geometric = |values: &[f64]| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp();
    let variation = |values: &[f64]| summarise(values).and_then(|summary| summary.variation).unwrap_or(0.0);
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let step = metric.resolution.max(0.0).ln_1p();
    let Some(student) = t_interval_of(&logs, terms.error) else { return Err(too_few) };
    let Some(resampled) = bootstrap(&logs, terms) else { return Err(too_few) };
    let deviation = summarise(&logs).and_then(|summary| summary.deviation).unwrap_or(0.0);
    let wide = Interval { low: student.low - step, high: student.high + step };
    let verdict = match (metric.better, wide.low > 0.0, wide.high < 0.0) {
        (Better::Higher, true, _) | (Better::Lower, _, true) => Verdict::BFaster,
        (Better::Higher, _, true) | (Better::Lower, true, _) => Verdict::AFaster,
        _ => Verdict::NoDifferenceShown,
    };
    Ok(Comparison {
        rounds: rounds.len(),
        a: geometric(&a),
        b: geometric(&b),
        ratio: mean.exp(),
        interval: Interval { low: wide.low.exp(), high: wide.high.exp() },
        bootstrap: Interval { low: (resampled.low - step).exp(), high: (resampled.high + step).exp() },
        verdict,
        factor: mean.abs().exp(),
        would_show: wide.half_width().exp(),
        rounds_needed: rounds_needed(deviation, step, terms),
        variation: (variation(&a), variation(&b)),
    })
}

/// The first number of rounds at which the interval is narrow enough; it narrows with each round.
fn rounds_needed(deviation: f64, step: f64, terms: Terms) -> Option<usize> {
    let shows = |rounds: usize| t_half(deviation, rounds, terms.error) + step <= terms.difference.ln();
    if !shows(ROUNDS_ASKED) {
        return None;
    }
    let (mut low, mut high) = (ROUNDS_MIN, ROUNDS_ASKED);
    while low < high {
        let middle = (low + high) / 2;
        if shows(middle) { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

fn bootstrap(logs: &[f64], terms: Terms) -> Option<Interval> {
    let mut random = Random::new(terms.seed);
    // For a small error only few resamples lie beyond the interval's ends; there must be enough of them.
    let resamples = ((RESAMPLES_BEYOND / terms.error).ceil() as usize).clamp(RESAMPLES, RESAMPLES_MAX);
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| (0..logs.len()).map(|_| logs[random.index(logs.len())]).sum::<f64>() / logs.len() as f64)
        .collect();
    bounds_of(&mut means, terms.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms { error: 0.05, difference: 1.05, seed: 1 };

    fn noisy(random: &mut Random, ratio: f64, rounds: usize) -> Vec<(f64, f64)> {
        let mut noise = || 1.0 + 0.02 * ((0..12).map(|_| random.below(1000) as f64 / 1000.0).sum::<f64>() - 6.0);
        (0..rounds)
            .map(|round| {
                // A drift that both sides share, and 2 % of noise for each.
                let drift = 1000.0 * (1.0 + 0.1 * round as f64);
                (drift * noise(), drift * ratio * noise())
            })
            .collect()
    }

    #[test]
    fn says_which_is_faster_and_by_how_much() {
        let rounds = [(100.0, 110.0), (200.0, 222.0), (150.0, 164.0), (120.0, 132.0)];
        let more = compare(&rounds, Metric::THROUGHPUT, TERMS).unwrap();
        assert_eq!(more.verdict, Verdict::BFaster);
        assert!((more.ratio - 1.1).abs() < 0.01 && more.interval.holds(1.1) && !more.interval.holds(1.0));
        assert_eq!(compare(&rounds, Metric::MEAN_LATENCY, TERMS).unwrap().verdict, Verdict::AFaster);
        let swapped: Vec<_> = rounds.iter().map(|(a, b)| (*b, *a)).collect();
        let other = compare(&swapped, Metric::THROUGHPUT, TERMS).unwrap();
        assert_eq!(other.verdict, Verdict::AFaster);
        assert!((other.factor - more.factor).abs() < 1e-12 && (other.ratio * more.ratio - 1.0).abs() < 1e-12);
    }

    #[test]
    fn no_difference_is_an_answer_and_says_what_would_have_shown() {
        let rounds = [(100.0, 101.0), (100.0, 98.0), (100.0, 102.0), (100.0, 99.5)];
        let result = compare(&rounds, Metric::THROUGHPUT, TERMS).unwrap();
        assert_eq!(result.verdict, Verdict::NoDifferenceShown);
        assert!(result.would_show > 1.02 && result.would_show < 1.05, "{result:?}");
    }

    #[test]
    fn too_few_rounds_and_missing_results_are_refused() {
        let short = compare(&[(1.0, 2.0), (1.0, 2.0)], Metric::THROUGHPUT, TERMS);
        assert_eq!(short, Err(CompareError::TooFewRounds { have: 2 }));
        assert_eq!(short.unwrap_err().to_string(), "too few rounds: 2 of A and B each, needs 3 or more");
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let result = compare(&[(1.0, 2.0), (1.0, bad), (1.0, 2.0)], Metric::THROUGHPUT, TERMS);
            assert!(matches!(result, Err(CompareError::NoRatio { round: 2, .. })), "{result:?}");
        }
    }

    #[test]
    fn regression_dozens_of_figures_judged_together_are_judged() {
        let mut random = Random::new(25);
        for together in [26.0, 64.0, 1000.0] {
            let terms = Terms { error: 0.05 / together, ..TERMS };
            let found = compare(&noisy(&mut random, 1.5, 8), Metric::THROUGHPUT, terms).unwrap();
            assert!(found.bootstrap.low <= found.ratio && found.ratio <= found.bootstrap.high, "{found:?}");
        }
    }

    #[test]
    fn one_bucket_is_no_difference() {
        let rounds = [(1024.0, 1025.0); 5];
        let read = compare(&rounds, Metric::PERCENTILE, TERMS).unwrap();
        assert_eq!(read.verdict, Verdict::NoDifferenceShown);
        assert_eq!(compare(&rounds, Metric::MEAN_LATENCY, TERMS).unwrap().verdict, Verdict::AFaster);
    }

    #[test]
    fn three_rounds_keep_the_promise_where_the_bootstrap_does_not() {
        let mut random = Random::new(21);
        let (mut student, mut resampled, mut wrong) = (0, 0, 0);
        for seed in 0..400 {
            let result = compare(&noisy(&mut random, 1.0, 3), Metric::THROUGHPUT, Terms { seed, ..TERMS }).unwrap();
            student += u32::from(result.interval.holds(1.0));
            resampled += u32::from(result.bootstrap.holds(1.0));
            wrong += u32::from(result.verdict != Verdict::NoDifferenceShown);
        }
        // 380 expected, standard deviation 4.4.
        assert!(student >= 366, "{student}");
        assert!(resampled < 340, "{resampled}");
        assert_eq!(wrong, 400 - student);
    }

    #[test]
    fn a_real_difference_is_found_under_a_shared_drift() {
        let mut random = Random::new(22);
        let found = (0..100)
            .filter(|seed| {
                let result = compare(&noisy(&mut random, 1.06, 6), Metric::THROUGHPUT, Terms { seed: *seed, ..TERMS });
                result.unwrap().verdict == Verdict::BFaster
            })
            .count();
        assert!(found >= 90, "{found}");
    }

    #[test]
    fn as_many_rounds_as_are_asked_for_show_the_difference() {
        let mut random = Random::new(23);
        let few = compare(&noisy(&mut random, 1.0, 5), Metric::THROUGHPUT, TERMS).unwrap();
        let needed = few.rounds_needed.unwrap();
        assert!((3..60).contains(&needed), "{few:?}");
        let logs = few.would_show.ln() / t_half(1.0, 5, 0.05);
        assert!(t_half(logs, needed, 0.05) <= 1.05_f64.ln() + 1e-12);
        assert!(needed == 3 || t_half(logs, needed - 1, 0.05) > 1.05_f64.ln());
        // A difference within a bucket's width is never shown, however many rounds are measured.
        let fine = Terms { difference: 1.0005, ..TERMS };
        assert_eq!(compare(&[(1024.0, 1025.0); 5], Metric::PERCENTILE, fine).unwrap().rounds_needed, None);
    }

    #[test]
    fn regression_several_figures_of_one_thing_claim_a_difference_no_more_often_than_one() {
        let mut random = Random::new(24);
        let claims = |figures: u32, error: f64, random: &mut Random| {
            (0..400)
                .filter(|_| {
                    (0..figures).any(|_| {
                        let found = compare(&noisy(random, 1.0, 5), Metric::THROUGHPUT, Terms { error, ..TERMS });
                        found.unwrap().verdict != Verdict::NoDifferenceShown
                    })
                })
                .count()
        };
        // Seven figures at 5 % each: 30 % of the comparisons claim something. At a seventh of that, 20 of 400 are expected, standard
        // deviation 4.4.
        assert!(claims(7, 0.05, &mut random) > 80);
        let together = claims(7, 0.05 / 7.0, &mut random);
        assert!(together <= 33, "{together}");
    }
}
