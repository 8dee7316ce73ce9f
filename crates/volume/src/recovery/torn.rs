//! Which rows of a capacity tier with parity a power cut may have torn, beyond the rows that its log names.
//!
//! A row is written either whole with its parity, by one request, or in parts; then the log keeps what was there before until the whole row
//! is durable (docs/format.md, "Parity"). So where the log has nothing of a row any more, either the whole row is as it was written, or
//! nothing of it was ever known to be durable. Only in the second case parity is made anew from what lies there. In any other row a
//! mismatch means damage beyond what recovery writes again, and parity may be the only thing by which the damaged block can be restored.

use crate::engine::Setup;
use crate::layout::array_shape::{Area, Shape};
use crate::layout::band_summary::{BandShape, SUMMARY_PAGES_MAX, placed};
use crate::layout::page::BLOCK_GRAINS;
use crate::layout::record::Record;
use crate::layout::root::{BandState, Root};
use crate::runs::Runs;
use crate::space::extents::Extents;
use std::collections::VecDeque;
use std::ops::Range;

/// Data in bands that records name, in grains of the pool.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// By batch, until a later header proves it durable: bounded by what is not flushed.
    waiting: VecDeque<(u64, Range<u64>)>,
    durable: Runs,
    /// Data that was in flight when the root was written, or whose batch is not known to be durable.
    not_known: Runs,
    /// Records found of changes that were in flight when the root was written.
    unapplied: usize,
}

impl Recorded {
    /// A record was found that the root's map lacks.
    pub fn found(&mut self, sequence: u64, root: &Root) {
        self.unapplied += usize::from(sequence < root.next_sequence);
    }

    /// A record of a batch names data in a band.
    pub fn add(&mut self, batch: u64, (location, grains): (u64, u64)) {
        self.waiting.push_back((batch, location..location + grains));
    }

    /// Takes batches up to this one as durable.
    pub fn mark_durable_to(&mut self, durable: u64) {
        while let Some((_, data)) = self.waiting.pop_front_if(|(batch, _)| *batch <= durable) {
            self.durable.add(data);
        }
    }

    /// Ends the survey: says which of the other batches are durable, and adds what was in flight when the root was written.
    pub fn end(&mut self, is_durable: impl Fn(u64) -> bool, root: &Root, extents: &Extents, shape: BandShape) {
        for (batch, data) in std::mem::take(&mut self.waiting) {
            if is_durable(batch) { self.durable.add(data) } else { self.not_known.add(data) }
        }
        for (band, group, entries) in &root.open_groups {
            let first = extents.band_location(*band, shape.first_block(*group));
            for (at, entry) in placed(entries).filter(|(_, entry)| root.must_apply(entry.origin)) {
                let at = first + u64::from(at);
                self.not_known.add(at..at + u64::from(entry.grains));
            }
        }
    }

    /// Whether a block is known to be durable. `is_of_root`: it lies before what the root has as written; `is_complete`: so does its whole group. Of a
    /// complete group the root does not say what was in flight: where not all records of that were found, it may be any of its blocks.
    fn was_durable(&self, block: Range<u64>, root: &Root, is_of_root: bool, is_complete: bool) -> bool {
        let may_be_lost = self.not_known.meets(block.clone()) || is_complete && self.unapplied < root.unapplied.len();
        self.durable.meets(block) || is_of_root && !may_be_lost
    }
}

/// Adds to `torn` the rows of which nothing is known to be durable, among those that a record names or that hold the summary of its group.
pub(super) fn rows(
    shape: &Shape,
    setup: &Setup,
    (recorded, root): (&Recorded, &Root),
    record: &Record,
    torn: &mut Runs,
) -> Option<()> {
    let (Record::Write { generation, .. } | Record::Move { generation, .. }) = record else { return None };
    let (location, grains) = record.data()?;
    let (band, block) = setup.extents.band(location)?;
    let bands = BandShape::new(setup.superblock.band_bytes);
    let summary = bands.summary_block(bands.group_of(block));
    let end = setup.extents.band(location + grains.checked_sub(1)?)?.1 + 1;
    let of_root = root.bands.get(band as usize);
    let of_root = of_root.filter(|it| it.state != BandState::Free && it.generation as u16 == *generation);
    let front = of_root.map_or(0, |band| band.frontier());
    let was_durable = |block: u32| {
        let at = setup.extents.band_location(band, block);
        let is_of = |(of_band, group): (u32, u32)| of_band == band && group == bands.group_of(block);
        let is_open = root.open_groups.iter().any(|(band, group, _)| is_of((*band, *group)));
        recorded.was_durable(at..at + BLOCK_GRAINS, root, block < front, !is_open)
    };
    let data = shape.data as u32;
    let (_, at) = setup.extents.place(setup.extents.band_location(band, 0))?;
    let Area::Rows(at) = shape.area(at, 1)? else { return None };
    let first_row = at / shape.row_bytes();
    let rows = [block..end, summary.saturating_sub(SUMMARY_PAGES_MAX - 1).max(block)..summary + 1];
    for row in rows.into_iter().flat_map(|blocks| blocks.start / data..blocks.end.div_ceil(data)) {
        if !(row * data..(row + 1) * data).any(was_durable) {
            let row = first_row + u64::from(row);
            torn.add(row..row + 1);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change was in flight when the root was written, which had its group as complete, and its record was lost at the power cut. Another one with a part
    /// of the same row was found: the row counted as durable, and its parity, which had not arrived, was not made anew.
    #[test]
    fn regression_groups_that_a_lost_change_completed_are_not_known_to_be_durable() {
        let root = Root { next_sequence: 50, unapplied: vec![3, 7], ..Root::default() };
        let surveyed = |found: &[u64]| {
            let mut recorded = Recorded::default();
            found.iter().for_each(|&sequence| recorded.found(sequence, &root));
            recorded
        };
        let beside = 0..128;
        assert!(!surveyed(&[7, 50]).was_durable(beside.clone(), &root, true, true), "3 may have written it");
        assert!(
            surveyed(&[7, 50]).was_durable(beside.clone(), &root, true, false),
            "the root says when it was written"
        );
        assert!(surveyed(&[3, 7, 51]).was_durable(beside, &root, true, true), "all were found");
    }
}
