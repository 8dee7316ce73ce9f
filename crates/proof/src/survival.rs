//! Chooses which unflushed sectors survive a power cut.
//!
//! Each sector may have its durable content or any of its unflushed versions. One uniform choice for each sector
//! would almost never produce the outcomes that break software (all lost, all kept, one whole write kept and its
//! neighbour lost, a cut inside one write), so that a pattern is drawn first.

use crate::cache::{SectorCache, Version};
use forebay_block::Random;
use std::collections::BTreeMap;

/// The rule by which a power cut chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Nothing unflushed survives.
    NothingSurvives,
    /// The newest version of every sector survives.
    EverythingSurvives,
    /// For each sector the newest version survives, with this chance in 256.
    Newest {
        /// Chance in 256.
        survive: u64,
    },
    /// Each version reaches the medium with this chance in 256; any of those that did may have been the last.
    Sectors {
        /// Chance in 256.
        survive: u64,
    },
    /// Each write survives whole or not at all, with this chance in 256.
    Writes {
        /// Chance in 256.
        survive: u64,
    },
    /// Writes survive in the order of submission up to one, which is torn.
    Prefix {
        /// Operations with lower numbers survive; the one with this number is torn.
        torn_id: u64,
    },
}

impl Pattern {
    /// Draws a pattern for operations with numbers from `first_id` to `end_id` - 1.
    pub fn draw(random: &mut Random, first_id: u64, end_id: u64) -> Self {
        let survive = 1 + random.below(255);
        match random.below(12) {
            0 => Self::NothingSurvives,
            1 => Self::EverythingSurvives,
            2..=5 => Self::Sectors { survive },
            6..=8 => Self::Writes { survive },
            _ => Self::Prefix { torn_id: first_id + random.below(end_id.saturating_sub(first_id)) },
        }
    }
}

/// Chooses the survivors: sector and version, for each sector that does not keep its durable content.
pub fn choose<C: Clone>(cache: &SectorCache<C>, pattern: Pattern, random: &mut Random) -> Vec<(u64, Version<C>)> {
    // One coin for each operation, drawn in the deterministic order of its first occurrence.
    let mut coins: BTreeMap<u64, bool> = BTreeMap::new();
    let mut survivors = Vec::new();
    for (sector, versions) in cache.all() {
        let newest_where = |keep: &mut dyn FnMut(&Version<C>) -> bool| versions.iter().rev().copied().find(|v| keep(v));
        let chosen = match pattern {
            Pattern::NothingSurvives => None,
            Pattern::EverythingSurvives => versions.last().copied(),
            Pattern::Newest { survive } => versions.last().copied().filter(|_| random.chance(survive, 256)),
            Pattern::Sectors { survive } => {
                let reached: Vec<&Version<C>> =
                    versions.iter().copied().filter(|_| random.chance(survive, 256)).collect();
                // Usually the newest version is written last, as in the order of submission; sometimes an older one.
                if random.chance(3, 4) {
                    reached.last().copied()
                } else {
                    reached.get(random.index(reached.len())).copied()
                }
            }
            Pattern::Writes { survive } => {
                newest_where(&mut |version| *coins.entry(version.id).or_insert_with(|| random.chance(survive, 256)))
            }
            Pattern::Prefix { torn_id } => {
                newest_where(&mut |version| version.id < torn_id || (version.id == torn_id && random.chance(1, 2)))
            }
        };
        if let Some(version) = chosen {
            survivors.push((sector, version.clone()));
        }
    }
    survivors
}
