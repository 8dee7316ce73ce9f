//! The pages on the capacity tier that say where each block lives, and what waits for the next checkpoint that they are part
//! of: changed leaves, replaced pages, and bands that the last one names.

use crate::layout::capacity_root::{ALL_LISTED, CapacityArea, CapacityDisk, CapacityRoot, TierPageRef};
use crate::layout::tier_page::{LeafTiers, PAGE_LEAVES, TierPage};
use crate::space::slots::Slots;
use std::collections::BTreeMap;

/// Disk and number of a page.
pub type PageKey = (u16, u32);

/// Memory in bytes that a page and the changes of its leaves take at most between two checkpoints.
pub const BYTES_PER_PAGE: u64 = 64;
/// Memory in bytes that a leaf which was written takes until its page is.
pub const BYTES_PER_LEAF: u64 = 160;

#[derive(Clone, Copy, Debug)]
struct Stored {
    slot: u32,
    crc: u32,
    /// A durable checkpoint names it.
    is_durable: bool,
}

/// What is to be done about a page whose leaves have changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Work {
    /// It is to be read first, from this slot.
    Read(u64),
    /// It can be made of what is known.
    Make(TierPage),
}

/// The pages.
#[derive(Debug)]
pub struct Tiers {
    /// Where they lie.
    pub area: CapacityArea,
    slots: Slots,
    pages: BTreeMap<PageKey, Stored>,
    /// By disk: pages from here on that are not stored are unknown.
    unlisted_from: BTreeMap<u16, u32>,
    /// Leaves written by checkpoints since their page was.
    changed: BTreeMap<PageKey, BTreeMap<u8, LeafTiers>>,
    /// The next page that the checkpoint in progress has to write.
    next: Option<PageKey>,
    /// Slots to be freed when the next checkpoint is durable.
    superseded: Vec<u64>,
    /// Bands freed since the last freeze: the checkpoint after that still names them.
    freed_since: Vec<u32>,
    /// Bands freed before it: free when it is durable.
    freed_before: Vec<u32>,
}

impl Default for Tiers {
    fn default() -> Self {
        Self::new(CapacityArea::default())
    }
}

impl Tiers {
    /// No page: a new pool.
    #[must_use]
    pub fn new(area: CapacityArea) -> Self {
        Self {
            area,
            slots: Slots::from_words(Vec::new(), area.slots()),
            pages: BTreeMap::new(),
            unlisted_from: BTreeMap::new(),
            changed: BTreeMap::new(),
            next: None,
            superseded: Vec::new(),
            freed_since: Vec::new(),
            freed_before: Vec::new(),
        }
    }

    /// As a durable checkpoint left it; `None`: it cannot be read, so that nothing is known of what these disks map.
    pub fn load(&mut self, root: Option<&CapacityRoot>, disks: impl Iterator<Item = u16>) {
        self.unlisted_from = disks.map(|disk| (disk, 0)).collect();
        for disk in root.iter().flat_map(|root| &root.disks) {
            for page in &disk.pages {
                self.slots.set(u64::from(page.slot));
                let stored = Stored { slot: page.slot, crc: page.crc, is_durable: true };
                self.pages.insert((disk.id, page.number), stored);
            }
            self.unlisted_from.insert(disk.id, disk.unlisted_from);
        }
    }

    /// A checkpoint writes a leaf.
    pub fn leaf_written(&mut self, disk: u16, leaf: u64, tiers: LeafTiers) {
        if !self.area.exists() {
            return;
        }
        let (number, at) = (leaf / PAGE_LEAVES as u64, leaf % PAGE_LEAVES as u64);
        if let Ok(number) = u32::try_from(number) {
            self.changed.entry((disk, number)).or_default().insert(at as u8, tiers);
        }
    }

    /// A checkpoint begins: what is freed from now on belongs to the next.
    pub fn freeze(&mut self) {
        self.next = Some((0, 0));
        self.freed_before.append(&mut self.freed_since);
    }

    /// The next page to be written by the checkpoint, of disks that still exist.
    pub fn next_changed(&mut self, exists: impl Fn(u16) -> bool) -> Option<PageKey> {
        let from = self.next?;
        let found = self.changed.range(from..).map(|(&key, _)| key).find(|key| exists(key.0));
        self.next = found.and_then(|(disk, number)| match number.checked_add(1) {
            Some(number) => Some((disk, number)),
            None => disk.checked_add(1).map(|disk| (disk, 0)),
        });
        found
    }

    /// What a page takes to be written.
    #[must_use]
    pub fn work(&self, key: PageKey) -> Work {
        match self.pages.get(&key) {
            Some(stored) => Work::Read(u64::from(stored.slot)),
            None => Work::Make(self.absent(key)),
        }
    }

    fn absent(&self, (disk, number): PageKey) -> TierPage {
        let is_unknown = self.unlisted_from.get(&disk).is_some_and(|&from| number >= from);
        if is_unknown { TierPage::unknown() } else { TierPage::empty() }
    }

    /// A stored page that was read; `None` where it is not the one that was written.
    #[must_use]
    pub fn decode(&self, key: PageKey, bytes: &[u8]) -> Option<TierPage> {
        TierPage::decode(bytes, forebay_block::DiskId(key.0), key.1, self.pages.get(&key)?.crc)
    }

    /// Puts the changed leaves into their page, and takes a slot for it. `None`: nothing is to be written, because there is
    /// nothing to say, or no room to say it in.
    pub fn place(&mut self, key: PageKey, mut page: TierPage) -> Option<(u64, TierPage)> {
        for (&at, tiers) in self.changed.get(&key).into_iter().flatten() {
            if let Some(leaf) = page.leaves.get_mut(usize::from(at)) {
                *leaf = Some(tiers.clone());
            }
        }
        let absent = self.absent(key);
        let is_listed = self.pages.contains_key(&key) || self.pages.len() < self.area.pages as usize;
        if page != absent
            && is_listed
            && let Some((slot, _)) = self.slots.allocate(1)
        {
            return Some((slot, page));
        }
        if page != absent {
            // More than fits: from here on, what is not listed is unknown.
            let from = self.unlisted_from.entry(key.0).or_insert(ALL_LISTED);
            *from = key.1.min(*from);
        }
        self.changed.remove(&key);
        self.drop_page(key);
        None
    }

    fn drop_page(&mut self, key: PageKey) {
        if let Some(old) = self.pages.remove(&key) {
            self.give_up(old);
        }
    }

    fn give_up(&mut self, old: Stored) {
        if old.is_durable {
            self.superseded.push(u64::from(old.slot));
        } else {
            // No durable checkpoint names it.
            self.slots.clear(u64::from(old.slot));
        }
    }

    /// A page reached the device, or not: then its leaves wait for the next attempt.
    pub fn page_written(&mut self, key: PageKey, slot: u64, crc: u32, is_good: bool) {
        if !is_good {
            self.slots.clear(slot);
            return;
        }
        self.changed.remove(&key);
        self.drop_page(key);
        self.pages.insert(key, Stored { slot: slot as u32, crc, is_durable: false });
    }

    /// Pages that no durable checkpoint names: key, slot and checksum of each.
    pub fn undurable(&self) -> impl Iterator<Item = (PageKey, u64, u32)> {
        let pages = self.pages.iter().filter(|(_, stored)| !stored.is_durable);
        pages.map(|(&key, stored)| (key, u64::from(stored.slot), stored.crc))
    }

    /// Forgets disks that are gone.
    pub fn retain(&mut self, exists: impl Fn(u16) -> bool) {
        let gone: Vec<PageKey> = self.pages.keys().copied().filter(|key| !exists(key.0)).collect();
        gone.into_iter().for_each(|key| self.drop_page(key));
        self.changed.retain(|key, _| exists(key.0));
        self.unlisted_from.retain(|disk, _| exists(*disk));
    }

    /// A disk as the checkpoint lists it.
    #[must_use]
    pub fn disk(&self, id: u16, name: &str, size_bytes: u64) -> CapacityDisk {
        let numbers = crate::layout::capacity_root::pages_of_disk(size_bytes);
        let pages = self.pages.range((id, 0)..=(id, u32::MAX));
        let pages = pages.map(|(key, stored)| TierPageRef { number: key.1, slot: stored.slot, crc: stored.crc });
        CapacityDisk {
            id,
            name: name.to_owned(),
            size_bytes,
            unlisted_from: self.unlisted_from.get(&id).copied().unwrap_or(ALL_LISTED),
            pages: pages.take_while(|page| u64::from(page.number) < numbers).collect(),
        }
    }

    /// A band that the last checkpoint may name is not used any more.
    pub fn pin(&mut self, band: u32) {
        self.freed_since.push(band);
    }

    /// Bands that wait for a checkpoint.
    #[must_use]
    pub fn pinned(&self) -> usize {
        self.freed_since.len() + self.freed_before.len()
    }

    /// Bands that are free when the checkpoint in progress is durable.
    #[must_use]
    pub fn freed_before(&self) -> &[u32] {
        &self.freed_before
    }

    /// A checkpoint is durable: the bands that it does not name, nor any that follows.
    pub fn durable(&mut self) -> Vec<u32> {
        for slot in std::mem::take(&mut self.superseded) {
            self.slots.clear(slot);
        }
        self.pages.values_mut().for_each(|page| page.is_durable = true);
        std::mem::take(&mut self.freed_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::DiskId;

    fn tiers() -> Tiers {
        Tiers::new(CapacityArea { offset_bytes: 1 << 17, root_len_bytes: 8192, pages: 2 })
    }

    /// Something that a leaf maps, by its sum.
    fn leaf(sum: u64) -> LeafTiers {
        let mut page = vec![0; 4096];
        let entry = crate::layout::page::Entry::Data { location: 8, class: forebay_block::ClassId(0) };
        crate::layout::page::set_leaf_entry(&mut page, 0, entry, 1);
        let mut tiers = LeafTiers::of(&page, |_| false);
        tiers.sum = sum;
        tiers
    }

    /// Writes what has changed; (page, slot) of each.
    fn write(tiers: &mut Tiers, is_good: bool) -> Vec<(PageKey, u64)> {
        tiers.freeze();
        let mut written = Vec::new();
        while let Some(key) = tiers.next_changed(|_| true) {
            let page = match tiers.work(key) {
                Work::Read(_) => TierPage::empty(),
                Work::Make(page) => page,
            };
            if let Some((slot, page)) = tiers.place(key, page) {
                let (_, crc) = page.encode(DiskId(key.0), key.1);
                tiers.page_written(key, slot, crc, is_good);
                written.push((key, slot));
            }
        }
        written
    }

    #[test]
    fn a_slot_that_a_durable_checkpoint_names_is_not_used_again_before_the_next_is_durable() {
        let mut tiers = tiers();
        tiers.leaf_written(1, 0, leaf(1));
        let first = write(&mut tiers, true);
        assert!(tiers.durable().is_empty());
        let mut seen = vec![first[0].1];
        // Attempts that come to nothing, more than there are slots.
        for attempt in 0..6 {
            tiers.leaf_written(1, 0, leaf(2 + attempt));
            let written = write(&mut tiers, attempt % 2 == 0);
            assert!(written.len() == 1 && written[0].1 != first[0].1, "{written:?}");
            seen.push(written[0].1);
        }
        assert_eq!(tiers.disk(1, "d", 1 << 30).pages.len(), 1);
        tiers.durable();
        assert_eq!(tiers.slots.free(), 3);
    }

    #[test]
    fn what_does_not_fit_is_unknown_and_not_empty() {
        let mut tiers = tiers();
        for page in [0, 1, 7, 9] {
            tiers.leaf_written(1, page * PAGE_LEAVES as u64, leaf(page));
        }
        assert_eq!(write(&mut tiers, true).len(), 2);
        tiers.durable();
        let disk = tiers.disk(1, "d", 1 << 40);
        assert_eq!((disk.unlisted_from, disk.pages.len()), (7, 2));
        assert_eq!(tiers.work((1, 8)), Work::Make(TierPage::unknown()));
        assert_eq!(tiers.work((1, 3)), Work::Make(TierPage::empty()));
        // One that maps nothing any more makes room.
        tiers.leaf_written(1, 0, LeafTiers::EMPTY);
        tiers.leaf_written(1, 8 * PAGE_LEAVES as u64, leaf(3));
        assert_eq!(write(&mut tiers, true).len(), 1);
        let disk = tiers.disk(1, "d", 1 << 40);
        assert_eq!(disk.pages.iter().map(|page| page.number).collect::<Vec<_>>(), [1, 8]);
        // Its root lost: nothing is known any more of what was not written since.
        let mut again = Tiers::new(tiers.area);
        again.load(None, [1].into_iter());
        assert_eq!(again.work((1, 0)), Work::Make(TierPage::unknown()));
    }

    #[test]
    fn a_band_waits_for_a_checkpoint_that_began_after_it_was_freed() {
        let mut tiers = tiers();
        tiers.pin(3);
        tiers.freeze();
        tiers.pin(4);
        assert_eq!((tiers.pinned(), tiers.durable()), (2, vec![3]));
        tiers.freeze();
        assert_eq!((tiers.durable(), tiers.pinned()), (vec![4], 0));
    }
}
