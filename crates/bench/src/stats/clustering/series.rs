//! The error of a sum over parts of a run, where neighbouring parts may depend on each other, and a few parts may make most of the sum.

use super::blocks::{Block, Blocks};
use crate::stats::confidence::{Confidence, Interval};
use crate::stats::distribution::{normal_quantile, student_t_quantile};
use forebay_block::Random;

/// Allowed error when exceedances are called clustered, or neighbours similar: 1 %.
pub const SIGNIFICANCE: f64 = 0.01;

/// Fewest blocks for a judgement.
pub const BLOCKS_MIN: usize = 8;

/// Parts are merged to become independent only while at least this many are left.
pub(super) const MERGED_MIN: usize = 16;

/// Most parts that are examined; if there are more, neighbours are merged first, because power by frequency and random orders take time
/// with the square of the parts.
const PARTS_MAX: usize = 4096;

/// Number of random orders with which the observed order is compared, to see whether it is more even than by chance.
const ORDERS: u32 = 599;

/// With fewer batches than this, there is too little evidence that parts even each other out.
const WINDOWS_MIN: usize = 5;

/// The uncertainty of a sum over the parts of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumError {
    /// Standard error of the sum.
    pub standard: f64,
    /// Degrees of freedom with which the standard error is known; see `freedom`.
    pub freedom: f64,
}

impl SumError {
    /// Takes the difference of each part from its expected share by size; `None` with fewer than 8. Neighbours are merged as long as they
    /// are similar; what dependence is left between them is added (Newey and West 1987, one lag). If neighbours even each other out, only
    /// slow changes count: the sum for a drive that collects garbage in every other part is more certain than its single parts are.
    #[must_use]
    pub fn of(differences: &[f64]) -> Option<Self> {
        if differences.len() < BLOCKS_MIN {
            return None;
        }
        let mut parts = few(differences);
        while parts.len() / 2 >= MERGED_MIN && neighbours_alike(&parts) {
            parts = merged(&parts, 2);
        }
        let by = evened_out(&parts);
        let frequencies = frequencies(parts.len(), by);
        let alike = if by == 1 { 2.0 * products(&parts).max(0.0) } else { 0.0 };
        let variance = variance_of_sum(&parts, frequencies) + alike;
        Some(Self { standard: variance.sqrt(), freedom: freedom(&parts).min(frequencies as f64) })
    }

    /// Half the width of the sum's interval, by Student's t.
    #[must_use]
    pub fn half_interval(&self, confidence: Confidence) -> f64 {
        student_t_quantile(1.0 - confidence.error() / 2.0, self.freedom) * self.standard
    }
}

/// Fewest samples for an interval of a mean: with fewer, most blocks have none, and the spread of samples is not known.
pub const MEAN_SAMPLES_MIN: u64 = 8;

/// Interval of the mean in ns; `None` with fewer than 8 blocks or 8 samples.
#[must_use]
pub fn mean_interval(blocks: &Blocks, confidence: Confidence) -> Option<Interval> {
    if blocks.samples() < MEAN_SAMPLES_MIN {
        return None;
    }
    let samples = blocks.samples() as f64;
    let mean = blocks.iter().map(Block::sum_ns).sum::<u128>() as f64 / samples;
    let differences: Vec<f64> =
        blocks.iter().map(|block| block.sum_ns() as f64 - mean * block.samples() as f64).collect();
    let error = SumError::of(&differences)?;
    // If blocks have one sample or none, the number of samples determines how well the variance is known, not the number of blocks.
    let error = SumError {
        standard: error.standard * (samples / (samples - 1.0)).sqrt(),
        freedom: error.freedom.min(samples - 1.0),
    };
    let half = error.half_interval(confidence) / samples;
    Some(Interval { low: (mean - half).max(0.0), high: mean + half })
}

/// Degrees of freedom of the variance of these parts: one less than their number if all deviate equally, half of it if deviations are
/// normal, and nearly the number of deviating parts if a few make all of it. (This is half of Satterthwaite's value, which would hold if
/// the number of stalls were not as random as their places.)
pub(super) fn freedom(differences: &[f64]) -> f64 {
    let count = differences.len() as f64;
    let fourth: f64 = differences.iter().map(|difference| difference.powi(4)).sum();
    // 1 if all parts deviate equally, 3 if deviations are normal, the number of parts if only one deviates.
    let kurtosis = count * fourth / squares(differences).powi(2);
    let freedom = count / (kurtosis - 1.0);
    if freedom > 0.0 { freedom.clamp(1.0, count - 1.0) } else { count - 1.0 }
}

/// Whether a part predicts the next one: their correlation is above what chance gives in one case of a hundred.
pub(super) fn neighbours_alike(differences: &[f64]) -> bool {
    let correlation = products(differences) / squares(differences);
    correlation > normal_quantile(1.0 - SIGNIFICANCE) / (differences.len() as f64).sqrt()
}

/// Over how many neighbours (1, 2, 4 or 8) parts even each other out: sums of that many consecutive parts vary less than in 99 of 100
/// random orders of the parts.
pub(super) fn evened_out(differences: &[f64]) -> usize {
    let (mut by, mut random) = (1, Random::new(differences.len() as u64));
    let tried = [2, 4, 8].into_iter().filter(|of| differences.len() / of >= WINDOWS_MIN);
    // One in a hundred for all three tests together.
    let allowed = (f64::from(ORDERS + 1) * SIGNIFICANCE / 3.0) as u32 - 1;
    for of in tried {
        // A small margin, because the sums are computed in another order.
        let found = squares_in_a_row(differences, of) * (1.0 + 1e-12);
        let (mut order, mut as_even) = (differences.to_vec(), 0);
        for _ in 0..ORDERS {
            (1..order.len()).rev().for_each(|at| order.swap(at, random.index(at + 1)));
            as_even += u32::from(squares_in_a_row(&order, of) <= found);
            if as_even > allowed {
                break;
            }
        }
        if as_even <= allowed {
            by = of;
        }
    }
    by
}

/// Sum of the squares of sums over `by` consecutive parts. The parts form a ring, so that each counts equally often.
fn squares_in_a_row(differences: &[f64], by: usize) -> f64 {
    let count = differences.len();
    let mut sum: f64 = differences[..by].iter().sum();
    let mut squares = 0.0;
    for at in 0..count {
        squares += sum * sum;
        sum += differences[(at + by) % count] - differences[at];
    }
    squares / by as f64
}

/// How many of the slowest frequencies determine the sum's variance, if `by` neighbours even each other out; all frequencies if they do
/// not.
pub(super) fn frequencies(parts: usize, by: usize) -> usize {
    if by == 1 { parts - 1 } else { parts / by }
}

/// The variance of the sum of the parts, from their slowest frequencies: the mean power of their cosines (equally weighted; Müller 2007,
/// Lazarus, Lewis, Stock and Watson 2018). With all frequencies it is the usual variance of independent parts. Its degrees of freedom are
/// the number of frequencies.
pub(super) fn variance_of_sum(differences: &[f64], frequencies: usize) -> f64 {
    let count = differences.len() as f64;
    let power = |frequency: usize| {
        let step = std::f64::consts::PI * frequency as f64 / count;
        let waves = differences.iter().enumerate().map(|(at, part)| part * (step * (at as f64 + 0.5)).cos());
        2.0 * waves.sum::<f64>().powi(2)
    };
    if frequencies + 1 == differences.len() {
        return squares(differences) * count / (count - 1.0);
    }
    (1..=frequencies).map(power).sum::<f64>() / frequencies as f64
}

/// The parts, merged to at most `PARTS_MAX`.
fn few(differences: &[f64]) -> Vec<f64> {
    merged(differences, differences.len().div_ceil(PARTS_MAX))
}

/// Sums of `by` neighbours each.
fn merged(differences: &[f64], by: usize) -> Vec<f64> {
    differences.chunks(by).map(|some| some.iter().sum()).collect()
}

fn squares(differences: &[f64]) -> f64 {
    differences.iter().map(|difference| difference * difference).sum()
}

fn products(differences: &[f64]) -> f64 {
    differences.windows(2).map(|pair| pair[0] * pair[1]).sum()
}

#[cfg(test)]
mod tests {
    use super::super::bootstrap::tests::spread_blocks;
    use super::*;
    use hdrhistogram::Histogram;

    #[test]
    fn freedom_is_that_of_the_parts_that_deviate() {
        let bell: Vec<f64> = (0..40).map(|at| if at % 2 == 0 { 1.0 } else { -1.0 }).collect();
        assert_eq!(freedom(&bell), 39.0);
        // Four stalls in forty parts: a kurtosis of about ten.
        let few: Vec<f64> = (0..40).map(|at| if at % 10 == 3 { 9.0 } else { -1.0 }).collect();
        assert!((4.0..6.0).contains(&freedom(&few)), "{}", freedom(&few));
        let one: Vec<f64> = (0..40).map(|at| if at == 3 { 39.0 } else { -1.0 }).collect();
        assert!((1.0..1.2).contains(&freedom(&one)), "{}", freedom(&one));
        assert_eq!(freedom(&[0.0; 8]), 7.0);
    }

    #[test]
    fn an_error_is_the_textbooks_where_parts_are_independent_and_larger_where_they_are_not() {
        let mut random = Random::new(3);
        let alternating: Vec<f64> = (0..40).map(|at| if at % 2 == 0 { 2.0 } else { -2.0 }).collect();
        // Each part makes up for the previous one: only the ends of the run remain.
        assert!(SumError::of(&alternating).unwrap().standard < 2.0 * 2.0);
        let mut independent = alternating;
        (1..40).rev().for_each(|at| independent.swap(at, random.index(at + 1)));
        let error = SumError::of(&independent).unwrap();
        assert!((error.standard - 2.0 * (40.0 * 40.0 / 39.0_f64).sqrt()).abs() < 1e-12, "{error:?}");
        // t of 39 degrees of freedom: 2.0227.
        assert!((error.half_interval(Confidence::P95) / error.standard - 2.022_69).abs() < 1e-4, "{error:?}");
        let signs: Vec<bool> = (0..16).map(|_| random.chance(1, 2)).collect();
        let in_fives: Vec<f64> = (0..80).map(|at| if signs[at / 5] { 2.0 } else { -2.0 }).collect();
        let independent = 2.0 * 80.0_f64.sqrt();
        assert!(SumError::of(&in_fives).unwrap().standard > independent * 1.5);
        assert_eq!(SumError::of(&in_fives[..7]), None);
    }

    /// Each part takes back most of the excess of the previous one, as on a drive that collects garbage in every other part. Judged by sums
    /// of several consecutive parts, all intervals contained the truth, so they were too wide.
    #[test]
    fn regression_parts_that_even_each_other_out_are_covered_as_promised_and_little_more() {
        let mut random = Random::new(7);
        let (mut evened, mut independent, rounds, mut of_independent) = (0, 0, 2000, 0.0);
        let mut bell = || (0..12).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0;
        for _ in 0..rounds {
            let drawn: Vec<f64> = (0..41).map(|_| bell()).collect();
            let covers = |parts: Vec<f64>| {
                let sum: f64 = parts.iter().sum();
                let around: Vec<f64> = parts.iter().map(|part| part - sum / parts.len() as f64).collect();
                sum.abs() <= SumError::of(&around).unwrap().half_interval(Confidence::P95)
            };
            let parts: Vec<f64> = drawn.windows(2).map(|pair| pair[1] - 0.6 * pair[0]).collect();
            of_independent += SumError::of(&parts).unwrap().standard / squares(&parts).sqrt();
            evened += u32::from(covers(parts));
            independent += u32::from(covers(drawn[..40].to_vec()));
        }
        let share = |covered: u32| f64::from(covered) / f64::from(rounds);
        assert!((0.92..0.97).contains(&share(independent)), "{}", share(independent));
        // The sum has 0.16 of the variance, the parts alone 1.36.
        assert!((0.93..0.985).contains(&share(evened)), "{}", share(evened));
        assert!(of_independent / f64::from(rounds) < 0.6, "{of_independent}");
    }

    /// The error of two days of seconds, where each takes back the excess of the previous one, took minutes to compute at the end of a run.
    #[test]
    fn regression_the_error_of_very_many_parts_is_known_at_once() {
        let mut random = Random::new(5);
        let drawn: Vec<f64> = (0..=172_800).map(|_| random.below(1000) as f64 - 499.5).collect();
        let evened: Vec<f64> = drawn.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (evened, independent) = (SumError::of(&evened).unwrap(), SumError::of(&drawn[1..]).unwrap());
        assert!(few(&drawn).len() <= PARTS_MAX);
        let textbook = squares(&drawn[1..]).sqrt();
        assert!((independent.standard / textbook - 1.0).abs() < 0.1, "{independent:?} {textbook}");
        assert!(evened.standard < textbook / 20.0, "{evened:?} {textbook}");
        // Up to this number, parts are examined one by one.
        assert_eq!(few(&drawn[..PARTS_MAX]), &drawn[..PARTS_MAX]);
    }

    #[test]
    fn an_interval_of_the_mean_surrounds_it() {
        let blocks = spread_blocks(128, 200, 5);
        let mean = mean_interval(&blocks, Confidence::P95).unwrap();
        // Standard error 0.2887 / 160 of the range, 1.8 million.
        assert!(mean.holds(500_000_000.0) && (2.8e6..4.4e6).contains(&mean.half_width()), "{mean:?}");
        assert!(mean_interval(&blocks, Confidence::P99).unwrap().half_width() > mean.half_width());
        let mut flat = Blocks::default();
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        histogram.record_n(10, 100).unwrap();
        (0..8).for_each(|_| flat.push(&histogram, 1000));
        assert_eq!(mean_interval(&flat, Confidence::P95), Some(Interval { low: 10.0, high: 10.0 }));
    }

    #[test]
    fn too_few_blocks_and_no_samples_have_no_interval() {
        assert_eq!(mean_interval(&spread_blocks(7, 10, 1), Confidence::P95), None);
        let mut empty = Blocks::default();
        (0..20).for_each(|_| empty.push(&Histogram::new(3).unwrap(), 0));
        assert_eq!(mean_interval(&empty, Confidence::P95), None);
    }

    /// One sample had an interval without width, and few samples had one that was too narrow: their blocks are many, and mostly empty.
    #[test]
    fn regression_the_mean_of_few_samples_has_a_wide_interval_or_none() {
        let of = |values: &[u64]| {
            let mut blocks = Blocks::default();
            for at in 0..40 {
                let mut histogram = Histogram::new(3).unwrap();
                let value = values.get(at / 4).filter(|_| at % 4 == 1);
                value.into_iter().for_each(|&value| histogram.record(value).unwrap());
                blocks.push(&histogram, value.copied().unwrap_or(0).into());
            }
            mean_interval(&blocks, Confidence::P95)
        };
        assert_eq!((of(&[100]), of(&[100, 100]), of(&[100; 7])), (None, None, None));
        let eight = of(&[100, 110, 120, 130, 140, 150, 160, 170]).unwrap();
        // Student's t for 7 degrees of freedom, 2.365, times 24.49 over the root of 8.
        assert!((19.0..23.0).contains(&eight.half_width()) && eight.holds(135.0), "{eight:?}");
    }
}
