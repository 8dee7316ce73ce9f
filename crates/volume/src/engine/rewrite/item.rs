//! What lies on a device and is to be written again.

use crate::layout::Id;
use crate::layout::band_summary::{self, SummaryName};
use crate::layout::page::{PageName, is_leaf};
use crate::layout::tier_page::TierPage;
use forebay_block::DiskId;
use forebay_block::checksum::block_checksum;

/// What 4 KiB on a device should be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// A host's block.
    Block { disk: DiskId, block: u64, checksum: u32 },
    /// A leaf of the map.
    Leaf { name: PageName, crc: u32 },
    /// A page of the capacity tier's checkpoint.
    Tiers { disk: DiskId, number: u32, crc: u32 },
    /// The summary of a group.
    Summary { name: SummaryName, group_sectors: u32 },
}

/// Something to be written again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub device: usize,
    pub offset_bytes: u64,
    pub content: Content,
    /// It was read once and was not what it should be: one transfer may go wrong.
    pub is_again: bool,
}

impl Item {
    pub fn new(device: usize, offset_bytes: u64, content: Content) -> Self {
        Self { device, offset_bytes, content, is_again: false }
    }
}

impl Content {
    /// Whether it is what these bytes are.
    pub fn is_in(&self, bytes: &[u8], pool: &Id) -> bool {
        match *self {
            Self::Block { disk, block, checksum } => block_checksum(disk, block, bytes) == checksum,
            Self::Leaf { name, crc } => is_leaf(bytes, name, crc),
            Self::Tiers { disk, number, crc } => TierPage::decode(bytes, disk, number, crc).is_some(),
            Self::Summary { name, group_sectors } => band_summary::decode(pool, name, group_sectors, bytes).is_some(),
        }
    }
}
