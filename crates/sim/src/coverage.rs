//! What the lives have met: the evidence that a campaign tested something.

use crate::fault::FaultKind;
use forebay_volume::engine::Activity;
use std::collections::{BTreeMap, BTreeSet};

/// Counts by name, including the marks that must be above 0 for a campaign to be meaningful.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u64>,
    /// Power cuts by pairs of things in progress.
    pairs: BTreeMap<(&'static str, &'static str), u64>,
}

/// What every campaign of some length must have met.
pub const MARKS: [&str; 31] = [
    "power cuts",
    "power cuts in recovery",
    "power cuts in a clean stop",
    "power cuts with destage in progress",
    "power cuts with collection in progress",
    "power cuts with a checkpoint in progress",
    "power cuts with a map page being read",
    "power cuts with a map page being written",
    "power cuts with a flush in flight",
    "power cuts with a trim in flight",
    "power cuts with writes waiting for space",
    "power cuts with a change of disks not yet durable",
    "recoveries",
    "recoveries that dropped blocks",
    "recoveries with holes in the journal",
    "verifications",
    "bits that rotted at rest",
    "recoveries in which devices failed",
    "failed flushes made good",
    "reads of cached blocks",
    "cached blocks from before a restart",
    "blocks copied of a base",
    "bases detached",
    "bases laid under disks while the pool was served",
    "bases copied after they had failed",
    "disks made smaller",
    "removals that came to their end",
    "changes that were durable as they were written through",
    "passes of a scrub",
    "changes of what a scrub was reading",
    "scrubs after which any members may be lost",
];

impl Coverage {
    /// Counts one.
    pub fn count(&mut self, what: &'static str) {
        self.count_all(what, 1);
    }

    /// Counts `count` of them.
    pub fn count_all(&mut self, what: &'static str, times: u64) {
        if times > 0 {
            *self.counts.entry(what).or_default() += times;
        }
    }

    /// Counts a power cut while the engine does these things and the devices have these requests in flight.
    pub fn power_cut(&mut self, activity: &Activity, in_flight: impl Iterator<Item = &'static str>) {
        self.count("power cuts");
        let marks = [
            (activity.destage, "power cuts with destage in progress"),
            (activity.collection, "power cuts with collection in progress"),
            (activity.checkpoint, "power cuts with a checkpoint in progress"),
            (activity.page_in, "power cuts with a map page being read"),
            (activity.page_out, "power cuts with a map page being written"),
            (activity.flush, "power cuts with a flush in flight"),
            (activity.trim, "power cuts with a trim in flight"),
            (activity.stalled, "power cuts with writes waiting for space"),
            (activity.rewrite, "power cuts while a failed flush is made good"),
            (activity.scrub, "power cuts with a scrub in progress"),
        ];
        marks.into_iter().filter(|(is_so, _)| *is_so).for_each(|(_, mark)| self.count(mark));
        let states = [
            (activity.destage, "destage"),
            (activity.collection, "collection"),
            (activity.checkpoint, "checkpoint"),
            (activity.stalled, "waiting writes"),
            (activity.sweep, "sweep"),
            (activity.rewrite, "writing again"),
            (activity.scrub, "scrub"),
        ];
        let states = states.into_iter().filter_map(|(is_so, state)| is_so.then_some(state));
        let states: BTreeSet<&'static str> = states.chain(in_flight).collect();
        for &one in &states {
            for &other in states.iter().filter(|&&other| other > one) {
                *self.pairs.entry((one, other)).or_default() += 1;
            }
        }
    }

    /// Power cuts by pairs of things in progress.
    pub fn pairs(&self) -> impl Iterator<Item = ((&'static str, &'static str), u64)> {
        self.pairs.iter().map(|(&pair, &count)| (pair, count))
    }

    /// Counts faults that struck in a round where the round and the recovery after it were good.
    pub fn survived(&mut self, kind: FaultKind, strikes: u64) {
        self.count_all(kind.name(), strikes);
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        for (pair, count) in &other.pairs {
            *self.pairs.entry(*pair).or_default() += count;
        }
    }

    /// The count of a name.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// All counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(&what, &count)| (what, count))
    }

    /// Marks and faults that were never met.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let faults = FaultKind::ALL.into_iter().map(FaultKind::name);
        MARKS.into_iter().chain(faults).filter(|what| self.of(what) == 0).collect()
    }
}
