//! The requests that steps are made of, and the blocks that they go to.

use crate::order::{Hold, Region, What};
use crate::scenario::shape::Shape;
use crate::scenario::step::{LEAF_BLOCKS, Step};
use forebay_block::Random;

/// Class of an export whose data goes to the capacity tier.
pub(super) const BULK: Option<u8> = Some(5);
/// Class of an export whose data stays on the fast tier.
pub(super) const PINNED: Option<u8> = Some(1);

/// A block, more often one of a few that are hot; and the blocks from it to the end of its leaf's working set.
pub(super) fn block(shape: &Shape, random: &mut Random) -> (u64, u64) {
    let leaf = if random.chance(1, 2) { random.below(2).min(shape.leaves - 1) } else { random.below(shape.leaves) };
    let hot = (shape.blocks / 3).max(1);
    let within = if random.chance(3, 4) { random.below(hot) } else { random.below(shape.blocks) };
    (leaf * LEAF_BLOCKS + within, shape.blocks - within)
}

/// Whole blocks are written.
pub(super) fn write(block: u64, blocks: u64, fua: bool, class: Option<u8>) -> Step {
    Step::Write { sector: block * 8, sectors: blocks * 8, fua, class, zeros: false }
}

/// From now on so many requests of one kind are held back.
pub(super) fn hold_now(device: usize, what: What, region: Region, count: u32, hold_ns: u64) -> Step {
    Step::Hold(Hold { device, what, region: Some(region), skip: 0, count, hold_ns, is_early: false })
}
