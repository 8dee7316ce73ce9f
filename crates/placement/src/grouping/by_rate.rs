//! Ours.

use super::{Collected, Grouping, Move, NOTES, Placed, Write};

const MAX_GROUPS: usize = 8;

/// Groups by the rate at which a block is overwritten, as far as its history says.
#[derive(Clone, Debug)]
pub struct ByRate {
    /// bands
    band_blocks: f64,
    spare: f64,
    /// upper interval of level 0
    base: f64,
    /// weight of what was seen
    pub weight: f64,
    /// bands of spare space that an open band is counted as
    pub open_cost: f64,
    writes: [f64; NOTES as usize],
    moves: [f64; NOTES as usize],
    group_of: [u8; NOTES as usize],
    since: u64,
    valid: f64,
    seed: u64,
}

impl ByRate {
    /// new
    #[must_use]
    pub fn new(band_blocks: u64, spare: f64) -> Self {
        let v = |name: &str, d: f64| std::env::var(name).ok().and_then(|t| t.parse().ok()).unwrap_or(d);
        let (weight, open_cost) = (v("W", 0.3), v("C", 0.25));
        Self {
            band_blocks: band_blocks as f64,
            spare,
            base: 256.0,
            weight,
            open_cost,
            writes: [0.0; NOTES as usize],
            moves: [0.0; NOTES as usize],
            group_of: [0; NOTES as usize],
            since: 0,
            valid: 0.0,
            seed: 1,
        }
    }
    fn chance(&mut self) -> f64 {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 40) as f64 / (1u64 << 24) as f64
    }
    fn interval(&self, note: u8) -> f64 {
        self.base * 2f64.powi(i32::from(note))
    }
    fn note(&mut self, interval: f64) -> u8 {
        let level = (interval / self.base).log2().clamp(0.0, f64::from(NOTES - 1));
        let low = level.floor();
        let up = self.chance() < level - low;
        (low as u8 + u8::from(up)).min(NOTES - 1)
    }
    fn regroup(&mut self) {
        const L: usize = NOTES as usize;
        let total: f64 = self.writes.iter().sum();
        let rates: Vec<f64> = self.writes.iter().map(|w| w / total).collect();
        let mut held: Vec<f64> = rates.iter().zip(0..).map(|(r, n)| r * self.interval(n)).collect();
        let sum: f64 = held.iter().sum();
        // Blocks that were not overwritten yet count as the coldest.
        if sum < self.valid { held[L - 1] += self.valid - sum } else { for h in &mut held { *h *= self.valid / sum } }
        let spare = self.spare / (1.0 - self.spare) * self.valid;
        // best[g][l]: least sum of roots of levels below l in g groups.
        let mut best = vec![[f64::INFINITY; L + 1]; MAX_GROUPS + 1];
        let mut cut = vec![[0usize; L + 1]; MAX_GROUPS + 1];
        best[0][0] = 0.0;
        for g in 1..=MAX_GROUPS {
            for l in 1..=L {
                let (mut r, mut h) = (0.0, 0.0);
                for from in (0..l).rev() {
                    r += rates[from];
                    h += held[from];
                    let cost = best[g - 1][from] + (r * h).sqrt();
                    if cost < best[g][l] { best[g][l] = cost; cut[g][l] = from; }
                }
            }
        }
        let cost = |g: usize| {
            let left = spare - self.open_cost * g as f64 * self.band_blocks;
            if left <= 0.0 { f64::INFINITY } else { best[g][L] * best[g][L] / left }
        };
        let mut groups = 1;
        for g in 2..=MAX_GROUPS { if cost(g) < cost(groups) { groups = g } }
        let mut l = L;
        for g in (1..=groups).rev() {
            let from = cut[g][l];
            for level in from..l { self.group_of[level] = (g - 1) as u8 }
            l = from;
        }
        if std::env::var("SHOW").is_ok() { println!("    groups {:?} valid {} rates {:.3?}", self.group_of, self.valid, rates); }
        for w in &mut self.writes { *w *= 0.5 }
    }
}

impl Grouping for ByRate {
    fn groups(&self) -> u8 {
        MAX_GROUPS as u8
    }

    fn of_write(&mut self, write: &Write) -> Placed {
        self.valid = write.valid_blocks as f64 + 1.0;
        self.since += 1;
        if self.since as f64 >= (self.valid / 4.0).max(self.band_blocks) {
            self.since = 0;
            self.regroup();
        }
        let note = match write.over {
            None => NOTES - 1,
            Some(version) if version.note == NOTES - 1 => self.note(version.age as f64),
            Some(version) => {
                let interval = (1.0 - self.weight) * self.interval(version.note) + self.weight * version.age as f64;
                self.note(interval)
            }
        };
        self.writes[usize::from(note)] += 1.0;
        Placed { group: self.group_of[usize::from(note)], note }
    }

    fn of_move(&mut self, moved: &Move) -> Placed {
        let version = moved.version;
        let before = self.interval(version.note);
        let age = version.age as f64;
        let note = if age <= before {
            version.note
        } else {
            let interval = (1.0 - self.weight) * before + self.weight * age;
            self.note(interval)
        };
        self.moves[usize::from(note)] += 1.0;
        Placed { group: self.group_of[usize::from(note)], note }
    }

    fn collected(&mut self, _band: &Collected) {}
}
