//! The figures of one worker in one interval. A worker fills one share while the coordinator adds up the previous one: neither waits for
//! the other, and no second histogram is needed for each I/O.

use super::drift::DriftShare;
use super::result::{Backlog, Direction};
use super::tally::Tally;
use forebay_block::OpKind;

/// Length of the finest interval for the throughput of bursts, in nanoseconds.
pub const FINE_NS: u64 = 1_000_000;

/// Number of classes of the depth at issue.
pub const DEPTH_LEVELS: usize = 7;

/// Figures of one kind of I/O.
#[derive(Debug, Default)]
pub struct KindShare {
    /// I/Os that succeeded.
    pub ios: u64,
    /// Bytes of the I/Os that succeeded.
    pub bytes: u64,
    /// Number of I/Os that failed; their latencies are not counted.
    pub errors: u64,
    /// From intended to submitted.
    pub submission: Tally,
    /// From submitted to seen completed.
    pub device: Tally,
    /// I/Os that the warm-up of an open loop left waiting.
    pub backlog: Backlog,
    /// From intended to seen completed.
    pub total: Tally,
    /// Sum of the times in flight, including I/Os that failed and the backlog, for Little's law. The time that an open loop's I/O waits for
    /// its submission is not included.
    pub service_sum_ns: u64,
}

/// Completions of one millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fine {
    /// Number of I/Os.
    pub ios: u32,
    /// Bytes.
    pub bytes: u64,
}

/// I/Os intended in the warm-up that ended successfully within the measurement. They occupied the target like measured ones, so they count
/// in the rows of intervals and in bursts, but not in totals.
#[derive(Debug, Default)]
pub struct Carried {
    /// Reads.
    pub read: CarriedWay,
    /// Writes.
    pub write: CarriedWay,
    /// I/Os that transfer no data.
    pub other: CarriedWay,
}

/// Carried-over I/Os of one direction.
#[derive(Debug, Default)]
pub struct CarriedWay {
    /// Number, bytes and sum of latencies.
    pub sum: Direction,
    /// Their total latencies.
    pub total: Tally,
}

impl Carried {
    /// Counts one I/O.
    pub fn count(&mut self, kind: OpKind, bytes: u64, latency_ns: u64) {
        let way = match kind {
            OpKind::Read => &mut self.read,
            OpKind::Write | OpKind::WriteFua => &mut self.write,
            OpKind::Trim | OpKind::Flush | OpKind::Fsync => &mut self.other,
        };
        way.sum.add(Direction { ios: 1, bytes, latency_sum_ns: latency_ns });
        way.total.record(latency_ns);
    }

    /// Reads, writes and others.
    #[must_use]
    pub fn ways(&self) -> [&CarriedWay; 3] {
        [&self.read, &self.write, &self.other]
    }

    /// The sum of all directions.
    #[must_use]
    pub fn all(&self) -> Direction {
        let mut all = Direction::default();
        self.ways().into_iter().for_each(|way| all.add(way.sum));
        all
    }

    fn clear(&mut self) {
        for way in [&mut self.read, &mut self.write, &mut self.other] {
            way.sum = Direction::default();
            way.total.clear();
        }
    }
}

/// One worker's interval.
#[derive(Debug)]
pub struct Share {
    /// Index of the worker.
    pub worker: usize,
    /// Interval of the measurement, from 0.
    pub interval: u64,
    /// Number of intervals that the share covers: more than one if the coordinator lagged or nothing ended meanwhile.
    pub span: u64,
    /// Figures by [`OpKind`]; `None` for kinds that the job does not use.
    pub kinds: [Option<Box<KindShare>>; OpKind::ALL.len()],
    /// I/Os that were intended in the warm-up.
    pub carried: Carried,
    /// Completions by millisecond of the interval; the last entry includes later ones.
    pub fine: Vec<Fine>,
    /// Integral over time of the I/Os in flight that were submitted in the measurement, in I/O-nanoseconds. 64 bits suffice for a minute
    /// with 10^8 I/Os in flight.
    pub depth_integral: u64,
    /// I/Os that succeeded, by the depth at their issue: 1, 2 to 3, 4 to 7, ... 64 and more.
    pub depth_levels: [u64; DEPTH_LEVELS],
    /// I/Os that an open loop submitted more than 100 us late although a slot was free: the tool was late.
    pub late: u64,
    /// How often an open loop was to submit an I/O and had no slot free.
    pub no_slot: u64,
    /// Drift of a replay at recorded times.
    pub drift: Option<Box<DriftShare>>,
    /// The share includes figures of later intervals, because the coordinator lagged.
    pub is_lumped: bool,
    /// The worker's last share; its interval may be incomplete.
    pub is_last: bool,
    /// Last completion of a measured I/O or of the backlog, in nanoseconds of the clock.
    pub last_completion_ns: u64,
}

impl Share {
    /// An empty share for these kinds.
    pub fn new(worker: usize, kinds: &[OpKind], interval_ns: u64) -> Self {
        let mut shares: [Option<Box<KindShare>>; OpKind::ALL.len()] = Default::default();
        for &kind in kinds {
            shares[kind as usize] = Some(Box::default());
        }
        let fine = vec![Fine::default(); interval_ns.div_ceil(FINE_NS).max(1) as usize];
        Self {
            worker,
            interval: 0,
            span: 1,
            kinds: shares,
            carried: Carried::default(),
            fine,
            depth_integral: 0,
            depth_levels: [0; DEPTH_LEVELS],
            late: 0,
            no_slot: 0,
            drift: None,
            is_lumped: false,
            is_last: false,
            last_completion_ns: 0,
        }
    }

    /// The same share, which counts the drift of a replay if `has_drift`.
    pub fn with_drift(self, has_drift: bool) -> Self {
        Self { drift: has_drift.then(Box::default), ..self }
    }

    /// Empties the share for another use.
    pub fn clear(&mut self) {
        for kind in self.kinds.iter_mut().flatten() {
            (kind.ios, kind.bytes, kind.errors, kind.service_sum_ns) = (0, 0, 0, 0);
            kind.backlog = Backlog::default();
            kind.submission.clear();
            kind.device.clear();
            kind.total.clear();
        }
        if let Some(drift) = &mut self.drift {
            drift.clear();
        }
        self.carried.clear();
        self.fine.fill(Fine::default());
        self.depth_levels = [0; DEPTH_LEVELS];
        self.is_lumped = false;
        self.span = 1;
        (self.depth_integral, self.late, self.no_slot, self.last_completion_ns) = (0, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_share_is_as_a_new_one() {
        let mut share = Share::new(3, &[OpKind::Read, OpKind::Flush], 10_000_000).with_drift(true);
        let empty = format!("{share:?}");
        for kind in share.kinds.iter_mut().flatten() {
            (kind.ios, kind.bytes, kind.errors, kind.service_sum_ns) = (1, 2, 3, 4);
            kind.backlog = Backlog { ios: 1, bytes: 2, errors: 3 };
            kind.submission.record(5_000_000);
            kind.device.record(5_000_000);
            kind.total.record(5_000_000);
        }
        let drift = share.drift.as_mut().unwrap();
        drift.late.record(5_000_000);
        drift.gap.record(5_000_000);
        share.fine[9] = Fine { ios: 5, bytes: 6 };
        (share.depth_integral, share.late, share.no_slot, share.last_completion_ns) = (7, 8, 9, 10);
        share.depth_levels[3] = 4;
        share.carried.count(OpKind::Read, 4096, 5_000_000);
        share.clear();
        assert!(format!("{share:?}") == empty, "something was left");
    }
}
