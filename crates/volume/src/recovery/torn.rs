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
}

impl Recorded {
    /// A record of a batch names data in a band.
    pub fn add(&mut self, batch: u64, (location, grains): (u64, u64)) {
        self.waiting.push_back((batch, location..location + grains));
    }

    /// Takes batches up to this one as durable.
    pub fn is_durable_to(&mut self, durable: u64) {
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
        let grains = at..at + BLOCK_GRAINS;
        recorded.durable.meets(grains.clone()) || block < front && !recorded.not_known.meets(grains)
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
