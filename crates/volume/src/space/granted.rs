//! What was granted of bands; and what of it is neither in the map nor known never to be: its bands are not free meanwhile.

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
    /// How many blocks they hold: more where these are compressed.
    pub count: u32,
}

/// How many blocks, by band.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsettled {
    by_band: BTreeMap<u32, u32>,
}

impl Unsettled {
    /// So many more of a band.
    pub fn granted(&mut self, band: u32, blocks: u32) {
        *self.by_band.entry(band).or_default() += blocks;
    }

    /// The fate of so many is known; true where these were the last.
    pub fn settle(&mut self, band: u32, blocks: u32) -> bool {
        let Some(left) = self.by_band.get_mut(&band) else { return false };
        *left = left.saturating_sub(blocks);
        let is_last = *left == 0;
        if is_last {
            self.by_band.remove(&band);
        }
        is_last
    }

    /// Whether a band has any.
    pub fn has(&self, band: u32) -> bool {
        self.by_band.contains_key(&band)
    }
}
