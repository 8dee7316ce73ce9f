//! Groups of bands whose summary is not durable on the device: the entries of what was written into them, and how far their summary has come.

use crate::layout::band_summary::{BandShape, ENTRIES_MAX, OPEN_ALL_MAX, PAGE_ENTRIES, SummaryEntry, UNWRITTEN_MAX};
use crate::layout::page::BLOCK_GRAINS;
use std::collections::{BTreeMap, BTreeSet};

/// While so many groups wait for another attempt at writing their summary no more space is promised: this bounds what is kept of them in memory.
const DUE_MAX: usize = 128;
/// The same for entries of groups whose summary waits for a flush; by entries, as groups of small bands have few. From half of this on a flush is
/// wanted.
const UNFLUSHED_MAX: usize = 256 * PAGE_ENTRIES;
/// Most memory in bytes that entries take: of the groups that wait, of those that the root has, and of one group of each open band.
pub const ENTRIES_MEMORY_BYTES: u64 = {
    let groups = DUE_MAX as u64 + KEPT_MAX as u64 + OPEN_ALL_MAX;
    // The last group before no more space is promised may be one of the longest.
    (groups * ENTRIES_MAX as u64 + (UNFLUSHED_MAX + ENTRIES_MAX) as u64) * size_of::<SummaryEntry>() as u64
};

/// Attempts at writing a summary by itself after which its place counts as one that takes no writes.
const KEPT_AFTER: u8 = 2;
/// Most groups whose entries the root carries for that reason.
pub const KEPT_MAX: usize = UNWRITTEN_MAX;

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
    /// It is in a volatile cache, as the nth to arrive in one: a flush that fails may lose it.
    Unflushed(u64),
}

/// Entries of a group whose summary is not durable.
#[derive(Clone, Debug, Default)]
struct Group {
    entries: Vec<SummaryEntry>,
    stage: Stage,
    /// How often its summary could not be written by itself.
    failures: u8,
    /// The root has its entries, so that its summary is not waited for.
    is_kept: bool,
    /// The block of the band in which what was granted of it ends; `None`: nothing was granted since the start.
    granted_to: Option<u32>,
}

impl Group {
    fn is_awaited(&self) -> bool {
        matches!(self.stage, Stage::Due | Stage::Writing) && !self.is_kept
    }

    fn is_on_device(&self) -> bool {
        matches!(self.stage, Stage::Unflushed(_))
    }
}

/// The groups.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    groups: BTreeMap<GroupKey, Group>,
    /// How many are due, without those whose entries the root has.
    due: usize,
    /// Entries of groups whose summary is in a volatile cache.
    unflushed: usize,
    /// How many summaries have arrived in volatile caches since the start.
    arrived: u64,
}

impl Groups {
    /// Groups that are not complete, with their entries so far; and complete ones whose entries a root had.
    #[must_use]
    pub fn new(filling: Vec<(u32, u32, Vec<SummaryEntry>)>) -> Self {
        let filling =
            filling.into_iter().map(|(band, group, entries)| ((band, group), Group { entries, ..Group::default() }));
        Self { groups: filling.collect(), ..Self::default() }
    }

    /// Entries of groups that are not complete.
    pub fn filling(&self) -> impl Iterator<Item = (u32, u32, &[SummaryEntry])> {
        let filling =
            self.groups.iter().filter(|(_, group)| group.stage == Stage::Filling && !group.entries.is_empty());
        filling.map(|(&(band, number), group)| (band, number, group.entries.as_slice()))
    }

    /// Keys of all groups.
    #[cfg(test)]
    fn keys(&self) -> Vec<GroupKey> {
        self.groups.keys().copied().collect()
    }

    /// What was granted of a group ends at this block, and no more will be granted: its summary is due.
    pub fn end_at(&mut self, key: GroupKey, block: u32) {
        self.groups.entry(key).or_default().granted_to = Some(block);
        self.make_due(key);
    }

    /// Where what was granted of a group ends, whether or not it was noted.
    #[must_use]
    pub fn granted_to(&self, key: GroupKey) -> Option<u32> {
        self.groups.get(&key)?.granted_to
    }

    /// A group is complete: its summary is due.
    fn make_due(&mut self, key: GroupKey) {
        let group = self.groups.entry(key).or_default();
        group.stage = Stage::Due;
        self.due += usize::from(!group.is_kept);
    }

    /// Ends replay: groups of a band before `to` are complete. Those before `from` have their summary on the device, or their entries in the root. Of
    /// the others nothing may be known, where a power cut took everything that was on its way to them: they get a summary too, which says so.
    pub fn complete(&mut self, band: u32, from: u32, to: u32) {
        let known: Vec<GroupKey> =
            self.of_band(band).map(|(&key, _)| key).filter(|(_, number)| *number < from).collect();
        known.into_iter().chain((from..to).map(|number| (band, number))).for_each(|key| self.make_due(key));
    }

    /// The summary of a group that is due could not be written by itself. After some attempts the root carries its entries, and it is waited for no
    /// more: one place that takes no writes must not end all checkpoints. False where there are too many such groups.
    pub fn place_failed(&mut self, key: GroupKey) -> bool {
        let (count, entries) = self.kept().fold((0, 0), |(count, all), (_, entries)| (count + 1, all + entries.len()));
        let Some(group) = self.groups.get_mut(&key).filter(|group| group.stage == Stage::Due) else { return false };
        let has_room = count < KEPT_MAX && entries + group.entries.len() <= KEPT_MAX * PAGE_ENTRIES;
        if group.is_kept || !has_room {
            return group.is_kept;
        }
        group.failures += 1;
        if group.failures >= KEPT_AFTER {
            group.is_kept = true;
            self.due -= 1;
        }
        true
    }

    /// Complete groups whose entries the root has, because their summary cannot be written.
    pub fn kept(&self) -> impl Iterator<Item = (GroupKey, &[SummaryEntry])> {
        let kept = self.groups.iter().filter(|(_, group)| group.is_kept);
        kept.map(|(&key, group)| (key, group.entries.as_slice()))
    }

    /// The keys of those whose summary is not on its way.
    #[must_use]
    pub fn kept_due(&self) -> Vec<GroupKey> {
        let due = self.groups.iter().filter(|(_, group)| group.is_kept && group.stage == Stage::Due);
        due.map(|(&key, _)| key).collect()
    }

    /// Number of groups whose summary is to be written.
    #[must_use]
    pub fn due_count(&self) -> usize {
        self.due
    }

    /// Whether so many summaries wait to be written that no more may come.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.due >= DUE_MAX || self.awaits_flush()
    }

    /// Whether no more space is promised until a flush of the summaries that are in volatile caches.
    #[must_use]
    pub fn awaits_flush(&self) -> bool {
        self.unflushed >= UNFLUSHED_MAX
    }

    /// How many summaries have arrived in volatile caches since the start.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Bands of the summaries in volatile caches, where these are so many that a flush of them is wanted.
    pub fn crowded(&self) -> Option<impl Iterator<Item = u32>> {
        let unflushed = || self.groups.iter().filter(|(_, group)| group.is_on_device()).map(|(&(band, _), _)| band);
        (self.unflushed > UNFLUSHED_MAX / 2).then(unflushed)
    }

    /// Groups whose summary is to be written, at most `limit`.
    #[must_use]
    pub fn due(&self, limit: usize) -> Vec<GroupKey> {
        if self.due == 0 {
            return Vec::new();
        }
        let due = self.groups.iter().filter(|(_, group)| group.stage == Stage::Due && !group.is_kept);
        due.map(|(&key, _)| key).take(limit).collect()
    }

    /// Complete groups whose summary has not reached the device, and whose entries no root has.
    #[must_use]
    pub fn unwritten(&self) -> BTreeSet<GroupKey> {
        let complete = self.groups.iter().filter(|(_, group)| group.is_awaited());
        complete.map(|(&key, _)| key).collect()
    }

    /// Whether a group is one of these.
    #[must_use]
    pub fn is_unwritten(&self, key: GroupKey) -> bool {
        self.groups.get(&key).is_some_and(Group::is_awaited)
    }

    fn of_band(&self, band: u32) -> impl Iterator<Item = (&GroupKey, &Group)> {
        self.groups.range((band, 0)..=(band, u32::MAX))
    }

    /// Whether there are groups of a band whose summary is not on the device, and is waited for.
    #[must_use]
    pub fn has_awaited(&self, band: u32) -> bool {
        self.of_band(band).any(|(_, group)| !group.is_kept && !group.is_on_device())
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
        self.due -= usize::from(!group.is_kept);
        Some(&group.entries)
    }

    /// The summary of a group reached the device, or its volatile cache; or it failed, and is due again.
    pub fn written(&mut self, key: GroupKey, is_good: bool, is_volatile: bool) {
        let Some(group) = self.groups.get_mut(&key).filter(|group| group.stage == Stage::Writing) else { return };
        if !is_good {
            self.make_due(key);
        } else if is_volatile {
            self.arrived += 1;
            self.unflushed += group.entries.len();
            (group.stage, group.is_kept, group.failures) = (Stage::Unflushed(self.arrived), false, 0);
        } else {
            self.groups.remove(&key);
        }
    }

    /// A flush made durable the summaries that had arrived by then, of these bands.
    pub fn flushed(&mut self, arrived: u64, is_flushed: impl Fn(u32) -> bool) {
        let Self { groups, unflushed, .. } = self;
        groups.retain(|&(band, _), group| {
            let is_durable = matches!(group.stage, Stage::Unflushed(number) if number <= arrived) && is_flushed(band);
            *unflushed -= if is_durable { group.entries.len() } else { 0 };
            !is_durable
        });
    }

    /// A flush failed: summaries that no good flush has covered are due again.
    pub fn doubt_unflushed(&mut self) {
        for group in self.groups.values_mut().filter(|group| group.is_on_device()) {
            group.stage = Stage::Due;
            self.due += 1;
        }
        self.unflushed = 0;
    }

    /// Forgets entries of a band that is to be trimmed or opened again, except those on their way.
    pub fn forget(&mut self, band: u32) {
        let keys: Vec<GroupKey> = self.of_band(band).map(|(&key, _)| key).collect();
        for key in keys {
            let Some(group) = self.groups.get(&key) else { continue };
            match group.stage {
                Stage::Writing => continue,
                Stage::Due => self.due -= usize::from(!group.is_kept),
                Stage::Unflushed(_) => self.unflushed -= group.entries.len(),
                Stage::Filling => {}
            }
            self.groups.remove(&key);
        }
    }

    /// Entries of a group whose summary is not on the device.
    #[must_use]
    pub fn entries(&self, key: GroupKey) -> Option<&[SummaryEntry]> {
        self.groups.get(&key).filter(|group| !group.is_on_device()).map(|group| group.entries.as_slice())
    }

    /// Notes the entry of data from this grain of a band on.
    pub fn note(&mut self, shape: BandShape, band: u32, grain: u32, entry: SummaryEntry) {
        let group = shape.group_of(grain / BLOCK_GRAINS as u32);
        let at = grain - shape.first_block(group) * BLOCK_GRAINS as u32;
        let entries = &mut self.groups.entry((band, group)).or_default().entries;
        place(entries, at, entry);
        // Only a journal that no engine wrote has more.
        entries.truncate(ENTRIES_MAX);
    }
}

/// Puts an entry at a grain of its group. Entries follow each other without gaps: what is not known yet before it gets an entry too, and what it
/// overlaps is replaced.
fn place(entries: &mut Vec<SummaryEntry>, at: u32, entry: SummaryEntry) {
    let to = at + u32::from(entry.grains);
    // Usually it is the next one.
    let (mut first, mut begin) = (entries.len(), entries.iter().map(|e| u32::from(e.grains)).sum::<u32>());
    let all = begin;
    while begin > at && first > 0 {
        first -= 1;
        begin -= u32::from(entries[first].grains);
    }
    let (mut end, mut behind) = (first, begin);
    while behind < to && end < entries.len() {
        behind += u32::from(entries[end].grains);
        end += 1;
    }
    let mut put = Vec::with_capacity(3);
    // A gap before it is joined to an entry of unknown grains that is there.
    let mut gap = at - begin;
    if gap > 0 && first == entries.len() && entries.last().is_some_and(|last| !last.is_known()) {
        first -= 1;
        gap += u32::from(entries[first].grains);
    }
    put.extend(unknown(gap));
    put.push(entry);
    if behind > to && to < all {
        put.extend(unknown(behind - to));
    }
    entries.splice(first..end.max(first), put);
}

/// Entries of grains of which nothing is known.
fn unknown(mut grains: u32) -> impl Iterator<Item = SummaryEntry> {
    std::iter::from_fn(move || {
        let some = u16::try_from(grains).unwrap_or(u16::MAX);
        grains -= u32::from(some);
        (some > 0).then(|| SummaryEntry::none(some))
    })
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
