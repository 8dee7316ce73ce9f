//! What each region of the disks was like lately: when it was last written, and how long what lay there lived.

use super::ages::Ages;

/// Smallest region, in blocks.
const REGION_MIN_BLOCKS: u64 = 64;
/// Memory of a region, in bytes.
pub const BYTES_PER_REGION: u64 = size_of::<Region>() as u64;

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Time of the last write, in units of [`Regions::unit_blocks`], from 1; 0: never.
    written: u32,
    /// Octave of the last life that ended, from 1; 0: none has.
    life: u8,
}

/// A table of regions. Regions of several disks may share an entry: it is a hint, not a fact.
#[derive(Clone, Debug)]
pub struct Regions {
    table: Vec<Region>,
    shift: u32,
    unit_blocks: u64,
}

impl Regions {
    /// Of at most so many regions, for disks of so many blocks together, beside a tier of so many.
    #[must_use]
    pub fn new(regions_max: usize, disks_blocks: u64, tier_blocks: u64) -> Self {
        let regions_max = regions_max.max(1) as u64;
        let region_blocks = disks_blocks.div_ceil(regions_max).max(REGION_MIN_BLOCKS).next_power_of_two();
        let regions = disks_blocks.div_ceil(region_blocks).clamp(1, regions_max);
        Self {
            table: vec![Region::default(); regions as usize],
            shift: region_blocks.trailing_zeros(),
            unit_blocks: (tier_blocks / 4096).max(1),
        }
    }

    fn place(&self, disk: u16, block: u64) -> usize {
        // Disks follow one another in the table from places that are spread by the golden ratio (Knuth, volume 3, 6.4).
        let begin = u64::from(disk).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        ((begin + (block >> self.shift)) % self.table.len() as u64) as usize
    }

    /// The octave of the last life that ended in the region of a block, from 1; 0: none has, as far as is known.
    #[must_use]
    pub fn life(&self, disk: u16, block: u64) -> u8 {
        self.table[self.place(disk, block)].life
    }

    /// The time since the region of a block was last written.
    #[must_use]
    pub fn age(&self, disk: u16, block: u64, now: u64) -> Option<u64> {
        let written = self.table[self.place(disk, block)].written;
        (written > 0).then(|| now.saturating_sub(u64::from(written - 1) * self.unit_blocks))
    }

    /// Something was written from this block on. Where a request crosses the border of a region, its first one counts.
    pub fn written(&mut self, disk: u16, block: u64, now: u64) {
        let at = self.place(disk, block);
        self.table[at].written = u32::try_from(now / self.unit_blocks).unwrap_or(u32::MAX - 1).saturating_add(1);
    }

    /// A life ended in the region of a block.
    pub fn died(&mut self, disk: u16, block: u64, life_blocks: u64, ages: Ages) {
        let at = self.place(disk, block);
        self.table[at].life = ages.octave(life_blocks) + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_tells_when_it_was_written_and_how_long_its_last_life_was() {
        let ages = Ages::of_tier(1 << 16);
        let mut regions = Regions::new(1024, 1 << 20, 1 << 16);
        assert_eq!((regions.life(1, 5000), regions.age(1, 5000, 100)), (0, None));
        regions.written(1, 5000, 32_000);
        regions.died(1, 5000, 1 << 16, ages);
        assert_eq!(regions.age(1, 5100, 42_000), Some(10_000), "the same region of 1,024 blocks");
        assert_eq!(regions.life(1, 5000), ages.octave(1 << 16) + 1);
        assert_eq!((regions.life(1, 4000), regions.age(1, 4000, 100)), (0, None), "the one before it");
        assert_eq!(regions.age(1, 5000, 0), Some(0), "a clock that went back");
        assert_eq!(Regions::new(8, 10, 10).table.len(), 1);
    }
}
