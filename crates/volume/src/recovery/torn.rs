//! Which rows of a capacity tier with parity a power cut may have torn, beyond those of which its log has something.
//!
//! A row is written whole with its parity at once, by one request, or in parts, and then the log has what was there before until all of the row is durable
//! (docs/format.md, "Parity"). So of a row of which the log has nothing any more either all is as it was written, or nothing of it was ever known to be
//! durable. Parity of the latter alone is made anew of what lies there. In any other something is wrong beside what is written again, and its parity may be all
//! that this can be restored by.

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

/// What records say of data in bands, by grains of the pool.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// By batch, so that it is known of what a later header proves durable: bounded by what is not flushed.
    waiting: VecDeque<(u64, Range<u64>)>,
    durable: Runs,
    /// It was in flight when the root was written, or its batch is not known to be durable.
    not_known: Runs,
}

impl Recorded {
    /// A record of a batch names data in a band.
    pub fn add(&mut self, batch: u64, (location, grains): (u64, u64)) {
        self.waiting.push_back((batch, location..location + grains));
    }

    /// Batches up to this one are durable.
    pub fn is_durable_to(&mut self, durable: u64) {
        while let Some((_, data)) = self.waiting.pop_front_if(|(batch, _)| *batch <= durable) {
            self.durable.add(data);
        }
    }

    /// All was read: which of the other batches are durable, and what was in flight when the root was written.
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

/// Rows, of those that a record names or that have the summary of its group, of which nothing is known to be durable.
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
