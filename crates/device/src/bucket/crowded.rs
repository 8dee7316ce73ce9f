//! Units in which so many objects show that they are to be made one.

use std::collections::{BTreeMap, BTreeSet};

/// Which they are.
#[derive(Debug)]
pub(crate) struct Crowded {
    /// So many objects may show.
    objects_max: usize,
    due: BTreeSet<u64>,
    /// Where it failed, and how many may show until it is tried again: each try reads all of a unit.
    failed: BTreeMap<u64, usize>,
}

impl Crowded {
    pub(crate) fn new(objects_max: usize) -> Self {
        Self { objects_max, due: BTreeSet::new(), failed: BTreeMap::new() }
    }

    /// Whether so many are too many in a unit.
    pub(crate) fn is_crowded(&self, unit: u64, showing: usize) -> bool {
        showing > self.failed.get(&unit).copied().unwrap_or(self.objects_max)
    }

    /// So many show in a unit.
    pub(crate) fn showing(&mut self, unit: u64, showing: usize) {
        if self.is_crowded(unit, showing) {
            self.due.insert(unit);
        }
    }

    /// Takes one that is none of these.
    pub(crate) fn take(&mut self, busy: &BTreeSet<u64>) -> Option<u64> {
        let unit = self.due.iter().find(|unit| !busy.contains(unit)).copied()?;
        self.due.remove(&unit);
        Some(unit)
    }

    /// The objects of a unit could not be made one: it is tried again when twice as many show.
    pub(crate) fn failed(&mut self, unit: u64, showing: usize) {
        self.failed.insert(unit, showing.saturating_mul(2).max(self.objects_max));
    }

    /// They were made one.
    pub(crate) fn made_one(&mut self, unit: u64) {
        self.failed.remove(&unit);
    }
}
