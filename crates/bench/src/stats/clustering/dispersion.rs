//! How unevenly exceedances are distributed over blocks of time, and how much that widens intervals.
//!
//! If samples are independent, the number of samples above a value is binomial. If its variance is D times the binomial's, the design
//! effect D (Kish, Survey Sampling, 1965; for percentiles Woodruff 1952, Korn and Graubard 1998) says that n samples are worth n / D
//! independent ones.

use super::blocks::{Block, Blocks};
use super::series::{
    BLOCKS_MIN, MERGED_MIN, SIGNIFICANCE, evened_out, freedom, frequencies, neighbours_alike, variance_of_sum,
};
use crate::stats::confidence::Confidence;
use crate::stats::distribution::{chi_square_tail, normal_quantile, student_t_quantile};
use forebay_block::Random;

/// Exceedances per block from which the chi-square distribution is accurate; with fewer, the test uses random allocations.
const CHI_SQUARE_FROM: u64 = 8;

/// Most random allocations that are compared with the observed one.
const ALLOCATIONS: u32 = 999;

/// How the exceedances of one value are distributed over blocks of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clustering {
    /// Number of samples above the value, or not above it if these are fewer.
    pub exceedances: u64,
    /// Number of blocks compared, after similar neighbours were merged.
    pub blocks: usize,
    /// Variance of the exceedances per block over the binomial variance: 1 if they are independent, 0 if there is nothing to compare.
    pub dispersion: f64,
    /// Degrees of freedom with which the dispersion is known: nearly the number of blocks that deviate.
    pub freedom: f64,
    /// Whether a dispersion this large has a chance below [`SIGNIFICANCE`] among independent samples.
    pub significant: bool,
}

/// Exceedances and samples of a block.
#[derive(Clone, Copy, Debug)]
struct Part {
    exceedances: f64,
    samples: f64,
}

impl Clustering {
    /// Judges the samples above the bucket whose upper edge is `value`, and those at or above it, and takes the worse result: for a
    /// percentile in a bucket with many samples, both sides bound it. `seed` is for the test of sparse exceedances.
    #[must_use]
    pub fn at(blocks: &Blocks, value: u64, seed: u64) -> Self {
        let above = Self::of(blocks, seed, |block| block.above(value));
        let from = Self::of(blocks, seed, |block| block.at_or_above(value));
        if from.design_effect() > above.design_effect() { from } else { above }
    }

    fn of(blocks: &Blocks, seed: u64, exceedances: impl Fn(&Block) -> u64) -> Self {
        let whole: Vec<(u64, u64)> = blocks.iter().map(|block| (exceedances(block), block.samples())).collect();
        let total: u64 = whole.iter().map(|part| part.0).sum();
        let samples: u64 = whole.iter().map(|part| part.1).sum();
        // Uses the rarer side: its variance is the same, and its test is the more sensitive one.
        let flip = total > samples - total;
        let mut parts: Vec<Part> = whole
            .iter()
            .map(|&(count, samples)| Part {
                exceedances: if flip { samples - count } else { count } as f64,
                samples: samples as f64,
            })
            .collect();
        let total = if flip { samples - total } else { total };
        let nothing =
            Self { exceedances: total, blocks: parts.len(), dispersion: 0.0, freedom: 1.0, significant: false };
        if total == 0 || parts.len() < BLOCKS_MIN {
            return nothing;
        }
        let share = total as f64 / samples as f64;
        while parts.len() / 2 >= MERGED_MIN && neighbours_alike(&differences(&parts, share)) {
            parts = merged(&parts);
        }
        let (differences, spread) = (differences(&parts, share), spread(&parts, share));
        let frequencies = frequencies(parts.len(), evened_out(&differences));
        let dispersion = variance_of_sum(&differences, frequencies) / (samples as f64 * share * (1.0 - share));
        let significant = dispersion > 1.0
            && if total >= CHI_SQUARE_FROM * parts.len() as u64 {
                let used = parts.iter().filter(|part| part.samples > 0.0);
                let (statistic, used) = used.fold((0.0, 0.0), |(sum, used), part| {
                    let expected = part.samples * share;
                    (sum + (part.exceedances - expected).powi(2) / (expected * (1.0 - share)), used + 1.0)
                });
                used > 1.0 && chi_square_tail(statistic, used - 1.0) < SIGNIFICANCE
            } else {
                rare_by_chance(&parts, total, samples, spread, seed)
            };
        let freedom = freedom(&differences).min(frequencies as f64);
        Self { blocks: parts.len(), dispersion, freedom, significant, ..nothing }
    }

    /// Factor by which clustering multiplies the variance: the dispersion if it is significant, otherwise 1.
    #[must_use]
    pub fn design_effect(&self) -> f64 {
        if self.significant { self.dispersion.max(1.0) } else { 1.0 }
    }

    /// Number of independent samples that `samples` are worth; `None` if clustering is not significant. With fewer blocks and stalls the
    /// design effect is less certain; Korn and Graubard's factor (z / t)^2 accounts for that.
    #[must_use]
    pub fn effective_samples(&self, samples: u64, confidence: Confidence) -> Option<f64> {
        if !self.significant {
            return None;
        }
        let p = 1.0 - confidence.error() / 2.0;
        let known = normal_quantile(p) / student_t_quantile(p, self.freedom);
        Some(samples as f64 / self.design_effect() * known * known)
    }
}

/// Each pair of neighbours as one part.
fn merged(parts: &[Part]) -> Vec<Part> {
    let sum = |pair: &[Part], of: fn(&Part) -> f64| pair.iter().map(of).sum();
    let merged = |pair: &[Part]| Part {
        exceedances: sum(pair, |part| part.exceedances),
        samples: sum(pair, |part| part.samples),
    };
    parts.chunks(2).map(merged).collect()
}

/// Differences from the count that each block would have in proportion to its samples.
fn differences(parts: &[Part], share: f64) -> Vec<f64> {
    parts.iter().map(|part| part.exceedances - part.samples * share).collect()
}

/// Sum of the squares of these differences.
fn spread(parts: &[Part], share: f64) -> f64 {
    differences(parts, share).iter().map(|difference| difference.powi(2)).sum()
}

/// Whether fewer than one in a hundred random allocations of `total` exceedances to samples are as uneven as `spread`. Stops as soon as the
/// answer is no.
fn rare_by_chance(parts: &[Part], total: u64, samples: u64, spread: f64, seed: u64) -> bool {
    let mut random = Random::new(seed);
    let ends: Vec<u64> = parts
        .iter()
        .scan(0_u64, |end, part| {
            *end += part.samples as u64;
            Some(*end)
        })
        .collect();
    let block_of = |sample: u64| ends.partition_point(|end| *end <= sample);
    // Each sample can exceed only once. That matters where many samples exceed; then there are few samples, and shuffling all of them is
    // cheap. `total` is below CHI_SQUARE_FROM * blocks here.
    let mut deck: Option<Vec<u32>> =
        (samples < total.saturating_mul(20)).then(|| (0..samples).map(|sample| block_of(sample) as u32).collect());
    let share = total as f64 / samples as f64;
    let mut counts = vec![0_u32; parts.len()];
    let allowed = (f64::from(ALLOCATIONS + 1) * SIGNIFICANCE) as u32 - 1;
    let mut as_uneven = 0;
    for _ in 0..ALLOCATIONS {
        counts.fill(0);
        for drawn in 0..total {
            let block = match &mut deck {
                Some(deck) => {
                    let (at, other) = (drawn as usize, (drawn + random.below(samples - drawn)) as usize);
                    deck.swap(at, other);
                    deck[at] as usize
                }
                None => block_of(random.below(samples)),
            };
            counts[block] += 1;
        }
        let by_chance: f64 =
            counts.iter().zip(parts).map(|(count, part)| (f64::from(*count) - part.samples * share).powi(2)).sum();
        // A small margin, because the sums are computed in another order.
        as_uneven += u32::from(by_chance >= spread * (1.0 - 1e-12));
        if as_uneven > allowed {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;

    /// Blocks of `samples` each; `slow` gives the number of slow ones in each block (1000 ns instead of 10).
    fn blocks(slow: &[u64], samples: u64) -> Blocks {
        let mut blocks = Blocks::new(256);
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for slow in slow {
            histogram.clear();
            histogram.record_n(10, samples - slow).unwrap();
            histogram.record_n(1000, *slow).unwrap();
            blocks.push(&histogram, 0);
        }
        blocks
    }

    fn drawn(count: usize, samples: u64, share: f64, random: &mut Random) -> Vec<u64> {
        let limit = (share * 1e9) as u64;
        (0..count).map(|_| (0..samples).filter(|_| random.chance(limit, 1_000_000_000)).count() as u64).collect()
    }

    #[test]
    fn independent_exceedances_are_seldom_called_clustered() {
        let mut random = Random::new(3);
        // Dense (chi-square), sparse (allocations with replacement), and few samples of which many exceed (shuffling).
        for (samples, share, rounds) in [(400, 0.2, 300), (1_000, 0.002, 300), (16, 0.3, 300)] {
            let wrong = (0..rounds)
                .filter(|round| {
                    let blocks = blocks(&drawn(128, samples, share, &mut random), samples);
                    Clustering::at(&blocks, 10, *round).significant
                })
                .count();
            // 1 % of 300, twice (above, and at or above, which is all samples here), plus four standard deviations.
            assert!(wrong <= 10, "{wrong} of {rounds} at {samples} x {share}");
        }
    }

    #[test]
    fn bursts_are_found_and_measured() {
        // Forty slow I/Os in each of an eighth of the blocks: the variance is about 40 * 7/8 of the binomial's.
        let stalls = [3, 9, 14, 30, 33, 37, 52, 60, 61, 75, 83, 90, 99, 101, 118, 125];
        let slow: Vec<u64> = (0..128).map(|block| if stalls.contains(&block) { 40 } else { 0 }).collect();
        let found = Clustering::at(&blocks(&slow, 1000), 10, 1);
        assert!(found.significant);
        assert_eq!((found.exceedances, found.blocks), (640, 128));
        let want = 16.0 * 40.0 * 40.0 * (7.0 / 8.0) / (640.0 * 0.995) * (128.0 / 127.0);
        assert!((found.dispersion - want).abs() < 1e-9 * want, "{} {want}", found.dispersion);
        let effective = found.effective_samples(128_000, Confidence::P95).unwrap();
        assert!(effective < 128_000.0 / want && effective > 128_000.0 / want * 0.9);
    }

    #[test]
    fn the_side_with_fewer_samples_is_taken() {
        let quick = [3, 5, 17, 22, 40, 47, 49, 60];
        let fast: Vec<u64> = (0..64).map(|block| if quick.contains(&block) { 960 } else { 1000 }).collect();
        let found = Clustering::at(&blocks(&fast, 1000), 10, 1);
        assert!(found.significant);
        assert_eq!(found.exceedances, 320);
    }

    #[test]
    fn sparse_exceedances_need_more_than_a_pair() {
        let mut slow = vec![0_u64; 128];
        (slow[3], slow[40], slow[90], slow[91]) = (2, 1, 1, 1);
        assert!(!Clustering::at(&blocks(&slow, 100_000), 10, 1).significant, "a pair among five: chance 7.6 %");
        slow[3] = 5;
        let found = Clustering::at(&blocks(&slow, 100_000), 10, 1);
        assert!(found.significant && found.design_effect() > 2.0);
    }

    #[test]
    fn stalls_longer_than_a_block_merge_blocks() {
        // Stalls of four blocks, at irregular places.
        let mut slow = vec![1_u64; 128];
        for start in [4, 24, 52, 60, 88, 112] {
            slow[start..start + 4].fill(50);
        }
        let found = Clustering::at(&blocks(&slow, 1000), 10, 1);
        assert!(found.blocks <= 64, "{found:?}");
        let short = Clustering { freedom: 127.0, ..found };
        assert!(
            found.design_effect() > 60.0
                && found.effective_samples(1000, Confidence::P95) < short.effective_samples(1000, Confidence::P95)
        );
    }

    #[test]
    fn nothing_to_compare_is_no_clustering() {
        let few = Clustering::at(&blocks(&[50, 0, 0, 0, 0, 0, 0], 100), 10, 1);
        assert!(!few.significant && few.effective_samples(100, Confidence::P95).is_none());
        assert!(!Clustering::at(&blocks(&[0; 128], 100), 10, 1).significant);
        assert!(!Clustering::at(&Blocks::default(), 10, 1).significant);
        assert!((few.design_effect() - 1.0).abs() < f64::EPSILON);
    }
}
