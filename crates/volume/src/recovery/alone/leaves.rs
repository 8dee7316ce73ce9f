//! Puts the map together from the blocks that summaries name in bands, and from the tier that each block had at the checkpoint.

use super::choice::{Candidate, Choice};
use super::error::AloneError;
use super::memory::{BARE_LEAF_BYTES, CANDIDATE_BYTES, FULL_LEAF_BYTES, Memory};
use crate::layout::capacity_root::{CapacityDisk, CapacityRoot};
use crate::layout::page::{Entry, LEAF_ENTRIES, PAGE_BYTES, Span, leaf_entry, set_leaf_entry};
use crate::layout::tier_page::{LeafTiers, PAGE_LEAVES, Tier, term};
use std::collections::{BTreeMap, BTreeSet};

/// Disk and number of a leaf.
pub(super) type LeafKey = (u16, u64);

/// One leaf.
#[derive(Debug)]
pub(super) struct Leaf {
    /// `None`: the tiers of its blocks are unknown, and only what is found counts.
    tiers: Option<LeafTiers>,
    /// Empty until a block is found.
    page: Vec<u8>,
    /// The origin of the copy found for each block, plus one; 0: none was found.
    origins: Vec<u64>,
    /// The copies that were found are not those that the map named.
    pub is_uncertain: bool,
    /// Blocks that came after the checkpoint, by number in the leaf.
    later: BTreeSet<u16>,
    /// Blocks of which a copy from after the checkpoint cannot be read.
    unread: BTreeSet<u16>,
}

/// What a block of a leaf is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// It holds nothing.
    Nothing,
    /// It cannot be read.
    Gone,
    /// As at the checkpoint.
    Data,
    /// Maybe older.
    MaybeOlder,
    /// Written after the checkpoint.
    Later,
}

impl Leaf {
    fn new(tiers: Option<LeafTiers>) -> Self {
        Self {
            tiers,
            page: Vec::new(),
            origins: Vec::new(),
            is_uncertain: false,
            later: BTreeSet::new(),
            unread: BTreeSet::new(),
        }
    }

    fn tier(&self, at: usize) -> Option<Tier> {
        self.tiers.as_ref().map(|tiers| tiers.tier(at))
    }

    fn set(&mut self, at: usize, candidate: Candidate) {
        if self.page.is_empty() {
            (self.page, self.origins) = (vec![0; PAGE_BYTES], vec![0; LEAF_ENTRIES]);
        }
        self.origins[at] = candidate.origin + 1;
        let entry = Entry::Data { span: candidate.span, class: candidate.class };
        set_leaf_entry(&mut self.page, at, entry, candidate.checksum);
    }

    fn found(&self, at: usize) -> Option<Candidate> {
        let origin = self.origins.get(at).copied()?.checked_sub(1)?;
        match leaf_entry(&self.page, at) {
            (Entry::Data { span, class }, checksum) => Some(Candidate { origin, span, checksum, class }),
            _ => None,
        }
    }

    fn on_capacity(&self) -> impl Iterator<Item = usize> + '_ {
        (0..LEAF_ENTRIES).filter(|&at| self.tier(at) == Some(Tier::Capacity))
    }

    /// Whether the copies that were found are those that the map named, by their sum.
    fn is_whole(&self) -> bool {
        let Some(tiers) = &self.tiers else { return false };
        let mut sum = 0u64;
        for at in self.on_capacity() {
            let Some(found) = self.found(at) else { return false };
            sum = sum.wrapping_add(term(at, found.checksum));
        }
        sum == tiers.sum
    }

    /// Tries other copies until their sum is that of the map. `all`: every copy of each block, the newest first.
    fn resolve(&mut self, all: &BTreeMap<usize, Vec<Candidate>>) -> bool {
        let Some(tiers) = &self.tiers else { return false };
        let blocks: Vec<usize> = self.on_capacity().collect();
        let newest = |at: &usize| all.get(at).and_then(|list| list.first().copied());
        let counted = |at: &usize| {
            // A copy that was found counts where it is among the copies that are there.
            let found = self.found(*at);
            found.filter(|found| all.get(at).is_none_or(|list| list.contains(found))).or_else(|| newest(at))
        };
        let settled: Option<Vec<Candidate>> = blocks.iter().map(counted).collect();
        let everything: Option<Vec<Candidate>> = blocks.iter().map(newest).collect();
        let attempts = [settled, everything].into_iter().flatten();
        let chosen = attempts.map(|start| Choice { blocks: &blocks, all, start }).find_map(|c| c.find(tiers.sum));
        let Some(chosen) = chosen else { return false };
        blocks.iter().zip(chosen).for_each(|(&at, candidate)| self.set(at, candidate));
        true
    }

    /// What block `at` is shown as.
    pub fn shown(&self, at: usize) -> Shown {
        let has_data = self.found(at).is_some();
        let is_unread = self.unread.contains(&(at as u16));
        match (has_data, self.tier(at)) {
            (true, _) if is_unread => Shown::MaybeOlder,
            (false, _) if is_unread => Shown::Gone,
            (true, _) if self.later.contains(&(at as u16)) => Shown::Later,
            (true, Some(_)) if !self.is_uncertain => Shown::Data,
            (true, _) => Shown::MaybeOlder,
            (false, Some(Tier::Nowhere)) => Shown::Nothing,
            (false, _) => Shown::Gone,
        }
    }

    /// The page as it is served; empty where all of it is gone.
    pub fn into_page(mut self, blocks: usize) -> Vec<u8> {
        let shown: Vec<Shown> = (0..blocks.min(LEAF_ENTRIES)).map(|at| self.shown(at)).collect();
        if self.page.is_empty() && blocks >= LEAF_ENTRIES && shown.iter().all(|shown| *shown == Shown::Gone) {
            return Vec::new();
        }
        if self.page.is_empty() {
            self.page = vec![0; PAGE_BYTES];
        }
        for (at, shown) in shown.into_iter().enumerate() {
            match shown {
                Shown::Gone => set_leaf_entry(&mut self.page, at, Entry::Damaged, 0),
                Shown::Nothing => set_leaf_entry(&mut self.page, at, Entry::Unmapped, 0),
                _ => {}
            }
        }
        self.page
    }
}

/// All leaves that map something.
pub(super) struct Leaves {
    pub leaves: BTreeMap<LeafKey, Leaf>,
    disks: BTreeMap<u16, CapacityDisk>,
    /// Tier pages that are listed: a leaf of these pages that is absent from `leaves` maps nothing.
    listed: BTreeSet<(u16, u32)>,
    next_sequence: u64,
    unapplied: BTreeSet<u64>,
    later: BTreeMap<(u16, u64), Vec<Candidate>>,
    /// Further copies with the same data.
    twins: BTreeMap<(u16, u64), Vec<Candidate>>,
    pub memory: Memory,
}

impl Leaves {
    pub fn new(root: &CapacityRoot, limit_bytes: u64) -> Self {
        Self {
            leaves: BTreeMap::new(),
            disks: root.disks.iter().map(|disk| (disk.id, disk.clone())).collect(),
            listed: BTreeSet::new(),
            next_sequence: root.next_sequence,
            unapplied: root.unapplied.iter().copied().collect(),
            later: BTreeMap::new(),
            twins: BTreeMap::new(),
            memory: Memory::new(limit_bytes),
        }
    }

    /// Takes what a tier page says of its leaves; `None`: the page cannot be read.
    pub fn take_page(&mut self, disk: u16, number: u32, leaves: Option<Vec<Option<LeafTiers>>>) {
        self.listed.insert((disk, number));
        let leaves = leaves.unwrap_or_else(|| vec![None; PAGE_LEAVES]);
        let end = self.disks.get(&disk).map_or(0, |disk| disk.size_bytes.div_ceil(4096).div_ceil(LEAF_ENTRIES as u64));
        for (leaf, tiers) in (u64::from(number) * PAGE_LEAVES as u64..end).zip(leaves) {
            let maps_nothing = tiers.as_ref().is_some_and(LeafTiers::is_empty);
            if !maps_nothing && self.memory.expect_leaf(tiers.as_ref().is_some_and(|tiers| tiers.sum != 0)) {
                self.leaves.insert((disk, leaf), Leaf::new(tiers));
            }
        }
    }

    /// Whether nothing is known of a leaf, as its tier page is not listed.
    fn is_unknown(&self, (disk, leaf): LeafKey) -> bool {
        let number = (leaf / PAGE_LEAVES as u64) as u32;
        let unlisted = self.disks.get(&disk).is_some_and(|disk| number >= disk.unlisted_from);
        unlisted && !self.listed.contains(&(disk, number))
    }

    fn leaf_of(&self, disk: u16, block: u64) -> Option<(LeafKey, usize)> {
        let blocks = self.disks.get(&disk)?.size_bytes.div_ceil(4096);
        let key = (disk, block / LEAF_ENTRIES as u64);
        (block < blocks).then_some((key, (block % LEAF_ENTRIES as u64) as usize))
    }

    /// The leaf; it is made where nothing of it was known or found.
    fn leaf(&mut self, key: LeafKey) -> Result<&mut Leaf, AloneError> {
        if !self.leaves.contains_key(&key) {
            self.memory.take(BARE_LEAF_BYTES)?;
        }
        let tiers = if self.is_unknown(key) { None } else { Some(LeafTiers::EMPTY) };
        Ok(self.leaves.entry(key).or_insert_with(|| Leaf::new(tiers)))
    }

    fn set(&mut self, key: LeafKey, at: usize, candidate: Candidate) -> Result<(), AloneError> {
        if self.leaf(key)?.page.is_empty() {
            self.memory.take(FULL_LEAF_BYTES - BARE_LEAF_BYTES)?;
        }
        self.leaf(key)?.set(at, candidate);
        Ok(())
    }

    /// Notes that a copy from after the checkpoint cannot be read: what is shown of its block may be older.
    pub fn set_unread(&mut self, disk: u16, block: u64) -> Result<(), AloneError> {
        if let Some((key, at)) = self.leaf_of(disk, block) {
            self.leaf(key)?.unread.insert(at as u16);
        }
        Ok(())
    }

    /// Offers a copy from a group that was complete at the checkpoint, or whose entries the root carries.
    pub fn offer(&mut self, disk: u16, block: u64, candidate: Candidate) -> Result<(), AloneError> {
        let Some((key, at)) = self.leaf_of(disk, block) else { return Ok(()) };
        let leaf = self.leaves.get(&key);
        let tier = match leaf {
            Some(leaf) => leaf.tier(at),
            None if self.is_unknown(key) => None,
            None => Some(Tier::Nowhere),
        };
        let counts = match tier {
            None => true,
            Some(Tier::Capacity) => {
                candidate.origin < self.next_sequence && !self.unapplied.contains(&candidate.origin)
            }
            Some(_) => false,
        };
        let found = leaf.and_then(|leaf| leaf.found(at));
        if counts && found.is_none_or(|found| found.origin < candidate.origin) {
            self.set(key, at, candidate)?;
        } else if counts && found.is_some_and(|found| found.origin == candidate.origin) {
            // Garbage collection was in progress: a summary names its copy, but the data may not have arrived there.
            self.memory.take(CANDIDATE_BYTES)?;
            self.twins.entry((disk, block)).or_default().push(candidate);
        }
        if tier.is_some() {
            self.offer_later(disk, block, candidate)?;
        }
        Ok(())
    }

    /// Offers a copy that may have come after the checkpoint.
    pub fn offer_later(&mut self, disk: u16, block: u64, candidate: Candidate) -> Result<(), AloneError> {
        let Some((key, at)) = self.leaf_of(disk, block) else { return Ok(()) };
        let was_fast = self.leaves.get(&key).is_some_and(|leaf| leaf.tier(at) == Some(Tier::Fast));
        // A destage gives its copy the newest sequence that was given out when it chose the block. Here this is the last one before the
        // checkpoint, so the copy may be later than the checkpoint.
        let is_destage_of_then = was_fast && candidate.origin + 1 == self.next_sequence;
        if candidate.origin >= self.next_sequence || is_destage_of_then {
            self.memory.take(CANDIDATE_BYTES)?;
            self.later.entry((disk, block)).or_default().push(candidate);
        }
        Ok(())
    }

    /// Leaves whose copies are not what the map named.
    pub fn doubtful(&self) -> BTreeSet<LeafKey> {
        let doubtful = self.leaves.iter().filter(|(_, leaf)| leaf.tiers.is_some() && !leaf.is_whole());
        doubtful.map(|(&key, _)| key).collect()
    }

    /// Tries to resolve doubtful leaves with all copies that there are of their blocks.
    pub fn resolve(&mut self, doubtful: &BTreeSet<LeafKey>, copies: BTreeMap<(u16, u64), Vec<Candidate>>) {
        let mut by_leaf: BTreeMap<LeafKey, BTreeMap<usize, Vec<Candidate>>> = BTreeMap::new();
        for ((disk, block), mut list) in copies {
            list.sort_unstable();
            list.reverse();
            let key = (disk, block / LEAF_ENTRIES as u64);
            by_leaf.entry(key).or_default().insert((block % LEAF_ENTRIES as u64) as usize, list);
        }
        for key in doubtful {
            let all = by_leaf.remove(key).unwrap_or_default();
            if let Some(leaf) = self.leaves.get_mut(key) {
                leaf.is_uncertain = !leaf.resolve(&all);
            }
        }
        self.memory.give_copies_back();
    }

    /// All copies of the blocks that have several copies of the same data, the chosen one last.
    pub fn take_twins(&mut self) -> Vec<((u16, u64), Vec<Candidate>)> {
        let twins = std::mem::take(&mut self.twins).into_iter();
        let with_chosen = |((disk, block), mut list): ((u16, u64), Vec<Candidate>)| {
            let (key, at) = self.leaf_of(disk, block)?;
            let chosen = self.leaves.get(&key)?.found(at)?;
            list.retain(|twin| twin.origin == chosen.origin && twin.span != chosen.span);
            list.push(chosen);
            Some(((disk, block), list))
        };
        twins.filter_map(with_chosen).filter(|(_, list)| list.len() > 1).collect()
    }

    /// Sets the copy to be used, of several with the same data.
    pub fn choose(&mut self, disk: u16, block: u64, candidate: Candidate) {
        if let Some((key, at)) = self.leaf_of(disk, block)
            && let Some(leaf) = self.leaves.get_mut(&key)
        {
            leaf.set(at, candidate);
        }
    }

    /// Copies that may have come after the checkpoint, the newest of each block first.
    pub fn take_later(&mut self) -> BTreeMap<(u16, u64), Vec<Candidate>> {
        let mut later = std::mem::take(&mut self.later);
        for list in later.values_mut() {
            list.sort_unstable();
            list.reverse();
            list.dedup();
        }
        later
    }

    /// Takes a copy from after the checkpoint whose data is there.
    pub fn set_later(&mut self, disk: u16, block: u64, candidate: Candidate) -> Result<(), AloneError> {
        let Some((key, at)) = self.leaf_of(disk, block) else { return Ok(()) };
        self.set(key, at, candidate)?;
        if let Some(leaf) = self.leaves.get_mut(&key) {
            leaf.later.insert(at as u16);
        }
        Ok(())
    }

    /// Takes the leaves of a disk out, in order, including those of which nothing is known and nothing was found.
    pub fn take_disk(&mut self, disk: &CapacityDisk) -> Result<Vec<(u64, Leaf)>, AloneError> {
        let blocks = disk.size_bytes.div_ceil(4096);
        let leaves = blocks.div_ceil(LEAF_ENTRIES as u64);
        let mut unknown: Vec<u64> = Vec::new();
        let first_unlisted = u64::from(disk.unlisted_from).saturating_mul(PAGE_LEAVES as u64);
        for leaf in first_unlisted..leaves.max(first_unlisted) {
            if self.is_unknown((disk.id, leaf)) && !self.leaves.contains_key(&(disk.id, leaf)) {
                self.memory.take(BARE_LEAF_BYTES)?;
                unknown.push(leaf);
            }
        }
        for leaf in unknown {
            self.leaves.insert((disk.id, leaf), Leaf::new(None));
        }
        let mut rest = self.leaves.split_off(&(disk.id, 0));
        let mut others = match disk.id.checked_add(1) {
            Some(next) => rest.split_off(&(next, 0)),
            None => BTreeMap::new(),
        };
        self.leaves.append(&mut others);
        Ok(rest.into_iter().map(|((_, leaf), found)| (leaf, found)).collect())
    }
}

/// Moves all locations that a page names by `shift` grains; `each` gets the span as it was.
pub(super) fn shift_locations(page: &mut [u8], shift: u64, mut each: impl FnMut(Span)) {
    for at in 0..LEAF_ENTRIES {
        if let (Entry::Data { span, class }, checksum) = leaf_entry(page, at) {
            each(span);
            let span = Span { location: span.location.wrapping_add(shift), ..span };
            set_leaf_entry(page, at, Entry::Data { span, class }, checksum);
        }
    }
}
