//! How blocks are stored, as records say it.

use super::codec::{Reader, Writer};
use super::page::{BLOCK_GRAINS, CHECKSUM_BITS, Span};

/// How a block is stored, as far as it differs between places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Stored length in grains.
    pub grains: u8,
    /// Block checksum, computed over the stored bytes.
    pub checksum: u32,
}

impl Stored {
    /// Bytes of one in a record.
    pub(super) const BYTES: usize = 8;

    /// Of a block that is stored as it is.
    #[must_use]
    pub fn whole(checksum: u32) -> Self {
        Self { grains: BLOCK_GRAINS as u8, checksum }
    }

    /// Whether the block is stored as it is.
    #[must_use]
    pub fn is_whole(self) -> bool {
        u64::from(self.grains) == BLOCK_GRAINS
    }

    /// Whether a block can be stored in this way.
    pub(super) fn is_possible(self) -> bool {
        (1..=BLOCK_GRAINS as u8).contains(&self.grains) && (self.is_whole() || self.checksum >> CHECKSUM_BITS == 0)
    }

    pub(super) fn put(self, out: &mut Writer) {
        out.u32(self.checksum);
        out.u8(self.grains);
        out.u8(0);
        out.u16(0);
    }

    pub(super) fn take(r: &mut Reader<'_>) -> Option<Self> {
        let stored = Self { checksum: r.u32()?, grains: r.u8()? };
        r.take(3)?;
        stored.is_possible().then_some(stored)
    }
}

/// Places of blocks that are stored one after the other from a location on.
pub fn places(location: u64, stored: &[Stored]) -> impl Iterator<Item = (Span, Stored)> {
    stored.iter().scan(location, |next, stored| {
        let span = Span { location: *next, grains: stored.grains };
        *next = span.end();
        Some((span, *stored))
    })
}
