//! A worker's messages as one host sends them to another: the figures of an interval, and the worker's end. Times are in nanoseconds since
//! the load began, which is the same instant on all hosts. Figures from another host may be anything, so they are checked against what a
//! worker can report before they are added up.

use super::failures::{Failure, Failures};
use super::ledger::{Message, WorkerEnd};
use super::result::{Backlog, Direction};
use super::share::{Carried, CarriedWay, DEPTH_LEVELS, Fine, KindShare, Share};
use super::tally::{PackedTally, Tally};
use super::thread_use::ThreadUse;
use crate::data::verify::Judged;
use forebay_block::OpKind;
use serde::{Deserialize, Serialize};

/// A worker's message to another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Figures {
    /// Figures of an interval.
    Share(Box<ShareFigures>),
    /// The worker's end.
    End(Box<EndFigures>),
}

/// Figures of an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareFigures {
    pub(super) worker: usize,
    pub(super) interval: u64,
    pub(super) span: u64,
    pub(super) kinds: Vec<KindFigures>,
    pub(super) carried: CarriedFigures,
    /// I/Os and bytes of each millisecond.
    pub(super) fine: Vec<(u32, u64)>,
    pub(super) depth_integral: u64,
    pub(super) depth_levels: [u64; DEPTH_LEVELS],
    pub(super) late: u64,
    pub(super) no_slot: u64,
    pub(super) is_lumped: bool,
    pub(super) is_last: bool,
    pub(super) last_completion_ns: u64,
}

/// I/Os that were intended in the warm-up and ended in this interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CarriedFigures {
    pub(super) read: CarriedWayFigures,
    pub(super) write: CarriedWayFigures,
    pub(super) other: CarriedWayFigures,
}

/// Carried-over I/Os of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CarriedWayFigures {
    pub(super) ios: u64,
    pub(super) bytes: u64,
    pub(super) total: PackedTally,
}

impl CarriedFigures {
    pub(super) fn of(carried: &Carried) -> Self {
        let [read, write, other] = carried.ways().map(|way| {
            let Direction { ios, bytes, .. } = way.sum;
            CarriedWayFigures { ios, bytes, total: way.total.pack() }
        });
        Self { read, write, other }
    }

    /// `None` where a tally is invalid, or does not have as many I/Os as reported.
    fn carried(&self) -> Option<Carried> {
        let of = |way: &CarriedWayFigures| {
            let total = Tally::unpack(&way.total)?;
            let sum = Direction { ios: way.ios, bytes: way.bytes, latency_sum_ns: total.sum_ns() };
            (total.count() == way.ios).then_some(CarriedWay { sum, total })
        };
        Some(Carried { read: of(&self.read)?, write: of(&self.write)?, other: of(&self.other)? })
    }
}

/// Figures of a kind of I/O in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KindFigures {
    pub(super) kind: String,
    pub(super) ios: u64,
    pub(super) bytes: u64,
    pub(super) errors: u64,
    /// I/Os that the warm-up left waiting: I/Os, bytes, failures.
    pub(super) backlog: (u64, u64, u64),
    pub(super) submission: PackedTally,
    pub(super) device: PackedTally,
    pub(super) total: PackedTally,
    pub(super) service_sum_ns: u64,
}

/// The end of a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndFigures {
    pub(super) worker: usize,
    pub(super) failures: u64,
    pub(super) mismatches: u64,
    pub(super) first: Vec<FailureFigures>,
    pub(super) scheduled: u64,
    pub(super) issued: u64,
    pub(super) backlog: u64,
    pub(super) hung: u32,
    pub(super) gave_up: bool,
    pub(super) spent: bool,
    pub(super) interrupted: bool,
    pub(super) ended_ns: u64,
    pub(super) cpu_ns: (u64, u64),
    pub(super) switches: Option<(u64, u64)>,
    pub(super) migrations: Option<u64>,
    pub(super) waited_ns: Option<u64>,
    /// Units judged in full, in part, not judged, wrong.
    pub(super) judged: Option<[u64; 4]>,
}

/// A failure that was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FailureFigures {
    kind: String,
    offset_bytes: u64,
    len_bytes: u32,
    at_ns: i64,
    what: String,
}

/// Longest text of a failure, in characters.
const WHAT_MAX: usize = 500;

fn kind(name: &str) -> Option<OpKind> {
    OpKind::ALL.into_iter().find(|kind| kind.name() == name)
}

impl Figures {
    /// A message of a worker of this process, for another host; the load began at `start_ns`.
    pub(super) fn of(message: &Message, start_ns: u64) -> Self {
        match message {
            Message::Share(share) => Self::Share(Box::new(ShareFigures::of(share, start_ns))),
            Message::End(end) => Self::End(Box::new(EndFigures::of(end, start_ns))),
        }
    }

    /// Index of the worker among all workers of its host.
    pub(super) fn worker(&self) -> usize {
        match self {
            Self::Share(share) => share.worker,
            Self::End(end) => end.worker,
        }
    }
}

impl ShareFigures {
    fn of(share: &Share, start_ns: u64) -> Self {
        let kinds = OpKind::ALL.into_iter().zip(&share.kinds).filter_map(|(kind, found)| {
            let found = found.as_ref()?;
            Some(KindFigures {
                kind: kind.name().to_owned(),
                ios: found.ios,
                bytes: found.bytes,
                errors: found.errors,
                backlog: (found.backlog.ios, found.backlog.bytes, found.backlog.errors),
                submission: found.submission.pack(),
                device: found.device.pack(),
                total: found.total.pack(),
                service_sum_ns: found.service_sum_ns,
            })
        });
        Self {
            worker: share.worker,
            interval: share.interval,
            span: share.span,
            kinds: kinds.collect(),
            carried: CarriedFigures::of(&share.carried),
            fine: share.fine.iter().map(|fine| (fine.ios, fine.bytes)).collect(),
            depth_integral: share.depth_integral,
            depth_levels: share.depth_levels,
            late: share.late,
            no_slot: share.no_slot,
            is_lumped: share.is_lumped,
            is_last: share.is_last,
            last_completion_ns: share.last_completion_ns.saturating_sub(start_ns),
        }
    }

    /// The share as if `worker` of this process had made it; `None` where a tally is invalid, or a kind is unknown or appears twice.
    pub(super) fn share(&self, worker: usize, start_ns: u64) -> Option<Share> {
        let mut share = Share::new(worker, &[], 1);
        for found in &self.kinds {
            let place = &mut share.kinds[kind(&found.kind)? as usize];
            let (submission, device, total) =
                (Tally::unpack(&found.submission)?, Tally::unpack(&found.device)?, Tally::unpack(&found.total)?);
            let (ios, bytes, errors) = found.backlog;
            let is_whole = [&submission, &device, &total].iter().all(|tally| tally.count() == found.ios);
            if place.is_some() || !is_whole {
                return None;
            }
            *place = Some(Box::new(KindShare {
                ios: found.ios,
                bytes: found.bytes,
                errors: found.errors,
                backlog: Backlog { ios, bytes, errors },
                submission,
                device,
                total,
                service_sum_ns: found.service_sum_ns,
            }));
        }
        share.carried = self.carried.carried()?;
        (share.interval, share.span) = (self.interval, self.span);
        share.fine = self.fine.iter().map(|&(ios, bytes)| Fine { ios, bytes }).collect();
        (share.depth_integral, share.depth_levels) = (self.depth_integral, self.depth_levels);
        (share.late, share.no_slot) = (self.late, self.no_slot);
        (share.is_lumped, share.is_last) = (self.is_lumped, self.is_last);
        share.last_completion_ns = start_ns + self.last_completion_ns;
        Some(share)
    }
}

impl EndFigures {
    fn of(end: &WorkerEnd, start_ns: u64) -> Self {
        let first = end.failures.first.iter().map(|failure| FailureFigures {
            kind: failure.kind.name().to_owned(),
            offset_bytes: failure.offset_bytes,
            len_bytes: failure.len_bytes,
            at_ns: failure.at_ns,
            what: failure.what.chars().take(WHAT_MAX).collect(),
        });
        Self {
            worker: end.worker,
            failures: end.failures.count,
            mismatches: end.failures.mismatches,
            first: first.collect(),
            scheduled: end.scheduled,
            issued: end.issued,
            backlog: end.backlog,
            hung: end.hung,
            gave_up: end.gave_up,
            spent: end.spent,
            interrupted: end.interrupted,
            ended_ns: end.ended_ns.saturating_sub(start_ns),
            cpu_ns: end.used.cpu_ns,
            switches: end.used.switches,
            migrations: end.used.migrations,
            waited_ns: end.used.waited_ns,
            judged: end.judged.map(|judged| [judged.whole, judged.partly, judged.unjudged, judged.wrong]),
        }
    }

    /// The end as if it were that of `worker` of this process; `None` where a kind is unknown or a text too long.
    pub(super) fn end(&self, worker: usize, start_ns: u64) -> Option<WorkerEnd> {
        let mut failures = Failures { count: self.failures, mismatches: self.mismatches, first: Vec::new() };
        for failure in &self.first {
            if failure.what.chars().count() > WHAT_MAX {
                return None;
            }
            failures.first.push(Failure {
                kind: kind(&failure.kind)?,
                offset_bytes: failure.offset_bytes,
                len_bytes: failure.len_bytes,
                at_ns: failure.at_ns,
                what: failure.what.clone(),
            });
        }
        Some(WorkerEnd {
            worker,
            failures,
            scheduled: self.scheduled,
            issued: self.issued,
            backlog: self.backlog,
            hung: self.hung,
            gave_up: self.gave_up,
            spent: self.spent,
            interrupted: self.interrupted,
            ended_ns: start_ns + self.ended_ns,
            used: ThreadUse {
                cpu_ns: self.cpu_ns,
                switches: self.switches,
                migrations: self.migrations,
                waited_ns: self.waited_ns,
                modelled_ns: None,
            },
            records_dropped: 0,
            judged: self.judged.map(|[whole, partly, unjudged, wrong]| Judged { whole, partly, unjudged, wrong }),
        })
    }
}
