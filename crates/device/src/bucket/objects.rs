//! The objects in the bucket: which of them is visible where, and which are garbage.
//!
//! An object becomes garbage when newer objects cover it or its range is discarded. It may be deleted only after an
//! epoch check that began later than that. Then the next server to open the device lists the newer objects, too, and
//! a server that was replaced deletes nothing that its successor reads.

use super::extents::Extents;
use super::name::{Content, ObjectName, Sequence};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

#[derive(Clone, Copy, Debug)]
struct Object {
    name: ObjectName,
    shown_bytes: u64,
    /// Reads of the object in flight; it is not deleted before they end.
    readers: u32,
}

/// All objects of the device.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    extents: Extents,
    table: BTreeMap<Sequence, Object>,
    /// Count of objects in each unit, including garbage.
    of_unit: BTreeMap<u64, u32>,
    unit_bytes: u64,
    /// Objects that are visible nowhere.
    garbage: BTreeSet<Sequence>,
    /// Garbage in three stages: made since the last epoch check began; made before it; safe to delete.
    unsure: Vec<Sequence>,
    looked_at: Vec<Sequence>,
    deletable: VecDeque<Sequence>,
    /// Discarded ranges in which objects in flight must not become visible, each with the sequence of the discard.
    holes: Vec<(Range<u64>, Sequence)>,
}

impl Objects {
    /// An empty table. No object crosses the border of a unit.
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

    /// Adds an object.
    pub(crate) fn add(&mut self, name: ObjectName) {
        let change = self.extents.insert(name.start_bytes..name.end_bytes(), name.sequence);
        self.enter(name, change.shown_bytes);
        self.lose(change.lost);
    }

    /// Adds an object that must not become visible.
    pub(crate) fn add_garbage(&mut self, name: ObjectName) {
        self.enter(name, 0);
    }

    fn lose(&mut self, lost: Vec<(Sequence, u64)>) {
        for (sequence, bytes) in lost {
            // A discarded range has a sequence, too, but no object.
            let Some(object) = self.table.get_mut(&sequence) else { continue };
            object.shown_bytes -= bytes;
            if object.shown_bytes == 0 {
                self.garbage.insert(sequence);
                self.unsure.push(sequence);
            }
        }
    }

    /// Makes nothing visible in a range. Where `since` is given, which is newer than all objects in flight, those do
    /// not become visible there either.
    pub(crate) fn discard(&mut self, range: Range<u64>, since: Option<Sequence>) {
        let lost = self.extents.remove(range.clone());
        self.lose(lost);
        if let Some(since) = since {
            self.extents.insert(range.clone(), since);
            self.holes.push((range, since));
        }
    }

    /// Forgets discards that are older than `oldest`, the oldest object in flight: only objects written after them
    /// can still arrive. `None`: nothing is in flight.
    pub(crate) fn fill_holes(&mut self, oldest: Option<Sequence>) {
        let ends = oldest.map_or(self.holes.len(), |oldest| self.holes.partition_point(|(_, since)| *since < oldest));
        for (range, sequence) in self.holes.drain(..ends) {
            self.extents.remove_of(&range, sequence);
        }
    }

    /// Splits a range into parts, each with the object whose data is visible there; `None` where there are zeros or
    /// nothing.
    pub(crate) fn look(&self, range: Range<u64>) -> Vec<(Range<u64>, Option<ObjectName>)> {
        let name = |sequence: Sequence| {
            let name = self.table.get(&sequence)?.name;
            matches!(name.content, Content::Data { .. }).then_some(name)
        };
        self.extents.look(range).into_iter().map(|(part, shows)| (part, shows.and_then(name))).collect()
    }

    /// The parts of a range in which objects are visible, including objects of zeros.
    pub(crate) fn shown(&self, range: Range<u64>) -> Vec<(Range<u64>, ObjectName)> {
        let parts = self.extents.look(range).into_iter();
        parts.filter_map(|(part, shows)| Some((part, self.table.get(&shows?)?.name))).collect()
    }

    /// The first unit, from this one on, that holds any object. Garbage counts, and so do objects of discarded
    /// ranges, which become visible again at the next opening.
    pub(crate) fn next_unit(&self, from: u64) -> Option<u64> {
        self.of_unit.range(from..).next().map(|(unit, _)| *unit)
    }

    /// Count of objects visible in a unit. An object that is visible in several places counts once: a page that is
    /// rewritten often splits the objects around it, which is no reason to rewrite the whole unit.
    pub(crate) fn showing(&self, unit: u64) -> usize {
        let range = unit * self.unit_bytes..(unit + 1) * self.unit_bytes;
        let sequences: BTreeSet<Sequence> =
            self.extents.look(range).into_iter().filter_map(|(_, shows)| shows).collect();
        sequences.iter().filter(|sequence| self.table.contains_key(sequence)).count()
    }

    /// Keeps an object from being deleted while it is read.
    pub(crate) fn pin(&mut self, sequence: Sequence) {
        if let Some(object) = self.table.get_mut(&sequence) {
            object.readers += 1;
        }
    }

    /// A read of the object has ended.
    pub(crate) fn unpin(&mut self, sequence: Sequence) {
        if let Some(object) = self.table.get_mut(&sequence) {
            object.readers -= 1;
        }
    }

    /// Whether any object became garbage since the last epoch check began.
    pub(crate) fn wants_look(&self) -> bool {
        !self.unsure.is_empty()
    }

    /// An epoch check begins.
    pub(crate) fn look_begins(&mut self) {
        self.looked_at.append(&mut self.unsure);
    }

    /// The epoch check has ended. `is_ours`: the epoch is still this server's.
    pub(crate) fn look_ended(&mut self, is_ours: bool) {
        match is_ours {
            true => self.deletable.extend(self.looked_at.drain(..)),
            false => self.unsure.append(&mut self.looked_at),
        }
    }

    /// The next object to delete. It stays in the table until the deletion has ended.
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

    /// Count of discarded ranges that are remembered.
    #[cfg(test)]
    pub(crate) fn holes(&self) -> usize {
        self.holes.len()
    }

    /// Count of all objects, and of garbage among them.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.table.len(), self.garbage.len())
    }
}
