//! The tier pages on the capacity tier, which say where each block lives; and what waits for the next checkpoint that includes it: changed leaves,
//! replaced pages, and bands that the last one names.

use crate::layout::base::Base;
use crate::layout::capacity_root::{ALL_LISTED, CapacityArea, CapacityDisk, CapacityRoot, TierPageRef};
use crate::layout::tier_page::{LeafTiers, PAGE_LEAVES, TierPage};
use crate::space::slots::Slots;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Disk and number of a page.
pub type PageKey = (u16, u32);
/// Disk and number of a leaf, as one number in the same order.
type LeafKey = u64;

/// Memory in bytes that a page takes at most, with the note which of its leaves were forgotten.
pub const BYTES_PER_PAGE: u64 = 88;
/// Memory in bytes that a leaf which was written takes at most until its page is written.
pub const BYTES_PER_LEAF: u64 = 180;
// A node of the standard library's tree holds 5 to 11 entries of a key and a pointer, and a few more bytes; nodes above take a
// tenth of that; what is pointed to, 16 bytes of the allocator.
const _: () = {
    let node_bytes = 11 * (size_of::<LeafKey>() + size_of::<usize>()) + 24;
    assert!((node_bytes / 5 * 11 / 10 + size_of::<LeafTiers>() + 16) as u64 <= BYTES_PER_LEAF);
};

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
    /// It has to be read first, from this slot.
    Read(u64),
    /// It can be made from what is known.
    Make(TierPage),
}

/// The pages.
#[derive(Debug)]
pub struct Tiers {
    /// The area that they lie in.
    pub area: CapacityArea,
    slots: Slots,
    pages: BTreeMap<PageKey, Stored>,
    /// How many of the pages no durable checkpoint names.
    not_durable: usize,
    /// By disk: pages from this one on that are not stored are unknown.
    unlisted_from: BTreeMap<u16, u32>,
    /// Leaves that checkpoints have written since their page was written.
    changed: BTreeMap<LeafKey, Box<LeafTiers>>,
    /// Leaves that were written and not kept, one bit each: unknown when their page is written.
    forgotten: BTreeMap<PageKey, u32>,
    /// The next page that the checkpoint in progress has to write.
    next: Option<PageKey>,
    /// Slots to be freed once the next checkpoint is durable.
    superseded: Vec<u64>,
    /// Slots named by a root that is not in use but may still be opened: not allocated as long as there are others.
    guarded: Vec<u64>,
    /// Bands freed since the last freeze: the checkpoint of that freeze still names them.
    freed_since: Vec<u32>,
    /// Bands freed before the last freeze: free once its checkpoint is durable.
    freed_before: Vec<u32>,
    /// Bands that were being trimmed at the last freeze: they may be opened again while the checkpoint is written.
    trimming: Vec<u32>,
}

impl Default for Tiers {
    fn default() -> Self {
        Self::new(CapacityArea::default())
    }
}

const fn leaf_key(disk: u16, leaf: u64) -> LeafKey {
    (disk as u64) << 48 | leaf & ((1 << 48) - 1)
}

fn page_of(key: LeafKey) -> PageKey {
    ((key >> 48) as u16, ((key & ((1 << 48) - 1)) / PAGE_LEAVES as u64) as u32)
}

fn leaves_of((disk, number): PageKey) -> RangeInclusive<LeafKey> {
    let first = leaf_key(disk, u64::from(number) * PAGE_LEAVES as u64);
    first..=first + PAGE_LEAVES as u64 - 1
}

impl Tiers {
    /// No pages, as in a new pool.
    #[must_use]
    pub fn new(area: CapacityArea) -> Self {
        Self {
            area,
            slots: Slots::from_words(Vec::new(), area.slots()),
            pages: BTreeMap::new(),
            not_durable: 0,
            unlisted_from: BTreeMap::new(),
            changed: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            next: None,
            superseded: Vec::new(),
            guarded: Vec::new(),
            freed_since: Vec::new(),
            freed_before: Vec::new(),
            trimming: Vec::new(),
        }
    }

    /// Loads what a durable checkpoint left; `None`: it cannot be read, so that nothing is known of what these disks map.
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

    /// Keeps the pages of another root that is whole: it may be the one that is opened if the fast tier is lost now. They stay until the next
    /// checkpoint is durable, as far as there are other slots.
    pub fn guard(&mut self, root: &CapacityRoot) {
        let slots = root.disks.iter().flat_map(|disk| &disk.pages).map(|page| u64::from(page.slot));
        self.guarded.extend(slots.filter(|&slot| self.slots.set(slot)));
    }

    /// Notes what is known of a leaf: a checkpoint writes it, or it was read.
    pub fn leaf_written(&mut self, disk: u16, leaf: u64, tiers: LeafTiers) {
        if self.area.exists() && leaf / (PAGE_LEAVES as u64) < u64::from(u32::MAX) {
            self.changed.insert(leaf_key(disk, leaf), Box::new(tiers));
        }
    }

    /// Notes that nothing is known of a leaf any more.
    pub fn forget(&mut self, disk: u16, leaf: u64) {
        self.forget_key(leaf_key(disk, leaf));
    }

    fn forget_key(&mut self, key: LeafKey) {
        *self.forgotten.entry(page_of(key)).or_default() |= 1 << (key % PAGE_LEAVES as u64);
    }

    /// Of a disk of which nothing was known: what its pages below this one map is known from now on, except for leaves that were forgotten.
    pub fn set_unlisted_from(&mut self, disk: u16, page: u32) {
        self.unlisted_from.insert(disk, page);
    }

    /// A checkpoint begins: bands that are freed from now on wait for the next one.
    pub fn freeze(&mut self, trimming: &BTreeSet<u32>) {
        self.next = Some((0, 0));
        self.trimming = trimming.iter().copied().collect();
        self.freed_before.append(&mut self.freed_since);
    }

    /// The next page to be written by the checkpoint, of disks that still exist.
    pub fn next_changed(&mut self, exists: impl Fn(u16) -> bool) -> Option<PageKey> {
        let mut from = self.next?;
        let found = loop {
            let changed = self.changed.range(*leaves_of(from).start()..).next().map(|(&key, _)| page_of(key));
            let forgotten = self.forgotten.range(from..).next().map(|(&key, _)| key);
            let key = changed.into_iter().chain(forgotten).min();
            match key {
                Some(key) if !exists(key.0) => match key.0.checked_add(1) {
                    Some(disk) => from = (disk, 0),
                    None => break None,
                },
                key => break key,
            }
        };
        self.next = found.and_then(|(disk, number)| match number.checked_add(1) {
            Some(number) => Some((disk, number)),
            None => disk.checked_add(1).map(|disk| (disk, 0)),
        });
        found
    }

    /// What has to be done to write a page.
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

    /// Decodes a stored page; `None` where the bytes are not what was written.
    #[must_use]
    pub fn decode(&self, key: PageKey, bytes: &[u8]) -> Option<TierPage> {
        TierPage::decode(bytes, forebay_block::DiskId(key.0), key.1, self.pages.get(&key)?.crc)
    }

    /// Puts the changed leaves into their page, and allocates a slot for it. `None`: nothing is to be written, as there is nothing to say, or no room
    /// for it.
    pub fn place(&mut self, key: PageKey, mut page: TierPage) -> Option<(u64, TierPage)> {
        let forgotten = self.forgotten.get(&key).copied().unwrap_or(0);
        for (at, leaf) in page.leaves.iter_mut().enumerate().filter(|(at, _)| forgotten >> at & 1 == 1) {
            debug_assert!(at < PAGE_LEAVES);
            *leaf = None;
        }
        for (leaf, tiers) in self.changed.range(leaves_of(key)) {
            if let Some(leaf) = page.leaves.get_mut((leaf % PAGE_LEAVES as u64) as usize) {
                *leaf = Some(LeafTiers::clone(tiers));
            }
        }
        let absent = self.absent(key);
        let is_listed = self.pages.contains_key(&key) || self.pages.len() < self.area.pages as usize;
        if page != absent
            && is_listed
            && let Some(slot) = self.take_slot(key)
        {
            return Some((slot, page));
        }
        if page != absent {
            // More than fits: from this page on, what is not listed is unknown.
            let from = self.unlisted_from.entry(key.0).or_insert(ALL_LISTED);
            *from = key.1.min(*from);
        }
        self.drop_pending(key);
        self.drop_page(key);
        None
    }

    /// A slot for a page: a free one, as long as enough are left for pages that have to be replaced. A page that no durable checkpoint names is written
    /// in its own place again where failed attempts have taken all other slots.
    fn take_slot(&mut self, key: PageKey) -> Option<u64> {
        let own = self.pages.get(&key).filter(|stored| !stored.is_durable).map(|stored| u64::from(stored.slot));
        let needed = (self.area.pages as usize).saturating_sub(self.not_durable) as u64;
        if let Some(own) = own.filter(|_| self.slots.free() <= needed) {
            return Some(own);
        }
        self.slots.allocate(1).map(|(slot, _)| slot).or_else(|| self.guarded.pop()).or(own)
    }

    /// Drops what waited for a page: nothing is left to be said of it.
    fn drop_pending(&mut self, key: PageKey) {
        let leaves: Vec<LeafKey> = self.changed.range(leaves_of(key)).map(|(&leaf, _)| leaf).collect();
        leaves.iter().for_each(|leaf| drop(self.changed.remove(leaf)));
        self.forgotten.remove(&key);
    }

    fn drop_page(&mut self, key: PageKey) {
        match self.pages.remove(&key) {
            Some(old) if old.is_durable => self.superseded.push(u64::from(old.slot)),
            Some(old) => {
                // No durable checkpoint names it.
                self.not_durable -= 1;
                self.slots.clear(u64::from(old.slot));
            }
            None => {}
        }
    }

    /// A page reached the device, or not: then its leaves wait for the next attempt.
    pub fn page_written(&mut self, key: PageKey, slot: u64, crc: u32, is_good: bool) {
        let is_in_place = self.pages.get(&key).is_some_and(|old| u64::from(old.slot) == slot);
        if !is_good && is_in_place {
            // What the page said is gone, except for what has changed since.
            self.drop_page(key);
            self.forgotten.insert(key, u32::MAX);
        } else if !is_good {
            self.slots.clear(slot);
        } else {
            self.drop_pending(key);
            self.drop_page(key);
            self.slots.set(slot);
            self.not_durable += 1;
            self.pages.insert(key, Stored { slot: slot as u32, crc, is_durable: false });
        }
    }

    /// Pages that no durable checkpoint names: key, slot and checksum of each.
    pub fn undurable(&self) -> impl Iterator<Item = (PageKey, u64, u32)> {
        let pages = self.pages.iter().filter(|(_, stored)| !stored.is_durable);
        pages.map(|(&key, stored)| (key, u64::from(stored.slot), stored.crc))
    }

    /// Pages that no durable checkpoint names may not have reached the medium: the next checkpoint reads and writes them again.
    pub fn doubt_undurable(&mut self) {
        let doubted: Vec<PageKey> = self.undurable().map(|(key, ..)| key).collect();
        doubted.into_iter().for_each(|key| _ = self.forgotten.entry(key).or_default());
    }

    /// Forgets disks that are gone.
    pub fn retain(&mut self, exists: impl Fn(u16) -> bool) {
        let gone: Vec<PageKey> = self.pages.keys().copied().filter(|key| !exists(key.0)).collect();
        gone.into_iter().for_each(|key| self.drop_page(key));
        self.changed.retain(|&key, _| exists(page_of(key).0));
        self.forgotten.retain(|key, _| exists(key.0));
        self.unlisted_from.retain(|disk, _| exists(*disk));
    }

    /// A disk as the checkpoint lists it.
    #[must_use]
    pub fn disk(&self, (id, name, size_bytes): (u16, &str, u64), base: Option<Base>) -> CapacityDisk {
        let numbers = crate::layout::capacity_root::pages_of_disk(size_bytes);
        let pages = self.pages.range((id, 0)..=(id, u32::MAX));
        let pages = pages.map(|(key, stored)| TierPageRef { number: key.1, slot: stored.slot, crc: stored.crc });
        CapacityDisk {
            id,
            name: name.to_owned(),
            size_bytes,
            base,
            unlisted_from: self.unlisted_from.get(&id).copied().unwrap_or(ALL_LISTED),
            pages: pages.take_while(|page| u64::from(page.number) < numbers).collect(),
        }
    }

    /// Notes that a band which the last checkpoint may name is not used any more.
    pub fn pin(&mut self, band: u32) {
        self.freed_since.push(band);
    }

    /// Bands that wait for a checkpoint.
    #[must_use]
    pub fn pinned(&self) -> usize {
        self.freed_since.len() + self.freed_before.len()
    }

    /// Bands in which nothing lives as of the checkpoint in progress, and which may be opened again before the next: those
    /// that are free when it is durable, and those that were being trimmed when it began.
    pub fn not_named(&self) -> impl Iterator<Item = u32> + '_ {
        self.freed_before.iter().chain(&self.trimming).copied()
    }

    /// A checkpoint is durable: returns the bands that neither it nor any later one names.
    pub fn durable(&mut self) -> Vec<u32> {
        for slot in std::mem::take(&mut self.superseded).into_iter().chain(std::mem::take(&mut self.guarded)) {
            self.slots.clear(slot);
        }
        self.pages.values_mut().for_each(|page| page.is_durable = true);
        self.not_durable = 0;
        std::mem::take(&mut self.freed_before)
    }

    /// A checkpoint is durable without the capacity tier: returns the bands that it does not name. Of leaves that wait for their page at most
    /// `leaves_max` are kept.
    pub fn durable_without(&mut self, leaves_max: usize) -> Vec<u32> {
        if self.changed.len() > leaves_max {
            while self.changed.len() > leaves_max / 2
                && let Some((key, _)) = self.changed.pop_last()
            {
                self.forget_key(key);
            }
        }
        std::mem::take(&mut self.freed_before)
    }
}

#[cfg(test)]
#[path = "tiers_tests.rs"]
mod tests;
