//! The error of a sample, and the correction for its number of accesses.
//!
//! Followed blocks are divided into groups, each a smaller sample of the same kind ("random groups", Wolter, "Introduction to Variance
//! Estimation", chapter 2): the differences between groups show how much the whole sample would differ if other blocks were followed. They
//! also show what to do if the sample has more or fewer accesses than its share. If groups with more accesses have as many more hits, then
//! a few blocks that are accessed all the time cause the difference, and all of it are hits (SHARDS-adj, Waldspurger et al., FAST'15, 3.3).
//! Otherwise only a part is (a regression estimate, Cochran, "Sampling Techniques", chapter 7). Hot blocks do not belong to groups: they
//! are always followed, and only stand for themselves.

use super::histogram::Histogram;

/// Number of groups.
pub const GROUPS: usize = 32;
/// Student's t for two degrees of freedom less than there are groups, 95 %, two-sided.
const T_95: f64 = 2.042;
/// Standard deviations within which a difference can come from blocks like the followed ones.
const LIKE: f64 = 3.0;

#[derive(Clone, Debug, Default)]
struct Group {
    /// Distances of accesses to blocks that were accessed before.
    again: Histogram,
    /// Weighted number of all accesses.
    accesses: f64,
}

/// The groups; empty until blocks are sampled.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    list: Vec<Group>,
    /// Number of blocks that each followed one stands for, at present.
    weight: u64,
}

/// The correction of the counted hits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Correction {
    /// Hits among the accesses that the sample lacks; negative if it has too many accesses.
    pub hits: f64,
    /// Half of the 95 % interval of all hits.
    pub error: f64,
}

impl Groups {
    fn at(&mut self, group: usize) -> &mut Group {
        if self.list.is_empty() {
            self.list.resize_with(GROUPS, Group::default);
        }
        &mut self.list[group % GROUPS]
    }

    /// Counts an access of a block in this group that stands for `weight`.
    pub fn access(&mut self, group: usize, weight: u64) {
        self.weight = weight;
        self.at(group).accesses += weight as f64;
    }

    /// Counts the distance of an access to a block that was accessed before.
    pub fn again(&mut self, group: usize, distance: u64, weight: u64) {
        self.at(group).again.add_weighted(distance, weight as f64);
    }

    /// The correction of the hits below `distance`, if there were `missing` more accesses than the sample stands for. `below` returns the
    /// hits below any distance, including those of blocks outside the sample.
    pub fn correction(&self, distance: u64, missing: f64, below: impl Fn(u64) -> f64) -> Correction {
        if self.list.is_empty() {
            // Nothing is known about such accesses.
            return Correction { hits: missing, error: missing.abs() };
        }
        let count = GROUPS as f64;
        let hits: Vec<f64> = self.list.iter().map(|group| group.again.below(distance)).collect();
        let mean_hits = hits.iter().sum::<f64>() / count;
        let mean = self.list.iter().map(|group| group.accesses).sum::<f64>() / count;
        let (mut squares, mut products) = (0.0, 0.0);
        for (group, hits) in self.list.iter().zip(&hits) {
            squares += (group.accesses - mean).powi(2);
            products += (group.accesses - mean) * (hits - mean_hits);
        }
        // Additional hits for each additional access: between none and one.
        let slope = if squares > 0.0 { (products / squares).clamp(0.0, 1.0) } else { 1.0 };
        let spread = |squares: f64| (squares * count / (count - 1.0)).sqrt();
        let like = LIKE * spread(squares);
        let explained = missing.clamp(-like, like);
        // The part that blocks like the followed ones cannot explain comes from blocks that are not followed and are accessed all the time.
        let beyond = missing - explained;
        let left: f64 = self
            .list
            .iter()
            .zip(&hits)
            .map(|(group, hits)| (hits - mean_hits - slope * (group.accesses - mean)).powi(2))
            .sum();
        // Distances are estimated from the sample too.
        let off = ((distance as f64) * self.weight.saturating_sub(1) as f64).sqrt();
        let by_distance =
            (below((distance as f64 + off) as u64) - below((distance as f64 - off).max(0.0) as u64)) / 2.0;
        // These errors add up to one error as far as the same blocks lie between accesses each time. As far as the blocks differ, there are
        // as many independent errors as stretches of different blocks, and these even each other out.
        let of_sample = |distance: u64| self.list.iter().map(|group| group.again.below(distance)).sum::<f64>();
        let (near, far) = (of_sample(distance / 2), of_sample(distance.saturating_mul(2)));
        let same = ((far - near) / (mean * count - near).max(1.0)).clamp(0.0, 1.0);
        let blocks = mean * count - self.list.iter().map(|group| group.again.count()).sum::<f64>();
        let stretches = (blocks / distance as f64).max(1.0);
        let by_distance = by_distance * (same + (1.0 - same) / stretches).sqrt();
        let by_groups = T_95 * (left * count / (count - 1.0) + by_distance * by_distance).sqrt() + beyond.abs();
        // With less than one hit per group the result may be chance, so the interval is that of so many rare events.
        let (all_hits, all_accesses) = (mean_hits * count, mean * count);
        let seen = all_hits.min(all_accesses - all_hits).max(0.0) / self.weight.max(1) as f64;
        let rare = if seen < count { self.weight as f64 * (1.92 + 1.96 * (seen + 0.96).sqrt()) } else { 0.0 };
        Correction { hits: slope * explained + beyond, error: by_groups.max(rare) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups with `accesses(group)` = (accesses, hits) each.
    fn groups(accesses: impl Fn(usize) -> (u64, u64)) -> Groups {
        let mut groups = Groups::default();
        for group in 0..GROUPS {
            let (all, hits) = accesses(group);
            (0..all).for_each(|_| groups.access(group, 4));
            (0..hits).for_each(|_| groups.again(group, 0, 4));
        }
        groups
    }

    #[test]
    fn what_was_never_seen_may_be_all_the_same() {
        let never = groups(|_| (100, 0));
        // The Poisson interval for no event ends at 3.69.
        let found = never.correction(1000, 0.0, |_| 0.0);
        assert!((3.5..4.0).contains(&(found.error / 4.0)), "{found:?}");
        let always = groups(|_| (100, 100));
        assert_eq!(always.correction(1000, 0.0, |_| 12_800.0).error, found.error);
    }

    #[test]
    fn the_sample_itself_says_what_its_accesses_mean() {
        // Some groups have a block that is accessed all the time: each additional access is a hit.
        let hot = groups(|group| (100 + 50 * (group as u64 % 3), 20 + 50 * (group as u64 % 3)));
        let found = hot.correction(1000, 400.0, |_| 9600.0);
        assert!((found.hits - 400.0).abs() < 1e-6 && found.error < 50.0, "{found:?}");
        // All blocks are accessed alike: a fifth of the additional accesses are hits.
        let alike = groups(|group| (100 + 10 * (group as u64 % 3), 20 + 2 * (group as u64 % 3)));
        let found = alike.correction(1000, 400.0, |_| 2800.0);
        assert!((found.hits - 80.0).abs() < 1e-6, "{found:?}");
        // More than the groups' differences can explain: a block that is accessed all the time and is not followed.
        let like = LIKE
            * (32.0_f64 / 31.0 * (0..32).map(|at| 40.0 * ((at % 3) as f64 - 31.0 / 32.0)).map(|x| x * x).sum::<f64>())
                .sqrt();
        let found = alike.correction(1000, 100_000.0, |_| 2800.0);
        assert!((found.hits - (like * 0.2 + 100_000.0 - like)).abs() < 1.0, "{found:?}");
        assert!(found.error > 100_000.0 - like - 1.0);
        assert_eq!(Groups::default().correction(1000, 5.0, |_| 0.0), Correction { hits: 5.0, error: 5.0 });
    }
}
