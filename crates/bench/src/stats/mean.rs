//! Means over repeated runs, and rates of series whose neighbouring intervals depend on each other.

use super::clustering::SumError;
use super::confidence::{Confidence, Interval};
use super::distribution::student_t_quantile;

/// Fewest intervals for an interval of a rate.
pub const INTERVALS_MIN: usize = 8;

/// Figures over repeated runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Runs.
    pub runs: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation between runs (n - 1 in the denominator); `None` with one run.
    pub deviation: Option<f64>,
    /// Coefficient of variation, the standard deviation over the mean: the run-to-run variation. `None` with one run or a mean of 0.
    pub variation: Option<f64>,
}

/// Summarises runs; `None` without runs, or if a value is not finite.
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

/// Student's interval for the mean of independent runs; `None` with fewer than two, or if a value is not finite. Exact for normal values,
/// which means of many I/Os nearly are.
#[must_use]
pub fn t_interval(values: &[f64], confidence: Confidence) -> Option<Interval> {
    t_interval_of(values, confidence.error())
}

/// Like [`t_interval`], with any chance to miss, above 0 and below 1.
#[must_use]
pub fn t_interval_of(values: &[f64], error: f64) -> Option<Interval> {
    let summary = summarise(values)?;
    let half = t_half(summary.deviation?, summary.runs, error);
    Some(Interval { low: summary.mean - half, high: summary.mean + half })
}

/// Half the width of Student's interval for the mean of `runs` runs (at least two) with this standard deviation.
#[must_use]
pub fn t_half(deviation: f64, runs: usize, error: f64) -> f64 {
    student_t_quantile(1.0 - error / 2.0, (runs - 1) as f64) * deviation / (runs as f64).sqrt()
}

/// A rate from counts per interval of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Completions a second.
    pub per_second: f64,
    /// Confidence interval of the rate.
    pub interval: Interval,
}

/// Throughput of one run from its counts per interval; dependence between neighbours is taken into account ([`SumError`]). `None` with
/// fewer than 8 intervals or an interval of 0 ns. A trend is no dependence: the run must be in a steady state.
#[must_use]
pub fn throughput(counts: &[u64], interval_ns: u64, confidence: Confidence) -> Option<Rate> {
    if counts.len() < INTERVALS_MIN || interval_ns == 0 {
        return None;
    }
    let seconds = counts.len() as f64 * interval_ns as f64 / 1e9;
    let total: f64 = counts.iter().map(|count| *count as f64).sum();
    let mean = total / counts.len() as f64;
    let differences: Vec<f64> = counts.iter().map(|count| *count as f64 - mean).collect();
    let half = SumError::of(&differences)?.half_interval(confidence) / seconds;
    let per_second = total / seconds;
    let interval = Interval { low: (per_second - half).max(0.0), high: per_second + half };
    Some(Rate { per_second, interval })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::Random;

    /// The sum of twelve uniform numbers, practically normal.
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
        for _ in 0..rounds {
            // First-order autoregression with coefficient 0.7: the variance of the mean is 5.7 times that of independent values.
            let mut state = 0.0;
            let counts: Vec<u64> = (0..600)
                .map(|_| {
                    state = 0.7 * state + normal(&mut random);
                    (10_000.0 + 500.0 * state) as u64
                })
                .collect();
            let rate = throughput(&counts, 1_000_000_000, Confidence::P95).unwrap();
            covered += u32::from(rate.interval.holds(10_000.0));
            let values: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
            naive += u32::from(t_interval(&values, Confidence::P95).unwrap().holds(10_000.0));
        }
        assert!(covered >= 276, "{covered} of {rounds}");
        assert!(naive < 200, "as if independent: {naive} of {rounds}");
    }

    #[test]
    fn independent_counts_are_bounded_tightly_and_few_not_at_all() {
        let mut random = Random::new(13);
        let counts: Vec<u64> = (0..20_000).map(|_| 900 + random.below(200)).collect();
        let rate = throughput(&counts, 100_000_000, Confidence::P95).unwrap();
        assert!(rate.interval.holds(rate.per_second) && rate.interval.holds(9_995.0), "{rate:?}");
        assert!(rate.interval.half_width() < 30.0);
        assert!(throughput(&counts[..7], 1, Confidence::P95).is_none());
        assert!(throughput(&counts, 0, Confidence::P95).is_none());
        let flat = throughput(&[5; 100], 1_000_000_000, Confidence::P95).unwrap();
        assert_eq!((flat.per_second, flat.interval), (5.0, Interval { low: 5.0, high: 5.0 }));
    }
}
