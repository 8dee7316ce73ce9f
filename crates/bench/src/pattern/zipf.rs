//! Zipf's law, computed exactly, and YCSB's version of it.

use super::elementary::{exp, exp_m1, ln, ln_1p};
use forebay_block::Random;
use forebay_block::hash::ycsb64;

/// Largest exponent: beyond it, all but one I/O in 10^30 go to one block.
pub(super) const THETA_MAX: f64 = 100.0;

/// Exponents nearer to 1 than this need formulas that do not lose digits there. Beyond, a power is off by at most 2^-53 / 1e-4, 1e-12 of
/// its value.
const NEAR_ONE: f64 = 1e-4;

/// Ranks 1..=n with probability proportional to rank^-theta, by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to
/// generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996). Exact up to the rounding of doubles for any n; needs
/// fewer than 1.3 tries on average.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    ranks: f64,
    theta: f64,
    one_less_theta: f64,
    reciprocal: f64,
    /// Whether theta is far enough from 1 that the plain formula loses at most four digits.
    theta_is_plain: bool,
    /// H(1.5) - h(1) and H(n + 0.5), where h(x) = x^-theta and H is its integral from 1.
    integral_first: f64,
    integral_last: f64,
    /// Distance below a rank within which it is accepted without the full test.
    shortcut: f64,
}

impl Zipf {
    /// Over `ranks` (1 to 2^50) with an exponent above 0.
    pub(super) fn new(ranks: u64, theta: f64) -> Self {
        let ranks = ranks.max(1) as f64;
        let one_less_theta = 1.0 - theta;
        let mut zipf = Self {
            ranks,
            theta,
            one_less_theta,
            reciprocal: 1.0 / one_less_theta,
            theta_is_plain: one_less_theta.abs() > NEAR_ONE,
            integral_first: 0.0,
            integral_last: 0.0,
            shortcut: 0.0,
        };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(ranks + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - exp(-theta * ln(2.0)));
        zipf
    }

    /// A rank from 0, the most popular.
    pub(super) fn rank(&self, random: &mut Random) -> u64 {
        // Each try is accepted with a chance above 3/4, so a hundred failures do not happen; rank 0, the most frequent one, is then
        // returned.
        for _ in 0..100 {
            // 0 < unit <= 1: at 0 the inverse would lie beyond the last rank.
            let unit = ((random.next_u64() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64);
            let u = self.integral_last + unit * (self.integral_first - self.integral_last);
            let x = self.inverse(u);
            // The cast truncates; x is positive, or rounding has moved it beyond the last rank.
            let rank = ((x + 0.5) as i64 as f64).max(1.0).min(self.ranks);
            if rank - x <= self.shortcut || u >= self.integral(rank + 0.5) - exp(-self.theta * ln(rank)) {
                return rank as u64 - 1;
            }
        }
        0
    }

    /// The integral of x^-theta from 1 to x: (x^(1-theta) - 1) / (1 - theta), and ln x where theta is 1.
    fn integral(&self, x: f64) -> f64 {
        let log = ln(x);
        let scaled = self.one_less_theta * log;
        if scaled == 0.0 { log } else { exp_m1(scaled) / scaled * log }
    }

    /// The x whose integral is y: (1 + (1 - theta) y)^(1 / (1 - theta)).
    #[inline]
    fn inverse(&self, y: f64) -> f64 {
        if self.theta_is_plain {
            // Rounding may give a base of 0 if theta is above 1.
            return exp(ln((1.0 + self.one_less_theta * y).max(f64::MIN_POSITIVE)) * self.reciprocal);
        }
        // Rounding may give -1, where the logarithm is not defined.
        let scaled = (y * self.one_less_theta).max(f64::EPSILON - 1.0);
        if scaled == 0.0 { exp(y) } else { exp(ln_1p(scaled) / scaled * y) }
    }
}

/// YCSB's ScrambledZipfianGenerator with its quirk: items are drawn among n = 10^16 with the zeta of
/// 10^10, then hashed, and the hash is taken modulo the number of blocks. The top key gets 3.78 %.
///
/// The generator `ycsb:` of traces draws by the same formula, but not the same items for a seed: it takes YCSB's exponent as it is computed
/// there, 1 / (1 - 0.99), and the library's power. The tables of docs/read-cache-policies.md and docs/write-amplification.md were made so.
#[derive(Clone, Copy, Debug)]
pub(super) struct YcsbZipf {
    blocks: u64,
}

/// zeta(10^10, 0.99), as in YCSB's source (`ZETAN`).
const YCSB_ZETA: f64 = 26.469_028_201_783_02;
/// 0.5^0.99.
const YCSB_HALF_POWER: f64 = 0.503_477_775_028_359_4;
/// Number of items.
const YCSB_ITEMS: f64 = 1e16;
/// (1 - (2/n)^0.01) / (1 - zeta(2)/zeta(n)).
const YCSB_ETA: f64 = 0.321_625_756_354_784_13;

impl YcsbZipf {
    pub(super) fn new(blocks: u64) -> Self {
        Self { blocks: blocks.max(1) }
    }

    /// A block. The only division is YCSB's own modulo, kept so that the keys are the same.
    pub(super) fn block(self, random: &mut Random) -> u64 {
        let unit = (random.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64);
        ycsb64(Self::item(unit)) % self.blocks
    }

    fn item(unit: f64) -> u64 {
        let scaled = unit * YCSB_ZETA;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + YCSB_HALF_POWER {
            return 1;
        }
        // The 100th power by squaring in a fixed order, so that its bits are the same everywhere.
        let x = YCSB_ETA * unit - YCSB_ETA + 1.0;
        let x4 = (x * x) * (x * x);
        let x32 = {
            let x8 = x4 * x4;
            let x16 = x8 * x8;
            x16 * x16
        };
        (YCSB_ITEMS * (x32 * x32 * x32 * x4)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-square of draws against the exact law, with all ranks beyond the first `heads` in one class.
    fn chi_square(ranks: u64, theta: f64, heads: usize, draws: u32) -> f64 {
        let zipf = Zipf::new(ranks, theta);
        let mut random = Random::new(17);
        let mut counts = vec![0_u32; heads + 1];
        for _ in 0..draws {
            let rank = zipf.rank(&mut random);
            assert!(rank < ranks);
            counts[(rank as usize).min(heads)] += 1;
        }
        let sum: f64 = (1..=ranks).map(|k| (k as f64).powf(-theta)).sum();
        let head: Vec<f64> = (1..=heads).map(|k| (k as f64).powf(-theta) / sum).collect();
        let tail = 1.0 - head.iter().sum::<f64>();
        let expected = head.into_iter().chain([tail]).map(|p| p * f64::from(draws));
        expected.zip(counts).filter(|&(e, _)| e > 1e-6).map(|(e, n)| (f64::from(n) - e).powi(2) / e).sum()
    }

    #[test]
    fn frequencies_follow_the_exact_law() {
        for (ranks, theta, heads) in [
            (10, 0.3, 9),
            (1000, 0.5, 60),
            (1000, 0.99, 60),
            (1000, 1.0, 60),
            (100_000, 1.0, 60),
            (100_000, 0.999_999_9, 60),
            (100_000, 1.2, 60),
            (1000, 3.0, 7),
        ] {
            let chi = chi_square(ranks, theta, heads, 200_000);
            let limit = heads as f64 + 4.0 * (2.0 * heads as f64).sqrt();
            assert!(chi < limit, "{ranks} ranks, theta {theta}: chi-square {chi} above {limit}");
        }
    }

    #[test]
    fn a_trillion_ranks_need_no_table() {
        // theta 1 over n ranks: rank 0 has the share 1/H(n), with H(2^40) = 28.3030.
        let zipf = Zipf::new(1 << 40, 1.0);
        let mut random = Random::new(2);
        let draws: Vec<u64> = (0..200_000).map(|_| zipf.rank(&mut random)).collect();
        let share = draws.iter().filter(|&&rank| rank == 0).count() as f64 / 200_000.0;
        assert!((share - 1.0 / 28.303).abs() < 4.0 * (0.0353 * 0.9647_f64 / 200_000.0).sqrt(), "{share}");
        // Ranks below 2^20 have the share H(2^20)/H(2^40) = 14.4402/28.3030.
        let half = draws.iter().filter(|&&rank| rank < 1 << 20).count() as f64 / 200_000.0;
        assert!((half - 14.4402 / 28.303).abs() < 0.0045, "{half}");
    }

    #[test]
    fn extremes_stay_inside() {
        let mut random = Random::new(4);
        for ranks in [1, 2, 3, 1 << 50] {
            for theta in [1e-9, 0.5, 1.0, 1.0 + 1e-12, 2.0, 20.0, THETA_MAX] {
                let zipf = Zipf::new(ranks, theta);
                for _ in 0..2000 {
                    assert!(zipf.rank(&mut random) < ranks, "{ranks} {theta}");
                }
            }
        }
        let steep = Zipf::new(1 << 40, THETA_MAX);
        assert!((0..10_000).all(|_| steep.rank(&mut random) == 0));
    }

    #[test]
    fn ycsb_constants_are_what_they_say() {
        assert!((YCSB_HALF_POWER - 0.5_f64.powf(0.99)).abs() < 1e-15);
        let zeta2 = 1.0 + YCSB_HALF_POWER;
        let eta = (1.0 - (2.0 / YCSB_ITEMS).powf(0.01)) / (1.0 - zeta2 / YCSB_ZETA);
        assert!((YCSB_ETA - eta).abs() < 1e-14, "{eta}");
    }

    #[test]
    fn ycsb_top_keys_have_their_shares() {
        let blocks = 1_000_003;
        let ycsb = YcsbZipf::new(blocks);
        let mut random = Random::new(11);
        let draws = 400_000;
        let (mut first, mut second) = (0_u32, 0_u32);
        let keys = (ycsb64(0) % blocks, ycsb64(1) % blocks);
        for _ in 0..draws {
            let block = ycsb.block(&mut random);
            first += u32::from(block == keys.0);
            second += u32::from(block == keys.1);
        }
        let share = |count: u32| f64::from(count) / f64::from(draws);
        // The standard deviation is 0.03 percentage points.
        assert!((share(first) - 0.0378).abs() < 0.0012, "{}", share(first));
        assert!((share(second) - YCSB_HALF_POWER / YCSB_ZETA).abs() < 0.0009, "{}", share(second));
    }
}
