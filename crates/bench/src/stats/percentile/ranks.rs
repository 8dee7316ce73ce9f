//! Which order statistics bound a percentile: the exact binomial interval, which assumes nothing about the distribution.
//!
//! Of n independent samples, the number not above the true percentile of share p is binomial (n, p). So the sample of rank l lies above it
//! with chance P(X <= l - 1), and the sample of rank u below it with chance P(X >= u). l is the largest and u the smallest rank for which
//! these chances stay within the allowed error (David and Nagaraja, Order Statistics, 7.1).

use super::level::Share;
use crate::stats::confidence::Confidence;
use crate::stats::distribution::{binomial_at_least, binomial_at_most, normal_quantile};

/// Largest variance n p (1 - p) for which ranks are found by the incomplete beta function. Above it, the expansion that the search starts
/// from is itself accurate to less than a thousandth of a rank (its error falls with the inverse of the variance), while the continued
/// fraction would take a million steps.
const EXACT_VARIANCE_MAX: f64 = 1e6;

/// How much of a percentile's interval a number of samples can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Too few samples to bound the percentile even from the side of its tail.
    Withheld {
        /// Samples still needed.
        needed_more: u64,
    },
    /// Bounded on the side with many samples, open towards the tail.
    Open,
    /// Bounded on both sides.
    Full,
}

/// Ranks (from 1) that bound a percentile; `None` where no sample does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// Rank of the lower bound.
    pub low: Option<u64>,
    /// Rank of the upper bound.
    pub high: Option<u64>,
}

/// Number of samples from which a value is given: the smallest n with p^n <= a, where p is the share on the side away from the tail. 29,956
/// for p99.99 at 95 %.
#[must_use]
pub fn printed_from(share: Share, confidence: Confidence) -> u64 {
    power_count(share, confidence.error())
}

/// Number of samples from which both bounds are given: one more than the smallest n with p^n <= a / 2. 36,888 for p99.99 at 95 %.
#[must_use]
pub fn full_from(share: Share, confidence: Confidence) -> u64 {
    power_count(share, confidence.error() / 2.0) + 1
}

/// What `samples` samples give for a level.
#[must_use]
pub fn reach(share: Share, samples: u64, confidence: Confidence) -> Reach {
    let printed_from = printed_from(share, confidence);
    if samples < printed_from {
        Reach::Withheld { needed_more: printed_from - samples }
    } else if samples < full_from(share, confidence) {
        Reach::Open
    } else {
        Reach::Full
    }
}

/// Ranks of the interval for `samples` independent samples. If [`reach`] leaves the side of the tail open, the other side gets the whole
/// allowed error; otherwise each side gets half.
#[must_use]
pub fn ranks(share: Share, samples: u64, confidence: Confidence) -> Ranks {
    let error = confidence.error();
    if samples < full_from(share, confidence) {
        return if share.is_low() {
            Ranks { low: None, high: high_rank(share, samples, error) }
        } else {
            Ranks { low: low_rank(share, samples, error), high: None }
        };
    }
    Ranks { low: low_rank(share, samples, error / 2.0), high: high_rank(share, samples, error / 2.0) }
}

/// Ranks among `samples` samples that are worth `effective` independent ones (at most `samples`): the ranks for the latter, scaled to the
/// former, outwards to the edge of the group that each effective sample stands for.
#[must_use]
pub fn effective_ranks(share: Share, samples: u64, effective: f64, confidence: Confidence) -> Ranks {
    if effective >= samples as f64 {
        return ranks(share, samples, confidence);
    }
    let count = (effective.max(0.0) as u64).min(samples);
    let scale = if count == 0 { 1.0 } else { samples as f64 / count as f64 };
    let found = ranks(share, count, confidence);
    // The k-th effective sample stands for the ranks from (k - 1) * scale + 1 on; mirrored at the top.
    let spread = |rank: u64| (((rank - 1) as f64 * scale) as u64 + 1).min(samples);
    Ranks { low: found.low.map(spread), high: found.high.map(|rank| samples + 1 - spread(count - rank + 1)) }
}

/// Smallest n with (the share away from the tail)^n <= `error`.
fn power_count(share: Share, error: f64) -> u64 {
    let away = share.fraction().max(share.tail());
    let tail = share.fraction().min(share.tail());
    // ln of the share, computed from the tail if that has more digits.
    let log = if tail < 0.1 { (-tail).ln_1p() } else { away.ln() };
    (error.ln() / log).ceil() as u64
}

/// Largest l of 1 to n with P(X <= l - 1) <= `error`.
fn low_rank(share: Share, samples: u64, error: f64) -> Option<u64> {
    let (p, q) = (share.fraction(), share.tail());
    let start = expansion(share, samples, normal_quantile(error));
    let rank = if variance(share, samples) > EXACT_VARIANCE_MAX {
        (start + 0.5).floor().clamp(0.0, samples as f64) as u64
    } else {
        // Ranks that are too high form the upper part of 1..=n + 1; the rank before the first of them is the result.
        first(1, samples + 1, (start + 0.5).max(1.0) as u64, |rank| {
            rank > samples || binomial_at_most(rank - 1, samples, p, q) > error
        }) - 1
    };
    (rank > 0).then_some(rank)
}

/// Smallest u of 1 to n with P(X >= u) <= `error`.
fn high_rank(share: Share, samples: u64, error: f64) -> Option<u64> {
    let (p, q) = (share.fraction(), share.tail());
    let start = expansion(share, samples, -normal_quantile(error));
    let rank = if variance(share, samples) > EXACT_VARIANCE_MAX {
        (start + 0.5).ceil().max(1.0) as u64
    } else {
        first(1, samples + 1, (start + 0.5).max(1.0) as u64, |rank| {
            rank > samples || binomial_at_least(rank, samples, p, q) <= error
        })
    };
    (rank <= samples).then_some(rank)
}

fn variance(share: Share, samples: u64) -> f64 {
    samples as f64 * share.fraction() * share.tail()
}

/// The quantile of the binomial at the normal's `z`, as if it were continuous: the expansion of Cornish and Fisher to the third order, with
/// Sheppard's correction for the steps (Kolassa and McCullagh 1990).
fn expansion(share: Share, samples: u64, z: f64) -> f64 {
    let (p, q) = (share.fraction(), share.tail());
    let variance = variance(share, samples);
    if variance < 0.25 {
        return samples as f64 * p;
    }
    let deviation = variance.sqrt();
    let skew = (q - p) / deviation;
    let excess = (1.0 - 6.0 * p * q) / variance;
    let square = z * z;
    let w = z + (square - 1.0) * skew / 6.0 + z * (square - 3.0) * excess / 24.0
        - z * (2.0 * square - 5.0) * skew * skew / 36.0
        - z / (24.0 * variance);
    // Computed from the nearer end, where the mean has more digits.
    let mean = if p > 0.5 { samples as f64 - samples as f64 * q } else { samples as f64 * p };
    mean + deviation * w
}

/// The first value of `from..=to` for which `wanted` holds. It must hold for `to`, and for all values after the first. The search begins at
/// `start` and takes growing steps.
fn first(from: u64, to: u64, start: u64, wanted: impl Fn(u64) -> bool) -> u64 {
    let start = start.clamp(from, to);
    let mut step = 1;
    let (mut low, mut high);
    if wanted(start) {
        (low, high) = (start, start);
        while low > from {
            low = low.saturating_sub(step).max(from);
            if !wanted(low) {
                break;
            }
            high = low;
            step *= 2;
        }
        if high == low {
            return high;
        }
    } else {
        (low, high) = (start, start);
        while high < to {
            high = high.saturating_add(step).min(to);
            if wanted(high) {
                break;
            }
            low = high;
            step *= 2;
        }
    }
    // `wanted` does not hold at `low` and holds at `high`.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if wanted(middle) { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::percentile::Level;

    fn p(text: &str) -> Share {
        match text.parse::<Level>() {
            Ok(Level::Share(share)) => share,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn counts_are_the_published_ones() {
        for (level, one_sided, at_99) in [
            ("99", 299, 459),
            ("99.9", 2_995, 4_603),
            ("99.99", 29_956, 46_050),
            ("99.999", 299_572, 460_515),
            ("99.9999", 2_995_731, 4_605_168),
            ("99.99999", 29_957_322, 46_051_700),
            ("50", 5, 7),
        ] {
            assert_eq!(printed_from(p(level), Confidence::P95), one_sided, "{level}");
            assert_eq!(printed_from(p(level), Confidence::P99), at_99, "{level}");
        }
        assert_eq!(full_from(p("99.99"), Confidence::P95), 36_888);
        assert_eq!(printed_from(p("1"), Confidence::P95), 299);
        assert_eq!(full_from(p("1"), Confidence::P95), full_from(p("99"), Confidence::P95));
    }

    #[test]
    fn each_level_is_withheld_up_to_its_count_and_open_up_to_the_next() {
        for level in Level::ladder() {
            let Level::Share(share) = level else { continue };
            for confidence in [Confidence::P95, Confidence::P99] {
                let (one, two) = (printed_from(share, confidence), full_from(share, confidence));
                assert!(one < two, "{level}");
                assert_eq!(reach(share, 0, confidence), Reach::Withheld { needed_more: one });
                assert_eq!(reach(share, one - 1, confidence), Reach::Withheld { needed_more: 1 });
                assert_eq!(reach(share, one, confidence), Reach::Open);
                assert_eq!(reach(share, two - 1, confidence), Reach::Open);
                assert_eq!(reach(share, two, confidence), Reach::Full);
                // By definition: p^n falls to the allowed error at n and not earlier.
                let away = share.fraction().max(share.tail());
                assert!(away.powf(one as f64) <= confidence.error() * (1.0 + 1e-9));
                assert!(away.powf((one - 1) as f64) > confidence.error());
                let full = ranks(share, two, confidence);
                assert!(full.low.is_some() && full.high.is_some(), "{level}: {full:?}");
                let open = ranks(share, one, confidence);
                assert_eq!((open.low.is_none(), open.high.is_none()), (share.is_low(), !share.is_low()), "{level}");
            }
        }
    }

    #[test]
    fn small_ranks_are_those_of_the_tables() {
        // Median, 95 %: published tables of the sign-test interval give 10: (2, 9), 20: (6, 15), 50: (18, 33),
        // 100: (40, 61).
        for (samples, low, high) in [(10, 2, 9), (20, 6, 15), (50, 18, 33), (100, 40, 61)] {
            let want = Ranks { low: Some(low), high: Some(high) };
            assert_eq!(ranks(p("50"), samples, Confidence::P95), want, "{samples}");
        }
    }

    #[test]
    fn ranks_fulfil_their_definition_and_mirror() {
        for (level, mirrored) in [("50", "50"), ("90", "10"), ("99", "1"), ("99.9", "0.1"), ("99.99999", "0.00001")] {
            let share = p(level);
            for samples in [7, 40, 1_000, 36_888, 1_234_567, 999_999_937] {
                let error = if samples < full_from(share, Confidence::P95) { 0.05 } else { 0.025 };
                let found = ranks(share, samples, Confidence::P95);
                let (x, y) = (share.fraction(), share.tail());
                if variance(share, samples) <= EXACT_VARIANCE_MAX {
                    if let Some(low) = found.low {
                        assert!(binomial_at_most(low - 1, samples, x, y) <= error);
                        assert!(low == samples || binomial_at_most(low, samples, x, y) > error);
                    }
                    if let Some(high) = found.high {
                        assert!(binomial_at_least(high, samples, x, y) <= error);
                        assert!(high == 1 || binomial_at_least(high - 1, samples, x, y) > error);
                    }
                }
                if level == "50" {
                    continue;
                }
                let other = ranks(p(mirrored), samples, Confidence::P95);
                assert_eq!(found.low, other.high.map(|rank| samples + 1 - rank), "{level} of {samples}");
                assert_eq!(found.high, other.low.map(|rank| samples + 1 - rank), "{level} of {samples}");
            }
        }
    }

    #[test]
    fn the_expansion_agrees_with_the_exact_ranks_where_it_takes_over() {
        for (level, samples) in
            [("50", 4_000_000), ("75", 5_333_333), ("99", 101_010_101), ("99.99", 10_001_000_100), ("1", 101_010_101)]
        {
            let share = p(level);
            for error in [0.025, 0.005] {
                for samples in [samples - 10_007, samples - 20_011, samples - 30_013] {
                    assert!(variance(share, samples) <= EXACT_VARIANCE_MAX, "{level}");
                    let low = expansion(share, samples, normal_quantile(error));
                    let high = expansion(share, samples, -normal_quantile(error));
                    let exact_low = low_rank(share, samples, error).unwrap();
                    let exact_high = high_rank(share, samples, error).unwrap();
                    // Accurate to a thousandth of a rank before rounding.
                    assert!((exact_low..=exact_low + 1).contains(&((low + 0.501).floor() as u64)));
                    assert!(exact_low >= (low + 0.499).floor() as u64, "{level}: {exact_low} for {low}");
                    assert!(exact_high <= (high + 0.501).ceil() as u64, "{level}: {exact_high} for {high}");
                    assert!(exact_high >= (high + 0.499).ceil() as u64, "{level}: {exact_high} for {high}");
                }
            }
        }
    }

    #[test]
    fn a_million_million_samples_are_no_trouble() {
        for level in Level::ladder() {
            let Level::Share(share) = level else { continue };
            let samples = 1_000_000_000_000;
            let found = ranks(share, samples, Confidence::P95);
            let (low, high) = (found.low.unwrap(), found.high.unwrap());
            assert!(low < share.rank(samples) && share.rank(samples) < high);
            let width = (high - low) as f64 / (2.0 * 1.959_964 * variance(share, samples).sqrt());
            assert!((width - 1.0).abs() < 0.01, "{level}: {width}");
        }
        // By mpmath, P(X <= 99,380) of 10^12 at 1e-7 is 0.02497, so the upper rank of p99.99999 is at least 99,380 from the top; one step
        // closer to the median the chance is above 0.025 (each step adds 1.9e-4).
        let found = ranks(p("99.99999"), 1_000_000_000_000, Confidence::P95);
        assert_eq!(found.high, Some(1_000_000_000_000 - 99_380));
    }

    #[test]
    fn fewer_effective_samples_widen_the_interval() {
        let share = p("99");
        let plain = ranks(share, 100_000, Confidence::P95);
        assert_eq!(effective_ranks(share, 100_000, 100_000.0, Confidence::P95), plain);
        let wide = effective_ranks(share, 100_000, 10_000.0, Confidence::P95);
        assert!(wide.low.unwrap() < plain.low.unwrap() && wide.high.unwrap() > plain.high.unwrap());
        // 10,000 effective samples: their ranks alone, times ten.
        let alone = ranks(share, 10_000, Confidence::P95);
        assert_eq!(wide.low.unwrap(), (alone.low.unwrap() - 1) * 10 + 1);
        assert_eq!(wide.high.unwrap(), alone.high.unwrap() * 10);
        // Too few effective samples: for the upper bound, then for any bound.
        assert_eq!(effective_ranks(share, 100_000, 300.0, Confidence::P95).high, None);
        let nothing = Ranks { low: None, high: None };
        assert_eq!(effective_ranks(p("50"), 100_000, 1.0, Confidence::P95), nothing);
        assert_eq!(effective_ranks(p("50"), 100_000, 0.0, Confidence::P95), nothing);
        assert_eq!(effective_ranks(p("1"), 100_000, 250.0, Confidence::P95).low, None);
    }
}
