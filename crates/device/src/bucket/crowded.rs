//! Tracks units with enough visible objects that a merge into one object pays.

use std::collections::{BTreeMap, BTreeSet};

/// The crowded units.
#[derive(Debug)]
pub(crate) struct Crowded {
    /// Most objects that may be visible in a unit before it is merged.
    objects_max: usize,
    due: BTreeSet<u64>,
    /// Units whose merge failed, each with the count of visible objects above which it is tried again. Each try reads
    /// the whole unit.
    failed: BTreeMap<u64, usize>,
}

impl Crowded {
    pub(crate) fn new(objects_max: usize) -> Self {
        Self { objects_max, due: BTreeSet::new(), failed: BTreeMap::new() }
    }

    /// Whether `showing` visible objects are too many for the unit.
    pub(crate) fn is_crowded(&self, unit: u64, showing: usize) -> bool {
        showing > self.failed.get(&unit).copied().unwrap_or(self.objects_max)
    }

    /// Notes that `showing` objects are visible in the unit.
    pub(crate) fn showing(&mut self, unit: u64, showing: usize) {
        if self.is_crowded(unit, showing) {
            self.due.insert(unit);
        }
    }

    /// Removes and returns a due unit that is not in `busy`.
    pub(crate) fn take(&mut self, busy: &BTreeSet<u64>) -> Option<u64> {
        let unit = self.due.iter().find(|unit| !busy.contains(unit)).copied()?;
        self.due.remove(&unit);
        Some(unit)
    }

    /// The merge of a unit failed. It is tried again when twice as many objects are visible.
    pub(crate) fn failed(&mut self, unit: u64, showing: usize) {
        self.failed.insert(unit, showing.saturating_mul(2).max(self.objects_max));
    }

    /// The merge of a unit succeeded.
    pub(crate) fn made_one(&mut self, unit: u64) {
        self.failed.remove(&unit);
    }
}
