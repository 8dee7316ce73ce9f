//! Where on a disk requests go, and when: bytes read and written, by slices of time and regions of a volume.
//!
//! A volume has at most 64 regions of equal length: when there would be more, they become twice as long, and neighbours are merged. They
//! begin at the lowest request of the volume and end with the highest, so that data at the end of a large disk does not fall into one
//! region.

use super::blocks::BLOCK_BYTES;
use serde::Serialize;

/// Most regions of a volume.
const REGIONS_MAX: usize = 64;
/// Mask that gives a region's place among the cells of a slice: its number modulo [`REGIONS_MAX`].
const REGION_MASK: u64 = REGIONS_MAX as u64 - 1;

/// Bytes read and written.
pub type Moved = [u64; 2];

/// The regions of a volume, while the trace is read.
#[derive(Clone, Debug)]
pub struct Regions {
    /// A region has 2^shift bytes.
    shift: u32,
    /// The first and the last region with data, counted from the beginning of the volume.
    span: Option<(u64, u64)>,
    /// A cell for each slice and region. A region's place is its number modulo [`REGIONS_MAX`], so that neighbouring regions have different
    /// places.
    cells: Vec<Moved>,
}

impl Default for Regions {
    fn default() -> Self {
        Self { shift: BLOCK_BYTES.trailing_zeros(), span: None, cells: Vec::new() }
    }
}

/// A region, with its totals over the whole time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Region {
    /// Offset of the region in bytes.
    pub begin_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// The map of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VolumeMap {
    /// Name of the volume; empty if the trace has no names; `None` for all volumes together that have no map of their own.
    pub volume: Option<String>,
    /// Length of a region in bytes.
    pub region_bytes: u64,
    /// All regions from the first to the last with data.
    pub regions: Vec<Region>,
    /// The cells with data: slice, index in `regions`, bytes read, bytes written.
    pub cells: Vec<(usize, usize, u64, u64)>,
}

impl VolumeMap {
    /// Bytes read and written in total.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        let sum =
            |sum: u64, region: &Region| sum.saturating_add(region.read_bytes).saturating_add(region.written_bytes);
        self.regions.iter().fold(0, sum)
    }
}

/// Adds one cell to another.
fn add(to: &mut Moved, from: Moved) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = to.saturating_add(from);
    }
}

fn place(slice: usize, region: u64) -> usize {
    slice * REGIONS_MAX + (region & REGION_MASK) as usize
}

impl Regions {
    /// Counts bytes from `begin` to `end` that were moved in a slice; `direction` is the index in a cell.
    pub fn note(&mut self, slice: usize, direction: usize, begin: u64, end: u64) {
        let Some(last) = end.checked_sub(1).filter(|last| begin <= *last) else { return };
        let span = self.span.map_or((begin >> self.shift, last >> self.shift), |(low, high)| {
            (low.min(begin >> self.shift), high.max(last >> self.shift))
        });
        self.widen_for(span);
        let cells = (slice + 1) * REGIONS_MAX;
        if self.cells.len() < cells {
            self.cells.resize(cells, Moved::default());
        }
        for region in begin >> self.shift..=last >> self.shift {
            let low = begin.max(region << self.shift);
            let high = last.min((region << self.shift) + ((1 << self.shift) - 1));
            let mut moved = Moved::default();
            moved[direction] = high - low + 1;
            add(&mut self.cells[place(slice, region)], moved);
        }
    }

    /// Doubles the length of regions until this span fits.
    fn widen_for(&mut self, (mut low, mut high): (u64, u64)) {
        while high - low >= REGIONS_MAX as u64 {
            if let Some((first, last)) = self.span {
                let mut cells = vec![Moved::default(); self.cells.len()];
                for slice in 0..self.cells.len() / REGIONS_MAX {
                    for region in first..=last {
                        add(&mut cells[place(slice, region >> 1)], self.cells[place(slice, region)]);
                    }
                }
                self.cells = cells;
                self.span = Some((first >> 1, last >> 1));
            }
            self.shift += 1;
            (low, high) = (low >> 1, high >> 1);
        }
        self.span = Some((low, high));
    }

    /// Merges pairs of slices, because slices became twice as long.
    pub fn merge_slices(&mut self) {
        let slices = self.cells.len() / REGIONS_MAX;
        let mut cells = vec![Moved::default(); slices.div_ceil(2) * REGIONS_MAX];
        for (at, moved) in self.cells.iter().enumerate() {
            add(&mut cells[at / REGIONS_MAX / 2 * REGIONS_MAX + at % REGIONS_MAX], *moved);
        }
        self.cells = cells;
    }

    /// The map of the volume with this name; `None` if nothing went there.
    pub fn finish(&self, volume: Option<String>) -> Option<VolumeMap> {
        let (first, last) = self.span?;
        let mut regions: Vec<Region> = (first..=last)
            .map(|region| Region { begin_bytes: region << self.shift, read_bytes: 0, written_bytes: 0 })
            .collect();
        let mut cells = Vec::new();
        for slice in 0..self.cells.len() / REGIONS_MAX {
            for (at, region) in regions.iter_mut().enumerate() {
                let [read_bytes, written_bytes] = self.cells[place(slice, first + at as u64)];
                if (read_bytes, written_bytes) != (0, 0) {
                    region.read_bytes = region.read_bytes.saturating_add(read_bytes);
                    region.written_bytes = region.written_bytes.saturating_add(written_bytes);
                    cells.push((slice, at, read_bytes, written_bytes));
                }
            }
        }
        Some(VolumeMap { volume, region_bytes: 1 << self.shift, regions, cells })
    }
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_lies_at_the_end_of_a_large_disk_is_not_one_region() {
        let mut regions = Regions::default();
        let end = 1 << 56;
        (1..=32).for_each(|back| regions.note(0, 1, end - (back << 20), end - (back << 20) + 4096));
        let map = regions.finish(None).unwrap();
        assert_eq!((map.region_bytes, map.regions.len(), map.cells.len()), (512 << 10, 63, 32));
        regions.note(0, 0, 0, 1);
        let map = regions.finish(None).unwrap();
        assert_eq!((map.region_bytes, map.regions.len(), map.cells.len()), (1 << 50, 64, 2));
        assert_eq!(map.regions[63], Region { begin_bytes: 63 << 50, read_bytes: 0, written_bytes: 32 << 12 });
    }

    proptest! {
        /// In any order, cells are the sums of a list of all bytes.
        #[test]
        fn cells_are_sums_of_a_list(
            steps in proptest::collection::vec((0_usize..5, 0_usize..2, 0_u64..1 << 50, 0_u32..50, 0_u64..1 << 22), 1..60),
            merges in 0_usize..3,
        ) {
            let mut regions = Regions::default();
            let steps: Vec<_> = steps.into_iter().map(|(slice, way, begin, shift, len)| (slice, way, begin >> shift, len)).collect();
            steps.iter().for_each(|&(slice, way, begin, len)| regions.note(slice, way, begin, begin + len));
            (0..merges).for_each(|_| regions.merge_slices());
            let Some(map) = regions.finish(None) else {
                prop_assert!(steps.iter().all(|step| step.3 == 0));
                return Ok(());
            };
            prop_assert!(map.regions.len() <= REGIONS_MAX);
            prop_assert!(map.region_bytes == 4096 || map.regions.len() > REGIONS_MAX / 2, "no longer than they must be");
            for (slice, at, read, written) in &map.cells {
                let begin = map.regions[*at].begin_bytes;
                let sum = |way: usize| steps.iter().filter(|step| step.0 >> merges == *slice && step.1 == way).map(|step| {
                    (step.2 + step.3).min(begin + map.region_bytes).saturating_sub(step.2.max(begin))
                }).sum::<u64>();
                prop_assert_eq!((sum(0), sum(1)), (*read, *written));
            }
            prop_assert_eq!(map.moved_bytes(), steps.iter().map(|step| step.3).sum::<u64>());
        }
    }
}
