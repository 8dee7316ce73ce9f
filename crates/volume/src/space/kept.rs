//! Free bands that hosts do not get, as garbage collection may need them.

use super::spare::Spare;

/// What collections in progress need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Blocks that live in the bands in collection: if hosts took space for them, none of these bands might ever be empty.
    pub in_collection_blocks: u64,
    /// How much more compressed blocks may take where they are moved; `None`: there are none.
    pub packed: Option<Spare>,
}

impl Kept {
    /// How many bands of so many data blocks are kept: one at least, and enough for what collections in progress move and what does not fit into the
    /// bands that are open for it.
    #[must_use]
    pub fn bands(&self, left_in_open_blocks: u64, data_blocks: u32) -> usize {
        let missing = self.in_collection_blocks.saturating_sub(left_in_open_blocks);
        let least = if self.packed.is_some() { 2 } else { 1 };
        usize::try_from(missing.div_ceil(u64::from(data_blocks))).unwrap_or(usize::MAX).max(least)
    }
}
