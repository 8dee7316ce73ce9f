//! Which band is collected next: pure policies.

/// What the choice goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The band.
    pub band: u32,
    /// The group whose data it holds.
    pub group: u8,
    /// Blocks that are valid.
    pub valid: u32,
    /// Blocks that it holds when it is full.
    pub blocks: u32,
    /// How long ago it was opened.
    pub age: u64,
    /// Blocks that are valid in the whole log: in so much time hosts write as much as there is.
    pub log_valid: u64,
}

impl Candidate {
    fn valid_share(&self) -> f64 {
        f64::from(self.valid) / f64::from(self.blocks)
    }
}

/// How a victim is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The one with the least valid data.
    Greedy,
    /// (1 - u) / u times the square root of its age, u the share still valid (SepBIT, section 4.1, after Rosenblum and
    /// Ousterhout, 1992, section 3.5).
    CostBenefitRoot,
    /// (1 - u) / u times its age (Rosenblum and Ousterhout, 1992, section 3.5, but for a constant factor).
    CostBenefit,
    /// The same with an age of no more than twice the time in which hosts write as much as is valid. A band that is older promises
    /// nothing more by its age: data that is overwritten whole in turn looks dead the longer it lies, until just before it dies.
    CostBenefitCapped,
}

impl Choice {
    /// The more, the sooner.
    #[must_use]
    pub fn score(self, candidate: &Candidate) -> f64 {
        let u = candidate.valid_share();
        match self {
            Self::Greedy => 1.0 - u,
            Self::CostBenefitRoot => (1.0 - u) / u * ((candidate.age + 1) as f64).sqrt(),
            Self::CostBenefit => (1.0 - u) / u * (candidate.age + 1) as f64,
            Self::CostBenefitCapped => (1.0 - u) / u * (candidate.age.min(2 * candidate.log_valid) + 1) as f64,
        }
    }

    /// The best, the first of equals.
    pub fn best(self, candidates: impl Iterator<Item = Candidate>) -> Option<u32> {
        best_by(candidates, |candidate| self.score(candidate))
    }
}

/// The candidate with the highest score, the first of equals.
pub fn best_by(candidates: impl Iterator<Item = Candidate>, score: impl Fn(&Candidate) -> f64) -> Option<u32> {
    let mut best: Option<(f64, u32)> = None;
    for candidate in candidates {
        let score = score(&candidate);
        if best.is_none_or(|(other, _)| score > other) {
            best = Some((score, candidate.band));
        }
    }
    best.map(|(_, band)| band)
}
