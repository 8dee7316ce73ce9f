//! Totals of a capture: counts, depths and latencies by operation.

use crate::{Flags, NOT_KNOWN, Op, Request};
use hdrhistogram::Histogram;

/// Longest distinguished time in nanoseconds, an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Times in nanoseconds with a precision of 1 %.
pub type Latencies = Histogram<u64>;

/// Totals of one operation.
#[derive(Clone, Debug)]
pub struct OpTotals {
    /// Number of requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Number of requests that failed.
    pub failed: u64,
    /// Time from issue to completion in nanoseconds.
    pub latency_ns: Latencies,
    /// Time from the creation of a request to its issue in nanoseconds.
    pub queued_ns: Latencies,
}

/// Totals over requests.
#[derive(Clone, Debug)]
pub struct Totals {
    ops: Vec<OpTotals>,
    /// Number of requests by the depth at their issue.
    depths: Vec<u64>,
}

impl Default for Totals {
    fn default() -> Self {
        // The bounds and digits are within the library's, so it cannot refuse them.
        let histogram =
            || Histogram::new_with_max(LONGEST_NS, 2).unwrap_or_else(|_| unreachable!("0 to 5 digits are allowed"));
        let op = || OpTotals { requests: 0, bytes: 0, failed: 0, latency_ns: histogram(), queued_ns: histogram() };
        Self { ops: Op::ALL.iter().map(|_| op()).collect(), depths: Vec::new() }
    }
}

impl Totals {
    /// Adds a request.
    pub fn add(&mut self, request: &Request) {
        let Some(op) = self.ops.get_mut(request.op as usize) else { return };
        op.requests += 1;
        op.bytes = op.bytes.saturating_add(request.len_bytes);
        op.failed += u64::from(request.flags.has(Flags::ERROR));
        if request.latency_ns != NOT_KNOWN {
            op.latency_ns.saturating_record(request.latency_ns);
        }
        if request.queued_ns != NOT_KNOWN {
            op.queued_ns.saturating_record(request.queued_ns);
        }
        let depth = usize::from(request.depth);
        if self.depths.len() <= depth {
            self.depths.resize(depth + 1, 0);
        }
        self.depths[depth] += 1;
    }

    /// Totals by operation, for operations that occurred.
    pub fn ops(&self) -> impl Iterator<Item = (Op, &OpTotals)> {
        Op::ALL.into_iter().zip(&self.ops).filter(|(_, op)| op.requests > 0)
    }

    /// Totals of one operation.
    #[must_use]
    pub fn op(&self, op: Op) -> Option<&OpTotals> {
        self.ops.get(op as usize)
    }

    /// Requests and bytes of these operations together.
    #[must_use]
    pub fn sum(&self, ops: &[Op]) -> (u64, u64) {
        let of = ops.iter().filter_map(|op| self.op(*op));
        of.fold((0, 0), |(requests, bytes), op| (requests + op.requests, bytes + op.bytes))
    }

    /// Number of all requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.ops.iter().map(|op| op.requests).sum()
    }

    /// Requests by the depth at their issue, for depths that occurred.
    pub fn depths(&self) -> impl Iterator<Item = (usize, u64)> {
        self.depths.iter().copied().enumerate().filter(|(_, requests)| *requests > 0)
    }

    /// Mean depth at issue; 0 without requests.
    #[must_use]
    pub fn mean_depth(&self) -> f64 {
        let (sum, requests) = self
            .depths()
            .fold((0.0, 0), |(sum, all), (depth, requests)| (sum + depth as f64 * requests as f64, all + requests));
        if requests == 0 { 0.0 } else { sum / requests as f64 }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn times_and_depths_are_those_of_the_requests() {
        let mut totals = Totals::default();
        for index in 1..=100 {
            let request = Request {
                latency_ns: index * 1000,
                queued_ns: NOT_KNOWN,
                depth: (index % 2) as u16 + 1,
                ..Request::new(0, Op::Write, 0, 512)
            };
            totals.add(&request);
        }
        totals.add(&Request { latency_ns: u64::MAX - 1, ..Request::new(0, Op::Write, 0, 512) });
        let op = totals.op(Op::Write).unwrap();
        let median = op.latency_ns.value_at_percentile(50.0);
        assert!((50_000..=52_000).contains(&median), "{median}");
        assert!(op.latency_ns.max() >= LONGEST_NS && op.queued_ns.is_empty());
        assert_eq!((op.requests, op.bytes, totals.requests()), (101, 101 * 512, 101));
        assert_eq!(totals.depths().collect::<Vec<_>>(), [(0, 1), (1, 50), (2, 50)]);
    }
}
