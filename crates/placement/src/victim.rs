//! Policies without I/O that choose the next band to collect.

/// The properties of a band that the choice uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The band.
    pub band: u32,
    /// The group of the band's data.
    pub group: u8,
    /// Number of valid blocks.
    pub valid: u32,
    /// Number of blocks in the full band.
    pub blocks: u32,
    /// Time since the band was opened, in blocks written by hosts.
    pub age: u64,
    /// Number of valid blocks in the whole log: hosts write as much as there is in that much time.
    pub log_valid: u64,
}

impl Candidate {
    fn valid_share(&self) -> f64 {
        f64::from(self.valid) / f64::from(self.blocks)
    }
}

/// A policy that chooses the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The band with the least valid data.
    Greedy,
    /// Highest (1 - u) / u times the square root of the age, where u is the share still valid (SepBIT, section 4.1,
    /// after Rosenblum and Ousterhout, 1992, section 3.5).
    CostBenefitRoot,
    /// Highest (1 - u) / u times the age (Rosenblum and Ousterhout, 1992, section 3.5, except for a constant factor).
    CostBenefit,
    /// The same, but the age counts up to twice the time in which hosts write as much as is valid. A greater age
    /// promises nothing more: data that is overwritten cyclically looks the more stable the longer it lies, until
    /// just before it dies.
    CostBenefitCapped,
}

impl Choice {
    /// The score of a candidate: the highest is collected first.
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

    /// The band with the highest score, the first of equals; `None` if there are no candidates.
    pub fn best(self, candidates: impl Iterator<Item = Candidate>) -> Option<u32> {
        best_by(candidates, |candidate| self.score(candidate))
    }
}

/// The candidate with the highest score, the first of equals; `None` if there are no candidates.
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
