//! Summaries of a policy's rows, and whether the promise for our policy holds.

use super::requests::Origin;
use super::run::Row;
use super::staging::Reads;
use crate::mean::mean;
use forebay_placement::cache::Policy;
use std::collections::BTreeSet;

/// The promise: our policy loses no more than this against the better of LRU and ARC.
pub const LOSS_MAX: f64 = 0.02;
/// Where even the optimum hits less than this, next to nothing is read again and the row does not distinguish policies.
pub const TELLING_MIN: f64 = 0.01;
/// Least number of streams for a verdict on streams in general.
const STREAMS_MIN: usize = 3;

impl Row {
    pub fn ratio(&self, hits: u64) -> f64 {
        hits as f64 / self.reads.max(1) as f64
    }

    /// Hits over counted reads.
    pub fn hit_ratio(&self, policy: Policy) -> f64 {
        self.ratio(self.outcomes[&policy].hits)
    }

    /// Hits of the better of LRU and ARC.
    fn better(&self) -> u64 {
        self.outcomes[&Policy::Lru].hits.max(self.outcomes[&Policy::Arc].hits)
    }

    /// Hits of a policy over those of the better of LRU and ARC; none where that one has no hits.
    pub fn of_better(&self, policy: Policy) -> Option<f64> {
        (self.better() > 0).then(|| self.outcomes[&policy].hits as f64 / self.better() as f64)
    }

    fn is_telling(&self) -> bool {
        self.ratio(self.optimum_hits) >= TELLING_MIN
    }
}

/// Rows that are judged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    Recorded,
    /// The recorded rows, where a block that one read ended in and another continues inside is read once.
    RecordedOnce,
    Generated,
    Made,
}

impl Set {
    pub const ALL: [Self; 4] = [Self::Recorded, Self::RecordedOnce, Self::Generated, Self::Made];

    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::RecordedOnce => "recorded, blocks between two requests read once",
            Self::Generated => "generated",
            Self::Made => "made for the size",
        }
    }

    fn takes(self, row: &Row, rows: &[Row]) -> bool {
        let is_replaced = |row: &Row| {
            let same = |other: &&Row| other.stream == row.stream && other.size_percent == row.size_percent;
            rows.iter().filter(same).any(|other| other.counted == Reads::OnceBetweenRequests)
        };
        match (self, row.origin) {
            (Self::Recorded, Origin::Recorded) => row.counted == Reads::All,
            (Self::RecordedOnce, Origin::Recorded) => row.counted != Reads::All || !is_replaced(row),
            (Self::Generated, Origin::Generated) | (Self::Made, Origin::Made) => true,
            _ => false,
        }
    }

    /// The rows of the set; empty where they would equal those of another set.
    pub fn of(self, rows: &[Row]) -> Vec<&Row> {
        if self == Self::RecordedOnce && rows.iter().all(|row| row.counted == Reads::All) {
            return Vec::new();
        }
        rows.iter().filter(|row| self.takes(row, rows)).collect()
    }
}

/// Summary of a policy's rows.
pub struct Summary<'a> {
    pub policy: Policy,
    pub mean_ratio: f64,
    /// Hits over those of the better of LRU and ARC: the mean, and the lowest row.
    pub mean_of_better: Option<f64>,
    pub worst: Option<(f64, &'a Row)>,
    pub rows_below: usize,
    /// Mean of blocks copied over reads.
    pub mean_fills: f64,
}

impl<'a> Summary<'a> {
    pub fn of(policy: Policy, rows: &[&'a Row]) -> Self {
        let beside: Vec<(f64, &Row)> =
            rows.iter().filter_map(|&row| row.of_better(policy).map(|part| (part, row))).collect();
        Self {
            policy,
            mean_ratio: mean(rows.iter().map(|row| row.hit_ratio(policy))),
            mean_of_better: (!beside.is_empty()).then(|| mean(beside.iter().map(|(part, _)| *part))),
            worst: beside.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0)),
            rows_below: beside.iter().filter(|(part, _)| *part < 1.0 - LOSS_MAX).count(),
            mean_fills: mean(rows.iter().map(|row| row.ratio(row.outcomes[&policy].fills))),
        }
    }
}

/// Rows of which even the optimum hits next to nothing.
pub fn untelling(rows: &[&Row]) -> usize {
    rows.iter().filter(|row| !row.is_telling()).count()
}

/// Whether a promise for our policy holds over a set of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Yes,
    No,
    /// No row contradicts it, but there are too few streams.
    NotDecided,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::NotDecided => "not decided",
        }
    }

    fn of(holds: bool, rows: &[&Row]) -> Self {
        let telling: BTreeSet<&str> =
            rows.iter().filter(|row| row.is_telling()).map(|row| row.stream.as_str()).collect();
        match holds {
            false => Self::No,
            true if telling.len() < STREAMS_MIN => Self::NotDecided,
            true => Self::Yes,
        }
    }
}

/// The promises for our policy and their verdicts over these rows.
pub fn verdicts(rows: &[&Row]) -> [(&'static str, Verdict); 2] {
    let [lru, arc, ours] = [Policy::Lru, Policy::Arc, Policy::Ours].map(|policy| Summary::of(policy, rows));
    let is_above = ours.mean_ratio > lru.mean_ratio && ours.mean_ratio > arc.mean_ratio;
    [
        ("on average above LRU and ARC", Verdict::of(is_above, rows)),
        ("never more than 2 % below the better of them", Verdict::of(ours.rows_below == 0, rows)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::run::Outcome;
    use super::*;

    fn row(stream: &str, origin: Origin, lru: u64, arc: u64, ours: u64, optimum_hits: u64) -> Row {
        let of = |policy| match policy {
            Policy::Arc => arc,
            Policy::Ours => ours,
            _ => lru,
        };
        Row {
            stream: stream.to_owned(),
            origin,
            counted: Reads::All,
            size_percent: 1.0,
            places: 10,
            staged_blocks: 0,
            read_blocks: 1000,
            reads: 10_000,
            outcomes: Policy::ALL.map(|policy| (policy, Outcome { hits: of(policy), fills: 5000 })).into(),
            optimum_hits,
        }
    }

    fn of(rows: &[Row]) -> [Verdict; 2] {
        verdicts(&rows.iter().collect::<Vec<_>>()).map(|(_, verdict)| verdict)
    }

    #[test]
    fn a_promise_holds_fails_or_is_not_decided() {
        let good = |stream| row(stream, Origin::Recorded, 1000, 1100, 1200, 3000);
        let empty = |stream| row(stream, Origin::Recorded, 0, 3, 3, 9);
        assert_eq!(of(&[good("a"), good("b"), good("c")]), [Verdict::Yes; 2]);
        assert_eq!(of(&[good("a"), empty("b"), empty("c")]), [Verdict::NotDecided; 2], "one stream speaks");
        // 2 % below in one row, above on average; then the reverse.
        let below = row("d", Origin::Recorded, 1000, 1000, 979, 3000);
        assert_eq!(of(&[good("a"), good("b"), good("c"), below]), [Verdict::Yes, Verdict::No]);
        let little = |stream| row(stream, Origin::Recorded, 1000, 1000, 990, 3000);
        assert_eq!(of(&[little("a"), little("b"), little("c")]), [Verdict::No, Verdict::Yes]);
    }

    #[test]
    fn sets_are_apart() {
        let once = Row { counted: Reads::OnceBetweenRequests, ..row("a", Origin::Recorded, 1, 1, 2, 500) };
        let mut rows = vec![
            row("a", Origin::Recorded, 1, 1, 1, 500),
            row("b", Origin::Recorded, 1, 1, 1, 9),
            row("c", Origin::Generated, 1, 1, 1, 500),
            row("d", Origin::Made, 1, 1, 1, 500),
        ];
        let names = |set: Set, rows: &[Row]| -> Vec<(String, u64)> {
            set.of(rows).iter().map(|row| (row.stream.clone(), row.outcomes[&Policy::Ours].hits)).collect()
        };
        assert_eq!(names(Set::RecordedOnce, &rows), []);
        rows.push(once);
        let named = |list: &[(&str, u64)]| list.iter().map(|&(name, hits)| (name.to_owned(), hits)).collect::<Vec<_>>();
        assert_eq!(names(Set::Recorded, &rows), named(&[("a", 1), ("b", 1)]));
        assert_eq!(names(Set::RecordedOnce, &rows), named(&[("b", 1), ("a", 2)]));
        assert_eq!(names(Set::Generated, &rows), named(&[("c", 1)]));
        assert_eq!(names(Set::Made, &rows), named(&[("d", 1)]));
        assert_eq!(untelling(&Set::Recorded.of(&rows)), 1);
        let summary = Summary::of(Policy::Ours, &Set::RecordedOnce.of(&rows)).worst;
        assert_eq!(summary.map(|(part, row)| (part, row.stream.as_str())), Some((1.0, "b")));
    }
}
