//! The grouping policies that know nothing of the future, by name.

use super::{AgeChain, ByOrigin, ByRate, Dac, Grouping, NoSeparation, SepBit};

/// A grouping policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// All blocks in one group.
    NoSep,
    /// Separates blocks that hosts write from blocks that collection moves.
    SepGc,
    /// A hotter group with each write, a colder group with each move.
    Dac,
    /// By the inferred time at which a block will be overwritten.
    #[default]
    SepBit,
    /// A chain of groups by age, after MiDAS.
    Midas,
    /// This project's: by measured rates of overwriting.
    ByRate,
}

impl Kind {
    /// All policies.
    pub const ALL: [Self; 6] = [Self::NoSep, Self::SepGc, Self::Dac, Self::SepBit, Self::Midas, Self::ByRate];

    /// The name that the policy's authors gave it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoSep => "NoSep",
            Self::SepGc => "SepGC",
            Self::Dac => "DAC",
            Self::SepBit => "SepBIT",
            Self::Midas => "MiDAS-like",
            Self::ByRate => "ours",
        }
    }

    /// The policy of this name, regardless of case; `None` for an unknown name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Creates the policy for bands of `band_blocks` blocks, of which the share `spare` is spare.
    #[must_use]
    pub fn build(self, band_blocks: u64, spare: f64) -> Box<dyn Grouping + Send> {
        match self {
            Self::NoSep => Box::new(NoSeparation),
            Self::SepGc => Box::new(ByOrigin),
            Self::Dac => Box::new(Dac),
            Self::SepBit => Box::new(SepBit::default()),
            Self::Midas => Box::new(AgeChain::new(band_blocks, spare)),
            Self::ByRate => Box::new(ByRate::new(band_blocks, spare)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grouping::GROUPS_MAX;

    #[test]
    fn every_policy_has_its_name_and_no_more_groups_than_there_may_be() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of_name(&kind.name().to_lowercase()), Some(kind));
            assert!((1..=GROUPS_MAX).contains(&kind.build(1024, 0.2).groups()));
        }
        assert_eq!(Kind::of_name("oracle"), None);
    }
}
