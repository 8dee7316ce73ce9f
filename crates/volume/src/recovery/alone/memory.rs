//! How much memory the map takes while it is put together.

use super::error::AloneError;
use crate::layout::page::{LEAF_ENTRIES, PAGE_BYTES};

/// Memory of a leaf in bytes before a block of it is found, and after.
pub(super) const BARE_LEAF_BYTES: u64 = 320;
pub(super) const FULL_LEAF_BYTES: u64 = (PAGE_BYTES + LEAF_ENTRIES * 8) as u64 + BARE_LEAF_BYTES;
pub(super) const CANDIDATE_BYTES: u64 = 96;

/// Account of the memory in use.
pub(super) struct Memory {
    used_bytes: u64,
    /// The part of `used_bytes` that holds copies for resolving doubtful leaves.
    copies_bytes: u64,
    /// What the leaves listed by tier pages will take once their blocks are found.
    expected_bytes: u64,
    limit_bytes: u64,
}

impl Memory {
    pub fn new(limit_bytes: u64) -> Self {
        Self { used_bytes: 0, copies_bytes: 0, expected_bytes: 0, limit_bytes }
    }

    /// Counts memory that is about to be used.
    pub fn take(&mut self, bytes: u64) -> Result<(), AloneError> {
        self.used_bytes = self.used_bytes.saturating_add(bytes);
        self.check()
    }

    /// Whether what is used, and what is known to be needed, fits.
    pub fn check(&self) -> Result<(), AloneError> {
        let needed_bytes = self.used_bytes.max(self.expected_bytes);
        if needed_bytes > self.limit_bytes {
            return Err(AloneError::Memory { share_bytes: self.limit_bytes, needed_bytes });
        }
        Ok(())
    }

    /// Counts a leaf that a tier page lists; false where it does not fit. The rest is counted nevertheless, so that the refusal can say how
    /// much memory the map takes.
    pub fn expect_leaf(&mut self, has_blocks: bool) -> bool {
        self.expected_bytes += if has_blocks { FULL_LEAF_BYTES } else { BARE_LEAF_BYTES };
        let fits = self.expected_bytes <= self.limit_bytes;
        self.used_bytes += if fits { BARE_LEAF_BYTES } else { 0 };
        fits
    }

    /// Takes memory for a copy of a block of a doubtful leaf; false where none is left: the leaf then stays uncertain.
    pub fn take_copy(&mut self) -> bool {
        let has_room = self.used_bytes.saturating_add(2 * CANDIDATE_BYTES) <= self.limit_bytes;
        if has_room {
            self.used_bytes += 2 * CANDIDATE_BYTES;
            self.copies_bytes += 2 * CANDIDATE_BYTES;
        }
        has_room
    }

    /// Frees the memory of the copies, which are not needed any more.
    pub fn give_copies_back(&mut self) {
        self.used_bytes -= std::mem::take(&mut self.copies_bytes);
    }
}
