//! How long the blocks of a group live: deaths and time under observation by age, and the share that has died by each
//! age.

use super::ages::{Ages, BINS};
use super::codec::{Reader, count};

/// Weight of the history of a whole class beside that of one of its groups, in blocks observed in each bin.
const PRIOR_BLOCKS: f32 = 4.0;
/// Fewest observations in a bin from which anything is known about it, in blocks.
const KNOWN_BLOCKS: f32 = 0.5;

/// Counts of observations, by age.
#[derive(Clone, Debug)]
pub struct Lives {
    deaths: [f32; BINS],
    /// Observed block-time in each bin divided by its width: the blocks that passed through the bin, including those
    /// that died there.
    passed: [f32; BINS],
}

impl Default for Lives {
    fn default() -> Self {
        Self { deaths: [0.0; BINS], passed: [0.0; BINS] }
    }
}

/// A point of a curve of lifetimes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// The age, in blocks written.
    pub age_blocks: u64,
    /// The share that has died by this age, from 0 to 1.
    pub dead: f64,
    /// Block-time that an average block has used by this age, in blocks.
    pub taken: f64,
}

impl Lives {
    /// A block was observed from one age to another.
    pub fn observed(&mut self, ages: Ages, from_blocks: u64, to_blocks: u64) {
        if to_blocks <= from_blocks {
            return;
        }
        for bin in ages.bin(from_blocks)..=ages.bin(to_blocks) {
            let begin = ages.begin(bin).max(from_blocks);
            let end = ages.begin(bin + 1).min(to_blocks);
            self.passed[bin] += end.saturating_sub(begin) as f32 / ages.width(bin) as f32;
        }
    }

    /// A block died at this age.
    pub fn died(&mut self, ages: Ages, age_blocks: u64) {
        let bin = ages.bin(age_blocks);
        self.deaths[bin] += 1.0;
        // The block would have been observed for the rest of the bin had it lived: so each block that reached the bin
        // counts as one.
        self.passed[bin] += ages.begin(bin + 1).saturating_sub(age_blocks) as f32 / ages.width(bin) as f32;
    }

    /// Adds the observations of another group.
    pub fn add(&mut self, other: &Self) {
        self.deaths.iter_mut().zip(&other.deaths).for_each(|(sum, count)| *sum += count);
        self.passed.iter_mut().zip(&other.passed).for_each(|(sum, count)| *sum += count);
    }

    /// Multiplies all counts by `share`, so that old observations count less.
    pub fn fade(&mut self, share: f32) {
        self.deaths.iter_mut().chain(&mut self.passed).for_each(|count| *count *= share);
    }

    /// Number of observed deaths.
    pub fn deaths(&self) -> f64 {
        self.deaths.iter().map(|count| f64::from(*count)).sum()
    }

    /// Appends the counts: a mask of the bins that have any, and their counts.
    pub fn save(&self, out: &mut Vec<u8>) {
        let mut mask = [0u8; BINS / 8];
        let has_any = |bin: &usize| self.deaths[*bin] > 0.0 || self.passed[*bin] > 0.0;
        (0..BINS).filter(has_any).for_each(|bin| mask[bin / 8] |= 1 << (bin % 8));
        out.extend_from_slice(&mask);
        for bin in (0..BINS).filter(has_any) {
            out.extend_from_slice(&count(self.deaths[bin]));
            out.extend_from_slice(&count(self.passed[bin]));
        }
    }

    /// Reads what [`Self::save`] wrote; `None` if it is invalid.
    pub fn restore(r: &mut Reader<'_>) -> Option<Self> {
        let mut lives = Self::default();
        let mask: [u8; BINS / 8] = r.bytes()?;
        for bin in (0..BINS).filter(|bin| mask[bin / 8] >> (bin % 8) & 1 == 1) {
            (lives.deaths[bin], lives.passed[bin]) = (r.count()?, r.count()?);
        }
        Some(lives)
    }

    /// The share of the blocks reaching a bin which dies in it, drawn towards that of `prior`; `None` if neither was
    /// observed.
    fn share_dying(&self, prior: &Self, bin: usize) -> Option<f64> {
        let of = |lives: &Self| {
            let came = lives.passed[bin];
            (came >= KNOWN_BLOCKS).then(|| (came, lives.deaths[bin].min(came)))
        };
        let (came, died) = match (of(self), of(prior)) {
            (None, None) => return None,
            (Some(own), None) => own,
            (own, Some((all_came, all_died))) => {
                let (came, died) = own.unwrap_or_default();
                (came + PRIOR_BLOCKS, died + PRIOR_BLOCKS * all_died / all_came)
            }
        };
        Some(f64::from(died / came))
    }

    /// Calls `each` with the points of the curve, from age 0 to the last age about which anything is known.
    pub fn curve(&self, prior: &Self, ages: Ages, mut each: impl FnMut(Point)) {
        let mut point = Point::default();
        each(point);
        for bin in 0..BINS - 1 {
            let Some(share) = self.share_dying(prior, bin) else { return };
            let alive = 1.0 - point.dead;
            let left = alive * (1.0 - share);
            point = Point {
                age_blocks: ages.begin(bin + 1),
                dead: 1.0 - left,
                taken: point.taken + (alive + left) / 2.0 * ages.width(bin) as f64,
            };
            each(point);
        }
    }

    /// The age by which half of the blocks have died; `None` if fewer die by the last known age.
    pub fn median_blocks(&self, prior: &Self, ages: Ages) -> Option<u64> {
        let mut median = None;
        self.curve(prior, ages, |point| {
            if point.dead >= 0.5 && median.is_none() {
                median = Some(point.age_blocks);
            }
        });
        median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(lives: &Lives, ages: Ages) -> Vec<Point> {
        let mut points = Vec::new();
        lives.curve(&Lives::default(), ages, |point| points.push(point));
        points
    }

    #[test]
    fn the_curve_is_that_of_the_lives_observed() {
        let ages = Ages::of_tier(1 << 20);
        let mut lives = Lives::default();
        // A quarter lives for 1,000,000 blocks, the rest for 100,000.
        for i in 0..1000 {
            let life = if i % 4 == 0 { 1_000_000 } else { 100_000 };
            lives.observed(ages, 0, life);
            lives.died(ages, life);
        }
        let dead_by = |age| points(&lives, ages).iter().rfind(|point| point.age_blocks <= age).unwrap().dead;
        assert!(dead_by(80_000) < 0.001 && (dead_by(120_000) - 0.75).abs() < 0.01, "{}", dead_by(120_000));
        assert!((dead_by(800_000) - 0.75).abs() < 0.01 && dead_by(1_200_000) > 0.98);
        let taken = points(&lives, ages).last().unwrap().taken;
        assert!((taken / 325_000.0 - 1.0).abs() < 0.08, "the mean life: {taken}");
        assert_eq!(lives.median_blocks(&Lives::default(), ages), Some(ages.begin(ages.bin(100_000) + 1)));
    }

    #[test]
    fn blocks_that_still_live_count_as_far_as_they_were_seen() {
        let ages = Ages::of_tier(1 << 10);
        let (mut censored, mut died) = (Lives::default(), Lives::default());
        for lives in [&mut censored, &mut died] {
            for _ in 0..100 {
                lives.observed(ages, 0, 500);
                lives.died(ages, 500);
            }
        }
        for _ in 0..300 {
            censored.observed(ages, 0, 300);
            censored.observed(ages, 300, 450);
        }
        let last = |lives: &Lives| points(lives, ages).last().unwrap().dead;
        assert!(last(&died) > 0.99);
        assert!(last(&censored) > 0.99, "who was seen alive up to 450 says nothing of 500: {}", last(&censored));
        assert!(points(&censored, ages).iter().all(|point| point.age_blocks > 500 || point.dead < 0.01));
    }

    #[test]
    fn a_group_of_which_little_is_known_lives_as_its_class_does() {
        let ages = Ages::of_tier(1 << 10);
        let (mut few, mut class) = (Lives::default(), Lives::default());
        few.observed(ages, 0, 900);
        few.died(ages, 900);
        for _ in 0..1000 {
            class.observed(ages, 0, 100);
            class.died(ages, 100);
        }
        let mut by_200 = 0.0;
        few.curve(&class, ages, |point| by_200 = if point.age_blocks <= 200 { point.dead } else { by_200 });
        assert!((0.7..0.9).contains(&by_200), "{by_200}");
        few.fade(0.0);
        assert_eq!(few.deaths(), 0.0);
    }
}
