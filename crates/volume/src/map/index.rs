//! Disks and their index pages. The index is always resident (about 21 bytes for each 1.6 MB mapped); leaves are not.

use crate::layout::base::Base;
use crate::layout::page::{INDEX_ENTRIES, LEAF_ENTRIES, PageRef};
use forebay_block::DiskId;

/// No frame.
pub const NO_FRAME: u32 = u32::MAX;

/// 250 references to leaves.
#[derive(Clone, Debug)]
pub struct IndexPage {
    references: Vec<PageRef>,
    frames: Vec<u32>,
    /// Changed since it was written.
    pub dirty: bool,
    /// Its counts of blocks that may be destaged differ from those on the device: the next checkpoint writes them.
    counted: bool,
    /// Leaves that are on the device or resident.
    leaves: u16,
    /// Leaves that are on the device.
    stored: u16,
    /// The next root has room for this page.
    has_room: bool,
    /// Where it was last written.
    pub reference: PageRef,
}

impl IndexPage {
    /// A page of these references, as read from the device (or none).
    #[must_use]
    pub fn new(mut references: Vec<PageRef>, reference: PageRef) -> Self {
        references.resize(INDEX_ENTRIES, PageRef::default());
        let leaves = references.iter().filter(|reference| reference.location != 0).count() as u16;
        Self {
            references,
            frames: vec![NO_FRAME; INDEX_ENTRIES],
            dirty: false,
            counted: false,
            leaves,
            stored: leaves,
            has_room: reference.location != 0,
            reference,
        }
    }

    /// The references, for writing the page.
    #[must_use]
    pub fn references(&self) -> &[PageRef] {
        &self.references
    }

    /// Whether nothing is mapped through this page, on the device or in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leaves == 0
    }

    /// Whether no leaf below it is on the device.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.stored == 0
    }

    /// Whether a coming root may have to list it: it is listed, has leaves on the device, or has a leaf in a frame for which `is_needed` holds.
    fn may_be_listed(&self, is_needed: impl Fn(u32) -> bool) -> bool {
        let in_frames = || self.frames.iter().any(|&frame| frame != NO_FRAME && is_needed(frame));
        self.reference.location != 0 || self.stored > 0 || in_frames()
    }

    fn is_stored(&self, at: usize) -> bool {
        self.references[at].location != 0
    }

    fn has(&self, at: usize) -> bool {
        self.is_stored(at) || self.frames[at] != NO_FRAME
    }

    /// Changes one leaf's reference and frame, and keeps the counts in step.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut PageRef, &mut u32)) {
        let before = (u16::from(self.has(at)), u16::from(self.is_stored(at)));
        change(&mut self.references[at], &mut self.frames[at]);
        self.leaves = self.leaves - before.0 + u16::from(self.has(at));
        self.stored = self.stored - before.1 + u16::from(self.is_stored(at));
    }
}

/// A thin disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Id.
    pub id: DiskId,
    /// Name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Size by a durable root, in bytes: what lies beyond it would be gone after a power cut, with everything that was written there.
    pub durable_bytes: u64,
    /// The base that it lies over: blocks that the map does not name are read there.
    pub base: Option<Base>,
    /// It does not need the base any more, but the durable root does not say so yet.
    pub leaves_base: bool,
    /// Index pages that exist.
    pub pages: Vec<Option<Box<IndexPage>>>,
}

/// Bytes of one disk that an index page maps.
pub const INDEX_SPAN_BYTES: u64 = (LEAF_ENTRIES * INDEX_ENTRIES * 4096) as u64;

/// Memory for the index of a disk of `size_bytes` when every page exists, in bytes.
#[must_use]
pub fn index_memory_bytes(size_bytes: u64) -> u64 {
    let page = (INDEX_ENTRIES * (size_of::<PageRef>() + 4) + size_of::<IndexPage>()) as u64;
    size_bytes.div_ceil(INDEX_SPAN_BYTES) * page
}

fn split(leaf: u64) -> (usize, usize) {
    ((leaf / INDEX_ENTRIES as u64) as usize, (leaf % INDEX_ENTRIES as u64) as usize)
}

/// What a disk that is being removed has behind its former name. No disk can be added or exported under such a name.
const REMOVED: &str = "~removed-";

impl Disk {
    /// Whether its removal was begun.
    #[must_use]
    pub fn is_being_removed(&self) -> bool {
        self.name.contains(REMOVED)
    }

    /// The name of a disk once its removal has begun; with its id, as two disks may have had the same name.
    pub(crate) fn name_of_removed(&self, name: &str) -> String {
        format!("{name}{REMOVED}{}", self.id.0)
    }

    /// Bytes that hosts may use: of a disk that was added or has grown, those that a durable root knows of.
    #[must_use]
    pub fn served_bytes(&self) -> u64 {
        self.size_bytes.min(self.durable_bytes)
    }

    /// Blocks, from the first on, that are read from its base where the map names nothing for them.
    #[must_use]
    pub fn base_blocks(&self) -> u64 {
        self.base.map_or(0, |base| base.blocks)
    }

    /// The base that the next root says.
    #[must_use]
    pub fn base_for_root(&self) -> Option<Base> {
        self.base.filter(|_| !self.leaves_base)
    }

    /// A root is durable that has this size for the disk, and says whether it lies over a base.
    pub fn note_durable_root(&mut self, size_bytes: u64, has_base: bool) {
        self.durable_bytes = size_bytes;
        if self.leaves_base && !has_base {
            (self.base, self.leaves_base) = (None, false);
        }
    }

    /// An empty disk that no durable root knows of.
    #[must_use]
    pub fn new(id: DiskId, name: String, size_bytes: u64) -> Self {
        let mut disk =
            Self { id, name, size_bytes, durable_bytes: 0, base: None, leaves_base: false, pages: Vec::new() };
        disk.resize(size_bytes);
        disk
    }

    /// Changes the size; pages beyond a smaller end must be empty already.
    pub fn resize(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
        // What a shrink gave up is served again only when a root says so: a root with the smaller size may be in progress.
        self.durable_bytes = self.durable_bytes.min(size_bytes);
        self.pages.resize(size_bytes.div_ceil(INDEX_SPAN_BYTES) as usize, None);
    }

    /// Leaves for which the disk could still come to need a page: none is on the device.
    #[must_use]
    pub fn leaves_missing(&self) -> u64 {
        let stored: u64 = self.pages.iter().flatten().map(|page| u64::from(page.stored)).sum();
        self.blocks().div_ceil(LEAF_ENTRIES as u64).saturating_sub(stored)
    }

    /// Leaves that are on the device or resident. They are counted as they come and go, as a status asks for them each second.
    #[must_use]
    pub fn leaves(&self) -> u64 {
        self.pages.iter().flatten().map(|page| u64::from(page.leaves)).sum()
    }

    /// Number of 4 KiB blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.size_bytes.div_ceil(4096)
    }

    /// Index page of a leaf, and its place there.
    #[must_use]
    pub fn place_of(leaf: u64) -> (usize, usize) {
        split(leaf)
    }

    /// Reference and frame of a leaf.
    #[must_use]
    pub fn leaf(&self, leaf: u64) -> (PageRef, u32) {
        let (page, at) = split(leaf);
        match self.pages.get(page) {
            Some(Some(page)) => (page.references[at], page.frames[at]),
            _ => (PageRef::default(), NO_FRAME),
        }
    }

    /// Frame of a leaf, for the data path.
    #[must_use]
    pub fn frame(&self, leaf: u64) -> u32 {
        let (page, at) = split(leaf);
        match self.pages.get(page) {
            Some(Some(page)) => page.frames[at],
            _ => NO_FRAME,
        }
    }

    fn page_mut(&mut self, leaf: u64) -> (&mut IndexPage, usize) {
        let (page, at) = split(leaf);
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new(IndexPage::new(Vec::new(), PageRef::default())));
        (page, at)
    }

    /// Notes where a leaf is resident.
    pub fn set_frame(&mut self, leaf: u64, frame: u32) {
        let (page, at) = self.page_mut(leaf);
        page.change(at, |_, resident| *resident = frame);
    }

    /// Notes where a leaf was written; the index page becomes dirty.
    pub fn set_reference(&mut self, leaf: u64, reference: PageRef) {
        let (page, at) = self.page_mut(leaf);
        page.change(at, |written, _| *written = reference);
        page.dirty = true;
    }

    /// Changes the destage hint of a leaf in memory; it reaches the device with the leaf's next write, or with the next
    /// checkpoint.
    pub fn set_stageable(&mut self, leaf: u64, blocks: u16) {
        let (page, at) = self.page_mut(leaf);
        page.counted |= page.references[at].stageable != blocks;
        page.references[at].stageable = blocks;
    }

    /// Has the next checkpoint write an index page, whatever has changed below it.
    pub fn write_page_anew(&mut self, page: usize) {
        self.pages.get_mut(page).and_then(Option::as_mut).into_iter().for_each(|page| page.counted = true);
    }

    /// A checkpoint begins, and writes what was counted. What is counted from now on waits for the next one, as a checkpoint has slots only for the
    /// pages that are dirty when it begins.
    pub fn take_counts(&mut self) {
        for page in self.pages.iter_mut().flatten() {
            let is_listed_in_vain = page.is_bare() && page.reference.location != 0;
            page.dirty |= std::mem::take(&mut page.counted) || is_listed_in_vain;
        }
    }

    /// Whether the next root has room for the index page of a leaf.
    #[must_use]
    pub fn has_room_in_root(&self, leaf: u64) -> bool {
        matches!(self.pages.get(split(leaf).0), Some(Some(page)) if page.has_room)
    }

    /// Notes that it has from now on; false where it had already.
    pub fn take_room_in_root(&mut self, leaf: u64) -> bool {
        !std::mem::replace(&mut self.page_mut(leaf).0.has_room, true)
    }

    /// Counts anew for which index pages the next root has to have room; returns how many. `is_needed`: whether the leaf in a frame is changed, or
    /// about to be.
    pub fn count_room_in_root(&mut self, is_needed: impl Fn(u32) -> bool) -> u64 {
        let pages = self.pages.iter_mut().flatten();
        let counted = pages.filter_map(|page| {
            page.has_room = page.may_be_listed(&is_needed);
            page.has_room.then_some(())
        });
        counted.count() as u64
    }

    /// The next leaf from `from` on that is on the device or resident.
    #[must_use]
    pub fn next_leaf(&self, from: u64) -> Option<u64> {
        let (mut page, mut at) = split(from);
        while page < self.pages.len() {
            if let Some(index) = &self.pages[page] {
                while at < INDEX_ENTRIES {
                    if index.has(at) {
                        return Some((page * INDEX_ENTRIES + at) as u64);
                    }
                    at += 1;
                }
            }
            at = 0;
            page += 1;
        }
        None
    }

    /// The first index page from `from` on that is stored, before the page of the next `leaf`: no leaf is below it.
    #[must_use]
    pub fn next_bare_page(&self, from: usize, leaf: Option<u64>) -> Option<usize> {
        let is_bare = |page: usize| {
            let index = self.pages[page].as_ref();
            index.is_some_and(|index| index.reference.location != 0)
        };
        let end = leaf.map_or(self.pages.len(), |leaf| split(leaf).0);
        (from..end).find(|&page| is_bare(page))
    }

    /// The next leaf from `from` on with blocks that may be destaged.
    #[must_use]
    pub fn next_stageable(&self, from: u64) -> Option<u64> {
        let mut leaf = self.next_leaf(from)?;
        loop {
            if self.leaf(leaf).0.stageable > 0 {
                return Some(leaf);
            }
            leaf = self.next_leaf(leaf + 1)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_counted_as_they_come_and_go() {
        let mut disk = Disk::new(DiskId(1), "d".to_owned(), 3 * INDEX_SPAN_BYTES);
        let written = PageRef { location: 7, ..PageRef::default() };
        disk.set_frame(0, 3);
        disk.set_frame(0, 4);
        disk.set_reference(0, written);
        disk.set_reference(INDEX_ENTRIES as u64 + 5, written);
        disk.set_frame(9, NO_FRAME);
        let found =
            |disk: &Disk| std::iter::successors(disk.next_leaf(0), |leaf| disk.next_leaf(leaf + 1)).count() as u64;
        assert_eq!((disk.leaves(), found(&disk)), (2, 2));
        disk.set_frame(0, NO_FRAME);
        assert_eq!((disk.leaves(), found(&disk)), (2, 2));
        disk.set_reference(0, PageRef::default());
        assert_eq!((disk.leaves(), found(&disk)), (1, 1));
        assert!(disk.pages[0].as_ref().unwrap().is_empty());
        // As read back from the device.
        let page = IndexPage::new(vec![PageRef::default(), written], PageRef::default());
        assert_eq!(page.leaves, 1);
    }

    #[test]
    fn a_disk_that_shrinks_and_grows_is_served_as_far_as_every_root_in_progress_knows_it() {
        let mut disk = Disk::new(DiskId(1), "disk".into(), 100 << 20);
        assert_eq!(disk.served_bytes(), 0);
        disk.durable_bytes = 100 << 20;
        disk.resize(50 << 20);
        disk.resize(200 << 20);
        assert_eq!(disk.served_bytes(), 50 << 20);
        disk.durable_bytes = 200 << 20;
        assert_eq!(disk.served_bytes(), 200 << 20);
    }
}
