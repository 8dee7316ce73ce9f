//! Blocks that move, as records name them.

use super::band_summary::SummaryEntry;
use super::codec::{COUNTER_LIMIT, Reader, Writer};
use super::page::{LEAF_ENTRIES, Span};
use super::stored::Stored;
use forebay_block::{ClassId, DiskId};

/// Most blocks that a record can move, or find damaged.
pub const MOVED_MAX: usize = 128;
/// Block numbers are below this.
pub(super) const BLOCKS_MAX: u64 = 1 << 48;

/// A block that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its disk.
    pub disk: DiskId,
    /// Its address.
    pub block: u64,
    /// Where it was.
    pub source: Span,
    /// Orders it among all copies of the block (docs/format.md, "Origins").
    pub origin: u64,
    /// Its block checksum there, where it was.
    pub checksum: u32,
    /// How it is stored at its destination.
    pub stored: Stored,
    /// Its class.
    pub class: ClassId,
    /// What the policy of lifetime groups noted, plus 1; 0: nothing.
    pub note: u8,
}

impl Moved {
    /// Disk and number of the map leaf that the block is mapped through.
    #[must_use]
    pub fn leaf(&self) -> (DiskId, u64) {
        (self.disk, self.block / LEAF_ENTRIES as u64)
    }

    /// Bytes of one in a record that stores blocks as they were.
    pub const BYTES: usize = 32;

    /// How it was stored at its source.
    #[must_use]
    pub fn as_it_was(&self) -> Stored {
        Stored { grains: self.source.grains, checksum: self.checksum }
    }

    /// Its entry in the summary at the destination.
    #[must_use]
    pub fn summary_entry(&self) -> SummaryEntry {
        let Self { disk, block, origin, class, note, stored: Stored { grains, checksum }, .. } = *self;
        SummaryEntry { disk, class, note, grains: grains.into(), checksum, block, origin }
    }

    pub(super) fn put(&self, out: &mut Writer) {
        out.u64(u64::from(self.disk.0) << 48 | self.block);
        out.u64(self.source.pack());
        out.u64(self.origin);
        out.u32(self.checksum);
        out.u8(self.class.0);
        out.u8(self.note);
        out.u16(0);
    }

    pub(super) fn take_list(r: &mut Reader<'_>, count: u32, is_packed: bool) -> Option<Vec<Self>> {
        if !(1..=MOVED_MAX as u32).contains(&count) {
            return None;
        }
        let bytes_each = Self::BYTES + if is_packed { Stored::BYTES } else { 0 };
        let mut list = Reader::new(r.take(count as usize * bytes_each)?);
        let mut blocks = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let address = list.u64()?;
            let span = Span::unpack(list.u64()?)?;
            let (origin, checksum, class, note) = (list.u64()?, list.u32()?, ClassId(list.u8()?), list.u8()?);
            list.u16()?;
            let as_it_was = Stored { grains: span.grains, checksum };
            let stored = if is_packed { Stored::take(&mut list)? } else { as_it_was };
            let moved = Self {
                disk: DiskId((address >> 48) as u16),
                block: address & (BLOCKS_MAX - 1),
                source: span,
                origin,
                checksum,
                stored,
                class,
                note,
            };
            if !as_it_was.is_possible() || usize::from(moved.class.0) >= ClassId::LIMIT || moved.origin >= COUNTER_LIMIT
            {
                return None;
            }
            blocks.push(moved);
        }
        Some(blocks)
    }
}

/// Blocks that move to a run from a location on, each with its destination.
pub fn destinations(location: u64, moved: &[Moved]) -> impl Iterator<Item = (u64, &Moved)> {
    moved.iter().scan(location, |next, moved| {
        let at = *next;
        *next += u64::from(moved.stored.grains);
        Some((at, moved))
    })
}

/// Whether some of these are stored otherwise than at their source.
pub(super) fn is_packed(moved: &[Moved]) -> bool {
    moved.iter().any(|moved| moved.stored != moved.as_it_was())
}
