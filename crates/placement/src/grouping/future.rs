//! An oracle: groups by the time at which a block will be overwritten ("FK" of SepBIT's authors).

use super::{Grouping, Move, Placed, Write};

/// Groups by how many bands will be written until a block dies; the last group takes all blocks that live longer.
#[derive(Clone, Copy, Debug)]
pub struct Future {
    groups: u8,
    band_blocks: u64,
}

impl Future {
    /// An oracle with this many groups, for bands of `band_blocks` blocks.
    #[must_use]
    pub fn new(groups: u8, band_blocks: u64) -> Self {
        Self { groups, band_blocks }
    }

    fn of(&self, dies_after: Option<u64>) -> u8 {
        let bands = dies_after.map_or(u64::MAX, |blocks| blocks / self.band_blocks);
        bands.min(u64::from(self.groups) - 1) as u8
    }
}

impl Grouping for Future {
    fn groups(&self) -> u8 {
        self.groups
    }

    fn of_write(&mut self, write: &Write) -> Placed {
        Placed::group(self.of(write.dies_after))
    }

    fn of_move(&mut self, moved: &Move) -> Placed {
        Placed::group(self.of(moved.dies_after))
    }
}
