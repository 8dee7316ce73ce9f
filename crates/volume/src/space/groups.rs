//! Groups of bands whose summary is not on the device: who was written into them, and how far their summary has come.

use crate::layout::band_summary::{BandShape, SummaryEntry};
use std::collections::{BTreeMap, BTreeSet};

/// Band and number of a group.
pub type GroupKey = (u32, u32);

/// How far the summary of a group has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// More data will come into the group.
    #[default]
    Filling,
    /// The group is complete: its summary is to be written.
    Due,
    /// It is on its way.
    Writing,
}

/// Entries of a group whose summary is not on the device.
#[derive(Clone, Debug, Default)]
struct Group {
    entries: Vec<SummaryEntry>,
    stage: Stage,
}

/// The groups.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    groups: BTreeMap<GroupKey, Group>,
    /// How many of them are due.
    due: usize,
}

impl Groups {
    /// Groups that are not complete, with their entries so far.
    #[must_use]
    pub fn new(filling: Vec<(u32, u32, Vec<SummaryEntry>)>) -> Self {
        let filling =
            filling.into_iter().map(|(band, group, entries)| ((band, group), Group { entries, stage: Stage::Filling }));
        Self { groups: filling.collect(), due: 0 }
    }

    /// Entries of groups that are not complete.
    pub fn filling(&self) -> impl Iterator<Item = (u32, u32, &[SummaryEntry])> {
        let filling =
            self.groups.iter().filter(|(_, group)| group.stage == Stage::Filling && !group.entries.is_empty());
        filling.map(|(&(band, number), group)| (band, number, group.entries.as_slice()))
    }

    /// Keys of all groups.
    #[must_use]
    pub fn keys(&self) -> Vec<GroupKey> {
        self.groups.keys().copied().collect()
    }

    /// A group is complete: its summary is due.
    pub fn make_due(&mut self, key: GroupKey) {
        self.groups.entry(key).or_default().stage = Stage::Due;
        self.due += 1;
    }

    /// Number of groups whose summary is to be written.
    #[must_use]
    pub fn due_count(&self) -> usize {
        self.due
    }

    /// Groups whose summary is to be written, at most `limit`.
    #[must_use]
    pub fn due(&self, limit: usize) -> Vec<GroupKey> {
        if self.due == 0 {
            return Vec::new();
        }
        let due = self.groups.iter().filter(|(_, group)| group.stage == Stage::Due);
        due.map(|(&key, _)| key).take(limit).collect()
    }

    /// Complete groups whose summary has not reached the device.
    #[must_use]
    pub fn unwritten(&self) -> BTreeSet<GroupKey> {
        let complete = self.groups.iter().filter(|(_, group)| group.stage != Stage::Filling);
        complete.map(|(&key, _)| key).collect()
    }

    /// Whether the summary of a complete group has not reached the device.
    #[must_use]
    pub fn is_unwritten(&self, key: GroupKey) -> bool {
        self.groups.get(&key).is_some_and(|group| group.stage != Stage::Filling)
    }

    fn of_band(&self, band: u32) -> impl Iterator<Item = (&GroupKey, &Group)> {
        self.groups.range((band, 0)..=(band, u32::MAX))
    }

    /// Whether there are groups of a band whose summary is not on the device.
    #[must_use]
    pub fn has_any(&self, band: u32) -> bool {
        self.of_band(band).next().is_some()
    }

    /// Whether a summary of the band is on its way to the device.
    #[must_use]
    pub fn is_in_flight(&self, band: u32) -> bool {
        self.of_band(band).any(|(_, group)| group.stage == Stage::Writing)
    }

    /// The entries of a group that is due: from now on its summary counts as being on its way.
    pub fn begin(&mut self, key: GroupKey) -> Option<&[SummaryEntry]> {
        let group = self.groups.get_mut(&key).filter(|group| group.stage == Stage::Due)?;
        group.stage = Stage::Writing;
        self.due -= 1;
        Some(&group.entries)
    }

    /// The summary of a group reached the device, or not: then it is due again.
    pub fn written(&mut self, key: GroupKey, is_good: bool) {
        if self.groups.get(&key).is_none_or(|group| group.stage != Stage::Writing) {
            return;
        }
        if is_good {
            self.groups.remove(&key);
        } else {
            self.make_due(key);
        }
    }

    /// Forgets entries of a band that is to be trimmed or opened again, except those on their way.
    pub fn forget(&mut self, band: u32) {
        let keys: Vec<GroupKey> = self.of_band(band).map(|(&key, _)| key).collect();
        for key in keys {
            match self.groups.get(&key).map(|group| group.stage) {
                Some(Stage::Writing) | None => continue,
                Some(Stage::Due) => self.due -= 1,
                Some(Stage::Filling) => {}
            }
            self.groups.remove(&key);
        }
    }

    /// Entries of a group whose summary is not on the device.
    #[must_use]
    pub fn entries(&self, key: GroupKey) -> Option<&[SummaryEntry]> {
        self.groups.get(&key).map(|group| group.entries.as_slice())
    }

    /// Notes who is written into a block.
    pub fn note(&mut self, shape: BandShape, band: u32, block: u32, entry: SummaryEntry) {
        let group = shape.group_of(block);
        // Every block is stored whole, so that an entry's number is its block's.
        let at = (block - shape.first_block(group)) as usize;
        let entries = &mut self.groups.entry((band, group)).or_default().entries;
        if entries.len() <= at {
            entries.resize(at + 1, SummaryEntry::NONE);
        }
        entries[at] = entry;
    }
}
