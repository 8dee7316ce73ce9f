//! A chain of groups by age, whose sizes come from a model of how long blocks live: after MiDAS (Oh and others,
//! "Minimizing Write Amplification in Log-Structured Systems through Adaptive Group Number and Size Configuration",
//! FAST 2024). Blocks that are overwritten soon go to a group of their own, all others to the first group of the
//! chain; a block that outlives a group is moved to the next, and in the last group it is moved within the group.
//! Unlike theirs, this model uses lifetimes on a grid of powers of two.

use super::{Grouping, Move, Placed, Write};

/// The group of blocks that are overwritten soon.
const HOT: u8 = 0;
const GROUPS: u8 = 6;
/// Steps of the grid of lifetimes.
const LIVES: usize = 128;
/// Steps of the grid in an octave.
const STEPS: f64 = 4.0;

/// At most six groups: the hot one, then by age.
#[derive(Clone, Debug)]
pub struct AgeChain {
    spare: f64,
    band_blocks: u64,
    /// Number of versions by the logarithm of their lifetime; older observations count less.
    lives: [f64; LIVES],
    writes: f64,
    /// How long a block stays in each group of the chain, except for the last.
    stays: Vec<u64>,
    since: u64,
    valid_blocks: u64,
}

/// The age at a step of the grid.
fn at(step: usize) -> f64 {
    (step as f64 / STEPS).exp2() - 1.0
}

impl AgeChain {
    /// A chain for a log of which the share `spare` is spare, in bands of `band_blocks` blocks.
    #[must_use]
    pub fn new(band_blocks: u64, spare: f64) -> Self {
        let lives = [0.0; LIVES];
        Self { spare, band_blocks, lives, writes: 0.0, stays: Vec::new(), since: 0, valid_blocks: 0 }
    }

    /// The share of versions that live longer than the start of each step of the grid.
    fn survivors(&self) -> [f64; LIVES + 1] {
        // Overwritten versions per write: the first write of an address ends no version's life.
        let all = self.writes.max(1.0);
        let mut left = all;
        let mut survivors = [1.0; LIVES + 1];
        for (step, died) in self.lives.iter().enumerate() {
            left -= died;
            survivors[step + 1] = (left / all).max(0.0);
        }
        survivors
    }

    /// Determines the sizes anew: the ages at which blocks leave groups, chosen so that the least is moved.
    fn plan(&mut self) {
        let survivors = self.survivors();
        let valid = self.valid_blocks as f64;
        let space = valid / (1.0 - self.spare) - f64::from(GROUPS) * 0.5 * self.band_blocks as f64;
        // Blocks that are alive at an age below the step.
        let mut alive = [0.0; LIVES + 1];
        for step in 0..LIVES {
            alive[step + 1] = alive[step] + (survivors[step] + survivors[step + 1]) / 2.0 * (at(step + 1) - at(step));
        }
        let cost = |steps: &[usize]| {
            let (mut from, mut moved, mut held) = (0, 0.0, 0.0);
            for &step in steps {
                held += survivors[from] * (at(step) - at(from));
                moved += survivors[step];
                from = step;
            }
            let stays = (valid - alive[from]).max(0.0);
            let room = space - held - stays;
            if room <= 0.0 {
                return f64::INFINITY;
            }
            moved + survivors[from] * stays / (2.0 * room)
        };
        let (mut best, mut best_cost) = (Vec::new(), cost(&[]));
        // Adds one more age each time, if that helps, and chooses all of them anew.
        while best.len() + 3 < usize::from(GROUPS) {
            let mut found: Option<(Vec<usize>, f64)> = None;
            for step in (STEPS as usize * 6)..LIVES {
                let mut steps = best.clone();
                steps.push(step);
                steps.sort_unstable();
                steps.dedup();
                let cost = cost(&steps);
                if cost < best_cost && found.as_ref().is_none_or(|(_, other)| cost < *other) {
                    found = Some((steps, cost));
                }
            }
            let Some((steps, cost)) = found.filter(|(steps, _)| steps.len() > best.len()) else { break };
            (best, best_cost) = (steps, cost);
        }
        let ages = || best.iter().map(|&step| at(step) as u64);
        self.stays = ages().zip(std::iter::once(0).chain(ages())).map(|(age, before)| age - before).collect();
        self.writes /= 2.0;
        for died in &mut self.lives {
            *died /= 2.0;
        }
    }

    fn last(&self) -> u8 {
        1 + self.stays.len() as u8
    }

    /// How long blocks stay in a group; `None` for the last group.
    fn stay_in(&self, group: u8) -> Option<u64> {
        let index = usize::from(group.max(1)) - 1;
        self.stays.get(index).copied()
    }
}

impl Grouping for AgeChain {
    fn groups(&self) -> u8 {
        GROUPS
    }

    fn of_write(&mut self, write: &Write) -> Placed {
        self.valid_blocks = write.valid_blocks + 1;
        self.since += 1;
        self.writes += 1.0;
        if self.since >= self.valid_blocks / 2 && self.since >= self.band_blocks {
            self.since = 0;
            self.plan();
        }
        let Some(over) = write.over else { return Placed::group(1) };
        let step = ((over.age as f64 + 1.0).log2() * STEPS) as usize;
        let step = step.min(LIVES - 1);
        self.lives[step] += 1.0;
        let soon = self.stay_in(HOT).is_some_and(|age| over.age < age / 2);
        Placed::group(if soon && over.group <= 1 { HOT } else { 1 })
    }

    fn of_move(&mut self, moved: &Move) -> Placed {
        Placed::group((moved.version.group.max(1) + 1).min(self.last()))
    }
}
