//! SepBIT: groups by the inferred time at which a block will be overwritten (Wang and others, "Separating Data via
//! Block Invalidation Time Inference for Write Amplification Reduction in Log-Structured Storage", FAST 2022,
//! algorithm 1).

use super::{Collected, Grouping, Move, Placed, Write};

const GROUPS: u8 = 6;
/// Number of bands of the first group over whose lifetimes the mean is computed.
const BANDS_OF_MEAN: u32 = 16;

/// Six groups: two of hosts, for short and long lifetimes; one of blocks that outlived the short lifetimes; three by
/// age.
#[derive(Clone, Copy, Debug)]
pub struct SepBit {
    /// Mean lifetime of collected bands of the first group: lifetimes below are short. Infinite at first.
    short: f64,
    life_sum: f64,
    bands: u32,
}

impl Default for SepBit {
    fn default() -> Self {
        Self { short: f64::INFINITY, life_sum: 0.0, bands: 0 }
    }
}

impl Grouping for SepBit {
    fn groups(&self) -> u8 {
        GROUPS
    }

    fn of_write(&mut self, write: &Write) -> Placed {
        // The published queue of recent addresses is as long as the short lifetime, and not longer than there are
        // valid blocks.
        let known = self.short.min(write.valid_blocks as f64);
        Placed::group(write.over.is_none_or(|version| version.age as f64 >= known).into())
    }

    fn of_move(&mut self, moved: &Move) -> Placed {
        if moved.version.group == 0 {
            return Placed::group(2);
        }
        let age = moved.version.age as f64;
        Placed::group(3 + u8::from(age >= 4.0 * self.short) + u8::from(age >= 16.0 * self.short))
    }

    fn collected(&mut self, band: &Collected) {
        if band.group != 0 {
            return;
        }
        self.life_sum += band.age as f64;
        self.bands += 1;
        if self.bands == BANDS_OF_MEAN {
            self.short = self.life_sum / f64::from(BANDS_OF_MEAN);
            (self.life_sum, self.bands) = (0.0, 0);
        }
    }
}
