//! What fits into the group that a band is written in: blocks of the device before the pages that its summary will take.

use crate::layout::band_summary::BandShape;
use crate::layout::page::BLOCK_GRAINS;

/// Groups that are tried for one grant: one that has room for a block that is stored as it is and for none that is compressed, as its entries need
/// another page; the one behind it; and one of another band.
pub const GROUPS_TRIED: usize = 3;

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// So many blocks that are stored as they are.
    Whole(u32),
    /// Compressed blocks of these sizes in grains, one after the other.
    Packed(&'a [u8]),
}

/// Where writing into a group goes on.
#[derive(Clone, Copy, Debug)]
pub struct Frontier {
    /// The group.
    pub group: u32,
    /// The next block of the band.
    pub block: u32,
    /// Entries that its summary has, or that were promised to it.
    pub entries: usize,
}

impl Frontier {
    /// The frontier behind what was placed.
    #[must_use]
    pub fn behind(self, fit: Fit) -> Self {
        Self { block: self.block + fit.blocks, entries: self.entries + fit.entries, ..self }
    }

    /// The frontier at the end of the group, where nothing more fits.
    #[must_use]
    pub fn end(self, shape: BandShape) -> Self {
        Self { block: shape.summary_block(self.group), ..self }
    }
}

/// As much of what was wanted as fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Blocks of the device.
    pub blocks: u32,
    /// How many of the wanted blocks they hold.
    pub count: u32,
    /// Entries of the summary that these may take.
    pub entries: usize,
}

/// The first of what is wanted, as far as it fits; `None` where not even one does.
#[must_use]
pub fn fit(shape: BandShape, at: Frontier, wanted: Wanted<'_>) -> Option<Fit> {
    let has_room = |fit: &Fit| {
        let entries = at.entries + fit.entries;
        entries <= shape.entries_max(at.group) && at.block + fit.blocks <= shape.data_end(at.group, entries)
    };
    match wanted {
        Wanted::Whole(blocks) => {
            let most = blocks.min(shape.summary_block(at.group).saturating_sub(at.block));
            let each = (1..=most).rev().map(|blocks| Fit { blocks, count: blocks, entries: blocks as usize });
            each.into_iter().find(has_room)
        }
        Wanted::Packed(sizes) => {
            // One more entry for what lies behind the last block, to the end of the device's block.
            let each = (1u32..).zip(sizes).scan(0, |grains, (count, size)| {
                *grains += u64::from(*size);
                Some(Fit { blocks: grains.div_ceil(BLOCK_GRAINS) as u32, count, entries: count as usize + 1 })
            });
            each.take_while(has_room).last()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::band_summary::{ENTRIES_MAX, GROUP_BLOCKS, summary_pages};
    use proptest::prelude::*;

    const SHAPE: BandShape = BandShape::of_blocks(2 * GROUP_BLOCKS);

    proptest! {
        /// A group is filled with anything: its data ends before its summary, which has room for all entries, and next to nothing is lost.
        #[test]
        fn a_group_has_room_for_its_summary_whatever_it_is_filled_with(
            runs in prop::collection::vec((any::<bool>(), prop::collection::vec(1u8..127, 1..80)), 1..100),
        ) {
            let mut at = Frontier { group: 1, block: GROUP_BLOCKS, entries: 0 };
            for (is_packed, sizes) in runs {
                let wanted = if is_packed { Wanted::Packed(&sizes) } else { Wanted::Whole(sizes.len() as u32) };
                let Some(found) = fit(SHAPE, at, wanted) else {
                    prop_assert!(at.block + 2 + summary_pages(at.entries + 2) > 2 * GROUP_BLOCKS || at.entries + 2 > ENTRIES_MAX);
                    continue;
                };
                prop_assert!(found.count >= found.blocks && found.blocks > 0 && found.count as usize <= sizes.len());
                at = Frontier { block: at.block + found.blocks, entries: at.entries + found.entries, ..at };
                prop_assert!(at.entries <= ENTRIES_MAX);
                prop_assert!(at.block + summary_pages(at.entries) <= 2 * GROUP_BLOCKS);
            }
        }
    }

    #[test]
    fn blocks_that_are_stored_as_they_are_leave_one_page_for_the_summary() {
        let at = Frontier { group: 0, block: 0, entries: 0 };
        assert_eq!(fit(SHAPE, at, Wanted::Whole(100)), Some(Fit { blocks: 63, count: 63, entries: 63 }));
        assert_eq!(fit(SHAPE, Frontier { block: 63, entries: 63, ..at }, Wanted::Whole(1)), None);
        assert_eq!(fit(SHAPE, Frontier { block: 64, ..at }, Wanted::Whole(1)), None, "beyond its end");
    }

    #[test]
    fn a_group_holds_no_more_than_it_has_names_for() {
        let at = Frontier { group: 0, block: 0, entries: 0 };
        let tiny = fit(SHAPE, at, Wanted::Packed(&[1; 2000]));
        assert_eq!(tiny, Some(Fit { blocks: 8, count: 1007, entries: 1008 }));
        let behind = at.behind(tiny.unwrap());
        assert_eq!(fit(SHAPE, behind, Wanted::Packed(&[1])).or(fit(SHAPE, behind, Wanted::Whole(1))), None);
        let small = BandShape::of_blocks(4);
        assert_eq!(fit(small, at, Wanted::Packed(&[1; 2000])), Some(Fit { blocks: 1, count: 47, entries: 48 }));
    }

    #[test]
    fn a_group_holds_sixteen_times_as_many_of_small_compressed_blocks() {
        let at = Frontier { group: 0, block: 0, entries: 0 };
        let sizes = [8; 2000];
        assert_eq!(fit(SHAPE, at, Wanted::Packed(&sizes)), Some(Fit { blocks: 58, count: 928, entries: 929 }));
        let last = Frontier { block: 62, entries: 167, ..at };
        assert_eq!(fit(SHAPE, last, Wanted::Packed(&sizes)), None, "its entries would need another page");
        assert!(fit(SHAPE, last, Wanted::Whole(1)).is_some());
    }
}
