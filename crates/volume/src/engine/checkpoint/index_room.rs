//! Room of the root for the index. A root lists each index page that has a leaf, and its area is as long as `create` made it: with more pages than fit, no
//! checkpoint could be written any more. So a leaf that would need one more page has no space.

use crate::engine::map::Map;
use crate::layout::root::{DiskRoot, INDEX_PAGE_BYTES, Root};
use crate::layout::superblock::Superblock;
use crate::map::frames::Frame;
use crate::map::index::Disk;
use forebay_block::DiskId;

/// How many index pages there may be.
#[derive(Debug, Default)]
pub(crate) struct IndexRoom {
    /// Bytes that a root has for disks and their index pages.
    bytes: u64,
    /// Index pages for which there is room beside the disks.
    pages_max: u64,
    /// Index pages that a future root may list.
    pages: u64,
    /// Something was discarded since a checkpoint began: after the next one there may be fewer pages.
    may_gain: bool,
}

/// Whether the leaf in a frame is changed, or about to be.
fn is_changed(frame: &Frame) -> bool {
    frame.dirty || frame.pins > 0
}

impl IndexRoom {
    /// For a pool whose roots have so many bytes of newer programs.
    pub fn new(superblock: &Superblock, kept_bytes: u64) -> Self {
        Self { bytes: Root::bytes_for_disks(superblock).saturating_sub(kept_bytes), ..Self::default() }
    }

    /// Index pages for which there is room beside these disks.
    pub fn pages_beside<'a>(&self, names: impl Iterator<Item = &'a str>) -> u64 {
        self.bytes.saturating_sub(names.map(DiskRoot::bytes_max).sum()) / INDEX_PAGE_BYTES
    }

    /// Index pages for which there is room beside the disks that there are.
    pub fn pages_max(&self) -> u64 {
        self.pages_max
    }

    /// Index pages that a future root may list.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Counts pages anew when a root is durable, or disks have changed. Pages that a root gives up count until it is durable, as a recovery before that would
    /// begin with them.
    pub fn count(&mut self, map: &mut Map) {
        self.pages_max = self.pages_beside(map.disks.values().map(|disk| disk.name.as_str()));
        let frames = &map.frames;
        let of_disk = |disk: &mut Disk| disk.count_room_in_root(|frame| is_changed(frames.get(frame)));
        self.pages = map.disks.values_mut().map(of_disk).sum();
    }

    /// Whether there is no room for the index page of a leaf.
    pub fn lacks(&self, map: &Map, disk: DiskId, leaf: u64) -> bool {
        self.is_full() && map.disk(disk).is_some_and(|disk| !disk.has_room_in_root(leaf))
    }

    /// Whether there is no room for another index page.
    pub fn is_full(&self) -> bool {
        self.pages >= self.pages_max
    }

    /// A leaf is about to be changed: room for its index page is taken from now on.
    pub fn take(&mut self, map: &mut Map, disk: DiskId, leaf: u64) {
        if let Some(disk) = map.disk_mut(disk) {
            self.pages += u64::from(disk.take_room_in_root(leaf));
        }
    }

    /// A block was discarded.
    pub fn discarded(&mut self) {
        self.may_gain = true;
    }

    /// A checkpoint begins.
    pub fn freeze(&mut self) {
        self.may_gain = false;
    }

    /// Whether a checkpoint may make room.
    pub fn may_gain(&self) -> bool {
        self.may_gain
    }
}
