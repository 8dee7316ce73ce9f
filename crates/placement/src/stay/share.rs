//! Shares a tier among groups by benefit: decides how long the blocks of each group stay, so that most writes are
//! saved.
//!
//! A group whose blocks may stay up to an age occupies a certain number of blocks of the tier, on average, and saves
//! the writes of the blocks that die before. The concave hull of this curve is cut into segments for each group, and
//! the segments that save most for each block of the tier are taken first, until the tier is full: this is optimal
//! (Lagrange; Everett, 1963). A segment that fits only in part applies to a part of its group, which stays up to the
//! end of the segment; the others leave at its beginning. So if data is written cyclically over more than the tier, a
//! part of it is kept, where an order by age would keep nothing.

use super::lives::Point;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// How long the blocks of a group stay on the fast tier.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Age up to which all blocks stay, in blocks written.
    pub short_blocks: u64,
    /// Age up to which a part of the blocks stays, in blocks written.
    pub long_blocks: u64,
    /// This part, from 0 to 1.
    pub part_long: f64,
    /// The share of the blocks with the longest stay that die during it, from 0 to 1.
    pub saved_long: f64,
}

/// A segment of a group's hull.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// The group.
    pub group: u16,
    /// Writes saved for each block of the tier and block written.
    pub(super) gain: f64,
    /// Blocks of the tier that the segment occupies.
    pub(super) takes_blocks: f64,
    pub(super) from_age: u64,
    pub(super) to_age: u64,
    /// Share of the group's blocks that have died by its end.
    pub(super) dead: f64,
}

/// The least cost of staging, as a share of a write saved: journal, map, and a read for destaging.
const PRICE_MIN: f64 = 0.02;

/// Appends the segments of a group to `segments`. `rate` is the group's part of all writes. `price` is the cost of
/// staging a block, as a share of a write saved. `hull` is scratch space.
pub fn cut(group: u16, rate: f64, price: f64, curve: &[Point], hull: &mut Vec<Point>, segments: &mut Vec<Segment>) {
    let price = price.max(PRICE_MIN);
    let saved = |point: &Point| if point.age_blocks == 0 { 0.0 } else { point.dead - price };
    hull.clear();
    for &point in curve {
        while let [.., a, b] = hull[..] {
            // B lies below the line from A to the new point.
            let is_below =
                (saved(&b) - saved(&a)) * (point.taken - a.taken) <= (saved(&point) - saved(&a)) * (b.taken - a.taken);
            if !is_below {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    for ends in hull.windows(2) {
        let (saves, takes) = (saved(&ends[1]) - saved(&ends[0]), ends[1].taken - ends[0].taken);
        if saves > 0.0 && takes > 0.0 {
            let (from_age, to_age) = (ends[0].age_blocks, ends[1].age_blocks);
            let (gain, takes_blocks, dead) = (saves / takes, takes * rate, ends[1].dead);
            segments.push(Segment { group, gain, takes_blocks, from_age, to_age, dead });
        }
    }
}

/// The best remaining segment of a group, and the end of the group's segments.
#[derive(Clone, Copy, Debug)]
struct Head {
    gain: f64,
    group: u16,
    at: usize,
    end: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.group.cmp(&self.group))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

/// Takes segments, the best first, until the tier is full. The segments of one group are in order already, since its
/// hull is concave.
#[derive(Clone, Debug, Default)]
pub struct Fill {
    heads: BinaryHeap<Head>,
    /// Blocks of the tier that are not assigned yet.
    pub left: f64,
    /// Writes that one more block of the tier would save for each block written: 0 while blocks are left.
    pub gain_of_more: f64,
}

impl Fill {
    /// Adds a group's segments: those from index `first` on.
    pub fn add(&mut self, first: usize, segments: &[Segment]) {
        if let Some(&Segment { gain, group, .. }) = segments.get(first) {
            self.heads.push(Head { gain, group, at: first, end: segments.len() });
        }
    }

    /// Takes at most `most` segments; returns true if there may be more. A group that gets no segment keeps its
    /// share.
    pub fn take(&mut self, most: usize, segments: &[Segment], mut give: impl FnMut(u16, Share)) -> bool {
        for _ in 0..most {
            let Some(head) = self.heads.pop() else { return false };
            let Segment { group, takes_blocks, from_age, to_age, dead: saved_long, .. } = segments[head.at];
            if takes_blocks > self.left {
                let part_long = (self.left / takes_blocks).max(0.0);
                give(group, Share { short_blocks: from_age, long_blocks: to_age, part_long, saved_long });
                (self.left, self.gain_of_more) = (0.0, head.gain);
                return false;
            }
            give(group, Share { short_blocks: to_age, long_blocks: to_age, part_long: 1.0, saved_long });
            self.left -= takes_blocks;
            if let Some(next) = segments[..head.end].get(head.at + 1) {
                self.heads.push(Head { gain: next.gain, at: head.at + 1, ..head });
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The curve of a group whose blocks all die at one age.
    fn all_at(age: u64) -> Vec<Point> {
        let alive = (0..age).step_by(10).map(|at| Point { age_blocks: at, dead: 0.0, taken: at as f64 });
        alive.chain([Point { age_blocks: age, dead: 1.0, taken: age as f64 }]).collect()
    }

    fn shared(room: f64, price: f64, groups: &[(f64, Vec<Point>)]) -> (BTreeMap<u16, Share>, f64) {
        let (mut segments, mut hull, mut shares) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut fill = Fill { left: room, ..Fill::default() };
        for (group, (rate, curve)) in (0..).zip(groups) {
            let first = segments.len();
            cut(group, *rate, price, curve, &mut hull, &mut segments);
            fill.add(first, &segments);
        }
        while fill.take(3, &segments, |group, share| {
            shares.insert(group, share);
        }) {}
        (shares, fill.left)
    }

    #[test]
    fn what_dies_soon_comes_first_and_of_the_next_a_part_stays() {
        let (shares, left) = shared(600.0, 0.0, &[(0.5, all_at(1000)), (0.25, all_at(100)), (0.25, all_at(9000))]);
        assert_eq!(shares[&1], Share { short_blocks: 100, long_blocks: 100, part_long: 1.0, saved_long: 1.0 });
        // The first group takes 25 blocks; 575 are left for the 500 of the next, and 75 for the 2,250 of the last.
        assert_eq!(shares[&0], Share { short_blocks: 1000, long_blocks: 1000, part_long: 1.0, saved_long: 1.0 });
        let last = shares[&2];
        assert_eq!((last.short_blocks, last.long_blocks), (0, 9000));
        assert!((last.part_long - 75.0 / 2250.0).abs() < 1e-9);
        assert_eq!(left, 0.0);
    }

    #[test]
    fn what_saves_less_than_staging_costs_does_not_stay() {
        let mut mixed = all_at(100);
        mixed.last_mut().unwrap().dead = 0.3;
        let groups = [(0.5, mixed), (0.5, all_at(500))];
        let (shares, left) = shared(1000.0, 0.0, &groups);
        assert_eq!(shares.len(), 2);
        assert_eq!(left, 1000.0 - 50.0 - 250.0);
        let (shares, _) = shared(1000.0, 0.4, &groups);
        assert_eq!(shares.keys().copied().collect::<Vec<_>>(), [1]);
    }

    proptest! {
        /// No other way to share the tier out saves more: compares with all choices of an age for each of two groups.
        #[test]
        fn no_choice_of_ages_saves_more(
            steps in prop::collection::vec((1u64..50, 0.0f64..0.5, 1u64..50, 0.0f64..0.5), 1..8),
            rate in 0.05f64..0.95,
            room in 1.0f64..100.0,
        ) {
            let mut curves = [vec![Point::default()], vec![Point::default()]];
            for (age_0, share_0, age_1, share_1) in steps {
                for (curve, age, share) in [(0, age_0, share_0), (1, age_1, share_1)] {
                    let last = *curves[curve].last().unwrap();
                    let dead = last.dead + (1.0 - last.dead) * share;
                    let taken = last.taken + (2.0 - last.dead - dead) / 2.0 * age as f64;
                    curves[curve].push(Point { age_blocks: last.age_blocks + age, dead, taken });
                }
            }
            let [first, second] = curves;
            let groups = [(rate, first), (1.0 - rate, second)];
            let (shares, _) = shared(room, 0.0, &groups);
            let net = |point: &Point| if point.age_blocks == 0 { 0.0 } else { point.dead - PRICE_MIN };
            let at = |curve: &[Point], age| *curve.iter().find(|point| point.age_blocks == age).unwrap();
            let (mut takes, mut saves) = (0.0, 0.0);
            for (group, share) in &shares {
                let (rate, curve) = &groups[usize::from(*group)];
                let (short, long) = (at(curve, share.short_blocks), at(curve, share.long_blocks));
                let mixed = |of: fn(&Point) -> f64| of(&short) + (of(&long) - of(&short)) * share.part_long;
                takes += rate * mixed(|point| point.taken);
                saves += rate * mixed(net);
            }
            prop_assert!(takes <= room + 1e-6);
            for a in &groups[0].1 {
                for b in &groups[1].1 {
                    if groups[0].0 * a.taken + groups[1].0 * b.taken <= room {
                        prop_assert!(groups[0].0 * net(a) + groups[1].0 * net(b) <= saves + 1e-6);
                    }
                }
            }
        }
    }
}
