//! The unflushed sectors: every version that a write created and that no durable version has superseded.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// One version of a sector, with the number of the operation that wrote it. Later operations have higher numbers.
#[derive(Clone, Debug)]
pub struct Version<C> {
    /// Number of the operation.
    pub id: u64,
    /// The content that it wrote.
    pub content: C,
}

/// Versions of one sector, oldest first. The newest is stored separately, because nearly all sectors have just one.
#[derive(Debug)]
struct Stack<C> {
    older: Vec<Version<C>>,
    newest: Version<C>,
}

impl<C> Stack<C> {
    fn oldest_to_newest(&self) -> impl DoubleEndedIterator<Item = &Version<C>> {
        self.older.iter().chain(std::iter::once(&self.newest))
    }
}

/// The operations that a flush covers: those completed before it was submitted.
#[derive(Clone, Debug)]
pub struct Covered {
    /// Operations with this number or a higher one were submitted later, and are not covered.
    pub below_id: u64,
    /// Operations submitted earlier that were not completed when the flush was submitted: not covered either.
    pub except: BTreeSet<u64>,
}

impl Covered {
    /// Covers all operations up to this number.
    #[must_use]
    pub fn up_to(id: u64) -> Self {
        Self { below_id: id + 1, except: BTreeSet::new() }
    }

    /// Whether the flush covers this operation.
    #[must_use]
    pub fn contains(&self, id: u64) -> bool {
        id < self.below_id && !self.except.contains(&id)
    }
}

/// All unflushed sectors of a device, by sector number. `C` is the caller's representation of a sector's content.
#[derive(Debug)]
pub struct SectorCache<C> {
    sectors: BTreeMap<u64, Stack<C>>,
    versions: usize,
}

impl<C> Default for SectorCache<C> {
    fn default() -> Self {
        Self { sectors: BTreeMap::new(), versions: 0 }
    }
}

impl<C: Clone> SectorCache<C> {
    /// Number of versions, of all sectors.
    #[must_use]
    pub fn version_count(&self) -> usize {
        self.versions
    }

    /// Number of sectors with at least one unflushed version.
    #[must_use]
    pub fn sector_count(&self) -> usize {
        self.sectors.len()
    }

    /// Adds a version, whose id must be higher than all before.
    pub fn insert(&mut self, sector: u64, version: Version<C>) {
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

    /// Whether a power cut may lose a version of the sector.
    #[must_use]
    pub fn contains(&self, sector: u64) -> bool {
        self.sectors.contains_key(&sector)
    }

    /// The newest version of each cached sector in the range.
    pub fn newest_in(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Version<C>)> {
        self.sectors.range(range).map(|(&sector, stack)| (sector, &stack.newest))
    }

    /// The versions that operation `id` wrote in the range and that no durable version has superseded.
    #[must_use]
    pub fn written_by(&self, id: u64, range: Range<u64>) -> Vec<(u64, Version<C>)> {
        self.sectors
            .range(range)
            .filter_map(|(&sector, stack)| {
                stack.oldest_to_newest().find(|version| version.id == id).map(|version| (sector, version.clone()))
            })
            .collect()
    }

    /// For each sector, the newest version that the flush covers.
    #[must_use]
    pub fn covered(&self, covered: &Covered) -> Vec<(u64, Version<C>)> {
        self.sectors
            .iter()
            .filter_map(|(&sector, stack)| {
                let version = stack.oldest_to_newest().rev().find(|version| covered.contains(version.id))?;
                Some((sector, version.clone()))
            })
            .collect()
    }

    /// All versions of each sector, oldest first, in order of sectors.
    pub fn all(&self) -> impl Iterator<Item = (u64, Vec<&Version<C>>)> {
        self.sectors.iter().map(|(&sector, stack)| (sector, stack.oldest_to_newest().collect()))
    }

    /// Version `id` of the sector is durable now: removes it and all older ones.
    pub fn settle(&mut self, sector: u64, id: u64) {
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

    /// Like [`Self::settle`], for each cached sector of a range.
    pub fn settle_range(&mut self, range: Range<u64>, id: u64) {
        let sectors: Vec<u64> = self.sectors.range(range).map(|(&sector, _)| sector).collect();
        for sector in sectors {
            self.settle(sector, id);
        }
    }

    /// Forgets all versions.
    pub fn clear(&mut self) {
        self.sectors.clear();
        self.versions = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(id: u64) -> Version<()> {
        Version { id, content: () }
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
