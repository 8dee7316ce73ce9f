//! Means over repeated runs, and of series whose neighbours hang together.

use super::clustering::{RESAMPLES, bounds_of};
use super::confidence::{Confidence, Interval};
use super::distribution::student_t_quantile;
use forebay_block::Random;

/// Most intervals of a series that are resampled one by one; longer series are summed up by neighbours first.
const INTERVALS_MAX: usize = 4096;

/// Fewest intervals of a series that are judged.
pub const INTERVALS_MIN: usize = 8;

/// Repeated runs in figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Runs.
    pub runs: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of a run (n - 1 in the denominator); none with one run.
    pub deviation: Option<f64>,
    /// Coefficient of variation, the standard deviation over the mean: the run-to-run variation. None with one run or
    /// with a mean of 0.
    pub variation: Option<f64>,
}

/// Sums up runs; none without runs or where a value is not finite.
#[must_use]
pub fn summarise(values: &[f64]) -> Option<Summary> {
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.len() > 1).then(|| {
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (count - 1.0)).sqrt()
    });
    let variation = deviation.filter(|_| mean != 0.0).map(|deviation| deviation / mean.abs());
    Some(Summary { runs: values.len(), mean, deviation, variation })
}

/// Student's interval for the mean of independent runs; none with fewer than two or where a value is not finite. Exact for
/// normal values; for means of many I/Os that is close.
#[must_use]
pub fn t_interval(values: &[f64], confidence: Confidence) -> Option<Interval> {
    let summary = summarise(values)?;
    let error = summary.deviation? / (summary.runs as f64).sqrt();
    let half = student_t_quantile(1.0 - confidence.error() / 2.0, (summary.runs - 1) as f64) * error;
    Some(Interval { low: summary.mean - half, high: summary.mean + half })
}

/// A rate from counts per interval of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Completions a second.
    pub per_second: f64,
    /// Interval by block bootstrap.
    pub interval: Interval,
    /// Length of the blocks drawn, in intervals of the series given.
    pub block_intervals: usize,
}

/// Throughput of one run from its interval counts, neighbours taken as dependent: circular block bootstrap (Politis and
/// Romano 1992) with the block length that the series' own correlation asks for (Politis and White 2004, as corrected
/// by Patton, Politis and White 2009). None with fewer than 8 intervals or an interval of 0 ns. Trends are not
/// dependence: this is for a steady state.
#[must_use]
pub fn throughput(counts: &[u64], interval_ns: u64, confidence: Confidence, seed: u64) -> Option<Rate> {
    if counts.len() < INTERVALS_MIN || interval_ns == 0 {
        return None;
    }
    let together = counts.len().div_ceil(INTERVALS_MAX);
    let whole = counts.len() / together * together;
    let series: Vec<f64> =
        counts[..whole].chunks(together).map(|part| part.iter().map(|count| *count as f64).sum()).collect();
    let length = block_length(&series);
    // Sums of the series twice over, so that a block may run past the end into the begin.
    let count = series.len();
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(series.iter().chain(&series).scan(0.0, |sum, value| {
            *sum += value;
            Some(*sum)
        }))
        .collect();
    let seconds_of = |intervals: usize| intervals as f64 * together as f64 * interval_ns as f64 / 1e9;
    let mut random = Random::new(seed);
    let mut rates = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let (mut sum, mut left) = (0.0, count);
        while left > 0 {
            let (start, taken) = (random.index(count), length.min(left));
            sum += sums[start + taken] - sums[start];
            left -= taken;
        }
        rates.push(sum / seconds_of(count));
    }
    let total: f64 = counts.iter().map(|count| *count as f64).sum();
    let per_second = total / (counts.len() as f64 * interval_ns as f64 / 1e9);
    Some(Rate { per_second, interval: bounds_of(&mut rates, confidence)?, block_intervals: length * together })
}

/// Block length for the mean of a series: 1 where neighbours tell nothing of each other, at most a quarter of the series.
fn block_length(series: &[f64]) -> usize {
    let count = series.len();
    let n = count as f64;
    let mean = series.iter().sum::<f64>() / n;
    let covariance = |lag: usize| -> f64 {
        series.iter().zip(&series[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n
    };
    let variance = covariance(0);
    if variance <= 0.0 {
        return 1;
    }
    // The lag after which a run of correlations is within chance.
    let run = ((n.log10().sqrt()) as usize).max(5);
    let longest = (n.sqrt().ceil() as usize + run).min(count - 1);
    let chance = 2.0 * (n.log10() / n).sqrt();
    let correlations: Vec<f64> = (0..=longest).map(|lag| covariance(lag) / variance).collect();
    let within = |lag: usize| correlations.get(lag).is_none_or(|value| value.abs() < chance);
    let last = (0..longest).find(|lag| (lag + 1..=lag + run).all(within)).unwrap_or(longest);
    if last == 0 {
        return 1;
    }
    let window = (2 * last).min(longest);
    // Flat-top window: 1 up to half of it, then falling to 0.
    let (mut weighted, mut density) = (0.0, 1.0);
    for (lag, correlation) in correlations.iter().enumerate().take(window + 1).skip(1) {
        let weight = (2.0 * (1.0 - lag as f64 / window as f64)).min(1.0);
        weighted += 2.0 * weight * lag as f64 * correlation;
        density += 2.0 * weight * correlation;
    }
    if density <= 0.0 {
        return 1;
    }
    // (2 G^2 / D n)^(1/3) with D = 4/3 g(0)^2.
    let length = (1.5 * (weighted / density).powi(2) * n).cbrt().ceil();
    (length as usize).clamp(1, (count / 4).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sum of twelve uniform numbers: as good as normal.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.below(1 << 32) as f64 / (1_u64 << 32) as f64).sum::<f64>() - 6.0
    }

    #[test]
    fn sums_up_runs() {
        let summary = summarise(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((summary.runs, summary.mean), (8, 5.0));
        let deviation = (32.0_f64 / 7.0).sqrt();
        assert!((summary.deviation.unwrap() - deviation).abs() < 1e-12);
        assert!((summary.variation.unwrap() - deviation / 5.0).abs() < 1e-12);
        let one = summarise(&[3.0]).unwrap();
        assert_eq!((one.mean, one.deviation, one.variation), (3.0, None, None));
        assert_eq!(summarise(&[]), None);
        assert_eq!(summarise(&[1.0, f64::NAN]), None);
        assert_eq!(summarise(&[-1.0, 1.0]).unwrap().variation, None);
    }

    #[test]
    fn t_interval_is_the_textbooks() {
        // Mean 10, deviation 1 (by construction), five runs: 10 +- 2.776445 / sqrt(5).
        let values = [10.0 - 2.0_f64.sqrt(), 10.0, 10.0, 10.0, 10.0 + 2.0_f64.sqrt()];
        let interval = t_interval(&values, Confidence::P95).unwrap();
        assert!((interval.high - 10.0 - 2.776_445_105 / 5.0_f64.sqrt()).abs() < 1e-8, "{interval:?}");
        assert!((interval.high + interval.low - 20.0).abs() < 1e-12);
        assert_eq!(t_interval(&[1.0], Confidence::P95), None);
    }

    #[test]
    fn t_interval_covers_with_three_runs() {
        let mut random = Random::new(11);
        let covered = (0..4000)
            .filter(|_| {
                let values: Vec<f64> = (0..3).map(|_| 100.0 + normal(&mut random)).collect();
                t_interval(&values, Confidence::P95).unwrap().holds(100.0)
            })
            .count();
        // 3,800 expected, standard deviation 14.
        assert!((3750..3850).contains(&covered), "{covered}");
    }

    #[test]
    fn throughput_of_a_dependent_series_is_covered() {
        let mut random = Random::new(12);
        let (mut covered, mut naive, rounds) = (0, 0, 300);
        for round in 0..rounds {
            // First-order autoregression, coefficient 0.7: the mean's variance is 5.7 times the independent one.
            let mut state = 0.0;
            let counts: Vec<u64> = (0..600)
                .map(|_| {
                    state = 0.7 * state + normal(&mut random);
                    (10_000.0 + 500.0 * state) as u64
                })
                .collect();
            let rate = throughput(&counts, 1_000_000_000, Confidence::P95, round).unwrap();
            covered += u32::from(rate.interval.holds(10_000.0));
            let values: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
            naive += u32::from(t_interval(&values, Confidence::P95).unwrap().holds(10_000.0));
        }
        assert!(covered >= 270, "block bootstrap: {covered} of {rounds}");
        assert!(naive < 200, "as if independent: {naive} of {rounds}");
    }

    #[test]
    fn independent_counts_need_no_blocks_and_long_series_are_summed_up() {
        let mut random = Random::new(13);
        let counts: Vec<u64> = (0..20_000).map(|_| 900 + random.below(200)).collect();
        let rate = throughput(&counts, 100_000_000, Confidence::P95, 1).unwrap();
        assert_eq!(rate.block_intervals % 5, 0);
        assert!(rate.interval.holds(rate.per_second) && rate.interval.holds(9_995.0), "{rate:?}");
        assert!(rate.interval.half_width() < 30.0);
        assert!(throughput(&counts[..7], 1, Confidence::P95, 1).is_none());
        assert!(throughput(&counts, 0, Confidence::P95, 1).is_none());
        let flat = throughput(&[5; 100], 1_000_000_000, Confidence::P95, 1).unwrap();
        assert_eq!((flat.per_second, flat.interval), (5.0, Interval { low: 5.0, high: 5.0 }));
    }
}
