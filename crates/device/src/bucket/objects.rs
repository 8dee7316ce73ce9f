//! The objects that are in the bucket: which of them show where, and which are garbage.
//!
//! An object is garbage once newer ones cover it, or its range was discarded. It may be deleted only after a look at the epoch that
//! began later than that: then whoever opens the device next lists what covers it, and a server that was replaced deletes nothing
//! that its successor reads.

use super::extents::Extents;
use super::name::{Content, ObjectName, Sequence};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

#[derive(Clone, Copy, Debug)]
struct Object {
    name: ObjectName,
    shown_bytes: u64,
    /// Reads of it in flight: it is not deleted under them.
    readers: u32,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    extents: Extents,
    table: BTreeMap<Sequence, Object>,
    /// How many there are in each unit, garbage included.
    of_unit: BTreeMap<u64, u32>,
    unit_bytes: u64,
    /// All that show nowhere.
    garbage: BTreeSet<Sequence>,
    /// Garbage since the last look at the epoch began; since before that; and what may be deleted.
    unsure: Vec<Sequence>,
    looked_at: Vec<Sequence>,
    deletable: VecDeque<Sequence>,
    /// Discarded ranges that objects in flight must not show in, and when that was.
    holes: Vec<(Range<u64>, Sequence)>,
}

impl Objects {
    /// None. No object crosses the border of a unit.
    pub(crate) fn new(unit_bytes: u64) -> Self {
        Self { unit_bytes, ..Self::default() }
    }

    fn enter(&mut self, name: ObjectName, shown_bytes: u64) {
        self.table.insert(name.sequence, Object { name, shown_bytes, readers: 0 });
        *self.of_unit.entry(name.start_bytes / self.unit_bytes).or_default() += 1;
        if shown_bytes == 0 {
            self.garbage.insert(name.sequence);
            self.unsure.push(name.sequence);
        }
    }

    /// An object is there.
    pub(crate) fn add(&mut self, name: ObjectName) {
        let change = self.extents.insert(name.start_bytes..name.end_bytes(), name.sequence);
        self.enter(name, change.shown_bytes);
        self.lose(change.lost);
    }

    /// An object is there that must not be.
    pub(crate) fn add_garbage(&mut self, name: ObjectName) {
        self.enter(name, 0);
    }

    fn lose(&mut self, lost: Vec<(Sequence, u64)>) {
        for (sequence, bytes) in lost {
            // A hole is no object.
            let Some(object) = self.table.get_mut(&sequence) else { continue };
            object.shown_bytes -= bytes;
            if object.shown_bytes == 0 {
                self.garbage.insert(sequence);
                self.unsure.push(sequence);
            }
        }
    }

    /// Nothing shows in a range any more; nor will objects that are in flight, where `since` is given, which is newer than these.
    pub(crate) fn discard(&mut self, range: Range<u64>, since: Option<Sequence>) {
        let lost = self.extents.remove(range.clone());
        self.lose(lost);
        if let Some(since) = since {
            self.extents.insert(range.clone(), since);
            self.holes.push((range, since));
        }
    }

    /// No object is in flight but this one and newer ones, which show in what was discarded before them.
    pub(crate) fn fill_holes(&mut self, oldest: Option<Sequence>) {
        let ends = oldest.map_or(self.holes.len(), |oldest| self.holes.partition_point(|(_, since)| *since < oldest));
        for (range, sequence) in self.holes.drain(..ends) {
            self.extents.remove_of(&range, sequence);
        }
    }

    /// A range from its beginning to its end, and the object with data that shows there.
    pub(crate) fn look(&self, range: Range<u64>) -> Vec<(Range<u64>, Option<ObjectName>)> {
        let name = |sequence: Sequence| {
            let name = self.table.get(&sequence)?.name;
            matches!(name.content, Content::Data { .. }).then_some(name)
        };
        self.extents.look(range).into_iter().map(|(part, shows)| (part, shows.and_then(name))).collect()
    }

    /// Parts of a range in which objects show, those without data too.
    pub(crate) fn shown(&self, range: Range<u64>) -> Vec<(Range<u64>, ObjectName)> {
        let parts = self.extents.look(range).into_iter();
        parts.filter_map(|(part, shows)| Some((part, self.table.get(&shows?)?.name))).collect()
    }

    /// The first unit from this one on that there is anything in: be it garbage, or a part that was discarded, which shows again after the
    /// next opening.
    pub(crate) fn next_unit(&self, from: u64) -> Option<u64> {
        self.of_unit.range(from..).next().map(|(unit, _)| *unit)
    }

    /// How many objects show in a unit. One that shows in several places counts once: a page that is written again and again cuts those
    /// around it, and is no reason to write all of it again.
    pub(crate) fn showing(&self, unit: u64) -> usize {
        let range = unit * self.unit_bytes..(unit + 1) * self.unit_bytes;
        let sequences: BTreeSet<Sequence> =
            self.extents.look(range).into_iter().filter_map(|(_, shows)| shows).collect();
        sequences.iter().filter(|sequence| self.table.contains_key(sequence)).count()
    }

    /// A read of an object begins.
    pub(crate) fn pin(&mut self, sequence: Sequence) {
        if let Some(object) = self.table.get_mut(&sequence) {
            object.readers += 1;
        }
    }

    /// It has ended.
    pub(crate) fn unpin(&mut self, sequence: Sequence) {
        if let Some(object) = self.table.get_mut(&sequence) {
            object.readers -= 1;
        }
    }

    /// Whether something became garbage since the last look at the epoch began.
    pub(crate) fn wants_look(&self) -> bool {
        !self.unsure.is_empty()
    }

    /// A look at the epoch begins.
    pub(crate) fn look_begins(&mut self) {
        self.looked_at.append(&mut self.unsure);
    }

    /// It has ended, with what it should have.
    pub(crate) fn look_ended(&mut self, is_ours: bool) {
        match is_ours {
            true => self.deletable.extend(self.looked_at.drain(..)),
            false => self.unsure.append(&mut self.looked_at),
        }
    }

    /// The next object to delete. It is in the table until it is gone.
    pub(crate) fn next_to_delete(&mut self) -> Option<ObjectName> {
        for _ in 0..self.deletable.len() {
            let sequence = self.deletable.pop_front()?;
            let Some(object) = self.table.get(&sequence) else { continue };
            if object.readers == 0 {
                return Some(object.name);
            }
            self.deletable.push_back(sequence);
        }
        None
    }

    /// A deletion has ended.
    pub(crate) fn deleted(&mut self, sequence: Sequence, is_gone: bool) {
        if is_gone {
            self.garbage.remove(&sequence);
            let Some(object) = self.table.remove(&sequence) else { return };
            let unit = object.name.start_bytes / self.unit_bytes;
            if let Some(count) = self.of_unit.get_mut(&unit) {
                *count -= 1;
                if *count == 0 {
                    self.of_unit.remove(&unit);
                }
            }
        } else {
            self.deletable.push_back(sequence);
        }
    }

    /// How many discarded ranges are remembered.
    #[cfg(test)]
    pub(crate) fn holes(&self) -> usize {
        self.holes.len()
    }

    /// How many there are, garbage included, and how many of them are garbage.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.table.len(), self.garbage.len())
    }
}
