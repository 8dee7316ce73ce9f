//! How far each band was written: beyond that nothing lives, and writes there need no care for what was there before.

use crate::layout::array_shape::Shape;

/// One number for each band: blocks of data from its start.
#[derive(Debug)]
pub(super) struct Fronts {
    blocks: Vec<u32>,
    band_rows: u64,
    data: usize,
}

impl Fronts {
    /// In a new array nothing lives; in one that was opened anything may, until [`Self::set`] says more.
    pub fn new(shape: &Shape, is_new: bool) -> Self {
        let bands = shape.rows() / shape.band_rows();
        let front = if is_new { 0 } else { u32::MAX };
        Self { blocks: vec![front; bands as usize], band_rows: shape.band_rows(), data: shape.data }
    }

    /// Sets what the engine knows.
    pub fn set(&mut self, blocks: Vec<u32>) {
        self.blocks.iter_mut().zip(blocks).for_each(|(front, blocks)| *front = blocks);
    }

    /// One bit for each block of data of a row that may live.
    pub fn living(&self, row: u64) -> u32 {
        let front = self.blocks.get((row / self.band_rows) as usize).copied().unwrap_or(u32::MAX);
        let before = row % self.band_rows * self.data as u64;
        let living = u64::from(front).saturating_sub(before).min(self.data as u64);
        (1u32 << living) - 1
    }

    /// Notes that `blocks` blocks were written, from block `at` of a row on.
    pub fn written(&mut self, mut row: u64, at: u64, mut blocks: u64) {
        let mut from = at;
        while blocks > 0 {
            let left = (self.band_rows - row % self.band_rows) * self.data as u64 - from;
            let here = blocks.min(left);
            let end = row % self.band_rows * self.data as u64 + from + here;
            if let Some(front) = self.blocks.get_mut((row / self.band_rows) as usize) {
                *front = (*front).max(u32::try_from(end).unwrap_or(u32::MAX));
            }
            blocks -= here;
            row = (row / self.band_rows + 1) * self.band_rows;
            from = 0;
        }
    }

    /// Notes that nothing lives in these rows any more; only whole bands count.
    pub fn discarded(&mut self, rows: std::ops::Range<u64>) {
        for band in rows.start.div_ceil(self.band_rows)..rows.end / self.band_rows {
            if let Some(front) = self.blocks.get_mut(band as usize) {
                *front = 0;
            }
        }
    }

    /// The first row from this one on in which something may live.
    pub fn next_living(&self, mut row: u64, rows: u64) -> Option<u64> {
        while row < rows {
            if self.living(row) != 0 {
                return Some(row);
            }
            row = (row / self.band_rows + 1) * self.band_rows;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_lives_until_its_band_is_discarded() {
        let shape = Shape {
            data: 3,
            parity: 1,
            member_bytes: 8 << 20,
            head_bytes: 1 << 20,
            band_bytes: 3 * 4096 * 10,
            log_slots: 64,
        };
        let mut fronts = Fronts::new(&shape, true);
        assert_eq!((fronts.living(0), fronts.next_living(0, 100)), (0, None));
        fronts.written(8, 1, 9);
        assert_eq!([8, 9, 10, 11].map(|row| fronts.living(row)), [0b111, 0b111, 0b111, 0b1]);
        assert_eq!(fronts.next_living(12, 100), None);
        assert_eq!(fronts.next_living(3, 100), Some(3));
        fronts.discarded(0..10);
        assert_eq!([0, 9, 10].map(|row| fronts.living(row)), [0, 0, 0b111]);
        assert_eq!(fronts.next_living(0, 100), Some(10));
        assert_eq!(Fronts::new(&shape, false).living(20), 0b111);
    }
}
