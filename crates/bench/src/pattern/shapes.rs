//! Chooses the next block of the region where blocks have different probabilities.

use super::elementary::{exp, ln};
use super::error::PatternError;
use super::permutation::Permutation;
use super::zipf::{THETA_MAX, YcsbZipf, Zipf};
use crate::job::model::Zone;
use forebay_block::Random;

/// Most blocks that a floating-point distribution can distinguish: a double has 53 bits, of which three are left for rounding.
const FLOAT_BLOCKS_MAX: u64 = 1 << 50;
/// Most zones. fio allows 256 (`ZONESPLIT_MAX`, thread_options.h).
const ZONES_MAX: usize = 256;
/// Shares that sum to 100 percent within this error are taken as 100.
const PERCENT_SLACK: f64 = 1e-6;

/// A distribution over blocks 0..n.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// Ranks by Zipf's law, scattered.
    Zipf { zipf: Zipf, scatter: Permutation },
    /// YCSB's scrambled Zipfian.
    Ycsb(YcsbZipf),
    /// Ranks n * U^power, scattered.
    Pareto { power: f64, blocks: u64, scatter: Permutation },
    /// Normal around the middle; scattered if there is a permutation.
    Normal { deviation: f64, blocks: u64, scatter: Option<Permutation> },
    /// Zones with their own shares of the I/Os.
    Zones(Box<[Spot]>),
    /// Each block once, then again in another order.
    Shuffled { next: u64, blocks: u64, order: Permutation },
}

/// A zone, in blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// 2^64 times the share of the I/Os up to and including this zone; the last zone takes the rest.
    below: u64,
    first: u64,
    blocks: u64,
}

impl Shape {
    /// Zipf's law over blocks. `scatter` must be the same for all threads, so that they agree on the popular blocks.
    pub(super) fn zipf(blocks: u64, theta: f64, scatter: &mut Random) -> Result<Self, PatternError> {
        if !(theta > 0.0 && theta <= THETA_MAX) {
            let allowed = "above 0 and at most 100";
            return Err(PatternError::Parameter { name: "the exponent theta", value: theta, allowed });
        }
        check_blocks(blocks)?;
        Ok(Self::Zipf { zipf: Zipf::new(blocks, theta), scatter: Permutation::new(blocks, scatter) })
    }

    pub(super) fn ycsb(blocks: u64) -> Self {
        Self::Ycsb(YcsbZipf::new(blocks))
    }

    /// fio's `pareto_init` (lib/zipf.c): the exponent is ln h / ln(1-h), so that the share 1-h of the accesses goes to the share h of the
    /// blocks and the share h to the rest, and so on recursively.
    pub(super) fn pareto(blocks: u64, h: f64, scatter: &mut Random) -> Result<Self, PatternError> {
        if !(h > 0.0 && h < 1.0) {
            return Err(PatternError::Parameter { name: "pareto's h", value: h, allowed: "between 0 and 1" });
        }
        check_blocks(blocks)?;
        Ok(Self::Pareto { power: ln(h) / ln(1.0 - h), blocks, scatter: Permutation::new(blocks, scatter) })
    }

    /// A normal distribution; scattered over the region if there is a `scatter`.
    pub(super) fn normal(
        blocks: u64,
        deviation_percent: f64,
        scatter: Option<&mut Random>,
    ) -> Result<Self, PatternError> {
        if !(deviation_percent > 0.0 && deviation_percent <= 100.0) {
            let (name, allowed) = ("the standard deviation in percent", "above 0 and at most 100");
            return Err(PatternError::Parameter { name, value: deviation_percent, allowed });
        }
        check_blocks(blocks)?;
        let scatter = scatter.map(|random| Permutation::new(blocks, random));
        Ok(Self::Normal { deviation: deviation_percent / 100.0 * blocks as f64, blocks, scatter })
    }

    pub(super) fn zones(blocks: u64, block_bytes: u64, zones: &[Zone]) -> Result<Self, PatternError> {
        if zones.len() > ZONES_MAX {
            return Err(PatternError::TooMany { what: "zones", count: zones.len(), max: ZONES_MAX });
        }
        let (mut access, mut size, mut first) = (0.0, 0.0, 0);
        let mut spots = Vec::with_capacity(zones.len() + 1);
        let percent = |name, value: f64, before: f64| {
            let fits = (0.0..=100.0).contains(&value) && before + value <= 100.0 + PERCENT_SLACK;
            let allowed = "0 to 100, and at most 100 with the zones before";
            if fits { Ok(before + value) } else { Err(PatternError::Parameter { name, value, allowed }) }
        };
        for zone in zones {
            access = percent("a zone's share of the I/Os", zone.access_percent, access)?;
            size = percent("a zone's share of the region", zone.size_percent, size)?;
            spots.push((zone.access_percent, access, size));
        }
        spots.push(((100.0 - access).max(0.0), 100.0, 100.0));
        let mut ready = Vec::with_capacity(spots.len());
        for (zone, (access_percent, access_sum, size_sum)) in spots.into_iter().enumerate() {
            let whole = size_sum >= 100.0 - PERCENT_SLACK;
            let end =
                if whole { blocks } else { ((size_sum / 100.0 * blocks as f64).round() as u64).clamp(first, blocks) };
            if access_percent > PERCENT_SLACK {
                if end == first {
                    return Err(PatternError::EmptyZone { zone, access_percent, block_bytes });
                }
                // The cast saturates at the top; there the last zone is chosen anyway.
                let below = (access_sum / 100.0 * 18_446_744_073_709_551_616.0) as u64;
                ready.push(Spot { below, first, blocks: end - first });
            }
            first = end;
        }
        Ok(Self::Zones(ready.into()))
    }

    pub(super) fn shuffled(blocks: u64, random: &mut Random) -> Self {
        Self::Shuffled { next: 0, blocks, order: Permutation::new(blocks, random) }
    }

    /// The next block. Not inlined: the common patterns stay small in the hot loop.
    #[inline(never)]
    pub(super) fn block(&mut self, random: &mut Random) -> u64 {
        match self {
            Self::Zipf { zipf, scatter } => scatter.apply(zipf.rank(random)),
            Self::Ycsb(ycsb) => ycsb.block(random),
            Self::Pareto { power, blocks, scatter } => {
                // 0 < unit <= 1.
                let unit = ((random.next_u64() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64);
                let rank = *blocks as f64 * exp(*power * ln(unit));
                scatter.apply((rank as u64).min(*blocks - 1))
            }
            Self::Normal { deviation, blocks, scatter } => {
                let block = normal_block(*deviation, *blocks, random);
                scatter.as_ref().map_or(block, |scatter| scatter.apply(block))
            }
            Self::Zones(spots) => {
                let at = random.next_u64();
                let last = spots.len() - 1;
                let spot = spots[spots[..last].iter().position(|spot| at < spot.below).unwrap_or(last)];
                spot.first + random.below(spot.blocks)
            }
            Self::Shuffled { next, blocks, order } => {
                if *next == *blocks {
                    *next = 0;
                    order.renew(random);
                }
                let block = order.apply(*next);
                *next += 1;
                block
            }
        }
    }
}

fn check_blocks(blocks: u64) -> Result<(), PatternError> {
    if blocks > FLOAT_BLOCKS_MAX {
        return Err(PatternError::TooManyBlocks { blocks, max: FLOAT_BLOCKS_MAX });
    }
    Ok(())
}

/// A normally distributed block around the middle, by Marsaglia's polar method (Knuth, TAOCP 2, 3.4.1 P). A draw that falls outside is
/// repeated.
fn normal_block(deviation: f64, blocks: u64, random: &mut Random) -> u64 {
    // A try succeeds with a chance above 0.785 * 0.38 (the deviation is at most the region), so 200 failures do not happen; the middle, the
    // most likely block, is then returned.
    for _ in 0..200 {
        let mut symmetric = || (random.next_u64() >> 11) as f64 * (2.0 / (1_u64 << 53) as f64) - 1.0;
        let (u, v) = (symmetric(), symmetric());
        let s = u * u + v * v;
        if s >= 1.0 || s == 0.0 {
            continue;
        }
        // IEEE 754 defines the square root to the last bit.
        let at = blocks as f64 / 2.0 + deviation * u * (-2.0 * ln(s) / s).sqrt();
        if at >= 0.0 && at < blocks as f64 {
            return (at as u64).min(blocks - 1);
        }
    }
    blocks / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(shape: &mut Shape, count: usize) -> Vec<u64> {
        let mut random = Random::new(23);
        (0..count).map(|_| shape.block(&mut random)).collect()
    }

    #[test]
    fn pareto_puts_four_fifths_on_a_fifth() {
        let mut scatter = Random::new(1);
        let mut shape = Shape::pareto(10_000, 0.2, &mut scatter).unwrap();
        let mut counts = vec![0_u32; 10_000];
        for block in draw(&mut shape, 400_000) {
            counts[block as usize] += 1;
        }
        let Shape::Pareto { scatter, .. } = shape else { panic!() };
        let share = |below: u64| {
            let sum: u32 = (0..below).map(|rank| counts[scatter.apply(rank) as usize]).sum();
            f64::from(sum) / 400_000.0
        };
        assert!((share(2000) - 0.8).abs() < 0.003, "{}", share(2000));
        assert!((share(400) - 0.64).abs() < 0.004, "{}", share(400));
    }

    #[test]
    fn normal_has_its_deviation_and_middle() {
        let mut shape = Shape::normal(1_000_000, 10.0, None).unwrap();
        let blocks = draw(&mut shape, 100_000);
        let mean = blocks.iter().sum::<u64>() as f64 / 1e5;
        let variance = blocks.iter().map(|&b| (b as f64 - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 500_000.0).abs() < 1300.0, "{mean}");
        assert!((variance.sqrt() - 100_000.0).abs() < 900.0, "{}", variance.sqrt());
        let within = blocks.iter().filter(|&&b| (400_000..600_000).contains(&b)).count() as f64 / 1e5;
        assert!((within - 0.6827).abs() < 0.006, "{within}");
    }

    #[test]
    fn zones_get_their_shares_and_the_rest_is_one_more() {
        let zone = |access_percent, size_percent| Zone { access_percent, size_percent };
        let mut shape = Shape::zones(1000, 4096, &[zone(60.0, 10.0), zone(0.0, 20.0), zone(30.0, 20.0)]).unwrap();
        let blocks = draw(&mut shape, 100_000);
        let share = |from, to| blocks.iter().filter(|&&b| (from..to).contains(&b)).count() as f64 / 1e5;
        assert!((share(0, 100) - 0.6).abs() < 0.0065);
        assert_eq!(share(100, 300), 0.0);
        assert!((share(300, 500) - 0.3).abs() < 0.006);
        assert!((share(500, 1000) - 0.1).abs() < 0.004);
    }

    #[test]
    fn zones_that_cannot_be_are_refused() {
        let zone = |access_percent, size_percent| Zone { access_percent, size_percent };
        let parameter = |zones: &[Zone]| matches!(Shape::zones(1000, 1, zones), Err(PatternError::Parameter { .. }));
        assert!(parameter(&[zone(60.0, 10.0), zone(50.0, 10.0)]));
        assert!(parameter(&[zone(60.0, 90.0), zone(30.0, 20.0)]));
        assert!(parameter(&[zone(-1.0, 10.0)]));
        assert!(parameter(&[zone(f64::NAN, 10.0)]));
        let empty = |zones: &[Zone]| matches!(Shape::zones(1000, 1, zones), Err(PatternError::EmptyZone { .. }));
        assert!(empty(&[zone(60.0, 0.01)]));
        // 40 % of the I/Os would go to the rest of the region, which is empty.
        assert!(empty(&[zone(60.0, 100.0)]));
        assert!(Shape::zones(1000, 1, &[zone(100.0, 100.0)]).is_ok());
        assert!(Shape::zones(1000, 1, &[zone(33.3, 50.0), zone(33.3, 25.0), zone(33.4, 25.0)]).is_ok());
    }

    #[test]
    fn shuffled_visits_each_block_once_a_pass_and_changes_the_order() {
        let mut shape = Shape::shuffled(777, &mut Random::new(6));
        let blocks = draw(&mut shape, 3 * 777);
        let passes: Vec<&[u64]> = blocks.chunks(777).collect();
        for pass in &passes {
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..777));
        }
        assert_ne!(passes[0], passes[1]);
        assert_ne!(passes[1], passes[2]);
    }

    #[test]
    fn parameters_outside_their_range_are_refused() {
        let mut random = Random::new(1);
        for theta in [0.0, -1.0, f64::NAN, f64::INFINITY, 101.0] {
            assert!(Shape::zipf(10, theta, &mut random).is_err());
        }
        for h in [0.0, 1.0, f64::NAN] {
            assert!(Shape::pareto(10, h, &mut random).is_err());
        }
        for deviation in [0.0, 101.0, f64::NAN] {
            assert!(Shape::normal(10, deviation, None).is_err());
        }
        assert!(matches!(Shape::zipf((1 << 50) + 1, 1.0, &mut random), Err(PatternError::TooManyBlocks { .. })));
    }
}
