//! Draws ids and numbers that are unique.

use anyhow::{Context, Result};
use forebay_block::Random;
use forebay_volume::layout::Id;

/// Source of the ids of a new pool and its devices.
pub enum Ids<'a> {
    /// Random numbers of the system: no two pools share an id.
    Random,
    /// A seed, for pools of tests and measurements that do not outlive the process.
    Seeded(&'a mut Random),
}

impl Ids<'_> {
    /// Draws an id.
    pub fn draw(&mut self) -> Result<Id> {
        let mut id = Id::default();
        match self {
            Self::Random => getrandom::fill(&mut id).context("the system gives no random numbers")?,
            Self::Seeded(random) => {
                id.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&random.next_u64().to_le_bytes()));
            }
        }
        Ok(id)
    }

    /// Draws a 64-bit number.
    pub fn number(&mut self) -> Result<u64> {
        let [a, b, c, d, e, f, g, h, ..] = self.draw()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }
}
