//! Chooses keys as YCSB does, with its quirks, because published results depend on them.
//!
//! From YCSB's sources (`core/src/main/java/site/ycsb`): `generator/ZipfianGenerator.java`,
//! `generator/ScrambledZipfianGenerator.java`, `generator/SkewedLatestGenerator.java`, `Utils.java` (`fnvhash64`) and
//! `workloads/CoreWorkload.java`.

use super::parts::fraction;
use forebay_block::Random;
use forebay_block::hash::ycsb64;

/// The skew.
const THETA: f64 = 0.99;
/// Number of ranks that the scrambled generator draws from (`ITEM_COUNT`).
const SCRAMBLED_RANKS: u64 = 10_000_000_000_000_000;
/// The value that it uses as their zeta (`ZETAN`); it is that of 10^10 ranks.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;
/// Terms of zeta that are summed one by one.
const ZETA_TERMS: u64 = 10_000;

/// Ranks by Zipf's law, after Gray and others, "Quickly Generating Billion-Record Synthetic Databases", 1994.
#[derive(Clone, Debug)]
struct Zipfian {
    /// Number of ranks at the beginning: `eta` is computed from it even when ranks are added (YCSB's `items`).
    items: u64,
    /// Number of ranks that `zeta` includes.
    counted: u64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    fn new(items: u64, zeta: f64) -> Self {
        let mut zipfian = Self { items, counted: items, zeta, eta: 0.0 };
        zipfian.eta = zipfian.eta();
        zipfian
    }

    fn eta(&self) -> f64 {
        (1.0 - (2.0 / self.items as f64).powf(1.0 - THETA)) / (1.0 - zeta(2) / self.zeta)
    }

    /// The next rank, from 0.
    fn next(&self, random: &mut Random) -> u64 {
        let u = fraction(random);
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        (self.counted as f64 * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - THETA))) as u64
    }

    /// Adds ranks up to `items`.
    fn grow(&mut self, items: u64) {
        if items > self.counted {
            self.zeta += (self.counted + 1..=items).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
            self.counted = items;
            self.eta = self.eta();
        }
    }
}

/// The sum of `rank^-THETA` over `ranks` ranks: term by term at first, then by the Euler-Maclaurin formula, whose error is below 10^-12
/// here.
fn zeta(ranks: u64) -> f64 {
    let summed = ranks.min(ZETA_TERMS);
    let head: f64 = (1..=summed).map(|rank| (rank as f64).powf(-THETA)).sum();
    if ranks == summed {
        return head;
    }
    let (a, b) = (summed as f64, ranks as f64);
    let integral = (b.powf(1.0 - THETA) - a.powf(1.0 - THETA)) / (1.0 - THETA);
    let ends = (b.powf(-THETA) - a.powf(-THETA)) / 2.0;
    let slopes = THETA * (a.powf(-THETA - 1.0) - b.powf(-THETA - 1.0)) / 12.0;
    head + integral + ends + slopes
}

/// `requestdistribution=zipfian`: popular keys are scattered over all keys.
///
/// Ranks come from 10^16, whatever the number of keys, and are hashed onto the keys. So every key also gets a part of a very long tail: the
/// skew is less than Zipf's over the keys alone, and the first key has 3.78 % for any number of keys.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    ranks: Zipfian,
    keys: u64,
}

impl ScrambledZipfian {
    /// Chooses among `keys` keys (at least one).
    #[must_use]
    pub fn new(keys: u64) -> Self {
        Self { ranks: Zipfian::new(SCRAMBLED_RANKS, SCRAMBLED_ZETA), keys: keys.max(1) }
    }

    /// The next key, from 0.
    pub fn next(&self, random: &mut Random) -> u64 {
        self.key(self.ranks.next(random))
    }

    /// The key of a rank; that of rank 0 is the most popular.
    #[must_use]
    pub fn key(&self, rank: u64) -> u64 {
        ycsb64(rank) % self.keys
    }
}

/// `requestdistribution=latest`: the newest keys are the most popular.
#[derive(Clone, Debug)]
pub struct Latest {
    ranks: Zipfian,
}

impl Latest {
    /// Chooses among the keys from 0 to `last`.
    #[must_use]
    pub fn new(last: u64) -> Self {
        // With two ranks, the formula has no third one.
        let items = last.max(3);
        Self { ranks: Zipfian::new(items, zeta(items)) }
    }

    /// The next key, with `last` as the newest one.
    pub fn next(&mut self, random: &mut Random, last: u64) -> u64 {
        self.ranks.grow(last);
        last.saturating_sub(self.ranks.next(random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeta_is_the_sum() {
        let sum: f64 = (1..=200_000u64).map(|rank| (rank as f64).powf(-THETA)).sum();
        assert!((zeta(200_000) - sum).abs() < 1e-9, "{} {sum}", zeta(200_000));
        // The value that YCSB uses for 10^16 ranks is the zeta of 10^10.
        assert!((zeta(10_000_000_000) - SCRAMBLED_ZETA).abs() < 1e-5, "{}", zeta(10_000_000_000));
    }

    #[test]
    fn constants_are_those_of_ycsb() {
        let ranks = ScrambledZipfian::new(1000).ranks;
        assert!((ranks.eta - 0.32163).abs() < 5e-6, "{}", ranks.eta);
    }

    #[test]
    fn the_first_key_has_its_share() {
        const DRAWS: u64 = 1_000_000;
        for keys in [1000, 1_000_001] {
            let zipfian = ScrambledZipfian::new(keys);
            let mut random = Random::new(3);
            let top = zipfian.key(0);
            let hits = (0..DRAWS).filter(|_| zipfian.next(&mut random) == top).count() as f64;
            // 1 / 26.469, plus what the tail adds: (1 - 0.0378) / keys. Four standard deviations are 0.08 points.
            let expected = 1.0 / SCRAMBLED_ZETA + 0.96 / keys as f64;
            assert!((hits / DRAWS as f64 - expected).abs() < 0.0008, "{keys}: {hits}, expected {expected}");
        }
        assert!((1.0 / SCRAMBLED_ZETA - 0.0378).abs() < 0.00005);
    }

    #[test]
    fn the_latest_key_is_the_most_popular_and_keys_exist() {
        let mut latest = Latest::new(999);
        let mut random = Random::new(5);
        let mut newest = 0;
        for last in 999..20_999 {
            let key = latest.next(&mut random, last);
            assert!(key <= last);
            newest += u64::from(key == last);
        }
        // 1 / zeta(n) is 0.13 for 1,000 keys and 0.10 for 20,000.
        assert!((1800..2800).contains(&newest), "{newest}");
    }
}
