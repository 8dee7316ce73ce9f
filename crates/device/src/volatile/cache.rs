//! The unflushed sectors: every version that a write left behind and that no durable version has superseded.

use forebay_block::SharedBuf;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What a sector holds after an operation.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Written bytes, one sector long.
    Data(SharedBuf),
    /// Zeros that were asked for.
    Zeroes,
    /// No longer needed; reads as zeros here.
    Discarded,
}

impl Content {
    /// Copies the sector's bytes.
    pub(super) fn copy_to(&self, into: &mut [u8]) {
        match self {
            Self::Data(bytes) => into.copy_from_slice(bytes),
            Self::Zeroes | Self::Discarded => into.fill(0),
        }
    }
}

/// One version of a sector, by the number of the operation that wrote it. Later submitted is higher.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) id: u64,
    pub(super) content: Content,
}

/// Versions of one sector, oldest first. The newest is apart, because nearly all sectors have just one.
#[derive(Debug)]
struct Stack {
    older: Vec<Version>,
    newest: Version,
}

impl Stack {
    fn oldest_to_newest(&self) -> impl DoubleEndedIterator<Item = &Version> {
        self.older.iter().chain(std::iter::once(&self.newest))
    }
}

/// Operations that a flush covers: those completed before it was submitted.
#[derive(Clone, Debug)]
pub(super) struct Covered {
    /// Operations submitted later are not covered.
    pub(super) below_id: u64,
    /// Submitted earlier, but not completed when the flush was submitted: not promised.
    pub(super) except: BTreeSet<u64>,
}

impl Covered {
    pub(super) fn contains(&self, id: u64) -> bool {
        id < self.below_id && !self.except.contains(&id)
    }
}

/// All unflushed sectors of a device, by sector number.
#[derive(Debug, Default)]
pub(super) struct SectorCache {
    sectors: BTreeMap<u64, Stack>,
    versions: usize,
}

impl SectorCache {
    /// Versions held, of all sectors.
    pub(super) fn version_count(&self) -> usize {
        self.versions
    }

    /// Sectors with at least one unflushed version.
    pub(super) fn sector_count(&self) -> usize {
        self.sectors.len()
    }

    /// Adds a version; its id is higher than all before.
    pub(super) fn insert(&mut self, sector: u64, version: Version) {
        self.versions += 1;
        match self.sectors.entry(sector) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Stack { older: Vec::new(), newest: version });
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                let stack = entry.get_mut();
                let before = std::mem::replace(&mut stack.newest, version);
                stack.older.push(before);
            }
        }
    }

    /// The newest version of each cached sector in the range.
    pub(super) fn newest_in(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Version)> {
        self.sectors.range(range).map(|(&sector, stack)| (sector, &stack.newest))
    }

    /// The versions that operation `id` wrote in the range and that nothing durable has superseded.
    pub(super) fn written_by(&self, id: u64, range: Range<u64>) -> Vec<(u64, Version)> {
        self.sectors
            .range(range)
            .filter_map(|(&sector, stack)| {
                stack.oldest_to_newest().find(|version| version.id == id).map(|version| (sector, version.clone()))
            })
            .collect()
    }

    /// For each sector the newest version that the flush covers.
    pub(super) fn covered(&self, covered: &Covered) -> Vec<(u64, Version)> {
        self.sectors
            .iter()
            .filter_map(|(&sector, stack)| {
                let version = stack.oldest_to_newest().rev().find(|version| covered.contains(version.id))?;
                Some((sector, version.clone()))
            })
            .collect()
    }

    /// All versions of all sectors, by sector, oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, Vec<&Version>)> {
        self.sectors.iter().map(|(&sector, stack)| (sector, stack.oldest_to_newest().collect()))
    }

    /// Version `id` of the sector is durable now: it and everything older can no longer be chosen.
    pub(super) fn settle(&mut self, sector: u64, id: u64) {
        let Some(stack) = self.sectors.get_mut(&sector) else { return };
        if stack.newest.id <= id {
            self.versions -= stack.older.len() + 1;
            self.sectors.remove(&sector);
        } else {
            let before = stack.older.len();
            stack.older.retain(|version| version.id > id);
            self.versions -= before - stack.older.len();
        }
    }

    /// As [`Self::settle`] for each cached sector of a range.
    pub(super) fn settle_range(&mut self, range: Range<u64>, id: u64) {
        let sectors: Vec<u64> = self.sectors.range(range).map(|(&sector, _)| sector).collect();
        for sector in sectors {
            self.settle(sector, id);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.sectors.clear();
        self.versions = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(id: u64) -> Version {
        Version { id, content: Content::Zeroes }
    }

    #[test]
    fn settling_drops_older_versions_only() {
        let mut cache = SectorCache::default();
        for id in 1..=4 {
            cache.insert(9, version(id));
        }
        cache.settle(9, 2);
        let left: Vec<u64> = cache.all().flat_map(|(_, versions)| versions).map(|version| version.id).collect();
        assert_eq!((left, cache.version_count()), (vec![3, 4], 2));
        cache.settle(9, 4);
        assert_eq!((cache.sector_count(), cache.version_count()), (0, 0));
    }

    #[test]
    fn a_flush_covers_the_newest_completed_version() {
        let mut cache = SectorCache::default();
        for id in 1..=4 {
            cache.insert(9, version(id));
        }
        let covered = Covered { below_id: 4, except: BTreeSet::from([3]) };
        let chosen: Vec<u64> = cache.covered(&covered).iter().map(|(_, version)| version.id).collect();
        assert_eq!(chosen, [2]);
    }
}
