//! What a disk lies over while it is adopted: a device of the user's with data. Blocks that the map does not name are read from it (docs/format.md,
//! "Bases of disks").

use super::codec::{Reader, Writer};

/// Most blocks of a base: those of the largest disk.
const BLOCKS_MAX: u64 = 1 << 46;

/// A base, as a root has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// Its length in blocks of 4 KiB, from the first block of the disk on.
    pub blocks: u64,
    /// Identifies the device; chosen by whoever opens it.
    pub identity: u64,
}

impl Base {
    /// Bytes of one.
    pub(super) const BYTES: u64 = 16;

    pub(super) fn put(&self, w: &mut Writer) {
        w.u64(self.blocks);
        w.u64(self.identity);
    }

    /// `None` where it is cut short.
    pub(super) fn take(r: &mut Reader<'_>) -> Option<Self> {
        Some(Self { blocks: r.u64()?, identity: r.u64()? })
    }

    /// Whether such a base is possible below a disk of this size.
    pub(super) fn is_possible(&self, size_bytes: u64) -> bool {
        (1..=BLOCKS_MAX).contains(&self.blocks) && self.blocks <= size_bytes.div_ceil(4096)
    }
}
