//! Bins of ages: as fine as an eighth of an octave, up to sixteen times the size of the tier.

/// Number of bins: eight of one unit each, then eight in each octave, up to sixteen times the size of the tier.
pub const BINS: usize = 96;
/// Units of age in the time in which hosts write as many blocks as the tier has.
const UNITS_PER_TIER: u64 = 1024;

/// The scale of ages for a tier of a given size. Ages are counted in blocks that hosts have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    unit_blocks: u64,
}

impl Ages {
    /// The scale for a tier of this many blocks.
    #[must_use]
    pub fn of_tier(blocks: u64) -> Self {
        Self { unit_blocks: (blocks / UNITS_PER_TIER).max(1) }
    }

    /// The bin of an age; the last bin contains all greater ages.
    #[must_use]
    pub fn bin(self, age_blocks: u64) -> usize {
        let units = age_blocks / self.unit_blocks;
        if units < 8 {
            return units as usize;
        }
        let octave = units.ilog2();
        let part = (units >> (octave - 3)) & 7;
        ((octave as usize - 2) * 8 + part as usize).min(BINS - 1)
    }

    /// The age at which a bin begins, in blocks.
    #[must_use]
    pub fn begin(self, bin: usize) -> u64 {
        let units = if bin < 8 { bin as u64 } else { (8 + bin as u64 % 8) << (bin / 8 - 1) };
        units * self.unit_blocks
    }

    /// The width of a bin, in blocks.
    #[must_use]
    pub fn width(self, bin: usize) -> u64 {
        self.begin(bin + 1) - self.begin(bin)
    }

    /// The octave of an age, from 0 for ages below a 128th of the tier to [`Self::OCTAVES`] - 1.
    #[must_use]
    pub fn octave(self, age_blocks: u64) -> u8 {
        (self.bin(age_blocks) / 8) as u8
    }

    /// Number of octaves.
    pub const OCTAVES: u8 = (BINS / 8) as u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_age_lies_in_its_bin_and_bins_follow_one_another() {
        for tier in [1, 1000, 1024, 30_000, 91_000_000] {
            let ages = Ages::of_tier(tier);
            for bin in 0..BINS {
                assert_eq!(ages.bin(ages.begin(bin)), bin, "tier {tier}");
                assert_eq!(ages.bin(ages.begin(bin + 1) - 1), bin, "tier {tier}");
                assert!(ages.width(bin) > 0);
                let fine = ages.width(bin) * 8 <= ages.begin(bin).max(8 * ages.width(0));
                assert!(fine, "an eighth of the age at most");
            }
            assert_eq!(ages.bin(u64::MAX), BINS - 1);
        }
        assert_eq!(Ages::of_tier(1 << 20).begin(BINS) >> 20, 16);
        assert_eq!(Ages::of_tier(1 << 20).octave(1 << 20), 8);
    }
}
