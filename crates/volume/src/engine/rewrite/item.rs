//! Something on a device that is to be written again.

use crate::layout::packed::is_stored;
use crate::layout::page::{GRAIN_BYTES, PAGE_BYTES, PageName, Span, Window, is_leaf};
use crate::layout::stored::{Stored, places};
use crate::layout::tier_page::TierPage;
use forebay_block::checksum::block_checksum;
use forebay_block::{Buf, DiskId};

/// What should be on the device.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// A host's block.
    Block { disk: DiskId, block: u64, location: u64, checksum: u32 },
    /// Blocks of one write of which some are compressed, one behind the other from a location on, and nothing else.
    Packed { disk: DiskId, block: u64, location: u64, stored: Vec<Stored> },
    /// A leaf of the map.
    Leaf { name: PageName, crc: u32 },
    /// A page of the capacity tier's checkpoint.
    Tiers { disk: DiskId, number: u32, crc: u32 },
}

/// Something to be written again.
#[derive(Debug)]
pub(crate) struct Item {
    pub device: usize,
    pub offset_bytes: u64,
    pub content: Content,
    /// How often it was read and was wrong: one transfer may go wrong, or one copy.
    pub attempt: u8,
    /// A member of the mirror could not be read.
    pub is_unread: bool,
    /// What was read so far of a write of which some blocks are compressed: right where any reading was.
    best: Option<Buf>,
}

impl Item {
    pub fn new(device: usize, offset_bytes: u64, content: Content) -> Self {
        Self { device, offset_bytes, content, attempt: 0, is_unread: false, best: None }
    }

    /// What is known of it after another reading: one transfer may get one block wrong, and the next one another. What no reading had right is as the
    /// last one has it.
    pub fn merged(&mut self, read: Option<Buf>) -> Option<Buf> {
        let Content::Packed { disk, block, stored, .. } = &self.content else { return read };
        let (best, mut read) = match (self.best.take(), read) {
            (Some(best), Some(read)) => (best, read),
            (best, read) => return read.or(best),
        };
        for (block, (span, stored)) in (*block..).zip(places(0, stored)) {
            let right = Window::default().stored(span, &best);
            let right = right.filter(|bytes| is_stored(*disk, block, bytes, stored.checksum));
            let at = span.location as usize * GRAIN_BYTES;
            if let Some((right, place)) = right.and_then(|right| Some((right, read.get_mut(at..at + right.len())?))) {
                place.copy_from_slice(right);
            }
        }
        Some(read)
    }

    /// To be read again.
    pub fn again(self, is_unread: bool, best: Option<Buf>) -> Self {
        Self { attempt: self.attempt + 1, is_unread, best, ..self }
    }
}

impl Content {
    /// How many parts of it these bytes hold, and how many there are: blocks, or 1 for what is one thing.
    pub fn good_in(&self, bytes: &[u8]) -> (usize, usize) {
        let is_good = match self {
            Self::Block { disk, block, checksum, .. } => block_checksum(*disk, *block, bytes) == *checksum,
            Self::Packed { stored, .. } => return (stored.len() - self.blocks_not_in(bytes).len(), stored.len()),
            Self::Leaf { name, crc } => is_leaf(bytes, *name, *crc),
            Self::Tiers { disk, number, crc } => TierPage::decode(bytes, *disk, *number, *crc).is_some(),
        };
        (usize::from(is_good), 1)
    }

    /// The host's blocks of it that these bytes do not hold: number and location. Empty bytes hold none.
    pub fn blocks_not_in(&self, bytes: &[u8]) -> Vec<(u64, u64)> {
        match self {
            Self::Block { block, location, .. } if self.good_in(bytes).0 == 0 => vec![(*block, *location)],
            Self::Packed { disk, block, location, stored } => {
                let is_bad = |(block, (span, stored)): &(u64, (Span, Stored))| {
                    let bytes = Window::default().stored(*span, bytes);
                    bytes.is_none_or(|bytes| !is_stored(*disk, *block, bytes, stored.checksum))
                };
                let each = (*block..).zip(places(0, stored)).filter(is_bad);
                each.map(|(block, (span, _))| (block, location + span.location)).collect()
            }
            Self::Block { .. } | Self::Leaf { .. } | Self::Tiers { .. } => Vec::new(),
        }
    }

    /// Blocks of the device that it takes.
    pub fn device_blocks(&self) -> usize {
        self.len_bytes() / PAGE_BYTES
    }

    /// Bytes of the device that it takes.
    pub fn len_bytes(&self) -> usize {
        let Self::Packed { stored, .. } = self else { return PAGE_BYTES };
        let grains: usize = stored.iter().map(|stored| usize::from(stored.grains)).sum();
        (grains * GRAIN_BYTES).next_multiple_of(PAGE_BYTES)
    }
}
