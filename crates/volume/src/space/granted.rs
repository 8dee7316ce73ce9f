//! What was granted of bands; and how much of that is neither in the map yet nor known never to be, so that its bands are not free.

use std::collections::BTreeMap;

/// A run granted for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The band.
    pub band: u32,
    /// First block in the band.
    pub first: u32,
    /// Blocks of the device.
    pub blocks: u32,
    /// How many wanted blocks they hold: more than that where these are compressed.
    pub count: u32,
}

/// How many granted blocks are unsettled, by band.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsettled {
    by_band: BTreeMap<u32, u32>,
}

impl Unsettled {
    /// Notes that so many more blocks of a band were granted.
    pub fn granted(&mut self, band: u32, blocks: u32) {
        *self.by_band.entry(band).or_default() += blocks;
    }

    /// Notes that the fate of so many blocks is known; true where these were the last of the band.
    pub fn settle(&mut self, band: u32, blocks: u32) -> bool {
        let Some(left) = self.by_band.get_mut(&band) else { return false };
        *left = left.saturating_sub(blocks);
        let is_last = *left == 0;
        if is_last {
            self.by_band.remove(&band);
        }
        is_last
    }

    /// Whether a band has unsettled blocks.
    pub fn has(&self, band: u32) -> bool {
        self.by_band.contains_key(&band)
    }
}
