//! How blocks are stored, as records tell it.

use super::codec::{Reader, Writer};
use super::packed::STORED_MIN_SECTORS;
use super::page::{BLOCK_SECTORS, Span};

/// How a block is stored: what of that differs between places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Stored length in sectors.
    pub sectors: u8,
    /// Block checksum, which is of the stored bytes.
    pub checksum: u32,
}

impl Stored {
    /// Bytes of one in a record.
    pub(super) const BYTES: usize = 8;

    /// Of a block that is stored as it is.
    #[must_use]
    pub fn whole(checksum: u32) -> Self {
        Self { sectors: BLOCK_SECTORS as u8, checksum }
    }

    /// Whether the block is stored as it is.
    #[must_use]
    pub fn is_whole(self) -> bool {
        u64::from(self.sectors) == BLOCK_SECTORS
    }

    /// Whether a block can take so many sectors.
    pub(super) fn is_possible(sectors: u8) -> bool {
        (STORED_MIN_SECTORS as u8..=BLOCK_SECTORS as u8).contains(&sectors)
    }

    pub(super) fn put(self, out: &mut Writer) {
        out.u32(self.checksum);
        out.u8(self.sectors);
        out.u8(0);
        out.u16(0);
    }

    pub(super) fn take(r: &mut Reader<'_>) -> Option<Self> {
        let stored = Self { checksum: r.u32()?, sectors: r.u8()? };
        r.take(3)?;
        Self::is_possible(stored.sectors).then_some(stored)
    }
}

/// Places of blocks that are stored one behind the other from a location on.
pub fn places(location: u64, stored: &[Stored]) -> impl Iterator<Item = (Span, Stored)> {
    stored.iter().scan(location, |next, stored| {
        let span = Span { location: *next, sectors: stored.sectors };
        *next = span.end();
        Some((span, *stored))
    })
}
