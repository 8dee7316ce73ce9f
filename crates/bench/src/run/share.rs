//! What one worker saw in one interval. A worker fills one while the coordinator adds up the one before: neither waits
//! for the other, and no second histogram has to be kept per I/O.

use super::tally::Tally;
use forebay_block::OpKind;

/// Length of the finest interval for the throughput of bursts, in nanoseconds.
pub const FINE_NS: u64 = 1_000_000;

/// Figures of one kind of I/O.
#[derive(Debug, Default)]
pub struct KindShare {
    /// I/Os that succeeded.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// I/Os that failed; their latencies are not counted.
    pub errors: u64,
    /// From wanted to handed over.
    pub submission: Tally,
    /// From handed over to seen finished.
    pub device: Tally,
    /// Both.
    pub total: Tally,
    /// Sum of the times from the first touch to the end, also of I/Os that failed, for Little's law: an open loop's
    /// wait is not in it.
    pub service_sum_ns: u64,
}

/// Completions of one millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fine {
    /// I/Os.
    pub ios: u32,
    /// Bytes.
    pub bytes: u64,
}

/// One worker's interval.
#[derive(Debug)]
pub struct Share {
    /// Which worker.
    pub worker: usize,
    /// Interval of the measurement, from 0.
    pub interval: u64,
    /// Figures by [`OpKind`]; empty for kinds that the job has not.
    pub kinds: [Option<Box<KindShare>>; OpKind::ALL.len()],
    /// Completions by millisecond of the interval; the last one takes what comes later.
    pub fine: Vec<Fine>,
    /// Integral of the measured I/Os in flight over time, in I/O-nanoseconds, within the measurement. 64 bits last for a
    /// minute of 10^8 I/Os in flight.
    pub depth_integral: u64,
    /// I/Os that an open loop handed over later than intended by more than 100 us with a slot free: the tool's own
    /// lateness.
    pub late: u64,
    /// Times that an open loop wanted to hand over and had no slot free.
    pub no_slot: u64,
    /// Last completion of a measured I/O, in nanoseconds of the clock.
    pub last_completion_ns: u64,
}

impl Share {
    /// An empty one for these kinds.
    pub fn new(worker: usize, kinds: &[OpKind], interval_ns: u64) -> Self {
        let mut shares: [Option<Box<KindShare>>; OpKind::ALL.len()] = Default::default();
        for &kind in kinds {
            shares[kind as usize] = Some(Box::default());
        }
        let fine = vec![Fine::default(); interval_ns.div_ceil(FINE_NS).max(1) as usize];
        Self { worker, interval: 0, kinds: shares, fine, depth_integral: 0, late: 0, no_slot: 0, last_completion_ns: 0 }
    }

    /// Empties it for another use.
    pub fn clear(&mut self) {
        for kind in self.kinds.iter_mut().flatten() {
            (kind.ios, kind.bytes, kind.errors, kind.service_sum_ns) = (0, 0, 0, 0);
            kind.submission.clear();
            kind.device.clear();
            kind.total.clear();
        }
        self.fine.fill(Fine::default());
        (self.depth_integral, self.late, self.no_slot, self.last_completion_ns) = (0, 0, 0, 0);
    }
}
