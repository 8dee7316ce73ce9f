//! Recent history of each region of the disks: when it was last written, and how long the data there lived.

use super::ages::{Ages, BINS};
use super::codec::Reader;
use std::ops::Range;

/// Smallest region, in blocks.
const REGION_MIN_BLOCKS: u64 = 16;
/// Memory of a region, in bytes.
pub const BYTES_PER_REGION: u64 = size_of::<Region>() as u64;

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Time of the last write, in units of [`Regions::unit_blocks`], plus 1; 0: never.
    written: u32,
    /// Octave of the lifetime of the data discarded last, plus 1; 0: none was.
    life: u8,
    /// Whether the data written last has not been discarded.
    lives: bool,
    /// Octave of the age of the data that the last write replaced, plus 1; 0: there was none.
    replaced: u8,
    /// Group of the band that contained the replaced data, when it last lay in one.
    group: u8,
}

/// A region's prediction for a write to it, in one byte: none, the lifetime of the data discarded last, or the age of
/// the data being overwritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct History(u8);

impl History {
    /// No prediction.
    pub const UNKNOWN: Self = Self(0);

    fn discarded_at(octave: u8) -> Self {
        Self(1 + octave)
    }

    fn overwritten_at(octave: u8) -> Self {
        Self(1 + Ages::OCTAVES + octave)
    }

    /// The history that [`Self::number`] encoded; `None` for an invalid number.
    pub fn of_number(number: u8) -> Option<Self> {
        (number <= 2 * Ages::OCTAVES).then_some(Self(number))
    }

    /// The history as a number, for storage.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The octave of the lifetime of discarded data; the octave of the age of overwritten data. At most one of them
    /// is known.
    #[must_use]
    pub fn octaves(self) -> (Option<u8>, Option<u8>) {
        let known = self.0.checked_sub(1);
        let overwritten = known.and_then(|known| known.checked_sub(Ages::OCTAVES));
        (known.filter(|_| overwritten.is_none()), overwritten)
    }
}

/// A table of regions. Regions of several disks may share an entry: it is a hint, not a fact.
#[derive(Clone, Debug)]
pub struct Regions {
    table: Vec<Region>,
    shift: u32,
    unit_blocks: u64,
}

impl Regions {
    /// A table of at most `regions_max` regions, for disks of `disks_blocks` in total and a fast tier of
    /// `tier_blocks`.
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

    /// A region in one byte: nothing, the bin of its age, or the lifetime of discarded data.
    fn value(&self, region: Region, now: u64, ages: Ages) -> u8 {
        match region {
            Region { written: 0, .. } => 0,
            Region { lives: true, .. } => 1 + ages.bin(self.age_of(region, now)) as u8,
            Region { life, .. } => 1 + BINS as u8 + life.min(Ages::OCTAVES),
        }
    }

    /// Appends the table: runs of values, in at most `bytes_max` bytes. If they do not fit, neighbours share a value,
    /// that of the one written last.
    pub fn save(&self, (now, ages): (u64, Ages), bytes_max: usize, out: &mut Vec<u8>) {
        out.push(self.shift as u8);
        out.extend_from_slice(&(self.table.len() as u32).to_le_bytes());
        let mut runs = Vec::new();
        let mut exponent = 0u8;
        // In the end all regions share one value, and that fits.
        loop {
            runs.clear();
            for neighbours in self.table.chunks(1 << exponent) {
                let newest = neighbours.iter().max_by_key(|region| region.written).copied().unwrap_or_default();
                let value = self.value(newest, now, ages);
                match runs.last_mut() {
                    Some((last, more)) if *last == value && *more < u8::MAX => *more += 1,
                    _ => runs.push((value, 0u8)),
                }
            }
            if runs.len() * 2 <= bytes_max || 1 << exponent >= self.table.len() {
                break;
            }
            exponent += 1;
        }
        out.push(exponent);
        out.extend_from_slice(&(runs.len() as u32).to_le_bytes());
        runs.iter().for_each(|&(value, more)| out.extend_from_slice(&[value, more]));
    }

    /// Restores a table that [`Self::save`] wrote at the time `then`. A table of another shape, from another memory
    /// limit, is ignored, so that this table stays empty. `None` if the bytes are invalid.
    pub fn restore(&mut self, r: &mut Reader<'_>, then: u64, ages: Ages) -> Option<()> {
        let (shift, len, exponent, runs) = (r.u8()?, r.u32()?, r.u8()?, r.u32()?);
        let is_of_this_shape = u32::from(shift) == self.shift && len as usize == self.table.len();
        let mut table = Vec::new();
        for _ in 0..runs {
            let [value, more] = r.bytes()?;
            let octave = value.checked_sub(1 + BINS as u8);
            let region = match (value, octave) {
                (0, _) => Region::default(),
                (_, None) => {
                    let bin = usize::from(value - 1);
                    let written = then.saturating_sub(ages.begin(bin) + ages.width(bin) / 2);
                    let written = u32::try_from(written / self.unit_blocks).unwrap_or(u32::MAX - 1).saturating_add(1);
                    Region { written, lives: true, ..Region::default() }
                }
                (_, Some(life)) if life <= Ages::OCTAVES => Region { written: 1, life, ..Region::default() },
                _ => return None,
            };
            let room = self.table.len().saturating_sub(table.len());
            let count = (usize::from(more) + 1).checked_shl(exponent.into()).unwrap_or(usize::MAX);
            table.extend(std::iter::repeat_n(region, count.min(room)));
        }
        if is_of_this_shape && table.len() == self.table.len() {
            self.table = table;
        }
        Some(())
    }

    fn place(&self, disk: u16, block: u64) -> usize {
        // The regions of a disk are consecutive in the table, from a place that is spread by the golden ratio (Knuth,
        // volume 3, 6.4).
        let begin = u64::from(disk).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        ((begin + (block >> self.shift)) % self.table.len() as u64) as usize
    }

    /// The indices of all regions that a range touches, each once.
    fn places(&self, disk: u16, blocks: Range<u64>) -> impl Iterator<Item = usize> + use<> {
        let first = self.place(disk, blocks.start);
        let count =
            if blocks.is_empty() { 0 } else { ((blocks.end - 1) >> self.shift) - (blocks.start >> self.shift) + 1 };
        let len = self.table.len();
        (0..count.min(len as u64) as usize).map(move |i| (first + i) % len)
    }

    fn age_of(&self, region: Region, now: u64) -> u64 {
        now.saturating_sub(u64::from(region.written.saturating_sub(1)) * self.unit_blocks)
    }

    /// The prediction of a block's region for a write to it now.
    #[must_use]
    pub fn history(&self, disk: u16, block: u64, now: u64, ages: Ages) -> History {
        match self.table[self.place(disk, block)] {
            region @ Region { lives: true, .. } => History::overwritten_at(ages.octave(self.age_of(region, now))),
            Region { life: 0, .. } => History::UNKNOWN,
            Region { life, .. } => History::discarded_at(life - 1),
        }
    }

    /// The time since the region of a block was last written; `None` if it never was.
    #[must_use]
    pub fn age(&self, disk: u16, block: u64, now: u64) -> Option<u64> {
        let region = self.table[self.place(disk, block)];
        (region.written > 0).then(|| self.age_of(region, now))
    }

    /// The age of the living data in the region of a block, which a write would replace; `None` if there is none.
    #[must_use]
    pub fn age_alive(&self, disk: u16, block: u64, now: u64) -> Option<u64> {
        let region = self.table[self.place(disk, block)];
        region.lives.then(|| self.age_of(region, now))
    }

    /// The age of the data that the last write to the region of a block replaced, to its octave; `None` if there was
    /// none.
    #[must_use]
    pub fn age_replaced(&self, disk: u16, block: u64, ages: Ages) -> Option<u64> {
        let octave = self.table[self.place(disk, block)].replaced.checked_sub(1)?;
        Some(ages.begin(usize::from(octave) * 8))
    }

    /// The group of the band that contained the replaced data, when it last lay in one.
    #[must_use]
    pub fn group(&self, disk: u16, block: u64) -> u8 {
        self.table[self.place(disk, block)].group
    }

    /// The last write to these blocks replaced data in a band, of this group and exact age.
    pub fn replaced_in_band(&mut self, disk: u16, blocks: Range<u64>, (group, age): (u8, u64), ages: Ages) {
        for place in self.places(disk, blocks) {
            let region = &mut self.table[place];
            (region.group, region.replaced) = (group, ages.octave(age) + 1);
        }
    }

    /// These blocks were written.
    pub fn written(&mut self, disk: u16, blocks: Range<u64>, now: u64, ages: Ages) {
        let written = u32::try_from(now / self.unit_blocks).unwrap_or(u32::MAX - 1).saturating_add(1);
        for place in self.places(disk, blocks) {
            let region = self.table[place];
            // A write in several parts replaces the data that was there before its first part.
            let replaced = if region.written == written && region.lives {
                region.replaced
            } else if region.lives {
                ages.octave(self.age_of(region, now)) + 1
            } else {
                0
            };
            self.table[place] = Region { written, lives: true, replaced, ..region };
        }
    }

    /// These blocks were discarded.
    pub fn discarded(&mut self, disk: u16, blocks: Range<u64>, now: u64, ages: Ages) {
        for place in self.places(disk, blocks) {
            let region = self.table[place];
            if region.lives {
                let life = ages.octave(self.age_of(region, now)) + 1;
                self.table[place] = Region { life, lives: false, ..region };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_tells_how_old_its_data_is_and_how_long_what_was_discarded_lived() {
        let ages = Ages::of_tier(1 << 16);
        let mut regions = Regions::new(1024, 1 << 20, 1 << 16);
        assert_eq!((regions.history(1, 5000, 100, ages), regions.age(1, 5000, 100)), (History::UNKNOWN, None));
        regions.written(1, 5000..5001, 32_000, ages);
        assert_eq!((regions.age_replaced(1, 5000, ages), regions.age_alive(1, 5000, 32_010)), (None, Some(10)));
        assert_eq!(regions.age(1, 5100, 42_000), Some(10_000), "the same region of 1,024 blocks");
        let history = regions.history(1, 5000, 32_000 + (1 << 16), ages);
        assert_eq!(history.octaves(), (None, Some(ages.octave(1 << 16))));
        regions.discarded(1, 4096..5120, 33_000, ages);
        let history = regions.history(1, 5000, 90_000, ages);
        assert_eq!(history.octaves(), (Some(ages.octave(1000)), None), "as old as it became");
        regions.discarded(1, 4096..5120, 90_000, ages);
        assert_eq!(regions.history(1, 5000, 90_000, ages), history, "it was gone already");
        assert_eq!(regions.age(1, 4000, 100), None, "the one before it");
        assert_eq!(regions.age(1, 5000, 0), Some(0), "a clock that went back");
        regions.written(1, 5000..5001, 90_000, ages);
        assert_eq!(regions.age_replaced(1, 5001, ages), None, "it was discarded before");
        regions.written(1, 5000..5001, 92_000, ages);
        assert_eq!(regions.age_replaced(1, 5001, ages), Some(1024), "2,000, to the octave");
        regions.written(1, 5002..5003, 92_000, ages);
        assert_eq!(regions.age_replaced(1, 5001, ages), Some(1024), "two parts of one write");
        assert_eq!(Regions::new(8, 10, 10).table.len(), 1);
        assert_eq!(History::UNKNOWN.octaves(), (None, None));
    }

    #[test]
    fn a_range_touches_each_of_its_regions_once() {
        let (mut regions, ages) = (Regions::new(8, 128, 128), Ages::of_tier(128));
        regions.written(0, 15..33, 1, ages);
        assert_eq!(regions.table.iter().map(|region| region.lives).collect::<Vec<_>>()[..4], [true, true, true, false]);
        regions.written(0, 0..1 << 40, 1, ages);
        assert!(regions.table.iter().all(|region| region.lives));
        assert_eq!(regions.places(0, 5..5).count(), 0);
    }
}
