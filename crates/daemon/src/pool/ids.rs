//! Ids and numbers that no others have.

use anyhow::{Context, Result};
use forebay_block::Random;
use forebay_volume::layout::Id;

/// Where the ids of a new pool and its devices come from.
pub enum Ids<'a> {
    /// From the system: no two pools have the same.
    Random,
    /// From a seed, for pools that nothing outlives.
    Seeded(&'a mut Random),
}

impl Ids<'_> {
    /// An id.
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

    /// A number.
    pub fn number(&mut self) -> Result<u64> {
        let [a, b, c, d, e, f, g, h, ..] = self.draw()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }
}
