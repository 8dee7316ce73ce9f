//! Block bootstrap (Künsch 1989, Carlstein 1986): whole blocks of time are drawn with replacement, so that dependence within a block is
//! kept.

use super::blocks::{Block, Blocks};
use super::series::BLOCKS_MIN;
use crate::stats::confidence::{Confidence, Interval};
use crate::stats::percentile::Share;
use forebay_block::Random;

/// Number of resamples.
pub const RESAMPLES: usize = 1000;

/// Most distinct values kept for a percentile. Beyond that, neighbours share the upper value, which is at most 2 % off for latencies from 1
/// ns to a minute.
const VALUES_MAX: usize = 4096;

/// Interval of a percentile in ns; `None` with fewer than 8 blocks or without samples.
#[must_use]
pub fn bootstrap_percentile(blocks: &Blocks, share: Share, confidence: Confidence, seed: u64) -> Option<Interval> {
    let count = blocks.len();
    if count < BLOCKS_MIN || blocks.samples() == 0 {
        return None;
    }
    let values = values(blocks);
    // For each value and block the samples up to the value, stored value by value so that a resample reads adjacent numbers.
    let mut up_to = vec![0_u64; values.len() * count];
    for (at, block) in blocks.iter().enumerate() {
        let mut cells = block.cells().iter().peekable();
        let mut sum = 0;
        for (row, value) in values.iter().enumerate() {
            while let Some(cell) = cells.next_if(|cell| cell.value <= *value) {
                sum += cell.count;
            }
            up_to[row * count + at] = sum;
        }
    }
    let mut random = Random::new(seed);
    let mut times = vec![0_u64; count];
    let mut found = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        times.fill(0);
        for _ in 0..count {
            times[random.index(count)] += 1;
        }
        let samples = |row: usize| -> u64 {
            up_to[row * count..(row + 1) * count].iter().zip(&times).map(|(samples, times)| samples * times).sum()
        };
        let total = samples(values.len() - 1);
        if total == 0 {
            continue;
        }
        let rank = share.rank(total);
        let (mut low, mut high) = (0, values.len() - 1);
        while low < high {
            let middle = (low + high) / 2;
            if samples(middle) < rank { low = middle + 1 } else { high = middle }
        }
        found.push(values[low] as f64);
    }
    bounds_of(&mut found, confidence.error())
}

/// All values of all blocks, thinned out to [`VALUES_MAX`].
fn values(blocks: &Blocks) -> Vec<u64> {
    let mut values: Vec<u64> = blocks.iter().flat_map(Block::cells).map(|cell| cell.value).collect();
    values.sort_unstable();
    values.dedup();
    let step = values.len().div_ceil(VALUES_MAX).max(1);
    // From the top down, so that the largest value is kept.
    let mut kept: Vec<u64> = values.into_iter().rev().step_by(step).collect();
    kept.reverse();
    kept
}

/// The percentile interval of resampled figures (Efron 1979): from rank (B + 1) a / 2 on either side, rounded outwards. `None` if there are
/// too few figures for that rank.
#[must_use]
pub fn bounds_of(resampled: &mut [f64], error: f64) -> Option<Interval> {
    resampled.sort_unstable_by(f64::total_cmp);
    let rank = ((resampled.len() + 1) as f64 * error / 2.0 + 1e-9) as usize;
    if rank == 0 {
        return None;
    }
    Some(Interval { low: resampled[rank - 1], high: resampled[resampled.len() - rank] })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::blocks::sum_of_middles_ns;
    use super::*;
    use crate::stats::percentile::Level;
    use hdrhistogram::Histogram;

    fn share(text: &str) -> Share {
        match text.parse::<Level>() {
            Ok(Level::Share(share)) => share,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn spread_blocks(count: usize, samples: u64, seed: u64) -> Blocks {
        let mut random = Random::new(seed);
        let mut blocks = Blocks::new(256);
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for _ in 0..count {
            histogram.clear();
            (0..samples).for_each(|_| histogram.record(1 + random.below(1_000_000_000)).unwrap());
            blocks.push(&histogram, sum_of_middles_ns(&histogram));
        }
        blocks
    }

    #[test]
    fn intervals_surround_the_figure_and_follow_the_seed() {
        let blocks = spread_blocks(128, 200, 5);
        let median = bootstrap_percentile(&blocks, share("50"), Confidence::P95, 1).unwrap();
        // Uniform values: the median's standard error is 0.5 / sqrt(25,600) of the range, 3.1 million.
        assert!(median.holds(500_000_000.0), "{median:?}");
        assert!((4e6..9e6).contains(&median.half_width()), "{median:?}");
        assert_eq!(bootstrap_percentile(&blocks, share("50"), Confidence::P95, 1), Some(median));
        assert_ne!(bootstrap_percentile(&blocks, share("50"), Confidence::P95, 2), Some(median));
    }

    #[test]
    fn a_figure_without_spread_has_no_width() {
        let mut blocks = Blocks::default();
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        histogram.record_n(10, 100).unwrap();
        (0..8).for_each(|_| blocks.push(&histogram, sum_of_middles_ns(&histogram)));
        let want = Some(Interval { low: 10.0, high: 10.0 });
        assert_eq!(bootstrap_percentile(&blocks, share("99"), Confidence::P95, 1), want);
    }

    #[test]
    fn too_few_blocks_give_none() {
        assert_eq!(bootstrap_percentile(&spread_blocks(7, 10, 1), share("50"), Confidence::P95, 1), None);
    }

    #[test]
    fn many_values_are_bounded_and_quick() {
        let blocks = spread_blocks(128, 2000, 9);
        assert!(values(&blocks).len() <= VALUES_MAX);
        let start = std::time::Instant::now();
        bootstrap_percentile(&blocks, share("99.9"), Confidence::P95, 1).unwrap();
        // The goal is 100 ms; the limit is ten times that, because the test machine may be busy.
        assert!(start.elapsed().as_millis() < 1000, "{:?}", start.elapsed());
    }
}
